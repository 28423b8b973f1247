//! The tables, in Markdown that also reads well on a terminal.

use std::fmt::Write;

use super::measure::{Figure, PeerCase, PeerCell, PeerResults};
use super::roster::{FLOOR, OURS, OURS_PREBUILT, Roster, STEALING};

pub(crate) fn render(machine: &[String], roster: &Roster, results: &PeerResults) -> String {
    let mut out = String::new();
    for line in machine.iter().chain(&roster.absent) {
        let _ = writeln!(out, "- {line}");
    }
    for group in results.cases.chunk_by(|a, b| (a.grain_ns, a.workers) == (b.grain_ns, b.workers)) {
        let of = format!("{}, {} workers", kernel(group[0].grain_ns), group[0].workers);
        let systems = in_order(results);
        let time = |case: &PeerCase, system: &str| cell_text(results.cell(case, system), PeerCell::time);
        let cpu = |case: &PeerCase, system: &str| cell_text(results.cell(case, system), PeerCell::cpu);
        out += &table(&format!("**{of}: ns per task, min / median**"), group, &systems, time);
        out += &table(&format!("**{of}: CPU ns per task, min / median**"), group, &systems, cpu);
        if systems.contains(&OURS) {
            let others: Vec<_> = systems.iter().copied().filter(|name| !name.starts_with(OURS)).collect();
            let title = format!("**{of}: ours to each (below 1: ours is faster), streaming / prebuilt**");
            out += &table(&title, group, &others, |case, system| ratio_text(results, case, system));
        }
    }
    out + &footnotes(results)
}

fn kernel(grain_ns: u64) -> String {
    if grain_ns == 0 { "empty kernel".into() } else { format!("kernel of {grain_ns} ns") }
}

/// Ours first, then the floor they are held against, then the rest as they stand in the roster.
fn in_order(results: &PeerResults) -> Vec<&'static str> {
    let rank = |name: &str| if name.starts_with(OURS) { 0 } else { 1 + u8::from(name != FLOOR) };
    let mut systems = results.systems.clone();
    systems.sort_by_key(|name| rank(name));
    systems
}

fn table(title: &str, cases: &[PeerCase], systems: &[&str], text: impl Fn(&PeerCase, &str) -> String) -> String {
    let mut rows =
        vec![std::iter::once("system".to_string()).chain(cases.iter().map(|c| c.shape.to_string())).collect()];
    for system in systems {
        rows.push(std::iter::once(system.to_string()).chain(cases.iter().map(|case| text(case, system))).collect());
    }
    format!("\n{title}\n\n{}", aligned(&rows))
}

/// The first row is the heading; columns are as wide as their widest cell.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut out = String::new();
    for (k, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let _ = writeln!(out, "| {} |", cells.collect::<Vec<_>>().join(" | "));
        if k == 0 {
            let rule = widths
                .iter()
                .enumerate()
                .map(|(c, &w)| format!("{}{}", "-".repeat(w + 1), if c == 0 { "-" } else { ":" }));
            let _ = writeln!(out, "|{}|", rule.collect::<Vec<_>>().join("|"));
        }
    }
    out
}

fn cell_text(cell: Option<&PeerCell>, figure: impl Fn(&PeerCell) -> Option<Figure>) -> String {
    let Some(cell) = cell else { return "–".into() };
    match figure(cell) {
        _ if cell.failure.is_some() => "failed".into(),
        Some(Figure { min, median }) => format!("{min:.0} / {median:.0}"),
        None => "–".into(),
    }
}

fn ratio_text(results: &PeerResults, case: &PeerCase, system: &str) -> String {
    let ratio = |ours: &str| match results.ratio(case, ours, system) {
        Some(ratio) if ratio < 10.0 => format!("{ratio:.2}"),
        Some(ratio) => format!("{ratio:.0}"),
        None => "–".into(),
    };
    format!("{} / {}", ratio(OURS), ratio(OURS_PREBUILT))
}

/// What the tables cannot show: the floor's meaning, and cells measured with other task counts.
fn footnotes(results: &PeerResults) -> String {
    let mut out = String::new();
    if results.systems.contains(&FLOOR) {
        out += "\n`floor: table + bare stealing` is the sum of two measured parts (edges derived with dense tables on one \
                thread, then `stealing`), not a system. `stealing`, `rayon`, `serial-kahn`, `taskflow` and `tbb` are given \
                the edges; `plimsoll`, `openmp` and `starpu` infer them.\n";
    }
    let tasks = |case: &PeerCase, system: &str| results.cell(case, system).and_then(PeerCell::tasks);
    for case in &results.cases {
        if let (Some(ours), Some(theirs)) = (tasks(case, OURS), tasks(case, STEALING))
            && ours != theirs
        {
            let _ = writeln!(out, "\n{}: ours ran {ours} tasks, the peers {theirs}: not the same graph.", case.shape);
        }
    }
    // The shapes round down, so that a few tasks less than asked for are no remark worth.
    let is_fewer = |case: &PeerCase, cell: &PeerCell| cell.tasks().is_some_and(|tasks| tasks * 2 < case.tasks);
    for (case, system, cell) in results.cells().filter(|(case, _, cell)| is_fewer(case, cell)) {
        let (kernel, tasks) = (kernel(case.grain_ns), cell.tasks().unwrap_or(0));
        let _ = writeln!(out, "\n{system}, {}, {kernel}, {} workers: {tasks} tasks (slow).", case.shape, case.workers);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let row = |a: &str, b: &str| vec![a.to_string(), b.to_string()];
        let text = aligned(&[row("system", "chain"), row("x", "1 / 2")]);
        assert_eq!(text, "| system | chain |\n|--------|------:|\n| x      | 1 / 2 |\n");
    }
}
