//! One captured task run again: its kernel alone, on the inputs that it saw; what it makes is compared with what it made.
//!
//! The task is submitted to a device that has the kernels of the run, through the untyped tier, which checks the captured
//! arguments against the kernel's signature. Tensors have the strides that they had.
//!
//! What an output held before a kernel wrote it is not captured. So where an output differs, the task is run once more over
//! another filling: elements that show the filling both times were not written, and are not compared.
//!
//! A task that failed, or still ran when its run ended, can be run again if it makes no tensor of its own: nothing was captured of
//! what it made, so nothing is compared, and whoever asks sees whether its kernel fails again.
//!
//! ```
//! use plimsoll::record::{Flags, RecordOptions};
//! use plimsoll::replay::{ReplayRequest, replay};
//! use plimsoll::trace::ArgsDump;
//! use plimsoll::{Device, In, Out, RunOptions, input, output};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! # let (dir, scratch) = (place.path().join("run"), place.path().join("scratch"));
//! let mut device = Device::builder().workers(2).open()?;
//! let double = device.kernel("double", |x: In<f32>, mut y: Out<f32>| (0..x.len()).for_each(|i| y[[i]] = 2.0 * x[[i]]));
//! let record = RecordOptions::new(&dir, Flags::TENSOR_DUMP);
//! device.run_with(&RunOptions { record: Some(record), ..RunOptions::default() }, |o| {
//!     let x = o.own(vec![1.5; 16], [16])?;
//!     o.submit(&double, (input(&x), output([16]))).map(drop)
//! })?;
//!
//! let dump = ArgsDump::open(&dir)?;
//! let task = dump.args.first().ok_or("the task was captured")?.task;
//! let options = RunOptions::default();
//! let request = ReplayRequest { task, round: 0, times: 10, scratch: &scratch, options: &options };
//! let replayed = replay(&mut device, &dump, &request)?;
//! assert!(replayed.same && replayed.min_ns.is_some());
//! # Ok(())
//! # }
//! ```

use crate::record::DumpRules;
use crate::untyped::{Access, Arg, ElementSpec, Kernel, Orchestrator, Task, Tensor};
use crate::{Device, RecordOptions, RunOptions};
use plimsoll_analyze::{ArgsReplay, difference};
use plimsoll_runtime::abi::record::Truncation;
use plimsoll_runtime::abi::{Dtype, Flags, TaskId};
use plimsoll_trace::{ArgStage, ArgsDump, DumpedArg, TraceParts, open_with};
use std::collections::HashMap;
use std::path::Path;

/// Why a task was not run again, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// What was captured is not enough, or of other kernels.
    #[error("{0}")]
    NotPossible(String),
    /// The run of the task failed.
    #[error("The task failed when it was run again. {0}")]
    Failed(#[from] crate::Error),
    /// The captured elements cannot be read.
    #[error(transparent)]
    Read(#[from] plimsoll_trace::Error),
}

/// Which task, and how often.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRequest<'a> {
    /// The task.
    pub task: TaskId,
    /// Its round.
    pub round: u32,
    /// How often its kernel is timed; 1 or more.
    pub times: u64,
    /// A directory that does not exist yet, or holds nothing, which the runs are recorded in: kernels' times are read from there.
    pub scratch: &'a Path,
    /// How the runs are to go, but for what they record. A kernel that hung may hang again: give it an
    /// [`op_timeout`](RunOptions::op_timeout), and an [`on_hung`](RunOptions::on_hung) if the device has no worker but the caller.
    pub options: &'a RunOptions,
}

/// Runs a captured task again on a device that has the kernels of its run, in the same order.
///
/// # Errors
/// [`ReplayError::NotPossible`] if the dump does not hold all that the task saw and the shapes of all that it made, or the device's
/// kernels are others; else what the run of the task fails with.
pub fn replay(device: &mut Device, dump: &ArgsDump, request: &ReplayRequest<'_>) -> Result<ArgsReplay, ReplayError> {
    let captured = CapturedTask::find(device, dump, request)?;
    let mut record = RecordOptions::new(request.scratch, Flags::CORE_TIMING);
    // With the rest of the replay: whoever removes what a kernel that kills the process leaves, removes all of it.
    record.region_dir = Some(request.scratch.to_path_buf());
    let options = RunOptions { record: Some(record), ..request.options.clone() };
    let mut made = device.run_untyped(&options, |o| captured.run(o, FILLINGS[0], request.times.max(1)))?;
    let mut replay = captured.answer(request);
    (replay.min_ns, replay.median_ns) = kernel_times(request.scratch)?;
    if captured.first_difference(&made).is_some() {
        let options = RunOptions { record: None, ..request.options.clone() };
        let again = device.run_untyped(&options, |o| captured.run(o, FILLINGS[1], 1))?;
        replay.unwritten = captured.forgive_unwritten(&mut made, &again);
    }
    replay.first = captured.first_difference(&made);
    replay.same = replay.first.is_none();
    Ok(replay)
}

