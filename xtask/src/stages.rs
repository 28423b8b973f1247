//! `cargo xtask test`: the stages a change has to pass, each under a heading of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::counts;
use crate::languages;
use crate::page;
use crate::python;
use crate::simulate;
use crate::workspace::{Workspace, output, shown, succeed};

#[derive(Args)]
pub(crate) struct TestOptions {
    /// Only these stages.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Stage>,
    /// Stage `counts`: take what is measured as the new baseline.
    #[arg(long)]
    bless: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Stage {
    Fmt,
    Clippy,
    Unit,
    SpareKind,
    Loom,
    Asan,
    Canary,
    Counts,
    Page,
    Languages,
    Python,
}

/// A stage that did not fail.
pub(crate) enum StageOutcome {
    Passed,
    /// Why it could not be run here.
    Skipped(String),
}

/// Packages whose protocols are model-checked.
const LOOM: [&str; 2] = ["plimsoll-shm", "plimsoll-sched"];
/// Packages that hold unsafe code, or run on top of it.
const ASAN: [&str; 4] = ["plimsoll-shm", "plimsoll-graph", "plimsoll-sched", "plimsoll-runtime"];

/// Stages that build in a directory of their own. They run beside the others, because neither keeps two CPUs busy all the time.
const BESIDE: [Stage; 3] = [Stage::SpareKind, Stage::Loom, Stage::Asan];
const SUMMARY: &str = "==== summary ====";

pub(crate) fn run(options: &TestOptions) -> Result<()> {
    let workspace = Workspace::find()?;
    let all = options.only.is_empty();
    let beside = all.then(|| Beside::start(&workspace)).transpose()?;
    let mut summary = Vec::new();
    let mut failed = false;
    for &stage in Stage::value_variants() {
        let wanted = if all { !BESIDE.contains(&stage) } else { options.only.contains(&stage) };
        if !wanted {
            continue;
        }
        println!("\n==== {} ====", heading(stage));
        let begin = Instant::now();
        let outcome = run_stage(stage, &workspace, options.bless);
        let word = match &outcome {
            Ok(StageOutcome::Passed) => "passed".to_string(),
            Ok(StageOutcome::Skipped(why)) => format!("skipped: {why}"),
            Err(why) => format!("FAILED: {why:#}"),
        };
        failed |= outcome.is_err();
        println!("{word}");
        summary.push(format!("{stage:<10} {:>5.0} s  {word}", begin.elapsed().as_secs_f64(), stage = name(stage)));
    }
    if let Some(beside) = beside {
        let (passed, lines) = beside.finish()?;
        failed |= !passed;
        summary.extend(lines);
    }
    println!("\n{SUMMARY}\n{}", summary.join("\n"));
    if failed {
        bail!("not all stages passed");
    }
    Ok(())
}

/// A second `cargo xtask test` at work on the stages of [`BESIDE`]. What it prints is shown when it has ended.
struct Beside {
    process: Child,
    log: PathBuf,
}

impl Beside {
    fn start(workspace: &Workspace) -> Result<Self> {
        std::fs::create_dir_all(&workspace.target)?;
        let log = workspace.target.join("stages-beside.log");
        let file = File::create(&log)?;
        let only = BESIDE.map(name);
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["test", "--only", &only.join(",")]).stdout(file.try_clone()?).stderr(file);
        println!("$ cargo xtask test --only {} > {} &", only.join(","), log.display());
        Ok(Self { process: command.spawn()?, log })
    }

    /// Waits for it: whether all its stages passed, and its lines of the summary.
    fn finish(mut self) -> Result<(bool, Vec<String>)> {
        let passed = self.process.wait()?.success();
        let printed = String::from_utf8_lossy(&std::fs::read(&self.log)?).into_owned();
        let (stages, summary) = printed.split_once(SUMMARY).unwrap_or((&printed, ""));
        print!("{stages}");
        let lines = summary.lines().filter(|line| line.contains(" s  "));
        Ok((passed, lines.map(str::to_owned).collect()))
    }
}

fn name(stage: Stage) -> String {
    stage.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn heading(stage: Stage) -> &'static str {
    match stage {
        Stage::Fmt => "fmt: formatting",
        Stage::Clippy => "clippy: lints, warnings as errors",
        Stage::Unit => "unit: unit, property and documentation tests, style",
        Stage::SpareKind => "spare-kind: a record kind is one row",
        Stage::Loom => "loom: protocols, model-checked",
        Stage::Asan => "asan: tests under AddressSanitizer",
        Stage::Canary => "canary: the simulator finds a planted defect",
        Stage::Counts => "counts: instructions per task against the baseline",
        Stage::Page => "page: the report in a browser",
        Stage::Languages => "languages: C, C++ and Python do the same",
        Stage::Python => "python: the package's wheel, its tests",
    }
}

