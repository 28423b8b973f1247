//! What can be made to go wrong in virtual time. For tests: a plan that is empty changes nothing.

use crate::arch::Costs;

/// The faults of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// The agents and cores that stand still, and when.
    pub pauses: Vec<Pause>,
    /// A core whose kernel does not end.
    pub hang: Option<Hang>,
    /// Every cost is off by up to this many percent, by lot.
    pub jitter_percent: u64,
    /// An agent loses the CPU for up to this long, by lot, where another could slip in between two of its steps.
    pub preempt_ns: u64,
    /// Memory that was taken back is filled with [`Faults::POISON`], so that a late reader shows.
    pub poison: bool,
    /// How many wake-ups go well before one is lost; none is lost if it is not given. The simulator's search for lost
    /// wake-ups must find this defect.
    pub lose_wake_up: Option<u64>,
}

impl Faults {
    /// What memory that was taken back is filled with.
    pub const POISON: u8 = 0xa5;

    /// What is wrong with them, if anything.
    pub fn fault(&self) -> Option<String> {
        const MOST_PERCENT: u64 = 10_000;
        const MOST: u64 = Costs::MOST;
        if self.jitter_percent > MOST_PERCENT {
            return Some(format!("A jitter of {} % is more than {MOST_PERCENT} %", self.jitter_percent));
        }
        if self.preempt_ns > MOST {
            return Some(format!("A preemption of {} ns is longer than {MOST} ns", self.preempt_ns));
        }
        let backwards = self.pauses.iter().find(|pause| pause.from_ns > pause.to_ns)?;
        Some(format!("A pause goes from {} ns to {} ns", backwards.from_ns, backwards.to_ns))
    }
}

/// Somebody stands still for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// Who stands still.
    pub who: Who,
    /// From this virtual time on, in nanoseconds.
    pub from_ns: u64,
    /// Up to this one; [`FOR_GOOD`](Self::FOR_GOOD) is never.
    pub to_ns: u64,
}

impl Pause {
    /// The end of a pause that has none.
    pub const FOR_GOOD: u64 = u64::MAX;
}

/// Somebody who can be paused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// An agent: the orchestrator is 0.
    Agent(u16),
    /// The collector.
    Collector,
}

/// A core whose kernel does not end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hang {
    /// The core.
    pub core: u16,
    /// Which execution of the core it is, counted from 1.
    pub execution: u32,
}
