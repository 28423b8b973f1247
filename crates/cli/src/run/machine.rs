//! What a program runs on, from the command line.

use crate::exit::{refused, wrong};
use clap::{Args, ValueEnum};
use plimsoll::{ArchSpec, CostTable, Device, EngineKind, VirtualOptions};

/// Options of the machine.
#[derive(Args)]
pub(super) struct Machine {
    /// What runs the tasks; `virtual` if an arch other than host is named, else `host`
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// The chip, as data; `plimsoll list --archs` shows them
    #[arg(long, default_value = "host")]
    arch: String,
    /// Virtual time: decides ties, interleavings and drawn costs; the same seed gives the same bytes [default: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// Virtual time: what kernels cost, from a JSON file, or the JSON itself
    #[arg(long, value_name = "FILE")]
    costs: Option<String>,
    /// Virtual time: clusters of the chip
    #[arg(long, value_name = "N")]
    clusters: Option<u32>,
    /// Virtual time: threads of the chip that schedule
    #[arg(long, value_name = "N")]
    sched_threads: Option<u32>,
    /// Virtual time: change any number of the arch; `plimsoll list --archs` shows them
    #[arg(long, value_name = "KEY=VALUE")]
    arch_set: Vec<String>,
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
    /// Whether tasks run on cores of a chip, not on workers.
    pub(super) has_cores: bool,
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
            let unused = [
                ("--costs", self.costs.is_some()),
                ("--clusters", self.clusters.is_some()),
                ("--sched-threads", self.sched_threads.is_some()),
                ("--arch-set", !self.arch_set.is_empty()),
                ("--seed", self.seed.is_some()),
            ];
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
        const SEED: u64 = 1;
        let mut options = VirtualOptions::new(arch, self.seed.unwrap_or(SEED));
        if let Some(clusters) = self.clusters {
            options.arch.clusters = clusters;
        }
        if let Some(threads) = self.sched_threads {
            options.arch.sched_threads = threads;
        }
        for change in &self.arch_set {
            set_number(&mut options.arch, change)?;
        }
        if let Some(given) = &self.costs {
            options.costs = CostTable::load_or_parse(given).map_err(refused)?;
        }
        Ok(options.into())
    }

    pub(super) fn facts(&self) -> MachineFacts {
        let virtual_time = self.is_virtual();
        let has_cores = self.arch != ArchSpec::HOST.name;
        let engine = if virtual_time { "virtual" } else { "host" };
        MachineFacts { engine, arch: self.arch.clone(), virtual_time, has_cores }
    }

    /// A cost for a kernel that is not there is likely a misspelt name.
    pub(super) fn warn_of_unused_costs(&self, device: &Device) {
        for name in device.unused_costs() {
            eprintln!("plimsoll: warning: the cost table names kernel {name:?}, which this program does not have");
        }
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
