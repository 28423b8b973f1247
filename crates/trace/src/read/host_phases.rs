//! Reader of `host_phase_records.jsonl`: a line per process and invocation, with its phases.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;

use super::number::JsonNumber;
use super::read_file;
use crate::error::reason_of;
use crate::host_phases::HostPhase;
use crate::{Error, FindingKind, HostPhases, Trace};

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(default)]
    pid: JsonNumber,
    #[serde(default)]
    inv: JsonNumber,
    #[serde(borrow, default)]
    clock: Option<Cow<'a, str>>,
    #[serde(default)]
    dropped: JsonNumber,
    #[serde(borrow)]
    records: Vec<Record<'a>>,
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
    start_ns: JsonNumber,
    end_ns: JsonNumber,
    #[serde(default)]
    tid: JsonNumber,
}

pub(super) fn read(path: &Path, trace: &mut Trace) -> Result<(), Error> {
    let bytes = read_file(path)?;
    let mut host = HostPhases::default();
    let mut whole = 0u64;
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice::<Line<'_>>(line) {
            Ok(line) => take(&mut host, &line, path, trace),
            // A file of which no line can be read is none of this form.
            Err(error) if whole == 0 => {
                let mut refusal = Error::json("host phases", path)(error);
                if let Error::Json { line, .. } = &mut refusal {
                    *line = number + 1;
                }
                return Err(refusal);
            }
            Err(error) => trace.quality.note(FindingKind::BadRecord, Some(path), || {
                format!("line {}, column {}: {}", number + 1, error.column(), reason_of(&error))
            }),
        }
        whole += 1;
    }
    trace.host_phases = host;
    Ok(())
}

fn take(host: &mut HostPhases, line: &Line<'_>, path: &Path, trace: &mut Trace) {
    if let Some(clock) = &line.clock {
        host.clock = clock.to_string();
    }
    trace.quality.note_many(FindingKind::ReportedLoss, Some(path), line.dropped.0, || "host phases".to_string());
    for record in &line.records {
        if record.end_ns.0 < record.start_ns.0 {
            trace.quality.note(FindingKind::EndBeforeStart, Some(path), || format!("host phase {:?}", record.phase));
        }
        let name = host.intern(&record.phase);
        host.phases.push(HostPhase {
            name,
            pid: u32::try_from(line.pid.0).unwrap_or(u32::MAX),
            tid: record.tid.0,
            invocation: line.inv.0,
            start_ns: record.start_ns.0,
            end_ns: record.end_ns.0,
        });
    }
}
