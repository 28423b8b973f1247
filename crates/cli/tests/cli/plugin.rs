//! Programs that are not built in: shared objects as plug-ins, and what is handed to Python.

use crate::harness::{Place, Ran};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a plug-in into the place; `library` is its name there.
fn compile(place: &Place, source: &Path, library: &str, more: &[&str]) {
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]).args(more);
    compiler.arg("-I").arg(root().join("crates/capi/include")).arg(source).arg("-o").arg(place.path().join(library));
    let built = compiler.output().expect("a C compiler, which Rust links with, too");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

/// A place with the example in it.
fn example() -> Place {
    let place = Place::new();
    compile(&place, &root().join("examples/c/plugin.c"), "libplugin.so", &[]);
    place
}

/// A place with a plug-in of this source.
fn written(source: &str) -> Place {
    let place = Place::new();
    let file = place.path().join("mine.c");
    std::fs::write(&file, source).expect("writes");
    compile(&place, &file, "libmine.so", &[]);
    place
}

/// A plug-in with one small program, in which these places are filled: @KERNEL, @BUILD, @ORCHESTRATE, @BEFORE and @AFTER the
/// description of the program.
fn odd(filled: &[(&str, &str)]) -> Place {
    let mut source = r#"
#include <plimsoll_plugin.h>
static plimsoll_kernel kernel;
static int32_t body(const plimsoll_call *call) { (void)call; @KERNEL return 0; }
static plimsoll_error *orchestrate(plimsoll_orchestrator *o, void *instance) {
    (void)instance;
    plimsoll_arg args[] = {plimsoll_output(plimsoll_dtype_element(PLIMSOLL_F32), 1, 4, 0)};
    plimsoll_tensor made[1];
    PLIMSOLL_TRY(plimsoll_submit(o, kernel, args, 1, made, 1));
    @ORCHESTRATE
    return NULL;
}
static plimsoll_error *build(plimsoll_device *device, const uint64_t *settings, void **instance) {
    (void)settings, (void)instance;
    plimsoll_kernel_options options = PLIMSOLL_KERNEL_OPTIONS;
    options.name = "odd";
    options.body = body;
    PLIMSOLL_TRY(plimsoll_kernel_register(device, &options, &kernel));
    @BUILD
    return NULL;
}
@BEFORE
static const plimsoll_plugin_program PROGRAMS[] = {
    {.name = "odd", .build = build, .orchestrate = orchestrate @AFTER},
};
PLIMSOLL_EXPORT const plimsoll_plugin *plimsoll_register(const plimsoll_host *host) {
    static const plimsoll_plugin PLUGIN = PLIMSOLL_PLUGIN_OF(PROGRAMS);
    return plimsoll_use_host(host) ? &PLUGIN : NULL;
}
"#
    .to_owned();
    for (place, text) in filled {
        assert!(source.contains(place));
        source = source.replace(place, text);
    }
    ["@KERNEL", "@BUILD", "@ORCHESTRATE", "@BEFORE", "@AFTER"]
        .iter()
        .for_each(|place| source = source.replace(place, ""));
    written(&source)
}

#[track_caller]
fn refused(ran: &Ran, code: i32, words: &[&str]) {
    assert_eq!(ran.code, Some(code), "{}{}", ran.out, ran.err);
    for word in words {
        assert!(ran.err.contains(word), "{word:?} is not in {}", ran.err);
    }
}

#[test]
fn a_plug_in_runs_on_every_engine_streamed_and_prebuilt() {
    let place = example();
    for machine in ["--workers 1", "--workers 3", "--engine emulated --arch a5", "--engine virtual --arch a2a3"] {
        for how in ["", "--prebuilt", "--rounds 3", "--prebuilt --rounds 3"] {
            let ran = place.good(&format!("run ./libplugin.so {machine} {how} --json"));
            let answer: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
            assert_eq!(answer["verified"], true, "{machine} {how}: {answer}");
            assert_eq!(answer["program"], "./libplugin.so");
            assert_eq!(answer["detail"], "all 4096 elements equal");
            let rounds = if how.contains("rounds") { 3 } else { 1 };
            assert_eq!(answer["tasks"], 128 * rounds, "{machine} {how}");
        }
    }
}

