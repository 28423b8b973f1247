//! Random programs over the whole API: what proptest draws, and what is run. Resolving turns any draw into a valid program, so
//! that shrinking never leaves the valid ones.
//!
//! In a manual scope nothing is inferred, so the program keeps the contract itself: the scope uses one tensor of the outside,
//! which a task writes right before, and what is made inside; every task names those before it that it conflicts with; and a
//! last task that waits for all of them writes the tensor again, which is then read.

use proptest::prelude::*;

/// The host buffers: shape, and whether tasks may write them.
pub const HOST: [(&[usize], bool); 4] = [(&[24], true), (&[4, 6], true), (&[2, 3, 4], true), (&[10], false)];
/// The one that no task writes.
const READ_ONLY: usize = 3;
const SHAPES: [&[usize]; 6] = [&[1], &[8], &[2, 5], &[17], &[3, 2, 2], &[6, 4]];

/// A step as it is drawn: numbers that choose among what there is.
#[derive(Clone, Debug)]
pub enum Draw {
    /// Submits a task.
    Task {
        /// What it does.
        kind: u8,
        /// With which tensors.
        tensors: [u8; 3],
        /// And which parts of them.
        cuts: [Vec<(u8, u8, u8)>; 3],
        /// Tasks that it waits for besides.
        deps: u8,
        /// A number mixed into the result, so that no two tasks give the same.
        k: i16,
    },
    /// Reads data back, or overwrites it.
    Copy {
        /// The tensor.
        tensor: u8,
        /// The part of it.
        cuts: Vec<(u8, u8, u8)>,
        /// What is written, if anything.
        write: Option<i16>,
    },
    /// Opens a scope.
    Scope(Vec<Draw>),
    /// Opens a manual scope over a tensor.
    Manual(u8, Vec<Draw>),
}

fn cuts() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    prop::collection::vec(any::<(u8, u8, u8)>(), 0..4)
}

/// Programs with scopes up to five deep.
pub fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let task = (0u8..16, any::<[u8; 3]>(), [cuts(), cuts(), cuts()], any::<u8>(), any::<i16>())
        .prop_map(|(kind, tensors, cuts, deps, k)| Draw::Task { kind, tensors, cuts, deps, k });
    let read = (any::<u8>(), cuts(), any::<Option<i16>>()).prop_map(|(tensor, cuts, write)| Draw::Copy {
        tensor,
        cuts,
        write,
    });
    let leaf = prop_oneof![12 => task, 1 => read];
    let step = leaf.prop_recursive(5, 60, 9, |inner| {
        let steps = || prop::collection::vec(inner.clone(), 1..9);
        prop_oneof![4 => steps().prop_map(Draw::Scope), 1 => (any::<u8>(), steps()).prop_map(|(t, d)| Draw::Manual(t, d))]
    });
    prop::collection::vec(step, 1..16)
}

/// One step of making a view.
#[derive(Clone, Debug, PartialEq)]
pub enum Cut {
    /// Dimension, start and end.
    Slice(usize, usize, usize),
    /// Index and extents.
    Tile(Vec<usize>, Vec<usize>),
    /// The dimensions in reverse order.
    Transpose,
    /// The dimensions in this order.
    Permute(Vec<usize>),
    /// Another shape.
    Reshape(Vec<usize>),
}

/// A view: how the runtime is asked for it, and which elements it must have, in row-major order.
#[derive(Clone, Debug)]
pub struct FuzzView {
    /// Place in the stack of visible tensors.
    pub tensor: usize,
    /// What is cut, one after the other.
    pub cuts: Vec<Cut>,
    /// Its extents.
    pub shape: Vec<usize>,
    /// The elements of the tensor that it has.
    pub elements: Vec<usize>,
    /// Whether it is a box of its buffer: then overlap is exact.
    boxed: bool,
}

