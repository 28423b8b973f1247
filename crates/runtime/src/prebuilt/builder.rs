//! The engine behind the orchestrator while a graph is built: takes submits down instead of running them.

use crate::engine::BuildProgress;
use crate::orchestrator::Dep;
use crate::sink::SubmitSink;
use plimsoll_abi::record::{ArgMode, SubmitRecord, SubmitTag};
use plimsoll_abi::{Dtype, ErrorCode, KernelId, RINGS, TaskId};
use plimsoll_graph::{BufferRef, BufferShape, BufferUse, Dependency, Layout, Tensormap, User};
use plimsoll_platform::CoreClass;
use plimsoll_sched::args::described_dtype;
use plimsoll_sched::prebuilt::{BufferPlace, GraphArg, GraphPlan, GraphTask};
use plimsoll_sched::site::Site;
use plimsoll_sched::submit::{Guesses, ScopeView};
use plimsoll_sched::{
    CallShape, Demand, Failure, FailureCause, KernelEntry, OutputPlace, OutputRequest, TaskArg, TensorCore,
};
use std::collections::HashMap;
use std::sync::Arc;

/// A host buffer of a graph under construction.
pub(super) struct HostBuffer {
    pub(super) base: u64,
    pub(super) elements: u64,
    /// Whether the run owns the buffer. Its owner is then the next entry in the orchestrator's list of kept buffers.
    pub(super) kept: bool,
}

/// Records the submits of a graph instead of executing them.
pub(super) struct GraphBuilder {
    pub(super) plan: GraphPlan,
    map: Tensormap,
    /// Where the buffer of each table entry is.
    places: HashMap<BufferRef, BufferPlace>,
    pub(super) buffers: Vec<HostBuffer>,
    pub(super) submits: Vec<SubmitRecord>,
    /// Sites and manual flags of the open scopes.
    scopes: Vec<(Site, bool)>,
    preds: Vec<u32>,
    /// Tasks that every submit waits for besides.
    after: Vec<TaskId>,
    /// The most tasks it may have.
    most: usize,
    /// The shape of the next submits.
    shape: CallShape,
    /// What cores each kernel wants.
    classes: Vec<CoreClass>,
    failure: Option<Failure>,
    /// Overlaps that may be false.
    pub(super) guesses: Guesses,
    /// What the program and its watch tell each other.
    pub(super) progress: Arc<BuildProgress>,
}

/// Outputs of a graph: far more than a machine has, and sums of one more task's fit 64 bits.
const MOST_HEAP: u64 = 1 << 45;

/// Marks the number of a host buffer in records.
const HOST: u64 = 1 << 63;

/// The number of a host buffer, from 1 upwards, by its id in records.
pub(super) fn host_number(id: u64) -> u64 {
    id & !HOST
}

impl GraphBuilder {
    pub(super) fn new(site: Site, kernels: &[KernelEntry], most: usize) -> Self {
        Self {
            plan: GraphPlan::default(),
            map: Tensormap::unbounded(),
            places: HashMap::new(),
            buffers: Vec::new(),
            submits: Vec::new(),
            scopes: vec![(site, false)],
            preds: Vec::new(),
            after: Vec::new(),
            most,
            shape: CallShape::ORDINARY,
            classes: kernels.iter().map(|kernel| kernel.class).collect(),
            failure: None,
            guesses: Guesses::default(),
            progress: Arc::default(),
        }
    }

    /// Notes a call of the program, which fails if that may not go on.
    fn note_call(&mut self) {
        self.progress.note_call();
        if self.failure.is_none() {
            self.failure = self.progress.failure().cloned();
        }
    }

    fn place(&mut self, buffer: BufferRef, place: BufferPlace) {
        self.places.insert(buffer, place);
    }

    fn fail(&mut self, failure: Failure) -> Box<Failure> {
        // What a program does that may not go on is no reason of its own.
        let first = || self.progress.failure().cloned().unwrap_or(failure);
        Box::new(self.failure.get_or_insert_with(first).clone())
    }

    fn invalid(&mut self, kernel: Option<KernelId>, cause: FailureCause) -> Box<Failure> {
        let mut failure = Failure::new(ErrorCode::InvalidArgs, cause);
        failure.kernel = kernel;
        failure.site = self.scopes.last().map(|scope| scope.0);
        self.fail(failure)
    }

    fn tensor(&mut self, task: TaskId, index: usize, core: &TensorCore, mode: ArgMode) -> Result<(), u16> {
        let place = self.places.get(&core.buffer).copied().unwrap_or(BufferPlace::Heap(0));
        self.plan.args.push(GraphArg::Tensor {
            place,
            layout: core.layout,
            elem_bytes: core.elem_bytes,
            mode,
            dtype: core.dtype(),
        });
        let manual = self.scopes.last().is_some_and(|scope| scope.1);
        if manual || !mode.is_inferred() {
            return Ok(());
        }
        let user = User::new(task, index as u16, mode.writes());
        let access = BufferUse { user, buffer: core.buffer, footprint: &core.footprint(&self.map) };
        let preds = &mut self.preds;
        let met = self.map.access(&access, |edge: Dependency| {
            preds.push(edge.pred.local());
            true
        });
        met.map_err(|conflict| conflict.with)
    }

    fn output(&mut self, task: TaskId, index: usize, request: &mut OutputRequest) {
        let start = self.plan.heap;
        self.plan.heap += request.bytes;
        let buffer = self.map.add_output(task, index as u16, &request.buffer_shape);
        self.place(buffer, BufferPlace::Heap(start));
        self.plan.args.push(GraphArg::Tensor {
            place: BufferPlace::Heap(start),
            layout: request.buffer_shape.layout(),
            // Unused: an output begins where its buffer begins, so no offset is computed.
            elem_bytes: 0,
            mode: ArgMode::Output,
            dtype: described_dtype(request.word),
        });
        request.place = OutputPlace { base: 0, buffer };
    }

