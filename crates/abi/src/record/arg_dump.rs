//! Kind 7: a line of a captured argument.
//!
//! Arguments are of any length, and records of one kind are of one. So an argument is a run of *lines*: the first begins with the
//! [`ArgDumpHead`], which says what the argument is, and all are filled with its elements. Each line knows which argument of its
//! agent it belongs to and its place in it, so a reader needs no other record to know what is missing.

use super::proven_layout;
use crate::MAX_DIMS;
use bytemuck::{Pod, Zeroable};

/// One line of a captured argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ArgDumpRecord {
    /// The argument, by the number of those that its agent captured before it.
    pub serial: u32,
    /// Which line of it.
    pub line: u32,
    /// In line 0 the [`ArgDumpHead`] first; then elements, dense and in row-major order.
    pub data: [u64; 31],
}
proven_layout!(ArgDumpRecord, 256, { serial: u32, line: u32, data: [u64; 31] });

/// What a captured argument is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ArgDumpHead {
    /// The task, with its round.
    pub task: u64,
    /// When it was captured, in ticks.
    pub time: u64,
    /// A plain value's bits; of a tensor the address of its first element.
    pub value: u64,
    /// Bytes of elements that were captured.
    pub bytes: u64,
    /// The kernel.
    pub kernel: u32,
    /// Which of the task's arguments.
    pub index: u32,
    /// Bytes of an element; 0 if nobody knows.
    pub elem_bytes: u32,
    /// Blocks that the task is executed in; 1 of an ordinary one.
    pub blocks: u32,
    /// Extents by dimension.
    pub shape: [u32; MAX_DIMS],
    /// Strides by dimension, in elements.
    pub strides: [i32; MAX_DIMS],
    /// Kernels of a mixed task's parts behind the first, plus one; 0 where there is none.
    pub parts: [u32; 2],
    /// An [`ArgMode`](super::ArgMode) by number.
    pub mode: u8,
    /// A [`Dtype`](crate::Dtype) by number.
    pub dtype: u8,
    /// Number of dimensions.
    pub ndim: u8,
    /// 1 if it was captured after the task had completed.
    pub after: u8,
    /// Why fewer elements were captured than were asked for, a [`Truncation`] by number; 0 if none is missing.
    pub truncated: u8,
    /// Zero.
    pub pad: [u8; 3],
}

/// Why fewer elements of an argument were captured than it has, though its elements were asked for. That is no loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Truncation {
    /// No more bytes of one argument were asked for.
    Limit = 1,
    /// Nobody knows the size of an element, so none was captured.
    ElementSize = 2,
    /// Inference does not look at the argument. Another task may write it while it would be copied, so no element was captured.
    NoDep = 3,
}

impl Truncation {
    /// All causes, in the order of their numbers, which begin at 1.
    pub const ALL: [Truncation; 3] = [Truncation::Limit, Truncation::ElementSize, Truncation::NoDep];

    /// As files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Truncation::Limit => "limit",
            Truncation::ElementSize => "element_size",
            Truncation::NoDep => "no_dep",
        }
    }
}

const HEAD_WORDS: usize = size_of::<ArgDumpHead>() / 8;
const _: () = assert!(size_of::<ArgDumpHead>() == 104 && align_of::<ArgDumpHead>() == 8, "a head is whole words");

impl ArgDumpRecord {
    /// The first line of an argument.
    pub fn opening(head: &ArgDumpHead) -> Self {
        let mut record = Self::default();
        record.data[..HEAD_WORDS].copy_from_slice(bytemuck::cast_slice(core::slice::from_ref(head)));
        record
    }

    /// What the argument is, if this is its first line.
    pub fn head(&self) -> Option<ArgDumpHead> {
        (self.line == 0).then(|| bytemuck::cast_slice(&self.data[..HEAD_WORDS])[0])
    }

    /// Says which task, with its round, a first line is of.
    pub fn set_task(&mut self, task: u64) {
        // The head's first word.
        self.data[0] = task;
    }

    /// Room for elements in this line.
    pub fn room(&self) -> &[u8] {
        bytemuck::cast_slice(&self.data[if self.line == 0 { HEAD_WORDS } else { 0 }..])
    }

    /// Room for elements in this line.
    pub fn room_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.data[if self.line == 0 { HEAD_WORDS } else { 0 }..])
    }
}
