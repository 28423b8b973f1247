//! Reader of the first form of scope statistics: one `scope_stats.json` with a record per scope and what was in use as
//! "used/capacity" per ring.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use plimsoll_abi::record::ScopePhase;
use plimsoll_abi::{RINGS, Usage};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::number::JsonNumber;
use super::read_file;
use crate::scopes::PeakForm;
use crate::{Error, FindingKind, ScopeSample, ScopeSamples, Trace};

/// The list alone, or inside an object.
#[derive(Default)]
struct FirstFile<'a> {
    scopes: Option<Vec<Scope<'a>>>,
    fatal: bool,
    dropped: u64,
}

impl<'de: 'a, 'a> Deserialize<'de> for FirstFile<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FileVisitor(PhantomData))
    }
}

struct FileVisitor<'a>(PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for FileVisitor<'a> {
    type Value = FirstFile<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of scopes, or an object with one")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut scopes = Vec::new();
        while let Some(scope) = seq.next_element()? {
            scopes.push(scope);
        }
        Ok(FirstFile { scopes: Some(scopes), ..FirstFile::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut file = FirstFile::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match key.as_ref() {
                "scopes" | "records" | "scope_stats" => file.scopes = Some(map.next_value()?),
                "fatal" => file.fatal = map.next_value()?,
                "dropped" => file.dropped = map.next_value::<JsonNumber>()?.0,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(file)
    }
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
    let what = "scope statistics of the first form";
    let file: FirstFile<'_> = serde_json::from_slice(&bytes).map_err(Error::json(what, path))?;
    let FirstFile { scopes: Some(list), fatal, dropped } = file else {
        return Err(Error::other_kind(what, path, "`scopes`"));
    };
    let mut scopes = ScopeSamples { fatal, dropped, peaks: PeakForm::AtSample, ..ScopeSamples::default() };
    let mut bad = 0;
    for scope in &list {
        let (sample, used) = sample(&mut scopes, scope, &mut bad);
        for phase in [ScopePhase::Begin, ScopePhase::End] {
            scopes.push(ScopeSample { phase, ..sample }, &used, &used);
        }
    }
    trace.quality.note_many(FindingKind::BadRecord, Some(path), bad, || {
        "an occupancy that is not used/capacity, or a ring that is not there".into()
    });
    trace.quality.note_many(FindingKind::ReportedLoss, Some(path), dropped, || "scope samples".to_string());
    trace.scopes = scopes;
    Ok(())
}

fn sample(scopes: &mut ScopeSamples, scope: &Scope<'_>, bad: &mut u64) -> (ScopeSample, Usage) {
    let depth = u16::try_from(scope.depth.0).unwrap_or(u16::MAX);
    // Depths beyond the last ring use the last; a ring that is named has to be one.
    let named = scope.ring.map_or(depth.min(RINGS as u16 - 1).into(), |ring| ring.0);
    *bad += u64::from(named >= RINGS as u64);
    let mut parse = |text: &str| {
        let parsed = text.split_once('/').and_then(|(u, c)| Some((u.trim().parse().ok()?, c.trim().parse().ok()?)));
        *bad += u64::from(parsed.is_none());
        parsed.unwrap_or((0u64, 0u64))
    };
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let ring = named.min(RINGS as u64 - 1) as u8;
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
