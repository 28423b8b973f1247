//! How long parts of a run may take, from the command line.

use super::machine::Machine;
use crate::exit::wrong;
use clap::Args;
use plimsoll::RunOptions;
use plimsoll::run::{StillNotice, parse_duration};
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

/// Options of the watchdog. What is given last holds: `explain` gives longer ones to paste behind a command.
#[derive(Args)]
pub(crate) struct Budgets {
    /// End the run if one kernel takes longer, such as 500ms or 10s
    #[arg(long, value_name = "TIME", overrides_with = "op_timeout")]
    op_timeout: Option<String>,
    /// End the run if nothing moves for longer, a kernel that is frozen included; `off` waits for ever. If left out: 30s in
    /// which no kernel runs at all
    #[arg(long, value_name = "TIME", overrides_with = "stall_timeout")]
    stall_timeout: Option<String>,
    /// End the run if the orchestration is in its own code for longer
    #[arg(long, value_name = "TIME", overrides_with = "orch_timeout")]
    orch_timeout: Option<String>,
}

/// The default of --stall-timeout.
const STALL: Duration = Duration::from_secs(30);

/// After how long without a begin or an end the command says what runs.
const STILL: Duration = Duration::from_secs(10);

impl Budgets {
    /// Puts them into the options of a run.
    pub(super) fn put(&self, options: &mut RunOptions, machine: &Machine) -> anyhow::Result<()> {
        let flags = [
            ("--op-timeout", &self.op_timeout),
            ("--stall-timeout", &self.stall_timeout),
            ("--orch-timeout", &self.orch_timeout),
        ];
        if let Some((flag, _)) = flags.iter().find(|(_, given)| given.is_some()).filter(|_| machine.is_virtual()) {
            return Err(wrong(format!(
                "{flag} has no meaning in virtual time. A run in which nothing can happen any more is ended at once, and a kernel takes the time that its cost says; code that does not return stops virtual time itself, and nobody is left to look at a clock. Leave it out, or choose another engine."
            )));
        }
        let [op, stall, orchestration] = flags.map(|(flag, given)| read(flag, given.as_deref()));
        options.op_timeout = op?.or(options.op_timeout);
        options.orch_timeout = orchestration?.or(options.orch_timeout);
        options.stall_timeout = if self.stall_timeout.is_some() { stall? } else { Some(STALL) };
        options.stall_spares_kernels = self.stall_timeout.is_none();
        options.notice = std::io::stderr().is_terminal().then(notice);
        Ok(())
    }
}

/// The notice that tells what runs, once a run seems to stand still.
fn notice() -> StillNotice {
    let pid = std::process::id();
    let tell = move |state: &str| eprintln!("plimsoll: {state} `plimsoll explain --pid {pid}` tells more.");
    StillNotice { after: STILL, tell: Arc::new(tell) }
}

fn read(flag: &str, given: Option<&str>) -> anyhow::Result<Option<Duration>> {
    let Some(text) = given else { return Ok(None) };
    parse_duration(text).map_err(|error| wrong(format!("{flag}: {error}. Write it like 500ms, 10s or off.")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        budgets: Budgets,
        #[command(flatten)]
        machine: Machine,
    }

    fn options(words: &[&str]) -> RunOptions {
        let line = Line::parse_from(["run"].iter().chain(words));
        let mut options = RunOptions::default();
        line.budgets.put(&mut options, &line.machine).expect("good times");
        options
    }

    /// What nobody asked for counts only where no kernel runs: one that sleeps is none of its business.
    #[test]
    fn the_default_spares_kernels_and_what_was_asked_for_does_not() {
        let told = |words: &[&str]| {
            let options = options(words);
            (options.stall_timeout.map(|time| time.as_secs()), options.stall_spares_kernels)
        };
        assert_eq!(told(&[]), (Some(30), true));
        assert_eq!(told(&["--stall-timeout", "30s"]), (Some(30), false));
        assert_eq!(told(&["--stall-timeout", "off"]), (None, false));
    }
}
