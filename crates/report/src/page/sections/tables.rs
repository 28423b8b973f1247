//! Tables: functions, scopes, cores, pools, facts. Every number carries the exact value of the command's JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use plimsoll_analyze::{FalseKind, FalsePair};
use plimsoll_trace::{PoolLedger, Status, Trace};

use super::super::Answers;
use super::super::html::{self, HtmlTable, TableCell};
use super::overview::has_level;
use super::{how_to_record, section};
use crate::text::{duration, percent, share_of_time};

pub(super) fn time(ns: u64) -> TableCell {
    TableCell::Number(duration(ns as f64), ns as f64)
}

pub(super) fn number(count: u64) -> TableCell {
    TableCell::Number(html::count(count), count as f64)
}

pub(super) fn share(part: f64) -> TableCell {
    TableCell::Number(percent(part), part)
}

/// Time per function, with its distribution drawn on one logarithmic scale for all.
pub(super) fn functions(trace: &Trace, answers: &Answers) -> String {
    let functions = &answers.stats.functions;
    if functions.is_empty() {
        let words = match trace.executions.len() {
            0 => "No times of tasks were recorded.",
            _ => "No task had ended, so no function has times. The timeline shows what was running.",
        };
        return section("functions", "Functions", &format!("<p class=soft>{words}</p>"));
    }
    let (least, most) = (answers.histograms.least_ns, answers.histograms.most_ns);
    let heads = ["function", "distribution", "#count", "#share", "#total", "#mean", "#p50", "#p99", "#min", "#max"];
    let mut table = HtmlTable::new("function-table", &heads);
    for (f, bins) in functions.iter().zip(&answers.histograms.functions) {
        let label = format!("<button type=button class=name><s></s>{}</button>", html::name(&f.name));
        let attribute = format!(" data-name=\"{}\"", html::text(&f.name));
        table.row(
            &attribute,
            &[
                TableCell::Text(label),
                TableCell::Text(spread(bins, [f.exec_p50_ns, f.exec_p99_ns], least, most)),
                number(f.count),
                share(f.exec_share),
                time(f.exec_total_ns),
                TableCell::Number(duration(f.exec_avg_ns), f.exec_avg_ns),
                time(f.exec_p50_ns),
                time(f.exec_p99_ns),
                time(f.exec_min_ns),
                time(f.exec_max_ns),
            ],
        );
    }
    let range = match least < most {
        true => format!(", {} to {}", duration(least as f64), duration(most as f64)),
        false => format!("; all took {}", duration(most as f64)),
    };
    let scale = format!(
        "<p class=soft>Distributions are on one logarithmic scale{range}; lines mark p50 and p99, and the least bar is one execution.<span class=scripted> Click a function to see only it in the timeline.</span></p>"
    );
    section("functions", "Functions", &(table.finish() + &scale))
}

/// Executions by how long they took, as bars whose heights are on a square-root scale, so that few are seen beside many.
fn spread(bins: &[u64], marks: [u64; 2], least: u64, most: u64) -> String {
    const WIDTH: f64 = 140.0;
    let tallest = bins.iter().copied().max().unwrap_or(0).max(1) as f64;
    let step = WIDTH / bins.len().max(1) as f64;
    let mut bars = String::new();
    let is_one = least.max(1) >= most.max(1);
    for (at, many) in bins.iter().enumerate().filter(|(_, many)| **many > 0) {
        let height = ((*many as f64 / tallest).sqrt() * 18.0).max(1.5);
        let left = if is_one { (WIDTH - step + 0.6) / 2.0 } else { at as f64 * step };
        let _ = write!(bars, "M{left:.1} 20v{:.1}h{:.1}V20", -height, step - 0.6);
    }
    let (least, ratio) = (least.max(1) as f64, (most.max(1) as f64 / least.max(1) as f64).ln().max(1e-9));
    let x = |ns: u64| ((ns.max(1) as f64 / least).ln() / ratio * WIDTH).clamp(0.5, WIDTH - 0.5);
    // Values that are all the same have no place on a scale: bar and lines stand in its middle.
    let x = |ns: u64| if is_one { WIDTH / 2.0 } else { x(ns) };
    format!(
        "<svg class=spread width=140 height=22 viewBox=\"0 0 140 22\" aria-hidden=true><path class=bars d=\"{bars}\"/><path class=mid d=\"M{:.1} 0v22M{:.1} 6v16\"/></svg>",
        x(marks[0]),
        x(marks[1])
    )
}