#[test]
fn settings_records_and_sizes_are_those_of_any_program() {
    let place = example();
    let ran = place.good("run ./libplugin.so --set steps=3 --set side=32 --profile --out run");
    assert!(ran.out.starts_with("./libplugin.so: verified (all 1024 elements equal)"), "{}", ran.out);
    let manifest = place.manifest("run");
    assert_eq!(manifest["program"], "./libplugin.so");
    assert_eq!(manifest["tasks"], 12);
    let scopes = place.good("scopes run").out;
    assert!(scopes.contains("examples/c/plugin.c:"), "scopes are told by their lines in C: {scopes}");
    place.good("check run");
    let listed = place.good("list ./libplugin.so").out;
    assert!(listed.contains("stencil: a five-point stencil") && listed.contains("--set steps=8"), "{listed}");
    let sized = place.good("size ./libplugin.so --set steps=3").out;
    assert!(sized.contains("next: plimsoll run ./libplugin.so --set steps=3 --ring-task-window"), "{sized}");
    let flags = sized.rsplit("next: plimsoll ").next().expect("advice");
    place.good(flags.trim());
    place.good("run ./libplugin.so:stencil");
    let runs = place.files("outputs");
    assert!(runs.iter().any(|run| run.starts_with("stencil_")), "directories have the program's own name: {runs:?}");
    refused(&place.run("run ./libplugin.so --set steps=0"), 2, &["out of range", "sweeps over the grid"]);
    refused(&place.run("run ./libplugin.so --set speed=1"), 2, &["no setting \"speed\"", "side, tile, steps"]);
    refused(&place.run("run ./libplugin.so --set tile=10"), 2, &["The tile does not divide the side."]);
    refused(&place.run("run ./libplugin.so:other"), 2, &["no program \"other\"", "It has stencil"]);
    refused(&place.run("run ./libplugin.so --arch a5 --isolate"), 2, &["--isolate cannot be used with ./libplugin.so"]);
}

#[test]
fn what_is_no_plug_in_is_refused_in_words() {
    let place = written("int nothing;");
    refused(&place.run("run ./libmine.so"), 2, &["exports no function plimsoll_register"]);
    refused(&place.run("run ./mine.c"), 2, &["./mine.c cannot be loaded", "-shared -fPIC"]);
    refused(&place.run("run ./missing.so"), 2, &["There is no file ./missing.so"]);
    refused(&place.run("size ./missing.so"), 2, &["neither a run nor a program"]);
    let register = |body: &str| {
        let head = "#include <plimsoll_plugin.h>\nstatic plimsoll_plugin p = {PLIMSOLL_ABI_VERSION, sizeof p, sizeof(plimsoll_plugin_program), 1, NULL};\n";
        let function =
            "PLIMSOLL_EXPORT const plimsoll_plugin *plimsoll_register(const plimsoll_host *host) { (void)host; BODY }";
        written(&format!("{head}{}", function.replace("BODY", body))).run("run ./libmine.so")
    };
    refused(&register("return NULL;"), 2, &["plimsoll_register refused the command", "version 1"]);
    refused(&register("p.abi_version = 7; return &p;"), 2, &["made for version 7"]);
    refused(&register("p.size = 8; return &p;"), 2, &["in 8 bytes"]);
    refused(&register("return &p;"), 2, &["describes 1 programs"]);
    let one = "static plimsoll_plugin_program one; p.programs = &one;";
    refused(&register(&format!("{one} return &p;")), 2, &["no proper name"]);
    refused(&register(&format!("{one} one.name = \"x\"; return &p;")), 2, &["x has no orchestrate"]);
    refused(&register(&format!("{one} p.program_size = 4; return &p;")), 2, &["sizeof(plimsoll_plugin_program)"]);
}

