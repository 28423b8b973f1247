//! Reader of the reference's `deps.json`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{Dtype, MAX_DIMS};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::number::JsonNumber;
use super::{TraceParts, cycles, read_file};
use crate::deps::{
    Dependencies, Edge, EdgeSource, EdgeViews, NO_ARG, NO_FORM, NO_TENSOR, RecordedArg, RecordedTensor, RecordedView,
    TaskIndex, TaskNode,
};
use crate::model::task_name;
use crate::{CoreClass, Error, Executions, FindingKind, MachineMark, NO_KERNEL, Quality, Trace};

#[derive(Deserialize)]
struct TaskObject<'a> {
    task_id: JsonNumber,
    #[serde(borrow, default)]
    scope: Cow<'a, str>,
    #[serde(default)]
    kernel_ids: Vec<i64>,
    #[serde(borrow, default)]
    core_class: Cow<'a, str>,
    #[serde(default)]
    block_num: JsonNumber,
    #[serde(borrow, default)]
    args: Vec<ArgObject<'a>>,
}

/// As much of a task as names its executions.
#[derive(Deserialize)]
struct KernelsOnly<'a> {
    task_id: JsonNumber,
    #[serde(default)]
    kernel_ids: Vec<i64>,
    #[serde(borrow, default)]
    core_class: Cow<'a, str>,
    #[serde(default)]
    block_num: JsonNumber,
}

#[derive(Deserialize)]
struct ArgObject<'a> {
    #[serde(default)]
    idx: JsonNumber,
    #[serde(borrow, default, rename = "type")]
    mode: Cow<'a, str>,
    tensor_id: Option<JsonNumber>,
    #[serde(borrow, default)]
    dtype: Cow<'a, str>,
    #[serde(default)]
    shape: Vec<JsonNumber>,
    #[serde(default)]
    start_offset: JsonNumber,
    #[serde(default)]
    strides: Vec<i64>,
}

#[derive(Deserialize)]
struct TensorObject<'a> {
    tensor_id: JsonNumber,
    #[serde(default)]
    buffer_addr: JsonNumber,
    #[serde(default)]
    version: JsonNumber,
    #[serde(borrow, default)]
    dtype: Cow<'a, str>,
    #[serde(default)]
    buffer_numel: JsonNumber,
}

#[derive(Deserialize)]
struct EdgeObject<'a> {
    pred: JsonNumber,
    succ: JsonNumber,
    arg: Option<i64>,
    #[serde(borrow, default)]
    source: Cow<'a, str>,
    #[serde(borrow, default)]
    overlap: Cow<'a, str>,
    producer_shape: Option<Vec<JsonNumber>>,
    #[serde(default)]
    producer_start_offset: JsonNumber,
    #[serde(default)]
    producer_strides: Vec<i64>,
    consumer_shape: Option<Vec<JsonNumber>>,
    #[serde(default)]
    consumer_start_offset: JsonNumber,
    #[serde(default)]
    consumer_strides: Vec<i64>,
}

/// As much of an edge as joins two tasks.
#[derive(Deserialize)]
struct ReasonOnly<'a> {
    pred: JsonNumber,
    succ: JsonNumber,
    arg: Option<i64>,
    #[serde(borrow, default)]
    source: Cow<'a, str>,
    #[serde(borrow, default)]
    overlap: Cow<'a, str>,
}

/// An edge before its tasks are found.
struct RawEdge {
    pred: u64,
    succ: u64,
    arg: i16,
    source: EdgeSource,
    covered: bool,
    /// What the two tasks use, where the file says so.
    producer: Option<RawView>,
    consumer: Option<RawView>,
}

/// A view, by the number of its form.
#[derive(Clone, Copy)]
struct RawView {
    offset: u64,
    form: u32,
}

#[derive(Default)]
struct DepsReader {
    deps: Dependencies,
    tensor_by_id: HashMap<u64, u32>,
    /// Tensors in the order that the file describes them, which may not be that of their first use.
    described: Vec<u32>,
    edges: Vec<RawEdge>,
    quality: Quality,
    kernels_only: bool,
    keeps_args: bool,
    /// How ids are made, if the file says so.
    runtime: String,
    /// Whether the file has any of the lists that dependencies are made of.
    is_deps: bool,
    /// Written by us only: what machine the run had.
    mark: MachineMark,
}

