//! The records that the device side writes, one file per kind.
//!
//! A kind is a row of [`for_each_kind!`](crate::for_each_kind) and a record type. Numbers, names, sizes, flags, packing, the
//! pools of a region, a lane's writers and what `check` counts follow from the row; the protocol that moves records
//! knows only their sizes.

mod arg_dump;
mod counter_reading;
mod layout;
mod orch_phase;
mod sched_phase;
mod scope_sample;
#[cfg(spare_kind)]
mod spare;
mod submit;
mod task;

pub use arg_dump::{ArgDumpHead, ArgDumpRecord, Truncation};
pub use counter_reading::CounterReading;
pub use orch_phase::OrchPhase;
pub use sched_phase::{SchedPhase, SchedPhaseKind};
pub use scope_sample::{ScopePhase, ScopeRecord, ScopeRingsRecord};
#[cfg(spare_kind)]
pub use spare::Spare;
pub use submit::{ArgMode, SubmitRecord, SubmitTag};
pub use task::{AicoreTask, AicpuTask};

use crate::Flags;
use bytemuck::Pod;
pub(crate) use layout::proven_layout;

/// Gives the table of kinds to another macro. A row is
///
/// `Kind = number, record type, name as reports spell it, flag that switches it on, who writes it, what it is;`
///
/// After who writes it may stand, in parentheses, the field that slots of this kind are stamped with; such records can be
/// reserved and written by others than their pool's owner.
/// Numbers count up from 0 without gaps, and a kind keeps its number for ever. The name is also that of a lane's writer.
#[macro_export]
macro_rules! for_each_kind {
    ($macro:ident) => {
        $macro! {
            AicpuTask = 0, AicpuTask, aicpu_task, TASK_LIFECYCLE, Cores, "The scheduler's view of a dispatch.";
            SchedPhase = 1, SchedPhase, aicpu_sched_phase, SCHED_PHASES, Schedulers, "One phase of a scheduler.";
            OrchPhase = 2, OrchPhase, aicpu_orch_phase, ORCH_PHASES, Orchestrators, "One submit of an orchestrator.";
            AicoreTask = 3, AicoreTask, aicore_task, CORE_TIMING, Cores(token), "A core's view of a task.";
            ScopeSample = 4, ScopeRecord, scope_sample, SCOPE_STATS, Orchestrators, "The begin or the end of a scope.";
            Submit = 5, SubmitRecord, submit, DEP_GEN, Orchestrators, "A submit with its arguments, for dep_gen.";
            ScopeRings = 6, ScopeRingsRecord, scope_rings, SCOPE_STATS, Orchestrators, "What all rings held at a scope sample.";
            ArgDump = 7, ArgDumpRecord, arg_dump, TENSOR_DUMP, Schedulers, "A line of a captured argument of a task.";
            CounterReading = 8, CounterReading, counter_reading, PMU, Cores(token), "What counters counted while a task ran.";
            #[cfg(spare_kind)]
            Spare = 9, Spare, spare, PMU, Schedulers, "A kind that only a test of new kinds has.";
        }
    };
}

/// A record: plain bytes of one kind.
pub trait Record: Pod {
    /// The kind it belongs to.
    const KIND: Kind;
}

/// A record whose slot can be reserved by one and written by another.
pub trait Stamped: Record {
    /// Where its stamp is, a `u32`.
    const STAMP: usize;
}

/// Whose the pools of a kind are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Instances {
    /// One pool per core.
    Cores,
    /// One pool per agent that may schedule.
    Schedulers,
    /// One pool per agent that may orchestrate.
    Orchestrators,
}

macro_rules! define_kinds {
    ($($(#[$cfg:meta])* $kind:ident = $number:literal, $record:ident, $name:ident, $flag:ident, $who:ident $(($stamp:ident))?, $what:literal;)*) => {
        /// The kind of a record.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        pub enum Kind {
            $($(#[$cfg])* #[doc = $what] $kind = $number,)*
        }

        const KINDS: usize = [$($(#[$cfg])* Kind::$kind),*].len();

        $($(#[$cfg])* impl Record for $record { const KIND: Kind = Kind::$kind; })*

        $($(impl Stamped for $record { const STAMP: usize = core::mem::offset_of!($record, $stamp); })?)*

        impl Kind {
            /// All kinds, by number.
            pub const ALL: [Kind; KINDS] = [$($(#[$cfg])* Kind::$kind),*];

            /// As reports spell it.
            pub const fn name(self) -> &'static str {
                match self { $($(#[$cfg])* Kind::$kind => stringify!($name),)* }
            }

            /// Bytes of one record.
            pub const fn record_bytes(self) -> usize {
                match self { $($(#[$cfg])* Kind::$kind => size_of::<$record>(),)* }
            }

            /// The flag that switches it on.
            pub const fn flag(self) -> Flags {
                match self { $($(#[$cfg])* Kind::$kind => Flags::$flag,)* }
            }

            /// Where the stamp is in a record that can be reserved: a `u32`, 0 if the record is void.
            pub const fn stamp(self) -> Option<usize> {
                match self {
                    $($(#[$cfg])* Kind::$kind => {
                        match [$(core::mem::offset_of!($record, $stamp))?].as_slice() { [at] => Some(*at), _ => None }
                    })*
                }
            }

            /// Who writes it.
            pub const fn instances(self) -> Instances {
                match self { $($(#[$cfg])* Kind::$kind => Instances::$who,)* }
            }
        }
    };
}
for_each_kind!(define_kinds);

const _: () = {
    let mut number = 0;
    while number < Kind::ALL.len() {
        assert!(Kind::ALL[number] as usize == number, "numbers count up from 0 without gaps");
        number += 1;
    }
};

const _: () = {
    let (mut flags, mut number) = (Flags::NONE, 0);
    while number < Kind::ALL.len() {
        flags = flags.with(Kind::ALL[number].flag());
        number += 1;
    }
    assert!(flags.has(Flags::ALL), "every flag has a kind");
};

impl Kind {
    /// The kind with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