#[test]
fn what_goes_wrong_inside_a_plug_in_is_told() {
    let run = |filled: &[(&str, &str)]| odd(filled).run("run ./libmine.so");
    refused(&run(&[("@KERNEL", "return 3;")]), 1, &["KernelFailed", "odd", "it returned 3"]);
    refused(&run(&[("@KERNEL", "call->fail(call, \"no luck\"); return 1;")]), 1, &["no luck"]);
    let own = "return plimsoll_error_new(PLIMSOLL_EXPLICIT_FATAL, \"Nothing to do.\");";
    refused(&run(&[("@ORCHESTRATE", own)]), 1, &["ExplicitFatal", "Nothing to do."]);
    let null = "return plimsoll_submit(o, kernel, NULL, 1, NULL, 0);";
    refused(&run(&[("@ORCHESTRATE", null)]), 1, &["InvalidArgs", "null pointer"]);
    let open = "PLIMSOLL_TRY(PLIMSOLL_SCOPE(o));";
    refused(&run(&[("@ORCHESTRATE", open)]), 1, &["left 1 of its scopes open"]);
    let runs = "return plimsoll_run(device, NULL, orchestrate, NULL);";
    refused(&run(&[("@BUILD", runs)]), 2, &["cannot run anything"]);
    let keep = "static plimsoll_device *kept; kept = device; *instance = &kept; plimsoll_device_close(device);";
    let used = "return plimsoll_kernel_named(*(plimsoll_device **)instance, \"odd\", &kernel);";
    refused(&run(&[("@BUILD", keep), ("@ORCHESTRATE", used)]), 1, &["after the program was built"]);
    let check = "static int32_t wrong(void *instance, char *detail, size_t room) { (void)instance; memset(detail, 'x', room); return 1; }";
    let ran = run(&[("@BEFORE", check), ("@AFTER", ", .verify = wrong")]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("NOT verified (xxx"), "also a text without its end is shown: {}", ran.out);
}

#[test]
fn elements_that_a_dump_of_everything_leaves_out_are_told() {
    let untracked = "plimsoll_arg again[] = {plimsoll_use_(PLIMSOLL_NO_DEP_INOUT, &made[0])};
        PLIMSOLL_TRY(plimsoll_submit(o, kernel, again, 1, NULL, 0));";
    let place = odd(&[("@ORCHESTRATE", untracked)]);
    let ran = place.good("run ./libmine.so --dump-args=2 --require-lossless --out run");
    assert!(ran.err.contains("cut short: 2") && ran.err.contains("(no_dep)"), "{}", ran.err);
    let listed = place.good("args run --role inout --json").json();
    assert_eq!(
        (listed["args"][0]["truncation"].as_str(), listed["args"].as_array().map(Vec::len)),
        (Some("no_dep"), Some(2))
    );
    refused(&place.run("args run --replay r0t1 --plugin ./libmine.so"), 2, &["(no_dep)"]);
}

#[test]
fn one_of_several_programs_is_named() {
    let second = "}, {.name = \"even\", .orchestrate = orchestrate";
    let place = odd(&[("@AFTER", second)]);
    refused(&place.run("run ./libmine.so"), 2, &["several programs: odd, even", "./libmine.so:odd"]);
    let answer = place.good("run ./libmine.so:odd --json").out;
    assert!(answer.contains("\"verified\":null"), "it has no check: {answer}");
    refused(&place.run("run ./libmine.so:even"), 1, &["belongs to another device"]);
    let twice = odd(&[("@AFTER", &second.replace("even", "odd"))]);
    refused(&twice.run("run ./libmine.so"), 2, &["Two of its programs are called \"odd\""]);
    let setting = |fields: &str| {
        let settings = format!("static const plimsoll_setting S[] = {{{{{fields}}}}};");
        let place = odd(&[("@BEFORE", &settings), ("@AFTER", ", .settings = S, .setting_count = 1")]);
        place.run("run ./libmine.so --set kind=large")
    };
    refused(&setting(".key = \"n\", .usual = 5, .max = 4"), 2, &["n is 5 if nothing is said, and goes from 0 to 4"]);
    refused(&setting(".key = \"n n\""), 2, &["Setting 0 of its program odd", "no proper key"]);
    refused(&setting(".key = \"kind\", .words = \"small,huge\""), 2, &["one of small, huge"]);
    assert_eq!(setting(".key = \"kind\", .words = \"small,large\"").code, Some(0));
}

