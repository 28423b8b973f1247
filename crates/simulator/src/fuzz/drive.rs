//! The same programs on the runtime: streamed, or built once and launched on one set of buffers after the other.

use super::kernels::FuzzKernels;
use super::oracle::{VisibleData, host_data, written};
use super::program::{Cut, FuzzView, HOST, ProgramStep, TaskAction};
use crate::play::{unbound, unbound_dep};
use plimsoll_runtime::{
    Builder, Dep, Device, Orchestrator, RecordOptions, Result, RunOptions, SharedBuffer, TaskShape, Tensor, inout,
    input, input_list, no_dep, no_dep_inout, output, output_existing, scalar,
};
use std::time::Duration;

/// A device and the kernels of the programs.
pub struct TestDevice {
    /// The device.
    pub device: Device,
    kernels: FuzzKernels,
}

fn cut<'x>(tensor: Tensor<'x, i64>, cuts: &[Cut]) -> Result<Tensor<'x, i64>> {
    let pair = |v: &[usize]| [v[0], v[1]];
    let three = |v: &[usize]| [v[0], v[1], v[2]];
    cuts.iter().try_fold(tensor, |view, cut| match cut {
        Cut::Slice(dim, start, end) => view.slice(*dim, *start..*end),
        Cut::Tile(index, tile) => match index.len() {
            1 => view.tile([index[0]], [tile[0]]),
            2 => view.tile(pair(index), pair(tile)),
            _ => view.tile(three(index), three(tile)),
        },
        Cut::Transpose => Ok(view.transpose()),
        Cut::Permute(order) => match order.len() {
            1 => view.permute([order[0]]),
            2 => view.permute(pair(order)),
            _ => view.permute(three(order)),
        },
        Cut::Reshape(shape) => match shape.len() {
            1 => view.reshape([shape[0]]),
            _ => view.reshape(pair(shape)),
        },
    })
}

/// A program while it is submitted. Tensors and tasks are those of open scopes: what a closed one had is cut off.
struct Driver<'k> {
    kernels: &'k FuzzKernels,
    tensors: Vec<Tensor<'static, i64>>,
    tasks: Vec<Dep<'static>>,
    reads: VisibleData,
    /// Whether the program is run at once. While a graph is built nothing can be read, and what manual scopes wait for by
    /// reading is inferred instead.
    streaming: bool,
}

