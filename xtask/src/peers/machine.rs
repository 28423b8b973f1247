//! What a table has to say about where it was measured.

use std::process::Command;

use super::measure::PeerResults;
use crate::workspace::output;

/// The one-minute load, as text; a question mark where there is none.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_string()
}

/// Lines for the head of the table.
pub(crate) fn describe(load_before: &str, results: &PeerResults) -> Vec<String> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown CPU");
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let first_line = |program: &str, argument: &str| {
        let text = output(Command::new(program).arg(argument)).unwrap_or_default();
        text.lines().next().unwrap_or_default().to_string()
    };
    let samples = results.cells().map(|(_, _, cell)| cell.samples.len()).max().unwrap_or(0);
    vec![
        format!("{}, {cpus} CPUs, kernel {}", model.trim_start_matches([' ', '\t', ':']), kernel.trim()),
        format!("{}, {}", first_line("rustc", "--version"), first_line("g++", "--version")),
        format!(
            "{}; {samples} repetitions, one process each, interleaved and rotated; load {load_before} before, {} after",
            first_line("date", "-u"),
            load_average()
        ),
    ]
}
