//! Kind 4: the begin or the end of a scope, with what the rings held.
//!
//! A sample is a run of records that ends with a *mark*, a `Begin` or an `End`. A mark is small, because what a record costs
//! goes by its bytes: when it was made, the number of the scope and the entries of the tensormap are counted from a
//! *moment* that was told, the heads of the scope's own ring from its *base*. What is in use of the rings is not in it: as
//! long as nothing is given back, the use of the scope's own ring grows with its heads, and that of the others stays. In
//! front of a mark stand records for what a reader would get wrong otherwise: a moment, a base, the use of a ring.
//! [`ScopeAccount`] is what a reader knows; the writer keeps one too.
//!
//! The peaks of a scope are what is in use at its end, but for what a `Peak` or a `WholePeak` tells: usage only grows
//! between two reclaims, so a scope inside which nothing was given back has no other peaks.
//!
//! A writer counts as told only what was kept, and leaves a mark out if a record in front of it was lost. From time to
//! time it tells everything anew, so that a reader that misses a buffer knows again what the rings hold. Until then it
//! shows no sample that needs what it does not know.
//!
//! [`ScopeAccount`]: super::ScopeAccount

use super::proven_layout;
use crate::region::SITE_SLOTS;
use crate::{Heads, RINGS, RingUse};
use bytemuck::{Pod, Zeroable};

/// Which end of a scope a sample was taken at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum ScopePhase {
    /// At its begin.
    #[default]
    Begin = 0,
    /// At its end; only here the peaks have a meaning.
    End = 1,
}

/// What a record of a sample says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ScopeTag {
    /// A scope began: a [`ScopeMark`].
    Begin = 0,
    /// A scope ended: a [`ScopeMark`].
    End = 1,
    /// What is in use of a ring at the next mark: a [`ScopeUsed`].
    Used = 2,
    /// The heads of a ring, from which marks count: a [`ScopeBase`].
    Base = 3,
    /// The most that was in use of a ring inside the scope that ends next: a [`ScopePeak`].
    Peak = 4,
    /// The moment from which marks count: a [`ScopeMoment`].
    Moment = 5,
    /// The peaks of the scope that ends next that are of no ring: a [`ScopeWholePeak`].
    WholePeak = 6,
}

/// One record of a sample; what it says, [`read`](Self::read) tells.
///
/// Nearly all are marks. So it is kept as one, whose fields are then stored as they are, without being packed into words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct ScopeRecord(ScopeMark);
const _: () = assert!(size_of::<ScopeRecord>() == 24);

/// The begin or the end of a scope. Its ring follows from its depth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))]
pub struct ScopeMark {
    /// A [`ScopeTag`] by number.
    pub tag: u8,
    /// How many records of this sample are in front of it; with [`FATAL`](Self::FATAL) once the run failed.
    pub before: u8,
    /// The scope's depth; the root's is 0.
    pub depth: u16,
    /// Where the scope was opened.
    pub site: u16,
    /// Largest number of producers of one task inside the scope, unless a [`ScopeWholePeak`] tells it; at its end.
    pub peak_fanin: u16,
    /// Ticks since the moment that was told.
    pub at: u32,
    /// Tensormap entries in use more than then.
    pub tensormap: u16,
    /// By how much the scope's number is larger than that of the moment.
    pub scope: u16,
    /// Heap bytes allocated since the base of the scope's ring.
    pub heap: u32,
    /// Tasks submitted since then.
    pub window: u16,
    /// Dependency entries allocated since then.
    pub dep_pool: u16,
}
proven_layout!(ScopeMark, 24, {
    tag: u8, before: u8, depth: u16, site: u16, peak_fanin: u16,
    at: u32, tensormap: u16, scope: u16, heap: u32, window: u16, dep_pool: u16,
});

// A site's number fits a mark.
const _: () = assert!(SITE_SLOTS < 1 << 16);

/// What a mark says that is of no ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// When the sample was taken, in ticks.
    pub at: u64,
    /// Number of the scope in order of opening, the same in both marks.
    pub scope: u32,
    /// Tensormap entries in use.
    pub tensormap: u32,
}

