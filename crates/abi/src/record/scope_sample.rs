//! Kind 4: the begin or the end of a scope, with what the rings held.
//!
//! A sample is a run of records that ends with a *mark*, a `Begin` or an `End`. A mark says nothing of the rings: what
//! they held is what the records before it, of this sample and of earlier ones, told last. In front of a mark stand
//! records for what is not told yet or has changed since: the heads of the scope's own ring and the use of every ring.
//! The peaks of a scope are what is in use at its end, but for the rings that a `Peak` names: usage only grows between
//! two reclaims, so a scope inside which nothing was given back has no other peaks.
//!
//! A writer counts as told only what was kept, and leaves a mark out if a record in front of it was lost. From time to
//! time it tells everything anew, so that a reader that misses a buffer knows again what the rings hold. Until then it
//! shows no sample that needs what it does not know.

use super::proven_layout;
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
    /// The heads of a ring as offsets from its base, and what is in use of it: a [`ScopeRing`].
    Ring = 2,
    /// What is in use of a ring, and nothing of its heads, which are zero: a [`ScopeRing`].
    Used = 3,
    /// The heads of a ring, from which later ones are counted: a [`ScopeBase`].
    Base = 4,
    /// The most that was in use of a ring inside the scope that ends next: a [`ScopePeak`].
    Peak = 5,
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
    pub site: u32,
    /// When the sample was taken, in ticks.
    pub at: u64,
    /// Number of the scope in order of opening, the same in both marks.
    pub scope: u32,
    /// Tensormap entries in use.
    pub tensormap: u32,
    /// Largest number of tensormap entries in use inside the scope; at its end.
    pub peak_tensormap: u32,
    /// Largest number of producers of one task inside the scope; at its end.
    pub peak_fanin: u32,
}
proven_layout!(ScopeMark, 32, {
    tag: u8, before: u8, depth: u16, site: u32, at: u64,
    scope: u32, tensormap: u32, peak_tensormap: u32, peak_fanin: u32,
});

/// The counters of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ScopeRing {
    /// A [`ScopeTag`] by number.
    pub tag: u8,
    /// The ring.
    pub ring: u8,
    /// Zero.
    pub pad: u16,
    /// Tasks submitted since the base.
    pub window_head: u32,
    /// Heap bytes in use.
    pub heap_used: u64,
    /// Heap bytes allocated since the base.
    pub heap_head: u32,
    /// Dependency entries allocated since the base.
    pub dep_head: u32,
    /// Slots in use.
    pub window_used: u32,
    /// Dependency entries in use.
    pub dep_used: u32,
}
proven_layout!(ScopeRing, 32, {
    tag: u8, ring: u8, pad: u16, window_head: u32, heap_used: u64,
    heap_head: u32, dep_head: u32, window_used: u32, dep_used: u32,
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
    /// Zero.
    pub zero: u64,
}
proven_layout!(ScopePeak, 32, {
    tag: u8, ring: u8, pad: u16, scope: u32, heap: u64, window: u32, dep: u32, zero: u64,
});

/// A record of a sample by what it says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScopeSays {
    /// A scope began or ended.
    Mark(ScopePhase, ScopeMark),
    /// Heads and use of a ring.
    Ring(ScopeRing),
    /// Use of a ring.
    Used(ScopeRing),
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
            2 => of_ring(ScopeSays::Ring(bytemuck::cast(self))),
            3 => of_ring(ScopeSays::Used(bytemuck::cast(self))),
            4 => of_ring(ScopeSays::Base(bytemuck::cast(self))),
            5 => of_ring(ScopeSays::Peak(bytemuck::cast(self))),
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
record_from!(ScopeMark, ScopeRing, ScopeBase, ScopePeak);

impl ScopeMark {
    /// Set in `before` once the run failed.
    pub const FATAL: u8 = 0x80;

    /// The scope's ring.
    #[inline]
    pub fn ring(&self) -> usize {
        (self.depth as usize).min(RINGS - 1)
    }
}

impl ScopeRing {
    /// What is in use of ring `ring`.
    #[inline]
    pub fn used(ring: usize, used: RingUse) -> Self {
        Self {
            tag: ScopeTag::Used as u8,
            ring: ring as u8,
            heap_used: used.heap,
            window_used: used.window,
            dep_used: used.dep_pool,
            ..Self::default()
        }
    }

    /// Adds the heads as offsets from `base`. `None` if one is out of reach of it.
    #[inline]
    pub fn with_heads(self, heads: &Heads, base: &Heads) -> Option<Self> {
        let offset = |head: u64, base: u64| u32::try_from(head.checked_sub(base)?).ok();
        Some(Self {
            tag: ScopeTag::Ring as u8,
            window_head: offset(heads.window, base.window)?,
            heap_head: offset(heads.heap, base.heap)?,
            dep_head: offset(heads.dep_pool, base.dep_pool)?,
            ..self
        })
    }

    /// What is in use.
    pub fn in_use(&self) -> RingUse {
        RingUse { window: self.window_used, dep_pool: self.dep_used, heap: self.heap_used }
    }

    /// The heads, counted from `base`.
    pub fn heads(&self, base: &Heads) -> Heads {
        Heads {
            window: base.window.wrapping_add(u64::from(self.window_head)),
            heap: base.heap.wrapping_add(u64::from(self.heap_head)),
            dep_pool: base.dep_pool.wrapping_add(u64::from(self.dep_head)),
        }
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
    /// The most that was in use of ring `ring` inside `scope`.
    pub fn of(scope: u32, ring: usize, most: RingUse) -> Self {
        Self {
            tag: ScopeTag::Peak as u8,
            ring: ring as u8,
            scope,
            heap: most.heap,
            window: most.window,
            dep: most.dep_pool,
            ..Self::default()
        }
    }

    /// The most that was in use.
    pub fn most(&self) -> RingUse {
        RingUse { window: self.window, dep_pool: self.dep, heap: self.heap }
    }
}
