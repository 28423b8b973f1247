//! What a program runs on, from the command line.

use crate::exit::{refused, wrong};
use clap::{Args, ValueEnum};
use plimsoll::machine::{CostTable, EngineKind};
use plimsoll::{ArchSpec, Device, EmulatedOptions, VirtualOptions};

/// Options of the machine.
#[derive(Args)]
pub(crate) struct Machine {
    /// What runs the tasks; `emulated` if an arch other than host is named, else `host`
    #[arg(long, value_enum)]
    engine: Option<EngineChoice>,
    /// The chip, as data; `plimsoll list --archs` shows them
    #[arg(long, default_value = "host")]
    arch: String,
    /// Virtual time: decides ties, interleavings and drawn costs; the same seed gives the same bytes [default: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// Virtual time: what kernels cost, from a JSON file, or the JSON itself
    #[arg(long, value_name = "FILE")]
    costs: Option<String>,
    /// Clusters of the chip
    #[arg(long, value_name = "N")]
    clusters: Option<u32>,
    /// Threads of the chip that schedule
    #[arg(long, value_name = "N")]
    sched_threads: Option<u32>,
    /// Put the whole emulated device into a process of its own, which dies with this one
    #[arg(long)]
    isolate: bool,
    /// Change any number of the arch; `plimsoll list --archs` shows them
    #[arg(long, value_name = "KEY=VALUE")]
    arch_set: Vec<String>,
}

/// What runs the tasks.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineChoice {
    /// This machine's CPUs
    Host,
    /// A chip made of threads: cores behind mailboxes
    Emulated,
    /// Deterministic virtual time
    Virtual,
}

/// What every output says of the machine.
#[derive(Clone)]
pub(crate) struct MachineFacts {
    pub(crate) engine: &'static str,
    pub(crate) arch: String,
    pub(super) virtual_time: bool,
    /// Whether a chip is made of threads.
    pub(super) emulated: bool,
    /// Whether the device is a process of its own.
    pub(super) isolated: bool,
    /// Whether tasks run on cores of a chip, not on workers.
    pub(super) has_cores: bool,
}

impl MachineFacts {
    /// What stands before the figures of a run that is not one of this machine's CPUs.
    pub(crate) fn title(&self) -> String {
        match (self.virtual_time, self.emulated) {
            (true, _) => format!("virtual time on {}: ", self.arch),
            (_, true) if self.isolated => format!("emulated {}, in a process of its own: ", self.arch),
            (_, true) => format!("emulated {}: ", self.arch),
            _ => String::new(),
        }
    }
}

impl Machine {
    fn kind(&self) -> EngineChoice {
        let implied = if self.arch == ArchSpec::HOST.name { EngineChoice::Host } else { EngineChoice::Emulated };
        self.engine.unwrap_or(implied)
    }

    pub(crate) fn engine(&self) -> anyhow::Result<EngineKind> {
        let kind = self.kind();
        let arch = self.arch()?;
        if kind != EngineChoice::Virtual {
            let flags = [("--costs", self.costs.is_some()), ("--seed", self.seed.is_some())];
            refuse(
                &flags,
                "needs virtual time. On threads of this machine work costs what it costs. Add --engine virtual.",
            )?;
        }
        if kind != EngineChoice::Emulated {
            refuse(
                &[("--isolate", self.isolate)],
                "needs an emulated device. The other engines are this process's own. Add --engine emulated.",
            )?;
        }
        match kind {
            EngineChoice::Host => {
                let flags = [
                    ("--clusters", self.clusters.is_some()),
                    ("--sched-threads", self.sched_threads.is_some()),
                    ("--arch-set", !self.arch_set.is_empty()),
                ];
                refuse(
                    &flags,
                    "needs a chip. The host engine has workers only. Add --engine emulated or --engine virtual.",
                )?;
                if self.arch != ArchSpec::HOST.name {
                    return Err(wrong(format!(
                        "The host engine runs this machine's CPUs, not {}. That chip is emulated on threads, or modelled in virtual time. Use --engine emulated or --engine virtual.",
                        self.arch
                    )));
                }
                Ok(EngineKind::Host)
            }
            EngineChoice::Emulated => {
                Ok(EmulatedOptions { isolate: self.isolate, ..EmulatedOptions::new(&arch) }.into())
            }
            EngineChoice::Virtual => {
                const SEED: u64 = 1;
                let mut options = VirtualOptions::new(&arch, self.seed.unwrap_or(SEED));
                if let Some(given) = &self.costs {
                    options.costs = CostTable::load_or_parse(given).map_err(refused)?;
                }
                Ok(options.into())
            }
        }
    }

