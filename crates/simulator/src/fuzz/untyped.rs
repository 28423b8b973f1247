//! The same programs on the untyped tier: the typed kernels by id, everything else by calls.

use super::kernels::FuzzKernels;
use super::oracle::{VisibleData, host_data, written};
use super::program::{Cut, FuzzView, HOST, ProgramStep, TaskAction};
use plimsoll_abi::Dtype;
use plimsoll_runtime::untyped::{Arg, ElementSpec, Orchestrator, Submitted, Task, Tensor};
use plimsoll_runtime::{Device, Result, RunOptions};

const I64: ElementSpec = ElementSpec::of(Dtype::I64);

fn bytes_of(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn values_of(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks().0.iter().map(|value| i64::from_ne_bytes(*value)).collect()
}

/// A program while it is submitted. Tensors and tasks are those of open scopes: what a closed one had is cut off.
struct Driver<'k> {
    kernels: &'k FuzzKernels,
    tensors: Vec<Tensor>,
    tasks: Vec<Submitted>,
    reads: VisibleData,
    made: Vec<Tensor>,
}

fn cut(tensor: Tensor, cuts: &[Cut]) -> Result<Tensor> {
    cuts.iter().try_fold(tensor, |view, cut| match cut {
        Cut::Slice(dim, start, end) => view.slice(*dim, *start..*end),
        Cut::Tile(index, tile) => view.tile(index, tile),
        Cut::Transpose => Ok(view.transpose()),
        Cut::Permute(order) => view.permute(order),
        Cut::Reshape(shape) => view.reshape(shape),
    })
}

fn read(o: &mut Orchestrator<'_, '_>, tensor: &Tensor) -> Result<Vec<i64>> {
    let mut bytes = vec![0; tensor.len() * I64.bytes as usize];
    o.read(tensor, &mut bytes)?;
    Ok(values_of(&bytes))
}

impl Driver<'_> {
    fn steps(&mut self, o: &mut Orchestrator<'_, '_>, steps: &[ProgramStep]) -> Result<()> {
        let (tensors, tasks) = (self.tensors.len(), self.tasks.len());
        for step in steps {
            match step {
                ProgramStep::Manual(steps) => {
                    // SAFETY: every task inside waits for those that it conflicts with, and what comes after waits for all
                    // of them by reading what the last one writes: so programs are made.
                    unsafe { o.open_manual_scope() };
                    self.steps(o, steps)?;
                    o.close_scope()?;
                }
                ProgramStep::Scope(steps) => {
                    o.open_scope()?;
                    self.steps(o, steps)?;
                    o.close_scope()?;
                }
                ProgramStep::Read(view) => {
                    let data = read(o, &self.view(view)?)?;
                    self.reads.push(data);
                }
                ProgramStep::Write(view, k) => o.write(&self.view(view)?, &bytes_of(&written(view, *k)))?,
                ProgramStep::Task { kind, deps, k } => {
                    let deps: Vec<Submitted> = deps.iter().map(|&task| self.tasks[task]).collect();
                    self.task(o, kind, &deps, *k)?;
                }
            }
        }
        self.tensors.truncate(tensors);
        self.tasks.truncate(tasks);
        Ok(())
    }

    fn view(&self, view: &FuzzView) -> Result<Tensor> {
        cut(self.tensors[view.tensor], &view.cuts)
    }

    fn task(&mut self, o: &mut Orchestrator<'_, '_>, kind: &TaskAction, deps: &[Submitted], k: i64) -> Result<()> {
        let kernels = self.kernels;
        let mut made = std::mem::take(&mut self.made);
        let views = |views: &[&FuzzView]| views.iter().map(|view| self.view(view)).collect::<Result<Vec<_>>>();
        let k = Arg::scalar(k);
        let mut submit = |kernel, args: &[Arg<'_>]| o.submit(&Task::new(kernel, args).after(deps), &mut made);
        let task = match kind {
            TaskAction::Bump(x) => submit(kernels.bump.untyped(), &[Arg::inout(&self.view(x)?), k]),
            TaskAction::BumpUntracked(x) => {
                let x = self.view(x)?;
                // SAFETY: only in manual scopes, whose tasks wait for each other as they must.
                submit(kernels.bump.untyped(), &[unsafe { Arg::no_dep_inout(&x) }, k])
            }
            TaskAction::Fill(x) => submit(kernels.fill.untyped(), &[Arg::output_existing(&self.view(x)?), k]),
            TaskAction::Mix(a, x) => {
                let v = views(&[a, x])?;
                submit(kernels.mix.untyped(), &[Arg::input(&v[0]), Arg::inout(&v[1]), k])
            }
            TaskAction::MixUntracked(a, x) => {
                let v = views(&[a, x])?;
                // SAFETY: no task writes that buffer.
                submit(kernels.mix.untyped(), &[unsafe { Arg::no_dep(&v[0]) }, Arg::inout(&v[1]), k])
            }
            TaskAction::Over(a, x) => {
                let v = views(&[a, x])?;
                submit(kernels.over.untyped(), &[Arg::input(&v[0]), Arg::output_existing(&v[1]), k])
            }
            TaskAction::MixTwo(a, b, x) => {
                let v = views(&[a, b, x])?;
                let args = [Arg::input(&v[0]), Arg::input(&v[1]), Arg::inout(&v[2]), k];
                submit(kernels.mix_two.untyped(), &args)
            }
            TaskAction::MixList(list, x) => {
                let (list, x) = (views(&list.iter().collect::<Vec<_>>())?, self.view(x)?);
                submit(kernels.mix_list.untyped(), &[Arg::input_list(&list), Arg::inout(&x), k])
            }
            TaskAction::BumpBlocks(x, blocks) => {
                let x = self.view(x)?;
                let args = [Arg::inout(&x), k];
                o.submit(&Task::new(kernels.bump_tile.untyped(), &args).blocks(*blocks).after(deps), &mut made)
            }
            TaskAction::BumpCohort(x, blocks) => {
                let x = self.view(x)?;
                let args = [Arg::inout(&x), k];
                let task = Task::new(kernels.bump_together.untyped(), &args).blocks(kernels.cohort(*blocks));
                o.submit(&task.sync_start().after(deps), &mut made)
            }
            TaskAction::MixParts(a, x, blocks) | TaskAction::MixCohort(a, x, blocks) => {
                let v = views(&[a, x])?;
                let args = [Arg::input(&v[0]), Arg::inout(&v[1]), k];
                o.submit(&mixed(kernels, &args, *blocks, kind.is_cohort()).after(deps), &mut made)
            }
            TaskAction::BumpIf(element, x, if_zero) => {
                let (element, x) = (self.view(element)?, self.view(x)?);
                let args = [Arg::inout(&x), k];
                let task = Task::new(kernels.bump.untyped(), &args).after(deps);
                o.submit(&if *if_zero { task.unless(&element) } else { task.only_if(&element) }, &mut made)
            }
            TaskAction::Dummy(x) => o.submit(&Task::dummy(&[Arg::inout(&self.view(x)?)]).after(deps), &mut made),
            TaskAction::Make(a, shape) => {
                submit(kernels.over.untyped(), &[Arg::input(&self.view(a)?), Arg::output(I64, shape), k])
            }
            TaskAction::MakeNew(shape) => submit(kernels.fill.untyped(), &[Arg::output(I64, shape), k]),
        }?;
        self.tasks.push(task);
        self.tensors.append(&mut made);
        self.made = made;
        Ok(())
    }
}

