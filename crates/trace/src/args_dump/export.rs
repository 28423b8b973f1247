//! Makes `args_dump/` of the records of a run of ours.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use plimsoll_abi::record::{ArgDumpHead, ArgDumpRecord, ArgMode, SubmitRecord, SubmitTag, Truncation};
use plimsoll_abi::{Dtype, TaskId};
use serde_json::Value;

use super::{ArgRole, ArgStage, ArgsDump, ArgsDumpWriter, DumpTotals, DumpedArg};
use crate::read::Segments;
use crate::{Error, MachineMark, Manifest, Quality};

/// What was made of a run's records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArgsExport {
    /// Captured arguments.
    pub args: u64,
    /// Those that are known to be lost as a whole or in part; at least so many if lines were lost.
    pub dropped: u64,
    /// Lines of arguments that the run's ledger counts as lost.
    pub lost_lines: u64,
}

/// Writes the captured arguments of a run directory in the reference's form; nothing if it captured none and was not asked to.
///
/// # Errors
/// If records cannot be read or files not be written. Then there is no `args_dump/`, and it can be tried again.
pub fn export_args(dir: &Path, level: u64) -> Result<ArgsExport, Error> {
    let exported = write_args(dir, level);
    if exported.is_err() {
        // The file may be what fills the disk. What is left of it nobody can read without the list.
        let folder = dir.join(ArgsDump::DIR);
        [ArgsDump::ELEMENTS, ArgsDump::FILE].iter().for_each(|file| drop(fs::remove_file(folder.join(file))));
        drop(fs::remove_dir(folder));
    }
    exported
}

fn write_args(dir: &Path, level: u64) -> Result<ArgsExport, Error> {
    let manifest = Manifest::read(dir)?;
    let mut quality = Quality::default();
    let mut segments = Segments::find(&dir.join("records"), &mut quality)?;
    let pools = || manifest.reconcile.iter().flat_map(|ledger| &ledger.pools);
    let lost = |kind: &str| pools().filter(|pool| pool.kind == kind).map(|pool| pool.dropped).sum::<u64>();
    let mut submits = SubmittedArgs { whole: lost("submit") == 0, ..SubmittedArgs::default() };
    segments.visit(&mut Vec::new(), &mut quality, |_, record: SubmitRecord, _| submits.take(&record))?;
    let names: HashMap<u32, &str> = manifest.kernels.iter().map(|kernel| (kernel.id, kernel.name.as_str())).collect();
    let mut gathering = LineJoiner {
        open: HashMap::new(),
        serials: HashMap::new(),
        headless: HashSet::new(),
        writer: ArgsDumpWriter::create(dir, level)?.of_machine(MachineMark::of_manifest(&manifest)),
        failed: None,
        totals: ArgsExport::default(),
    };
    segments.visit(&mut Vec::new(), &mut quality, |instance, record: ArgDumpRecord, _| {
        gathering.take(instance, &record, &names, &submits);
    })?;
    // Lines that were dropped left no record, so the ledger tells how many there were.
    gathering.finish(lost("arg_dump"))
}

/// What submits tell of arguments.
#[derive(Default)]
struct SubmittedArgs {
    /// Tasks, with their rounds, in the order of submits.
    order: HashMap<u64, u64>,
    /// Where tensor arguments begin in their buffers, if not at the first element: by task and argument.
    offsets: HashMap<(u64, u32), u64>,
    /// The task whose arguments are being read.
    task: u64,
    /// Whether none was lost: else arguments would be taken for those of the task before.
    whole: bool,
}

impl SubmittedArgs {
    fn take(&mut self, record: &SubmitRecord) {
        if record.tag == SubmitTag::Task as u8 {
            let next = self.order.len() as u64;
            self.order.entry(record.id).or_insert(next);
            self.task = record.id;
        } else if record.tag == SubmitTag::Arg as u8 && record.offset > 0 && self.whole {
            self.offsets.insert((self.task, record.aux), record.offset);
        }
    }

    /// Where a tensor argument of a task begins in its buffer, if that is known.
    fn offset(&self, task: u64, index: u32) -> Option<u64> {
        let known = self.whole && self.order.contains_key(&task);
        known.then(|| self.offsets.get(&(task, index)).copied().unwrap_or(0))
    }
}