    /// The arch, with every number that was changed.
    fn arch(&self) -> anyhow::Result<ArchSpec> {
        let Some(arch) = ArchSpec::named(&self.arch) else {
            let names = ArchSpec::ALL.iter().map(|arch| arch.name).collect::<Vec<_>>().join(", ");
            return Err(wrong(format!("There is no arch {:?}. The archs are {names}. Choose one.", self.arch)));
        };
        let mut arch = arch.clone();
        arch.clusters = self.clusters.unwrap_or(arch.clusters);
        arch.sched_threads = self.sched_threads.unwrap_or(arch.sched_threads);
        for change in &self.arch_set {
            set_number(&mut arch, change)?;
        }
        Ok(arch)
    }

    pub(crate) fn facts(&self) -> MachineFacts {
        let kind = self.kind();
        let engine = match kind {
            EngineChoice::Host => "host",
            EngineChoice::Emulated => "emulated",
            EngineChoice::Virtual => "virtual",
        };
        MachineFacts {
            engine,
            arch: self.arch.clone(),
            virtual_time: kind == EngineChoice::Virtual,
            emulated: kind == EngineChoice::Emulated,
            isolated: self.isolate,
            has_cores: kind == EngineChoice::Emulated || self.arch != ArchSpec::HOST.name,
        }
    }

    /// Whether its time is virtual.
    pub(crate) fn is_virtual(&self) -> bool {
        self.kind() == EngineChoice::Virtual
    }

    /// Whether it has workers, as arch host has, and not the cores of a chip.
    pub(crate) fn takes_workers(&self) -> bool {
        self.arch == ArchSpec::HOST.name && self.clusters.is_none() && self.arch_set.is_empty()
    }

    /// Whether the device lives in a process of its own.
    pub(crate) fn is_isolated(&self) -> bool {
        self.isolate
    }

    /// A cost for a kernel that is not there is likely a misspelt name.
    pub(super) fn warn_of_unused_costs(&self, device: &Device) {
        for name in device.unused_costs() {
            eprintln!("plimsoll: warning: the cost table names kernel {name:?}, which this program does not have");
        }
    }
}

/// Refuses flags that say nothing to this engine.
fn refuse(flags: &[(&str, bool)], why: &str) -> anyhow::Result<()> {
    match flags.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(wrong(format!("{flag} {why}"))),
        None => Ok(()),
    }
}

/// Changes one number of an arch.
fn set_number(arch: &mut ArchSpec, change: &str) -> anyhow::Result<()> {
    let Some((key, value)) = change.split_once('=') else {
        return Err(wrong(format!("--arch-set {change} is not of the form key=value. Write it like clusters=8.")));
    };
    let Some(number) = ArchSpec::number(key) else {
        let known: Vec<&str> = ArchSpec::NUMBERS.iter().map(|number| number.key).collect();
        return Err(wrong(format!("An arch has no number {key:?}. It has {}. Use one of them.", known.join(", "))));
    };
    value.parse().ok().and_then(|value| number.change(arch, value)).ok_or_else(|| {
        wrong(format!("{key} cannot be {value:?}. It is a whole number from 0 to {}. Give one of those.", number.most))
    })
}
