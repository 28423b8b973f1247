//! `plimsoll size`: what sizes of rings would do, from a run that was recorded or by making one in large rings.

use crate::civil;
use crate::exit::{refused, wrong};
use crate::list::find;
use crate::read::place;
use clap::Args;
use plimsoll::abi::Flags;
use plimsoll::trace::manifest::{Capacities as Amounts, RingCapacity};
use plimsoll::trace::{Manifest, OUTPUTS};
use plimsoll::{Capacities, Device, RecordOptions, analyze, report};
use plimsoll_programs::{Program, Settings};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `size`.
#[derive(Args)]
pub(crate) struct Size {
    /// A run's directory, or a program, which is then run in large rings; the newest run if left out
    #[arg(value_name = "DIR | PROGRAM")]
    subject: Option<String>,
    /// Change a setting of the program
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Threads in all for a program's run; one per CPU if left out
    #[arg(long)]
    workers: Option<usize>,
    /// The directory of a program's run; `outputs/size-PROGRAM_TIME-PID` if left out
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Size {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let program = self.subject.as_deref().filter(|name| !is_run(Path::new(name))).map(|name| self.named(name));
        let (dir, manifest, ended_well) = match program.transpose()? {
            Some(program) => self.measured(program)?,
            None if !self.set.is_empty() || self.workers.is_some() || self.out.is_some() => {
                return Err(wrong(
                    "--set, --workers and --out are for a sizing run. A run that was recorded is only read. Name a program.",
                ));
            }
            None => {
                let dir = place(self.subject.as_ref().map(PathBuf::from))?;
                let manifest = Manifest::read(&dir)?;
                (dir, manifest, true)
            }
        };
        let Some(sizing) = analyze::sizing(&manifest) else {
            anyhow::bail!(
                "The run in {} does not say what it used. It has not ended, was killed, or was launched from a prebuilt graph. Make a sizing run: plimsoll size {}.",
                dir.display(),
                manifest.program
            );
        };
        if self.json {
            let mut object = serde_json::to_value(&sizing)?;
            object["out"] = dir.display().to_string().into();
            println!("{object}");
        } else {
            print!("{}", report::text::sizing(&sizing));
            println!("next: plimsoll run {} {}", manifest.program, sizing.flags);
        }
        Ok(if ended_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn named(&self, name: &str) -> anyhow::Result<&'static Program> {
        find(name).map_err(|_| {
            wrong(format!(
                "{name:?} is neither a run nor a program. There is no run.json in a directory of that name. `plimsoll list` shows the programs."
            ))
        })
    }

    /// Runs the program in large rings, and puts the sizes it would have had in their place.
    fn measured(&self, program: &Program) -> anyhow::Result<(PathBuf, Manifest, bool)> {
        let settings = Settings::new(program.params, self.set.iter().map(String::as_str)).map_err(wrong)?;
        let usual = Capacities::from_env().map_err(refused)?;
        let mut builder = Device::builder().capacities(generous());
        if let Some(workers) = self.workers {
            builder = builder.workers(workers);
        }
        let mut device = builder.open().map_err(refused)?;
        let instance = (program.build)(&mut device, &settings).map_err(refused)?;
        let dir = self.out.clone().unwrap_or_else(|| {
            PathBuf::from(OUTPUTS).join(format!("size-{}_{}-{}", program.name, civil::stamp(), std::process::id()))
        });
        let mut record = RecordOptions::new(&dir, Flags::SCOPE_STATS);
        record.program = program.name.to_owned();
        record.command = std::env::args().collect();
        let mut options = instance.options();
        options.record = Some(record);
        let outcome = device.run_with(&options, |o| instance.orchestrate(o));
        if let Err(error) = &outcome {
            eprintln!("plimsoll: the sizing run failed, so its figures are lower bounds. {error}");
        }
        let mut manifest = Manifest::read(&dir)?;
        manifest.capacities = amounts(&usual);
        Ok((dir, manifest, outcome.is_ok()))
    }
}

fn is_run(path: &Path) -> bool {
    path.join(Manifest::FILE).is_file()
}

/// Rings so large that hardly any program waits for room. What is not touched costs nothing.
fn generous() -> Capacities {
    let mut out = Capacities { tensormap: 1 << 21, ..Capacities::default() };
    for ring in &mut out.rings {
        (ring.window, ring.heap, ring.dep_pool) = (1 << 18, 1 << 34, 1 << 21);
    }
    out
}

fn amounts(capacities: &Capacities) -> Amounts {
    let rings = capacities.rings.map(|c| RingCapacity {
        task_window: u64::from(c.window),
        heap: c.heap,
        dep_pool: u64::from(c.dep_pool),
    });
    Amounts { rings, tensormap: u64::from(capacities.tensormap) }
}
