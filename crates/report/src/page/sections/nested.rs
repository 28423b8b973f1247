//! Scopes: as they nest, and by site, with peaks against capacity and floor.

use std::fmt::Write;

use plimsoll_analyze::{ResourcePeak, ScopeNode};
use plimsoll_trace::Trace;

use super::super::Answers;
use super::super::html::{self, HtmlTable, TableCell};
use super::tables::{number, share, time};
use super::{floor_of, how_to_record, resource_name, ring_prefix, section};
use crate::text::fullness;

/// The most nodes of the nested view: a program that nests by recursion may have very many.
const MOST_NODES: usize = 500;
/// The most resources of one node: the table has all.
const MOST_RESOURCES: usize = 3;

/// The head over shares of time.
const SHARE: &str = "#share|of the time from the first begin of a scope or a kernel to the last end of either";

/// The section: nested first, then by site.
pub(super) fn scopes(trace: &Trace, answers: &Answers) -> String {
    if answers.scopes.scopes.is_empty() {
        let how = how_to_record(
            trace,
            answers,
            "Record them with `Flags::SCOPE_STATS`; a prebuilt graph has no scopes when it is launched.",
        );
        return section(
            "scopes",
            "Scopes",
            &format!("<p class=soft>There are no scope samples.{}</p>", html::with_code(&how)),
        );
    }
    let note = match answers.scopes.peaks {
        "high_water" => " Peaks are upper bounds from the samples at begin and end.",
        "at_sample" => " Peaks are lower bounds: what was in use when the samples were taken.",
        _ => "",
    };
    let floors = if answers.sizing.is_some() { " The red line is the floor: with less the run deadlocks." } else { "" };
    let (times, click) = match has_times(answers) {
        true => ("", "Click a scope to go to its time and its tasks; click again for its next time."),
        false => (" These samples carry no times.", "Click a scope to go to its tasks."),
    };
    let body = format!(
        "{}<p class=soft>A bar is a peak against its capacity, on a square-root scale.{floors}{note}{times}<span class=scripted> {click}</span></p><details id=by-site><summary>The same by site, with all resources</summary>{}</details>",
        nested(answers),
        by_site(answers)
    );
    section("scopes", "Scopes", &body)
}

/// Whether any scope has a time: the reference's samples have none, and columns of nothing would only be asked about.
fn has_times(answers: &Answers) -> bool {
    answers.scopes.scopes.iter().any(|scope| scope.duration_ns.is_some())
}

/// One row per node, moved in by its depth.
fn nested(answers: &Answers) -> String {
    let nodes = &answers.scope_tree.nodes;
    let timed = has_times(answers);
    let heads: &[&str] = match timed {
        true => &["scope", "#entered", "#open", "#tasks", "#time", SHARE, "fullest"],
        false => &["scope", "#entered", "#open", "#tasks", "fullest"],
    };
    let mut table = HtmlTable::new("scope-tree", heads);
    for (at, node) in order(nodes).into_iter().take(MOST_NODES) {
        let row = &node.row;
        let site = format!(
            "<button type=button class=\"name d{}\" title=\"{}\">{}</button>",
            row.depth.min(12),
            html::name(&row.site),
            html::name(row.site.rsplit('/').next().unwrap_or(&row.site))
        );
        let mut cells = vec![
            TableCell::Text(site),
            number(row.entered),
            if row.open > 0 { number(row.open) } else { TableCell::None },
            number(row.tasks),
        ];
        if timed {
            cells.extend([row.duration_ns.map_or(TableCell::None, time), row.share.map_or(TableCell::None, share)]);
        }
        let gauges = row.resources.iter().take(MOST_RESOURCES).map(|peak| gauge(answers, peak)).collect();
        cells.push(TableCell::Text(gauges));
        table.row(&format!(" data-node={at}"), &cells);
    }
    let mut html = table.finish();
    if nodes.len() > MOST_NODES {
        let _ =
            write!(html, "<p class=soft>{} more are not shown.</p>", html::count((nodes.len() - MOST_NODES) as u64));
    }
    html
}