impl Driver<'_> {
    fn steps(&mut self, o: &mut Orchestrator<'_, '_>, steps: &[ProgramStep]) -> Result<()> {
        let (tensors, tasks) = (self.tensors.len(), self.tasks.len());
        for step in steps {
            match step {
                ProgramStep::Manual(steps) if self.streaming => {
                    // SAFETY: every task inside waits for those that it conflicts with, and what comes after waits for all
                    // of them by reading what the last one writes: so programs are made.
                    unsafe { o.manual_scope(|o| self.steps(o, steps)) }?;
                }
                ProgramStep::Scope(steps) | ProgramStep::Manual(steps) => o.scope(|o| self.steps(o, steps))?,
                ProgramStep::Read(view) => {
                    let view = self.view(view)?;
                    self.reads.push(o.read(&view)?);
                }
                ProgramStep::Write(view, k) => o.write(&self.view(view)?, &written(view, *k))?,
                ProgramStep::Task { kind, deps, k } => {
                    let deps: Vec<Dep<'_>> = deps.iter().map(|&task| self.tasks[task]).collect();
                    let made = self.task(o, kind, &deps, *k)?;
                    self.tensors.extend(made);
                    self.tasks.extend(o.last().map(unbound_dep));
                }
            }
        }
        self.tensors.truncate(tensors);
        self.tasks.truncate(tasks);
        Ok(())
    }

    fn view(&self, view: &FuzzView) -> Result<Tensor<'static, i64>> {
        cut(self.tensors[view.tensor], &view.cuts)
    }

    fn task(
        &self,
        o: &mut Orchestrator<'_, '_>,
        kind: &TaskAction,
        deps: &[Dep<'_>],
        k: i64,
    ) -> Result<Option<Tensor<'static, i64>>> {
        let (kernels, salt) = (self.kernels, || scalar(k));
        let view = |view: &FuzzView| self.view(view);
        match kind {
            TaskAction::BumpUntracked(x) if self.streaming => {
                let x = view(x)?;
                // SAFETY: only in manual scopes, whose tasks wait for each other as they must.
                let x = unsafe { no_dep_inout(&x) };
                o.submit_after(deps, &kernels.bump, (x, salt()))?;
            }
            TaskAction::Bump(x) | TaskAction::BumpUntracked(x) => {
                o.submit_after(deps, &kernels.bump, (inout(&view(x)?), salt()))?;
            }
            TaskAction::Fill(x) => drop(o.submit_after(deps, &kernels.fill, (output_existing(&view(x)?), salt()))?),
            TaskAction::Mix(a, x) => {
                let _ = o.submit_after(deps, &kernels.mix, (input(&view(a)?), inout(&view(x)?), salt()))?;
            }
            TaskAction::MixUntracked(a, x) => {
                let a = view(a)?;
                // SAFETY: no task writes that buffer.
                let a = unsafe { no_dep(&a) };
                o.submit_after(deps, &kernels.mix, (a, inout(&view(x)?), salt()))?;
            }
            TaskAction::Over(a, x) => {
                o.submit_after(deps, &kernels.over, (input(&view(a)?), output_existing(&view(x)?), salt()))?;
            }
            TaskAction::MixTwo(a, b, x) => {
                let (a, b, x) = (view(a)?, view(b)?, view(x)?);
                o.submit_after(deps, &kernels.mix_two, (input(&a), input(&b), inout(&x), salt()))?;
            }
            TaskAction::MixList(list, x) => {
                let list = list.iter().map(view).collect::<Result<Vec<_>>>()?;
                o.submit_after(deps, &kernels.mix_list, (input_list(&list), inout(&view(x)?), salt()))?;
            }
            TaskAction::BumpBlocks(x, blocks) => {
                let shape = TaskShape::blocks(*blocks);
                o.submit_shaped_after(deps, &shape, &kernels.bump_tile, (inout(&view(x)?), salt()))?;
            }
            TaskAction::BumpCohort(x, blocks) => {
                let shape = TaskShape::blocks(kernels.cohort(*blocks)).sync_start();
                o.submit_shaped_after(deps, &shape, &kernels.bump_together, (inout(&view(x)?), salt()))?;
            }
            TaskAction::MixCohort(a, x, blocks) => {
                let (a, x) = (view(a)?, view(x)?);
                let shape = TaskShape::blocks(kernels.mixed_cohort(*blocks)).sync_start();
                o.submit_shaped_after(deps, &shape, &kernels.mix_parts, (input(&a), inout(&x), salt()))?;
            }
            TaskAction::MixParts(a, x, blocks) => {
                let (a, x) = (view(a)?, view(x)?);
                let shape = TaskShape::blocks(*blocks);
                o.submit_shaped_after(deps, &shape, &kernels.mix_parts, (input(&a), inout(&x), salt()))?;
            }
            TaskAction::BumpIf(element, x, if_zero) => {
                let (element, x) = (view(element)?, view(x)?);
                let shape = TaskShape::default();
                let shape = if *if_zero { shape.unless(&element) } else { shape.only_if(&element) };
                o.submit_shaped_after(deps, &shape, &kernels.bump, (inout(&x), salt()))?;
            }
            TaskAction::Dummy(x) => o.submit_dummy(deps, (inout(&view(x)?),))?,
            TaskAction::Make(a, shape) => return self.make(o, Some(view(a)?), shape, deps, k).map(Some),
            TaskAction::MakeNew(shape) => return self.make(o, None, shape, deps, k).map(Some),
        }
        Ok(None)
    }
}

impl Driver<'_> {
    fn make(
        &self,
        o: &mut Orchestrator<'_, '_>,
        a: Option<Tensor<'_, i64>>,
        shape: &[usize],
        deps: &[Dep<'_>],
        k: i64,
    ) -> Result<Tensor<'static, i64>> {
        match *shape {
            [n] => self.make_shaped(o, a, [n], deps, k),
            [n, m] => self.make_shaped(o, a, [n, m], deps, k),
            [n, m, l] => self.make_shaped(o, a, [n, m, l], deps, k),
            _ => unreachable!("programs have up to three dimensions"),
        }
    }

    fn make_shaped<const N: usize>(
        &self,
        o: &mut Orchestrator<'_, '_>,
        a: Option<Tensor<'_, i64>>,
        shape: [usize; N],
        deps: &[Dep<'_>],
        k: i64,
    ) -> Result<Tensor<'static, i64>> {
        Ok(unbound(match a {
            Some(a) => o.submit_after(deps, &self.kernels.over, (input(&a), output(shape), scalar(k)))?.1,
            None => o.submit_after(deps, &self.kernels.fill, (output(shape), scalar(k)))?.0,
        }))
    }
}

/// Far more than any program takes: a run that hangs becomes an error that shows its program.
const LONG: Duration = Duration::from_secs(60);