/// A kernel of a plug-in that never returns: the command ends, with the records and words that any hang has.
#[test]
fn a_kernel_that_never_returns_is_explained() {
    let place = odd(&[("@KERNEL", "for (volatile int on = 1; on;) {}")]);
    let ran = place.run("run ./libmine.so --workers 2 --op-timeout 200ms --out run");
    refused(&ran, 1, &["OpTimeout", "odd"]);
    assert_eq!(place.manifest("run")["status"], "hung");
    place.good("check run");
}

/// A Python that prints its arguments, knows the package's version, or does not.
fn fake_python(place: &Place, version: &str) -> PathBuf {
    let file = place.path().join("python");
    let script =
        format!("#!/bin/sh\nif [ \"$3\" = --version ]; then {version}; exit $?; fi\necho \"python $*\"\nexit 7\n");
    std::fs::write(&file, script).expect("writes");
    let mut permissions = std::fs::metadata(&file).expect("there").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&file, permissions).expect("sets");
    file
}

#[test]
fn a_program_in_python_is_handed_to_python_with_every_flag() {
    let place = Place::new();
    let run = |version: &str, line: &str| {
        let python = fake_python(&place, version);
        let mut command = place.command(line.split_whitespace());
        Ran::of(command.env("PLIMSOLL_PYTHON", python).output().expect("starts"))
    };
    let same = format!("echo plimsoll {}", env!("CARGO_PKG_VERSION"));
    let ran = run(&same, "run mine.py:program --set n=4 --enable-chip-swimlane --engine virtual --json");
    assert_eq!(ran.code, Some(7), "its exit is the command's: {}", ran.err);
    assert_eq!(ran.out, "python -m plimsoll run mine.py:program --set n=4 --swimlane --engine virtual --json\n");
    refused(&run("echo plimsoll 9.9.9", "run mine.py"), 2, &["version \"9.9.9\"", "Both must be the same"]);
    let missing = "echo No module named plimsoll >&2; false";
    refused(&run(missing, "run mine.py:p"), 2, &["No module named plimsoll", "PLIMSOLL_PYTHON"]);
    refused(&run(&same, "run mine.py:p --arch a5 --isolate"), 2, &["--isolate cannot be used with mine.py:p"]);
    refused(&run(&same, "run mine.py:p --wrong"), 2, &["--wrong"]);
    refused(&run(&same, "list mine.py:p"), 2, &["is a program in Python"]);
    let mut command = place.command(["run", "mine.py"]);
    let ran = Ran::of(command.env("PLIMSOLL_PYTHON", "./nowhere").output().expect("starts"));
    refused(&ran, 2, &["./nowhere cannot be started"]);
    // Without the variable it is the active environment's.
    let place = Place::new();
    std::fs::create_dir(place.path().join("bin")).expect("makes");
    std::fs::rename(fake_python(&place, &same), place.path().join("bin/python")).expect("moves");
    let mut command = place.command(["run", "mine.py"]);
    let ran = Ran::of(command.env_remove("PLIMSOLL_PYTHON").env("VIRTUAL_ENV", place.path()).output().expect("starts"));
    assert_eq!((ran.code, ran.out.as_str()), (Some(7), "python -m plimsoll run mine.py\n"), "{}", ran.err);
}
