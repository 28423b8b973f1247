//! One [`Trace`] model of a run, whatever it was read from.
//!
//! [`open`] takes a run directory of ours or files of the reference system, finds out which, and gives the columns
//! that analysis and reports work on. What is wrong with the input is a value, the trace's [`Quality`]; only input
//! that cannot be read at all is an [`Error`].
//!
//! Nothing here knows how records were taken: the reader depends on the record layouts alone.
#![forbid(unsafe_code)]

mod args_dump;
mod clock;
mod counters;
pub mod deps;
mod error;
mod executions;
mod host_phases;
mod kernel_time;
mod machine_mark;
pub mod manifest;
mod model;
mod outputs;
mod phases;
mod plain;
mod quality;
pub mod read;
mod scopes;
#[doc(hidden)]
pub mod synthetic;

pub use args_dump::{
    ArgRole, ArgStage, ArgsDump, ArgsDumpWriter, ArgsExport, DumpTotals, DumpedArg, ElementForm, export_args,
};
pub use clock::RunClock;
pub use counters::{CounterRow, CounterTable};
pub use error::Error;
pub use executions::{CoreRows, DispatchRows, Executions, NO_KERNEL, NO_TICKS};
pub use host_phases::{HostPhase, HostPhases};
pub use kernel_time::KernelTime;
pub use machine_mark::MachineMark;
pub use manifest::{
    AgentFacts, Blocker, BoardFacts, CapacityFacts, ChainLink, ClockFacts, ClockPair, CoreFacts, EndClass, ErrorReport,
    ExecutedFacts, Explanation, FORMAT, FileProducer, KernelFacts, Ledger, Liveness, Manifest, OrchestratorFacts,
    PoolLedger, RingCapacity, RingFacts, RunningFacts, SCHEMA, SchedulerFacts, SiteFacts, Status, Topology,
    TransportFacts, WaitGroup,
};
pub use model::{Core, Facts, PoolCount, Source, Trace};
pub use outputs::{LATEST, OUTPUTS, for_shell, newest_run, point_latest, point_latest_in, run_name};
pub use phases::{OrchPhases, PhaseNames, PhaseRows, PhaseTotals, SchedPhaseRow, SchedPhases};
pub use plain::open_plain;
pub use plimsoll_abi::CoreClass;
pub use quality::{Finding, FindingKind, Quality};
pub use read::{
    Audit, FrameFinder, FullSample, LooseFrame, Opening, Request, ScopeJoin, Stretch, TraceParts, audit, kernel_time,
    open, open_request, open_unended, open_with, rank_folder, whole_frame,
};
pub use scopes::{PeakForm, ScopePeaks, ScopeSample, ScopeSamples, ScopeSpan};
