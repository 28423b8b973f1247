//! Reader of `args_dump/`, the reference's and ours.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use plimsoll_abi::record::Truncation;
use plimsoll_abi::{Flags, TaskId};
use serde::Deserialize;

use super::elements::spelt;
use super::{ArgRole, ArgStage, ArgsDump, DumpedArg};
use crate::read::JsonNumber;
use crate::{Error, Liveness, Manifest, open_plain};

#[derive(Deserialize)]
struct DumpFile {
    #[serde(default)]
    dump_args_level: u64,
    #[serde(default)]
    dropped_records: u64,
    #[serde(default)]
    dropped_overwrite: u64,
    /// Ours only.
    #[serde(default)]
    lost_lines: u64,
    total_args: Option<u64>,
    before_dispatch: Option<u64>,
    after_completion: Option<u64>,
    bin_file: Option<String>,
    args: Vec<ArgEntry>,
}

#[derive(Deserialize)]
struct ArgEntry {
    task_id: JsonNumber,
    #[serde(default)]
    round: u32,
    kernel: Option<String>,
    #[serde(default)]
    func_id: Vec<i64>,
    #[serde(default)]
    blocks: u32,
    role: ArgRole,
    stage: ArgStage,
    arg_index: u32,
    kind: String,
    dtype: String,
    #[serde(default)]
    shape: Vec<u64>,
    #[serde(default)]
    strides: Vec<i64>,
    start_offset: Option<u64>,
    #[serde(default)]
    truncated: bool,
    /// Ours only.
    truncation: Option<String>,
    #[serde(default)]
    overwritten: bool,
    #[serde(default)]
    bin_offset: u64,
    #[serde(default)]
    bin_size: u64,
    /// `null` is a NaN, and not the same as no value.
    #[serde(default, deserialize_with = "present")]
    value: Option<serde_json::Value>,
}

/// A value that is in the file, `null` too.
fn present<'de, D: serde::Deserializer<'de>>(file: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(file).map(Some)
}

pub(super) fn open(path: &Path) -> Result<ArgsDump, Error> {
    let list = find(path)?;
    let text = std::fs::read(&list).map_err(Error::io("read", &list))?;
    let file: DumpFile = serde_json::from_slice(&text).map_err(|error| Error::Json {
        what: "captured arguments",
        path: list.clone(),
        line: error.line(),
        column: error.column(),
        reason: error.to_string(),
    })?;
    let dir = list.parent().unwrap_or(Path::new(".")).to_path_buf();
    let mut notes = Vec::new();
    let elements = open_elements(&dir, file.bin_file.as_deref(), &mut notes);
    let args: Vec<DumpedArg> = file.args.into_iter().map(DumpedArg::from).collect();
    let mut dump = ArgsDump {
        dir,
        level: file.dump_args_level,
        args,
        dropped: file.dropped_records.saturating_add(file.dropped_overwrite),
        lost_lines: file.lost_lines,
        notes,
        elements,
    };
    let counts = [file.total_args, file.before_dispatch, file.after_completion];
    hold_counts_against(counts, &mut dump);
    look_over(&mut dump);
    Ok(dump)
}

/// The list of a dump.
fn find(path: &Path) -> Result<PathBuf, Error> {
    if path.is_file() {
        return Ok(path.to_path_buf());
    }
    let places = [path.join(ArgsDump::FILE), path.join(ArgsDump::DIR).join(ArgsDump::FILE)];
    std::fs::metadata(path).map_err(Error::io("open", path))?;
    places.into_iter().find(|list| list.is_file()).ok_or_else(|| why_none(path))
}

/// Why a directory has no list: a run of ours may have captured arguments even so.
fn why_none(dir: &Path) -> Error {
    let path = dir.to_path_buf();
    let Ok(manifest) = Manifest::read(dir) else { return Error::NoArgs { path } };
    if !Flags::from_bits(manifest.flags).is_some_and(|flags| flags.has(Flags::TENSOR_DUMP)) {
        return Error::NoArgs { path };
    }
    match manifest.liveness() {
        Liveness::Alive => Error::ArgsOfLiveRun { path },
        Liveness::NeedsRecovery => Error::ArgsNotRecovered { path },
        Liveness::Ended | Liveness::RegionGone => Error::ArgsNotExported { path },
    }
}