/// An argument whose records are being read.
struct OpenArg {
    arg: DumpedArg,
    dtype: &'static str,
    order: (u32, u64, u64),
    serial: u32,
    /// Lines that were read.
    lines: u32,
    bytes: Vec<u8>,
    expected: u64,
}

struct LineJoiner {
    /// By pool: the argument whose lines are being read. Lines of one argument follow each other in a pool.
    open: HashMap<u16, OpenArg>,
    /// By pool: the serial number of the argument whose line was read last.
    serials: HashMap<u16, u32>,
    /// Arguments whose first line was lost.
    headless: HashSet<(u16, u32)>,
    writer: ArgsDumpWriter,
    failed: Option<Error>,
    totals: ArgsExport,
}

impl LineJoiner {
    fn take(&mut self, instance: u16, record: &ArgDumpRecord, names: &HashMap<u32, &str>, submits: &SubmittedArgs) {
        let last = self.serials.entry(instance).or_default();
        if record.serial != *last || record.line == 0 {
            // Serial numbers begin at 1 with each lane. A number that was skipped belongs to an argument of which all lines
            // were lost.
            let before = if record.serial > *last { *last } else { 0 };
            self.totals.dropped += u64::from(record.serial.saturating_sub(before + 1));
            *last = record.serial;
        }
        if let Some(head) = record.head() {
            self.close(instance);
            self.open.insert(instance, OpenArg::new(record.serial, &head, names, submits));
        }
        let Some(open) = self.open.get_mut(&instance).filter(|open| open.serial == record.serial) else {
            // The first line of this argument was lost.
            if self.headless.insert((instance, record.serial)) {
                self.totals.dropped += 1;
            }
            return;
        };
        if open.lines == record.line {
            open.lines += 1;
            let left = open.expected - open.bytes.len() as u64;
            let room = record.room();
            open.bytes.extend_from_slice(&room[..room.len().min(left as usize)]);
        }
        if open.bytes.len() as u64 == open.expected {
            self.close(instance);
        }
    }

    /// Writes the argument whose last record was read.
    fn close(&mut self, instance: u16) {
        let Some(mut open) = self.open.remove(&instance) else { return };
        self.totals.args += 1;
        if open.bytes.len() as u64 != open.expected {
            self.totals.dropped += 1;
            open.arg.overwritten = true;
            open.bytes.clear();
        }
        if let Err(error) = self.writer.add_at(&open.arg, open.dtype, &open.bytes, open.order) {
            self.failed.get_or_insert(error);
        }
    }

    fn finish(mut self, lost: u64) -> Result<ArgsExport, Error> {
        let open: Vec<u16> = self.open.keys().copied().collect();
        open.into_iter().for_each(|instance| self.close(instance));
        if let Some(error) = self.failed {
            return Err(error);
        }
        let mut totals = self.totals;
        // If the last arguments lost all their lines, only the ledger's count of lost lines tells.
        totals.dropped = totals.dropped.max(u64::from(lost > 0));
        totals.lost_lines = lost;
        self.writer.finish(DumpTotals { dropped: totals.dropped, lost_lines: lost })?;
        Ok(totals)
    }
}

