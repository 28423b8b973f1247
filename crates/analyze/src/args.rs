//! Captured arguments: which there are, what is in them, who made the first NaN, and where two runs part.
//!
//! Elements are read from their file as they are asked for, one tensor at a time: a dump may be larger than memory.
//!
//! What was not captured is not known: it is never taken for equal, nor for finite, and every answer counts it.

mod diff;
mod nan;

pub use diff::{args_diff, difference};
pub use nan::first_nan;

use std::collections::{BTreeSet, HashMap};

use plimsoll_abi::TaskId;
use plimsoll_abi::record::Truncation;
use plimsoll_trace::{ArgRole, ArgStage, ArgsDump, DumpedArg, ElementForm, Error};
use serde::{Serialize, Serializer};

/// Captured arguments, and what was asked of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ArgsAnswer {
    /// What the dump was asked to hold: 1 marked arguments, 2 everything, 3 everything with the elements of marked ones.
    pub dump_args_level: u64,
    /// The arguments, in the order in which their tasks were submitted.
    pub args: Vec<ArgRow>,
    /// The first task that made a NaN.
    pub first_nan: Option<FirstNan>,
    /// How much was searched for it.
    pub nan_search: Option<NanSearch>,
    /// The first task whose outputs differ from those of another run.
    pub diff: Option<ArgsDifference>,
    /// One task that was run again.
    pub replay: Option<ArgsReplay>,
    /// What is missing from the dump, or not understood.
    pub notes: Vec<String>,
}

/// One captured argument.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ArgRow {
    /// The task, as `r2t17`.
    pub task: String,
    /// Its round.
    pub round: u32,
    /// Its kernel.
    pub kernel: String,
    /// Which of its arguments.
    pub index: u32,
    /// `input`, `output` or `inout`.
    pub role: ArgRole,
    /// `before_dispatch` or `after_completion`.
    pub stage: ArgStage,
    /// `tensor` or `scalar`.
    pub kind: &'static str,
    /// As `f32`.
    pub dtype: String,
    /// Extents.
    pub shape: Vec<u64>,
    /// Steps between its elements where the task saw them, by dimension, in elements.
    pub strides: Vec<i64>,
    /// Where it began in its buffer, in elements; absent of a plain value, and where submits were not recorded.
    pub start_offset: Option<u64>,
    /// Whether fewer elements were captured than there are, though they were asked for.
    pub truncated: bool,
    /// Why: `limit` (more bytes were not asked for), `element_size` (the size of an element is not known) or `no_dep` (another
    /// task may write it while it would be copied).
    pub truncation: Option<&'static str>,
    /// Whether its elements were captured.
    pub captured: bool,
    /// A plain value: a number, a truth value, or `"NaN"`, `"Inf"`, `"-Inf"`.
    pub value: Option<serde_json::Value>,
    /// What its elements are like, if that was asked for and their type is known.
    pub stats: Option<ElementStats>,
    /// The first elements, if they were asked for: numbers, or `"NaN"`, `"Inf"`, `"-Inf"`.
    pub values: Option<Vec<serde_json::Value>>,
}

/// What the elements of a tensor are like.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct ElementStats {
    /// Elements.
    pub count: u64,
    /// The least finite one.
    pub min: Option<f64>,
    /// The greatest finite one.
    pub max: Option<f64>,
    /// The mean of the finite ones.
    pub mean: Option<f64>,
    /// How many are no numbers.
    pub nan: u64,
    /// How many are infinite.
    pub inf: u64,
}

impl ElementStats {
    /// The statistics of these elements.
    pub fn of(form: ElementForm, bytes: &[u8]) -> Self {
        let mut stats = Self::default();
        let mut sum = 0.0;
        for number in form.numbers(bytes) {
            stats.count += 1;
            if number.is_nan() {
                stats.nan += 1;
            } else if number.is_infinite() {
                stats.inf += 1;
            } else {
                sum += number;
                stats.min = Some(stats.min.map_or(number, |min| min.min(number)));
                stats.max = Some(stats.max.map_or(number, |max| max.max(number)));
            }
        }
        let finite = stats.count - stats.nan - stats.inf;
        stats.mean = (finite > 0).then(|| sum / finite as f64);
        stats
    }
}

/// The first task that made a NaN (or Inf) out of finite inputs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FirstNan {
    /// The task.
    pub task: String,
    /// Its round.
    pub round: u32,
    /// Its kernel.
    pub kernel: String,
    /// The argument that has it.
    pub index: u32,
    /// `nan` or `inf`.
    pub what: &'static str,
    /// The place of the first one, by dimension.
    pub at: Vec<u64>,
    /// How many there are in the argument.
    pub count: u64,
    /// Inputs of the task whose elements were not captured, or not all, so that nobody knows whether they were finite.
    pub inputs_unknown: u64,
    /// Whether it may have inputs that are not in the dump, since only marked arguments were captured.
    pub may_lack_inputs: bool,
}