/// Reads tasks, arguments and edges; or, where only the kernels of executions are wanted, those alone.
pub(super) fn read(path: &Path, load: TraceParts, trace: &mut Trace) -> Result<(), Error> {
    let bytes = read_file(path)?;
    let mut reading = DepsReader { kernels_only: !load.deps, keeps_args: load.args, ..DepsReader::default() };
    let mut deserializer = serde_json::Deserializer::from_slice(&bytes);
    let parsed = deserializer.deserialize_map(DepsVisitor(&mut reading)).and_then(|()| deserializer.end());
    parsed.map_err(Error::json("dependencies", path))?;
    if !reading.is_deps {
        return Err(Error::other_kind("dependencies", path, "`tasks`, `tensors` or `edges`"));
    }
    reading.mark.note(trace);
    let mut deps = reading.deps;
    order_tensors(&reading.described, &mut deps);
    resolve(reading.edges, &mut deps, &reading.runtime, &mut reading.quality);
    cycles::leave_out(&mut deps, &reading.runtime, &mut reading.quality);
    trace.facts.runtime = reading.runtime;
    trace.quality.take_in(&reading.quality, path);
    trace.deps = Some(deps);
    Ok(())
}

/// Puts tensors in the order of the file, those it only mentions last.
fn order_tensors(described: &[u32], deps: &mut Dependencies) {
    let mut place = vec![NO_TENSOR; deps.tensors.len()];
    let mut tensors = Vec::with_capacity(deps.tensors.len());
    let all = described.iter().copied().chain(0..deps.tensors.len() as u32);
    for at in all {
        if place[at as usize] == NO_TENSOR {
            place[at as usize] = tensors.len() as u32;
            tensors.push(deps.tensors[at as usize]);
        }
    }
    deps.tensors = tensors;
    for arg in deps.args.iter_mut().filter(|arg| arg.tensor != NO_TENSOR) {
        arg.tensor = place[arg.tensor as usize];
    }
}

/// Turns the ids of edges into indices. A task that only edges name is one that allocates: it gets a node of its own. Of a
/// task that the file has twice the first description is kept.
fn resolve(edges: Vec<RawEdge>, deps: &mut Dependencies, runtime: &str, quality: &mut Quality) {
    let mut index = TaskIndex::with_room_for(deps.tasks.iter().map(|task| task.word));
    let mut known = 0;
    deps.tasks.retain(|task| {
        let is_new = index.get(task.word).is_none();
        if is_new {
            index.insert(task.word, known);
            known += 1;
        } else {
            quality.note(FindingKind::DuplicateTask, None, || task_name(runtime, task.word));
        }
        is_new
    });
    deps.edges.reserve_exact(edges.len());
    for edge in edges {
        let mut find = |word: u64| match index.get(word) {
            Some(at) => at as u32,
            None => {
                let at = deps.tasks.len() as u32;
                index.insert(word, at);
                deps.tasks.push(TaskNode::implied(word));
                at
            }
        };
        let (pred, succ) = (find(edge.pred), find(edge.succ));
        if pred == succ {
            quality.note(FindingKind::SelfEdge, None, || task_name(runtime, deps.tasks[pred as usize].word));
            continue;
        }
        let RawEdge { arg, source, covered, .. } = edge;
        let (pred_arg, loose) = attach_views(&edge, pred, succ, deps);
        deps.edges.push(Edge { succ, pred, arg, pred_arg, source, covered, loose });
    }
}

/// Most edges of one argument between two tasks whose views are no argument's: tasks have fewer arguments.
const MOST_LOOSE: u8 = 64;

