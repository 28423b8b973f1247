//! Reader of `name_map*.json`: names of kernels by number.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::read_file;
use crate::{Error, FindingKind, MachineMark, Trace};

#[derive(Deserialize)]
struct NameMap {
    #[serde(default)]
    orchestrator_name: Option<String>,
    callable_id_to_name: Option<BTreeMap<String, String>>,
    /// Written by us only: what machine the run had.
    #[serde(rename = "virtual", default)]
    virtual_time: bool,
    #[serde(default)]
    emulated: bool,
    #[serde(default)]
    arch: String,
}

pub(super) fn read(path: &Path, trace: &mut Trace) -> Result<(), Error> {
    let map: NameMap = serde_json::from_slice(&read_file(path)?).map_err(Error::json("a map of names", path))?;
    if map.callable_id_to_name.is_none() && map.orchestrator_name.is_none() {
        return Err(Error::other_kind("a map of names", path, "`callable_id_to_name`"));
    }
    MachineMark { virtual_time: map.virtual_time, emulated: map.emulated, arch: map.arch }.note(trace);
    for (id, name) in map.callable_id_to_name.unwrap_or_default() {
        match id.parse() {
            Ok(id) => {
                trace.kernels.insert(id, name);
            }
            Err(_) => {
                trace.quality.note(FindingKind::BadRecord, Some(path), || format!("{id:?} is no kernel's number"))
            }
        }
    }
    // The file's name ends with the test's; where it does not, the orchestrator's name is all that names the program.
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let test = stem.trim_start_matches("name_map").trim_start_matches('_');
    let named = if test.is_empty() { map.orchestrator_name.as_deref().unwrap_or_default() } else { test };
    trace.facts.program = named.to_string();
    trace.orchestrator = map.orchestrator_name;
    Ok(())
}