/// What a task does; the oracle has the same match over it.
#[derive(Clone, Debug)]
pub enum TaskAction {
    /// inout
    Bump(FuzzView),
    /// input, inout
    Mix(FuzzView, FuzzView),
    /// input, input, inout
    MixTwo(FuzzView, FuzzView, FuzzView),
    /// input, existing output
    Over(FuzzView, FuzzView),
    /// existing output
    Fill(FuzzView),
    /// input, output
    Make(FuzzView, Vec<usize>),
    /// output
    MakeNew(Vec<usize>),
    /// list of inputs of one tensor, inout
    MixList(Vec<FuzzView>, FuzzView),
    /// input that inference does not look at, inout
    MixUntracked(FuzzView, FuzzView),
    /// inout that inference does not look at
    BumpUntracked(FuzzView),
    /// inout, in this many blocks
    BumpBlocks(FuzzView, u32),
    /// inout, in blocks that start together: as many as divide this number and can
    BumpCohort(FuzzView, u32),
    /// input, inout; in this many blocks of two parts
    MixParts(FuzzView, FuzzView, u32),
    /// input, inout; in blocks of two parts that start together: as many as divide this number and can
    MixCohort(FuzzView, FuzzView, u32),
    /// inout, if the one element of the first view is zero, or if it is not
    BumpIf(FuzzView, FuzzView, bool),
    /// inout, of a task that executes nothing
    Dummy(FuzzView),
}

/// A step of a valid program.
#[derive(Clone, Debug)]
pub enum ProgramStep {
    /// Submits a task, which waits for the named ones besides: places in the stack of visible tasks.
    Task {
        /// What it does.
        kind: Box<TaskAction>,
        /// Tasks that it waits for.
        deps: Vec<usize>,
        /// A number mixed into the result, so that no two tasks give the same; some numbers stand for a kernel that fails, panics or
        /// cancels.
        k: i64,
    },
    /// Reads data back.
    Read(FuzzView),
    /// Overwrites data with [`oracle::written`](super::oracle::written) of this number.
    Write(FuzzView, i64),
    /// Opens a scope.
    Scope(Vec<ProgramStep>),
    /// Opens a manual scope.
    Manual(Vec<ProgramStep>),
}

/// Values of `k` with which a kernel does not end as others do.
pub mod planned {
    /// It fails.
    pub const FAILURE: i64 = i64::MIN;
    /// It panics.
    pub const PANIC: i64 = i64::MIN + 1;
    /// It cancels its run, and does what it should.
    pub const CANCEL: i64 = i64::MIN + 2;
}

/// The valid program that a draw stands for.
pub fn resolve(draws: &[Draw]) -> Vec<ProgramStep> {
    let tensors = HOST.iter().map(|(shape, writable)| (shape.to_vec(), *writable)).collect();
    Resolver { tensors, tasks: vec![], manual: None }.scope(draws)
}

/// The `k` of the program's tasks that are executed whatever the data, in their order.
pub fn tasks(steps: &mut [ProgramStep]) -> Vec<&mut i64> {
    let mut all = vec![];
    for step in steps {
        match step {
            ProgramStep::Task { kind, k, .. } => {
                all.extend((!matches!(**kind, TaskAction::BumpIf(..) | TaskAction::Dummy(_))).then_some(k));
            }
            ProgramStep::Scope(steps) | ProgramStep::Manual(steps) => all.extend(tasks(steps)),
            ProgramStep::Read(_) | ProgramStep::Write(..) => {}
        }
    }
    all
}

/// The program without what it reads and writes itself, which cannot be while a graph is built.
pub fn without_copies(steps: &[ProgramStep]) -> Vec<ProgramStep> {
    let kept = steps.iter().filter(|step| !matches!(step, ProgramStep::Read(_) | ProgramStep::Write(..)));
    kept.map(|step| match step {
        ProgramStep::Scope(steps) => ProgramStep::Scope(without_copies(steps)),
        ProgramStep::Manual(steps) => ProgramStep::Manual(without_copies(steps)),
        other => other.clone(),
    })
    .collect()
}

/// What a task touches: views, and whether it writes them.
type Uses = Vec<(FuzzView, bool)>;

struct Resolver {
    /// Shapes of the visible tensors, and whether they may be written.
    tensors: Vec<(Vec<usize>, bool)>,
    /// The visible tasks.
    tasks: Vec<Uses>,
    /// Inside a manual scope.
    manual: Option<Manual>,
}

#[derive(Clone, Copy)]
struct Manual {
    /// The one tensor of the outside that is used.
    tensor: usize,
    /// The first of those made inside.
    made: usize,
    /// The first task that those inside may conflict with.
    first: usize,
}

