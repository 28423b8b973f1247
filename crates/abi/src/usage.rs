//! What is in use of the rings' resources, and how much was ever allocated of them.

use crate::RINGS;

/// What is in use at one moment, or was at most.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Slots, by ring.
    pub window: [u32; RINGS],
    /// Heap bytes, by ring.
    pub heap: [u64; RINGS],
    /// Dependency entries, by ring.
    pub dep_pool: [u32; RINGS],
    /// Tensormap entries.
    pub tensormap: u32,
}

/// The part of a [`Usage`] that is of one ring.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RingUse {
    /// Slots.
    pub window: u32,
    /// Dependency entries.
    pub dep_pool: u32,
    /// Heap bytes.
    pub heap: u64,
}

/// How much of a ring was allocated since the run began. What was given back is this less what is in use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Heads {
    /// Slots.
    pub window: u64,
    /// Heap bytes.
    pub heap: u64,
    /// Dependency entries.
    pub dep_pool: u64,
}

impl Usage {
    /// Nothing of any resource is in use.
    pub const NONE: Usage = Usage { window: [0; RINGS], heap: [0; RINGS], dep_pool: [0; RINGS], tensormap: 0 };

    /// What is in use of one ring.
    #[inline]
    pub fn ring(&self, ring: usize) -> RingUse {
        RingUse { window: self.window[ring], dep_pool: self.dep_pool[ring], heap: self.heap[ring] }
    }

    /// Sets what is in use of one ring.
    #[inline]
    pub fn set_ring(&mut self, ring: usize, to: RingUse) {
        (self.window[ring], self.dep_pool[ring], self.heap[ring]) = (to.window, to.dep_pool, to.heap);
    }

    /// Whether both have the same in use of every ring.
    #[inline]
    pub fn same_rings(&self, other: &Usage) -> bool {
        self.window == other.window && self.heap == other.heap && self.dep_pool == other.dep_pool
    }

    /// Raises each resource to that of `other`.
    pub fn raise_to(&mut self, other: &Usage) {
        for ring in 0..RINGS {
            self.window[ring] = self.window[ring].max(other.window[ring]);
            self.heap[ring] = self.heap[ring].max(other.heap[ring]);
            self.dep_pool[ring] = self.dep_pool[ring].max(other.dep_pool[ring]);
        }
        self.tensormap = self.tensormap.max(other.tensormap);
    }
}
