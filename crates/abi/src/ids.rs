//! Ids and times as newtypes, so that none can be taken for another.

use core::fmt;

/// One task: `ring << 32 | local`. Prints as `r2t17`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct TaskId(u64);

impl TaskId {
    /// Bits of a record's task word that hold the id; the round lies above them.
    const ID_BITS: u32 = 40;
    /// The rounds that fit a task word.
    pub const ROUNDS: u32 = 1 << 24;

    /// The task with number `local` on `ring`.
    #[inline]
    pub const fn new(ring: u8, local: u32) -> Self {
        Self(((ring as u64) << 32) | local as u64)
    }

    /// From the number that files carry.
    #[inline]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The number that files carry.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The ring it was submitted on.
    #[inline]
    pub const fn ring(self) -> u8 {
        (self.0 >> 32) as u8
    }

    /// Its number within the ring, wrapping at 2^32.
    #[inline]
    pub const fn local(self) -> u32 {
        self.0 as u32
    }

    /// The word a record stores: the id with the round of the run above it.
    #[inline]
    pub const fn with_round(self, round: u32) -> u64 {
        self.0 | (round as u64) << Self::ID_BITS
    }

    /// Takes a record's task word apart into id and round.
    #[inline]
    pub const fn from_word(word: u64) -> (Self, u32) {
        (Self(word & ((1 << Self::ID_BITS) - 1)), (word >> Self::ID_BITS) as u32)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}t{}", self.ring(), self.local())
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// As an index.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id!(
    /// A compute core; on a CPU run, a worker.
    CoreId(u16)
);
id!(
    /// A thread (or coroutine) that schedules: the orchestrator or a scheduler.
    AgentId(u16)
);
id!(
    /// A registered kernel of a device.
    KernelId(u32)
);
id!(
    /// A place in a source file, from the run's site table.
    SiteId(u32)
);
id!(
    /// A buffer of one run: a host buffer or a task's output.
    BufferId(u64)
);
id!(
    /// A reading of the run's clock.
    Ticks(u64)
);
id!(
    /// Nanoseconds.
    Nanos(u64)
);
