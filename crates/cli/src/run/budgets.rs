//! How long parts of a run may take, from the command line.

use super::machine::Machine;
use crate::exit::wrong;
use clap::Args;
use plimsoll::RunOptions;
use plimsoll::run::parse_duration;
use std::time::Duration;

/// Options of the watchdog.
#[derive(Args)]
pub(crate) struct Budgets {
    /// End the run if one kernel takes longer, such as 500ms or 10s
    #[arg(long, value_name = "TIME")]
    op_timeout: Option<String>,
    /// End the run if nothing moves for longer; `off` waits for ever [default: 30s]
    #[arg(long, value_name = "TIME")]
    stall_timeout: Option<String>,
    /// End the run if the orchestration is in its own code for longer
    #[arg(long, value_name = "TIME")]
    orch_timeout: Option<String>,
}

/// How long nothing may move if nobody said so.
const STALL: Duration = Duration::from_secs(30);

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
                "{flag} needs threads. In virtual time a run that does not move is found at once, by its structure. Leave it out, or choose another engine."
            )));
        }
        let [op, stall, orchestration] = flags.map(|(flag, given)| read(flag, given.as_deref()));
        options.op_timeout = op?.or(options.op_timeout);
        options.orch_timeout = orchestration?.or(options.orch_timeout);
        options.stall_timeout = if self.stall_timeout.is_some() { stall? } else { Some(STALL) };
        Ok(())
    }
}

fn read(flag: &str, given: Option<&str>) -> anyhow::Result<Option<Duration>> {
    let Some(text) = given else { return Ok(None) };
    parse_duration(text).map_err(|error| wrong(format!("{flag}: {error}. Write it like 500ms, 10s or off.")))
}
