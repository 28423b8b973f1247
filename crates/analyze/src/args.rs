//! Captured arguments: which there are, what is in them, who made the first NaN, and where two runs part.
//!
//! Elements are read from their file as they are asked for, one tensor at a time: a dump may be larger than memory.

use std::collections::HashMap;

use plimsoll_abi::TaskId;
use plimsoll_trace::{ArgRole, ArgStage, ArgsDump, DumpedArg, ElementForm, Error};
use serde::Serialize;

/// Captured arguments, and what was asked of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ArgsAnswer {
    /// What the dump was asked to hold: 1 marked arguments, 2 everything, 3 everything with the elements of marked ones.
    pub dump_args_level: u64,
    /// The arguments, in the order in which their tasks were submitted.
    pub args: Vec<ArgRow>,
    /// The first task that made a NaN.
    pub first_nan: Option<FirstNan>,
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
    /// Whether fewer elements were captured than there are.
    pub truncated: bool,
    /// Whether its elements were captured.
    pub captured: bool,
    /// A plain value.
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
    /// Inputs of the task whose elements were not captured, so that nobody knows whether they were finite.
    pub inputs_unknown: u64,
}

/// The first task whose outputs differ though its inputs are the same.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ArgsDifference {
    /// Tasks whose outputs were compared.
    pub compared_tasks: u64,
    /// Tasks that only one of the two runs has.
    pub unmatched_tasks: u64,
    /// Tasks whose inputs differ: what they made of them says nothing.
    pub other_inputs: u64,
    /// The first task whose outputs differ, if there is one.
    pub first: Option<FirstDifference>,
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
    /// The place of the first one, by dimension.
    pub at: Vec<u64>,
    /// The first element that differs, in this run and in the other.
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
        truncated: arg.truncated,
        captured: arg.is_scalar || dump.has_elements(arg),
        value: arg.value.clone(),
        stats: known.filter(|_| stats).map(|(bytes, form)| ElementStats::of(form, bytes)),
        values: known
            .filter(|_| values > 0)
            .map(|(bytes, form)| form.numbers(bytes).take(values).map(json_number).collect()),
    })
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

fn is_read(arg: &DumpedArg) -> bool {
    arg.stage == ArgStage::BeforeDispatch && arg.role != ArgRole::Output
}

fn is_made(arg: &DumpedArg) -> bool {
    arg.stage == ArgStage::AfterCompletion && arg.role != ArgRole::Input
}

