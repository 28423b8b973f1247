//! What changed from one run to another.

use std::fmt::Write;

use plimsoll_analyze::{Change, Diff, UNTOLD_NOISE};

use super::{Table, duration, percent};

/// Most rows of a table; JSON has them all.
const MOST: usize = 12;

/// The verdict, and tables of what changed most.
pub fn diff(diff: &Diff) -> String {
    let noise = match diff.noise {
        Some(0.0) => "there is no noise".to_string(),
        Some(noise) => format!("noise ± {} by the rounds", percent(noise)),
        None => {
            format!("a single round in both, so noise is not known, and up to {} is the same", percent(UNTOLD_NOISE))
        }
    };
    let times = format!("makespan {} → {}", time(diff.makespan.before_ns), time(diff.makespan.after_ns));
    let mut text = match diff.verdict {
        verdict @ "incomparable" => format!("{verdict}: {times}, but not both runs reached their end\n\n"),
        verdict => format!("{verdict}: {times} ({}); {noise}\n\n", change(&diff.makespan)),
    };
    for caution in &diff.cautions {
        let _ = writeln!(text, "{caution}");
    }
    if !diff.cautions.is_empty() {
        text.push('\n');
    }
    for (title, rows) in [
        ("the makespan is", &diff.parts),
        ("kernel time on the critical path", &diff.critical_functions),
        ("kernel time by function", &diff.functions),
        ("time in scopes", &diff.scopes),
    ] {
        if rows.is_empty() {
            continue;
        }
        let mut table = Table::new(&[title, "before", "after", "change", "relative"]);
        for row in rows.iter().take(MOST) {
            let sign = if row.change_ns < 0 { "−" } else { "+" };
            let moved = match is_told(row) {
                true => format!("{sign}{}", duration(row.change_ns.unsigned_abs() as f64)),
                false => "–".to_string(),
            };
            table.rows.push(vec![row.name.clone(), time(row.before_ns), time(row.after_ns), moved, change(row)]);
        }
        let _ = writeln!(text, "{table}");
    }
    if !diff.rings.is_empty() {
        let mut table = Table::new(&["peak of", "before", "after"]);
        for peak in &diff.rings {
            let ring = peak.ring.map_or(String::new(), |ring| format!("ring {ring} "));
            table.rows.push(vec![format!("{ring}{}", peak.resource), peak.before.to_string(), peak.after.to_string()]);
        }
        let _ = writeln!(text, "{table}");
    }
    text
}

fn time(ns: Option<u64>) -> String {
    ns.map_or("–".to_string(), |ns| duration(ns as f64))
}

fn change(change: &Change) -> String {
    match (change.change, change.before_ns, change.after_ns) {
        (Some(share), ..) => format!("{}{}", if share < 0.0 { "−" } else { "+" }, percent(share.abs())),
        (None, None, Some(_)) if is_told(change) => "new".to_string(),
        _ => "–".to_string(),
    }
}

/// Whether both runs tell the figure, or its absence tells that it is none.
fn is_told(change: &Change) -> bool {
    change.before_ns.is_some() && change.after_ns.is_some() || change.change_ns != 0
}
