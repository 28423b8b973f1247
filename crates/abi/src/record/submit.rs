//! Kind 5: submits as they are, from which the host infers the dependencies again.
//!
//! A submit is a run of records: one `Task`, then one per tensor argument, then one per explicit dependency.
//! A host buffer is announced once by a `Buffer` record before the first submit that uses it; an output is a
//! buffer of its own, announced by the `Arg` record that creates it. The meaning of the fields depends on the
//! tag; those without one are zero.

use super::proven_layout;
use crate::MAX_DIMS;
use bytemuck::{Pod, Zeroable};

/// What a submit record says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum SubmitTag {
    /// A host buffer: `id` = buffer, `offset` = address, `dtype`, `ndim`, `shape`; `aux` = element bytes.
    Buffer = 0,
    /// A task: `id` = task word, `mode` = 1 in a manual scope, `ndim` = argument records that follow (low byte),
    /// `aux` = explicit dependencies that follow, `shape[0..3]` = kernel ids + 1 by core slot (0 = none),
    /// `shape[3]` = blocks, `shape[4]` = argument records that follow.
    Task = 1,
    /// A tensor argument: `id` = buffer, `mode` = an [`ArgMode`], `dtype`, `ndim`, `offset`, `shape`, `strides` in
    /// elements; `aux` = its index among the task's arguments.
    Arg = 2,
    /// An explicit dependency: `id` = the earlier task.
    Dep = 3,
}

/// How a task uses an argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ArgMode {
    /// Read.
    Input = 0,
    /// Allocated for this task and written by it.
    Output = 1,
    /// Read and written.
    Inout = 2,
    /// Overwritten without being read.
    OutputExisting = 3,
    /// Read, and not looked at by inference.
    NoDep = 4,
    /// A plain value.
    Scalar = 5,
    /// Read and written, and not looked at by inference.
    NoDepInout = 6,
}

impl ArgMode {
    /// All modes, by number.
    pub const ALL: [ArgMode; 7] = [
        ArgMode::Input,
        ArgMode::Output,
        ArgMode::Inout,
        ArgMode::OutputExisting,
        ArgMode::NoDep,
        ArgMode::Scalar,
        ArgMode::NoDepInout,
    ];

    /// As the reference system's files write it.
    pub const fn reference_name(self) -> &'static str {
        match self {
            ArgMode::Input => "INPUT",
            ArgMode::Output => "OUTPUT",
            ArgMode::Inout => "INOUT",
            ArgMode::OutputExisting => "OUTPUT_EXISTING",
            ArgMode::NoDep | ArgMode::NoDepInout => "NO_DEP",
            ArgMode::Scalar => "SCALAR",
        }
    }

    /// Whether inference looks at the argument: it is a tensor, and the task did not opt out.
    #[inline]
    pub const fn is_inferred(self) -> bool {
        !matches!(self, ArgMode::NoDep | ArgMode::Scalar | ArgMode::NoDepInout)
    }

    /// Whether the kernel may read what the argument was before.
    #[inline]
    pub const fn may_read(self) -> bool {
        !matches!(self, ArgMode::Output | ArgMode::OutputExisting)
    }

    /// Whether the kernel may write the argument.
    #[inline]
    pub const fn may_write(self) -> bool {
        self.writes() || matches!(self, ArgMode::NoDepInout)
    }

    /// Whether inference takes the argument for read, and not for written.
    #[inline]
    pub const fn only_reads(self) -> bool {
        matches!(self, ArgMode::Input)
    }

    /// The modes that inference takes for writing: a bit for each, by number.
    pub const WRITING: u8 = 1 << ArgMode::Output as u8 | 1 << ArgMode::Inout as u8 | 1 << ArgMode::OutputExisting as u8;

    /// Whether inference takes the argument for written.
    #[inline]
    pub const fn writes(self) -> bool {
        Self::WRITING >> self as u8 & 1 != 0
    }
}

/// One record of a submit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct SubmitRecord {
    /// A [`SubmitTag`] by number.
    pub tag: u8,
    /// See the tag.
    pub mode: u8,
    /// A [`Dtype`](crate::Dtype) by number.
    pub dtype: u8,
    /// See the tag.
    pub ndim: u8,
    /// See the tag.
    pub aux: u32,
    /// See the tag.
    pub id: u64,
    /// See the tag.
    pub offset: u64,
    /// Extents by dimension.
    pub shape: [u32; MAX_DIMS],
    /// Strides by dimension, in elements.
    pub strides: [i32; MAX_DIMS],
}
proven_layout!(SubmitRecord, 64, {
    tag: u8, mode: u8, dtype: u8, ndim: u8, aux: u32, id: u64, offset: u64, shape: [u32; MAX_DIMS], strides: [i32; MAX_DIMS],
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_inference_looks_at_is_read_only_or_written() {
        for mode in ArgMode::ALL {
            assert_eq!(mode.only_reads(), mode.is_inferred() && !mode.writes(), "{mode:?}");
            assert!(mode.may_write() || !mode.writes(), "{mode:?}");
        }
        let untracked = [ArgMode::NoDep, ArgMode::NoDepInout].map(|mode| (mode.may_read(), mode.may_write()));
        assert_eq!(untracked, [(true, false), (true, true)]);
    }
}
