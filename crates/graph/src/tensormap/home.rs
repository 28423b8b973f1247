//! Where uses of a part of a buffer are kept: every buffer has a home, and every cell of a grid.
//!
//! A home holds the last writer of its part and the reads since. As long as every write was of exactly that part, the whole
//! buffer or one cell, no coordinates are compared. Writes of less than that make it *mixed*: then it has lists besides,
//! in which every write has its own part.

use super::arena::Arena;
use super::user::User;
use super::{BufferRef, Edges, NONE};
use crate::Footprint;
use bytemuck::Zeroable;
use plimsoll_abi::RINGS;

/// Which uses a home holds: none, one cell's, the whole buffer's, or a list of parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Zeroable)]
pub(super) struct HomeContent(u64);

/// No buffer has a number like this.
const MIXED: u64 = 7 << 61;

impl HomeContent {
    /// The home keeps nothing.
    pub(super) const NOTHING: HomeContent = HomeContent(0);
    /// Nothing any more, in the home of a cell that is known to have kept something.
    pub(super) const NOTHING_MORE: HomeContent = HomeContent(1);
    /// Uses of the whole buffer that the home belongs to.
    pub(super) const WHOLE: HomeContent = HomeContent(2);

    /// Uses of one cell of a buffer's grid.
    #[inline]
    pub(super) fn cell(buffer: BufferRef, number: u32) -> Self {
        HomeContent(u64::from(buffer.0) << 32 | u64::from(number))
    }

    /// Whether both are cells of one buffer.
    #[inline]
    pub(super) fn is_of_same_buffer(self, cell: HomeContent) -> bool {
        self.0 >> 32 == cell.0 >> 32
    }

    /// Uses of any parts, of which these lists tell more.
    pub(super) fn mixed(lists: u32) -> Self {
        HomeContent(MIXED | u64::from(lists))
    }

    /// The lists of a mixed home.
    #[inline]
    pub(super) fn lists(self) -> Option<u32> {
        (self.0 & MIXED == MIXED).then_some(self.0 as u32)
    }

    /// The buffer whose cell the uses are of, and the cell's number.
    pub(super) fn as_cell(self) -> Option<(BufferRef, u32)> {
        let is_cell = self.0 > HomeContent::WHOLE.0 && self.lists().is_none();
        is_cell.then_some((BufferRef((self.0 >> 32) as u32), self.0 as u32))
    }
}

/// Where uses are kept. Zeroed memory is a home that keeps nothing.
#[derive(Clone, Copy, Debug, Zeroable)]
#[repr(C, align(32))]
pub(super) struct Home {
    pub(super) kept: HomeContent,
    /// The last that wrote all of the part. It stays when its task has come back: what it superseded stays superseded.
    pub(super) writer: User,
    /// The newest read since, by ring.
    pub(super) reads: [u32; RINGS],
}

const _: () = assert!(size_of::<Home>() == 32);

impl Home {
    pub(super) const EMPTY: Home = Home { kept: HomeContent::NOTHING, writer: User::NOBODY, reads: [NONE; RINGS] };

    /// Whether it keeps neither a writer nor a read.
    pub(super) fn is_unused(&self) -> bool {
        !self.writer.is_somebody() && self.reads == [NONE; RINGS]
    }

    /// Whether nobody has to wait for the writer or a read.
    pub(super) fn is_spent(&self, rings: &[RingUses; RINGS], edges: &impl Edges) -> bool {
        (!self.writer.is_somebody() || edges.is_spent(self.writer.task())) && are_spent(&self.reads, rings, edges)
    }
}

/// Whether nobody has to wait for these uses, the newest of each ring, nor for those behind them.
pub(super) fn are_spent(newest: &[u32; RINGS], rings: &[RingUses; RINGS], edges: &impl Edges) -> bool {
    newest.iter().zip(rings).all(|(&newest, ring)| ring.is_spent(newest, edges))
}

