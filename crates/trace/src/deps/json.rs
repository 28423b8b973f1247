//! Writing `deps.json` in the reference's form.
//!
//! Nothing in it depends on addresses, times or threads, so the same program gives the same bytes on the same kind of machine.

use std::io::{self, Write};

use super::{Dependencies, Edge, EdgeSource, NO_ARG, NO_TENSOR, RecordedArg, RecordedView, TaskIndex, TaskNode};
use crate::MachineMark;
use crate::model::id_and_epoch;

/// Writes tasks, tensors and edges; 64-bit values are strings, as in the reference's files.
///
/// # Errors
/// What `out` fails with when it is written to.
pub fn write_deps_json(deps: &Dependencies, mark: &MachineMark, out: &mut impl Write) -> io::Result<()> {
    write!(out, "{{{}", mark.json_prefix())?;
    Writing { deps, runtime: None, out }.lists()
}

/// The same as the newest of those files: they say how ids are made, and have the graph of several rounds once. Where rounds differ,
/// a task is that of the first round which has one of its id, with its edges to tasks of the same round.
///
/// # Errors
/// What `out` fails with when it is written to.
pub fn write_newest_deps_json(
    deps: &Dependencies,
    runtime: &str,
    mark: &MachineMark,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(out, "{{\"runtime\":{},{}", serde_json::to_string(runtime)?, mark.json_prefix())?;
    Writing { deps, runtime: Some(runtime), out }.lists()
}

/// A file that is being written.
struct Writing<'d, W> {
    deps: &'d Dependencies,
    /// The runtime that makes ids, if rounds are left out of them.
    runtime: Option<&'d str>,
    out: &'d mut W,
}

impl<W: Write> Writing<'_, W> {
    fn id(&self, task: &TaskNode) -> u64 {
        self.runtime.map_or(task.word, |runtime| id_and_epoch(runtime, task.word).0)
    }

    /// Which tasks are written: all, or the first of each id.
    fn written(&self) -> Vec<bool> {
        let mut seen = TaskIndex::with_room_for(self.deps.tasks.iter().map(|task| self.id(task)));
        let tasks = self.deps.tasks.iter().zip(0..);
        tasks
            .map(|(task, at)| {
                seen.insert(self.id(task), at);
                seen.get(self.id(task)) == Some(at as usize)
            })
            .collect()
    }

    fn lists(self) -> io::Result<()> {
        let deps = self.deps;
        let written = self.written();
        self.out.write_all(b"\"tasks\":[")?;
        let tasks = deps.tasks.iter().zip(&written).filter(|(task, written)| !task.implied && **written);
        for (at, (task, _)) in tasks.enumerate() {
            separate(self.out, at)?;
            let id = self.id(task);
            write_task(deps, task, id, self.out)?;
        }
        self.out.write_all(b"],\"tensors\":[")?;
        for (at, tensor) in deps.tensors.iter().enumerate() {
            separate(self.out, at)?;
            write!(
                self.out,
                "{{\"tensor_id\":\"{}\",\"buffer_addr\":\"{}\",\"version\":{},\"dtype\":\"{}\",\"buffer_numel\":\"{}\"}}",
                tensor.id,
                tensor.buffer,
                tensor.version,
                tensor.dtype.reference_name(),
                tensor.numel
            )?;
        }
        self.out.write_all(b"],\"edges\":[")?;
        let edges = deps.edges.iter().filter(|edge| [edge.pred, edge.succ].iter().all(|task| written[*task as usize]));
        for (at, edge) in edges.enumerate() {
            separate(self.out, at)?;
            let ids = [edge.pred, edge.succ].map(|task| self.id(&deps.tasks[task as usize]));
            write_edge(deps, edge, ids, self.out)?;
        }
        self.out.write_all(b"]}\n")
    }
}