/// What the critical path is made of, by function.
pub(super) fn path(answers: &Answers) -> String {
    let Some(path) = &answers.path else { return String::new() };
    let mut table =
        HtmlTable::new("path-table", &["function", "#tasks on the path", "#in kernels", "#waited before", "#share"]);
    for f in &path.functions {
        let cells =
            [TableCell::Text(html::name(&f.func)), number(f.count), time(f.kernel_ns), time(f.wait_ns), share(f.share)];
        table.row("", &cells);
    }
    let folded: String = path
        .folded
        .iter()
        .map(|folded| {
            format!(
                "<li>{} is counted in {}: {}</li>",
                html::text(folded.part),
                html::text(folded.into),
                html::text(folded.because)
            )
        })
        .collect();
    let folded = if folded.is_empty() { folded } else { format!("<ul class=soft>{folded}</ul>") };
    section("path-section", "Critical path", &(table.finish() + &folded))
}

/// The place for the neighbours of the selected task, and the dependencies that data does not need.
pub(super) fn dependencies(trace: &Trace, answers: &Answers) -> String {
    let words = match trace.deps {
        Some(_) => {
            let how = if trace.executions.is_empty() {
                "Search for a task by its name or its kernel"
            } else {
                "Select a task"
            };
            format!("<p class=\"soft scripted\">{how} to see whom it waited for and who waited for it.</p>")
        }
        None => format!("<p class=soft>{}</p>", html::with_code(&unrecorded(trace, answers))),
    };
    // What is taller scrolls, by keys, too.
    let room = match trace.deps {
        Some(_) => " class=room tabindex=0 role=group aria-label=\"Dependencies of the selected task\"",
        None => "",
    };
    let mut body = format!("<div id=neighbours{room}>{words}</div>");
    if let Some((deps, all)) = trace.deps.as_ref().zip(answers.false_dependencies.as_deref()) {
        body += &false_table(all, |task| trace.task_name(deps.tasks[task as usize].word));
    }
    section("dependencies", "Dependencies", &body)
}

/// Why there are no dependencies, and how there will be.
pub(super) fn unrecorded(trace: &Trace, answers: &Answers) -> String {
    let why = match trace.manifest {
        Some(_) => "Dependencies were not recorded.",
        None => "There are no dependencies among these files.",
    };
    format!("{why}{}", how_to_record(trace, answers, "Record them with `Flags::DEP_GEN` or `RecordOptions::profile`."))
}

/// The most rows of the table of false dependencies.
const FALSE_ROWS: usize = 50;

fn false_table(all: &[FalsePair], name: impl Fn(u32) -> String) -> String {
    if all.is_empty() {
        return "<p class=soft>No dependency was found that data does not need.</p>".to_string();
    }
    let mut table =
        HtmlTable::new("false-table", &["earlier task", "later task", "why it is false", "#costs on the path"]);
    for pair in all.iter().take(FALSE_ROWS) {
        let why = match pair.kind {
            FalseKind::NoSharedByte => "the parts share no byte",
            FalseKind::WriteAfterRead => "write after read: another buffer would remove it",
            FalseKind::WriteAfterWrite => "write after write: another buffer would remove it",
        };
        let task = |task: u32| TableCell::Text(html::task(&name(task)));
        table.row("", &[task(pair.pred), task(pair.succ), TableCell::Text(why.to_string()), time(pair.cost_ns)]);
    }
    let more = if all.len() > FALSE_ROWS {
        format!(
            "<p class=soft>These are the {FALSE_ROWS} that cost most; <code>plimsoll deps --json</code> has all.</p>"
        )
    } else {
        String::new()
    };
    let count = html::count(all.len() as u64);
    format!("<h4>Dependencies that data does not need ({count})</h4>{}{more}", table.finish())
}

/// Time per core.
pub(super) fn cores(answers: &Answers) -> String {
    if answers.stats.cores.iter().all(|core| core.tasks == 0) {
        return section("cores", "Cores", "<p class=soft>No times of tasks were recorded.</p>");
    }
    let mut table = HtmlTable::new("core-table", &["core", "#tasks", "#busy", "#utilisation", "#span"]);
    for core in answers.stats.cores.iter().filter(|core| core.tasks > 0) {
        let cells = [
            TableCell::Text(html::name(&core.name)),
            number(core.tasks),
            time(core.busy_ns),
            TableCell::Number(share_of_time(core.utilisation), core.utilisation),
            share(core.span_share),
        ];
        table.row("", &cells);
    }
    let idle = answers.stats.cores.iter().filter(|core| core.tasks == 0).count();
    let note = if idle > 0 { format!("<p class=soft>{idle} more ran nothing.</p>") } else { String::new() };
    let body = table.finish() + &note;
    // A chip of a hundred cores would push everything below it out of sight.
    let many = answers.stats.cores.len() > 16;
    let body = if many {
        format!("<details><summary>{} cores</summary>{body}</details>", answers.stats.cores.len())
    } else {
        body
    };
    section("cores", "Cores", &body)
}