/// The lists of a mixed home: uses of less than its part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lists {
    /// What the home would keep if it were not mixed; of no meaning for a buffer's.
    pub(super) key: HomeContent,
    /// The writes that are not of all of the home's part, newest first, by ring.
    pub(super) writes: [u32; RINGS],
    /// For a buffer's own home: the place in the order of accesses at which it became mixed. Uses kept without a part are older.
    pub(super) since: u64,
    /// In a buffer's home: how many look-ups are left before sifting the list pays.
    pub(super) patience: u64,
}

impl Lists {
    pub(super) const EMPTY: Lists = Lists { key: HomeContent::NOTHING, writes: [NONE; RINGS], since: 0, patience: 0 };
}

/// A use that is kept in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListedUse {
    pub(super) user: User,
    /// The one before it in its list (low half) and its part (high half): one word, because a store costs more than a shift.
    link: u64,
}

const _: () = assert!(size_of::<ListedUse>() == 16);

impl ListedUse {
    /// A use in front of the older one in its list; `part` is `NONE` if it is of everything its home stands for.
    #[inline]
    pub(super) fn of_part(user: User, older: u32, part: u32) -> Self {
        Self { user, link: u64::from(older) | u64::from(part) << 32 }
    }

    /// The next older one in its list, on the same ring.
    #[inline]
    pub(super) fn older(&self) -> u32 {
        self.link as u32
    }

    pub(super) fn set_older(&mut self, older: u32) {
        *self = Self::of_part(self.user, older, self.part());
    }

    /// Its part, if that is not all of its home's.
    #[inline]
    pub(super) fn part(&self) -> u32 {
        (self.link >> 32) as u32
    }

    pub(super) fn set_part(&mut self, part: u32) {
        *self = Self::of_part(self.user, self.older(), part);
    }
}

/// The part of a buffer that a use is of. In the home of a cell, what of it lies in the cell counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsedPart {
    pub(super) footprint: Footprint,
    /// Its place in the order of accesses that took the long way.
    pub(super) order: u64,
    /// The part stands for everything that its list held, so it is taken to overlap whatever is compared with it.
    pub(super) stretched: bool,
    /// The part is the remainder, after later writes, of the last write of the whole cell or buffer, or of its making.
    pub(super) of_all: bool,
    /// The part moved here from a cell. Its place in the order is that of the move: newer uses of the part may have older places,
    /// and what it superseded was cut off then.
    pub(super) moved: bool,
}

impl UsedPart {
    /// The part of a read.
    #[inline]
    pub(super) fn of_read(footprint: Footprint, order: u64) -> Self {
        Self { footprint, order, stretched: false, of_all: false, moved: false }
    }
}

/// What the tasks of one ring have in the table.
#[derive(Debug)]
pub(super) struct RingUses {
    pub(super) uses: Arena<ListedUse>,
    pub(super) parts: Arena<UsedPart>,
}

impl RingUses {
    const NO_USE: ListedUse = ListedUse { user: User::NOBODY, link: 0 };
    const NO_PART: UsedPart =
        UsedPart { footprint: Footprint::WHOLE, order: 0, stretched: false, of_all: false, moved: false };

    pub(super) fn new(first: u32) -> Self {
        Self { uses: Arena::new(Self::NO_USE, first), parts: Arena::new(Self::NO_PART, first) }
    }

    pub(super) fn restart(&mut self, first: u32) {
        self.uses.restart(first);
        self.parts.restart(first);
    }

    /// Enters a use of a part behind `next`. Both come back together.
    pub(super) fn push(&mut self, user: User, next: u32, part: UsedPart) -> u32 {
        let part = self.parts.push(|| part);
        self.uses.push(|| ListedUse::of_part(user, next, part))
    }

    /// Whether nobody has to wait for this use any more, nor for those behind it. What moved here from other cells may be of
    /// later tasks than what it lies behind, so all of them are asked.
    fn is_spent(&self, mut at: u32, edges: &impl Edges) -> bool {
        while self.uses.holds(at) {
            let entry = self.uses.at(at);
            if !edges.is_spent(entry.user.task()) {
                return false;
            }
            at = entry.older();
        }
        true
    }
}