/// Finds the producer's argument among those of its task: the one of the same buffer with the view that the edge tells. Views that
/// are no argument's are kept with the edge.
fn attach_views(edge: &RawEdge, pred: u32, succ: u32, deps: &mut Dependencies) -> (i16, u8) {
    if edge.producer.is_none() && edge.consumer.is_none() {
        return (NO_ARG, 0);
    }
    let is_view = |arg: &RecordedArg, view: RawView| (arg.offset, arg.form) == (view.offset, view.form);
    let args = |task: u32| deps.args_of(&deps.tasks[task as usize]);
    let buffer = |arg: &RecordedArg| deps.tensors.get(arg.tensor as usize).map(|tensor| tensor.buffer);
    let own = args(succ).iter().find(|arg| i32::from(arg.idx) == i32::from(edge.arg));
    let theirs = edge.producer.and_then(|view| {
        let of_buffer = |arg: &&RecordedArg| own.is_none_or(|own| buffer(own) == buffer(arg));
        args(pred).iter().filter(of_buffer).find(|arg| is_view(arg, view))
    });
    let found = theirs.and_then(|arg| i16::try_from(arg.idx).ok());
    let view = |raw: RawView| RecordedView { offset: raw.offset, ..deps.forms.get(raw.form) };
    let loose = EdgeViews {
        producer: edge.producer.filter(|_| found.is_none()).map(view),
        consumer: edge.consumer.filter(|_| own.is_none()).map(view),
    };
    let pred_arg = found.unwrap_or(NO_ARG);
    if loose == EdgeViews::default() {
        return (pred_arg, 0);
    }
    let is_free = |number: u8| !deps.loose_views.contains_key(&(pred, succ, edge.arg, number));
    // Where there are more edges than that, the rest tell nothing of what they use.
    let number = if is_free(MOST_LOOSE) { (1..=MOST_LOOSE).find(|number| is_free(*number)) } else { None };
    if let Some(number) = number {
        deps.loose_views.insert((pred, succ, edge.arg, number), loose);
    }
    (pred_arg, number.unwrap_or(0))
}

/// Gives executions their kernels: the rows of the newest form do not carry them, tasks do, by core type.
pub(super) fn name_kernels(trace: &mut Trace) {
    let (Some(deps), runtime) = (&trace.deps, &trace.facts.runtime) else { return };
    if trace.executions.is_empty() {
        return;
    }
    let index = deps.index();
    let (cores, quality) = (&trace.cores, &mut trace.quality);
    note_counts(deps, &index, &trace.executions, runtime, quality);
    // A file that tells no kernels at all contradicts nothing.
    let tells_kernels = deps.tasks.iter().any(|task| task.kernels != [-1; 3]);
    trace.executions.fill_kernels(|word, core| {
        let Some(task) = index.of_execution(word).map(|at| &deps.tasks[at]) else { return NO_KERNEL };
        let [aic, aiv0, aiv1] = task.kernels;
        // Which of the two vector cores a row is from is not in the file; the reference takes the first. The workers of a
        // CPU run are written as vector cores and run kernels of every class.
        let class = cores.get(core as usize).map_or(CoreClass::Any, |c| c.core_type);
        let none = task.kernels == [-1; 3] && !task.implied;
        let is_other = class == CoreClass::Aic && aic < 0 && !task.any_core;
        if tells_kernels && (none || is_other && !task.implied) {
            quality.note(FindingKind::NoKernelForCore, None, || {
                format!("{} on {} core {core}", task_name(runtime, task.word), class.name())
            });
        }
        let slots = match class {
            CoreClass::Aiv => [aiv0, aiv1, aic],
            CoreClass::Aic | CoreClass::Any => [aic, aiv0, aiv1],
        };
        slots.into_iter().find_map(|kernel| u32::try_from(kernel).ok()).unwrap_or(NO_KERNEL)
    });
}

