//! `plimsoll check`: whether anything is missing from a run.

use super::recover::or_removed;
use super::{ended_badly, object, place, say_machine};
use crate::progress::Progress;
use clap::Args;
use plimsoll::trace::{Audit, Manifest};
use plimsoll::{analyze, report, trace};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `check`.
#[derive(Args)]
pub(crate) struct CheckCommand {
    /// A run's directory; the newest run if left out
    dir: Option<PathBuf>,
    /// Which rank of a capture of several
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl CheckCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let path = trace::rank_folder(&place(self.dir)?, self.rank)?;
        let audit = audit(&path)?;
        let check = analyze::check(&audit);
        let is_virtual = audit.manifest.as_ref().is_some_and(|manifest| manifest.virtual_time);
        let emulated = audit.manifest.as_ref().is_some_and(|manifest| manifest.emulated);
        if self.json {
            println!("{}", object(&check, is_virtual, emulated, audit.manifest.as_ref())?);
        } else {
            print!("{}", report::text::check(&check));
            if let Some(manifest) = &audit.manifest {
                if let Some(sentence) = ended_badly(manifest, &path) {
                    println!("{sentence}");
                }
                say_machine(is_virtual, manifest.emulated, &manifest.arch);
            }
        }
        Ok(if check.sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// A run of ours is read through without keeping it; the reference's files are read whole.
fn audit(path: &Path) -> anyhow::Result<Audit> {
    let dir = if path.ends_with(Manifest::FILE) { path.parent().unwrap_or(Path::new(".")) } else { path };
    if !dir.join(Manifest::FILE).is_file() {
        return Ok(Audit::from(&trace::open(path).map_err(|error| or_removed(path, error))?));
    }
    let mut progress = Progress::new("records checked");
    Ok(trace::audit(dir, &mut |read, all| progress.tell(read, all))?)
}
