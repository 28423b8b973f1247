//! What a program runs on, from the command line.

use crate::exit::{refused, wrong};
use clap::{Args, ValueEnum};
use plimsoll::machine::{CostTable, EngineKind};
use plimsoll::{ArchSpec, Device, EmulatedOptions, VirtualOptions};
use plimsoll_capi::settings::{self, implied_engine};

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
    /// Let the orchestrator thread of the chip become a scheduler when it has submitted all
    #[arg(long)]
    orch_to_sched: bool,
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
    /// Whether the orchestrator becomes a scheduler.
    pub(super) orch_to_sched: bool,
    /// Whether tasks run on cores of a chip, not on workers.
    pub(super) has_cores: bool,
}

impl MachineFacts {
    /// Whether it is no machine that exists: a chip made of threads, or virtual time.
    pub(crate) fn is_model(&self) -> bool {
        self.virtual_time || self.emulated
    }

    /// The words before the figures of a run in virtual time or on an emulated chip.
    pub(crate) fn title(&self) -> String {
        let alone = if self.isolated { ", in a process of its own" } else { "" };
        let joins = if self.orch_to_sched { ", whose orchestrator becomes a scheduler" } else { "" };
        match (self.virtual_time, self.emulated) {
            (true, _) => format!("virtual time on {}{joins}: ", self.arch),
            (_, true) => format!("emulated {}{alone}{joins}: ", self.arch),
            _ => String::new(),
        }
    }
}

impl Machine {
    fn kind(&self) -> EngineChoice {
        let implied = || match implied_engine(&self.arch) {
            "host" => EngineChoice::Host,
            _ => EngineChoice::Emulated,
        };
        self.engine.unwrap_or_else(implied)
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
                    ("--orch-to-sched", self.orch_to_sched),
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
                let (isolate, orch_to_sched) = (self.isolate, self.orch_to_sched);
                Ok(EmulatedOptions { isolate, orch_to_sched, ..EmulatedOptions::new(&arch) }.into())
            }
            EngineChoice::Virtual => {
                const SEED: u64 = 1;
                let mut options = VirtualOptions::new(&arch, self.seed.unwrap_or(SEED));
                options.orch_to_sched = self.orch_to_sched;
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
            settings::set_number(&mut arch, change)
                .map_err(|error| wrong(format!("--arch-set: {}", error.explanation())))?;
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
            orch_to_sched: self.orch_to_sched,
            has_cores: kind == EngineChoice::Emulated || self.arch != ArchSpec::HOST.name,
        }
    }

    /// The flags that say so again, each with a space before it; nothing if none was given.
    pub(crate) fn flags(&self) -> String {
        let mut words = Vec::new();
        let mut say = |flag: &str, value: Option<String>| {
            words.extend(value.map(|value| format!(" {flag} {value}")));
        };
        say("--engine", self.engine.map(|_| self.facts().engine.to_owned()));
        say("--arch", (self.arch != ArchSpec::HOST.name).then(|| self.arch.clone()));
        say("--seed", self.seed.map(|seed| seed.to_string()));
        say("--costs", self.costs.as_ref().map(|costs| format!("'{}'", costs.replace('\'', r"'\''"))));
        say("--clusters", self.clusters.map(|clusters| clusters.to_string()));
        say("--sched-threads", self.sched_threads.map(|threads| threads.to_string()));
        self.arch_set.iter().for_each(|change| say("--arch-set", Some(change.clone())));
        words.extend(self.orch_to_sched.then(|| " --orch-to-sched".to_owned()));
        words.extend(self.isolate.then(|| " --isolate".to_owned()));
        words.concat()
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
    pub(crate) fn warn_of_unused_costs(&self, device: &Device) {
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
