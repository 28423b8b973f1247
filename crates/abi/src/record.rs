//! The records that the device side writes, one file per kind.
//!
//! A kind adds a row to [`Kind`] and a record type; the protocol that moves records knows only their sizes.

mod layout;
mod orch_phase;
mod sched_phase;
mod scope_account;
mod scope_sample;
mod submit;
mod task;

pub use orch_phase::OrchPhase;
pub use sched_phase::{SchedPhase, SchedPhaseKind};
pub use scope_account::{MarkSays, ScopeAccount};
pub use scope_sample::{
    Moment, NearHeads, NearMoment, ScopeBase, ScopeMark, ScopeMoment, ScopePeak, ScopePhase, ScopeRecord, ScopeSays,
    ScopeTag, ScopeUsed, ScopeWholePeak,
};
pub use submit::{ArgMode, SubmitRecord, SubmitTag};
pub use task::{AicoreTask, AicpuTask};

use crate::Flags;
use bytemuck::Pod;
pub(crate) use layout::proven_layout;

/// A record: plain bytes of one kind.
pub trait Record: Pod {
    /// The kind it belongs to.
    const KIND: Kind;
}

macro_rules! records {
    ($($record:ident = $kind:ident),* $(,)?) => {
        $(impl Record for $record { const KIND: Kind = Kind::$kind; })*
    };
}
records! {
    AicpuTask = AicpuTask, SchedPhase = SchedPhase, OrchPhase = OrchPhase, AicoreTask = AicoreTask,
    ScopeRecord = ScopeSample, SubmitRecord = Submit,
}

/// The kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum Kind {
    /// The scheduler's view of a dispatch.
    AicpuTask = 0,
    /// One phase of a scheduler.
    SchedPhase = 1,
    /// One submit of an orchestrator.
    OrchPhase = 2,
    /// A core's view of a task.
    AicoreTask = 3,
    /// Part of a sample of a scope at its begin or its end.
    ScopeSample = 4,
    /// A submit with its arguments, for dep_gen.
    Submit = 5,
}

/// Who an instance of a kind is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Instances {
    /// One pool per core.
    Cores,
    /// One pool per agent that may schedule.
    Schedulers,
    /// One pool per agent that may orchestrate.
    Orchestrators,
}

impl Kind {
    /// All kinds, by number.
    pub const ALL: [Kind; 6] =
        [Kind::AicpuTask, Kind::SchedPhase, Kind::OrchPhase, Kind::AicoreTask, Kind::ScopeSample, Kind::Submit];

    /// The kind with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// As reports spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::AicpuTask => "aicpu_task",
            Kind::SchedPhase => "aicpu_sched_phase",
            Kind::OrchPhase => "aicpu_orch_phase",
            Kind::AicoreTask => "aicore_task",
            Kind::ScopeSample => "scope_sample",
            Kind::Submit => "submit",
        }
    }

    /// Bytes of one record.
    pub const fn record_bytes(self) -> usize {
        match self {
            Kind::AicpuTask => size_of::<AicpuTask>(),
            Kind::SchedPhase => size_of::<SchedPhase>(),
            Kind::OrchPhase => size_of::<OrchPhase>(),
            Kind::AicoreTask => size_of::<AicoreTask>(),
            Kind::ScopeSample => size_of::<ScopeRecord>(),
            Kind::Submit => size_of::<SubmitRecord>(),
        }
    }

    /// The flag that switches it on.
    pub const fn flag(self) -> Flags {
        match self {
            Kind::AicpuTask => Flags::TASK_LIFECYCLE,
            Kind::SchedPhase => Flags::SCHED_PHASES,
            Kind::OrchPhase => Flags::ORCH_PHASES,
            Kind::AicoreTask => Flags::CORE_TIMING,
            Kind::ScopeSample => Flags::SCOPE_STATS,
            Kind::Submit => Flags::DEP_GEN,
        }
    }

    /// Who writes it.
    pub const fn instances(self) -> Instances {
        match self {
            Kind::AicpuTask | Kind::AicoreTask => Instances::Cores,
            Kind::SchedPhase => Instances::Schedulers,
            Kind::OrchPhase | Kind::ScopeSample | Kind::Submit => Instances::Orchestrators,
        }
    }
}
