//! What a reader of scope samples knows of the rings, by the records that it took.
//!
//! The writer keeps the same account of what was kept, so it knows what a reader would make of a mark, and tells in front
//! of it whatever the reader would get wrong.

use super::NearHeads;
use crate::{Heads, RINGS, RingUse, Usage};

/// What the records of a pool told so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScopeAccount {
    rings: [RingAccount; RINGS],
    /// What of the rings is known: the bits below, shifted by the ring.
    known: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct RingAccount {
    used: RingUse,
    /// What was given back by its last mark: the heads less the use.
    tails: Heads,
    base: Heads,
}

/// The use of a ring.
const USE: u16 = 1;
/// Its tails: its use grows with its heads.
const TAILS: u16 = 1 << RINGS;
/// Its base.
const BASE: u16 = 1 << (2 * RINGS);
const ALL_USES: u16 = (USE << RINGS) - USE;

/// What a mark needs that has nothing in front, by its ring.
const NEEDED: [u16; RINGS] = {
    let mut needed = [ALL_USES; RINGS];
    let mut ring = 0;
    while ring < RINGS {
        needed[ring] |= (TAILS | BASE) << ring;
        ring += 1;
    }
    needed
};

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

    /// What the rings hold at a mark of ring `own`, the tensormap apart, and the heads of `own`. `None` if that is not known.
    pub fn mark(&mut self, own: usize, near: &NearHeads) -> Option<(Usage, Heads)> {
        if self.known & BASE << own == 0 {
            // The use grows by what cannot be told.
            self.known &= !((USE | TAILS) << own);
            return None;
        }
        let heads = near.from(&self.rings[own].base);
        self.move_to(own, &heads);
        let mut used = Usage::NONE;
        (0..RINGS).for_each(|ring| used.set_ring(ring, self.rings[ring].used));
        (self.known & ALL_USES == ALL_USES).then_some((used, heads))
    }

    /// A mark says that the heads of ring `own` are there.
    pub fn move_to(&mut self, own: usize, heads: &Heads) {
        let ring = &mut self.rings[own];
        if self.known & TAILS << own != 0 {
            ring.used = ring.used_at(heads);
        } else if self.known & USE << own != 0 {
            ring.tails = Heads {
                window: heads.window.wrapping_sub(u64::from(ring.used.window)),
                heap: heads.heap.wrapping_sub(ring.used.heap),
                dep_pool: heads.dep_pool.wrapping_sub(u64::from(ring.used.dep_pool)),
            };
            self.known |= TAILS << own;
        }
    }

    /// How a mark of ring `own` spells these heads, if it needs nothing in front: the use of that ring grew with them, and
    /// that of the others is what was told.
    #[inline(always)]
    pub fn covers(&self, own: usize, heads: &Heads) -> Option<NearHeads> {
        let told = self.known & NEEDED[own] == NEEDED[own];
        NearHeads::of(heads, &self.rings[own].base).filter(|_| told)
    }

    /// A mark was kept that [`covers`](Self::covers) found to tell everything: as [`move_to`](Self::move_to), in short.
    #[inline(always)]
    pub fn covered(&mut self, own: usize, used: RingUse) {
        self.rings[own].used = used;
    }

    /// How a mark of ring `own` spells these heads. `None` if its base is out of reach, or not known.
    pub fn near(&self, own: usize, heads: &Heads) -> Option<NearHeads> {
        NearHeads::of(heads, &self.rings[own].base).filter(|_| self.known & BASE << own != 0)
    }

    /// Whether a reader knows that this is in use of a ring at a mark of ring `own`.
    pub fn covers_ring(&self, ring: usize, used: RingUse, own: usize, heads: &Heads) -> bool {
        let account = &self.rings[ring];
        let grows = ring == own && self.known & TAILS << ring != 0;
        let expected = if grows { account.used_at(heads) } else { account.used };
        self.known & USE << ring != 0 && expected == used
    }
}

impl RingAccount {
    /// The use if the tails are known and the heads are there.
    #[inline(always)]
    fn used_at(&self, heads: &Heads) -> RingUse {
        RingUse {
            window: heads.window.wrapping_sub(self.tails.window) as u32,
            dep_pool: heads.dep_pool.wrapping_sub(self.tails.dep_pool) as u32,
            heap: heads.heap.wrapping_sub(self.tails.heap),
        }
    }
}
