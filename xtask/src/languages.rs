//! Stage `languages`: the examples in C, C++ and Python do the same, by results and by dependencies; programs in them are recorded
//! from outside, and run as plug-ins of the command.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::c_library;
use crate::python;
use crate::stages::StageOutcome;
use crate::workspace::{Workspace, is_installed, output, shown, succeed};

/// Compilers, and the directories of the examples that they compile.
const COMPILERS: [(&str, &str); 2] = [("cc", "c"), ("c++", "cpp")];
/// The examples that every language has.
const EXAMPLES: [&str; 3] = ["stencil", "attention", "hang"];
/// What only C and C++ have besides.
const C_EXAMPLES: [&str; 1] = ["shapes"];
/// Those of them that run in virtual time, where two runs of the same program have the same dependencies.
const RECORDED: [&str; 3] = ["stencil", "attention", "shapes"];

/// How an example is started: the program and its first arguments.
type Started = (String, Vec<PathBuf>);

pub(crate) fn check(workspace: &Workspace) -> Result<StageOutcome> {
    let place = workspace.target.join("languages");
    let prefix = place.join("prefix");
    c_library::install(workspace, &prefix, true)?;
    let mut skipped = Vec::new();
    let mut started = Vec::new();
    for (compiler, language) in COMPILERS {
        if !is_installed(compiler) {
            skipped.push(format!("no {compiler}: .ci/setup installs one"));
            continue;
        }
        started.extend(compile_all(workspace, &place, compiler, language)?);
        under_asan(workspace, &place, compiler, language)?;
    }
    for (compiler, language) in COMPILERS.into_iter().filter(|(compiler, _)| is_installed(compiler)) {
        check_plugin(workspace, &place, compiler, language)?;
    }
    if is_installed("c++") && is_installed("cmake") {
        check_cmake(workspace, &place, &prefix)?;
    } else {
        skipped.push("no cmake, so its config was not tried: .ci/setup installs it".to_owned());
    }
    if python::is_ready(workspace) {
        python::install(workspace)?;
        started.extend(EXAMPLES.iter().map(|example| {
            let script = workspace.root.join(format!("examples/python/{example}.py"));
            ((*example).to_owned(), vec![workspace.target.join("venv/bin/python"), script])
        }));
    } else {
        skipped.push(python::MISSING.to_owned());
    }
    compare(workspace, &place, &started)?;
    check_record(workspace, &place, &started)?;
    Ok(if skipped.is_empty() { StageOutcome::Passed } else { StageOutcome::Skipped(skipped.join("; ")) })
}

fn compile_all(workspace: &Workspace, place: &Path, compiler: &str, language: &str) -> Result<Vec<Started>> {
    EXAMPLES
        .iter()
        .chain(&C_EXAMPLES)
        .map(|example| {
            let out = place.join(format!("{example}-{language}"));
            compile(workspace, place, compiler, language, example, &out, &[])?;
            Ok(((*example).to_owned(), vec![out]))
        })
        .collect()
}

