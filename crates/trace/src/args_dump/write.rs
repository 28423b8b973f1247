//! Writer of `args_dump/` in the reference's form.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use plimsoll_abi::record::Truncation;
use serde_json::{Value, json};

use super::{ArgRole, ArgStage, ArgsDump, DumpedArg};
use crate::{Error, MachineMark};

/// What was lost on the way to the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DumpTotals {
    /// Captured arguments that are known to be lost as a whole or in part.
    pub dropped: u64,
    /// Lines of arguments that the run's ledger counts as lost.
    pub lost_lines: u64,
}

/// Writes the arguments of a run one after the other.
#[derive(Debug)]
pub struct ArgsDumpWriter {
    dir: PathBuf,
    level: u64,
    elements: BufWriter<File>,
    end: u64,
    /// The entries of the list, each with its place in the order of the file.
    args: Vec<((u32, u64, u64), Value)>,
    counts: [u64; 6],
    mark: MachineMark,
}

impl ArgsDumpWriter {
    /// Begins a dump in the folder of a run's directory.
    ///
    /// # Errors
    /// If the folder or a file in it cannot be made.
    pub fn create(run_dir: &Path, level: u64) -> Result<Self, Error> {
        let dir = run_dir.join(ArgsDump::DIR);
        fs::create_dir_all(&dir).map_err(Error::io("create", &dir))?;
        let path = dir.join(ArgsDump::ELEMENTS);
        let elements = BufWriter::with_capacity(1 << 20, File::create(&path).map_err(Error::io("create", &path))?);
        Ok(Self { dir, level, elements, end: 0, args: Vec::new(), counts: [0; 6], mark: MachineMark::default() })
    }

    /// Says what machine the run had.
    #[must_use]
    pub fn of_machine(mut self, mark: MachineMark) -> Self {
        self.mark = mark;
        self
    }

    /// Adds an argument with the bytes of its elements, which may be empty. `arg.payload` is ignored: the place of the bytes
    /// follows from the order of calls.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, arg: &DumpedArg, dtype: &str, bytes: &[u8]) -> Result<(), Error> {
        let order = (u32::MAX, self.args.len() as u64, 0);
        self.add_at(arg, dtype, bytes, order)
    }

    /// The same, at a place in the order of the file.
    pub(super) fn add_at(
        &mut self,
        arg: &DumpedArg,
        dtype: &str,
        bytes: &[u8],
        order: (u32, u64, u64),
    ) -> Result<(), Error> {
        self.elements.write_all(bytes).map_err(Error::io("write", &self.dir.join(ArgsDump::ELEMENTS)))?;
        let role = match arg.role {
            ArgRole::Input => 2,
            ArgRole::Output => 3,
            ArgRole::Inout => 4,
        };
        self.counts[usize::from(arg.stage == ArgStage::AfterCompletion)] += 1;
        self.counts[role] += 1;
        self.counts[5] += u64::from(arg.truncation.is_some());
        let mut entry = json!({
            "task_id": format!("0x{:016x}", arg.task.raw()),
            "round": arg.round,
            "kernel": arg.kernel,
            "func_id": arg.kernel_ids,
            "blocks": arg.blocks,
            "arg_index": arg.index,
            "role": arg.role,
            "stage": arg.stage,
            "kind": if arg.is_scalar { "scalar" } else { "tensor" },
            "dtype": dtype,
            "is_contiguous": is_contiguous(arg),
            "shape": arg.shape,
            "strides": arg.strides,
            "start_offset": arg.start_offset,
            "numel": if arg.is_scalar { 1 } else { arg.len() },
            "bin_offset": if bytes.is_empty() { 0 } else { self.end },
            "bin_size": bytes.len(),
            "truncated": arg.truncation.is_some(),
            "truncation": arg.truncation.map(Truncation::name),
            "overwritten": arg.overwritten,
        });
        if let Some(value) = &arg.value {
            entry["value"] = value.clone();
        }
        self.args.push((order, entry));
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Ends the dump: the elements are written before the list that points to them.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(mut self, totals: DumpTotals) -> Result<(), Error> {
        let path = self.dir.join(ArgsDump::ELEMENTS);
        self.elements.flush().and_then(|()| self.elements.get_ref().sync_data()).map_err(Error::io("write", &path))?;
        self.args.sort_by_key(|(order, _)| *order);
        let args: Vec<Value> = self.args.into_iter().map(|(_, entry)| entry).collect();
        let [before, after, input, output, inout, truncated] = self.counts;
        let mut list = json!({
            "run_dir": ArgsDump::DIR,
            "bin_format": {"type": "logical_contiguous", "byte_order": "little_endian"},
            "dump_args_level": self.level,
            "total_args": args.len(),
            "before_dispatch": before,
            "after_completion": after,
            "input_args": input,
            "output_args": output,
            "inout_args": inout,
            "truncated_args": truncated,
            "dropped_records": totals.dropped,
            "dropped_overwrite": 0,
            "lost_lines": totals.lost_lines,
            "bin_file": ArgsDump::ELEMENTS,
            "args": args,
        });
        if let (Ok(Value::Object(mark)), Some(list)) = (serde_json::to_value(&self.mark), list.as_object_mut()) {
            list.extend(mark);
        }
        let path = self.dir.join(ArgsDump::FILE);
        let text = serde_json::to_vec(&list).unwrap_or_default();
        fs::write(&path, text).map_err(Error::io("write", &path))
    }
}

/// Whether the elements lay side by side in row-major order.
fn is_contiguous(arg: &DumpedArg) -> bool {
    let mut step = 1i64;
    for (&extent, &stride) in arg.shape.iter().zip(&arg.strides).rev() {
        if extent != 1 && stride != step {
            return false;
        }
        step = step.saturating_mul(extent as i64);
    }
    true
}