fn write_task(deps: &Dependencies, task: &TaskNode, id: u64, out: &mut impl Write) -> io::Result<()> {
    let [aic, aiv0, aiv1] = task.kernels;
    // Readers that do not know the key find a name by the type of the core, whichever it ran on.
    let (aic, class) = if task.any_core { (aiv0, "\"core_class\":\"any\",") } else { (aic, "") };
    let scope = if task.manual { "manual" } else { "auto" };
    write!(
        out,
        "{{\"task_id\":\"{id}\",\"scope\":\"{scope}\",\"kernel_ids\":[{aic},{aiv0},{aiv1}],{class}\"block_num\":{},\"args\":[",
        task.blocks.max(1)
    )?;
    for (at, arg) in deps.args_of(task).iter().enumerate() {
        separate(out, at)?;
        write!(out, "{{\"idx\":{},\"type\":\"{}\"", arg.idx, arg.mode.reference_name())?;
        if let Some(tensor) = deps.tensors.get(arg.tensor as usize) {
            write!(out, ",\"tensor_id\":\"{}\",\"dtype\":\"{}\"", tensor.id, arg.dtype.reference_name())?;
            write_view(out, "", &deps.view(arg))?;
        }
        out.write_all(b"}")?;
    }
    out.write_all(b"]}")
}

fn write_edge(deps: &Dependencies, edge: &Edge, ids: [u64; 2], out: &mut impl Write) -> io::Result<()> {
    let (pred, succ) = (&deps.tasks[edge.pred as usize], &deps.tasks[edge.succ as usize]);
    let flags = if edge.source == EdgeSource::Creator { "\"wait\",\"retain\"" } else { "\"wait\"" };
    write!(
        out,
        "{{\"pred\":\"{}\",\"succ\":\"{}\",\"arg\":{},\"source\":\"{}\",\"flags\":[{flags}]",
        ids[0],
        ids[1],
        edge.arg,
        edge.source.name()
    )?;
    if matches!(edge.source, EdgeSource::Tensormap | EdgeSource::Reader) {
        write!(out, ",\"overlap\":\"{}\"", if edge.covered { "covered" } else { "other" })?;
    }
    if let Some(arg) = arg_with_idx(deps, succ, edge.arg).filter(|a| a.tensor != NO_TENSOR) {
        let id = deps.tensors.get(arg.tensor as usize).map_or(0, |t| t.id);
        write!(out, ",\"tensor_id\":\"{id}\",\"consumer_dtype\":\"{}\"", arg.dtype.reference_name())?;
        write_view(out, "consumer_", &deps.view(arg))?;
        let theirs = (edge.source != EdgeSource::Creator).then(|| arg_with_idx(deps, pred, edge.pred_arg)).flatten();
        if let Some(theirs) = theirs {
            write_view(out, "producer_", &deps.view(theirs))?;
        }
    }
    // What only the edge of the file that was read had told.
    if let Some(loose) = deps.loose_views_of(edge) {
        loose.consumer.map_or(Ok(()), |view| write_view(out, "consumer_", &view))?;
        loose.producer.map_or(Ok(()), |view| write_view(out, "producer_", &view))?;
    }
    out.write_all(b"}")
}

fn arg_with_idx<'a>(deps: &'a Dependencies, task: &TaskNode, idx: i16) -> Option<&'a RecordedArg> {
    if idx == NO_ARG {
        return None;
    }
    deps.args_of(task).iter().find(|a| i32::from(a.idx) == i32::from(idx))
}

fn write_view(out: &mut impl Write, prefix: &str, view: &RecordedView) -> io::Result<()> {
    let dims = (view.ndim as usize).min(view.shape.len());
    write!(out, ",\"{prefix}shape\":[")?;
    for (at, extent) in view.shape[..dims].iter().enumerate() {
        separate(out, at)?;
        write!(out, "{extent}")?;
    }
    write!(out, "],\"{prefix}start_offset\":\"{}\",\"{prefix}strides\":[", view.offset)?;
    for (at, stride) in view.strides[..dims].iter().enumerate() {
        separate(out, at)?;
        write!(out, "{stride}")?;
    }
    out.write_all(b"]")
}

fn separate(out: &mut impl Write, at: usize) -> io::Result<()> {
    if at > 0 { out.write_all(b",") } else { Ok(()) }
}
