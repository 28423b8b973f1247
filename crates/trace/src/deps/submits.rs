//! Dependencies inferred again from the recorded submits.
//!
//! The records are those of one orchestrator in order: a task, its arguments, its explicit dependencies. The look-ups
//! are the runtime's own, with a table that grows and forgets nobody, so that an edge to a producer that had retired
//! by the time of the submit is an edge here too.

use plimsoll_abi::record::{ArgMode, SubmitRecord, SubmitTag};
use plimsoll_abi::{Dtype, TaskId};
use plimsoll_graph::{
    self as graph, BufferRef, BufferShape, BufferUse, DependencySource, Footprint, Layout, Tensormap, User,
};

use super::{
    Dependencies, Edge, EdgeSource, NO_ARG, NO_TENSOR, RecordedArg, RecordedTensor, RecordedView, TaskIndex, TaskNode,
    tensor_id,
};
use crate::{FindingKind, Quality};

/// Takes records one by one and gives the dependencies they amount to.
#[derive(Debug)]
pub struct Submits {
    deps: Dependencies,
    index: TaskIndex,
    table: Tensormap,
    /// The place of each buffer number in `buffers`. The numbers count up, so an index of tasks serves for them.
    buffer_index: TaskIndex,
    buffers: Vec<Buffer>,
    assembly: SubmitAssembly,
    seen: bool,
    keeps_args: bool,
    /// Tasks, by number, whose arguments are kept even if those of the others are not.
    keeps_of: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Buffer {
    tensor: u32,
    version: u32,
    entry: BufferRef,
}

/// A task some of whose records are still to come.
#[derive(Debug)]
pub(crate) struct Pending {
    node: TaskNode,
    args_to_come: u32,
    deps_to_come: u32,
    /// The records of its arguments; a task has as many as the runtime allows, so these stay small.
    args: Vec<SubmitRecord>,
    explicit: Vec<u64>,
}

impl Default for Submits {
    fn default() -> Self {
        Self::new(true)
    }
}

impl Submits {
    /// Without arguments and tensors, only tasks and edges are kept.
    pub fn new(keeps_args: bool) -> Self {
        Self {
            deps: Dependencies::default(),
            index: TaskIndex::default(),
            table: Tensormap::unbounded(),
            buffer_index: TaskIndex::default(),
            buffers: Vec::new(),
            assembly: SubmitAssembly::default(),
            seen: false,
            keeps_args,
            keeps_of: Vec::new(),
        }
    }

    /// Keeps the arguments of a few tasks, given by number, though not those of the others.
    #[must_use]
    pub fn keeping(mut self, tasks: Vec<u64>) -> Self {
        self.keeps_of = tasks;
        self
    }
}

/// Puts the records of submits together.
#[derive(Debug, Default)]
pub(crate) struct SubmitAssembly {
    pending: Option<Pending>,
}

/// What a run of records amounts to.
pub(crate) enum SubmitEvent<'r> {
    /// A host buffer.
    Buffer(&'r SubmitRecord),
    /// A task with its arguments and explicit dependencies, as far as they came.
    Task(Pending),
}

impl SubmitAssembly {
    /// Takes the next record and gives what it completes.
    pub(crate) fn push<'r>(
        &mut self,
        record: &'r SubmitRecord,
        quality: &mut Quality,
        mut each: impl FnMut(SubmitEvent<'r>, &mut Quality),
    ) {
        match (record.tag, self.pending.as_mut()) {
            (ARG, Some(task)) if task.args_to_come > 0 => {
                task.args_to_come -= 1;
                task.args.push(*record);
            }
            (DEP, Some(task)) if task.deps_to_come > 0 => {
                task.deps_to_come -= 1;
                task.explicit.push(record.id);
            }
            (ARG | DEP, _) => {
                quality.note(FindingKind::BadRecord, None, || "a part of a submit without its task".to_string());
            }
            (BUFFER, _) => {
                self.finish(quality, &mut each);
                each(SubmitEvent::Buffer(record), quality);
            }
            (TASK, _) => {
                self.finish(quality, &mut each);
                self.pending = Some(Pending::new(record));
            }
            (other, _) => {
                quality.note(FindingKind::BadRecord, None, || format!("a submit record with tag {other}"));
                return;
            }
        }
        if self.pending.as_ref().is_some_and(Pending::is_complete) {
            self.finish(quality, &mut each);
        }
    }

    /// Gives the last task, of which records may be missing.
    pub(crate) fn finish<'r>(&mut self, quality: &mut Quality, each: &mut impl FnMut(SubmitEvent<'r>, &mut Quality)) {
        let Some(task) = self.pending.take() else { return };
        if !task.is_complete() {
            quality.note(FindingKind::CutSubmit, None, || format!("that of {}", task.node.id()));
        }
        each(SubmitEvent::Task(task), quality);
    }
}

