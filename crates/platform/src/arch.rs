//! Topology as data: a chip is a row of this table, never a file of its own.

use plimsoll_abi::{AgentId, CoreClass};

/// What work costs in virtual time, in nanoseconds. Where the numbers come from is in `docs/virtual.md`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Costs {
    /// One submit.
    pub submit_ns: u64,
    /// Handing a task to a core.
    pub dispatch_ns: u64,
    /// Taking note of a finished task.
    pub complete_ns: u64,
    /// From the scheduler's hand to the core's, one way.
    pub handover_ns: u64,
    /// Time until an agent that waits sees what another agent has left for it.
    pub wake_ns: u64,
    /// The host's work for one drained buffer.
    pub collect_ns: u64,
    /// The least a kernel takes.
    pub kernel_ns: u64,
    /// What every element of its arguments adds, in picoseconds.
    pub element_ps: u64,
}

/// A chip, or this machine.
#[derive(Clone, PartialEq, Debug)]
pub struct ArchSpec {
    /// As the command line spells it.
    pub name: &'static str,
    /// Clusters of one matrix core and two vector cores; 0 where workers are all there is.
    pub clusters: u32,
    /// Matrix cores per cluster.
    pub aic_per_cluster: u32,
    /// Vector cores per cluster.
    pub aiv_per_cluster: u32,
    /// Threads that schedule, besides the one that orchestrates.
    pub sched_threads: u32,
    /// Ticks per second of the chip's counter; 0 = this machine's.
    pub counter_hz: u64,
    /// Whether the host can read device memory in place.
    pub host_mapped: bool,
    /// What work costs in virtual time.
    pub costs: Costs,
}

/// One number of an arch: what it is called, and what it is.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// As tables and the command line spell it.
    pub key: &'static str,
    /// What it means.
    pub about: &'static str,
    /// The largest it can be.
    pub most: u64,
    /// Whether it says nothing where time is real: there the clock is the machine's, and work costs what it costs.
    pub only_virtual: bool,
    get: fn(&ArchSpec) -> u64,
    set: fn(&mut ArchSpec, u64) -> Option<()>,
}

impl Number {
    /// What it is on `arch`.
    pub fn of(&self, arch: &ArchSpec) -> u64 {
        (self.get)(arch)
    }

    /// Sets the number to `value` on `arch`; `None` if that is too large.
    pub fn change(&self, arch: &mut ArchSpec, value: u64) -> Option<()> {
        if value > self.most { None } else { (self.set)(arch, value) }
    }
}

/// A number of the chip itself.
macro_rules! part {
    ($field:ident, $most:expr, $only_virtual:literal, $about:literal) => {
        Number {
            key: stringify!($field),
            about: $about,
            most: $most,
            only_virtual: $only_virtual,
            get: |arch| u64::from(arch.$field),
            set: |arch, value| {
                arch.$field = value.try_into().ok()?;
                Some(())
            },
        }
    };
}

/// A cost.
macro_rules! cost {
    ($field:ident, $about:literal) => {
        Number {
            key: stringify!($field),
            about: $about,
            most: Costs::MOST,
            only_virtual: true,
            get: |arch| arch.costs.$field,
            set: |arch, value| {
                arch.costs.$field = value;
                Some(())
            },
        }
    };
}

/// A number of an arch that is too large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge {
    /// As tables spell it.
    pub key: &'static str,
    /// What it is.
    pub value: u64,
    /// The largest it can be.
    pub most: u64,
}

impl std::fmt::Display for TooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, value, most } = self;
        write!(f, "{key} cannot be {value}. It is a whole number from 0 to {most}. Give one of those")
    }
}

impl Costs {
    /// The longest cost: an hour. Longer ones are mistakes.
    pub const MOST: u64 = 3_600_000_000_000;
}

impl ArchSpec {
    /// The most of anything that an arch counts: far more than any chip has, and products of three of them fit 64 bits.
    const MOST_PARTS: u64 = 1 << 20;
    /// The fastest counter: a tick of a picosecond.
    const MOST_HZ: u64 = 1_000_000_000_000;

    /// Every number of an arch, in the order tables show them.
    pub const NUMBERS: [Number; 13] = [
        part!(clusters, Self::MOST_PARTS, false, "clusters of cores; 0 where workers are all there is"),
        part!(aic_per_cluster, Self::MOST_PARTS, false, "matrix cores of each"),
        part!(aiv_per_cluster, Self::MOST_PARTS, false, "vector cores of each"),
        part!(sched_threads, Self::MOST_PARTS, false, "threads that schedule, besides the one that orchestrates"),
        part!(counter_hz, Self::MOST_HZ, true, "ticks per second of the counter; 0 is 1 GHz in virtual time"),
        cost!(submit_ns, "one submit with its inference"),
        cost!(dispatch_ns, "taking a ready task and handing it over"),
        cost!(complete_ns, "noting a finished task and releasing its consumers"),
        cost!(handover_ns, "scheduler to core, and again core to scheduler"),
        cost!(wake_ns, "until an agent that waits sees what another left for it"),
        cost!(collect_ns, "the host's work for one drained buffer"),
        cost!(kernel_ns, "the least a kernel takes"),
        cost!(element_ps, "added for every element of its tensor arguments, in picoseconds"),
    ];