fn run_stage(stage: Stage, workspace: &Workspace, bless: bool) -> Result<StageOutcome> {
    match stage {
        Stage::Fmt => cargo(workspace, &["fmt", "--all", "--check"]),
        Stage::Clippy => clippy(workspace),
        Stage::Unit => cargo(workspace, &["test", "--workspace", "--no-fail-fast"]),
        Stage::SpareKind => spare_kind(workspace),
        Stage::Loom => loom(workspace),
        Stage::Asan => asan(workspace),
        Stage::Canary => simulate::canary(workspace),
        Stage::Counts => counts::check(workspace, bless),
        Stage::Page => page::check(workspace),
        Stage::Languages => languages::check(workspace),
        Stage::Python => python::check(workspace),
    }
}

fn cargo(workspace: &Workspace, arguments: &[&str]) -> Result<StageOutcome> {
    let mut command = workspace.cargo(arguments);
    println!("$ {}", shown(&command));
    succeed(&mut command)?;
    Ok(StageOutcome::Passed)
}

fn clippy(workspace: &Workspace) -> Result<StageOutcome> {
    cargo(workspace, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    // The library without coroutines, which the command has on.
    cargo(workspace, &["clippy", "--package", "plimsoll", "--no-default-features", "--", "-D", "warnings"])?;
    // The Rust peers stand behind a feature that the whole workspace does without.
    cargo(workspace, &["clippy", "--package", "xtask", "--all-targets", "--features", "peers", "--", "-D", "warnings"])
}

/// Compiled with a record kind more, which has nothing but its row and its type.
fn spare_kind(workspace: &Workspace) -> Result<StageOutcome> {
    let mut command = workspace.cargo(["test", "--package", "plimsoll-collect", "--test", "spare_kind"]);
    // What it takes is building.
    command.args(["--config", "profile.dev.opt-level=0"]);
    command.arg("--target-dir").arg(own_target(workspace, "spare-kind")).env("RUSTFLAGS", "--cfg spare_kind");
    println!("$ RUSTFLAGS='--cfg spare_kind' {}", shown(&command));
    succeed(&mut command)?;
    Ok(StageOutcome::Passed)
}

/// Optimised, because a model runs its test thousands of times. Tests that need the real primitives are marked
/// `cfg(not(loom))` where they stand, so no filter here can leave one out unseen. Each model bounds its own preemptions;
/// LOOM_MAX_PREEMPTIONS, which would override them all, is left to the person at the keyboard.
fn loom(workspace: &Workspace) -> Result<StageOutcome> {
    // One by one: a package that does not build must not hide what the models of the other say.
    let results = LOOM.map(|package| loom_package(workspace, package));
    for result in results {
        result?;
    }
    Ok(StageOutcome::Passed)
}

fn loom_package(workspace: &Workspace, package: &str) -> Result<()> {
    let mut command = workspace.cargo(["test", "--release", "--lib", "--tests", "--package", package]);
    // Without it models are built in a third of the time, which is more than they lose in speed.
    command.args(["--config", "profile.release.lto='off'"]);
    command.arg("--target-dir").arg(own_target(workspace, "loom")).env("RUSTFLAGS", "--cfg loom");
    println!("$ RUSTFLAGS='--cfg loom' {}", shown(&command));
    succeed(&mut command)
}

fn asan(workspace: &Workspace) -> Result<StageOutcome> {
    let rustc = output(Command::new("rustc").arg("-vV"))?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    if !["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"].contains(&host) {
        return Ok(StageOutcome::Skipped(format!("no AddressSanitizer for {host}")));
    }
    let mut all = under_asan(workspace, host);
    all.args(["--lib", "--tests"]).args(ASAN.iter().flat_map(|name| ["--package", name]));
    // A hostile region belongs to a run that died, so its test forgets what the run had.
    let mut hostile = under_asan(workspace, host);
    hostile.args(["--package", "plimsoll-collect", "--test", "hostile"]).env("ASAN_OPTIONS", "detect_leaks=0");
    // Random programs, of which the tests of the simulator's own seeds would only repeat a part.
    let mut programs = under_asan(workspace, host);
    programs.args(["--package", "plimsoll-simulator"]);
    programs.args(["--test", "simulator", "--", "serial_equivalence::", "scopes::", "fuzz::"]);
    for mut command in [all, programs, hostile] {
        println!("$ RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address {}", shown(&command));
        succeed(&mut command)?;
    }
    Ok(StageOutcome::Passed)
}

/// The sanitizer is a nightly flag of a stable compiler. `--target` keeps it away from build scripts. Features are those of the whole
/// workspace: with those of the packages that a command names, every command would build all of it again.
fn under_asan(workspace: &Workspace, host: &str) -> Command {
    let mut command = workspace.cargo(["test", "--target", host]);
    command.args(["-Zfeature-unification", "--config", "resolver.feature-unification='workspace'"]);
    // What it takes is building.
    command.args(["--config", "profile.dev.opt-level=0"]);
    command.arg("--target-dir").arg(own_target(workspace, "asan"));
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
    command
}

/// Other compiler flags, other directory: else every stage would rebuild what the one before it built.
fn own_target(workspace: &Workspace, stage: &str) -> PathBuf {
    Path::new(&workspace.target).join(stage)
}
