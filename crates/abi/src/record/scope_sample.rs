//! Kind 4: the begin or the end of a scope, with what its rings held.

use super::proven_layout;
use crate::RINGS;
use bytemuck::{Pod, Zeroable};

/// Which end of a scope a sample was taken at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ScopePhase {
    /// At its begin.
    Begin = 0,
    /// At its end; only here the peaks have a meaning.
    End = 1,
}

/// A sample of one scope. Heads and tails are those of the scope's own ring and only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ScopeSample {
    /// When it was taken, in ticks.
    pub at: u64,
    /// Where the scope was opened.
    pub site: u32,
    /// A [`ScopePhase`] by number.
    pub phase: u8,
    /// The scope's ring.
    pub ring: u8,
    /// The scope's depth; the root's is 0.
    pub depth: u16,
    /// Number of the scope in order of opening, the same in both samples.
    pub scope: u32,
    /// 1 once the run failed.
    pub fatal: u32,
    /// Tasks reclaimed.
    pub window_tail: u64,
    /// Tasks submitted.
    pub window_head: u64,
    /// Heap bytes given back.
    pub heap_tail: u64,
    /// Heap bytes allocated.
    pub heap_head: u64,
    /// Dependency entries given back.
    pub dep_tail: u64,
    /// Dependency entries allocated.
    pub dep_head: u64,
    /// Slots in use, by ring.
    pub used_window: [u32; RINGS],
    /// Heap bytes in use, by ring.
    pub used_heap: [u64; RINGS],
    /// Dependency entries in use, by ring.
    pub used_dep: [u32; RINGS],
    /// Largest number of slots in use inside the scope, by ring.
    pub peak_window: [u32; RINGS],
    /// Largest number of heap bytes in use inside the scope, by ring.
    pub peak_heap: [u64; RINGS],
    /// Largest number of dependency entries in use inside the scope, by ring.
    pub peak_dep: [u32; RINGS],
    /// Tensormap entries in use.
    pub tensormap: u32,
    /// Largest number of tensormap entries in use inside the scope.
    pub peak_tensormap: u32,
    /// Largest number of producers of one task inside the scope.
    pub peak_fanin: u32,
    /// Zero.
    pub pad: u32,
}
proven_layout!(ScopeSample, 216, {
    at: u64, site: u32, phase: u8, ring: u8, depth: u16, scope: u32, fatal: u32,
    window_tail: u64, window_head: u64, heap_tail: u64, heap_head: u64, dep_tail: u64, dep_head: u64,
    used_window: [u32; RINGS], used_heap: [u64; RINGS], used_dep: [u32; RINGS],
    peak_window: [u32; RINGS], peak_heap: [u64; RINGS], peak_dep: [u32; RINGS],
    tensormap: u32, peak_tensormap: u32, peak_fanin: u32, pad: u32,
});
