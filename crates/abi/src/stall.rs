//! What kind of standstill a run is in.

use core::fmt;

/// Why nothing moves in a run, told from counters in this order: what runs, what is ready, what waits, the orchestrator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum StallClass {
    /// A kernel runs and does not end.
    RunningStalled = 0,
    /// Tasks are ready, or a scheduler holds one, and nobody executes them.
    ReadyButIdle = 1,
    /// Tasks wait for others, and none runs or is ready.
    DependencyDeadlock = 2,
    /// All that was submitted is done, and the orchestrator does not go on.
    OrchestratorStarved = 3,
    /// None of the others.
    Unknown = 4,
}

impl StallClass {
    /// All classes, by number.
    pub const ALL: [StallClass; 5] = [
        StallClass::RunningStalled,
        StallClass::ReadyButIdle,
        StallClass::DependencyDeadlock,
        StallClass::OrchestratorStarved,
        StallClass::Unknown,
    ];

    /// As files and messages spell it.
    pub const fn name(self) -> &'static str {
        match self {
            StallClass::RunningStalled => "running-stalled",
            StallClass::ReadyButIdle => "ready-but-idle",
            StallClass::DependencyDeadlock => "dependency-deadlock",
            StallClass::OrchestratorStarved => "orchestrator-starved",
            StallClass::Unknown => "unknown",
        }
    }
}

impl fmt::Display for StallClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