/// Enters host buffer `at`.
fn share<'s>(o: &mut Orchestrator<'s, '_>, at: usize, buffer: &SharedBuffer<i64>) -> Result<Tensor<'s, i64>> {
    match *HOST[at].0 {
        [n] => o.share(buffer, [n]),
        [n, m] => o.share(buffer, [n, m]),
        [n, m, l] => o.share(buffer, [n, m, l]),
        _ => unreachable!("host buffers have up to three dimensions"),
    }
}

impl TestDevice {
    /// Opens the device and registers the kernels.
    pub fn open(builder: Builder) -> Result<Self> {
        Self::register(builder, false)
    }

    /// As [`open`](Self::open), for a device whose blocks are threads: those that start together wait for each other.
    pub fn on_threads(builder: Builder) -> Result<Self> {
        Self::register(builder, true)
    }

    fn register(builder: Builder, meet: bool) -> Result<Self> {
        let mut device = builder.open()?;
        let kernels = FuzzKernels::register(&mut device, meet);
        Ok(Self { device, kernels })
    }

    /// Runs the program.
    pub fn run(&mut self, steps: &[ProgramStep]) -> Result<VisibleData> {
        self.run_with(steps, &RunOptions::default())
    }

    /// Runs and records the program.
    pub fn run_recorded(&mut self, steps: &[ProgramStep], record: Option<RecordOptions>) -> Result<VisibleData> {
        self.run_with(steps, &RunOptions { record, ..RunOptions::default() })
    }

    /// Runs the program. The host buffers are owned, shared, borrowed to write, and borrowed to read.
    pub fn run_with(&mut self, steps: &[ProgramStep], options: &RunOptions) -> Result<VisibleData> {
        let options = self.complete(options);
        let shared = SharedBuffer::new(host_data(1));
        let (mut borrowed, read_only) = (host_data(2), host_data(3));
        let (lent, lent_to_read) = (&mut borrowed[..], &read_only[..]);
        let kernels = &self.kernels;
        let (owned, mut outcome) = self.device.run_with(&options, |o| {
            let tensors = vec![
                o.own(host_data(0), [HOST[0].0[0]])?,
                o.share(&shared, [HOST[1].0[0], HOST[1].0[1]])?,
                o.borrow_mut(lent, [HOST[2].0[0], HOST[2].0[1], HOST[2].0[2]])?,
                o.borrow(lent_to_read, [HOST[3].0[0]])?,
            ];
            let tensors: Vec<_> = tensors.into_iter().map(unbound).collect();
            let mut driver = Driver { kernels, tensors, tasks: vec![], reads: vec![], streaming: true };
            driver.steps(o, steps)?;
            Ok((o.read(&driver.tensors[0])?, driver.reads))
        })?;
        outcome.extend([owned, shared.to_vec()?, borrowed, read_only]);
        Ok(outcome)
    }

    /// Runs the program on the untyped tier.
    pub fn run_untyped(&mut self, steps: &[ProgramStep], options: &RunOptions) -> Result<VisibleData> {
        let options = self.complete(options);
        super::untyped::run(&mut self.device, &self.kernels, steps, &options)
    }

    /// Builds the program once, and launches it on its own buffers and on every set of `others`, each bound in turn; returns
    /// what every launch leaves in the buffers it was given.
    pub fn launch(
        &mut self,
        steps: &[ProgramStep],
        others: &[Vec<Vec<i64>>],
        options: &RunOptions,
    ) -> Result<Vec<VisibleData>> {
        let options = self.complete(options);
        let buffers = |data: Vec<Vec<i64>>| data.into_iter().map(SharedBuffer::new).collect::<Vec<_>>();
        let own = buffers((0..HOST.len()).map(host_data).collect());
        let kernels = &self.kernels;
        let mut graph = self.device.prebuild(|o| {
            let tensors = (0..HOST.len()).map(|at| share(o, at, &own[at]).map(unbound));
            let tensors = tensors.collect::<Result<_>>()?;
            let mut driver = Driver { kernels, tensors, tasks: vec![], reads: vec![], streaming: false };
            driver.steps(o, steps)
        })?;
        let mut left = vec![];
        let sets = [own.clone()].into_iter().chain(others.iter().map(|data| buffers(data.clone())));
        for set in sets {
            for (own, other) in own.iter().zip(&set) {
                graph.bind(own, other)?;
            }
            self.device.launch(&mut graph, 1, &options)?;
            left.push(set.iter().map(SharedBuffer::to_vec).collect::<Result<_>>()?);
        }
        Ok(left)
    }

    /// The options with an end for a run that would have none, and with the token that kernels may cancel.
    fn complete(&self, options: &RunOptions) -> RunOptions {
        let deadline = options.deadline.or(Some(LONG));
        let token = options.cancel.clone();
        self.kernels.cancel_with(token.clone().unwrap_or_default());
        RunOptions { deadline, cancel: token, ..options.clone() }
    }
}
