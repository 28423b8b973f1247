//! The header says what the library does: functions, constants and the layout of every structure.
#![allow(clippy::unwrap_used)]

use plimsoll::abi::{Dtype, ErrorCode};
use plimsoll_capi::entries::{PROTOTYPES, Prototype};
use plimsoll_capi::plugin::{CPlugin, CPluginProgram, CSetting};
use plimsoll_capi::types::*;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const BEGIN: &str = "/* generated: begin (PLIMSOLL_BLESS=1 cargo test -p plimsoll-capi --test header) */\n";
const END: &str = "/* generated: end */\n";

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// `ScopeDeadlock` as `SCOPE_DEADLOCK`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (at, c) in name.char_indices() {
        if at > 0 && c.is_uppercase() {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// A Rust type as C writes it.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(to) = rust.strip_prefix("*const ") {
        let to = c_type(to);
        return format!("const {}{}*", to, if to.ends_with('*') { "" } else { " " });
    }
    if let Some(to) = rust.strip_prefix("*mut ") {
        let to = c_type(to);
        return format!("{}{}*", to, if to.ends_with('*') { "" } else { " " });
    }
    match rust {
        "()" | "c_void" => "void".into(),
        "c_char" => "char".into(),
        "u32" => "uint32_t".into(),
        "u64" => "uint64_t".into(),
        "usize" => "size_t".into(),
        "Option<ProgramFn>" => "plimsoll_program_fn".into(),
        name => format!("plimsoll_{}", snake(name.strip_prefix('C').unwrap_or(name))),
    }
}

fn declared(of: &str, name: &str) -> String {
    let kind = c_type(of);
    format!("{kind}{}{name}", if kind.ends_with('*') { "" } else { " " })
}

fn params(prototype: &Prototype) -> String {
    let list: Vec<_> = prototype.params.iter().map(|(name, of)| declared(of, name)).collect();
    if list.is_empty() { "void".into() } else { list.join(", ") }
}

fn generated() -> String {
    let mut out = String::new();
    writeln!(out, "/* The type of a tensor's elements. */\ntypedef enum plimsoll_dtype {{").unwrap();
    for dtype in Dtype::ALL {
        writeln!(out, "    PLIMSOLL_{} = {},", dtype.name().to_uppercase(), dtype as u8).unwrap();
    }
    let out = out.trim_end_matches(",\n").to_owned();
    let mut out = out + "\n} plimsoll_dtype;\n\n/* Why a call or a run failed. */\ntypedef enum plimsoll_code {\n";
    let codes: Vec<_> = ErrorCode::ALL
        .iter()
        .map(|code| format!("    PLIMSOLL_{} = {}", snake(code.name()).to_uppercase(), code.number()))
        .collect();
    writeln!(out, "{}\n}} plimsoll_code;\n", codes.join(",\n")).unwrap();
    out += "/* Every function, for plug-ins. */\ntypedef struct plimsoll_host {\n    uint32_t abi_version;\n    uint32_t size;\n";
    for one in PROTOTYPES {
        writeln!(out, "    {};", declared(one.returns, &format!("(*{})({})", one.name, params(one)))).unwrap();
    }
    out += "} plimsoll_host;\n\n#ifdef PLIMSOLL_PLUGIN\n";
    out += "/* Set this in plimsoll_register. */\nstatic const plimsoll_host *plimsoll_functions;\n";
    for one in PROTOTYPES {
        writeln!(out, "#define {0} (plimsoll_functions->{0})", one.name).unwrap();
    }
    out += "#else\n";
    for one in PROTOTYPES {
        for line in one.about {
            writeln!(out, "/* {} */", line.trim()).unwrap();
        }
        writeln!(out, "{};", declared(one.returns, &format!("{}({})", one.name, params(one)))).unwrap();
    }
    out + "#endif\n"
}

#[test]
fn functions_and_constants_are_those_of_the_library() {
    let path = include().join("plimsoll.h");
    let header = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = header.split_once(BEGIN).unwrap();
    let (old, tail) = rest.split_once(END).unwrap();
    if std::env::var_os("PLIMSOLL_BLESS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{}{END}{tail}", generated())).unwrap();
        return;
    }
    assert!(
        old == generated(),
        "plimsoll.h is not what the library has: PLIMSOLL_BLESS=1 cargo test -p plimsoll-capi --test header"
    );
    assert!(head.contains(&format!("#define PLIMSOLL_ABI_VERSION {ABI_VERSION}u")));
    assert!(head.contains(&format!("#define PLIMSOLL_MAX_DIMS {MAX_DIMS}")));
    for (name, number) in [
        ("INPUT", uses::INPUT),
        ("INOUT", uses::INOUT),
        ("OUTPUT_EXISTING", uses::OUTPUT_EXISTING),
        ("OUTPUT", uses::OUTPUT),
        ("SCALAR", uses::SCALAR),
        ("INPUT_LIST", uses::INPUT_LIST),
        ("NO_DEP", uses::NO_DEP),
        ("NO_DEP_INOUT", uses::NO_DEP_INOUT),
    ] {
        assert!(head.contains(&format!("    PLIMSOLL_{name} = {number}")), "{name}");
    }
}