const BUFFER: u8 = SubmitTag::Buffer as u8;
const TASK: u8 = SubmitTag::Task as u8;
const ARG: u8 = SubmitTag::Arg as u8;
const DEP: u8 = SubmitTag::Dep as u8;

impl Submits {
    /// Takes the next record.
    pub fn push(&mut self, record: &SubmitRecord, quality: &mut Quality) {
        self.seen = true;
        let mut assembly = std::mem::take(&mut self.assembly);
        assembly.push(record, quality, |submitted, quality| self.enter_submitted(submitted, quality));
        self.assembly = assembly;
    }

    /// The dependencies of all that was pushed; none if nothing was.
    pub fn infer(mut self, quality: &mut Quality) -> Option<Dependencies> {
        let mut assembly = std::mem::take(&mut self.assembly);
        assembly.finish(quality, &mut |submitted, quality: &mut Quality| self.enter_submitted(submitted, quality));
        self.seen.then_some(self.deps)
    }

    fn enter_submitted(&mut self, submitted: SubmitEvent<'_>, quality: &mut Quality) {
        match submitted {
            SubmitEvent::Buffer(record) => self.add_host_buffer(record, quality),
            SubmitEvent::Task(task) => self.add_task(&task, quality),
        }
    }

    fn add_host_buffer(&mut self, record: &SubmitRecord, quality: &mut Quality) {
        match dense_layout(record) {
            Some(layout) => {
                let buffer_shape = BufferShape::of(&layout);
                let entry = self.table.add_buffer(buffer_shape);
                self.enter(record, buffer_shape.len(), entry);
            }
            None => quality.note(FindingKind::BadRecord, None, || format!("buffer {} has no shape", record.id)),
        }
    }

    /// Makes a buffer known under its number; a number that is used again is a new version of the tensor.
    fn enter(&mut self, record: &SubmitRecord, numel: u64, entry: BufferRef) -> u32 {
        let known = self.buffer_index.get(record.id);
        let version = known.map_or(0, |at| self.buffers[at].version + 1);
        let tensor = if self.keeps_args { self.deps.tensors.len() as u32 } else { NO_TENSOR };
        let buffer = Buffer { tensor, version, entry };
        match known {
            Some(at) => self.buffers[at] = buffer,
            None => {
                self.buffer_index.replace(record.id, self.buffers.len() as u32);
                self.buffers.push(buffer);
            }
        }
        if !self.keeps_args {
            return tensor;
        }
        let dtype = Dtype::from_u8(record.dtype).unwrap_or(Dtype::User);
        self.deps.tensors.push(RecordedTensor {
            id: tensor_id(record.id, version),
            buffer: record.id,
            version,
            dtype,
            numel,
        });
        tensor
    }

    /// Enters a task with those of its records that arrived.
    fn add_task(&mut self, task: &Pending, quality: &mut Quality) {
        let at = self.deps.tasks.len() as u32;
        let first_arg = self.deps.args.len() as u32;
        let keeps = self.keeps_args || self.keeps_of.contains(&task.node.id().raw());
        self.deps.tasks.push(TaskNode {
            first_arg,
            args: if keeps { task.args.len().min(0xffff) as u16 } else { 0 },
            ..task.node
        });
        // An id that is used again, as in the next round of a program, means its latest task: the table knows ids only.
        self.index.replace(task.node.id().raw(), at);
        for word in &task.explicit {
            match self.index.get(TaskId::from_word(*word).0.raw()) {
                Some(pred) => self.deps.edges.push(Edge {
                    succ: at,
                    pred: pred as u32,
                    arg: NO_ARG,
                    pred_arg: NO_ARG,
                    source: EdgeSource::Explicit,
                    covered: false,
                    loose: 0,
                }),
                None => quality
                    .note(FindingKind::EdgeWithoutTask, None, || format!("{} waits for task {word}", task.node.id())),
            }
        }
        for record in task.args.iter().take(0xffff) {
            let arg = self.argument(at, &task.node, record, keeps, quality);
            if keeps {
                self.deps.args.push(arg);
            }
        }
    }

