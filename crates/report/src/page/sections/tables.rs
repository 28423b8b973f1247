//! Tables: functions, scopes, cores, pools, facts. Every number carries the exact value of the command's JSON.

use std::collections::BTreeMap;

use plimsoll_trace::{Pool, Trace};

use super::super::Answers;
use super::super::html::{self, Cell, Table};
use super::{resource_name, ring_prefix, section};
use crate::text::{duration, percent};

fn time(ns: u64) -> Cell {
    Cell::Number(duration(ns as f64), ns as f64)
}

fn number(count: u64) -> Cell {
    Cell::Number(html::count(count), count as f64)
}

fn share(part: f64) -> Cell {
    Cell::Number(percent(part), part)
}

/// Time per function, with its distribution drawn on one logarithmic scale for all.
pub(super) fn functions(answers: &Answers) -> String {
    let functions = &answers.stats.functions;
    if functions.is_empty() {
        return section("functions", "Functions", "<p class=soft>No times of tasks were recorded.</p>");
    }
    let least = functions.iter().map(|f| f.exec_min_ns).min().unwrap_or(1).max(1) as f64;
    let most = functions.iter().map(|f| f.exec_max_ns).max().unwrap_or(1).max(2) as f64;
    let at =
        |ns: u64| (((ns.max(1) as f64 / least).ln() / (most / least).ln().max(1e-9)) * 150.0).clamp(0.0, 150.0) + 5.0;
    let heads =
        ["function", "#count", "#share", "#total", "#mean", "#p50", "#p99", "#min", "#max", "min · p50 · p99 · max"];
    let mut table = Table::new("function-table", &heads);
    for f in functions {
        let shape = format!(
            "<svg class=spread width=160 height=14 viewBox=\"0 0 160 14\" aria-hidden=true><path d=\"M{:.1} 7H{:.1}\"/><rect x=\"{:.1}\" y=3 width=\"{:.1}\" height=8 /><path class=mid d=\"M{:.1} 1v12\"/></svg>",
            at(f.exec_min_ns),
            at(f.exec_max_ns),
            at(f.exec_p50_ns),
            (at(f.exec_p99_ns) - at(f.exec_p50_ns)).max(0.5),
            at(f.exec_p50_ns),
        );
        let label = format!("<button type=button class=name><s></s>{}</button>", html::name(&f.name));
        let attribute = format!(" data-name=\"{}\"", html::text(&f.name));
        table.row(
            &attribute,
            &[
                Cell::Text(label),
                number(f.count),
                share(f.exec_share),
                time(f.exec_total_ns),
                Cell::Number(duration(f.exec_avg_ns), f.exec_avg_ns),
                time(f.exec_p50_ns),
                time(f.exec_p99_ns),
                time(f.exec_min_ns),
                time(f.exec_max_ns),
                Cell::Text(shape),
            ],
        );
    }
    let scale = format!(
        "<p class=soft>Distributions are on one logarithmic scale, {} to {}. Click a function to see only it in the timeline.</p>",
        duration(least),
        duration(most)
    );
    section("functions", "Functions", &(table.finish() + &scale))
}

/// Scopes by how close they came to their rings' limits.
pub(super) fn scopes(answers: &Answers) -> String {
    let scopes = &answers.scopes;
    if scopes.scopes.is_empty() {
        return section(
            "scopes",
            "Scopes",
            "<p class=soft>There are no scope samples. Record them with --scope-stats; a prebuilt graph has no scopes when it is launched.</p>",
        );
    }
    let heads = [
        "scope",
        "#depth",
        "#entered",
        "#open",
        "#tasks",
        "#time",
        "#share",
        "resource",
        "#peak",
        "#capacity",
        "#full",
        "",
    ];
    let mut table = Table::new("scope-table", &heads);
    for scope in &scopes.scopes {
        let site = format!("<button type=button class=name>{}</button>", html::name(&scope.site));
        let attribute = format!(" data-name=\"{}\"", html::text(&scope.site));
        let mut first = vec![
            Cell::Text(site),
            number(scope.depth.into()),
            number(scope.entered),
            number(scope.open),
            number(scope.tasks),
            scope.duration_ns.map_or(Cell::None, time),
            scope.share.map_or(Cell::None, share),
        ];
        if scope.resources.is_empty() {
            table.row(&attribute, &first);
        }
        for resource in &scope.resources {
            let name = format!("{}{}", ring_prefix(resource.ring), resource_name(resource.resource));
            let bar = format!(
                "<svg class=fill width=90 height=10 viewBox=\"0 0 90 10\" aria-hidden=true><rect class=room width=90 height=10 /><rect class=used width=\"{:.1}\" height=10 /></svg>",
                resource.share.clamp(0.0, 1.0) * 90.0
            );
            first.extend([
                Cell::Text(name),
                Cell::Number(html::amount(resource.peak, resource.resource), resource.peak as f64),
                Cell::Number(html::amount(resource.capacity, resource.resource), resource.capacity as f64),
                share(resource.share),
                Cell::Text(bar),
            ]);
            table.row(&attribute, &first);
            // The scope is named on the first of its rows only.
            first = (0..7).map(|_| Cell::None).collect();
        }
    }
    let note = match scopes.peaks {
        "high_water" => "<p class=soft>Peaks are upper bounds from the samples at begin and end.</p>",
        "at_sample" => "<p class=soft>Peaks are lower bounds: what was in use when the samples were taken.</p>",
        _ => "",
    };
    section("scopes", "Scopes", &(table.finish() + note))
}

