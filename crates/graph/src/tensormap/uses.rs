//! One use of a buffer by a task: a cache line of the table.

use super::{Access, BufferRef, Edge, Source};
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
    /// First coordinates of its part; for exactly one cell, that cell's number alone.
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

/// A part that every use in its home is of, unless the home is shared: the whole buffer, or the cell with this number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Same {
    Whole,
    Cell(u32),
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

    /// Becomes a listed use of exactly this part.
    #[inline(always)]
    pub(super) fn become_exact(&mut self, user: User, buffer: BufferRef, same: Same) {
        self.buffer = buffer.0;
        self.word = user.0 | LISTED;
        if let Same::Cell(number) = same {
            self.word |= FORM_BOX | CELL | IN_CELL;
            self.start[0] = number;
        }
    }

    /// Becomes the listed use that `access` is, kept in a cell that it does not fill, or wider than cells.
    pub(super) fn become_any(&mut self, access: &Access<'_>, in_cell: bool) {
        self.buffer = access.buffer.0;
        self.start = access.region.start;
        self.end = access.region.end;
        self.word = access.user.0 | form(access.region) | if in_cell { IN_CELL } else { 0 } | LISTED;
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

    /// Whether it is of exactly this part.
    #[inline(always)]
    pub(super) fn is_exactly(&self, same: Same, buffer: BufferRef) -> bool {
        match same {
            Same::Whole => self.word & FORM == 0,
            Same::Cell(number) => {
                self.word & FORM == FORM_BOX | CELL && self.buffer == buffer.0 && self.start[0] == number
            }
        }
    }

    /// The number of the cell that it is exactly of.
    pub(super) fn cell(&self) -> Option<u32> {
        (self.word & CELL != 0).then_some(self.start[0])
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

    /// Its part, unless that is exactly one cell.
    pub(super) fn region(&self) -> Region {
        let form = match self.word & (FORM_BOX | FORM_SPAN) {
            0 => return Region::WHOLE,
            FORM_BOX => Form::Box,
            _ => Form::Span,
        };
        Region { form, start: self.start, end: self.end }
    }
}