impl Resolver {
    fn scope(&mut self, draws: &[Draw]) -> Vec<ProgramStep> {
        let (tensors, tasks) = (self.tensors.len(), self.tasks.len());
        let mut steps = vec![];
        draws.iter().for_each(|draw| self.step(draw, &mut steps));
        if let Some(manual) = self.manual {
            let all = (manual.first..self.tasks.len()).collect();
            steps.push(self.task(TaskAction::Bump(self.view(manual.tensor, &[])), all, 1));
            steps.push(ProgramStep::Read(self.view(manual.tensor, &[])));
        }
        self.tasks.truncate(tasks);
        self.tensors.truncate(tensors);
        steps
    }

    fn step(&mut self, draw: &Draw, steps: &mut Vec<ProgramStep>) {
        match draw {
            Draw::Scope(draws) | Draw::Manual(_, draws) if self.manual.is_some() => {
                steps.push(ProgramStep::Manual(self.scope(draws)));
            }
            Draw::Scope(draws) => steps.push(ProgramStep::Scope(self.scope(draws))),
            Draw::Manual(tensor, draws) => {
                let writable = self.usable(true);
                let tensor = writable[*tensor as usize % writable.len()];
                let whole = self.view(tensor, &[]);
                let before = self.task(TaskAction::Bump(whole), vec![], 2);
                steps.push(before);
                self.manual = Some(Manual { tensor, made: self.tensors.len(), first: self.tasks.len() - 1 });
                steps.push(ProgramStep::Manual(self.scope(draws)));
                self.manual = None;
            }
            Draw::Copy { tensor, cuts, write } => {
                let usable = self.usable(write.is_some());
                let view = self.view(usable[*tensor as usize % usable.len()], cuts);
                steps.push(write.map_or(ProgramStep::Read(view.clone()), |k| ProgramStep::Write(view, i64::from(k))));
            }
            Draw::Task { kind, tensors, cuts, deps, k } => {
                let kind = self.kind(*kind, tensors, cuts);
                let deps = self.deps(&kind, *deps);
                let step = self.task(kind, deps, i64::from(*k));
                steps.push(step);
            }
        }
    }

    fn task(&mut self, kind: TaskAction, deps: Vec<usize>, k: i64) -> ProgramStep {
        self.tasks.push(kind.uses());
        if let TaskAction::Make(_, shape) | TaskAction::MakeNew(shape) = &kind {
            self.tensors.push((shape.clone(), true));
            let made = self.view(self.tensors.len() - 1, &[]);
            self.tasks.last_mut().expect("pushed above").push((made, true));
        }
        ProgramStep::Task { kind: Box::new(kind), deps, k }
    }

    /// Tensors that a task may use here.
    fn usable(&self, to_write: bool) -> Vec<usize> {
        let here = |t: &usize| self.manual.is_none_or(|m| *t == m.tensor || *t >= m.made || !self.tensors[*t].1);
        (0..self.tensors.len()).filter(here).filter(|&t| self.tensors[t].1 || !to_write).collect()
    }

    fn kind(&self, kind: u8, tensors: &[u8; 3], cuts: &[Vec<(u8, u8, u8)>; 3]) -> TaskAction {
        let (usable, writable) = (self.usable(false), self.usable(true));
        let any = |at: usize| self.view(usable[tensors[at] as usize % usable.len()], &cuts[at]);
        let target = self.view(writable[tensors[2] as usize % writable.len()], &cuts[2]);
        let shape = SHAPES[tensors[2] as usize % SHAPES.len()].to_vec();
        let apart = |sources: &[FuzzView]| sources.iter().all(|source| source.is_apart_from(&target));
        match kind {
            0 => TaskAction::Bump(target),
            1 if apart(&[any(0)]) => TaskAction::Mix(any(0), target),
            2 if apart(&[any(0), any(1)]) => TaskAction::MixTwo(any(0), any(1), target),
            3 if apart(&[any(0)]) => TaskAction::Over(any(0), target),
            4 => TaskAction::Fill(target),
            5 => TaskAction::Make(any(0), shape),
            6 => TaskAction::MakeNew(shape),
            7 => {
                let first = any(0);
                let list = vec![self.view(first.tensor, &cuts[1]), first];
                if apart(&list) { TaskAction::MixList(list, target) } else { TaskAction::Bump(target) }
            }
            // Nobody writes it, so nobody has to look at it.
            8 => TaskAction::MixUntracked(self.view(READ_ONLY, &cuts[0]), target),
            // Where nothing is inferred, no use is looked at.
            9 if self.manual.is_some() => TaskAction::BumpUntracked(target),
            10 => TaskAction::BumpBlocks(target.clone(), target.blocks(tensors[0])),
            11 if apart(&[any(0)]) => TaskAction::MixParts(any(0), target.clone(), target.blocks(tensors[1])),
            12 if apart(&[any(0).one_element()]) => {
                TaskAction::BumpIf(any(0).one_element(), target, tensors[1].is_multiple_of(2))
            }
            13 => TaskAction::Dummy(target),
            14 => TaskAction::BumpCohort(target.clone(), target.blocks(tensors[0])),
            15 if apart(&[any(0)]) => TaskAction::MixCohort(any(0), target.clone(), target.blocks(tensors[1])),
            // The arguments would overlap, which a task may not have.
            _ => TaskAction::Bump(target),
        }
    }