/// How much was searched for a NaN: the tasks up to the one that was found, else all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct NanSearch {
    /// Tasks whose captured outputs were searched completely.
    pub searched_tasks: u64,
    /// Tasks with an output that was captured in part only, or whose elements have an unknown type.
    pub not_searched: u64,
    /// Tasks among `not_searched` without any output that could be searched.
    pub nothing_searched: u64,
}

/// The first task whose outputs differ though its inputs are the same.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ArgsDifference {
    /// Tasks whose outputs were compared completely. This count and the next two are of the tasks up to the first that differs.
    pub compared_tasks: u64,
    /// Tasks with an output that at least one of the runs did not capture completely.
    pub not_compared: u64,
    /// Tasks among `not_compared` without any output that could be compared.
    pub nothing_compared: u64,
    /// Tasks that only one of the two runs has.
    pub unmatched_tasks: u64,
    /// Tasks that ran another kernel in the other run: they are not compared.
    pub other_kernels: u64,
    /// Tasks whose inputs differ. Their outputs may differ for that reason, so such a task is never the first difference.
    pub other_inputs: u64,
    /// Tasks with equal outputs and an input that at least one of the runs did not capture completely.
    pub unknown_inputs: u64,
    /// The first task whose outputs differ, if there is one.
    pub first: Option<FirstDifference>,
    /// Inputs of that task that were not captured as a whole in both runs, so that nobody knows whether they are the same.
    pub first_inputs_unknown: u64,
    /// Whether that task may have inputs that are not in the dumps, since only marked arguments were captured.
    pub first_may_lack_inputs: bool,
}

/// How much an output differs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FirstDifference {
    /// The task.
    pub task: String,
    /// Its round.
    pub round: u32,
    /// Its kernel.
    pub kernel: String,
    /// The argument.
    pub index: u32,
    /// Elements that differ; bytes where the type is not known.
    pub elements: u64,
    /// Elements that were compared; bytes where the type is not known.
    pub of: u64,
    /// Its type and shape in this run and in the other, if those differ; then no element was compared.
    pub forms: Option<[String; 2]>,
    /// The place of the first one, by dimension.
    pub at: Vec<u64>,
    /// The first element that differs, in this run and in the other: a number, or `"NaN"`, `"Inf"`, `"-Inf"`.
    #[serde(serialize_with = "numbers_or_words")]
    pub values: Option<[f64; 2]>,
    /// The greatest distance between two elements that differ; none if none of those pairs are two finite numbers.
    pub max_abs: Option<f64>,
}

/// One task that was run again on its captured inputs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ArgsReplay {
    /// The task.
    pub task: String,
    /// Its round.
    pub round: u32,
    /// Its kernel.
    pub kernel: String,
    /// Whether all outputs are what was captured, bit by bit.
    pub same: bool,
    /// The first output that is not.
    pub first: Option<FirstDifference>,
    /// Written arguments of which only the state before the task was captured, because it had not completed: they are not compared.
    pub not_compared: u64,
    /// Elements of outputs that the kernel leaves as they were: what was there before is not known, and they are not compared.
    pub unwritten: u64,
    /// How often it was run.
    pub times: u64,
    /// The least time of its kernel, in nanoseconds.
    pub min_ns: Option<u64>,
    /// The median.
    pub median_ns: Option<u64>,
}

/// A task of one round.
type TaskKey = (u32, TaskId);

/// The tasks of a dump in its order, each with its arguments.
pub fn dumped_tasks(dump: &ArgsDump) -> Vec<(TaskKey, Vec<&DumpedArg>)> {
    let mut places: HashMap<TaskKey, usize> = HashMap::new();
    let mut tasks: Vec<(TaskKey, Vec<&DumpedArg>)> = Vec::new();
    for arg in &dump.args {
        let key = (arg.round, arg.task);
        let at = *places.entry(key).or_insert_with(|| {
            tasks.push((key, Vec::new()));
            tasks.len() - 1
        });
        tasks[at].1.push(arg);
    }
    tasks
}

