//! The two views of a task's execution. They are joined on (core, dispatch token), because one task may run on
//! one core many times.

use super::proven_layout;
use bytemuck::{Pod, Zeroable};

/// Kind 0: the scheduler's view of a dispatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct AicpuTask {
    /// When the scheduler handed the task to the core, in ticks.
    pub dispatch: u64,
    /// When the scheduler saw that it had finished, in ticks.
    pub finish: u64,
    /// Task id and round ([`TaskId::with_round`](crate::TaskId::with_round)).
    pub task: u64,
    /// The core's dispatch token, from 1 upwards.
    pub token: u32,
    /// The kernel.
    pub kernel: u32,
}
proven_layout!(AicpuTask, 32, { dispatch: u64, finish: u64, task: u64, token: u32, kernel: u32 });

/// Kind 3: a core's view of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct AicoreTask {
    /// When the kernel started, in ticks.
    pub start: u64,
    /// When it ended, in ticks.
    pub end: u64,
    /// Task id and round ([`TaskId::with_round`](crate::TaskId::with_round)).
    pub task: u64,
    /// The core's dispatch token, from 1 upwards: the stamp that makes the slot valid.
    pub token: u32,
    /// Upper 20 bits: ticks from receipt to start, saturating; lower 12 bits: the kernel.
    pub receive_and_kernel: u32,
}
proven_layout!(AicoreTask, 32, { start: u64, end: u64, task: u64, token: u32, receive_and_kernel: u32 });

impl AicoreTask {
    /// Kernels a record can name.
    pub const KERNELS: u32 = 1 << 12;
    const RECEIVE_MAX: u64 = (1 << 20) - 1;

    /// Packs the ticks from receipt to start with the kernel.
    #[inline]
    pub const fn pack(receive_to_start: u64, kernel: u32) -> u32 {
        let ticks = if receive_to_start > Self::RECEIVE_MAX { Self::RECEIVE_MAX } else { receive_to_start };
        (ticks as u32) << 12 | (kernel & (Self::KERNELS - 1))
    }

    /// Ticks from receipt to start.
    #[inline]
    pub const fn receive_to_start(&self) -> u32 {
        self.receive_and_kernel >> 12
    }

    /// The kernel.
    #[inline]
    pub const fn kernel(&self) -> u32 {
        self.receive_and_kernel & (Self::KERNELS - 1)
    }
}
