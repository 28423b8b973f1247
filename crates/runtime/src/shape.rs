//! How a task is executed, beyond once: in blocks, together, only if an element says so, not at all.

use crate::arg::Args;
use crate::block::{BlockKernel, BlockParams, IntoBlockKernel};
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::orchestrator::{Dep, Orchestrator};
use crate::seal::Sealed;
use crate::tensor::Tensor;
use plimsoll_abi::{Dtype, ErrorCode, KernelId};
use plimsoll_platform::CoreClass;
use plimsoll_sched::pipe::MOST_PARTS;
use plimsoll_sched::shape::{MOST_BLOCKS, NO_KERNEL};
use plimsoll_sched::signature::{Access, Share, Signature};
use plimsoll_sched::submit::{PredicateRequest, ShapeRequest};
use plimsoll_sched::{CallShape, Demand, KernelEntry, TaskArg, TensorCore};

/// How a task is executed.
///
/// ```
/// # use plimsoll_runtime::*;
/// # fn main() -> Result<()> {
/// let mut device = Device::builder().workers(2).open()?;
/// let square = device.block_kernel("square", |block: Block, x: In<f32>, mut y: OutTile<f32>| {
///     for i in 0..y.len() {
///         y[[i]] = x[[y.first_row() + i]].powi(2) + block.index() as f32;
///     }
/// });
/// let squares = device.run(|o| {
///     let x = o.own(vec![1.0, 2.0, 3.0, 4.0], [4])?;
///     let (.., y) = o.submit_shaped(&TaskShape::blocks(2), &square, (input(&x), output([4])))?;
///     o.read(&y)
/// })?;
/// assert_eq!(squares, [1.0, 4.0, 10.0, 17.0]);
/// assert_eq!((device.report().tasks, device.report().dispatches), (1, 2));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TaskShape<'a> {
    blocks: u32,
    sync_start: bool,
    predicate: Option<TypedPredicate<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct TypedPredicate<'a> {
    tensor: &'a TensorCore,
    run: u64,
    if_zero: bool,
}

impl Default for TaskShape<'_> {
    fn default() -> Self {
        Self::blocks(1)
    }
}

impl<'a> TaskShape<'a> {
    /// The task is executed in this many blocks, each of which knows its number. There may be more of them than cores: they
    /// run in any order, and some at the same time.
    pub fn blocks(count: u32) -> Self {
        Self { blocks: count, sync_start: false, predicate: None }
    }

    /// The task's blocks start together, or not at all: each of them runs on a worker, core or cluster of its own at the same
    /// time as the others, so that they can wait for each other. (In virtual time those that one scheduler dispatches begin at the
    /// same time, and kernels are called one after the other.) Of several such tasks one gathers workers at a time, and nothing else is begun meanwhile.
    ///
    /// ```
    /// # use plimsoll_runtime::*;
    /// # fn main() -> Result<()> {
    /// let mut device = Device::builder().workers(2).open()?;
    /// let meeting = std::sync::Barrier::new(2);
    /// let meet = device.block_kernel("meet", move |block: Block, mut x: OutTile<f32>| {
    ///     meeting.wait();
    ///     x.fill(block.index() as f32);
    /// });
    /// let met = device.run(|o| {
    ///     let (x,) = o.submit_shaped(&TaskShape::blocks(2).sync_start(), &meet, (output([2]),))?;
    ///     o.read(&x)
    /// })?;
    /// assert_eq!(met, [0.0, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn sync_start(mut self) -> Self {
        self.sync_start = true;
        self
    }

    /// The task is executed only if the one element of `tensor` is not zero when the task is ready. If it is zero, the task
    /// completes without: what it would have written keeps its values.
    #[must_use]
    pub fn only_if<T: Element>(mut self, tensor: &'a Tensor<'_, T>) -> Self {
        self.predicate = Some(TypedPredicate { tensor: &tensor.core, run: tensor.run, if_zero: false });
        self
    }

    /// The task is executed unless the one element of `tensor` is other than zero when the task is ready.
    #[must_use]
    pub fn unless<T: Element>(mut self, tensor: &'a Tensor<'_, T>) -> Self {
        self.predicate = Some(TypedPredicate { tensor: &tensor.core, run: tensor.run, if_zero: true });
        self
    }
}

