//! Kinds 4 and 6: the begin or the end of a scope, and what all rings held then.
//!
//! A sample has what its scope's own ring holds. What the other rings hold is the same as at the sample before, and the
//! peaks of a scope are what is in use at its end, because usage only grows until something is given back. Where one of
//! the two is not so, a record of kind 6 says what all rings hold and what the peaks are, and a bit of the sample says
//! that there is one ([`ScopeRecord::HAS_RINGS`]). The two are joined on the scope's number and the time.

use super::proven_layout;
use crate::region::SITE_SLOTS;
use crate::{Heads, RINGS, RingUse, Usage};
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

/// Kind 4: the begin or the end of a scope. Its ring follows from its depth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ScopeRecord {
    /// When the sample was taken, in ticks.
    pub at: u64,
    /// Tasks ever submitted to the scope's ring.
    pub window_head: u64,
    /// Heap bytes ever allocated of the scope's ring.
    pub heap_head: u64,
    /// Dependency entries ever allocated of the scope's ring.
    pub dep_head: u64,
    /// Heap bytes of the scope's ring in use.
    pub heap: u64,
    /// Slots of the scope's ring in use.
    pub window: u32,
    /// Dependency entries of the scope's ring in use.
    pub dep_pool: u32,
    /// Tensormap entries in use.
    pub tensormap: u32,
    /// Number of the scope in order of opening, the same in both samples.
    pub scope: u32,
    /// Largest number of producers of one task inside the scope; at its end.
    pub peak_fanin: u32,
    /// The scope's depth; the root's is 0.
    pub depth: u16,
    /// Where the scope was opened, a number of the site table, and the bits below.
    pub site_and_bits: u16,
}
proven_layout!(ScopeRecord, 64, {
    at: u64, window_head: u64, heap_head: u64, dep_head: u64, heap: u64, window: u32, dep_pool: u32, tensormap: u32,
    scope: u32, peak_fanin: u32, depth: u16, site_and_bits: u16,
});

impl ScopeRecord {
    /// Bit of `site_and_bits`: the scope ended; else it began.
    pub const ENDS: u16 = 1 << 13;
    /// Bit of `site_and_bits`: a [`ScopeRingsRecord`] was written right before this sample and belongs to it.
    pub const HAS_RINGS: u16 = 1 << 14;
    /// Bit of `site_and_bits`: the run had failed.
    pub const FATAL: u16 = 1 << 15;
    const SITE: u16 = Self::ENDS - 1;

    /// Where the scope was opened.
    #[inline]
    pub const fn site(&self) -> u16 {
        self.site_and_bits & Self::SITE
    }

    /// Which end of the scope this is.
    #[inline]
    pub const fn phase(&self) -> ScopePhase {
        if self.has(Self::ENDS) { ScopePhase::End } else { ScopePhase::Begin }
    }

    /// Whether a bit is set.
    #[inline]
    pub const fn has(&self, bit: u16) -> bool {
        self.site_and_bits & bit != 0
    }

    /// The scope's ring.
    #[inline]
    pub fn ring(&self) -> usize {
        usize::from(self.depth).min(RINGS - 1)
    }

    /// Where the heads of the scope's ring were.
    pub const fn heads(&self) -> Heads {
        Heads { window: self.window_head, heap: self.heap_head, dep_pool: self.dep_head }
    }

    /// What was in use of the scope's ring.
    pub const fn own_use(&self) -> RingUse {
        RingUse { window: self.window, dep_pool: self.dep_pool, heap: self.heap }
    }
}

// A site's number leaves the bits alone.
const _: () = assert!(SITE_SLOTS <= ScopeRecord::SITE as usize);

/// Kind 6: what all rings held at a sample, and the most they held inside the scope if it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ScopeRingsRecord {
    /// When the sample was taken, in ticks.
    pub at: u64,
    /// Heap bytes in use, by ring.
    pub heap: [u64; RINGS],
    /// The most heap bytes that were in use, by ring.
    pub peak_heap: [u64; RINGS],
    /// Slots in use, by ring.
    pub window: [u32; RINGS],
    /// The most slots that were in use, by ring.
    pub peak_window: [u32; RINGS],
    /// Dependency entries in use, by ring.
    pub dep_pool: [u32; RINGS],
    /// The most dependency entries that were in use, by ring.
    pub peak_dep_pool: [u32; RINGS],
    /// The most tensormap entries that were in use.
    pub peak_tensormap: u32,
    /// Number of the scope in order of opening.
    pub scope: u32,
}
proven_layout!(ScopeRingsRecord, 144, {
    at: u64, heap: [u64; RINGS], peak_heap: [u64; RINGS], window: [u32; RINGS], peak_window: [u32; RINGS],
    dep_pool: [u32; RINGS], peak_dep_pool: [u32; RINGS], peak_tensormap: u32, scope: u32,
});

impl ScopeRingsRecord {
    /// What the rings held at the sample of `scope` at `at`.
    pub const fn of(at: u64, scope: u32, used: &Usage, peaks: &Usage) -> Self {
        Self {
            at,
            heap: used.heap,
            peak_heap: peaks.heap,
            window: used.window,
            peak_window: peaks.window,
            dep_pool: used.dep_pool,
            peak_dep_pool: peaks.dep_pool,
            peak_tensormap: peaks.tensormap,
            scope,
        }
    }

    /// What was in use, with the sample's tensormap entries.
    pub const fn used(&self, tensormap: u32) -> Usage {
        Usage { window: self.window, heap: self.heap, dep_pool: self.dep_pool, tensormap }
    }

    /// The most that was in use.
    pub const fn peaks(&self) -> Usage {
        let (window, heap, dep_pool) = (self.peak_window, self.peak_heap, self.peak_dep_pool);
        Usage { window, heap, dep_pool, tensormap: self.peak_tensormap }
    }
}