/// Notes executions of tasks that are not there, and tasks with more of them than they asked for. A graph that is told once holds in every
/// epoch, and the rows of each epoch are counted by themselves.
fn note_counts(deps: &Dependencies, index: &TaskIndex, executions: &Executions, runtime: &str, quality: &mut Quality) {
    let words = || (0..executions.len()).map(|at| executions.word(at));
    let mut later = TaskIndex::with_room_for(words().filter(|word| index.get(*word).is_none()));
    // Of each task: its word, its place in the graph and its rows. Those of the graph itself come first.
    let mut counts: Vec<(u64, u32, u32)> = deps.tasks.iter().zip(0..).map(|(task, at)| (task.word, at, 0)).collect();
    let mut absent = 0;
    for word in words() {
        let known = index.get(word).or_else(|| later.get(word)).or_else(|| {
            let task = index.of_execution(word)?;
            later.insert(word, counts.len() as u32);
            counts.push((word, task as u32, 0));
            Some(counts.len() - 1)
        });
        match known {
            Some(at) => counts[at].2 += 1,
            None => absent += 1,
        }
    }
    quality.note_many(FindingKind::TaskNotInDeps, None, absent, String::new);
    for (word, at, rows) in counts {
        let task = &deps.tasks[at as usize];
        if !task.implied && u64::from(rows) > task.executions().max(1) {
            quality.note(FindingKind::MoreRowsThanDispatches, None, || {
                format!("{} has {rows} rows and asked for {}", task_name(runtime, word), task.executions())
            });
        }
    }
}

impl DepsReader {
    fn task(&mut self, task: TaskObject<'_>) {
        let kernel = |slot: usize| task.kernel_ids.get(slot).and_then(|k| i32::try_from(*k).ok()).unwrap_or(-1);
        let any_core = task.core_class == "any";
        let first_arg = self.deps.args.len() as u32;
        let args = task.args.len().min(u16::MAX as usize) as u16;
        for arg in task.args.iter().take(args as usize) {
            let arg = self.arg(arg);
            self.deps.args.push(arg);
        }
        self.deps.tasks.push(TaskNode {
            word: task.task_id.0,
            // One kernel, which the file has in two slots.
            kernels: [if any_core { -1 } else { kernel(0) }, kernel(1), kernel(2)],
            blocks: u32::try_from(task.block_num.0).unwrap_or(u32::MAX),
            first_arg,
            args,
            manual: task.scope == "manual",
            implied: false,
            any_core,
        });
    }

    fn arg(&mut self, arg: &ArgObject<'_>) -> RecordedArg {
        let mode = ArgMode::ALL.into_iter().find(|m| m.reference_name() == arg.mode);
        if mode.is_none() {
            self.quality.note(FindingKind::UnknownName, None, || format!("argument type {:?}", arg.mode));
        }
        let view = view(&arg.shape, &arg.strides, arg.start_offset.0);
        RecordedArg {
            offset: arg.start_offset.0,
            form: view.map_or(NO_FORM, |view| self.deps.forms.number(&view)),
            tensor: arg.tensor_id.map_or(NO_TENSOR, |id| self.tensor(id.0)),
            idx: u16::try_from(arg.idx.0).unwrap_or(u16::MAX),
            mode: mode.unwrap_or(ArgMode::NoDep),
            dtype: self.dtype(&arg.dtype),
        }
    }

    fn dtype(&mut self, name: &str) -> Dtype {
        let known = Dtype::ALL.into_iter().find(|d| d.reference_name() == name);
        if known.is_none() && !name.is_empty() {
            self.quality.note(FindingKind::UnknownName, None, || format!("element type {name:?}"));
        }
        known.unwrap_or(Dtype::User)
    }

    /// A tensor's index; arguments may name it before the file describes it.
    fn tensor(&mut self, id: u64) -> u32 {
        *self.tensor_by_id.entry(id).or_insert_with(|| {
            self.deps.tensors.push(RecordedTensor { id, buffer: 0, version: 0, dtype: Dtype::User, numel: 0 });
            self.deps.tensors.len() as u32 - 1
        })
    }

    fn describe(&mut self, tensor: TensorObject<'_>) {
        let at = self.tensor(tensor.tensor_id.0) as usize;
        self.described.push(at as u32);
        self.deps.tensors[at] = RecordedTensor {
            id: tensor.tensor_id.0,
            buffer: tensor.buffer_addr.0,
            version: tensor.version.0 as u32,
            dtype: self.dtype(&tensor.dtype),
            numel: tensor.buffer_numel.0,
        };
    }