/// A kernel that a shaped task can have: a [`BlockKernel`]; a [`Kernel`] for tasks of one block; or, for a mixed task, two or three
/// block kernels, the first for a matrix core and the others for vector cores.
///
/// ```
/// # use plimsoll_runtime::*;
/// # fn main() -> Result<()> {
/// let mut device = Device::builder().workers(2).open()?;
/// // The matrix core squares, the vector core adds up: values go from part 0 to part 1.
/// let squares = device.block_kernel_on(CoreClass::Aic, "squares", |b: Block, x: In<f32>, _: PartOut<f32, 1>| {
///     x.row(0).iter().try_for_each(|x| b.push(1, x * x))
/// });
/// let sum = device.block_kernel_on(CoreClass::Aiv, "sum", |b: Block, x: In<f32>, mut sum: PartOut<f32, 1>| {
///     let total: f32 = (0..x.len()).map(|_| b.pop::<f32>(0)).sum::<std::result::Result<_, _>>()?;
///     if let Some(sum) = sum.own() {
///         sum[[0]] = total;
///     }
///     Ok::<(), KernelError>(())
/// });
/// let total = device.run(|o| {
///     let x = o.own(vec![1.0, 2.0, 3.0], [3])?;
///     let (.., total) = o.submit_shaped(&TaskShape::default(), &[squares, sum], (input(&x), output([1])))?;
///     o.read(&total)
/// })?;
/// assert_eq!(total, [14.0]);
/// # Ok(())
/// # }
/// ```
///
/// A submit is checked against `K`, so nobody else can say it of a kernel:
///
/// ```compile_fail,E0277
/// # use plimsoll_runtime::*;
/// # use plimsoll_runtime::abi::KernelId;
/// struct Lie(Kernel<(ReadWrite<i64>,)>);
/// impl ShapedKernel<(Read<i64>,)> for Lie {
///     fn kernels(&self) -> (KernelId, [Option<KernelId>; 2], u64) {
///         self.0.kernels()
///     }
/// }
/// ```
pub trait ShapedKernel<K>: Sealed<K> {
    #[doc(hidden)]
    /// Its number, those of other parts, and its device.
    fn kernels(&self) -> (KernelId, OtherParts, u64);
}

/// The kernels of a mixed task's parts behind the first.
pub(crate) type OtherParts = [Option<KernelId>; MOST_PARTS - 1];

impl<K> Sealed<K> for Kernel<K> {}
impl<K> ShapedKernel<K> for Kernel<K> {
    fn kernels(&self) -> (KernelId, OtherParts, u64) {
        (self.id, [None, None], self.device)
    }
}

impl<K> Sealed<K> for BlockKernel<K> {}
impl<K> ShapedKernel<K> for BlockKernel<K> {
    fn kernels(&self) -> (KernelId, OtherParts, u64) {
        (self.kernel.id, [None, None], self.kernel.device)
    }
}

impl<K> Sealed<K> for [BlockKernel<K>; 2] {}
impl<K> ShapedKernel<K> for [BlockKernel<K>; 2] {
    fn kernels(&self) -> (KernelId, OtherParts, u64) {
        mixed(self)
    }
}

impl<K> Sealed<K> for [BlockKernel<K>; 3] {}
impl<K> ShapedKernel<K> for [BlockKernel<K>; 3] {
    fn kernels(&self) -> (KernelId, OtherParts, u64) {
        mixed(self)
    }
}

fn mixed<K, const N: usize>(parts: &[BlockKernel<K>; N]) -> (KernelId, OtherParts, u64) {
    let device = parts[0].kernel.device;
    // Kernels of several devices are no task of any: 0 is the number of no device, and submits refuse it.
    let device = if parts.iter().all(|part| part.kernel.device == device) { device } else { 0 };
    (parts[0].id(), std::array::from_fn(|other| parts.get(other + 1).map(BlockKernel::id)), device)
}

impl Device {
    /// Registers a function or closure as a kernel that may be executed in blocks, on any core.
    pub fn block_kernel<M, F: IntoBlockKernel<M, Params: BlockParams>>(
        &mut self,
        name: &str,
        body: F,
    ) -> BlockKernel<F::Kinds> {
        self.block_kernel_on(CoreClass::Any, name, body)
    }

