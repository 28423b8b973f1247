//! Who uses a buffer.

use super::{Dependency, DependencySource};
use bytemuck::Zeroable;
use plimsoll_abi::TaskId;

const ID_MASK: u64 = (1 << 40) - 1;
const ARG_SHIFT: u32 = 40;
const WRITES: u64 = 1 << 56;
/// Set in every word, so that zero stands for nobody.
const SOMEBODY: u64 = 1 << 57;

/// Who uses a buffer: a task, which of its arguments, and whether it writes it; it may read it besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Zeroable)]
pub struct User(u64);

impl User {
    /// Nobody.
    pub(super) const NOBODY: User = User(0);

    /// Argument `arg` of `task`.
    #[inline]
    pub fn new(task: TaskId, arg: u16, writes: bool) -> Self {
        Self(task.raw() | u64::from(arg) << ARG_SHIFT | SOMEBODY).writing(writes)
    }

    /// The user as a word, which is never zero.
    #[inline]
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// The user that [`bits`](Self::bits) made this word of.
    #[inline]
    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The next argument of the same task, used in the same way.
    #[inline]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1 << ARG_SHIFT))
    }

    /// The same user, which writes the buffer or does not.
    #[inline]
    pub fn writing(self, writes: bool) -> Self {
        Self(self.0 | u64::from(writes) << WRITES.trailing_zeros())
    }

    /// The task.
    #[inline]
    pub fn task(self) -> TaskId {
        TaskId::from_raw(self.0 & ID_MASK)
    }

    /// Whether the buffer is written.
    #[inline]
    pub fn writes(self) -> bool {
        self.0 & WRITES != 0
    }

    /// Which argument it is.
    #[inline]
    pub fn arg(self) -> u16 {
        (self.0 >> ARG_SHIFT) as u16
    }

    #[inline]
    pub(super) fn is_somebody(self) -> bool {
        self.0 != 0
    }

    /// Whether it is the same task.
    #[inline]
    pub(super) fn is_task_of(self, other: User) -> bool {
        (self.0 ^ other.0) & ID_MASK == 0
    }

    /// The dependency on it of an access of exactly the same part.
    #[inline]
    pub(super) fn edge(self) -> Dependency {
        self.edge_of(true, false)
    }

    /// The dependency on it of whoever uses the buffer that it made.
    #[inline]
    pub(super) fn edge_of_maker(self) -> Dependency {
        Dependency { source: DependencySource::Creator, ..self.edge() }
    }

    #[inline]
    pub(super) fn edge_of(self, covered: bool, conservative: bool) -> Dependency {
        let source = if self.writes() { DependencySource::Tensormap } else { DependencySource::Reader };
        Dependency { pred: self.task(), pred_arg: self.arg(), source, covered, conservative }
    }
}