fn open_elements(dir: &Path, name: Option<&str>, notes: &mut Vec<String>) -> Option<(File, u64)> {
    // A name that leads out of the folder is not followed.
    let name = name.and_then(|name| Path::new(name).file_name())?;
    let path = dir.join(name);
    let opened = open_plain(&path).and_then(|file| file.metadata().map(|metadata| (file, metadata.len())));
    match opened {
        Ok(opened) => Some(opened),
        Err(error) => {
            notes.push(format!("{} cannot be read ({error}): shapes are known, elements are not.", path.display()));
            None
        }
    }
}

/// Notes the counts of arguments, of those before tasks and of those after them that what is listed does not bear out.
fn hold_counts_against(told: [Option<u64>; 3], dump: &mut ArgsDump) {
    let of_stage = |stage| dump.args.iter().filter(|arg| arg.stage == stage).count() as u64;
    let listed = [dump.args.len() as u64, of_stage(ArgStage::BeforeDispatch), of_stage(ArgStage::AfterCompletion)];
    let names = ["total_args", ArgStage::BeforeDispatch.name(), ArgStage::AfterCompletion.name()];
    for ((name, told), listed) in names.into_iter().zip(told).zip(listed) {
        if let Some(told) = told.filter(|told| *told != listed) {
            dump.notes.push(format!("{name} is {told} by the file's own count, and {listed} are listed."));
        }
    }
}

/// Notes what is lost or not understood.
fn look_over(dump: &mut ArgsDump) {
    let tensors = || dump.args.iter().filter(|arg| !arg.is_scalar);
    let unknown = || tensors().filter(|arg| arg.form().is_none());
    let kept = unknown().any(|arg| arg.payload.1 > 0);
    let unknown: BTreeSet<String> = unknown().map(|arg| format!("{:?}", arg.dtype)).collect();
    let outside =
        tensors().filter(|arg| arg.payload.1 > 0 && dump.elements.is_some() && !dump.has_elements(arg)).count();
    let short = |arg: &&DumpedArg| {
        let bytes = arg.form().map(|form| arg.len().saturating_mul(form.bytes() as u64));
        arg.payload.1 > 0 && arg.truncation.is_none() && bytes.is_some_and(|bytes| bytes != arg.payload.1)
    };
    let short = tensors().filter(short).count();
    if !unknown.is_empty() {
        let unknown = Vec::from_iter(unknown).join(", ");
        let kept = if kept { " Their bytes are kept, not shown as numbers." } else { "" };
        dump.notes.push(format!("Element types that are not known: {unknown}.{kept}"));
    }
    dump.notes.extend(dump.truncations());
    if outside > 0 {
        dump.notes.push(format!("{outside} arguments have elements beyond the end of {}.", ArgsDump::ELEMENTS));
    }
    if short > 0 {
        dump.notes.push(format!("{short} arguments have another number of bytes than their shape asks for."));
    }
    if let Some(lost) = dump.loss() {
        dump.notes.push(lost);
    }
}

impl From<ArgEntry> for DumpedArg {
    fn from(entry: ArgEntry) -> Self {
        let numbers = || entry.func_id.iter().map(|id| format!("func_{id}")).collect::<Vec<_>>().join("+");
        let kernel = entry.kernel.unwrap_or_else(numbers);
        Self {
            task: TaskId::from_raw(entry.task_id.0),
            round: entry.round,
            kernel,
            kernel_ids: entry.func_id,
            blocks: entry.blocks,
            index: entry.arg_index,
            role: entry.role,
            stage: entry.stage,
            is_scalar: entry.kind == "scalar",
            dtype: spelt(&entry.dtype),
            shape: entry.shape,
            strides: entry.strides,
            start_offset: entry.start_offset,
            truncation: entry.truncated.then(|| {
                let why = Truncation::ALL.into_iter().find(|why| entry.truncation.as_deref() == Some(why.name()));
                why.unwrap_or(Truncation::Limit)
            }),
            overwritten: entry.overwritten,
            value: entry.value,
            payload: (entry.bin_offset, entry.bin_size),
        }
    }
}
