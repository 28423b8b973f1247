//! Reader of the first form of scope statistics: one `scope_stats.json` with a record per scope and what was in use as
//! "used/capacity" per ring.

use std::borrow::Cow;
use std::path::Path;

use plimsoll_abi::record::ScopePhase;
use plimsoll_abi::{RINGS, Usage};
use serde::Deserialize;

use super::number::JsonNumber;
use super::read_file;
use crate::scopes::PeakForm;
use crate::{Error, FindingKind, ScopeSample, ScopeSamples, Trace};

/// The list alone, or inside an object.
#[derive(Deserialize)]
#[serde(untagged)]
enum File<'a> {
    List(#[serde(borrow)] Vec<Scope<'a>>),
    Object {
        #[serde(borrow, alias = "records", alias = "scope_stats")]
        scopes: Vec<Scope<'a>>,
        #[serde(default)]
        fatal: bool,
        #[serde(default)]
        dropped: JsonNumber,
    },
}

#[derive(Deserialize)]
struct Scope<'a> {
    #[serde(borrow, default)]
    site: Cow<'a, str>,
    #[serde(default)]
    depth: JsonNumber,
    ring: Option<JsonNumber>,
    #[serde(borrow, default)]
    task_window: Vec<Cow<'a, str>>,
    #[serde(borrow, default)]
    heap: Vec<Cow<'a, str>>,
    #[serde(borrow, default)]
    dep_pool: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    tensormap: Option<Cow<'a, str>>,
}

pub(super) fn read(path: &Path, trace: &mut Trace) -> Result<(), Error> {
    let bytes = read_file(path)?;
    let file = serde_json::from_slice(&bytes).map_err(Error::json("scope statistics of the first form", path))?;
    let (list, fatal, dropped) = match file {
        File::List(list) => (list, false, 0),
        File::Object { scopes, fatal, dropped } => (scopes, fatal, dropped.0),
    };
    let mut scopes = ScopeSamples { fatal, dropped, peaks: PeakForm::AtSample, ..ScopeSamples::default() };
    let mut bad = 0;
    for scope in &list {
        let (sample, used) = sample(&mut scopes, scope, &mut bad);
        for phase in [ScopePhase::Begin, ScopePhase::End] {
            scopes.push(ScopeSample { phase, ..sample }, &used, &used);
        }
    }
    trace
        .quality
        .note_many(FindingKind::BadRecord, Some(path), bad, || "an occupancy that is not used/capacity".into());
    trace.quality.note_many(FindingKind::ReportedLoss, Some(path), dropped, || "scope samples".to_string());
    trace.scopes = scopes;
    Ok(())
}

fn sample(scopes: &mut ScopeSamples, scope: &Scope<'_>, bad: &mut u64) -> (ScopeSample, Usage) {
    let mut parse = |text: &str| {
        let parsed = text.split_once('/').and_then(|(u, c)| Some((u.trim().parse().ok()?, c.trim().parse().ok()?)));
        *bad += u64::from(parsed.is_none());
        parsed.unwrap_or((0u64, 0u64))
    };
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let depth = u16::try_from(scope.depth.0).unwrap_or(u16::MAX);
    let ring = scope.ring.map_or(depth as usize, |r| r.0 as usize).min(RINGS - 1) as u8;
    let site = scopes.intern_site(&scope.site);
    let mut sample = ScopeSample { site, ring, depth, ..ScopeSample::default() };
    let mut in_use = Usage::NONE;
    let capacities = &mut scopes.capacities;
    for ring in 0..RINGS {
        let slots = &mut capacities.rings[ring];
        if let Some(text) = scope.task_window.get(ring) {
            let (used, capacity) = parse(text);
            (in_use.window[ring], slots.task_window) = (narrow(used), capacity);
        }
        if let Some(text) = scope.heap.get(ring) {
            (in_use.heap[ring], slots.heap) = parse(text);
        }
        if let Some(text) = scope.dep_pool.get(ring) {
            let (used, capacity) = parse(text);
            (in_use.dep_pool[ring], slots.dep_pool) = (narrow(used), capacity);
        }
    }
    if let Some(text) = &scope.tensormap {
        let (used, capacity) = parse(text);
        (sample.tensormap, capacities.tensormap) = (narrow(used), capacity);
    }
    (sample, in_use)
}