/// A [`Moment`], counted from the one that was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NearMoment {
    /// Ticks since then.
    pub at: u32,
    /// Tensormap entries more.
    pub tensormap: u16,
    /// By how much the scope's number is larger.
    pub scope: u16,
}

/// The heads of a ring, counted from its base.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NearHeads {
    /// Heap bytes allocated since the base.
    pub heap: u32,
    /// Tasks submitted since the base.
    pub window: u16,
    /// Dependency entries allocated since the base.
    pub dep_pool: u16,
}

/// What is in use of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ScopeUsed {
    /// A [`ScopeTag`] by number.
    pub tag: u8,
    /// The ring.
    pub ring: u8,
    /// Zero.
    pub pad: [u8; 6],
    /// Heap bytes.
    pub heap: u64,
    /// Slots.
    pub window: u32,
    /// Dependency entries.
    pub dep: u32,
}
proven_layout!(ScopeUsed, 24, { tag: u8, ring: u8, pad: [u8; 6], heap: u64, window: u32, dep: u32 });

/// The heads of a ring in full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ScopeBase {
    /// A [`ScopeTag`] by number.
    pub tag: u8,
    /// The ring.
    pub ring: u8,
    /// Tasks submitted, a number of 48 bits: at a submit every 100 ns that is enough for ten months.
    pub window_head: [u8; 6],
    /// Heap bytes allocated.
    pub heap_head: u64,
    /// Dependency entries allocated.
    pub dep_head: u64,
}
proven_layout!(ScopeBase, 24, { tag: u8, ring: u8, window_head: [u8; 6], heap_head: u64, dep_head: u64 });

/// The moment from which marks count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ScopeMoment {
    /// A [`ScopeTag`] by number.
    pub tag: u8,
    /// Zero.
    pub pad: [u8; 7],
    /// In ticks.
    pub at: u64,
    /// The scope's number of a mark that says 0.
    pub scope: u32,
    /// Tensormap entries of a mark that says 0.
    pub tensormap: u32,
}
proven_layout!(ScopeMoment, 24, { tag: u8, pad: [u8; 7], at: u64, scope: u32, tensormap: u32 });

/// The most that was in use of a ring inside a scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ScopePeak {
    /// A [`ScopeTag`] by number.
    pub tag: u8,
    /// The ring.
    pub ring: u8,
    /// Zero.
    pub pad: u16,
    /// Number of the scope.
    pub scope: u32,
    /// Heap bytes.
    pub heap: u64,
    /// Slots.
    pub window: u32,
    /// Dependency entries.
    pub dep: u32,
}
proven_layout!(ScopePeak, 24, { tag: u8, ring: u8, pad: u16, scope: u32, heap: u64, window: u32, dep: u32 });

/// The peaks of a scope that are of no ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ScopeWholePeak {
    /// A [`ScopeTag`] by number.
    pub tag: u8,
    /// Zero.
    pub pad: [u8; 3],
    /// Number of the scope.
    pub scope: u32,
    /// Largest number of tensormap entries in use inside the scope.
    pub tensormap: u32,
    /// Largest number of producers of one task inside the scope.
    pub fanin: u32,
    /// Zero.
    pub zero: u64,
}
proven_layout!(ScopeWholePeak, 24, { tag: u8, pad: [u8; 3], scope: u32, tensormap: u32, fanin: u32, zero: u64 });

/// A record of a sample by what it says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScopeSays {
    /// A scope began or ended.
    Mark(ScopePhase, ScopeMark),
    /// Use of a ring.
    Used(ScopeUsed),
    /// Heads of a ring in full.
    Base(ScopeBase),
    /// The peak of a ring.
    Peak(ScopePeak),
    /// A moment in full.
    Moment(ScopeMoment),
    /// Peaks that are of no ring.
    WholePeak(ScopeWholePeak),
}

impl ScopeRecord {
    /// The record of these bytes.
    pub fn from_words(words: [u64; 3]) -> Self {
        bytemuck::cast(words)
    }

