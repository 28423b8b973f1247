//! `report.html`: everything about a run on one page that needs nothing else.
//!
//! The page has two halves. What a person reads first (verdict, tables, load line) is plain HTML that `html` writes from
//! the values of `plimsoll-analyze`, so it reads without scripts and its figures are those of the commands. What a person
//! moves in (the swimlane) is drawn by scripts from columns, which `data` encodes. The scripts lie in
//! `crates/report/page/`; they are joined into one inline script here, and nothing is generated or bundled.
//!
//! The page's policy forbids every request, and allows the one script and the one style by their hashes. Data blocks are
//! not scripts, so the policy does not concern them.

mod answers;
mod arguments;
mod captured;
mod columns;
mod counters;
mod data;
mod document;
mod edges;
mod gaps;
mod html;
mod lanes;
mod sections;
mod spans;

use std::io::{self, Write};

use plimsoll_trace::Trace;
use serde::Serialize;

pub use answers::Answers;

/// What a page holds, and what did not fit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Written {
    /// Bytes of the page.
    pub bytes: u64,
    /// Slices in its swimlane.
    pub slices: u64,
    /// Dependencies in it.
    pub edges: u64,
    /// What was left out to keep the page small, in the order of leaving out.
    pub left_out: Vec<&'static str>,
}

/// A run and what was asked of it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The run, read in full.
    pub trace: &'a Trace,
    /// The answers about it.
    pub answers: &'a Answers,
}

/// Writes the page of a run. The same run gives the same bytes.
///
/// # Errors
/// What `out` says.
pub fn write_page(run: Subject<'_>, out: &mut impl Write) -> io::Result<Written> {
    write_pages(run, None, out)
}

/// Writes the page of a run with another one, the run before, on the same axis, and what changed between them.
///
/// # Errors
/// What `out` says.
pub fn write_comparison(before: Subject<'_>, run: Subject<'_>, out: &mut impl Write) -> io::Result<Written> {
    write_pages(run, Some(before), out)
}

fn write_pages(run: Subject<'_>, before: Option<Subject<'_>>, out: &mut impl Write) -> io::Result<Written> {
    let runs = || [Some(run), before].into_iter().flatten();
    let budget = runs().map(|run| columns::budget(run.trace.executions.len())).sum();
    let (mut metas, packed) = columns::pack(budget, |packing| {
        let metas = runs().enumerate().map(|(at, run)| {
            packing.before = at > 0;
            data::Meta::of(run, packing)
        });
        metas.collect::<Vec<_>>()
    });
    let mut counted = CountingWriter { out, bytes: 0 };
    let left_out: Vec<&'static str> = packed.left_out.iter().map(|part| part.name()).collect();
    metas.iter_mut().for_each(|meta| meta.left_out.clone_from(&left_out));
    document::write(run, before, &metas, &packed, &mut counted)?;
    Ok(Written { bytes: counted.bytes, slices: metas[0].slices, edges: metas[0].edges, left_out })
}

/// Passes bytes on and counts them.
struct CountingWriter<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