/// What the critical path is made of, by function.
pub(super) fn path(answers: &Answers) -> String {
    let Some(path) = &answers.path else { return String::new() };
    let mut table =
        Table::new("path-table", &["function", "#tasks on the path", "#in kernels", "#waited before", "#share"]);
    for f in &path.functions {
        let cells =
            [Cell::Text(html::name(&f.func)), number(f.count), time(f.kernel_ns), time(f.wait_ns), share(f.share)];
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
pub(super) fn dependencies(answers: &Answers) -> String {
    let mut body =
        "<div id=neighbours><p class=soft>Select a task to see whom it waited for and who waited for it.</p></div>"
            .to_string();
    match answers.false_dependencies.as_deref() {
        Some([]) => body += "<p class=soft>There is no dependency that data does not need.</p>",
        Some(all) => {
            let mut table =
                Table::new("false-table", &["earlier task", "later task", "why it is false", "#costs on the path"]);
            for pair in all.iter().take(50) {
                let why = match pair.kind {
                    "no_shared_byte" => "the parts share no byte",
                    "write_after_read" => "write after read: another buffer would remove it",
                    _ => "write after write: another buffer would remove it",
                };
                let task = |name: &str| {
                    Cell::Text(format!(
                        "<button type=button class=\"link\" data-task=\"{0}\">{0}</button>",
                        html::text(name)
                    ))
                };
                table.row("", &[task(&pair.pred), task(&pair.succ), Cell::Text(why.to_string()), time(pair.cost_ns)]);
            }
            body += &format!(
                "<h4>Dependencies that data does not need ({})</h4>{}",
                html::count(all.len() as u64),
                table.finish()
            );
        }
        None => {}
    }
    section("dependencies", "Dependencies", &body)
}

/// Time per core.
pub(super) fn cores(answers: &Answers) -> String {
    let mut table = Table::new("core-table", &["core", "#tasks", "#busy", "#utilisation", "#span"]);
    for core in answers.stats.cores.iter().filter(|core| core.tasks > 0) {
        let cells = [
            Cell::Text(html::name(&core.name)),
            number(core.tasks),
            time(core.busy_ns),
            share(core.utilisation),
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
        let mut kinds: BTreeMap<&str, Pool> = BTreeMap::new();
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
        let mut table = Table::new("ledger-table", &heads);
        for (kind, sum) in &kinds {
            let counts = [sum.total, sum.collected, sum.recovered, sum.dropped, sum.mismatch].map(number);
            let cells: Vec<Cell> =
                [Cell::Text(html::text(kind))].into_iter().chain(counts).chain([time(sum.wait_ns)]).collect();
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
pub(super) fn facts(trace: &Trace) -> String {
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
    add("swimlane level", facts.level.to_string());
    if let Some(manifest) = &trace.manifest {
        add("command", manifest.command.join(" "));
        let settings: Vec<String> = manifest.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        add("settings", settings.join(" "));
        add("status", manifest.status.name().to_string());
        add("rounds", manifest.rounds.to_string());
        add("clock", format!("{}, {} Hz", manifest.clock.source, manifest.clock.hz));
        add("elapsed", duration(manifest.elapsed_ns as f64));
        add("written by", format!("{} {}", manifest.producer.name, manifest.producer.version));
    }
    let rows: String =
        rows.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", html::text(value))).collect();
    section("facts", "Run", &format!("<dl class=rows>{rows}</dl>"))
}
