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

/// What decides a standstill's class, as far as whoever asks can see it: the run's own watchdog, virtual time, or a look from
/// outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StallFacts {
    /// A kernel runs.
    pub running: bool,
    /// Blocks that are to start together have not all a place to run.
    pub assembling: bool,
    /// Tasks are ready for whoever looks for work.
    pub ready: bool,
    /// Tasks are ready that an orchestrator in its own code has called nobody for.
    pub kept: bool,
    /// A scheduler or worker stands still between two tasks.
    pub between: bool,
    /// Tasks have not completed.
    pub waiting: bool,
    /// The orchestrator is in no run.
    pub away: bool,
}

/// The first fact that holds, in the order of [`StallFacts`]: what a standstill is put down to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StallCause {
    /// A kernel runs and does not end.
    Running,
    /// A cohort has not all of its seats, and nobody gives up another.
    Assembling,
    /// Tasks are ready, and nobody takes one.
    Ready,
    /// The orchestrator keeps ready tasks to itself.
    Kept,
    /// A scheduler does not go on.
    Between,
    /// Tasks wait.
    Waiting,
    /// All submitted tasks have completed, and the orchestrator makes no progress.
    Orchestrator,
    /// All tasks have completed, and no orchestration is going on.
    Nobody,
}

impl StallFacts {
    /// What the standstill is put down to.
    pub const fn cause(&self) -> StallCause {
        match self {
            Self { running: true, .. } => StallCause::Running,
            Self { assembling: true, .. } => StallCause::Assembling,
            Self { ready: true, .. } => StallCause::Ready,
            Self { kept: true, .. } => StallCause::Kept,
            Self { between: true, .. } => StallCause::Between,
            Self { waiting: true, .. } => StallCause::Waiting,
            Self { away: true, .. } => StallCause::Nobody,
            _ => StallCause::Orchestrator,
        }
    }
}

impl StallCause {
    /// Its class.
    pub const fn class(self) -> StallClass {
        match self {
            StallCause::Running => StallClass::RunningStalled,
            StallCause::Assembling | StallCause::Ready | StallCause::Between => StallClass::ReadyButIdle,
            StallCause::Kept | StallCause::Orchestrator => StallClass::OrchestratorStarved,
            StallCause::Waiting => StallClass::DependencyDeadlock,
            StallCause::Nobody => StallClass::Unknown,
        }
    }
}
