//! Kind 2: one submit of an orchestrator.

use super::proven_layout;
use bytemuck::{Pod, Zeroable};

/// One submit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct OrchPhase {
    /// When it began, in ticks.
    pub start: u64,
    /// When it ended, in ticks.
    pub end: u64,
    /// Task id and round ([`TaskId::with_round`](crate::TaskId::with_round)).
    pub task: u64,
    /// How many submits came before it in the run.
    pub submit_idx: u32,
    /// Zero.
    pub pad: u32,
}
proven_layout!(OrchPhase, 32, { start: u64, end: u64, task: u64, submit_idx: u32, pad: u32 });
