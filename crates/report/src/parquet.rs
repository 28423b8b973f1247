//! A run as Parquet tables, for DuckDB, Spark, DataFusion and whatever else reads columns.
//!
//! One file per table, all of them always, so that a glob over many runs finds the same columns everywhere. Every table says
//! which run a row is of, and says of a machine that does not exist what it is in the facts of its file. Times are nanoseconds since the run's first record. `docs/sql.md` has questions to ask.

mod columns;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_trace::{MachineMark, Trace};

use crate::{Error, write_whole};
use columns::ParquetTable;
pub use columns::{PlainColumn, PlainTable};

/// The names of the tables.
pub const TABLES: [&str; 7] = ["runs", "tasks", "executions", "phases", "scopes", "edges", "counters"];

/// A table of a run in memory; nothing, if there is none of this name.
pub fn table(trace: &Trace, run: &str, name: &str) -> Option<PlainTable> {
    let table = match name {
        "runs" => tables::runs(trace),
        "tasks" => return Some(tables::tasks(trace, &plimsoll_analyze::task_rows(trace)).plain(run)),
        "executions" => tables::executions(trace),
        "phases" => tables::phases(trace),
        "scopes" => return Some(tables::scopes(trace, &tables::scope_spans(trace)).plain(run)),
        "edges" => return Some(tables::edges(trace, &tables::edges_of_rounds(trace)).plain(run)),
        "counters" => tables::counters(trace),
        _ => return None,
    };
    Some(table.plain(run))
}

/// Where the tables of a run are, below its directory.
pub const DIR: &str = "parquet";

/// Writes every table into a directory; gives their paths. `run` is what rows call the run.
///
/// # Errors
/// [`Error::Io`] if the directory or a file in it cannot be made or written.
pub fn write_parquet(trace: &Trace, run: &str, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let tasks = plimsoll_analyze::task_rows(trace);
    let spans = tables::scope_spans(trace);
    let edges = tables::edges_of_rounds(trace);
    let all: [ParquetTable<'_>; 7] = [
        tables::runs(trace),
        tables::tasks(trace, &tasks),
        tables::executions(trace),
        tables::phases(trace),
        tables::scopes(trace, &spans),
        tables::edges(trace, &edges),
        tables::counters(trace),
    ];
    let mark = MachineMark::of(&trace.facts);
    let mut written = Vec::with_capacity(all.len());
    for table in all {
        let path = dir.join(format!("{}.parquet", table.name));
        write_whole(&path, |out| table.write(run, &mark, out))?;
        written.push(path);
    }
    Ok(written)
}
