//! Kind 7: a captured argument of a task, or as much of it as a record holds.
//!
//! An argument is as many records as its elements need, one after the other; a plain value, or a tensor of which only the
//! shape is captured, is one. Each says what it is a part of, so a reader needs no other record to know what is missing.

use super::proven_layout;
use crate::MAX_DIMS;
use bytemuck::{Pod, Zeroable};

/// A captured argument, or a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ArgDumpRecord {
    /// The task, with its round.
    pub task: u64,
    /// When it was captured, in ticks: the same in all records of an argument.
    pub time: u64,
    /// A plain value's bits; of a tensor the address of its first element.
    pub value: u64,
    /// Bytes of elements that were captured in all.
    pub bytes: u64,
    /// Where those of this record begin among them.
    pub at: u64,
    /// The kernel.
    pub kernel: u32,
    /// Which of the task's arguments.
    pub index: u32,
    /// Bytes of an element; 0 if nobody knows.
    pub elem_bytes: u32,
    /// Bytes of elements in this record.
    pub len: u32,
    /// Extents by dimension.
    pub shape: [u32; MAX_DIMS],
    /// Strides by dimension, in elements.
    pub strides: [i32; MAX_DIMS],
    /// An [`ArgMode`](super::ArgMode) by number.
    pub mode: u8,
    /// A [`Dtype`](crate::Dtype) by number.
    pub dtype: u8,
    /// Number of dimensions.
    pub ndim: u8,
    /// 1 if it was captured after the task had completed.
    pub after: u8,
    /// 1 if fewer elements were captured than there are, because more were not asked for.
    pub truncated: u8,
    /// Zero.
    pub pad: [u8; 3],
    /// The elements, dense and in row-major order.
    pub data: [[u64; 23]; 5],
}
proven_layout!(ArgDumpRecord, 1024, {
    task: u64, time: u64, value: u64, bytes: u64, at: u64, kernel: u32, index: u32, elem_bytes: u32, len: u32,
    shape: [u32; MAX_DIMS], strides: [i32; MAX_DIMS], mode: u8, dtype: u8, ndim: u8, after: u8, truncated: u8, pad: [u8; 3],
    data: [[u64; 23]; 5],
});

impl ArgDumpRecord {
    /// Bytes of elements that a record has room for.
    pub const ROOM: usize = size_of::<[[u64; 23]; 5]>();
}
