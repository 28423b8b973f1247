//! `plimsoll explain`: what ended a run or what it is doing, who waits for whom, and what an error code means.

mod codes;
mod outside;

use super::{place, say_machine};
use crate::exit::wrong;
use crate::wording::wording_of;
use clap::Args;
use codes::meaning;
use outside::{DeadRun, Seen};
use plimsoll::abi::ErrorCode;
use plimsoll::analyze::Outside;
use plimsoll::collect::{Error, RegionError};
use plimsoll::report::plain::{PROGRAM_NAME, one_line};
use plimsoll::trace::{self, Explanation, Liveness, Manifest, Status, Trace, TraceParts};
use plimsoll::{analyze, report};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `explain`.
#[derive(Args)]
pub(crate) struct ExplainCommand {
    /// The run's directory; the newest run if left out
    dir: Option<PathBuf>,
    /// Explain what this process is doing, from outside: it may be stopped, hang or be dead
    #[arg(long, value_name = "PID", conflicts_with = "dir")]
    pid: Option<u32>,
    /// Explain what the run that records into this directory is doing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dir", "pid"])]
    live: Option<PathBuf>,
    /// Explain this error code instead
    #[arg(long, conflicts_with_all = ["dir", "pid", "live"])]
    code: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is read to tell who waits for whom. Arguments would be half of the memory.
const PARTS: TraceParts = TraceParts { deps: true, scopes: true, ..TraceParts::TASKS };

impl ExplainCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match (self.code, self.pid) {
            (Some(code), _) => self.code(code),
            (None, Some(pid)) => self.process(pid),
            (None, None) => {
                let dir = place(self.live.clone().or_else(|| self.dir.clone()))?;
                self.answer(&look(&dir)?, &dir)
            }
        }
    }

    fn code(&self, number: u32) -> anyhow::Result<ExitCode> {
        let Some(code) = ErrorCode::from_number(number) else {
            let known: Vec<String> = ErrorCode::ALL.iter().map(|c| format!("{} {c}", c.number())).collect();
            return Err(wrong(format!(
                "There is no error code {number}. The codes are {}. Choose one.",
                known.join(", ")
            )));
        };
        let (text, program) = meaning(code);
        if self.json {
            let program = (!program.is_empty()).then_some(program);
            let object =
                serde_json::json!({ "code": number, "name": code.name(), "explanation": text, "try": program });
            println!("{object}");
        } else {
            println!("{number} {code}\n{text}");
            if !program.is_empty() {
                println!("try: {program}");
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn process(&self, pid: u32) -> anyhow::Result<ExitCode> {
        let regions = outside::regions_of(pid)?;
        if let [only] = &regions[..] {
            let seen = outside::look_twice(&only.region, None, pid)?;
            if !only.dir.exists() {
                let then = if only.is_removed() {
                    "Its region was removed with it: the run itself makes both again when it ends, and nothing is left of it if it is killed before."
                } else {
                    "Its region knows the run: once that has ended, `plimsoll recover --all` makes the directory again."
                };
                eprintln!("plimsoll: {} was removed while the run goes on. {then}", only.dir.display());
            }
            return self.answer(&seen, &only.dir);
        }
        if regions.is_empty() {
            return match outside::dead_run_of(pid)? {
                DeadRun::Region(region, dir) => self.answer(&look_at_orphan(&region, &dir)?, &dir),
                DeadRun::Directory(dir) => self.answer(&look(&dir)?, &dir),
            };
        }
        if self.json {
            let row = |of: &outside::FoundRegion| serde_json::json!({ "region": of.region, "dir": of.dir });
            println!("{}", serde_json::json!({ "regions": regions.iter().map(row).collect::<Vec<_>>() }));
            return Ok(ExitCode::SUCCESS);
        }
        println!("Process {pid} has several runs. Choose one:");
        regions.iter().for_each(|of| println!("  plimsoll explain --live {}", trace::for_shell(&of.dir)));
        Ok(ExitCode::SUCCESS)
    }

    fn answer(&self, seen: &Seen, dir: &Path) -> anyhow::Result<ExitCode> {
        let unknown = Manifest::default();
        let manifest = seen.trace.manifest.as_ref().unwrap_or(&unknown);
        let mut explanation = explain(&seen.trace, seen.outside.as_ref());
        if let Some(dir) = &seen.taken {
            without_directory(&mut explanation, dir, seen.outside.as_ref());
        }
        let findings = if manifest.status == Status::Ok { analyze::costliest(&seen.trace) } else { Vec::new() };
        if self.json {
            let mut object = serde_json::to_value(&explanation)?;
            object["status"] = manifest.status.name().into();
            object["state"] = seen.state().into();
            object["findings"] = serde_json::to_value(&findings)?;
            object["error"] = serde_json::to_value(&manifest.error)?;
            object["virtual"] = manifest.virtual_time.into();
            object["emulated"] = manifest.emulated.into();
            println!("{object}");
            return Ok(ExitCode::SUCCESS);
        }
        println!("{}: {}", dir.display(), one_line(&manifest.program, PROGRAM_NAME));
        for costly in &findings {
            let share = report::text::percent(costly.share);
            println!(
                "  {share} of the makespan: {}. More: `{} {}`",
                costly.what,
                costly.command,
                trace::for_shell(dir)
            );
        }
        print!("{}", report::text::explanation(&explanation));
        say_machine(manifest.virtual_time, manifest.emulated, &manifest.arch);
        Ok(ExitCode::SUCCESS)
    }
}

/// Looks at the run in a directory, whether it has ended, is still going, or was killed.
fn look(dir: &Path) -> anyhow::Result<Seen> {
    let orphan = if super::recover::is_run(dir) { None } else { super::recover::orphan_of(dir) };
    if orphan.is_none() && !dir.exists() {
        return Err(super::recover::gone(dir));
    }
    if let Some(orphan) = orphan {
        return look_at_orphan(&orphan.region, dir);
    }
    let mut manifest = Manifest::read(dir)?;
    if manifest.liveness() == Liveness::RegionGone {
        // A run that is just starting names its region before it makes it.
        std::thread::sleep(outside::APART);
        manifest = Manifest::read(dir)?;
    }
    let seen = match (manifest.liveness(), &manifest.region) {
        (Liveness::Alive, Some(region)) => outside::look_twice(region, Some(dir), manifest.pid),
        (Liveness::NeedsRecovery, Some(region)) => outside::look_at_dead(region, Some(dir), PARTS),
        _ => {
            let parts = if manifest.status == Status::Ok { TraceParts::ALL } else { PARTS };
            return Ok(Seen { trace: open(dir, parts)?, outside: None, taken: None });
        }
    };
    match seen {
        Err(Error::Region(RegionError::HalfMade { .. })) => outside::look_at_start(dir, manifest),
        seen => Ok(seen?),
    }
}

/// Looks at what the region of a dead run tells, and at the run's directory if that is there.
fn look_at_orphan(region: &Path, dir: &Path) -> anyhow::Result<Seen> {
    if !super::recover::is_run(dir) {
        eprintln!(
            "plimsoll: {} is gone. This is what its run's region tells; `plimsoll recover --all` makes the directory again.",
            dir.display()
        );
    }
    Ok(outside::look_at_dead(region, Some(dir), PARTS)?)
}

/// Takes back what an explanation says of a directory that another run has taken, and says so.
fn without_directory(explanation: &mut Explanation, dir: &Path, outside: Option<&Outside>) {
    let named = trace::for_shell(dir);
    explanation.unsure.push(format!(
        "Another run has taken {named} since: what this run had recorded there is gone, so this is of the records in its region alone."
    ));
    explanation.certain = false;
    let reworded = |text: &str| {
        let text = text.replace(&format!("recover {named}"), "recover --all");
        match outside {
            Some(outside) => {
                text.replace(&format!("explain --live {named}"), &format!("explain --pid {}", outside.pid))
            }
            None => text,
        }
    };
    explanation.verdict = reworded(&explanation.verdict);
    explanation.advice = explanation.advice.iter().map(|advice| reworded(advice)).collect();
    // What is left of commands on that directory would tell of the other run.
    explanation.advice.retain(|advice| !advice.contains(&format!(" {named}`")));
    if outside.is_none() {
        explanation.advice.push("See what killed runs have left: `plimsoll recover --list`.".to_string());
        explanation.advice.truncate(3);
    }
}

fn open(dir: &Path, parts: TraceParts) -> anyhow::Result<Trace> {
    Ok(trace::open_with(dir, parts)?)
}

/// All that is left of a run that was killed and not recovered: its segments, and what its region still holds. None of other runs.
pub(super) fn left_of(dir: &Path) -> anyhow::Result<Option<Trace>> {
    let Ok(manifest) = Manifest::read(dir) else { return Ok(None) };
    match (manifest.liveness(), &manifest.region) {
        (Liveness::NeedsRecovery, Some(region)) => {
            let mut trace = outside::look_at_dead(region, Some(dir), TraceParts::ALL)?.trace;
            // Which records were collected is not counted before the run is recovered.
            trace.manifest.iter_mut().for_each(|manifest| manifest.reconcile = None);
            Ok(Some(trace))
        }
        _ => Ok(None),
    }
}

/// The explanation, with flags if the run was started by the command.
pub(super) fn explain(trace: &Trace, outside: Option<&Outside>) -> Explanation {
    let mut explanation = analyze::explain(trace, None, outside);
    explanation.reword(wording_of(trace.manifest.as_ref()));
    explanation
}