/// The first task that made a NaN, or with `inf` a NaN or Inf, out of inputs without.
///
/// # Errors
/// If elements cannot be read.
pub fn first_nan(dump: &ArgsDump, inf: bool) -> Result<Option<FirstNan>, Error> {
    for ((round, task), args) in dumped_tasks(dump) {
        let Some(mut found) = bad_output(dump, &args, inf)? else { continue };
        let mut spoilt = false;
        for input in args.iter().filter(|arg| is_read(arg) && !arg.is_scalar) {
            match (dump.bytes(input)?, input.form()) {
                (Some(bytes), Some(form)) => spoilt |= first_bad(form, &bytes, inf).is_some(),
                _ => found.inputs_unknown += 1,
            }
        }
        if !spoilt {
            (found.task, found.round) = (task.to_string(), round);
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn bad_output(dump: &ArgsDump, args: &[&DumpedArg], inf: bool) -> Result<Option<FirstNan>, Error> {
    for arg in args.iter().filter(|arg| is_made(arg)) {
        let Some((bytes, form)) = dump.bytes(arg)?.zip(arg.form()).filter(|(_, form)| form.is_float()) else {
            continue;
        };
        let Some((place, number)) = first_bad(form, &bytes, inf) else { continue };
        let count = form.numbers(&bytes).filter(|number| is_bad(*number, inf)).count() as u64;
        return Ok(Some(FirstNan {
            task: String::new(),
            round: 0,
            kernel: arg.kernel.clone(),
            index: arg.index,
            what: if number.is_nan() { "nan" } else { "inf" },
            at: coordinates(place, &arg.shape),
            count,
            inputs_unknown: 0,
        }));
    }
    Ok(None)
}

fn is_bad(number: f64, inf: bool) -> bool {
    number.is_nan() || inf && number.is_infinite()
}

fn first_bad(form: ElementForm, bytes: &[u8], inf: bool) -> Option<(u64, f64)> {
    let mut numbers = form.numbers(bytes).enumerate();
    numbers.find(|(_, number)| is_bad(*number, inf)).map(|(at, number)| (at as u64, number))
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

/// Where two runs of one program part: the first task, in the order of submits, whose outputs differ though its inputs are
/// the same.
///
/// # Errors
/// If elements cannot be read.
pub fn args_diff(here: &ArgsDump, there: &ArgsDump) -> Result<ArgsDifference, Error> {
    let others: HashMap<TaskKey, Vec<&DumpedArg>> = dumped_tasks(there).into_iter().collect();
    let tasks = dumped_tasks(here);
    let matched = tasks.iter().filter(|(key, _)| others.contains_key(key)).count() as u64;
    let unmatched_tasks = tasks.len() as u64 + others.len() as u64 - 2 * matched;
    let mut answer = ArgsDifference { compared_tasks: 0, unmatched_tasks, other_inputs: 0, first: None };
    for (key, args) in &tasks {
        let Some(other) = others.get(key) else { continue };
        answer.compared_tasks += 1;
        let pairs = |wanted: fn(&DumpedArg) -> bool| {
            args.iter().filter(move |arg| wanted(arg)).filter_map(|arg| {
                let like = |other: &&&DumpedArg| (other.index, other.stage) == (arg.index, arg.stage);
                other.iter().find(like).map(|other| (*arg, *other))
            })
        };
        let mut same_inputs = true;
        for (a, b) in pairs(is_read) {
            same_inputs &= a.value == b.value && here.bytes(a)? == there.bytes(b)?;
        }
        let mut differs = None;
        for (a, b) in pairs(is_made) {
            let (Some(mine), Some(theirs)) = (here.bytes(a)?, there.bytes(b)?) else { continue };
            if let Some(difference) = difference(a, &mine, &theirs) {
                differs = Some(difference);
                break;
            }
        }
        answer.other_inputs += u64::from(!same_inputs);
        if same_inputs && differs.is_some() {
            answer.first = differs;
            break;
        }
    }
    Ok(answer)
}

/// How the elements of an argument differ from others of the same shape; nothing if they do not.
pub fn difference(arg: &DumpedArg, mine: &[u8], theirs: &[u8]) -> Option<FirstDifference> {
    if mine == theirs {
        return None;
    }
    let size = arg.form().map_or(1, ElementForm::bytes);
    let unequal = |(a, b): &(&[u8], &[u8])| a != b;
    let chunks = || mine.chunks_exact(size).zip(theirs.chunks_exact(size));
    let length = mine.len().abs_diff(theirs.len()) / size;
    let elements = chunks().filter(unequal).count() as u64 + length as u64;
    let place = chunks().position(|pair| unequal(&pair)).unwrap_or(mine.len().min(theirs.len()) / size) as u64;
    let numbers = arg.form().map(|form| (form.numbers(mine), form.numbers(theirs)));
    let (values, max_abs) = numbers.map_or((None, None), |(a, b)| {
        let pairs: Vec<(f64, f64)> = a.zip(b).collect();
        let differing = pairs.iter().filter(|(a, b)| a != b);
        let finite = differing.map(|(a, b)| (a - b).abs()).filter(|distance| distance.is_finite());
        (pairs.get(place as usize).map(|(a, b)| [*a, *b]), finite.reduce(f64::max))
    });
    Some(FirstDifference {
        task: arg.task.to_string(),
        round: arg.round,
        kernel: arg.kernel.clone(),
        index: arg.index,
        elements,
        of: (mine.len().max(theirs.len()) / size) as u64,
        at: if arg.form().is_some() { coordinates(place, &arg.shape) } else { vec![place] },
        values,
        max_abs,
    })
}
