//! Kind 8: what counters counted while a core executed a task.

use super::proven_layout;
use crate::CounterGroup;
use bytemuck::{Pod, Zeroable};

/// What was counted during one execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct CounterReading {
    /// Task id and round ([`TaskId::with_round`](crate::TaskId::with_round)).
    pub task: u64,
    /// The counts, in the order of the group's counters; 0 behind the last.
    pub counts: [u64; CounterGroup::MOST],
    /// The core's dispatch token, from 1 upwards; 0 if the record is void.
    pub token: u32,
    /// The kernel.
    pub kernel: u32,
    /// A [`CounterGroup`] by number.
    pub group: u16,
    /// [`EXACT`](Self::EXACT), [`ESTIMATED`](Self::ESTIMATED) or [`NOT_COUNTED`](Self::NOT_COUNTED).
    pub quality: u16,
    /// Zero.
    pub pad: u32,
}
proven_layout!(CounterReading, 56, {
    task: u64, counts: [u64; CounterGroup::MOST], token: u32, kernel: u32, group: u16, quality: u16, pad: u32,
});

impl CounterReading {
    /// Everything was counted.
    pub const EXACT: u16 = 0;
    /// The counters were shared with others for a part of the time; the rest is estimated from what was counted.
    pub const ESTIMATED: u16 = 1;
    /// The system gave no counters for it; all counts are 0.
    pub const NOT_COUNTED: u16 = 2;
}