    /// The number of this name.
    pub fn number(key: &str) -> Option<&'static Number> {
        const { &Self::NUMBERS }.iter().find(|number| number.key == key)
    }

    /// Whether every number is one that sums and products of it have room for. The fields can be set to anything.
    ///
    /// # Errors
    /// [`TooLarge`] with the first number that is larger than it may be.
    pub fn check(&self) -> Result<(), TooLarge> {
        for number in const { &Self::NUMBERS } {
            let (key, value, most) = (number.key, number.of(self), number.most);
            if value > most {
                return Err(TooLarge { key, value, most });
            }
        }
        Ok(())
    }

    /// This machine's CPUs.
    pub const HOST: ArchSpec = ArchSpec {
        name: "host",
        clusters: 0,
        aic_per_cluster: 0,
        aiv_per_cluster: 0,
        sched_threads: 0,
        counter_hz: 0,
        host_mapped: true,
        costs: Costs {
            submit_ns: 60,
            dispatch_ns: 10,
            complete_ns: 20,
            handover_ns: 0,
            wake_ns: 70,
            collect_ns: 10_000,
            kernel_ns: 100,
            element_ps: 250,
        },
    };
    /// 24 clusters behind a 50 MHz counter.
    pub const A2A3: ArchSpec = ArchSpec {
        name: "a2a3",
        clusters: 24,
        aic_per_cluster: 1,
        aiv_per_cluster: 2,
        sched_threads: 3,
        counter_hz: 50_000_000,
        host_mapped: true,
        costs: Costs {
            submit_ns: 1_600,
            dispatch_ns: 360,
            complete_ns: 400,
            handover_ns: 700,
            wake_ns: 100,
            collect_ns: 10_000,
            kernel_ns: 2_000,
            element_ps: 100,
        },
    };
    /// 36 clusters behind a 1 GHz counter, memory the host must copy.
    pub const A5: ArchSpec = ArchSpec {
        name: "a5",
        clusters: 36,
        aic_per_cluster: 1,
        aiv_per_cluster: 2,
        sched_threads: 4,
        counter_hz: 1_000_000_000,
        host_mapped: false,
        costs: Costs {
            submit_ns: 1_000,
            dispatch_ns: 240,
            complete_ns: 260,
            handover_ns: 500,
            wake_ns: 100,
            collect_ns: 20_000,
            kernel_ns: 1_500,
            element_ps: 60,
        },
    };
    /// Every arch there is.
    pub const ALL: [&'static ArchSpec; 3] = [&Self::HOST, &Self::A2A3, &Self::A5];

    /// The arch of this name.
    pub fn named(name: &str) -> Option<&'static ArchSpec> {
        Self::ALL.into_iter().find(|arch| arch.name == name)
    }

    /// Compute cores of all clusters; as many as can be counted if there are more.
    pub fn cores(&self) -> u32 {
        self.clusters.saturating_mul(self.aic_per_cluster.saturating_add(self.aiv_per_cluster))
    }

    /// The class of a core: matrix cores come first, then vector cores.
    pub fn class_of(&self, core: u32) -> CoreClass {
        if core < self.clusters * self.aic_per_cluster { CoreClass::Aic } else { CoreClass::Aiv }
    }

    /// The cluster of a core.
    pub fn cluster_of(&self, core: u32) -> u32 {
        match self.class_of(core) {
            CoreClass::Aic => core / self.aic_per_cluster.max(1),
            _ => (core - self.clusters * self.aic_per_cluster) / self.aiv_per_cluster.max(1),
        }
    }

    /// The agent that owns a core: clusters go round the schedulers, who come after the orchestrator.
    pub fn owner(&self, core: u32) -> AgentId {
        AgentId((1 + self.cluster_of(core) % self.sched_threads.max(1)) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_can_be_changed_and_changes_nothing_else() {
        for changed in &ArchSpec::NUMBERS {
            let mut arch = ArchSpec::A2A3;
            let value = changed.of(&arch) + 3;
            changed.change(&mut arch, value).expect("a small number");
            for number in &ArchSpec::NUMBERS {
                let expected = if number.key == changed.key { value } else { number.of(&ArchSpec::A2A3) };
                assert_eq!(number.of(&arch), expected, "{} after {} was changed", number.key, changed.key);
            }
            assert_eq!(ArchSpec::number(changed.key).map(|number| number.key), Some(changed.key));
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_refused_where_it_is_set_and_where_it_is_used() {
        for number in &ArchSpec::NUMBERS {
            let mut arch = ArchSpec::A5;
            assert_eq!(number.change(&mut arch, number.most + 1), None, "{}", number.key);
            assert_eq!(arch, ArchSpec::A5);
            number.change(&mut arch, number.most).expect("the largest");
            assert_eq!(arch.check(), Ok(()));
            // As whoever sets the field does, who is asked nothing.
            (number.set)(&mut arch, number.most + 1).expect("the field has room");
            let refused = arch.check().expect_err("too large");
            assert_eq!((refused.key, refused.value), (number.key, number.most + 1));
        }
        let huge = ArchSpec { clusters: u32::MAX, aic_per_cluster: u32::MAX, ..ArchSpec::A5 };
        assert_eq!(huge.cores(), u32::MAX, "not what is left of a product");
    }

    #[test]
    fn every_core_of_every_chip_has_a_class_a_cluster_and_an_owner() {
        for arch in ArchSpec::ALL {
            let count = |class| (0..arch.cores()).filter(|&core| arch.class_of(core) == class).count() as u32;
            assert_eq!(count(CoreClass::Aic), arch.clusters * arch.aic_per_cluster);
            assert_eq!(count(CoreClass::Aiv), arch.clusters * arch.aiv_per_cluster);
            for cluster in 0..arch.clusters {
                let cores = (0..arch.cores()).filter(|&core| arch.cluster_of(core) == cluster);
                let owners: Vec<_> = cores.map(|core| arch.owner(core)).collect();
                assert_eq!(owners.len() as u32, arch.aic_per_cluster + arch.aiv_per_cluster);
                assert!(owners.iter().all(|&owner| owner == owners[0] && owner.0 >= 1));
                assert!(u32::from(owners[0].0) <= arch.sched_threads);
            }
        }
    }
}