/// Lines `type.field offset size` of structures, as Rust has them, and the C program that prints them.
macro_rules! layouts {
    ($($type:ident $c:ident { $($field:ident $(as $named:ident)?),* })*) => {{
        let mut rust = String::new();
        let mut c = String::from("#include \"plimsoll_plugin.h\"\n#include <stdio.h>\n");
        // In a plug-in the functions' names are macros.
        PROTOTYPES.iter().for_each(|one| writeln!(c, "#undef {}", one.name).unwrap());
        c += "int main(void) {\n";
        $(
            writeln!(rust, "{} {}", stringify!($c), size_of::<$type>()).unwrap();
            writeln!(c, "printf(\"%s %zu\\n\", \"{0}\", sizeof({0}));", stringify!($c)).unwrap();
            $(
                let named = [$(stringify!($named),)? stringify!($field)][0];
                writeln!(rust, "{}.{named} {}", stringify!($c), std::mem::offset_of!($type, $field)).unwrap();
                writeln!(c, "printf(\"%s.%s %zu\\n\", \"{0}\", \"{named}\", offsetof({0}, {named}));", stringify!($c)).unwrap();
            )*
        )*
        (rust, c + "return 0;\n}\n")
    }};
}

#[test]
fn structures_have_the_same_layout() {
    use plimsoll_capi::entries::HostTable;
    let (rust, c) = layouts! {
        CElement plimsoll_element { dtype, bytes, align }
        CTensor plimsoll_tensor { }
        CKernel plimsoll_kernel { words }
        CTask plimsoll_task { words }
        CArg plimsoll_arg { use_ as r#use, ndim, tensor, count, element, marked, bits, shape }
        CView plimsoll_view { data, bits, shape, strides, ndim, dtype, is_scalar, is_written, reserved }
        CCall plimsoll_call { size, count, args, context, fail, state, block, blocks, part, parts, push, pop }
        CParam plimsoll_param { access, element, share }
        CKernelOptions plimsoll_kernel_options { abi_version, size, name, body, context, release, core_class, params, param_count, in_blocks, reserved }
        CSubmitOptions plimsoll_submit_options { abi_version, size, after, after_count, blocks, dummy, parts, part_count, only_if, unless, sync_start, reserved }
        CDeviceOptions plimsoll_device_options { abi_version, size, workers, no_lend, engine, arch, seed, costs, ring_task_window, ring_heap, ring_dep_pool, tensormap, arch_set }
        CRunOptions plimsoll_run_options { abi_version, size, rounds, line, file, deadline_ns, read_timeout_ns, cancel, record, out, program, op_timeout_ns, stall_timeout_ns, orch_timeout_ns, on_hung, on_hung_context, transport, region_dir, on_full, dump_args, dep_gen, dump_tasks, dump_bytes, pmu }
        CReport plimsoll_report { tasks, elapsed_ns, records, lossless, workers }
        CSetting plimsoll_setting { key, about, words, usual, min, max }
        CPluginProgram plimsoll_plugin_program { name, about, file, line, setting_count, settings, build, orchestrate, reset, verify, release }
        CPlugin plimsoll_plugin { abi_version, size, program_size, program_count, programs }
        HostTable plimsoll_host { abi_version, size, plimsoll_abi_version, plimsoll_submit, plimsoll_tensor_shape }
    };
    let (rust, c) = (rust.replace("r#", ""), c.replace("r#", ""));
    let dir = tempfile::tempdir().unwrap();
    let (source, probe) = (dir.path().join("probe.c"), dir.path().join("probe"));
    std::fs::write(&source, c).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(include()).arg(&source).arg("-o").arg(&probe);
    let built = compiler.output().expect("a C compiler, which Rust links with, too");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let printed = Command::new(&probe).output().unwrap().stdout;
    assert_eq!(String::from_utf8(printed).unwrap(), rust);
}
