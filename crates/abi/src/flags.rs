//! What a run records: one word of flags, and the levels people say instead.

use core::fmt;

/// The set of features a run records, one bit each. Implications are enforced by [`Flags::with`] alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Flags(u64);

impl Flags {
    /// Nothing is recorded.
    pub const NONE: Flags = Flags(0);
    /// A core's start and end of every task.
    pub const CORE_TIMING: Flags = Flags(1 << 0);
    /// Dispatch and finish as the scheduler saw them; implies core timing.
    pub const TASK_LIFECYCLE: Flags = Flags(1 << 1);
    /// Scheduler phases; implies the task lifecycle.
    pub const SCHED_PHASES: Flags = Flags(1 << 2);
    /// Tensor dumps.
    pub const TENSOR_DUMP: Flags = Flags(1 << 3);
    /// Orchestrator phases; implies scheduler phases.
    pub const ORCH_PHASES: Flags = Flags(1 << 4);
    /// Hardware or software counters per task.
    pub const PMU: Flags = Flags(1 << 5);
    /// Submits as they are, from which dependencies are inferred again.
    pub const DEP_GEN: Flags = Flags(1 << 6);
    /// Samples and peaks of every scope.
    pub const SCOPE_STATS: Flags = Flags(1 << 7);

    /// Everything.
    pub const ALL: Flags = Flags(0xff);

    /// From the raw word, as regions, files and C have it; unknown bits are refused, implied ones are added.
    pub fn from_bits(bits: u64) -> Option<Self> {
        (bits & !Self::ALL.0 == 0).then(|| Flags::NONE.with(Flags(bits)))
    }

    /// The raw word, as regions, files and C have it.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// These flags and `more`, with all that they imply.
    pub const fn with(self, more: Flags) -> Self {
        let mut bits = self.0 | more.0;
        if bits & Self::ORCH_PHASES.0 != 0 {
            bits |= Self::SCHED_PHASES.0;
        }
        if bits & Self::SCHED_PHASES.0 != 0 {
            bits |= Self::TASK_LIFECYCLE.0;
        }
        if bits & Self::TASK_LIFECYCLE.0 != 0 {
            bits |= Self::CORE_TIMING.0;
        }
        Flags(bits)
    }

    /// Whether all of `other` are set.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is set.
    #[inline]
    pub const fn meets(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether nothing is recorded.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The swimlane level these flags amount to.
    pub const fn level(self) -> Level {
        if self.has(Self::ORCH_PHASES) {
            Level(4)
        } else if self.has(Self::SCHED_PHASES) {
            Level(3)
        } else if self.has(Self::TASK_LIFECYCLE) {
            Level(2)
        } else if self.has(Self::CORE_TIMING) {
            Level(1)
        } else {
            Level(0)
        }
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({:#x})", self.0)
    }
}

/// A swimlane level; each includes those below it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Level(u8);

/// A level that does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LevelOutOfRange(pub u64);

impl Level {
    /// What each level records, by its number.
    pub const NAMES: [&'static str; 5] =
        ["off", "core timing", "+ dispatch and finish", "+ scheduler phases", "+ orchestrator phases"];

    /// The level with this number.
    ///
    /// # Errors
    /// [`LevelOutOfRange`] from 5 on.
    pub const fn new(number: u64) -> Result<Self, LevelOutOfRange> {
        if number < Self::NAMES.len() as u64 { Ok(Level(number as u8)) } else { Err(LevelOutOfRange(number)) }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The flags that this level stands for.
    pub const fn flags(self) -> Flags {
        let top = match self.0 {
            0 => Flags::NONE,
            1 => Flags::CORE_TIMING,
            2 => Flags::TASK_LIFECYCLE,
            3 => Flags::SCHED_PHASES,
            _ => Flags::ORCH_PHASES,
        };
        Flags::NONE.with(top)
    }
}

impl fmt::Display for LevelOutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "There is no swimlane level {}; the levels are", self.0)?;
        for (number, name) in Level::NAMES.iter().enumerate() {
            write!(f, "{} {number} = {name}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for LevelOutOfRange {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_includes_those_below_it() {
        for n in 1..=4 {
            let above = Level::new(n).expect("in range").flags();
            let below = Level::new(n - 1).expect("in range").flags();
            assert!(above.has(below) && above != below, "level {n}");
            assert_eq!(above.level().number() as u64, n);
        }
    }

    #[test]
    fn implied_bits_are_added_and_unknown_ones_refused() {
        let flags = Flags::from_bits(1 << 4).expect("known bit");
        assert_eq!(flags.bits(), 0b1_0111);
        assert_eq!(Flags::from_bits(1 << 40), None);
    }
}