    /// As [`block_kernel`](Self::block_kernel), for one class of cores.
    pub fn block_kernel_on<M, F: IntoBlockKernel<M, Params: BlockParams>>(
        &mut self,
        class: CoreClass,
        name: &str,
        body: F,
    ) -> BlockKernel<F::Kinds> {
        // SAFETY: every parameter is only read, or divided among the blocks of a task.
        unsafe { self.block_kernel_unchecked(class, name, body) }
    }

    /// As [`block_kernel_on`](Self::block_kernel_on), for a body whose blocks write arguments that are not divided among them.
    ///
    /// # Safety
    /// No two blocks, nor parts of a mixed task, touch an element that one of them writes, unless by atomic operations.
    pub unsafe fn block_kernel_unchecked<M, F: IntoBlockKernel<M>>(
        &mut self,
        class: CoreClass,
        name: &str,
        body: F,
    ) -> BlockKernel<F::Kinds> {
        // SAFETY: as in `kernel_on`; of the blocks of one task, the caller promises it.
        let call = unsafe { body.into_call() };
        let id = self.enter_kernel(class, name, F::signature(), true, call);
        BlockKernel { kernel: id.map_or_else(Kernel::none, |id| Kernel::new(id, self.number())) }
    }
}

impl<'s> Orchestrator<'s, '_> {
    /// Submits a task that is executed as `shape` says.
    ///
    /// # Errors
    /// As those of [`submit`](Self::submit); and [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) for a shape that the
    /// kernel or the arguments cannot have: several blocks of a plain kernel, rows that cannot be divided among blocks, a
    /// predicate of several elements, outputs of a predicated task, which would hold nothing. And
    /// [`InvalidSyncStart`](plimsoll_abi::ErrorCode::InvalidSyncStart) for blocks that start together and are more than the
    /// device has workers, cores of their class or clusters.
    pub fn submit_shaped<A: Args>(
        &mut self,
        shape: &TaskShape<'_>,
        kernel: &impl ShapedKernel<A::Kinds>,
        args: A,
    ) -> Result<A::Handles<'s>> {
        self.submit_shaped_after(&[], shape, kernel, args)
    }

    /// As [`submit_shaped`](Self::submit_shaped), and the task waits for `deps` besides.
    ///
    /// # Errors
    /// As those of [`submit_shaped`](Self::submit_shaped).
    pub fn submit_shaped_after<A: Args>(
        &mut self,
        deps: &[Dep<'_>],
        shape: &TaskShape<'_>,
        kernel: &impl ShapedKernel<A::Kinds>,
        args: A,
    ) -> Result<A::Handles<'s>> {
        let (kernel, others, device) = kernel.kernels();
        if device != self.device {
            return Err(self.foreign_kernel(device));
        }
        if shape.blocks == 0 {
            return Err(self.refuse(NO_BLOCKS));
        }
        self.submit_as(deps, shape, kernel, others, args)
    }

    /// Submits a task that executes nothing: it waits as its arguments say, and others wait for it as if it had used them.
    ///
    /// # Errors
    /// As those of [`submit`](Self::submit); and [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) for an output, which
    /// would hold nothing.
    pub fn submit_dummy<A: Args>(&mut self, deps: &[Dep<'_>], args: A) -> Result<()> {
        self.submit_as(deps, &TaskShape::blocks(0), KernelId(NO_KERNEL), [None, None], args).map(drop)
    }

    fn submit_as<A: Args>(
        &mut self,
        deps: &[Dep<'_>],
        shape: &TaskShape<'_>,
        kernel: KernelId,
        others: OtherParts,
        args: A,
    ) -> Result<A::Handles<'s>> {
        if shape.predicate.is_some_and(|predicate| predicate.run != self.run) {
            return Err(self.refuse(
                "The predicate of a task is a tensor of another run. Every run has its own buffers. Give one of this run.",
            ));
        }
        if !deps.is_empty() {
            self.set_after(deps)?;
        }
        let predicate = shape.predicate.map(|one| PredicateRequest { tensor: one.tensor, if_zero: one.if_zero });
        let request = ShapeRequest { blocks: shape.blocks, sync_start: shape.sync_start, predicate, others };
        let limits = self.limits;
        let (engine, last, kernels) = (&mut *self.engine, &mut self.last, self.kernels);
        let mut entered = false;
        // SAFETY: the engine is this run's, and fills in where it puts every output before it accepts a task.
        let outcome = unsafe {
            args.submit(self.run, self.scratch, |args, mut demand| {
                let mut list: Vec<TaskArg<'_>> = args.iter_mut().map(TaskArg::reborrow).collect();
                let call = prepare(kernels, &limits, kernel, &request, &mut list, &mut demand)?;
                entered = true;
                engine.set_shape(call);
                let outcome = crate::orchestrator::enter(engine, last, kernels, kernel, &mut list, demand);
                engine.set_shape(CallShape::ORDINARY);
                outcome
            })
        };
        if !deps.is_empty() {
            self.engine.set_after(&[]);
        }
        self.or_refuse(entered, outcome)
    }
}

