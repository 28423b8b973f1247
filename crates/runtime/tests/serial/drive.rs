//! The same programs on the runtime.

use crate::oracle::{Outcome, fold, host_data, mix};
use crate::program::{Cut, HOST, Kind, Step, View, indices};
use plimsoll_runtime::{
    Builder, Dep, Device, In, InList, InOut, Kernel, Orchestrator, Out, Read, ReadList, ReadWrite, RecordOptions,
    Result, RunOptions, SharedBuffer, Tensor, Value, Write, inout, input, input_list, output, output_existing, scalar,
};
use std::ops::{Index, IndexMut};
use std::time::Duration;

type K = Value<i64>;
type MixTwo = (Read<i64>, Read<i64>, ReadWrite<i64>, K);

/// A device and the kernels of the programs.
pub(crate) struct Bench {
    pub(crate) device: Device,
    kernels: Kernels,
}

struct Kernels {
    bump: Kernel<(ReadWrite<i64>, K)>,
    mix: Kernel<(Read<i64>, ReadWrite<i64>, K)>,
    mix_two: Kernel<MixTwo>,
    mix_list: Kernel<(ReadList<i64>, ReadWrite<i64>, K)>,
    over: Kernel<(Read<i64>, Write<i64>, K)>,
    fill: Kernel<(Write<i64>, K)>,
}

/// Some tasks take their time, so that others overtake them.
fn dawdle(k: i64) {
    match k.rem_euclid(23) {
        0 => std::thread::yield_now(),
        1 => (0..3000).for_each(|_| std::hint::spin_loop()),
        2 => std::thread::sleep(Duration::from_micros(20)),
        _ => {}
    }
}

/// A kernel's view with up to three dimensions.
trait Strided: Index<[usize; 1], Output = i64> + Index<[usize; 2], Output = i64> + Index<[usize; 3], Output = i64> {
    fn extents(&self) -> Vec<usize>;

    fn get(&self, at: &[usize]) -> i64 {
        match *at {
            [i] => self[[i]],
            [i, j] => self[[i, j]],
            [i, j, k] => self[[i, j, k]],
            _ => unreachable!("programs have up to three dimensions"),
        }
    }

    fn fold(&self) -> i64 {
        fold(indices(&self.extents()).map(|at| self.get(&at)))
    }
}

trait StridedMut: Strided + IndexMut<[usize; 1]> + IndexMut<[usize; 2]> + IndexMut<[usize; 3]> {
    fn change(&mut self, value: impl Fn(i64, usize) -> i64) {
        for (place, at) in indices(&self.extents()).enumerate() {
            let new = value(self.get(&at), place);
            match *at {
                [i] => self[[i]] = new,
                [i, j] => self[[i, j]] = new,
                [i, j, k] => self[[i, j, k]] = new,
                _ => unreachable!("programs have up to three dimensions"),
            }
        }
    }
}

macro_rules! strided {
    ($($view:ident)*) => {
        $(impl Strided for $view<'_, i64> {
            fn extents(&self) -> Vec<usize> {
                self.shape().iter().map(|&extent| extent as usize).collect()
            }
        })*
    };
}

strided!(In InOut Out);
impl StridedMut for InOut<'_, i64> {}
impl StridedMut for Out<'_, i64> {}

impl Kernels {
    fn register(device: &mut Device) -> Self {
        Self {
            bump: device.kernel("bump", |mut x: InOut<i64>, k: i64| {
                dawdle(k);
                x.change(|old, place| mix(old, 0, k, place));
            }),
            mix: device.kernel("mix", |a: In<i64>, mut x: InOut<i64>, k: i64| {
                dawdle(k);
                let with = a.fold();
                x.change(|old, place| mix(old, with, k, place));
            }),
            mix_two: device.kernel("mix_two", |a: In<i64>, b: In<i64>, mut x: InOut<i64>, k: i64| {
                dawdle(k);
                let with = mix(a.fold(), b.fold(), 0, 0);
                x.change(|old, place| mix(old, with, k, place));
            }),
            mix_list: device.kernel("mix_list", |list: InList<i64>, mut x: InOut<i64>, k: i64| {
                dawdle(k);
                let with = fold(list.iter().map(|a| a.fold()));
                x.change(|old, place| mix(old, with, k, place));
            }),
            over: device.kernel("over", |a: In<i64>, mut x: Out<i64>, k: i64| {
                dawdle(k);
                let with = a.fold();
                x.change(|_, place| mix(1, with, k, place));
            }),
            fill: device.kernel("fill", |mut x: Out<i64>, k: i64| {
                dawdle(k);
                x.change(|_, place| mix(2, 0, k, place));
            }),
        }
    }
}