/// What outputs hold before the task runs.
const FILLINGS: [u8; 2] = [0, 0xa5];

/// What to do if not all arguments were captured.
const ALL: &str = "Capture all arguments with `DumpRules::ALL`";

/// Submits in one scope, so that any number of them fits the rings.
const PER_SCOPE: u64 = 256;

/// A task as it was captured, ready to be submitted.
struct CapturedTask<'d> {
    kernels: Vec<Kernel>,
    name: String,
    blocks: u32,
    args: Vec<CapturedArg<'d>>,
}

/// An argument of a captured task.
enum CapturedArg<'d> {
    Value { dtype: Dtype, bits: u64 },
    List(Vec<CapturedTensor<'d>>),
    Tensor { access: Access, tensor: CapturedTensor<'d> },
}

/// A tensor: what it looked like, what it held before, if the task read it, and what the task made of it, if it wrote it and completed.
struct CapturedTensor<'d> {
    arg: &'d DumpedArg,
    access: Access,
    element: ElementSpec,
    shape: Vec<usize>,
    strides: Vec<usize>,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

fn not_possible(what: impl Into<String>) -> ReplayError {
    ReplayError::NotPossible(what.into())
}

impl<'d> CapturedTask<'d> {
    fn find(device: &Device, dump: &'d ArgsDump, request: &ReplayRequest<'_>) -> Result<Self, ReplayError> {
        let task = request.task;
        let of_task = dump.args.iter().filter(|arg| (arg.task, arg.round) == (task, request.round));
        let mut captured: HashMap<(u32, ArgStage), &DumpedArg> = HashMap::new();
        for arg in of_task {
            if captured.insert((arg.index, arg.stage), arg).is_some() {
                return Err(not_possible(format!(
                    "{task} cannot be run again: several of its captured arguments have the number {}. Which of them is which is not known. Capture it again.",
                    arg.index
                )));
            }
        }
        let Some(any) = captured.values().min_by_key(|arg| arg.index) else {
            return Err(not_possible(format!(
                "Nothing of {task} in round {} was captured. Only captured tasks can be run again. `ArgsDump::args` has them.",
                request.round
            )));
        };
        let kernels = kernels_of(device, any)?;
        let source = Source { dump, captured: &captured, task };
        let mut args = Vec::new();
        let mut index = 0;
        match device.kernel_params(kernels[0]) {
            Some(params) => {
                for param in params {
                    args.push(source.parameter(param.access, param.element, &mut index)?);
                }
            }
            // A kernel without a signature takes any arguments, so it is given as many as its task had.
            None => {
                let count = source.argument_count()?;
                while index < count {
                    let access = source.access(index)?;
                    args.push(source.parameter(access, source.element(index)?, &mut index)?);
                }
            }
        }
        Ok(Self { kernels, name: any.kernel.clone(), blocks: any.blocks.max(1), args })
    }

    /// Submits the task so often, each time over the same inputs, and gives what the last one made, one entry per written tensor.
    fn run(&self, o: &mut Orchestrator<'_, '_>, filling: u8, times: u64) -> crate::Result<Vec<Vec<u8>>> {
        let mut tensors = Vec::new();
        for tensor in self.tensors() {
            tensors.push(tensor.enter(o, filling)?);
        }
        let mut next = tensors.iter();
        let mut args = Vec::new();
        let lists: Vec<Vec<Tensor>> =
            self.args.iter().map(|arg| next.by_ref().take(arg.len()).copied().collect()).collect();
        for (arg, list) in self.args.iter().zip(&lists) {
            args.push(match arg {
                CapturedArg::Value { dtype, bits } => Arg::scalar_bits(*dtype, *bits),
                CapturedArg::List(_) => Arg::input_list(list),
                CapturedArg::Tensor { access: Access::Write, .. } => Arg::output_existing(&list[0]),
                CapturedArg::Tensor { access: Access::ReadWrite, .. } => Arg::inout(&list[0]),
                CapturedArg::Tensor { .. } => Arg::input(&list[0]),
            });
        }
        let mut task = Task::new(self.kernels[0], &args).blocks(self.blocks);
        if let Some(first) = self.kernels.get(1) {
            task = task.with_parts(*first, self.kernels.get(2).copied());
        }
        for from in (0..times).step_by(PER_SCOPE as usize) {
            o.open_scope()?;
            for _ in from..times.min(from + PER_SCOPE) {
                // Puts back what the kernel reads and writes, so that every turn starts from the same values.
                for (captured, tensor) in self.tensors().zip(&tensors) {
                    if let (Some(before), Access::ReadWrite) = (&captured.before, captured.access) {
                        o.write(tensor, before)?;
                    }
                }
                o.submit(&task, &mut Vec::new())?;
            }
            o.close_scope()?;
        }
        let mut made = Vec::new();
        for (captured, tensor) in self.tensors().zip(&tensors).filter(|(captured, _)| captured.after.is_some()) {
            let mut bytes = vec![0; captured.bytes()];
            o.read(tensor, &mut bytes)?;
            made.push(bytes);
        }
        Ok(made)
    }

    fn tensors(&self) -> impl Iterator<Item = &CapturedTensor<'d>> {
        self.args.iter().flat_map(|arg| match arg {
            CapturedArg::Value { .. } => [].as_slice(),
            CapturedArg::List(tensors) => tensors,
            CapturedArg::Tensor { tensor, .. } => std::slice::from_ref(tensor),
        })
    }

    /// The tensors that the task writes, with what it made of them.
    fn written(&self) -> impl Iterator<Item = (&CapturedTensor<'d>, &Vec<u8>)> {
        self.tensors().filter_map(|tensor| Some((tensor, tensor.after.as_ref()?)))
    }

    fn first_difference(&self, made: &[Vec<u8>]) -> Option<plimsoll_analyze::FirstDifference> {
        self.written().zip(made).find_map(|((tensor, after), made)| difference(tensor.arg, made, after))
    }

    /// Replaces elements that the kernel did not write by the captured ones, so that they do not differ. Returns how many
    /// there are.
    fn forgive_unwritten(&self, made: &mut [Vec<u8>], again: &[Vec<u8>]) -> u64 {
        let mut unwritten = 0;
        for (((tensor, after), made), again) in self.written().zip(made).zip(again) {
            // A tensor that the task also reads held the captured values, so none of its elements are unknown.
            if tensor.before.is_some() {
                continue;
            }
            let bytes = tensor.element.bytes as usize;
            let shows = |element: &[u8], filling: u8| element.iter().all(|byte| *byte == filling);
            for at in (0..made.len()).step_by(bytes) {
                let place = at..at + bytes;
                if shows(&made[place.clone()], FILLINGS[0]) && shows(&again[place.clone()], FILLINGS[1]) {
                    made[place.clone()].copy_from_slice(&after[place]);
                    unwritten += 1;
                }
            }
        }
        unwritten
    }

    fn answer(&self, request: &ReplayRequest<'_>) -> ArgsReplay {
        ArgsReplay {
            task: request.task.to_string(),
            round: request.round,
            kernel: self.name.clone(),
            same: false,
            first: None,
            not_compared: self
                .tensors()
                .filter(|tensor| tensor.access == Access::ReadWrite && tensor.after.is_none())
                .count() as u64,
            unwritten: 0,
            times: request.times.max(1),
            min_ns: None,
            median_ns: None,
        }
    }
}

