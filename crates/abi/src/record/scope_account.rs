//! What a reader of scope samples knows of the rings, by the records that it took.
//!
//! The writer keeps the same account of what was kept, so it knows what a reader would make of a mark, and tells in front
//! of it whatever the reader would get wrong.

use super::{Moment, NearHeads, NearMoment};
use crate::{Heads, RINGS, RingUse, Usage};

/// What the records of a pool told so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScopeAccount {
    rings: [RingAccount; RINGS],
    /// What marks count from that is of no ring.
    moment: Moment,
    /// What is known: the bits below, those of a ring shifted by it.
    known: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct RingAccount {
    /// What was told to be in use; without meaning once the tails are known.
    used: RingUse,
    /// What was given back by its last mark: the heads less the use.
    tails: Heads,
    base: Heads,
    /// Where the heads were at its last mark, counted from what was its base then.
    marked: NearHeads,
    marked_from: Heads,
}

/// The use of a ring.
const USE: u16 = 1;
/// Its tails: its use grows with its heads.
const TAILS: u16 = 1 << RINGS;
/// Its base.
const BASE: u16 = 1 << (2 * RINGS);
const ALL_USES: u16 = (USE << RINGS) - USE;
/// The moment.
const MOMENT: u16 = 1 << (3 * RINGS);

/// What a mark says, with what was told before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarkSays {
    /// When, of which scope.
    pub moment: Moment,
    /// The heads of its ring.
    pub heads: Heads,
    /// What is in use.
    pub used: Usage,
}

impl ScopeAccount {
    /// Nothing is known until it is told again.
    pub fn forget(&mut self) {
        self.known = 0;
    }

    /// What is in use of a ring, at its next mark too.
    pub fn tell_used(&mut self, ring: usize, used: RingUse) {
        self.rings[ring].used = used;
        self.known = self.known & !(TAILS << ring) | USE << ring;
    }

    /// Where the heads of later marks of a ring are counted from.
    pub fn tell_base(&mut self, ring: usize, base: Heads) {
        self.rings[ring].base = base;
        self.known |= BASE << ring;
    }

    /// What later marks count from that is of no ring.
    pub fn tell_moment(&mut self, moment: Moment) {
        self.moment = moment;
        self.known |= MOMENT;
    }

    /// What a mark of ring `own` says. `None` if something is not known that it builds on.
    pub fn mark(&mut self, own: usize, moment: &NearMoment, near: &NearHeads) -> Option<MarkSays> {
        if self.known & BASE << own == 0 {
            // The use grows by what cannot be told.
            self.known &= !((USE | TAILS) << own);
            return None;
        }
        let heads = near.from(&self.rings[own].base);
        self.move_to(own, near);
        let moment = moment.from(&self.moment);
        let mut used = Usage { tensormap: moment.tensormap, ..Usage::NONE };
        (0..RINGS).for_each(|ring| used.set_ring(ring, self.used(ring)));
        const NEEDED: u16 = ALL_USES | MOMENT;
        (self.known & NEEDED == NEEDED).then_some(MarkSays { moment, heads, used })
    }

    /// A mark says that the heads of ring `own` are there, counted from its base.
    pub fn move_to(&mut self, own: usize, near: &NearHeads) {
        let ring = &mut self.rings[own];
        (ring.marked, ring.marked_from) = (*near, ring.base);
        if self.known & TAILS << own == 0 && self.known & USE << own != 0 {
            let heads = near.from(&ring.base);
            ring.tails = Heads {
                window: heads.window.wrapping_sub(u64::from(ring.used.window)),
                heap: heads.heap.wrapping_sub(ring.used.heap),
                dep_pool: heads.dep_pool.wrapping_sub(u64::from(ring.used.dep_pool)),
            };
            self.known |= TAILS << own;
        }
    }

    /// What is in use of a ring, as far as that is known.
    fn used(&self, ring: usize) -> RingUse {
        let account = &self.rings[ring];
        if self.known & TAILS << ring == 0 {
            return account.used;
        }
        account.used_at(&account.marked.from(&account.marked_from))
    }

    /// How a mark of ring `own` spells these, and a number that is zero if it can.
    ///
    /// Such a mark needs nothing in front if what was told is [enough](Self::suffices), the use of its ring grew with
    /// the heads, and that of the others is what was told.
    #[inline(always)]
    pub fn spell(&self, own: usize, moment: &Moment, heads: &Heads) -> (NearMoment, NearHeads, u64) {
        let (moment, apart) = NearMoment::cut(moment, &self.moment);
        let (heads, of_ring) = NearHeads::cut(heads, &self.rings[own].base);
        (moment, heads, apart.and(of_ring).bits())
    }

    /// Whether enough was told for a mark of this ring that has nothing in front.
    pub fn suffices(&self, own: usize) -> bool {
        let needed = (TAILS | BASE) << own | ALL_USES | MOMENT;
        self.known & needed == needed
    }

    /// A mark was kept that had nothing in front: as [`move_to`](Self::move_to), in short.
    #[inline(always)]
    pub fn covered(&mut self, own: usize, near: &NearHeads) {
        debug_assert!(self.suffices(own) && self.rings[own].marked_from == self.rings[own].base);
        let marked = &mut self.rings[own].marked;
        (marked.heap, marked.window, marked.dep_pool) = (near.heap, near.window, near.dep_pool);
    }

    /// Whether the moment that marks count from is known, and this one within reach of it.
    pub fn reaches_moment(&self, moment: &Moment) -> bool {
        self.known & MOMENT != 0 && NearMoment::of(moment, &self.moment).is_some()
    }

    /// Whether the base of a ring is known, and these heads within reach of it.
    pub fn reaches_heads(&self, ring: usize, heads: &Heads) -> bool {
        self.known & BASE << ring != 0 && NearHeads::of(heads, &self.rings[ring].base).is_some()
    }

    /// Whether a reader knows that this is in use of a ring at a mark of ring `own`.
    pub fn covers_ring(&self, ring: usize, used: RingUse, own: usize, heads: &Heads) -> bool {
        let grows = ring == own && self.known & TAILS << ring != 0;
        let expected = if grows { self.rings[ring].used_at(heads) } else { self.used(ring) };
        self.known & USE << ring != 0 && expected == used
    }
}

impl RingAccount {
    /// The use if the tails are known and the heads are there.
    fn used_at(&self, heads: &Heads) -> RingUse {
        RingUse {
            window: heads.window.wrapping_sub(self.tails.window) as u32,
            dep_pool: heads.dep_pool.wrapping_sub(self.tails.dep_pool) as u32,
            heap: heads.heap.wrapping_sub(self.tails.heap),
        }
    }
}
