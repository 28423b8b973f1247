//! The load line: a hull per resource, filled to its peak, with a line for the floor and the capacity as its rim.

use std::fmt::Write;

use super::super::{Answers, html};
use super::{resource_name, ring_prefix, scope_of};
use crate::text::fullness;

/// One resource against its capacity.
pub(super) struct ResourceGauge {
    pub(super) ring: Option<u8>,
    pub(super) resource: &'static str,
    pub(super) peak: u64,
    capacity: u64,
    /// Below it the run deadlocks; absent where it is not known.
    floor: Option<u64>,
}

/// The section with the hulls of what was used, the fullest first.
pub(super) fn load_line(answers: &Answers) -> String {
    let mut gauges = gauges(answers);
    gauges.retain(|gauge| gauge.peak > 0 && gauge.capacity > 0);
    gauges.sort_by(|a, b| share(b.peak, b).total_cmp(&share(a.peak, a)));
    if gauges.is_empty() {
        return "<section id=load><h3>Load line</h3><p class=soft>What rings held was not recorded.</p></section>"
            .to_string();
    }
    let hulls: String = gauges.iter().enumerate().map(|(at, gauge)| hull(at, gauge)).collect();
    let fullest = &gauges[0];
    let scope = scope_of(answers, fullest.ring, fullest.resource, fullest.peak);
    let scope =
        scope.map_or(String::new(), |scope| format!(", in the scope at <code>{}</code>", html::name(&scope.site)));
    let floor = if gauges.iter().any(|gauge| gauge.floor.is_some()) { " Below the red line it deadlocks." } else { "" };
    format!(
        "<section id=load><h3>Load line</h3><div class=gauges>{hulls}</div><p class=soft>Fullest: <b>{}{}, {}</b>{scope}.{floor} The rim is the capacity; heights are on a square-root scale.</p></section>",
        ring_prefix(fullest.ring),
        resource_name(fullest.resource),
        fullness(fullest.peak, fullest.capacity),
    )
}

/// Every ring's resources that are known, with the most that was ever in use.
pub(super) fn gauges(answers: &Answers) -> Vec<ResourceGauge> {
    if let Some(sizing) = &answers.sizing {
        let row = |row: &plimsoll_analyze::SizeRow| ResourceGauge {
            ring: row.ring,
            resource: row.resource,
            peak: row.peak,
            capacity: row.capacity,
            floor: Some(row.floor),
        };
        return sizing.rings.iter().map(row).collect();
    }
    let mut gauges: Vec<ResourceGauge> = Vec::new();
    for peak in answers.scopes.scopes.iter().flat_map(|scope| &scope.resources) {
        match gauges.iter_mut().find(|gauge| (gauge.ring, gauge.resource) == (peak.ring, peak.resource)) {
            Some(gauge) => gauge.peak = gauge.peak.max(peak.peak),
            None => gauges.push(ResourceGauge {
                ring: peak.ring,
                resource: peak.resource,
                peak: peak.peak,
                capacity: peak.capacity,
                floor: None,
            }),
        }
    }
    gauges
}

fn share(amount: u64, of: &ResourceGauge) -> f64 {
    amount as f64 / of.capacity as f64
}

/// A resource in one word: hulls are narrow, and their titles have the whole name.
fn short_name(resource: &str) -> String {
    match resource {
        "task_window" => "window".to_string(),
        "dep_pool" => "deps".to_string(),
        other => resource_name(other),
    }
}

fn hull(at: usize, gauge: &ResourceGauge) -> String {
    const SHAPE: &str = "M6 4h48v34c0 22-12 32-24 32S6 60 6 38z";
    let height = |amount: u64| 70.0 - share(amount, gauge).clamp(0.0, 1.0).sqrt().max(0.02) * 66.0;
    let name = format!("{}{}", ring_prefix(gauge.ring), resource_name(gauge.resource));
    let short = format!("{}{}", ring_prefix(gauge.ring), short_name(gauge.resource));
    let peak = html::amount(gauge.peak, gauge.resource);
    let capacity = html::amount(gauge.capacity, gauge.resource);
    let floor = gauge.floor.map(|floor| html::amount(floor, gauge.resource));
    let mut svg = format!(
        "<figure data-peak={} data-capacity={}><svg viewBox=\"0 0 60 74\" role=img aria-label=\"{name}: peak {peak} of {capacity}{}\"><clipPath id=h{at}><path d=\"{SHAPE}\"/></clipPath><rect class=water y=\"{:.1}\" width=60 height=80 clip-path=\"url(#h{at})\"/><path class=hull d=\"{SHAPE}\"/><path class=peak d=\"M14 {:.1}h32\"/>",
        gauge.peak,
        gauge.capacity,
        floor.as_ref().map_or(String::new(), |floor| format!(", floor {floor}")),
        height(gauge.peak),
        height(gauge.peak),
    );
    if let Some(amount) = gauge.floor.filter(|floor| *floor > 0) {
        let _ = write!(svg, "<path class=floor d=\"M20 {:.1}h20\"/>", height(amount));
    }
    let _ =
        write!(svg, "</svg><figcaption>{short}<br><span class=num>{peak} / {capacity}</span></figcaption></figure>");
    svg
}