    /// Looks an argument of task `at` up. Returns it in the form in which it is kept; nothing if it is not kept.
    fn argument(
        &mut self,
        at: u32,
        task: &TaskNode,
        record: &SubmitRecord,
        keeps: bool,
        quality: &mut Quality,
    ) -> RecordedArg {
        let mode = ArgMode::ALL.get(record.mode as usize).copied().unwrap_or(ArgMode::NoDep);
        let idx = u16::try_from(record.aux).unwrap_or(u16::MAX);
        let view = RecordedView::new(record.ndim, record.shape, record.strides, record.offset);
        let mut arg = RecordedArg {
            offset: record.offset,
            tensor: NO_TENSOR,
            form: if keeps { self.deps.forms.number(&view) } else { 0 },
            idx,
            mode,
            dtype: Dtype::from_u8(record.dtype).unwrap_or(Dtype::User),
        };
        if mode == ArgMode::Scalar {
            return arg;
        }
        if mode == ArgMode::Output {
            match dense_layout(record) {
                Some(layout) => {
                    let buffer_shape = BufferShape::of(&layout);
                    let entry = self.table.add_output(task.id(), idx, &buffer_shape);
                    arg.tensor = self.enter(record, buffer_shape.len(), entry);
                }
                None => {
                    quality.note(FindingKind::BadRecord, None, || format!("an output of {} has no shape", task.id()))
                }
            }
            return arg;
        }
        let buffer = self.buffer_index.get(record.id).map(|at| self.buffers[at]);
        let view = buffer.and_then(|b| Some((b, layout_in(record, &self.table.buffer_shape(b.entry))?)));
        let Some((buffer, layout)) = view else {
            quality.note(FindingKind::BadRecord, None, || {
                format!("argument {idx} of {} is no part of a known buffer", task.id())
            });
            return arg;
        };
        arg.tensor = buffer.tensor;
        if mode.is_inferred() && !task.manual {
            self.look_up(at, task, idx, mode, buffer.entry, &layout, quality);
        }
        arg
    }

    #[allow(clippy::too_many_arguments)]
    fn look_up(
        &mut self,
        at: u32,
        task: &TaskNode,
        idx: u16,
        mode: ArgMode,
        buffer: BufferRef,
        layout: &Layout,
        quality: &mut Quality,
    ) {
        let footprint = Footprint::of(&self.table.buffer_shape(buffer), layout);
        let user = User::new(task.id(), idx, mode.writes());
        let access = BufferUse { user, buffer, footprint: &footprint };
        let (edges, index) = (&mut self.deps.edges, &self.index);
        let first = edges.len();
        let conflict = self.table.access(&access, |edge: graph::Dependency| {
            let Some(pred) = index.get(edge.pred.raw()) else { return true };
            let edge = Edge {
                succ: at,
                pred: pred as u32,
                arg: i16::try_from(idx).unwrap_or(i16::MAX),
                pred_arg: i16::try_from(edge.pred_arg).unwrap_or(i16::MAX),
                source: match edge.source {
                    DependencySource::Explicit => EdgeSource::Explicit,
                    DependencySource::Creator => EdgeSource::Creator,
                    DependencySource::Tensormap => EdgeSource::Tensormap,
                    DependencySource::Reader => EdgeSource::Reader,
                },
                covered: edge.covered,
                loose: 0,
            };
            // A task that used several of the cells that this one touches is met in each of them.
            if !edges[first..].contains(&edge) {
                edges.push(edge);
            }
            true
        });
        if let Err(conflict) = conflict {
            quality.note(FindingKind::BadRecord, None, || {
                format!("arguments {} and {idx} of {} overlap", conflict.with, task.id())
            });
        }
    }
}

impl Pending {
    fn new(record: &SubmitRecord) -> Self {
        let kernel = |slot: usize| i32::try_from(i64::from(record.shape[slot]) - 1).unwrap_or(-1);
        let node = TaskNode {
            word: record.id,
            kernels: [kernel(0), kernel(1), kernel(2)],
            blocks: record.shape[3],
            first_arg: 0,
            args: 0,
            manual: record.mode == 1,
            implied: false,
            any_core: false,
        };
        let (args_to_come, deps_to_come) = (record.shape[4], record.aux);
        Self { node, args_to_come, deps_to_come, args: Vec::new(), explicit: Vec::new() }
    }

    fn is_complete(&self) -> bool {
        self.args_to_come == 0 && self.deps_to_come == 0
    }
}

/// The layout of a whole buffer; none for extents that no buffer has.
fn dense_layout(record: &SubmitRecord) -> Option<Layout> {
    let ndim = record.ndim as usize;
    let shape: Vec<usize> = record.shape.get(..ndim)?.iter().map(|e| *e as usize).collect();
    Layout::dense(&shape).ok()
}

/// The layout of a view, if all of it lies in the buffer.
fn layout_in(record: &SubmitRecord, buffer_shape: &BufferShape) -> Option<Layout> {
    let ndim = record.ndim as usize;
    let layout = Layout::from_parts(ndim, record.shape, record.strides, record.offset)?;
    let mut last = record.offset;
    for (extent, stride) in layout.shape().iter().zip(layout.strides()) {
        let reach = u64::from(extent - 1).checked_mul(u64::try_from(*stride).ok()?)?;
        last = last.checked_add(reach)?;
    }
    (last < buffer_shape.len()).then_some(layout)
}
