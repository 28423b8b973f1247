//! What a run records, from the command line.

use crate::exit::wrong;
use clap::{Args, ValueEnum};
use plimsoll::RecordOptions;
use plimsoll::abi::{Flags, Level};
use plimsoll::record::Policy;
use plimsoll::trace::OUTPUTS;
use std::path::PathBuf;

/// Options of a recording.
#[derive(Args)]
pub(super) struct Recording {
    /// Record swimlanes: 1 core timing, 2 + dispatch and finish, 3 + scheduler phases, 4 + orchestrator phases; 4 if no
    /// level is given, 1 if the flag is left out
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "4")]
    swimlane: Option<u64>,
    /// Record samples and peaks of every scope; on, but with --swimlane=0 only if asked for
    #[arg(long)]
    scope_stats: bool,
    /// Record submits, from which the dependencies are written
    #[arg(long)]
    dep_gen: bool,
    /// Everything above: swimlane 4, dependencies, scope statistics
    #[arg(long, conflicts_with_all = ["swimlane", "no_record"])]
    profile: bool,
    /// Record nothing
    #[arg(long, conflicts_with_all = ["swimlane", "scope_stats", "dep_gen"])]
    no_record: bool,
    /// What a recorder does that finds no buffer
    #[arg(long, value_enum, default_value_t = OnFull::Block)]
    on_full: OnFull,
    /// Where the shared-memory region goes
    #[arg(long, value_name = "DIR")]
    region_dir: Option<PathBuf>,
    /// Exit 1 if a record was lost
    #[arg(long)]
    pub(super) require_lossless: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnFull {
    /// Wait for the collector: nothing is lost
    Block,
    /// Wait a little, then drop and count
    Drop,
}

impl Recording {
    fn flags(&self) -> anyhow::Result<Flags> {
        if self.no_record {
            return Ok(Flags::NONE);
        }
        if self.profile {
            let level = level(4)?;
            return Ok(level.flags().with(Flags::DEP_GEN).with(Flags::SCOPE_STATS));
        }
        let mut flags = level(self.swimlane.unwrap_or(1))?.flags();
        if self.dep_gen {
            flags = flags.with(Flags::DEP_GEN);
        }
        // On by default; an explicit level 0 without it means what it says.
        if self.scope_stats || self.swimlane != Some(0) {
            flags = flags.with(Flags::SCOPE_STATS);
        }
        Ok(flags)
    }

    /// What to record, or nothing.
    pub(super) fn options(
        &self,
        program: &str,
        out: Option<PathBuf>,
        sets: &[String],
    ) -> anyhow::Result<Option<RecordOptions>> {
        let flags = self.flags()?;
        if flags.is_empty() {
            return Ok(None);
        }
        let mut record = out.map_or_else(|| RecordOptions::under(OUTPUTS), |dir| RecordOptions::new(dir, flags));
        record.flags = flags;
        record.policy = if self.on_full == OnFull::Drop { Policy::Drop } else { Policy::Block };
        record.region_dir.clone_from(&self.region_dir);
        record.program = program.to_owned();
        record.command = std::env::args().collect();
        record.settings =
            sets.iter().filter_map(|set| set.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        Ok(Some(record))
    }
}

fn level(number: u64) -> anyhow::Result<Level> {
    Level::new(number).map_err(|error| wrong(format!("{error}. Choose one of them.")))
}
