//! What a program runs on, from the command line.

use crate::exit::wrong;
use clap::{Args, ValueEnum};
use plimsoll::{ArchSpec, CostTable, Device, EngineKind, VirtualOptions};
use std::path::PathBuf;

/// Options of the machine.
#[derive(Args)]
pub(super) struct Machine {
    /// What runs the tasks; `virtual` if an arch other than host is named, else `host`
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// The chip, as data; `plimsoll list --archs` shows them
    #[arg(long, default_value = "host")]
    arch: String,
    /// Virtual time: decides ties, interleavings and drawn costs; the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Virtual time: what kernels cost, from a JSON file
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Virtual time: clusters of the chip
    #[arg(long, value_name = "N")]
    clusters: Option<u32>,
    /// Virtual time: threads of the chip that schedule
    #[arg(long, value_name = "N")]
    sched_threads: Option<u32>,
}

/// What runs the tasks.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Engine {
    /// This machine's CPUs
    Host,
    /// Deterministic virtual time
    Virtual,
}

/// What every output says of the machine.
#[derive(Clone)]
pub(super) struct MachineFacts {
    pub(super) engine: &'static str,
    pub(super) arch: String,
    pub(super) virtual_time: bool,
}

impl Machine {
    fn is_virtual(&self) -> bool {
        match self.engine {
            Some(engine) => engine == Engine::Virtual,
            None => self.arch != ArchSpec::HOST.name,
        }
    }

    pub(super) fn engine(&self) -> anyhow::Result<EngineKind> {
        let names: Vec<&str> = ArchSpec::ALL.iter().map(|arch| arch.name).collect();
        let Some(arch) = ArchSpec::named(&self.arch) else {
            let names = names.join(", ");
            return Err(wrong(format!("There is no arch {:?}. The archs are {names}. Choose one.", self.arch)));
        };
        if !self.is_virtual() {
            let unused = [("--costs", self.costs.is_some()), ("--clusters", self.clusters.is_some())];
            if let Some((flag, _)) = unused.iter().find(|(_, given)| *given) {
                return Err(wrong(format!(
                    "{flag} needs virtual time. On the host engine work costs what it costs. Add --engine virtual."
                )));
            }
            if self.arch != ArchSpec::HOST.name {
                return Err(wrong(format!(
                    "The host engine runs this machine's CPUs, not {}. That chip is emulated in virtual time. Use --engine virtual.",
                    self.arch
                )));
            }
            return Ok(EngineKind::Host);
        }
        let mut options = VirtualOptions::new(arch, self.seed);
        if let Some(clusters) = self.clusters {
            options.arch.clusters = clusters;
        }
        if let Some(threads) = self.sched_threads {
            options.arch.sched_threads = threads;
        }
        if let Some(file) = &self.costs {
            options.costs = CostTable::load(file).map_err(wrong)?;
        }
        Ok(options.into())
    }

    pub(super) fn facts(&self) -> MachineFacts {
        let virtual_time = self.is_virtual();
        MachineFacts { engine: if virtual_time { "virtual" } else { "host" }, arch: self.arch.clone(), virtual_time }
    }

    /// A cost for a kernel that is not there is likely a misspelt name.
    pub(super) fn warn_of_unused_costs(&self, device: &Device) {
        for name in device.unused_costs() {
            eprintln!("plimsoll: warning: the cost table names kernel {name:?}, which this program does not have");
        }
    }
}