/// The kernels of a captured task on a device, if it has them under the same numbers and names.
fn kernels_of(device: &Device, arg: &DumpedArg) -> Result<Vec<Kernel>, ReplayError> {
    let names: Vec<&str> = device.kernel_names().collect();
    let ids: Vec<usize> = arg.kernel_ids.iter().filter_map(|id| usize::try_from(*id).ok()).collect();
    let known: Vec<&str> = ids.iter().filter_map(|id| names.get(*id).copied()).collect();
    let word = known.first().and_then(|name| device.kernel_named(name)).map(|kernel| kernel.to_words()[1]);
    match word {
        Some(device) if known.join("+") == arg.kernel => {
            Ok(ids.iter().map(|id| Kernel::from_words([*id as u64, device])).collect())
        }
        _ => Err(not_possible(format!(
            "{} ran kernel {}, which is not among those of the program: {}. The program or its settings are others than those of the run. Run it again with what the run was made of.",
            arg.task,
            arg.kernel,
            names.join(", ")
        ))),
    }
}

impl CapturedArg<'_> {
    /// How many tensors it is.
    fn len(&self) -> usize {
        match self {
            CapturedArg::Value { .. } => 0,
            CapturedArg::List(tensors) => tensors.len(),
            CapturedArg::Tensor { .. } => 1,
        }
    }
}