/// One argument as a row, with what was asked for of its elements.
///
/// # Errors
/// If the elements cannot be read.
pub fn arg_row(dump: &ArgsDump, arg: &DumpedArg, stats: bool, values: usize) -> Result<ArgRow, Error> {
    let bytes = if stats || values > 0 { dump.bytes(arg)? } else { None };
    let known = bytes.as_ref().zip(arg.form());
    Ok(ArgRow {
        task: arg.task.to_string(),
        round: arg.round,
        kernel: arg.kernel.clone(),
        index: arg.index,
        role: arg.role,
        stage: arg.stage,
        kind: if arg.is_scalar { "scalar" } else { "tensor" },
        dtype: arg.dtype.clone(),
        shape: arg.shape.clone(),
        strides: arg.strides.clone(),
        start_offset: arg.start_offset,
        truncated: arg.truncation.is_some(),
        truncation: arg.truncation.map(Truncation::name),
        captured: arg.is_scalar || dump.has_elements(arg),
        value: match arg.scalar_float() {
            Some(number) if !number.is_finite() => Some(json_number(number)),
            _ => arg.value.clone(),
        },
        stats: known.filter(|_| stats).map(|(bytes, form)| ElementStats::of(form, bytes)),
        values: known
            .filter(|_| values > 0)
            .map(|(bytes, form)| form.numbers(bytes).take(values).map(json_number).collect()),
    })
}

fn numbers_or_words<S: Serializer>(values: &Option<[f64; 2]>, out: S) -> Result<S::Ok, S::Error> {
    values.map(|values| values.map(json_number)).serialize(out)
}

/// A number as JSON; NaN and infinities, which JSON does not have, as text.
fn json_number(number: f64) -> serde_json::Value {
    if number.is_nan() {
        "NaN".into()
    } else if number.is_infinite() {
        (if number > 0.0 { "Inf" } else { "-Inf" }).into()
    } else {
        number.into()
    }
}

/// The number of an argument, and which it is of those that a task uses alike under this number. The reference gives one number to
/// several arguments where it cannot tell them apart (`arg_index_ambiguous`).
type ArgPlace = (u32, usize);

/// What a task does with an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Written,
}

impl Use {
    /// Whether a task uses an argument like that, whatever was captured of it.
    fn is_of(self, arg: &DumpedArg) -> bool {
        if self == Use::Read { arg.role.reads() } else { arg.role.writes() }
    }

    /// What was captured of it: before the task what it read, after it what it made.
    fn shows(self, arg: &DumpedArg) -> bool {
        let stage = if self == Use::Read { ArgStage::BeforeDispatch } else { ArgStage::AfterCompletion };
        self.is_of(arg) && arg.stage == stage
    }

    /// The places of all arguments of a task that are used like that, in order.
    fn places(self, args: &[&DumpedArg]) -> BTreeSet<ArgPlace> {
        let mut seen: HashMap<(u32, ArgStage), usize> = HashMap::new();
        let used = args.iter().filter(|arg| self.is_of(arg));
        used.map(|arg| {
            let among = seen.entry((arg.index, arg.stage)).or_default();
            *among += 1;
            (arg.index, *among - 1)
        })
        .collect()
    }

    /// What was captured of the argument at this place.
    fn find<'d>(self, args: &[&'d DumpedArg], (index, among): ArgPlace) -> Option<&'d DumpedArg> {
        args.iter().filter(|arg| self.shows(arg) && arg.index == index).nth(among).copied()
    }
}

/// The place of an element in a dense tensor.
fn coordinates(mut place: u64, shape: &[u64]) -> Vec<u64> {
    let mut at: Vec<u64> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let here = place % extent.max(1);
            place /= extent.max(1);
            here
        })
        .collect();
    at.reverse();
    at
}

/// The elements of a captured tensor, as far as there are any.
enum Held {
    /// All elements.
    Whole(Vec<u8>),
    /// The first ones.
    Part(Vec<u8>),
    /// No element was captured.
    Nothing,
}

impl Held {
    fn of(dump: &ArgsDump, arg: &DumpedArg) -> Result<Self, Error> {
        if arg.is_empty() || arg.is_scalar {
            return Ok(Held::Whole(Vec::new()));
        }
        let Some(bytes) = dump.bytes(arg)? else { return Ok(Held::Nothing) };
        let whole = arg.form().map(|form| arg.len().saturating_mul(form.bytes() as u64));
        let is_short = arg.truncation.is_some() || whole.is_some_and(|whole| (bytes.len() as u64) < whole);
        Ok(if is_short { Held::Part(bytes) } else { Held::Whole(bytes) })
    }
}

/// Arguments of a task of which nothing is in the dump, though arguments with higher numbers are.
fn left_out(args: &[&DumpedArg]) -> u64 {
    let numbers: BTreeSet<u32> = args.iter().map(|arg| arg.index).collect();
    numbers.last().map_or(0, |last| u64::from(*last) + 1 - numbers.len() as u64)
}

/// Whether a task may have inputs that are not in the dump: only marked arguments were captured, or no input at all by a dump
/// that does not say what it was asked to hold.
fn may_lack_inputs(dump: &ArgsDump, args: &[&DumpedArg]) -> bool {
    dump.level == 1 || dump.level == 0 && !args.iter().any(|arg| Use::Read.is_of(arg))
}