    /// Tasks that a task waits for besides: those it must where nothing is inferred, any elsewhere.
    fn deps(&self, kind: &TaskAction, which: u8) -> Vec<usize> {
        let newest_first = (0..self.tasks.len()).rev();
        let Some(manual) = self.manual else {
            if which < 128 {
                return vec![];
            }
            return newest_first.filter(|task| which >> (task % 7) & 1 == 1).take(3).collect();
        };
        let uses = kind.uses();
        let conflicts = |task: &usize| self.tasks[*task].iter().any(|old| uses.iter().any(|new| conflict(old, new)));
        (manual.first..self.tasks.len()).filter(conflicts).collect()
    }

    fn view(&self, tensor: usize, cuts: &[(u8, u8, u8)]) -> FuzzView {
        let shape = self.tensors[tensor].0.clone();
        let elements = (0..shape.iter().product()).collect();
        let mut view = FuzzView { tensor, cuts: vec![], shape, elements, boxed: true };
        cuts.iter().for_each(|&cut| view.cut(cut));
        view
    }
}

fn conflict((a, a_writes): &(FuzzView, bool), (b, b_writes): &(FuzzView, bool)) -> bool {
    let common = || a.elements.iter().any(|element| b.elements.contains(element));
    (*a_writes || *b_writes) && a.tensor == b.tensor && common()
}

impl TaskAction {
    /// Whether the task is executed other than once.
    pub fn is_shaped(&self) -> bool {
        use TaskAction::{BumpBlocks, BumpIf, Dummy, MixParts};
        matches!(self, BumpBlocks(..) | MixParts(..) | BumpIf(..) | Dummy(_)) || self.is_cohort()
    }

    /// Whether its blocks start together.
    pub fn is_cohort(&self) -> bool {
        matches!(self, TaskAction::BumpCohort(..) | TaskAction::MixCohort(..))
    }

    /// What it touches of tensors that exist.
    fn uses(&self) -> Uses {
        let (read, written): (&[&FuzzView], _) = match self {
            TaskAction::Bump(x)
            | TaskAction::BumpUntracked(x)
            | TaskAction::Fill(x)
            | TaskAction::BumpBlocks(x, _)
            | TaskAction::BumpCohort(x, _)
            | TaskAction::Dummy(x) => (&[], Some(x)),
            TaskAction::Mix(a, x)
            | TaskAction::MixUntracked(a, x)
            | TaskAction::Over(a, x)
            | TaskAction::MixParts(a, x, _)
            | TaskAction::MixCohort(a, x, _)
            | TaskAction::BumpIf(a, x, _) => (&[a], Some(x)),
            TaskAction::MixTwo(a, b, x) => (&[a, b], Some(x)),
            TaskAction::MixList(list, x) => (&list.iter().collect::<Vec<_>>()[..], Some(x)),
            TaskAction::Make(a, _) => (&[a], None),
            TaskAction::MakeNew(_) => (&[], None),
        };
        let read = read.iter().map(|&view| (view.clone(), false));
        read.chain(written.map(|view| (view.clone(), true))).collect()
    }
}

impl FuzzView {
    fn is_apart_from(&self, other: &FuzzView) -> bool {
        self.tensor != other.tensor
            || (self.boxed && other.boxed && self.elements.iter().all(|element| !other.elements.contains(element)))
    }

