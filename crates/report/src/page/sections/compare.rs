//! What changed from one run to another, as `plimsoll diff` tells it.

use plimsoll_analyze::{Change, Diff};
use plimsoll_trace::{Source, Status, Trace};

use super::super::Subject;
use super::super::html::{self, HtmlTable, TableCell};
use super::{resource_name, ring_prefix, section};
use crate::text::{duration, percent};

/// The most rows of a table: the largest changes come first.
const MOST: usize = 30;

/// The section that stands first when two runs are compared: the verdict, and which runs these are.
pub(super) fn verdict(before: Subject<'_>, run: Subject<'_>, diff: &Diff) -> String {
    let cautions: String =
        diff.cautions.iter().map(|caution| format!("<p class=bad>{}</p>", html::text(caution))).collect();
    format!(
        "<section id=compare class=wide><h2 id=verdict-diff data-v=\"{}\">{}</h2>{cautions}{}<p class=soft id=runs>Before: <code>{}</code> · now: <code>{}</code>. Below is the page of the run now, with the one before on its time axis.</p></section>",
        diff.makespan.change_ns,
        headline(diff, [before.trace, run.trace].into_iter().all(ended_well)),
        most_of_it(diff),
        html::text(&place(before.trace)),
        html::text(&place(run.trace)),
    )
}

/// The section with all that changed.
pub(super) fn changes(diff: &Diff) -> String {
    let mut parts = diff.parts.clone();
    parts.iter_mut().for_each(|part| part.name = part.name.replace('_', " "));
    let tables = [
        ("What the makespan is made of", table("diff-parts", &parts)),
        ("Time in functions", table("diff-functions", &diff.functions)),
        ("Functions on the critical path", table("diff-path", &diff.critical_functions)),
        ("Scopes", table("diff-scopes", &diff.scopes)),
        ("Peaks of rings", peaks(diff)),
    ];
    let tables: String = tables
        .iter()
        .filter(|(_, table)| !table.is_empty())
        .map(|(heading, table)| format!("<div><h4>{heading}</h4>{table}</div>"))
        .collect();
    section("changes", "What changed", &format!("<div class=changes>{tables}</div>"))
}

/// Where a run was read from.
fn place(trace: &Trace) -> String {
    match &trace.source {
        Source::Run(dir) => dir.display().to_string(),
        Source::Reference(files) => {
            files.first().map_or("files of the reference".to_string(), |file| file.display().to_string())
        }
    }
}

fn ended_well(trace: &Trace) -> bool {
    trace.manifest.as_ref().is_none_or(|manifest| manifest.status == Status::Ok)
}

fn headline(diff: &Diff, ended_well: bool) -> String {
    let time = |ns: Option<u64>| ns.map_or("–".to_string(), |ns| duration(ns as f64));
    let moved = diff.makespan.change.map_or(String::new(), |change| format!(" by {}", percent(change.abs())));
    let noise = diff.noise.map_or("no rounds tell the noise".to_string(), |noise| format!("noise {}", percent(noise)));
    let times = format!("{} before, {} now", time(diff.makespan.before_ns), time(diff.makespan.after_ns));
    match (diff.makespan.before_ns, diff.makespan.after_ns) {
        (None, None) => return "Neither run holds times, so nothing tells which is faster.".to_string(),
        (Some(ns), None) => return only_one("before", ns),
        (None, Some(ns)) => return only_one("now", ns),
        (Some(_), Some(_)) => {}
    }
    match diff.verdict {
        // The time of a run that was cut short says nothing about its speed.
        _ if !ended_well => format!("The times of these runs do not compare ({times})."),
        "same" => format!("No change beyond the noise ({times}; {noise})."),
        verdict => format!("The run became {verdict}{moved} ({times}; {noise})."),
    }
}

fn only_one(which: &str, ns: u64) -> String {
    format!("Only the run {which} holds times ({}), so nothing tells which is faster.", duration(ns as f64))
}

/// The parts of the makespan that changed most.
fn most_of_it(diff: &Diff) -> String {
    let mut parts: Vec<&Change> = diff.parts.iter().filter(|part| part.change_ns != 0).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.change_ns.unsigned_abs()));
    let words: Vec<String> = parts
        .iter()
        .take(3)
        .map(|part| format!("{} {}", html::text(&part.name.replace('_', " ")), signed(part.change_ns)))
        .collect();
    if words.is_empty() { String::new() } else { format!("<p>Of the makespan: {}.</p>", words.join(", ")) }
}

/// A change of time with its sign.
fn signed(ns: i64) -> String {
    format!("{}{}", sign(ns as f64), duration(ns.unsigned_abs() as f64))
}

/// The sign of a change, as wide as a digit.
fn sign(change: f64) -> &'static str {
    match change {
        change if change > 0.0 => "+",
        change if change < 0.0 => "−",
        _ => "",
    }
}

fn table(id: &str, changes: &[Change]) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let mut table = HtmlTable::new(id, &["of", "#before", "#now", "#change", "#relative"]);
    let time = |ns: Option<u64>| ns.map_or(TableCell::None, |ns| TableCell::Number(duration(ns as f64), ns as f64));
    for change in changes.iter().take(MOST) {
        table.row(
            "",
            &[
                TableCell::Text(html::name(&change.name)),
                time(change.before_ns),
                time(change.after_ns),
                TableCell::Number(signed(change.change_ns), change.change_ns as f64),
                change.change.map_or(TableCell::None, |share| {
                    // What rounds to nothing has no sign.
                    let sign = if share.abs() < 0.0005 { "" } else { sign(share) };
                    TableCell::Number(format!("{sign}{}", percent(share.abs())), share)
                }),
            ],
        );
    }
    table.finish()
}

fn peaks(diff: &Diff) -> String {
    if diff.rings.is_empty() {
        return String::new();
    }
    let mut table = HtmlTable::new("diff-rings", &["of", "#before", "#now"]);
    for peak in &diff.rings {
        let name = format!("{}{}", ring_prefix(peak.ring), resource_name(peak.resource));
        let amount = |amount: u64| TableCell::Number(html::amount(amount, peak.resource), amount as f64);
        table.row("", &[TableCell::Text(name), amount(peak.before), amount(peak.after)]);
    }
    table.finish()
}