    fn edge(&mut self, edge: EdgeObject<'_>) {
        let EdgeObject { pred, succ, arg, source, overlap, .. } = edge;
        self.reason(ReasonOnly { pred, succ, arg, source, overlap });
        let Some(last) = self.edges.last_mut() else { return };
        // Edges for other reasons are needed whatever is used.
        if !matches!(last.source, EdgeSource::Tensormap | EdgeSource::Reader) {
            return;
        }
        let forms = &mut self.deps.forms;
        let mut raw = |shape: Option<Vec<JsonNumber>>, strides: &[i64], offset: JsonNumber| {
            let view = view(&shape?, strides, offset.0)?;
            Some(RawView { offset: view.offset, form: forms.number(&view) })
        };
        last.producer = raw(edge.producer_shape, &edge.producer_strides, edge.producer_start_offset);
        last.consumer = raw(edge.consumer_shape, &edge.consumer_strides, edge.consumer_start_offset);
    }

    fn reason(&mut self, edge: ReasonOnly<'_>) {
        let source = EdgeSource::from_name(&edge.source);
        if source.is_none() {
            self.quality.note(FindingKind::UnknownName, None, || format!("edge source {:?}", edge.source));
        }
        self.edges.push(RawEdge {
            pred: edge.pred.0,
            succ: edge.succ.0,
            arg: edge.arg.and_then(|a| i16::try_from(a).ok()).unwrap_or(NO_ARG),
            source: source.unwrap_or(EdgeSource::Fanout),
            covered: edge.overlap == "covered",
            producer: None,
            consumer: None,
        });
    }
}

/// A view; nothing for one with more dimensions or larger extents or strides than views can have here.
fn view(shape: &[JsonNumber], strides: &[i64], offset: u64) -> Option<RecordedView> {
    if shape.len().max(strides.len()) > MAX_DIMS {
        return None;
    }
    let mut view = RecordedView { offset, ndim: shape.len() as u8, ..RecordedView::default() };
    for (to, from) in view.shape.iter_mut().zip(shape) {
        *to = u32::try_from(from.0).ok()?;
    }
    for (to, from) in view.strides.iter_mut().zip(strides) {
        *to = i32::try_from(*from).ok()?;
    }
    Some(view)
}

struct DepsVisitor<'r>(&'r mut DepsReader);

impl<'de> Visitor<'de> for DepsVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tasks, tensors and edges")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let reading = self.0;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            reading.is_deps |= matches!(key.as_ref(), "tasks" | "tensors" | "edges");
            match key.as_ref() {
                "tasks" if !reading.keeps_args => {
                    map.next_value_seed(List(&mut |task: KernelsOnly<'de>| {
                        let KernelsOnly { task_id, kernel_ids, core_class, block_num } = task;
                        let (scope, args) = ("".into(), Vec::new());
                        reading.task(TaskObject { task_id, scope, kernel_ids, core_class, block_num, args });
                    }))?;
                }
                "tensors" if !reading.keeps_args => {
                    map.next_value::<IgnoredAny>()?;
                }
                "edges" if reading.kernels_only => {
                    map.next_value::<IgnoredAny>()?;
                }
                "tasks" => map.next_value_seed(List(&mut |task: TaskObject<'de>| reading.task(task)))?,
                "tensors" => map.next_value_seed(List(&mut |tensor: TensorObject<'de>| reading.describe(tensor)))?,
                "edges" if !reading.keeps_args => {
                    map.next_value_seed(List(&mut |edge: ReasonOnly<'de>| reading.reason(edge)))?;
                }
                "edges" => map.next_value_seed(List(&mut |edge: EdgeObject<'de>| reading.edge(edge)))?,
                "runtime" => reading.runtime = map.next_value::<Option<String>>()?.unwrap_or_default(),
                "virtual" => reading.mark.virtual_time = map.next_value::<Value>()? == true,
                "emulated" => reading.mark.emulated = map.next_value::<Value>()? == true,
                "arch" => {
                    reading.mark.arch = map.next_value::<Value>()?.as_str().unwrap_or_default().to_owned();
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A list of objects, each given to a function.
struct List<'f, T>(&'f mut dyn FnMut(T));

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for List<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(item) = seq.next_element::<T>()? {
            (self.0)(item);
        }
        Ok(())
    }
}