impl OpenArg {
    fn new(serial: u32, head: &ArgDumpHead, names: &HashMap<u32, &str>, submits: &SubmittedArgs) -> Self {
        let (task, round) = TaskId::from_word(head.task);
        let mode = ArgMode::ALL.get(usize::from(head.mode)).copied().unwrap_or(ArgMode::NoDep);
        let dtype = Dtype::from_u8(head.dtype).unwrap_or(Dtype::User);
        let is_scalar = mode == ArgMode::Scalar;
        let ndim = if is_scalar { 0 } else { usize::from(head.ndim).min(head.shape.len()) };
        let after = head.after != 0;
        let others = head.parts.iter().filter_map(|kernel| kernel.checked_sub(1));
        let kernels: Vec<u32> = [head.kernel].into_iter().chain(others).collect();
        let name = |kernel: &u32| names.get(kernel).map_or_else(|| format!("func_{kernel}"), |name| (*name).to_owned());
        let arg = DumpedArg {
            task,
            round,
            kernel: kernels.iter().map(name).collect::<Vec<_>>().join("+"),
            kernel_ids: kernels.iter().map(|kernel| i64::from(*kernel)).collect(),
            blocks: head.blocks,
            index: head.index,
            role: ArgRole::of(mode),
            stage: if after { ArgStage::AfterCompletion } else { ArgStage::BeforeDispatch },
            is_scalar,
            dtype: dtype.name().to_owned(),
            shape: head.shape[..ndim].iter().map(|&extent| extent.into()).collect(),
            strides: head.strides[..ndim].iter().map(|&stride| stride.into()).collect(),
            start_offset: if is_scalar { None } else { submits.offset(head.task, head.index) },
            truncation: (head.truncated > 0)
                .then(|| Truncation::ALL.get(usize::from(head.truncated) - 1).copied().unwrap_or(Truncation::Limit)),
            overwritten: false,
            value: is_scalar.then(|| scalar(dtype, head.value)),
            payload: (0, 0),
        };
        // In the order of submits, where those were recorded; else in the order of dispatches.
        let place = submits.order.get(&head.task).copied().unwrap_or(head.time);
        let order = (round, place, u64::from(after) << 32 | u64::from(head.index));
        Self { arg, dtype: dtype.reference_name(), order, serial, lines: 0, bytes: Vec::new(), expected: head.bytes }
    }
}

impl DumpedArg {
    /// The type of a captured plain value and its bits, as a kernel finds them in its argument word; nothing of a tensor. A NaN
    /// comes back as the ordinary one.
    pub fn scalar_bits(&self) -> Option<(Dtype, u64)> {
        let dtype = Dtype::ALL.into_iter().find(|dtype| dtype.name() == self.dtype)?;
        let value = self.value.as_ref().filter(|_| self.is_scalar)?;
        let float = || written_float(value);
        let bits = match dtype {
            Dtype::F64 => float()?.to_bits(),
            Dtype::F32 => u64::from((float()? as f32).to_bits()),
            Dtype::I64 | Dtype::I32 | Dtype::I16 | Dtype::I8 | Dtype::U8 => value.as_i64()? as u64,
            Dtype::Bool => u64::from(value.as_bool()?),
            Dtype::User | Dtype::F16 | Dtype::Bf16 => value.as_u64()?,
        };
        Some((dtype, bits))
    }

    /// A captured plain value of a type of floats as a number, which may be a NaN or an infinity; nothing of any other argument.
    pub fn scalar_float(&self) -> Option<f64> {
        let form = self.form().filter(|form| self.is_scalar && form.is_float())?;
        match (form.bytes(), self.value.as_ref()?) {
            // The file has the bits of floats of 2 bytes.
            (2, Value::Number(bits)) => form.numbers(&(bits.as_u64()? as u16).to_le_bytes()).next(),
            (_, value) => written_float(value),
        }
    }
}

/// The float that the reference writes like that.
fn written_float(value: &Value) -> Option<f64> {
    match value {
        Value::Null => Some(f64::NAN),
        Value::String(text) if text == "$Inf" => Some(f64::INFINITY),
        Value::String(text) if text == "-$Inf" => Some(f64::NEG_INFINITY),
        number => number.as_f64(),
    }
}

/// A plain value as the reference writes it.
fn scalar(dtype: Dtype, bits: u64) -> Value {
    let float = |value: f64| match value {
        value if value.is_nan() => Value::Null,
        f64::INFINITY => "$Inf".into(),
        f64::NEG_INFINITY => "-$Inf".into(),
        value => value.into(),
    };
    match dtype {
        Dtype::F64 => float(f64::from_bits(bits)),
        Dtype::F32 => float(f32::from_bits(bits as u32).into()),
        Dtype::I64 => (bits as i64).into(),
        Dtype::I32 => (bits as u32 as i32).into(),
        Dtype::I16 => (bits as u16 as i16).into(),
        Dtype::I8 => (bits as u8 as i8).into(),
        Dtype::U8 => (bits as u8).into(),
        Dtype::Bool => (bits & 0xff != 0).into(),
        Dtype::User | Dtype::F16 | Dtype::Bf16 => bits.into(),
    }
}
