//! `plimsoll diff`: what changed from one run to another.

use super::{how_to_get_times, open_with_warnings, say_machine};
use crate::exit::in_calls;
use clap::Args;
use plimsoll::trace::{self, Status, Trace};
use plimsoll::{analyze, report};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `diff`.
#[derive(Args)]
pub(crate) struct DiffCommand {
    /// The run before
    a: PathBuf,
    /// The run after
    b: PathBuf,
    /// Exit with 1 if the makespan grew by more than this, and by more than the noise where rounds tell it, or the run after did not end
    /// well
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_over: Option<f64>,
    /// Which rank of captures of several
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A share that something may grow by.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok().filter(|number| *number >= 0.0);
    number.filter(|number| number.is_finite()).ok_or_else(|| "a number of per cent from 0 on, such as 5".to_string())
}

impl DiffCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let place_a = trace::rank_folder(&self.a, self.rank)?;
        let place_b = trace::rank_folder(&self.b, self.rank)?;
        let (a, b) = (open_with_warnings(&place_a)?, open_with_warnings(&place_b)?);
        for (trace, path) in [(&a, &place_a), (&b, &place_b)] {
            if trace.executions.is_empty() {
                return Err(in_calls(format!(
                    "{} has nothing to compare. No times of tasks are there. {}",
                    path.display(),
                    how_to_get_times(trace.manifest.as_ref())
                )));
            }
        }
        let diff = analyze::diff(&a, &b);
        let grew = diff.makespan.change.unwrap_or(0.0) * 100.0;
        let died = b.manifest.as_ref().is_some_and(|manifest| manifest.status != Status::Ok);
        let failed = self.fail_over.is_some_and(|most| died || diff.grew_over(most / 100.0));
        if self.json {
            let mut object = serde_json::to_value(&diff)?;
            object["virtual"] = (a.facts.virtual_time || b.facts.virtual_time).into();
            object["emulated"] = (a.facts.emulated || b.facts.emulated).into();
            object["failed"] = failed.into();
            println!("{object}");
        } else {
            print!("{}", report::text::diff(&diff));
            if failed && died {
                println!("FAILED: {} did not end well.", self.b.display());
            } else if failed {
                println!("FAILED: {grew:.1} % slower is more than allowed.");
            }
            let machine = |of: &Trace| (of.facts.virtual_time, of.facts.emulated, of.facts.arch.clone());
            let (before, after) = (machine(&a), machine(&b));
            say_machine(before.0, before.1, &before.2);
            if after != before {
                say_machine(after.0, after.1, &after.2);
            }
            println!("next: plimsoll critical-path {} · plimsoll stats {0}", trace::for_shell(&place_b));
        }
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}
