//! What counters count while a task runs: groups of up to four counters that are read together.

/// A group of counters. Numbers are what files carry as `event_type`; the reference's own groups have numbers below 100.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u16)]
pub enum CounterGroup {
    /// Cycles and instructions of the CPU, in user mode.
    #[default]
    Cycles = 100,
    /// Cycles and instructions in user mode, with references to the last-level cache and those that missed.
    Cache = 101,
    /// Cycles and instructions in user mode, with branches and those that were predicted wrong.
    Branches = 102,
    /// What the kernel counts of a thread: CPU time, page faults, context switches, migrations.
    Software = 103,
    /// What `getrusage` and the thread's CPU clock say: CPU time, page faults, context switches.
    Rusage = 104,
    /// What a cost table charges by in virtual time: elements and bytes of the arguments.
    Virtual = 105,
}

impl CounterGroup {
    /// All groups.
    pub const ALL: [CounterGroup; 6] = [
        CounterGroup::Cycles,
        CounterGroup::Cache,
        CounterGroup::Branches,
        CounterGroup::Software,
        CounterGroup::Rusage,
        CounterGroup::Virtual,
    ];

    /// The most counters that a group has.
    pub const MOST: usize = 4;

    /// As people say it.
    pub const fn name(self) -> &'static str {
        match self {
            CounterGroup::Cycles => "cycles",
            CounterGroup::Cache => "cache",
            CounterGroup::Branches => "branches",
            CounterGroup::Software => "software",
            CounterGroup::Rusage => "rusage",
            CounterGroup::Virtual => "virtual",
        }
    }

    /// Its counters, in the order in which a record has them. Cycles have a place of their own in files, and come first.
    pub const fn counters(self) -> &'static [&'static str] {
        match self {
            CounterGroup::Cycles => &["cycles", "instructions"],
            CounterGroup::Cache => &["cycles", "instructions", "cache_references", "cache_misses"],
            CounterGroup::Branches => &["cycles", "instructions", "branches", "branch_misses"],
            CounterGroup::Software => &["task_clock_ns", "page_faults", "context_switches", "migrations"],
            CounterGroup::Rusage => &["task_clock_ns", "page_faults", "context_switches"],
            CounterGroup::Virtual => &["elements", "bytes"],
        }
    }

    /// Whether the first of its counters is cycles.
    pub const fn has_cycles(self) -> bool {
        matches!(self, CounterGroup::Cycles | CounterGroup::Cache | CounterGroup::Branches)
    }

    /// As files number it.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The group with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.number() == number)
    }

    /// The group with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }
}

const _: () = {
    let mut at = 0;
    while at < CounterGroup::ALL.len() {
        assert!(CounterGroup::ALL[at].counters().len() <= CounterGroup::MOST);
        at += 1;
    }
};