    /// Its bytes.
    pub fn words(self) -> [u64; 3] {
        bytemuck::cast(self)
    }

    /// What it says; `None` if it has no tag of these, or names no ring.
    #[inline]
    pub fn read(self) -> Option<ScopeSays> {
        // Where a mark counts the records in front of it, the records of a ring name that.
        let ScopeMark { tag, before: ring, .. } = self.0;
        let of_ring = |says| ((ring as usize) < RINGS).then_some(says);
        match tag {
            0 => Some(ScopeSays::Mark(ScopePhase::Begin, self.0)),
            1 => Some(ScopeSays::Mark(ScopePhase::End, self.0)),
            2 => of_ring(ScopeSays::Used(bytemuck::cast(self))),
            3 => of_ring(ScopeSays::Base(bytemuck::cast(self))),
            4 => of_ring(ScopeSays::Peak(bytemuck::cast(self))),
            5 => Some(ScopeSays::Moment(bytemuck::cast(self))),
            6 => Some(ScopeSays::WholePeak(bytemuck::cast(self))),
            _ => None,
        }
    }
}

macro_rules! record_from {
    ($($part:ident),*) => {
        $(impl From<$part> for ScopeRecord {
            fn from(part: $part) -> Self {
                bytemuck::cast(part)
            }
        })*
    };
}
record_from!(ScopeUsed, ScopeBase, ScopePeak, ScopeMoment, ScopeWholePeak);

impl From<ScopeMark> for ScopeRecord {
    #[inline(always)]
    fn from(mark: ScopeMark) -> Self {
        Self(mark)
    }
}

impl ScopeMark {
    /// Set in `before` once the run failed.
    pub const FATAL: u8 = 0x80;

    /// The scope's ring.
    #[inline]
    pub fn ring(&self) -> usize {
        (self.depth as usize).min(RINGS - 1)
    }

    /// What it says that is of no ring.
    pub fn moment(&self) -> NearMoment {
        NearMoment { at: self.at, tensormap: self.tensormap, scope: self.scope }
    }

    /// Where the heads of its ring stand.
    pub fn heads(&self) -> NearHeads {
        NearHeads { heap: self.heap, window: self.window, dep_pool: self.dep_pool }
    }
}

/// Bits of offsets that do not fit their fields of 16 and of 32 bits: 0 if all do.
#[derive(Clone, Copy)]
pub(super) struct Excess {
    over_16: u64,
    over_32: u64,
}

impl Excess {
    /// Of both.
    #[inline(always)]
    pub(super) fn and(self, other: Self) -> Self {
        Self { over_16: self.over_16 | other.over_16, over_32: self.over_32 | other.over_32 }
    }

    /// Zero if all fit.
    #[inline(always)]
    pub(super) fn bits(self) -> u64 {
        self.over_16 >> 16 | self.over_32 >> 32
    }
}

impl NearMoment {
    /// The moment as offsets from `base`. `None` if one is out of reach of it.
    pub fn of(moment: &Moment, base: &Moment) -> Option<Self> {
        let (near, excess) = Self::cut(moment, base);
        (excess.bits() == 0).then_some(near)
    }

    /// The offsets, cut to their fields.
    #[inline(always)]
    pub(super) fn cut(moment: &Moment, base: &Moment) -> (Self, Excess) {
        let at = moment.at.wrapping_sub(base.at);
        let tensormap = moment.tensormap.wrapping_sub(base.tensormap);
        let scope = moment.scope.wrapping_sub(base.scope);
        let near = Self { at: at as u32, tensormap: tensormap as u16, scope: scope as u16 };
        (near, Excess { over_16: u64::from(tensormap | scope), over_32: at })
    }

    /// The moment in full.
    pub fn from(&self, base: &Moment) -> Moment {
        Moment {
            at: base.at.wrapping_add(u64::from(self.at)),
            scope: base.scope.wrapping_add(u32::from(self.scope)),
            tensormap: base.tensormap.wrapping_add(u32::from(self.tensormap)),
        }
    }
}

