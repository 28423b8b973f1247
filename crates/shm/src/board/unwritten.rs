//! Words of a board that nobody writes or reads: with `--cfg no_board` the scheduler runs without what the board costs it, so that
//! `cargo xtask board-cost` can count the difference.

use crate::sync::Ordering;

/// In place of an `AtomicU32`.
#[derive(Default, Debug)]
#[repr(C)]
pub struct ShownU32(u32);

/// In place of an `AtomicU64`.
#[derive(Default, Debug)]
#[repr(C)]
pub struct ShownU64(u64);

impl ShownU32 {
    #[inline]
    pub fn load(&self, _: Ordering) -> u32 {
        0
    }

    #[inline]
    pub fn store(&self, _: u32, _: Ordering) {}
}

impl ShownU64 {
    #[inline]
    pub fn load(&self, _: Ordering) -> u64 {
        0
    }

    #[inline]
    pub fn store(&self, _: u64, _: Ordering) {}
}
