//! Laying slices out so that on every lane they nest.
//!
//! Slices of one core may overlap without one holding the other: with two tasks in flight the second is dispatched
//! before the first is finished. Viewers give such slices the wrong ends, so those that do not nest go to a second lane
//! of the same name, and so on.

use std::io;
use std::ops::Range;

use plimsoll_trace::RunClock;

use super::{Canvas, Drawn};

/// Where a slice lies, in ticks; without an end it was open when the capture ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: Option<u64>,
}

/// The slices of one lane.
pub(super) struct PictureLane<'n, F> {
    name: &'n str,
    range: Range<usize>,
    span: F,
    /// By start, the longer first; absent where the range is in that order.
    order: Option<Vec<u32>>,
}

/// The most lanes of one name; slices past these share the last and may be shown with wrong ends.
const MAX_ROWS: usize = 64;
const OPEN: u64 = u64::MAX;

impl<'n, F: Fn(usize) -> Span> PictureLane<'n, F> {
    pub(super) fn new(name: &'n str, range: Range<usize>, span: F) -> Self {
        let key = |at: usize| {
            let (start, end) = ends(span(at));
            (start, std::cmp::Reverse(end))
        };
        let sorted = range.clone().skip(1).all(|at| key(at - 1) <= key(at));
        let order = (!sorted).then(|| {
            let mut order: Vec<u32> = range.clone().map(|at| at as u32).collect();
            order.sort_by_key(|at| key(*at as usize));
            order
        });
        Self { name, range, span, order }
    }

    fn at(&self, place: usize) -> usize {
        self.order.as_ref().map_or(self.range.start + place, |order| order[place] as usize)
    }

    /// Draws all slices; `begin` is given each one's index, the canvas and the time in nanoseconds.
    pub(super) fn draw<C: Canvas>(
        &self,
        clock: &RunClock,
        canvas: &mut C,
        drawn: &mut Drawn,
        mut begin: impl FnMut(usize, &mut C, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let rows = self.rows();
        let last_row = rows.iter().copied().max().unwrap_or(0);
        for row in 0..=last_row {
            canvas.lane(self.name)?;
            drawn.lanes += 1;
            let mut open: Vec<u64> = Vec::new();
            for place in (0..self.range.len()).filter(|p| rows.get(*p).copied().unwrap_or(0) == row) {
                let at = self.at(place);
                let (start, end) = ends((self.span)(at));
                while let Some(ended) = open.pop_if(|ended| *ended <= start) {
                    canvas.end(clock.ns_at(ended))?;
                }
                begin(at, canvas, clock.ns_at(start))?;
                drawn.slices += 1;
                open.push(end);
            }
            while let Some(ended) = open.pop_if(|ended| *ended != OPEN) {
                canvas.end(clock.ns_at(ended))?;
            }
        }
        Ok(())
    }

    /// The row of each slice, by place; empty if all nest on one.
    fn rows(&self) -> Vec<u8> {
        let mut stacks: Vec<Vec<u64>> = vec![Vec::new()];
        let mut rows: Vec<u8> = Vec::new();
        for place in 0..self.range.len() {
            let (start, end) = ends((self.span)(self.at(place)));
            let mut fits = |stack: &mut Vec<u64>| {
                while stack.pop_if(|ended| *ended <= start).is_some() {}
                stack.last().is_none_or(|outer| end <= *outer)
            };
            let row = match stacks.iter_mut().position(&mut fits) {
                Some(row) => row,
                None if stacks.len() < MAX_ROWS => {
                    stacks.push(Vec::new());
                    stacks.len() - 1
                }
                None => MAX_ROWS - 1,
            };
            stacks[row].push(end);
            if row > 0 && rows.is_empty() {
                rows = vec![0; place];
            }
            if row > 0 || !rows.is_empty() {
                rows.push(row as u8);
            }
        }
        rows
    }
}

/// Start and end with the end not before the start.
fn ends(span: Span) -> (u64, u64) {
    (span.start, span.end.map_or(OPEN, |end| end.max(span.start)))
}
