//! The record of a kind that is there to show that a kind is one row: only `cargo xtask test --only spare-kind` has it.

use super::proven_layout;
use bytemuck::{Pod, Zeroable};

/// A record without a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Spare {
    /// When it was written, in ticks.
    pub at: u64,
    /// Any number.
    pub value: u64,
}
proven_layout!(Spare, 16, { at: u64, value: u64 });