/// Compiles an example with the flags that pkg-config gives, or where it is missing, with the same by hand.
fn compile(
    workspace: &Workspace,
    place: &Path,
    compiler: &str,
    language: &str,
    example: &str,
    out: &Path,
    more: &[&str],
) -> Result<()> {
    let prefix = place.join("prefix");
    let mut command = Command::new(compiler);
    command.args([standard(language), "-O1", "-Wall", "-Wextra", "-Werror"]);
    command.args(more).arg(workspace.root.join(format!("examples/{language}/{example}.{language}")));
    if is_installed("pkg-config") {
        let mut asked = Command::new("pkg-config");
        asked.args(["--cflags", "--libs", "plimsoll"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        command.args(output(&mut asked)?.split_whitespace());
    } else {
        command.arg("-I").arg(prefix.join("include")).arg("-L").arg(prefix.join("lib")).arg("-lplimsoll");
    }
    command.arg("-lm").arg(format!("-Wl,-rpath,{}", prefix.join("lib").display())).arg("-o").arg(out);
    println!("$ {}", shown(&command));
    succeed(&mut command)
}

fn standard(language: &str) -> &'static str {
    if language == "c" { "-std=c11" } else { "-std=c++17" }
}

/// The library itself is under AddressSanitizer in stage `asan`; here it is the side that calls it.
fn under_asan(workspace: &Workspace, place: &Path, compiler: &str, language: &str) -> Result<()> {
    for example in EXAMPLES.iter().chain(&C_EXAMPLES) {
        let out = place.join(format!("{example}-{language}-asan"));
        compile(workspace, place, compiler, language, example, &out, &["-fsanitize=address,undefined", "-g"])?;
        succeed(&mut Command::new(&out))?;
    }
    Ok(())
}

/// A language's example that is a plug-in, on every engine, by its own check; also under AddressSanitizer, which the command, that is not
/// compiled with it, has to load first.
fn check_plugin(workspace: &Workspace, place: &Path, compiler: &str, language: &str) -> Result<()> {
    let source = workspace.root.join(format!("examples/{language}/plugin.{language}"));
    let plimsoll = workspace.target.join("debug/plimsoll");
    for (name, flags) in [("libplugin", &[][..]), ("libplugin-asan", &["-fsanitize=address", "-g"])] {
        let name = format!("{name}-{language}.so");
        let library = place.join(&name);
        let mut command = Command::new(compiler);
        command.args([standard(language), "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]).args(flags);
        command.arg("-I").arg(place.join("prefix/include")).arg(&source).arg("-o").arg(&library);
        println!("$ {}", shown(&command));
        succeed(&mut command)?;
        let runtime = match flags.is_empty() {
            true => String::new(),
            false => output(Command::new(compiler).arg("-print-file-name=libasan.so"))?.trim().to_owned(),
        };
        for engine in ["host", "emulated", "virtual"] {
            let out = place.join(format!("plugin-{engine}"));
            clear(&out)?;
            let mut command = Command::new(&plimsoll);
            command.arg("run").arg(&library).args(["--engine", engine, "--profile", "--json", "--out"]).arg(&out);
            command.env("LD_PRELOAD", &runtime);
            let answer: serde_json::Value = serde_json::from_str(&output(&mut command)?)?;
            ensure!(answer["verified"] == true, "{name} on {engine} says {answer}");
            println!("{name} on {engine}: {}", answer["detail"]);
        }
    }
    Ok(())
}

/// `plimsoll record` and the environment record programs that know nothing of it; a run that hangs is explained at the end.
fn check_record(workspace: &Workspace, place: &Path, started: &[Started]) -> Result<()> {
    let plimsoll = workspace.target.join("debug/plimsoll");
    for (number, (example, words)) in started.iter().enumerate() {
        let out = place.join(format!("recorded-{number}"));
        clear(&out)?;
        let mut command = Command::new(&plimsoll);
        command.args(["record", "--profile", "--explain-on-exit", "--out"]).arg(&out).arg("--").args(words);
        let text = output(&mut command)?;
        let hangs = example == "hang";
        ensure!(text.contains(&format!("{example}: ok")) != hangs, "{example} was recorded as {text:?}");
        // Once where it is told how the run ended, and once more where that is explained.
        let told = text.matches("DeadlineExceeded (23): ").count();
        ensure!((told > 1) == hangs, "{example} was explained as {text:?}");
        succeed(Command::new(&plimsoll).arg("check").arg(out.join("latest")))?;
    }
    Ok(())
}

fn clear(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    Ok(())
}

/// A project that finds the library by its CMake config.
fn check_cmake(workspace: &Workspace, place: &Path, prefix: &Path) -> Result<()> {
    let (source, build) = (place.join("cmake"), place.join("cmake/build"));
    fs::create_dir_all(&build)?;
    let example = workspace.root.join("examples/cpp/stencil.cpp");
    let lists = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(example CXX)\nset(CMAKE_CXX_STANDARD 17)\n\
         find_package(plimsoll 0.1 REQUIRED)\nadd_executable(stencil \"{}\")\n\
         target_link_libraries(stencil plimsoll::plimsoll)\n",
        example.display()
    );
    fs::write(source.join("CMakeLists.txt"), lists)?;
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&source).arg("-B").arg(&build).arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    succeed(&mut configure)?;
    succeed(Command::new("cmake").arg("--build").arg(&build))?;
    succeed(&mut Command::new(build.join("stencil")))
}

/// Every language prints the same, and infers the same dependencies.
fn compare(workspace: &Workspace, place: &Path, started: &[Started]) -> Result<()> {
    let mut said: BTreeMap<&str, String> = BTreeMap::new();
    let mut deps: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for (number, (example, words)) in started.iter().enumerate() {
        let who = words.iter().map(|word| word.display().to_string()).collect::<Vec<_>>().join(" ");
        let text = output(&mut command(words))?;
        print!("{who}: {text}");
        let first = said.entry(example).or_insert_with(|| text.clone());
        ensure!(*first == text, "{who} says {text:?}, and another language {first:?}");
        if RECORDED.contains(&example.as_str()) {
            let found = dependencies(workspace, &place.join(format!("run-{number}")), words)
                .with_context(|| format!("the dependencies of {who}"))?;
            let first = deps.entry(example).or_insert_with(|| found.clone());
            ensure!(*first == found, "{who} has other dependencies than the same example in another language");
        }
    }
    Ok(())
}

fn command(words: &[PathBuf]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// The deps.json of a run in virtual time.
fn dependencies(workspace: &Workspace, out: &Path, words: &[PathBuf]) -> Result<Vec<u8>> {
    clear(out)?;
    output(command(words).arg("virtual").env("PLIMSOLL_RECORD", "profile").env("PLIMSOLL_OUT", out))?;
    let run = out.join("latest");
    let plimsoll = workspace.target.join("debug/plimsoll");
    output(Command::new(plimsoll).args(["export", "--format", "simpler"]).arg(&run))?;
    Ok(fs::read(run.join("deps.json"))?)
}
