//! Reader of `name_map*.json`: names of kernels by number.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::read_file;
use crate::{Error, FindingKind, Trace};

#[derive(Deserialize)]
struct NameMap {
    #[serde(default)]
    orchestrator_name: Option<String>,
    #[serde(default)]
    callable_id_to_name: BTreeMap<String, String>,
}

pub(super) fn read(path: &Path, trace: &mut Trace) -> Result<(), Error> {
    let map: NameMap = serde_json::from_slice(&read_file(path)?).map_err(Error::json("a map of names", path))?;
    for (id, name) in map.callable_id_to_name {
        match id.parse() {
            Ok(id) => {
                trace.kernels.insert(id, name);
            }
            Err(_) => {
                trace.quality.note(FindingKind::BadRecord, Some(path), || format!("{id:?} is no kernel's number"))
            }
        }
    }
    trace.orchestrator = map.orchestrator_name;
    // The file's name ends with the test's, which is all that names the program.
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    trace.facts.program = stem.trim_start_matches("name_map").trim_start_matches('_').to_string();
    Ok(())
}