pub(crate) const NO_BLOCKS: &str = "A task of 0 blocks was submitted. It would compute nothing. Submit a dummy if it is only there for others to wait for.";

/// Checks a shape against its kernel and arguments, and adds what it needs to them.
pub(crate) fn prepare<'t>(
    kernels: &[KernelEntry],
    limits: &ShapeLimits,
    kernel: KernelId,
    request: &ShapeRequest<'t>,
    args: &mut Vec<TaskArg<'t>>,
    demand: &mut Demand,
) -> Result<CallShape> {
    let others: Vec<&KernelEntry> = request.others.iter().flatten().map(|other| &kernels[other.index()]).collect();
    let kernel = kernels.get(kernel.index());
    let wrong = kernel.and_then(|kernel| mixed_fault(kernel, &others, limits));
    if let Some(what) = wrong.or_else(|| fault(kernel, request, args)) {
        return Err(Error::invalid(what));
    }
    match kernel.and_then(|kernel| sync_fault(kernel, request, limits)) {
        Some(what) => Err(Error::new(ErrorCode::InvalidSyncStart, what)),
        None => Ok(request.append(args, demand)),
    }
}

/// What is wrong with a shape for a task of this kernel, or of none, with these arguments.
fn fault(kernel: Option<&KernelEntry>, request: &ShapeRequest<'_>, args: &[TaskArg<'_>]) -> Option<String> {
    let makes = args.iter().any(|arg| matches!(arg, TaskArg::Output { .. }));
    let Some(kernel) = kernel else {
        return makes.then(|| {
            "A dummy task cannot make an output. Nothing would be written to it. Give it tensors that exist.".to_owned()
        });
    };
    let (name, blocks) = (&kernel.name, request.blocks);
    if blocks > MOST_BLOCKS {
        return Some(format!("A task cannot have {blocks} blocks. It has at most {MOST_BLOCKS}. Give it fewer."));
    }
    if blocks != 1 && !kernel.in_blocks {
        return Some(format!(
            "Kernel {name} cannot be executed in {blocks} blocks. It was registered to be executed once for each task. Register it with `block_kernel`."
        ));
    }
    if let Some(predicate) = &request.predicate {
        let elements = predicate.tensor.layout.len();
        if elements != 1 || predicate.tensor.dtype() == Dtype::User {
            return Some(format!(
                "The predicate of kernel {name} has {elements} elements of {}. It is decided by one number. Give a tensor of one element that is a number.",
                predicate.tensor.dtype()
            ));
        }
        if makes {
            return Some(format!(
                "A predicated task of kernel {name} cannot make an output. If the task is skipped, nothing is written to it. Give it a tensor that exists."
            ));
        }
    }
    undivided(kernel, blocks, args)
}

/// What the device can place together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShapeLimits {
    /// Parts of a mixed task: as many as its smallest cluster has cores for, or all where one worker takes turns at them.
    pub parts: usize,
    /// Blocks that can run at the same time: how many, and what each of them runs on.
    pub blocks: BlockRoom,
}

impl ShapeLimits {
    /// How many blocks of a kernel for this class of cores can start together.
    pub fn together(&self, class: CoreClass) -> usize {
        self.blocks.seats(class, false).0
    }

    /// How many blocks of a mixed task can start together.
    pub fn mixed_together(&self) -> usize {
        self.blocks.seats(CoreClass::Aic, true).0
    }
}

/// Where blocks run at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockRoom {
    /// Each on a worker, which takes every class: so many execute tasks.
    Workers(usize),
    /// Each on a core of its class, or on a cluster if it has parts.
    Chip {
        /// Matrix cores.
        aic: usize,
        /// Vector cores.
        aiv: usize,
        /// Clusters.
        clusters: usize,
    },
}