    /// A number of blocks among which its rows can be divided.
    fn blocks(&self, which: u8) -> u32 {
        let rows = self.shape[0];
        let divisors: Vec<usize> = (1..=rows).filter(|blocks| rows.is_multiple_of(*blocks)).collect();
        divisors[which as usize % divisors.len()] as u32
    }

    /// The view cut down to its first element.
    fn one_element(mut self) -> Self {
        for dim in 0..self.shape.len() {
            let cut = Cut::Slice(dim, 0, 1);
            (self.shape, self.elements) = self.apply(&cut).expect("a slice leaves something");
            self.cuts.push(cut);
        }
        self
    }

    /// Cuts the view further, if the numbers stand for something that can be had.
    fn cut(&mut self, (what, a, b): (u8, u8, u8)) {
        let (a, b) = (a as usize, b as usize);
        let dim = a % self.shape.len();
        let cut = match what % 8 {
            0..3 => {
                let start = b % self.shape[dim];
                Cut::Slice(dim, start, start + 1 + (a / 8) % (self.shape[dim] - start))
            }
            3 | 4 => {
                // The last tile of a dimension that the tile does not divide is no tile.
                let tile: Vec<usize> = self.shape.iter().map(|extent| 1 + a % extent).collect();
                let index = self.shape.iter().zip(&tile).map(|(extent, tile)| b % (extent / tile)).collect();
                Cut::Tile(index, tile)
            }
            5 => Cut::Transpose,
            6 => Cut::Permute((0..self.shape.len()).map(|d| (d + a) % self.shape.len()).collect()),
            _ => {
                let len = self.elements.len();
                let row = (1..=len).filter(|row| len.is_multiple_of(*row)).nth(b % 3).unwrap_or(1);
                Cut::Reshape(if a % 2 == 0 { vec![len] } else { vec![row, len / row] })
            }
        };
        if let Some((shape, elements)) = self.apply(&cut) {
            self.boxed &= !matches!(cut, Cut::Reshape(_));
            (self.shape, self.elements) = (shape, elements);
            self.cuts.push(cut);
        }
    }

    /// What a cut leaves, the obvious way: by going through all indices. None: a reshape of a view with gaps.
    fn apply(&self, cut: &Cut) -> Option<(Vec<usize>, Vec<usize>)> {
        let (shape, from): (Vec<usize>, Box<dyn Fn(&[usize]) -> Vec<usize>>) = match cut.clone() {
            Cut::Slice(dim, start, end) => {
                let mut shape = self.shape.clone();
                shape[dim] = end - start;
                (
                    shape,
                    Box::new(move |at| at.iter().enumerate().map(|(d, i)| i + start * usize::from(d == dim)).collect()),
                )
            }
            Cut::Tile(index, tile) => {
                (tile.clone(), Box::new(move |at| (0..at.len()).map(|d| at[d] + index[d] * tile[d]).collect()))
            }
            Cut::Transpose => {
                (self.shape.iter().rev().copied().collect(), Box::new(|at| at.iter().rev().copied().collect()))
            }
            Cut::Permute(order) => (
                order.iter().map(|&d| self.shape[d]).collect(),
                Box::new(move |at| {
                    let mut from = vec![0; at.len()];
                    order.iter().zip(at).for_each(|(&d, &i)| from[d] = i);
                    from
                }),
            ),
            Cut::Reshape(shape) => {
                let dense = self.elements.windows(2).all(|pair| pair[1] == pair[0] + 1);
                return dense.then(|| (shape, self.elements.clone()));
            }
        };
        let elements = indices(&shape).map(|at| self.elements[flat(&self.shape, &from(&at))]).collect();
        Some((shape, elements))
    }
}

/// All indices of a shape, in row-major order.
pub fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    (0..shape.iter().product()).map(move |mut flat: usize| {
        let mut index = vec![0; shape.len()];
        for (at, extent) in index.iter_mut().zip(shape).rev() {
            (*at, flat) = (flat % extent, flat / extent);
        }
        index
    })
}

fn flat(shape: &[usize], index: &[usize]) -> usize {
    shape.iter().zip(index).fold(0, |flat, (extent, at)| flat * extent + at)
}