    fn note_submit(&mut self, task: TaskId, kernel: KernelId, args: &[TaskArg<'_>]) {
        let manual = self.scopes.last().is_some_and(|scope| scope.1);
        let kernels = self.shape.recorded(kernel, self.classes.get(kernel.index()).copied().unwrap_or(CoreClass::Any));
        plimsoll_sched::submit::submit_records(&self.map, task, kernels, manual, args, &self.after, |record| {
            self.submits.push(*record);
        });
    }
}

impl SubmitSink for GraphBuilder {
    fn set_after(&mut self, deps: &[Dep<'_>]) {
        self.after.clear();
        self.after.extend(deps.iter().map(Dep::id));
    }

    fn set_shape(&mut self, shape: CallShape) {
        self.shape = shape;
    }

    fn submit(&mut self, kernel: KernelId, args: &mut [TaskArg<'_>], demand: Demand) -> Result<TaskId, Box<Failure>> {
        self.note_call();
        if let Some(failure) = &self.failure {
            return Err(Box::new(failure.clone()));
        }
        if demand.has_too_many_words() {
            return Err(self.invalid(Some(kernel), FailureCause::TooManyArguments));
        }
        let index = self.plan.tasks.len();
        if index >= self.most {
            let mut failure = Failure::new(ErrorCode::ScopeTasksOverflow, FailureCause::GraphIsFull(index));
            failure.kernel = Some(kernel);
            return Err(self.raise(failure));
        }
        let task = TaskId::new(0, index as u32);
        let (first_arg, first_pred) = (self.plan.args.len(), self.plan.preds.len());
        self.preds.clear();
        for at in 0..args.len() {
            match &mut args[at] {
                TaskArg::Tensor { core, mode } => {
                    if let Err(with) = self.tensor(task, at, core, *mode) {
                        let cause = TensorCore::overlap(&self.map, args, self.shape, with, at as u16);
                        return Err(self.invalid(Some(kernel), cause));
                    }
                }
                TaskArg::Output { request } => self.output(task, at, request),
                TaskArg::Scalar { value, dtype } => {
                    self.plan.args.push(GraphArg::Scalar { value: *value, dtype: *dtype });
                }
            }
        }
        if self.plan.heap > MOST_HEAP {
            return Err(self.invalid(Some(kernel), FailureCause::GraphHeapTooLarge));
        }
        self.preds.extend(self.after.iter().map(|dep| dep.local()));
        self.preds.sort_unstable();
        self.preds.dedup();
        self.plan.preds.extend_from_slice(&self.preds);
        self.note_submit(task, kernel, args);
        let site = self.scopes.last().map_or(Site::caller(), |scope| scope.0);
        self.guesses.note(self.map.conservative_overlaps(), site);
        let (args, preds) = (first_arg..self.plan.args.len(), first_pred..self.plan.preds.len());
        self.plan.tasks.push(GraphTask { kernel: kernel.0, shape: self.shape, site, args, preds });
        Ok(task)
    }

    fn add_buffer(&mut self, base: u64, layout: Layout, dtype: Dtype, elem_bytes: u32, kept: bool) -> TensorCore {
        self.note_call();
        let buffer = self.map.add_buffer(BufferShape::of(&layout));
        let number = self.buffers.len() as u32;
        self.place(buffer, BufferPlace::Host(number));
        self.buffers.push(HostBuffer { base, elements: layout.len(), kept });
        let id = HOST | u64::from(number + 1);
        self.submits.push(SubmitRecord {
            tag: SubmitTag::Buffer as u8,
            dtype: dtype as u8,
            ndim: layout.ndim() as u8,
            aux: elem_bytes,
            id,
            offset: base,
            shape: *layout.padded_shape(),
            strides: *layout.padded_strides(),
            ..SubmitRecord::default()
        });
        TensorCore::whole(OutputPlace { base, buffer }, layout, dtype, elem_bytes)
    }

    fn marks(&self) -> [u64; RINGS] {
        [0; RINGS]
    }

    /// Never: what a graph uses is used by every launch again.
    fn have_completed(&mut self, _: &[u64; RINGS]) -> bool {
        false
    }

    fn open_scope(&mut self, site: Site, manual: bool) {
        self.note_call();
        self.scopes.push((site, manual));
    }

    fn close_scope(&mut self) -> Result<ScopeView, Box<Failure>> {
        self.note_call();
        let site = self.scopes.pop().map_or(Site::caller(), |scope| scope.0);
        match &self.failure {
            Some(failure) => Err(Box::new(failure.clone())),
            None => Ok(ScopeView { site, depth: self.scopes.len(), peaks: Default::default() }),
        }
    }

    fn in_manual_scope(&self) -> bool {
        self.scopes.last().is_some_and(|scope| scope.1)
    }

    fn wait_for(&mut self, _: &TensorCore, writes: bool) -> Result<(), Box<Failure>> {
        Err(self.invalid(None, FailureCause::AccessInGraph { writes }))
    }

    fn raise(&mut self, mut failure: Failure) -> Box<Failure> {
        failure.site = failure.site.or(self.scopes.last().map(|scope| scope.0));
        self.fail(failure)
    }

    fn failure(&mut self) -> Option<Box<Failure>> {
        self.failure.as_ref().or(self.progress.failure()).cloned().map(Box::new)
    }
}
