//! One use of a buffer by a task: a cache line of the table.

use super::{Access, Edge, Source};
use crate::Region;
use crate::region::Form;
use plimsoll_abi::{MAX_DIMS, TaskId};

/// No index: place 0 of every vector is never used, so that zeroed memory is a table of empty lists.
pub(super) const NONE: u32 = 0;

/// Marks a `prev` that is the home whose list begins here.
pub(super) const AT_HEAD: u32 = 1 << 31;

const ID_MASK: u64 = (1 << 40) - 1;
const ARG_SHIFT: u32 = 40;
const WRITES: u64 = 1 << 56;
pub(super) const LISTED: u64 = 1 << 58;
const FORM_BOX: u64 = 1 << 59;
const FORM_SPAN: u64 = 1 << 60;
/// The part is exactly one cell of its buffer's grid, and the use is kept in that cell's home.
const CELL: u64 = 1 << 61;
/// The use is kept in the home of a cell, which it need not fill.
pub(super) const IN_CELL: u64 = 1 << 57;
const FORM: u64 = FORM_BOX | FORM_SPAN | CELL;

/// Who uses a buffer: a task, which of its arguments, and whether it writes it; it may read it besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User(u64);

impl User {
    /// Argument `arg` of `task`.
    #[inline(always)]
    pub fn new(task: TaskId, arg: u16, writes: bool) -> Self {
        Self(task.raw() | u64::from(arg) << ARG_SHIFT | if writes { WRITES } else { 0 })
    }

    /// The task.
    #[inline(always)]
    pub fn task(self) -> TaskId {
        TaskId::from_raw(self.0 & ID_MASK)
    }

    /// Whether the buffer is written.
    #[inline(always)]
    pub fn writes(self) -> bool {
        self.0 & WRITES != 0
    }
}

/// One use of a buffer by a task.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Use {
    start: [u32; MAX_DIMS],
    end: [u32; MAX_DIMS],
    /// Task id in the low 40 bits, then 16 bits of argument, then the bits above.
    pub(super) word: u64,
    pub(super) buffer: u32,
    pub(super) next: u32,
    /// The use before this one; for the first of a list, `AT_HEAD` and the list's home.
    pub(super) prev: u32,
    /// The next use of the same task, or the next free one.
    pub(super) sibling: u32,
}

const _: () = assert!(size_of::<Use>() == 64, "a use is one cache line");

/// Uses that are all of exactly the same part: whole buffers, or one cell of a grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Same {
    /// The whole buffer.
    Whole,
    /// One cell.
    Cell,
}

/// The bits of a region's form.
#[inline(always)]
fn form(region: &Region) -> u64 {
    match region.form {
        Form::Whole => 0,
        Form::Box => FORM_BOX,
        Form::Span => FORM_SPAN,
    }
}

impl Use {
    pub(super) const EMPTY: Use =
        Use { start: [0; MAX_DIMS], end: [0; MAX_DIMS], word: 0, buffer: NONE, next: NONE, prev: NONE, sibling: NONE };

    /// Becomes the use that `access` is, listed before `next` in `home`.
    #[inline(always)]
    pub(super) fn become_listed(&mut self, access: &Access<'_>, place: u64, next: u32, home: u32) {
        self.start = access.region.start;
        self.end = access.region.end;
        self.word = access.user.0 | form(access.region) | place | LISTED;
        self.buffer = access.buffer.0;
        (self.next, self.prev) = (next, AT_HEAD | home);
    }

    /// The bits of a use that is kept as one of `same`.
    #[inline(always)]
    pub(super) fn place(same: Same) -> u64 {
        match same {
            Same::Whole => 0,
            Same::Cell => CELL | IN_CELL,
        }
    }

    #[inline(always)]
    pub(super) fn task(&self) -> TaskId {
        TaskId::from_raw(self.word & ID_MASK)
    }

    #[inline(always)]
    pub(super) fn arg(&self) -> u16 {
        (self.word >> ARG_SHIFT) as u16
    }

    #[inline(always)]
    pub(super) fn writes(&self) -> bool {
        self.word & WRITES != 0
    }

    #[inline(always)]
    pub(super) fn is_span(&self) -> bool {
        self.word & FORM_SPAN != 0
    }

    #[inline(always)]
    pub(super) fn is_in_cell(&self) -> bool {
        self.word & IN_CELL != 0
    }

    /// Whether it is of exactly the part of an access that is one of `same`. Where a cell begins tells which it is.
    #[inline(always)]
    pub(super) fn is_same(&self, same: Same, access: &Access<'_>) -> bool {
        match same {
            Same::Whole => self.word & FORM == 0,
            Same::Cell => {
                self.word & FORM == FORM_BOX | CELL
                    && self.buffer == access.buffer.0
                    && self.start == access.region.start
            }
        }
    }

    /// The dependency on it of an access of exactly the same part.
    #[inline(always)]
    pub(super) fn edge(&self) -> Edge {
        Edge {
            pred: self.task(),
            pred_arg: self.arg(),
            source: if self.writes() { Source::Tensormap } else { Source::Reader },
            covered: true,
            conservative: false,
        }
    }

    /// Whether it is of exactly this region.
    #[inline(always)]
    pub(super) fn is_of(&self, region: &Region) -> bool {
        self.word & (FORM_BOX | FORM_SPAN) == form(region) && self.start == region.start && self.end == region.end
    }

    pub(super) fn region(&self) -> Region {
        let form = match self.word & (FORM_BOX | FORM_SPAN) {
            0 => Form::Whole,
            FORM_BOX => Form::Box,
            _ => Form::Span,
        };
        Region { form, start: self.start, end: self.end }
    }
}