/// A task of two parts in each of its blocks.
fn mixed<'a>(kernels: &FuzzKernels, args: &'a [Arg<'a>], blocks: u32, is_cohort: bool) -> Task<'a> {
    let [first, second] = kernels.mix_parts;
    let task = Task::new(first.untyped(), args).with_parts(second.untyped(), None);
    match is_cohort {
        true => task.blocks(kernels.mixed_cohort(blocks)).sync_start(),
        false => task.blocks(blocks),
    }
}

/// Runs the program. The host buffers are owned, or memory of this function's.
pub(super) fn run(
    device: &mut Device,
    kernels: &FuzzKernels,
    steps: &[ProgramStep],
    options: &RunOptions,
) -> Result<VisibleData> {
    let (mut borrowed, mut read_only) = (host_data(2), host_data(3));
    let (lent, lent_to_read) = (borrowed.as_mut_ptr().cast::<u8>(), read_only.as_mut_ptr().cast::<u8>());
    let mut outcome = device.run_untyped(options, |o| {
        let bytes = |at: usize| HOST[at].0.iter().product::<usize>() * I64.bytes as usize;
        let mut tensors = vec![];
        for at in [0, 1] {
            tensors.push(o.own(bytes_of(&host_data(at)), I64, HOST[at].0)?);
        }
        // SAFETY: the vectors live, and are looked at only after the run.
        tensors.push(unsafe { o.borrow(lent, bytes(2), I64, HOST[2].0, true, None) }?);
        // SAFETY: as above; nobody writes it.
        tensors.push(unsafe { o.borrow(lent_to_read, bytes(3), I64, HOST[3].0, false, None) }?);
        let mut driver = Driver { kernels, tensors, tasks: vec![], reads: vec![], made: vec![] };
        driver.steps(o, steps)?;
        for at in [0, 1] {
            let data = read(o, &driver.tensors[at])?;
            driver.reads.push(data);
        }
        Ok(driver.reads)
    })?;
    outcome.extend([borrowed, read_only]);
    Ok(outcome)
}