impl NearHeads {
    /// The heads as offsets from `base`. `None` if one is out of reach of it.
    pub fn of(heads: &Heads, base: &Heads) -> Option<Self> {
        let (near, excess) = Self::cut(heads, base);
        (excess.bits() == 0).then_some(near)
    }

    /// The offsets, cut to their fields.
    #[inline(always)]
    pub(super) fn cut(heads: &Heads, base: &Heads) -> (Self, Excess) {
        let window = heads.window.wrapping_sub(base.window);
        let dep_pool = heads.dep_pool.wrapping_sub(base.dep_pool);
        let heap = heads.heap.wrapping_sub(base.heap);
        let near = Self { heap: heap as u32, window: window as u16, dep_pool: dep_pool as u16 };
        (near, Excess { over_16: window | dep_pool, over_32: heap })
    }

    /// The heads in full.
    pub fn from(&self, base: &Heads) -> Heads {
        Heads {
            window: base.window.wrapping_add(u64::from(self.window)),
            heap: base.heap.wrapping_add(u64::from(self.heap)),
            dep_pool: base.dep_pool.wrapping_add(u64::from(self.dep_pool)),
        }
    }
}

impl ScopeUsed {
    /// What is in use of ring `ring`.
    pub fn of(ring: usize, used: RingUse) -> Self {
        Self {
            tag: ScopeTag::Used as u8,
            ring: ring as u8,
            heap: used.heap,
            window: used.window,
            dep: used.dep_pool,
            ..Self::default()
        }
    }

    /// What is in use.
    pub fn in_use(&self) -> RingUse {
        RingUse { window: self.window, dep_pool: self.dep, heap: self.heap }
    }
}

impl ScopeBase {
    /// The heads of ring `ring`.
    pub fn of(ring: usize, heads: &Heads) -> Self {
        let [a, b, c, d, e, f, ..] = heads.window.to_le_bytes();
        Self {
            tag: ScopeTag::Base as u8,
            ring: ring as u8,
            window_head: [a, b, c, d, e, f],
            heap_head: heads.heap,
            dep_head: heads.dep_pool,
        }
    }

    /// The heads.
    pub fn heads(&self) -> Heads {
        let [a, b, c, d, e, f] = self.window_head;
        let window = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        Heads { window, heap: self.heap_head, dep_pool: self.dep_head }
    }
}

impl ScopeMoment {
    /// The moment that the marks from `moment` on are best counted from. Time only grows. The others come and go: the
    /// tensormap is emptied, and a scope may end long after later ones began; so there is room below them.
    pub fn for_marks_from(moment: &Moment) -> Self {
        Self::of(&Moment {
            at: moment.at,
            scope: moment.scope.saturating_sub(1 << 15),
            tensormap: moment.tensormap.saturating_sub(1 << 15),
        })
    }

    /// This moment.
    pub fn of(moment: &Moment) -> Self {
        let Moment { at, scope, tensormap } = *moment;
        Self { tag: ScopeTag::Moment as u8, pad: [0; 7], at, scope, tensormap }
    }

    /// The moment.
    pub fn moment(&self) -> Moment {
        Moment { at: self.at, scope: self.scope, tensormap: self.tensormap }
    }
}

impl ScopePeak {
    /// The most that was in use of ring `ring` inside `scope`.
    pub fn of(scope: u32, ring: usize, most: RingUse) -> Self {
        Self {
            tag: ScopeTag::Peak as u8,
            ring: ring as u8,
            pad: 0,
            scope,
            heap: most.heap,
            window: most.window,
            dep: most.dep_pool,
        }
    }

    /// The most that was in use.
    pub fn most(&self) -> RingUse {
        RingUse { window: self.window, dep_pool: self.dep, heap: self.heap }
    }
}

impl ScopeWholePeak {
    /// The peaks of `scope`.
    pub fn of(scope: u32, tensormap: u32, fanin: u32) -> Self {
        Self { tag: ScopeTag::WholePeak as u8, pad: [0; 3], scope, tensormap, fanin, zero: 0 }
    }
}