impl BlockRoom {
    /// How many blocks of a task can run at the same time, and what each of them runs on.
    fn seats(self, class: CoreClass, is_mixed: bool) -> (usize, &'static str) {
        match self {
            BlockRoom::Workers(workers) => (workers, "workers that execute tasks"),
            BlockRoom::Chip { clusters, .. } if is_mixed => (clusters, "clusters"),
            BlockRoom::Chip { aic, aiv, .. } => match class {
                CoreClass::Aic => (aic, "matrix cores"),
                CoreClass::Aiv => (aiv, "vector cores"),
                CoreClass::Any => (aic + aiv, "cores"),
            },
        }
    }
}

/// What is wrong with blocks that start together, if anything.
fn sync_fault(kernel: &KernelEntry, request: &ShapeRequest<'_>, limits: &ShapeLimits) -> Option<String> {
    let (seats, of_what) = limits.blocks.seats(kernel.class, request.others[0].is_some());
    (request.sync_start && request.blocks as usize > seats).then(|| {
        format!(
            "The {} blocks of kernel {} can never start together. Each of them needs one for itself, and this device has {seats} {of_what}. Use fewer blocks, or a device with more of them.",
            request.blocks, kernel.name
        )
    })
}

/// What is wrong with parts of a mixed task, if anything.
fn mixed_fault(first: &KernelEntry, others: &[&KernelEntry], limits: &ShapeLimits) -> Option<String> {
    if others.is_empty() {
        return None;
    }
    let parts = 1 + others.len();
    if parts > limits.parts {
        return Some(format!(
            "A mixed task of {parts} parts cannot be placed. Its parts run on cores of one cluster, which has room for {}. Use fewer parts, or clusters of more vector cores.",
            limits.parts
        ));
    }
    if first.class != CoreClass::Aic || others.iter().any(|other| other.class != CoreClass::Aiv) {
        return Some(format!(
            "Kernels {} and {} cannot be parts of one task. The first part runs on a matrix core and the others on vector cores. Register them for aic and aiv.",
            first.name, others[0].name
        ));
    }
    if let Some(plain) = std::iter::once(&first).chain(others).find(|part| !part.in_blocks) {
        return Some(format!(
            "Kernel {} cannot be a part of a mixed task. It was registered to be executed alone with its arguments. Register it with `block_kernel_on`.",
            plain.name
        ));
    }
    let Signature::Exactly(params) = &first.signature else { return None };
    let same = |other: &&KernelEntry| other.signature == first.signature;
    if let Some(other) = others.iter().find(|other| !same(other)) {
        return Some(format!(
            "Kernels {} and {} cannot be parts of one task. They declare their parameters differently. Give all parts the same parameters.",
            first.name, other.name
        ));
    }
    let shared = params.iter().position(|param| param.share == Share::RowsOfBlock)?;
    Some(format!(
        "Parameter {shared} of kernel {} would be written by all parts of a mixed task. It is divided among blocks only. Declare which part has it, with PartOut or PartInOut.",
        first.name
    ))
}

/// What is wrong if rows are to be divided among blocks and cannot be.
fn undivided(kernel: &KernelEntry, blocks: u32, args: &[TaskArg<'_>]) -> Option<String> {
    let Signature::Exactly(params) = &kernel.signature else { return None };
    let mut at = 0;
    for (index, param) in params.iter().enumerate() {
        let rows = match args.get(at)? {
            TaskArg::Tensor { core, .. } => (core.layout.ndim() > 0).then(|| core.layout.padded_shape()[0]),
            TaskArg::Output { request } => {
                let layout = request.buffer_shape.layout();
                (layout.ndim() > 0).then(|| layout.padded_shape()[0])
            }
            TaskArg::Scalar { .. } => None,
        };
        if param.share.is_divided() && blocks > 1 && !rows.is_some_and(|rows| rows.is_multiple_of(blocks)) {
            return Some(format!(
                "Argument {index} of kernel {} has {} rows, which cannot be divided among {blocks} blocks. Every block writes as many rows. Give as many blocks as divide the first dimension.",
                kernel.name,
                rows.unwrap_or(0)
            ));
        }
        at += match (param.access, &args[at]) {
            (Access::ReadList, TaskArg::Scalar { value, .. }) => 1 + *value as usize,
            _ => 1,
        };
    }
    None
}
