//! Captured values of arguments, for the scripts: a line of text per argument and stage, which is read when its task is selected.

use plimsoll_analyze::arg_row;
use plimsoll_trace::DumpedArg;

use super::Answers;
use super::columns::{Column, ColumnPart, Packing};
use super::lanes::Tasks;

/// The most arguments that a page shows.
const MOST_ROWS: usize = 20_000;
/// The most bytes of elements that are looked at for it: a dump may be larger than memory.
const MOST_BYTES: u64 = 64 << 20;
/// Elements of each argument that the page shows.
const VALUES: usize = 8;

/// Adds a row per captured argument, in order of tasks; gives how many there are, and how many were captured.
pub(super) fn put(answers: &Answers, tasks: &Tasks, columns: &mut Packing) -> (usize, usize) {
    let Some(dump) = answers.dump.as_deref() else { return (0, 0) };
    let mut last = 0;
    let place = |arg: &DumpedArg, last: &mut usize| tasks.place(arg.task.with_round(arg.round), last);
    let mut rows: Vec<(u64, usize)> =
        dump.args.iter().enumerate().map(|(at, arg)| (place(arg, &mut last), at)).collect();
    rows.retain(|(place, _)| *place > 0);
    rows.sort_unstable();
    let column = |name| Column::new(name, ColumnPart::Arguments);
    let (mut task, mut length, mut text) = (column("dump.task"), column("dump.length"), column("dump.text"));
    let (mut shown, mut bytes) = (0, 0u64);
    for (place, at) in &rows {
        let arg = &dump.args[*at];
        bytes = bytes.saturating_add(arg.payload.1);
        if shown == MOST_ROWS || bytes > MOST_BYTES {
            break;
        }
        // What cannot be read is said by `plimsoll args`; the page shows what can.
        let Ok(row) = arg_row(dump, arg, true, VALUES) else { continue };
        let line = serde_json::to_string(&row).unwrap_or_default();
        task.put_delta(*place);
        length.put(line.len() as u64);
        text.put_bytes(line.as_bytes());
        shown += 1;
    }
    if shown > 0 {
        columns.extend([task, length, text]);
    }
    (shown, dump.args.len())
}