/// What a step can see of the scopes around it. Each scope has a lifetime of its own, so look-ups hand the tensor on.
trait Scopes {
    fn tensor(&self, at: usize, use_it: &mut dyn FnMut(&Tensor<'_, i64>));
    fn tasks(&self, depth: usize, which: &[usize], use_them: &mut dyn FnMut(&[Dep<'_>]));
    fn depth(&self) -> usize;
    fn visible(&self) -> usize;
}

struct Frame<'s, 'p> {
    outer: Option<&'p dyn Scopes>,
    tensors: Vec<Tensor<'s, i64>>,
    tasks: Vec<Dep<'s>>,
}

impl Scopes for Frame<'_, '_> {
    fn tensor(&self, at: usize, use_it: &mut dyn FnMut(&Tensor<'_, i64>)) {
        match self.outer {
            Some(outer) if at < outer.visible() => outer.tensor(at, use_it),
            outer => use_it(&self.tensors[at - outer.map_or(0, |outer| outer.visible())]),
        }
    }

    fn tasks(&self, depth: usize, which: &[usize], use_them: &mut dyn FnMut(&[Dep<'_>])) {
        match self.outer {
            Some(outer) if depth < self.depth() => outer.tasks(depth, which, use_them),
            _ => use_them(&which.iter().map(|&task| self.tasks[task]).collect::<Vec<_>>()),
        }
    }

    fn depth(&self) -> usize {
        self.outer.map_or(0, |outer| outer.depth() + 1)
    }

    fn visible(&self) -> usize {
        self.outer.map_or(0, |outer| outer.visible()) + self.tensors.len()
    }
}

fn cut<'x>(tensor: &Tensor<'x, i64>, cuts: &[Cut]) -> Result<Tensor<'x, i64>> {
    let pair = |v: &[usize]| [v[0], v[1]];
    let three = |v: &[usize]| [v[0], v[1], v[2]];
    cuts.iter().try_fold(*tensor, |view, cut| match cut {
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

/// Runs `body` with the tensor that a view stands for.
fn with_view<R>(scopes: &dyn Scopes, view: &View, mut body: impl FnMut(&Tensor<'_, i64>) -> Result<R>) -> Result<R> {
    let mut result = None;
    scopes.tensor(view.tensor, &mut |tensor| result = Some(cut(tensor, &view.cuts).and_then(|cut| body(&cut))));
    result.expect("the tensor is visible")
}

fn with_deps<R>(
    scopes: &dyn Scopes,
    deps: &Option<(usize, Vec<usize>)>,
    mut body: impl FnMut(&[Dep<'_>]) -> Result<R>,
) -> Result<R> {
    let Some((depth, which)) = deps else { return body(&[]) };
    let mut result = None;
    scopes.tasks(*depth, which, &mut |deps| result = Some(body(deps)));
    result.expect("the scope is open")
}

type Made<'s> = Option<Tensor<'s, i64>>;

struct Driver<'k> {
    kernels: &'k Kernels,
    reads: Outcome,
}

impl Driver<'_> {
    fn steps<'s>(&mut self, o: &mut Orchestrator<'s, '_>, frame: &mut Frame<'s, '_>, steps: &[Step]) -> Result<()> {
        for step in steps {
            match step {
                Step::Scope(steps) => o.scope(|o| {
                    let mut inner = Frame { outer: Some(frame), tensors: vec![], tasks: vec![] };
                    self.steps(o, &mut inner, steps)
                })?,
                Step::Read(view) => self.reads.push(with_view(frame, view, |tensor| o.read(tensor))?),
                Step::Task { kind, deps, k } => {
                    let made = with_deps(frame, deps, |deps| self.task(o, frame, kind, deps, *k))?;
                    frame.tensors.extend(made);
                    frame.tasks.extend(o.last());
                }
            }
        }
        Ok(())
    }

    fn task<'s>(
        &self,
        o: &mut Orchestrator<'s, '_>,
        frame: &Frame<'s, '_>,
        kind: &Kind,
        deps: &[Dep<'_>],
        k: i64,
    ) -> Result<Made<'s>> {
        let kernels = self.kernels;
        match kind {
            Kind::Bump(x) => {
                with_view(frame, x, |x| o.submit_after(deps, &kernels.bump, (inout(x), scalar(k))))?;
            }
            Kind::Fill(x) => {
                with_view(frame, x, |x| o.submit_after(deps, &kernels.fill, (output_existing(x), scalar(k))))?;
            }
            Kind::Mix(a, x) => with_view(frame, a, |a| {
                with_view(frame, x, |x| o.submit_after(deps, &kernels.mix, (input(a), inout(x), scalar(k))).map(drop))
            })?,
            Kind::Over(a, x) => with_view(frame, a, |a| {
                with_view(frame, x, |x| {
                    o.submit_after(deps, &kernels.over, (input(a), output_existing(x), scalar(k))).map(drop)
                })
            })?,
            Kind::MixTwo(a, b, x) => with_view(frame, a, |a| {
                with_view(frame, b, |b| {
                    with_view(frame, x, |x| {
                        let args = (input(a), input(b), inout(x), scalar(k));
                        o.submit_after(deps, &kernels.mix_two, args).map(drop)
                    })
                })
            })?,
            Kind::MixList(list, x) => self.mix_list(o, frame, list, x, deps, k)?,
            Kind::Make(a, shape) => return with_view(frame, a, |a| self.make(o, Some(a), shape, deps, k).map(Some)),
            Kind::MakeNew(shape) => return self.make(o, None, shape, deps, k).map(Some),
        }
        Ok(None)
    }

    fn mix_list(
        &self,
        o: &mut Orchestrator<'_, '_>,
        frame: &Frame<'_, '_>,
        list: &[View],
        x: &View,
        deps: &[Dep<'_>],
        k: i64,
    ) -> Result<()> {
        let mut outcome = Ok(());
        frame.tensor(list[0].tensor, &mut |tensor| {
            outcome = list.iter().map(|view| cut(tensor, &view.cuts)).collect::<Result<Vec<_>>>().and_then(|list| {
                with_view(frame, x, |x| {
                    let args = (input_list(&list), inout(x), scalar(k));
                    o.submit_after(deps, &self.kernels.mix_list, args).map(drop)
                })
            });
        });
        outcome
    }

    fn make<'s>(
        &self,
        o: &mut Orchestrator<'s, '_>,
        a: Option<&Tensor<'_, i64>>,
        shape: &[usize],
        deps: &[Dep<'_>],
        k: i64,
    ) -> Result<Tensor<'s, i64>> {
        match *shape {
            [n] => self.make_shaped(o, a, [n], deps, k),
            [n, m] => self.make_shaped(o, a, [n, m], deps, k),
            [n, m, l] => self.make_shaped(o, a, [n, m, l], deps, k),
            _ => unreachable!("programs have up to three dimensions"),
        }
    }

    fn make_shaped<'s, const N: usize>(
        &self,
        o: &mut Orchestrator<'s, '_>,
        a: Option<&Tensor<'_, i64>>,
        shape: [usize; N],
        deps: &[Dep<'_>],
        k: i64,
    ) -> Result<Tensor<'s, i64>> {
        let made = match a {
            Some(a) => o.submit_after(deps, &self.kernels.over, (input(a), output(shape), scalar(k)))?.1,
            None => o.submit_after(deps, &self.kernels.fill, (output(shape), scalar(k)))?.0,
        };
        Ok(made)
    }
}

impl Bench {
    pub(crate) fn open(builder: Builder) -> Result<Self> {
        let mut device = builder.open()?;
        let kernels = Kernels::register(&mut device);
        Ok(Self { device, kernels })
    }

    /// Runs the program.
    pub(crate) fn run(&mut self, steps: &[Step]) -> Result<Outcome> {
        self.run_recorded(steps, None)
    }

    /// Runs and records the program. The host buffers are owned, shared, borrowed to write, and borrowed to read.
    pub(crate) fn run_recorded(&mut self, steps: &[Step], record: Option<RecordOptions>) -> Result<Outcome> {
        let mut driver = Driver { kernels: &self.kernels, reads: vec![] };
        let shared = SharedBuffer::new(host_data(1));
        let (mut borrowed, read_only) = (host_data(2), host_data(3));
        let (lent, lent_to_read) = (&mut borrowed[..], &read_only[..]);
        // Far more than any program takes: a run that hangs becomes an error that shows its program.
        let options = RunOptions { deadline: Some(Duration::from_secs(60)), record, ..RunOptions::default() };
        let owned = self.device.run_with(&options, |o| {
            let tensors = vec![
                o.own(host_data(0), [HOST[0].0[0]])?,
                o.share(&shared, [HOST[1].0[0], HOST[1].0[1]])?,
                o.borrow_mut(lent, [HOST[2].0[0], HOST[2].0[1], HOST[2].0[2]])?,
                o.borrow(lent_to_read, [HOST[3].0[0]])?,
            ];
            let mut root = Frame { outer: None, tensors, tasks: vec![] };
            driver.steps(o, &mut root, steps)?;
            o.read(&root.tensors[0])
        })?;
        let mut outcome = driver.reads;
        outcome.extend([owned, shared.to_vec()?, borrowed, read_only]);
        Ok(outcome)
    }
}
