//! Writing `deps.json` in the reference's form.
//!
//! Nothing in it depends on addresses, times or threads, so the same program gives the same bytes on the same kind of machine.

use std::io::{self, Write};

use crate::MachineMark;

use super::{Dependencies, Edge, EdgeSource, NO_ARG, NO_TENSOR, RecordedArg, RecordedView, TaskNode};

/// Writes tasks, tensors and edges; 64-bit values are strings, as in the reference's files.
///
/// # Errors
/// What `out` fails with when it is written to.
pub fn write_deps_json(deps: &Dependencies, mark: &MachineMark, out: &mut impl Write) -> io::Result<()> {
    write!(out, "{{{}", mark.json_prefix())?;
    write_lists(deps, out)
}

/// The same as the newest of those files: they say how ids are made.
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
    write_lists(deps, out)
}

fn write_lists(deps: &Dependencies, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"\"tasks\":[")?;
    for (at, task) in deps.tasks.iter().filter(|t| !t.implied).enumerate() {
        separate(out, at)?;
        write_task(deps, task, out)?;
    }
    out.write_all(b"],\"tensors\":[")?;
    for (at, tensor) in deps.tensors.iter().enumerate() {
        separate(out, at)?;
        write!(
            out,
            "{{\"tensor_id\":\"{}\",\"buffer_addr\":\"{}\",\"version\":{},\"dtype\":\"{}\",\"buffer_numel\":\"{}\"}}",
            tensor.id,
            tensor.buffer,
            tensor.version,
            tensor.dtype.reference_name(),
            tensor.numel
        )?;
    }
    out.write_all(b"],\"edges\":[")?;
    for (at, edge) in deps.edges.iter().enumerate() {
        separate(out, at)?;
        write_edge(deps, edge, out)?;
    }
    out.write_all(b"]}\n")
}

fn write_task(deps: &Dependencies, task: &TaskNode, out: &mut impl Write) -> io::Result<()> {
    let [aic, aiv0, aiv1] = task.kernels;
    let scope = if task.manual { "manual" } else { "auto" };
    write!(
        out,
        "{{\"task_id\":\"{}\",\"scope\":\"{scope}\",\"kernel_ids\":[{aic},{aiv0},{aiv1}],\"block_num\":{},\"args\":[",
        task.word,
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

fn write_edge(deps: &Dependencies, edge: &Edge, out: &mut impl Write) -> io::Result<()> {
    let (pred, succ) = (&deps.tasks[edge.pred as usize], &deps.tasks[edge.succ as usize]);
    let flags = if edge.source == EdgeSource::Creator { "\"wait\",\"retain\"" } else { "\"wait\"" };
    write!(
        out,
        "{{\"pred\":\"{}\",\"succ\":\"{}\",\"arg\":{},\"source\":\"{}\",\"flags\":[{flags}]",
        pred.word,
        succ.word,
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
        let theirs = (edge.source != EdgeSource::Creator).then(|| producer_arg(deps, pred, edge, arg)).flatten();
        if let Some(theirs) = theirs {
            write_view(out, "producer_", &deps.view(theirs))?;
        }
    }
    out.write_all(b"}")
}

fn arg_with_idx<'a>(deps: &'a Dependencies, task: &TaskNode, idx: i16) -> Option<&'a RecordedArg> {
    if idx == NO_ARG {
        return None;
    }
    deps.args_of(task).iter().find(|a| i32::from(a.idx) == i32::from(idx))
}

/// The earlier task's argument: the one the edge names, else the one of the same tensor.
fn producer_arg<'a>(
    deps: &'a Dependencies,
    pred: &TaskNode,
    edge: &Edge,
    arg: &RecordedArg,
) -> Option<&'a RecordedArg> {
    arg_with_idx(deps, pred, edge.pred_arg).or_else(|| {
        let same = |a: &&RecordedArg| a.tensor == arg.tensor && a.mode.writes() == (edge.source != EdgeSource::Reader);
        deps.args_of(pred).iter().find(same)
    })
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