/// The ledger by kind of record, and what is wrong with the files.
pub(super) fn pools(answers: &Answers) -> String {
    let mut body = String::new();
    if let Some(reconcile) = &answers.check.reconcile {
        let mut kinds: BTreeMap<&str, PoolLedger> = BTreeMap::new();
        for pool in reconcile.pools.iter().map(|check| &check.pool) {
            let sum = kinds.entry(&pool.kind).or_default();
            sum.total = sum.total.saturating_add(pool.total);
            sum.collected = sum.collected.saturating_add(pool.collected);
            sum.recovered = sum.recovered.saturating_add(pool.recovered);
            sum.dropped = sum.dropped.saturating_add(pool.dropped);
            sum.mismatch = sum.mismatch.saturating_add(pool.mismatch);
            sum.wait_ns = sum.wait_ns.saturating_add(pool.wait_ns);
        }
        let heads = ["records", "#total", "#collected", "#recovered", "#dropped", "#mismatched", "#recorder waited"];
        let mut table = HtmlTable::new("ledger-table", &heads);
        for (kind, sum) in &kinds {
            let counts = [sum.total, sum.collected, sum.recovered, sum.dropped, sum.mismatch].map(number);
            let cells: Vec<TableCell> =
                [TableCell::Text(html::text(kind))].into_iter().chain(counts).chain([time(sum.wait_ns)]).collect();
            table.row("", &cells);
        }
        body += &table.finish();
    } else {
        body += "<p class=soft>These files carry no ledger.</p>";
    }
    let findings: String =
        answers.check.findings.iter().map(|finding| format!("<li>{}</li>", html::text(&finding.to_string()))).collect();
    if !findings.is_empty() {
        body += &format!("<h4>What is wrong with the files</h4><ul>{findings}</ul>");
    }
    section("ledger", "Ledger", &body)
}

/// What the run was.
pub(super) fn facts(trace: &Trace, answers: &Answers) -> String {
    let mut rows: Vec<(&str, String)> = Vec::new();
    let facts = &trace.facts;
    let mut add = |name: &'static str, value: String| {
        if !value.is_empty() {
            rows.push((name, value));
        }
    };
    add("engine", facts.engine.clone());
    add("arch", facts.arch.clone());
    if facts.virtual_time {
        add("time", format!("virtual: {} is a model here, and nothing was measured", facts.arch));
    } else if facts.emulated {
        add("time", format!("measured on this machine's threads: {} is emulated", facts.arch));
    }
    if has_level(trace) {
        add("swimlane level", facts.level.to_string());
    }
    if let Some(manifest) = &trace.manifest {
        add("command", manifest.command.join(" "));
        let settings: Vec<String> = manifest.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        add("settings", settings.join(" "));
        let died = answers.explanation.as_ref().filter(|_| manifest.status == Status::Running);
        add(
            "status",
            match died {
                Some(of) => format!("{}: its last word was that it was running", of.class.name()),
                None => manifest.status.name().to_string(),
            },
        );
        add("rounds", manifest.rounds.to_string());
        add("clock", format!("{}, {} Hz", manifest.clock.source, manifest.clock.hz));
        if manifest.elapsed_ns > 0 {
            add(
                "elapsed",
                format!("{}, from the first submit to the end of the run", duration(manifest.elapsed_ns as f64)),
            );
        }
        add("written by", format!("{} {}", manifest.producer.name, manifest.producer.version));
    }
    let rows: String =
        rows.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", html::text(value))).collect();
    section("facts", "Run", &format!("<dl class=rows>{rows}</dl>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_all_the_same_stand_in_the_middle_of_their_scale() {
        let svg = spread(&[0, 0, 0, 7], [900, 900], 900, 900);
        assert!(svg.contains("d=\"M70.0 0v22M70.0 6v16\""), "{svg}");
        let bar = svg.split("class=bars d=\"M").nth(1).and_then(|rest| rest.split(' ').next());
        let left: f64 = bar.and_then(|x| x.parse().ok()).expect("a bar");
        assert!(left < 70.0 && left + 34.4 > 70.0, "{svg}");
    }
}
