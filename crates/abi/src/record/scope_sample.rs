//! Kind 4: the begin or the end of a scope, with what the rings held.
//!
//! A sample is a run of records that ends with a *mark*, a `Begin` or an `End`. A mark says where the heads of the scope's
//! own ring stand, counted from the base that was told last. What is in use of the rings is not in it: as long as nothing
//! is given back, the use of the scope's own ring grows with its heads, and that of the others stays. In front of a mark
//! stand records for what a reader would get wrong otherwise: the use of a ring, a base. [`ScopeAccount`] is what a reader
//! knows; the writer keeps one too.
//!
//! The peaks of a scope are what is in use at its end, but for the rings that a `Peak` names: usage only grows between
//! two reclaims, so a scope inside which nothing was given back has no other peaks.
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
}

/// One record of a sample; what it says, [`read`](Self::read) tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ScopeRecord {
    /// As one of the types below.
    pub words: [u64; 4],
}
proven_layout!(ScopeRecord, 32, { words: [u64; 4] });

/// The begin or the end of a scope. Its ring follows from its depth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ScopeMark {
    /// A [`ScopeTag`] by number.
    pub tag: u8,
    /// How many records of this sample are in front of it; with [`FATAL`](Self::FATAL) once the run failed.
    pub before: u8,
    /// The scope's depth; the root's is 0.
    pub depth: u16,
    /// Where the scope was opened.
    pub site: u16,
    /// Largest number of producers of one task inside the scope, unless a [`ScopePeak`] tells it; at its end.
    pub peak_fanin: u16,
    /// When the sample was taken, in ticks.
    pub at: u64,
    /// Number of the scope in order of opening, the same in both marks.
    pub scope: u32,
    /// Tensormap entries in use.
    pub tensormap: u32,
    /// Where the heads of the scope's ring stand.
    pub heads: NearHeads,
}
proven_layout!(ScopeMark, 32, {
    tag: u8, before: u8, depth: u16, site: u16, peak_fanin: u16, at: u64,
    scope: u32, tensormap: u32, heads: NearHeads,
});

// A site's number fits a mark.
const _: () = assert!(SITE_SLOTS < 1 << 16);

/// The heads of a ring, counted from its base.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct NearHeads {
    /// Heap bytes allocated since the base.
    pub heap: u32,
    /// Tasks submitted since the base.
    pub window: u16,
    /// Dependency entries allocated since the base.
    pub dep_pool: u16,
}
const _: () = assert!(size_of::<NearHeads>() == 8);

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
    /// Zero.
    pub zero: u64,
}
proven_layout!(ScopeUsed, 32, {
    tag: u8, ring: u8, pad: [u8; 6], heap: u64, window: u32, dep: u32, zero: u64,
});

/// The heads of a ring in full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ScopeBase {
    /// A [`ScopeTag`] by number.
    pub tag: u8,
    /// The ring.
    pub ring: u8,
    /// Zero.
    pub pad: [u8; 6],
    /// Tasks submitted.
    pub window_head: u64,
    /// Heap bytes allocated.
    pub heap_head: u64,
    /// Dependency entries allocated.
    pub dep_head: u64,
}
proven_layout!(ScopeBase, 32, {
    tag: u8, ring: u8, pad: [u8; 6], window_head: u64, heap_head: u64, dep_head: u64,
});

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
    /// Largest number of tensormap entries in use inside the scope.
    pub tensormap: u32,
    /// Largest number of producers of one task inside the scope.
    pub fanin: u32,
}
proven_layout!(ScopePeak, 32, {
    tag: u8, ring: u8, pad: u16, scope: u32, heap: u64, window: u32, dep: u32, tensormap: u32, fanin: u32,
});

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
}

impl ScopeRecord {
    /// What it says; `None` if it has no tag of these, or names no ring.
    #[inline]
    pub fn read(self) -> Option<ScopeSays> {
        let [tag, ring, ..] = self.words[0].to_le_bytes();
        let of_ring = |says| ((ring as usize) < RINGS).then_some(says);
        match tag {
            0 => Some(ScopeSays::Mark(ScopePhase::Begin, bytemuck::cast(self))),
            1 => Some(ScopeSays::Mark(ScopePhase::End, bytemuck::cast(self))),
            2 => of_ring(ScopeSays::Used(bytemuck::cast(self))),
            3 => of_ring(ScopeSays::Base(bytemuck::cast(self))),
            4 => of_ring(ScopeSays::Peak(bytemuck::cast(self))),
            _ => None,
        }
    }
}

macro_rules! record_from {
    ($($part:ident),*) => {
        $(impl From<$part> for ScopeRecord {
            #[inline(always)]
            fn from(part: $part) -> Self {
                bytemuck::cast(part)
            }
        })*
    };
}
record_from!(ScopeMark, ScopeUsed, ScopeBase, ScopePeak);

impl ScopeMark {
    /// Set in `before` once the run failed.
    pub const FATAL: u8 = 0x80;

    /// The scope's ring.
    #[inline]
    pub fn ring(&self) -> usize {
        (self.depth as usize).min(RINGS - 1)
    }
}

impl NearHeads {
    /// The heads as offsets from `base`. `None` if one is out of reach of it.
    #[inline(always)]
    pub fn of(heads: &Heads, base: &Heads) -> Option<Self> {
        let window = heads.window.wrapping_sub(base.window);
        let dep_pool = heads.dep_pool.wrapping_sub(base.dep_pool);
        let heap = heads.heap.wrapping_sub(base.heap);
        let reached = (window | dep_pool) >> 16 | heap >> 32 == 0;
        reached.then_some(Self { heap: heap as u32, window: window as u16, dep_pool: dep_pool as u16 })
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
        Self {
            tag: ScopeTag::Base as u8,
            ring: ring as u8,
            window_head: heads.window,
            heap_head: heads.heap,
            dep_head: heads.dep_pool,
            ..Self::default()
        }
    }

    /// The heads.
    pub fn heads(&self) -> Heads {
        Heads { window: self.window_head, heap: self.heap_head, dep_pool: self.dep_head }
    }
}

impl ScopePeak {
    /// The most that was in use of ring `ring` inside `scope`, with the peaks that are of no ring.
    pub fn of(scope: u32, ring: usize, most: RingUse, tensormap: u32, fanin: u32) -> Self {
        Self {
            tag: ScopeTag::Peak as u8,
            ring: ring as u8,
            scope,
            heap: most.heap,
            window: most.window,
            dep: most.dep_pool,
            tensormap,
            fanin,
            pad: 0,
        }
    }

    /// The most that was in use.
    pub fn most(&self) -> RingUse {
        RingUse { window: self.window, dep_pool: self.dep, heap: self.heap }
    }
}
