//! Where uses of a part of a buffer are kept: every buffer has a home, and every cell of a grid.
//!
//! As long as all uses in a home are of exactly the same part, the whole buffer or one cell, it holds no more than the
//! last writer and the reads since. Once something else has to be kept there it is *mixed*: then each use knows its
//! part, and they are in lists. A home whose uses are all spent is empty again.

use super::arena::Arena;
use super::user::User;
use super::{BufferRef, Edges, NONE};
use crate::Region;
use bytemuck::Zeroable;
use plimsoll_abi::RINGS;

/// What a home keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Zeroable)]
pub(super) struct Kept(u64);

/// No buffer has a number like this.
const MIXED: u64 = 7 << 61;

impl Kept {
    /// Nothing.
    pub(super) const NOTHING: Kept = Kept(0);
    /// Nothing any more, in the home of a cell that is known to have kept something.
    pub(super) const NOTHING_MORE: Kept = Kept(1);
    /// Uses of the whole buffer that the home belongs to.
    pub(super) const WHOLE: Kept = Kept(2);

    /// Uses of one cell of a buffer's grid.
    #[inline(always)]
    pub(super) fn cell(buffer: BufferRef, number: u32) -> Self {
        Kept(u64::from(buffer.0) << 32 | u64::from(number))
    }

    /// Uses of any parts, in these lists.
    pub(super) fn mixed(lists: u32) -> Self {
        Kept(MIXED | u64::from(lists))
    }

    /// What it is, taken apart.
    pub(super) fn view(self) -> KeptView {
        match self {
            Kept::NOTHING | Kept::NOTHING_MORE => KeptView::Nothing,
            Kept::WHOLE => KeptView::Whole,
            Kept(word) if word & MIXED == MIXED => KeptView::Mixed(word as u32),
            Kept(word) => KeptView::Cell(BufferRef((word >> 32) as u32), word as u32),
        }
    }
}

/// What a home keeps, taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeptView {
    Nothing,
    Whole,
    Cell(BufferRef, u32),
    Mixed(u32),
}

/// Where uses are kept. Zeroed memory is a home that keeps nothing.
#[derive(Clone, Copy, Debug, Zeroable)]
#[repr(C, align(32))]
pub(super) struct Home {
    pub(super) kept: Kept,
    /// The last that wrote the part.
    pub(super) writer: User,
    /// The newest read since, by ring.
    pub(super) reads: [u32; RINGS],
}

const _: () = assert!(size_of::<Home>() == 32);

impl Home {
    pub(super) const EMPTY: Home = Home { kept: Kept::NOTHING, writer: User::NOBODY, reads: [NONE; RINGS] };

    /// Whether nobody has to wait for anything in it, if that can be told without looking into lists of mixed parts.
    #[inline(always)]
    pub(super) fn is_spent(&self, rings: &[RingUses; RINGS], edges: &impl Edges) -> bool {
        self.kept.0 & MIXED != MIXED
            && (!self.writer.is_somebody() || edges.is_spent(self.writer.task()))
            && (self.reads == [NONE; RINGS] || are_spent(&self.reads, rings, edges))
    }
}

/// Whether nobody has to wait for these uses, the newest of each ring, nor for those behind them.
pub(super) fn are_spent(newest: &[u32; RINGS], rings: &[RingUses; RINGS], edges: &impl Edges) -> bool {
    newest.iter().zip(rings).all(|(&newest, ring)| ring.is_spent(newest, edges))
}

/// The uses of a mixed home, newest first, by ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lists {
    pub(super) reads: [u32; RINGS],
    pub(super) writes: [u32; RINGS],
}

impl Lists {
    pub(super) const EMPTY: Lists = Lists { reads: [NONE; RINGS], writes: [NONE; RINGS] };
}

/// A use that is kept in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub(super) user: User,
    /// The one before it in its list (low half) and its part (high half): one word, because a store costs more than a shift.
    link: u64,
}

const _: () = assert!(size_of::<Use>() == 16);

impl Use {
    /// A use behind `next`, of the part that its home is of.
    #[inline(always)]
    pub(super) fn new(user: User, next: u32) -> Self {
        Self { user, link: u64::from(next) }
    }

    /// A use of a part of its own, in a mixed home.
    pub(super) fn of_part(user: User, next: u32, part: u32) -> Self {
        Self { user, link: u64::from(next) | u64::from(part) << 32 }
    }

    /// The one before it in its list, on the same ring.
    #[inline(always)]
    pub(super) fn next(&self) -> u32 {
        self.link as u32
    }

    pub(super) fn set_next(&mut self, next: u32) {
        *self = Self::of_part(self.user, next, self.part());
    }

    /// Its part, in a mixed home.
    pub(super) fn part(&self) -> u32 {
        (self.link >> 32) as u32
    }

    pub(super) fn set_part(&mut self, part: u32) {
        *self = Self::of_part(self.user, self.next(), part);
    }
}

/// The part of a buffer that a use in a mixed home is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) buffer: BufferRef,
    pub(super) region: Region,
}

/// What the tasks of one ring have in the table.
#[derive(Debug)]
pub(super) struct RingUses {
    pub(super) uses: Arena<Use>,
    pub(super) parts: Arena<Part>,
}

impl RingUses {
    const NO_USE: Use = Use { user: User::NOBODY, link: 0 };
    const NO_PART: Part = Part { buffer: BufferRef(0), region: Region::WHOLE };

    pub(super) fn new(first: u32) -> Self {
        Self { uses: Arena::new(Self::NO_USE, first), parts: Arena::new(Self::NO_PART, first) }
    }

    pub(super) fn restart(&mut self, first: u32) {
        self.uses.restart(first);
        self.parts.restart(first);
    }

    /// Whether nobody has to wait for this use any more, nor for those behind it: they are of earlier tasks.
    fn is_spent(&self, newest: u32, edges: &impl Edges) -> bool {
        !self.uses.holds(newest) || edges.is_spent(self.uses.at(newest).user.task())
    }
}
