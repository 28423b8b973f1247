//! Records from little-endian bytes, field by field at the offsets that their layouts prove.

use plimsoll_abi::MAX_DIMS;
use plimsoll_abi::record::{AicoreTask, AicpuTask, OrchPhase, SchedPhase, ScopeSample, SubmitRecord};

/// Takes fields off the front of a record's bytes, which are as many as its layout has.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    #[inline]
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((field, rest)) => {
                self.0 = rest;
                *field
            }
            // Unreachable for bytes of a whole record; zero is a valid value of every field.
            None => [0; N],
        }
    }

    #[inline]
    fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    #[inline]
    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    #[inline]
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    #[inline]
    fn i32(&mut self) -> i32 {
        i32::from_le_bytes(self.take())
    }

    #[inline]
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn u32s<const N: usize>(&mut self) -> [u32; N] {
        std::array::from_fn(|_| self.u32())
    }

    fn u64s<const N: usize>(&mut self) -> [u64; N] {
        std::array::from_fn(|_| self.u64())
    }
}

#[inline]
pub(super) fn aicore_task(bytes: &[u8]) -> AicoreTask {
    let mut f = Fields(bytes);
    AicoreTask { start: f.u64(), end: f.u64(), task: f.u64(), token: f.u32(), receive_and_kernel: f.u32() }
}

#[inline]
pub(super) fn aicpu_task(bytes: &[u8]) -> AicpuTask {
    let mut f = Fields(bytes);
    AicpuTask { dispatch: f.u64(), finish: f.u64(), task: f.u64(), token: f.u32(), kernel: f.u32() }
}

#[inline]
pub(super) fn sched_phase(bytes: &[u8]) -> SchedPhase {
    let mut f = Fields(bytes);
    SchedPhase {
        start: f.u64(),
        end: f.u64(),
        loop_iter: f.u32(),
        kind: f.u32(),
        tasks_processed: f.u32(),
        pop_hit: f.u32(),
        pop_miss: f.u32(),
        pad: f.u32(),
    }
}

#[inline]
pub(super) fn orch_phase(bytes: &[u8]) -> OrchPhase {
    let mut f = Fields(bytes);
    OrchPhase { start: f.u64(), end: f.u64(), task: f.u64(), submit_idx: f.u32(), pad: f.u32() }
}

pub(super) fn scope_sample(bytes: &[u8]) -> ScopeSample {
    let mut f = Fields(bytes);
    ScopeSample {
        at: f.u64(),
        site: f.u32(),
        phase: f.u8(),
        ring: f.u8(),
        depth: f.u16(),
        scope: f.u32(),
        fatal: f.u32(),
        window_tail: f.u64(),
        window_head: f.u64(),
        heap_tail: f.u64(),
        heap_head: f.u64(),
        dep_tail: f.u64(),
        dep_head: f.u64(),
        used_window: f.u32s(),
        used_heap: f.u64s(),
        used_dep: f.u32s(),
        peak_window: f.u32s(),
        peak_heap: f.u64s(),
        peak_dep: f.u32s(),
        tensormap: f.u32(),
        peak_tensormap: f.u32(),
        peak_fanin: f.u32(),
        pad: f.u32(),
    }
}

pub(super) fn submit(bytes: &[u8]) -> SubmitRecord {
    let mut f = Fields(bytes);
    SubmitRecord {
        tag: f.u8(),
        mode: f.u8(),
        dtype: f.u8(),
        ndim: f.u8(),
        aux: f.u32(),
        id: f.u64(),
        offset: f.u64(),
        shape: f.u32s::<MAX_DIMS>(),
        strides: std::array::from_fn(|_| f.i32()),
    }
}
