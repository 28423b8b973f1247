//! Random programs: what proptest draws, and what is run. Resolving turns any draw into a valid program, so that
//! shrinking never leaves the valid ones.

use proptest::prelude::*;

/// The host buffers: shape, and whether tasks may write them.
pub(crate) const HOST: [(&[usize], bool); 4] = [(&[24], true), (&[4, 6], true), (&[2, 3, 4], true), (&[10], false)];
const SHAPES: [&[usize]; 6] = [&[1], &[8], &[2, 5], &[17], &[3, 2, 2], &[6, 4]];

/// A step as it is drawn: numbers that choose among what there is.
#[derive(Clone, Debug)]
pub(crate) enum Draw {
    Task { kind: u8, tensors: [u8; 3], cuts: [Vec<(u8, u8, u8)>; 3], deps: (u8, u8), k: i16 },
    Read { tensor: u8, cuts: Vec<(u8, u8, u8)> },
    Scope(Vec<Draw>),
}

fn cuts() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    prop::collection::vec(any::<(u8, u8, u8)>(), 0..4)
}

/// Programs with scopes up to five deep.
pub(crate) fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let task = (0u8..8, any::<[u8; 3]>(), [cuts(), cuts(), cuts()], any::<(u8, u8)>(), any::<i16>())
        .prop_map(|(kind, tensors, cuts, deps, k)| Draw::Task { kind, tensors, cuts, deps, k });
    let read = (any::<u8>(), cuts()).prop_map(|(tensor, cuts)| Draw::Read { tensor, cuts });
    let leaf = prop_oneof![12 => task, 1 => read];
    let step = leaf.prop_recursive(5, 60, 9, |inner| prop::collection::vec(inner, 1..9).prop_map(Draw::Scope));
    prop::collection::vec(step, 1..16)
}

/// One step of making a view.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cut {
    Slice(usize, usize, usize),
    Tile(Vec<usize>, Vec<usize>),
    Transpose,
    Permute(Vec<usize>),
    Reshape(Vec<usize>),
}

/// A view: how the runtime is asked for it, and which elements it must have, in row-major order.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Place in the stack of visible tensors.
    pub(crate) tensor: usize,
    pub(crate) cuts: Vec<Cut>,
    pub(crate) shape: Vec<usize>,
    pub(crate) elements: Vec<usize>,
    /// Whether it is a box of its buffer: then overlap is exact.
    boxed: bool,
}

/// What a task does; the oracle has the same match over it.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// inout
    Bump(View),
    /// input, inout
    Mix(View, View),
    /// input, input, inout
    MixTwo(View, View, View),
    /// input, existing output
    Over(View, View),
    /// existing output
    Fill(View),
    /// input, output
    Make(View, Vec<usize>),
    /// output
    MakeNew(Vec<usize>),
    /// list of inputs of one tensor, inout
    MixList(Vec<View>, View),
}

/// A step of a valid program.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Explicit dependencies are tasks of one open scope: its depth and their places in it.
    Task {
        kind: Box<Kind>,
        deps: Option<(usize, Vec<usize>)>,
        k: i64,
    },
    Read(View),
    Scope(Vec<Step>),
}

/// The valid program that a draw stands for.
pub(crate) fn resolve(draws: &[Draw]) -> Vec<Step> {
    let mut resolver =
        Resolver { tensors: HOST.iter().map(|(shape, writable)| (shape.to_vec(), *writable)).collect(), tasks: vec![] };
    resolver.scope(draws)
}

struct Resolver {
    /// Shapes of the visible tensors, and whether they may be written.
    tensors: Vec<(Vec<usize>, bool)>,
    /// Tasks submitted so far in every open scope.
    tasks: Vec<usize>,
}

impl Resolver {
    fn scope(&mut self, draws: &[Draw]) -> Vec<Step> {
        let visible = self.tensors.len();
        self.tasks.push(0);
        let steps = draws.iter().map(|draw| self.step(draw)).collect();
        self.tasks.pop();
        self.tensors.truncate(visible);
        steps
    }

    fn step(&mut self, draw: &Draw) -> Step {
        match draw {
            Draw::Scope(draws) => Step::Scope(self.scope(draws)),
            Draw::Read { tensor, cuts } => Step::Read(self.view(*tensor as usize % self.tensors.len(), cuts)),
            Draw::Task { kind, tensors, cuts, deps, k } => {
                let kind = self.kind(*kind, tensors, cuts);
                let deps = self.deps(*deps);
                if let Kind::Make(_, shape) | Kind::MakeNew(shape) = &kind {
                    self.tensors.push((shape.clone(), true));
                }
                *self.tasks.last_mut().expect("a scope is open") += 1;
                Step::Task { kind: Box::new(kind), deps, k: i64::from(*k) }
            }
        }
    }

    fn kind(&self, kind: u8, tensors: &[u8; 3], cuts: &[Vec<(u8, u8, u8)>; 3]) -> Kind {
        let writable: Vec<usize> = (0..self.tensors.len()).filter(|&t| self.tensors[t].1).collect();
        let any = |at: usize| self.view(tensors[at] as usize % self.tensors.len(), &cuts[at]);
        let target = self.view(writable[tensors[2] as usize % writable.len()], &cuts[2]);
        let shape = SHAPES[tensors[2] as usize % SHAPES.len()].to_vec();
        let apart = |sources: &[View]| sources.iter().all(|source| source.is_apart_from(&target));
        match kind {
            0 => Kind::Bump(target),
            1 if apart(&[any(0)]) => Kind::Mix(any(0), target),
            2 if apart(&[any(0), any(1)]) => Kind::MixTwo(any(0), any(1), target),
            3 if apart(&[any(0)]) => Kind::Over(any(0), target),
            4 => Kind::Fill(target),
            5 => Kind::Make(any(0), shape),
            6 => Kind::MakeNew(shape),
            7 => {
                let first = any(0);
                let list = vec![self.view(first.tensor, &cuts[1]), first];
                if apart(&list) { Kind::MixList(list, target) } else { Kind::Bump(target) }
            }
            // The arguments would overlap, which a task may not have.
            _ => Kind::Bump(target),
        }
    }

    fn deps(&self, (depth, which): (u8, u8)) -> Option<(usize, Vec<usize>)> {
        let depth = depth as usize % (2 * self.tasks.len());
        let tasks = *self.tasks.get(depth)?;
        let named: Vec<usize> = (0..tasks).rev().filter(|task| which >> (task % 8) & 1 == 1).take(3).collect();
        (!named.is_empty()).then_some((depth, named))
    }

    fn view(&self, tensor: usize, cuts: &[(u8, u8, u8)]) -> View {
        let shape = self.tensors[tensor].0.clone();
        let elements = (0..shape.iter().product()).collect();
        let mut view = View { tensor, cuts: vec![], shape, elements, boxed: true };
        cuts.iter().for_each(|&cut| view.cut(cut));
        view
    }
}

impl View {
    fn is_apart_from(&self, other: &View) -> bool {
        self.tensor != other.tensor
            || (self.boxed && other.boxed && self.elements.iter().all(|element| !other.elements.contains(element)))
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
pub(crate) fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
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