impl CapturedTensor<'_> {
    fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.element.bytes as usize
    }

    /// Enters a buffer that is as large as the tensor needs with its strides; it holds what the task saw, or the filling.
    fn enter(&self, o: &mut Orchestrator<'_, '_>, filling: u8) -> crate::Result<Tensor> {
        let span: usize =
            1 + self.shape.iter().zip(&self.strides).map(|(extent, stride)| (extent - 1) * stride).sum::<usize>();
        let whole = o.own(vec![filling; span * self.element.bytes as usize], self.element, &[span])?;
        let tensor = whole.strided(&self.shape, &self.strides)?;
        if let Some(before) = &self.before {
            o.write(&tensor, before)?;
        }
        Ok(tensor)
    }
}

/// What was captured of one task.
struct Source<'d, 'c> {
    dump: &'d ArgsDump,
    captured: &'c HashMap<(u32, ArgStage), &'d DumpedArg>,
    task: TaskId,
}

impl<'d> Source<'d, '_> {
    fn at(&self, index: u32, stage: ArgStage) -> Option<&'d DumpedArg> {
        self.captured.get(&(index, stage)).copied()
    }

    /// Whether anything was captured after the task.
    fn completed(&self) -> bool {
        self.captured.keys().any(|(_, stage)| *stage == ArgStage::AfterCompletion)
    }

    fn any(&self, index: u32) -> Option<&'d DumpedArg> {
        self.at(index, ArgStage::BeforeDispatch).or_else(|| self.at(index, ArgStage::AfterCompletion))
    }

    /// How many arguments the task had, if its kernel does not declare them. The kernel reads as many as it expects, so a number
    /// that is too small would make it read memory that is not there.
    fn argument_count(&self) -> Result<u32, ReplayError> {
        let unknown = |why: &str, what_to_do: &str| {
            Err(not_possible(format!(
                "{} cannot be run again: how many arguments it had is not known. Its kernel declares no parameters, and {why}. {what_to_do}, or declare the parameters of the kernel.",
                self.task
            )))
        };
        if self.dump.level == u64::from(DumpRules::MARKED) {
            return unknown("only marked arguments were captured", ALL);
        }
        if ![DumpRules::ALL, DumpRules::SHAPES].map(u64::from).contains(&self.dump.level) {
            return unknown("the dump does not say whether all arguments were captured", ALL);
        }
        if self.dump.loss().is_some() {
            return unknown("captured arguments were lost", "Capture them again without a loss");
        }
        if !self.completed() {
            return unknown(
                "nothing was captured of what the task made",
                "Choose a task that completed and writes an argument",
            );
        }
        Ok(self.captured.keys().map(|(index, _)| index.saturating_add(1)).max().unwrap_or(0))
    }

    /// How the task used an argument, by what was captured of it.
    fn access(&self, index: u32) -> Result<Access, ReplayError> {
        let arg = self.any(index).ok_or_else(|| self.not_captured(index, "nothing was captured"))?;
        Ok(match arg.role {
            _ if arg.is_scalar => Access::Value,
            role => Access::of_tensor(role.reads(), role.writes()),
        })
    }

    fn element(&self, index: u32) -> Result<ElementSpec, ReplayError> {
        let dtype = self.any(index).and_then(|arg| Dtype::ALL.into_iter().find(|dtype| dtype.name() == arg.dtype));
        dtype
            .filter(|dtype| *dtype != Dtype::User)
            .map(ElementSpec::of)
            .ok_or_else(|| self.missing(index, "its element type is not known", "Declare the parameters of the kernel"))
    }

    fn missing(&self, index: u32, why: &str, what_to_do: &str) -> ReplayError {
        not_possible(format!("{} cannot be run again: of argument {index} {why}. {what_to_do}.", self.task))
    }

    /// As [`missing`](Self::missing), of what is not in the list.
    fn not_captured(&self, index: u32, why: &str) -> ReplayError {
        let what_to_do = match self.completed() {
            _ if self.dump.level != u64::from(DumpRules::ALL) => ALL,
            true => "Capture it again without a loss",
            false => "Choose a task that completed",
        };
        self.missing(index, why, what_to_do)
    }

    /// As [`missing`](Self::missing), of a listed tensor whose elements are not there.
    fn without_elements(&self, arg: &DumpedArg) -> ReplayError {
        let (why, what_to_do) = match arg.truncation {
            Some(Truncation::NoDep) => (
                "no element was captured, because inference does not look at it (no_dep)",
                "Capture a run in which inference does",
            ),
            Some(Truncation::ElementSize) => (
                "no element was captured, because the size of one is not known",
                "Declare the parameters of the kernel, with elements of one size",
            ),
            Some(Truncation::Limit) => ("only a part was captured", "Capture more of each with `DumpRules::bytes`"),
            None if arg.overwritten => ("the elements were lost", "Capture it again without a loss"),
            None if arg.payload.1 > 0 => (
                "the elements are not where the list has them",
                "Put args.bin beside it as it was, or capture it again",
            ),
            None if self.dump.level == u64::from(DumpRules::ALL) => {
                ("the elements were not captured", "Capture it again")
            }
            None => ("the elements were not captured", ALL),
        };
        self.missing(arg.index, why, what_to_do)
    }

    /// The arguments from `index` on that are one parameter of the kernel.
    fn parameter(&self, access: Access, element: ElementSpec, index: &mut u32) -> Result<CapturedArg<'d>, ReplayError> {
        let at = *index;
        *index += 1;
        Ok(match access {
            Access::Value => {
                let (dtype, bits) = self.value(at)?;
                CapturedArg::Value { dtype, bits }
            }
            Access::ReadList => {
                let (_, len) = self.value(at)?;
                let mut tensors = Vec::new();
                for _ in 0..len {
                    tensors.push(self.tensor(Access::Read, element, *index)?);
                    *index += 1;
                }
                CapturedArg::List(tensors)
            }
            _ => CapturedArg::Tensor { access, tensor: self.tensor(access, element, at)? },
        })
    }

    fn value(&self, index: u32) -> Result<(Dtype, u64), ReplayError> {
        let arg = self.at(index, ArgStage::BeforeDispatch).filter(|arg| arg.is_scalar);
        arg.and_then(DumpedArg::scalar_bits).ok_or_else(|| self.not_captured(index, "the value was not captured"))
    }

    fn tensor(&self, access: Access, element: ElementSpec, index: u32) -> Result<CapturedTensor<'d>, ReplayError> {
        let stages = match access {
            Access::Write => [ArgStage::AfterCompletion].as_slice(),
            Access::ReadWrite => &[ArgStage::BeforeDispatch, ArgStage::AfterCompletion],
            _ => &[ArgStage::BeforeDispatch],
        };
        let (mut before, mut after, mut seen) = (None, None, None);
        for stage in stages {
            let reads = *stage == ArgStage::BeforeDispatch;
            // The task had not completed: of an argument that it also reads, what it saw is enough.
            if !reads && before.is_some() && !self.completed() {
                break;
            }
            let Some(arg) = self.at(index, *stage).filter(|arg| !arg.is_scalar) else {
                let what =
                    if reads { "what the task saw was not captured" } else { "what the task made was not captured" };
                return Err(self.not_captured(index, what));
            };
            let Some(bytes) = self.dump.bytes(arg)?.filter(|_| arg.truncation.is_none()) else {
                return Err(self.without_elements(arg));
            };
            seen = Some(arg);
            *(if reads { &mut before } else { &mut after }) = Some(bytes);
        }
        let Some(arg) = seen else { return Err(self.not_captured(index, "nothing was captured")) };
        let whole = |number: &i64| usize::try_from(*number).ok();
        let strides: Option<Vec<usize>> = arg.strides.iter().map(whole).collect();
        let shape: Vec<usize> = arg.shape.iter().map(|extent| *extent as usize).collect();
        let bytes = arg.len().saturating_mul(u64::from(element.bytes));
        let whole = [&before, &after].into_iter().flatten().all(|held| held.len() as u64 == bytes);
        match strides.filter(|strides| strides.len() == shape.len() && whole && !arg.is_empty()) {
            Some(strides) => Ok(CapturedTensor { arg, access, element, shape, strides, before, after }),
            None => Err(self.missing(index, "shape, strides and elements do not fit each other", "Capture it again")),
        }
    }
}

/// The least and the median time of the tasks in a recording: each from the first start to the last end of its executions.
fn kernel_times(dir: &Path) -> Result<(Option<u64>, Option<u64>), plimsoll_trace::Error> {
    let trace = open_with(dir, TraceParts::TASKS)?;
    let mut spans: HashMap<u64, (u64, u64)> = HashMap::new();
    for at in 0..trace.executions.len() {
        let Some(end) = trace.executions.end(at) else { continue };
        let span = spans.entry(trace.executions.word(at)).or_insert((u64::MAX, 0));
        *span = (span.0.min(trace.executions.start(at)), span.1.max(end));
    }
    let mut times: Vec<u64> = spans.values().map(|(start, end)| trace.clock.ns(end.saturating_sub(*start))).collect();
    times.sort_unstable();
    Ok((times.first().copied(), times.get(times.len() / 2).copied()))
}