/// Nodes with their numbers, each followed by those that lie in it.
fn order(nodes: &[ScopeNode]) -> Vec<(usize, &ScopeNode)> {
    let mut inside: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut next: Vec<usize> = Vec::new();
    for (at, node) in nodes.iter().enumerate().rev() {
        match node.parent {
            Some(parent) => inside[parent as usize].push(at),
            None => next.push(at),
        }
    }
    let mut ordered = Vec::with_capacity(nodes.len());
    while let Some(at) = next.pop() {
        ordered.push((at, &nodes[at]));
        next.extend(&inside[at]);
    }
    ordered
}

/// A resource of a scope: its bar, and its figures.
fn gauge(answers: &Answers, peak: &ResourcePeak) -> String {
    format!(
        "<span class=gauge>{}<span>{}{}</span> <span class=num>{} / {}</span></span>",
        bar(answers, peak),
        ring_prefix(peak.ring),
        resource_name(peak.resource),
        html::amount(peak.peak, peak.resource),
        html::amount(peak.capacity, peak.resource)
    )
}

/// A peak against its capacity, with a line at the floor.
fn bar(answers: &Answers, peak: &ResourcePeak) -> String {
    const WIDTH: f64 = 70.0;
    let floor = floor_of(answers, peak.ring, peak.resource).filter(|floor| *floor > 0 && peak.capacity > 0);
    let floor = floor.map_or(String::new(), |floor| {
        let x = (floor as f64 / peak.capacity as f64).min(1.0).sqrt() * (WIDTH - 2.0) + 1.0;
        format!("<path class=floor d=\"M{x:.1} 0v10\"/>")
    });
    let used = peak.share.clamp(0.0, 1.0).sqrt() * WIDTH;
    format!(
        "<svg class=fill width=70 height=10 viewBox=\"0 0 70 10\" aria-hidden=true><rect class=room width=70 height=10 /><rect class=used width=\"{:.1}\" height=10 />{floor}</svg>",
        if peak.peak > 0 { used.max(1.0) } else { 0.0 }
    )
}

/// Sites by how close they came to their rings' limits.
fn by_site(answers: &Answers) -> String {
    let timed = has_times(answers);
    let mut heads = vec!["scope", "#depth", "#entered", "#open", "#tasks"];
    if timed {
        heads.extend(["#time", SHARE]);
    }
    let named = heads.len();
    heads.extend(["resource", "#peak", "#capacity", "#full", "#floor", ""]);
    let mut table = HtmlTable::new("scope-table", &heads);
    for scope in &answers.scopes.scopes {
        let site = format!("<button type=button class=name>{}</button>", html::name(&scope.site));
        let attribute = format!(" data-name=\"{}\"", html::text(&scope.site));
        let mut first = vec![
            TableCell::Text(site),
            number(scope.depth.into()),
            number(scope.entered),
            number(scope.open),
            number(scope.tasks),
        ];
        if timed {
            first.extend([scope.duration_ns.map_or(TableCell::None, time), scope.share.map_or(TableCell::None, share)]);
        }
        if scope.resources.is_empty() {
            table.row(&attribute, &first);
        }
        for resource in &scope.resources {
            let name = format!("{}{}", ring_prefix(resource.ring), resource_name(resource.resource));
            let amount = |amount: u64| TableCell::Number(html::amount(amount, resource.resource), amount as f64);
            let floor = floor_of(answers, resource.ring, resource.resource);
            first.extend([
                TableCell::Text(name),
                amount(resource.peak),
                amount(resource.capacity),
                TableCell::Number(fullness(resource.peak, resource.capacity), resource.share),
                floor.map_or(TableCell::None, amount),
                TableCell::Text(bar(answers, resource)),
            ]);
            table.row(&attribute, &first);
            // The scope is named on the first of its rows only.
            first = (0..named).map(|_| TableCell::None).collect();
        }
    }
    table.finish()
}
