//! Handles of tensors whose element type and scope are known at run time only.

use super::ElementSpec;
use crate::error::{Error, Result};
use crate::tensor::Tensor as Typed;
use plimsoll_abi::MAX_DIMS;
use plimsoll_graph::Layout;
use plimsoll_sched::TensorCore;
use std::sync::atomic::{AtomicU64, Ordering};

/// The scope that a handle belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    pub(super) run: u64,
    /// Its number, which no other scope of the process has.
    number: u64,
}

/// The scopes of a run that are open.
pub(super) struct OpenScopes {
    run: u64,
    /// The number of each, by its place in the stack; the root is the first.
    numbers: Vec<u64>,
}

impl OpenScopes {
    /// The root of a run.
    pub(super) fn new(run: u64) -> Self {
        let mut scopes = Self { run, numbers: Vec::new() };
        scopes.open();
        scopes
    }

    /// Another one is opened inside the others.
    pub(super) fn open(&mut self) {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        self.numbers.push(OPENED.fetch_add(1, Ordering::Relaxed));
    }

    /// The innermost one is closed.
    pub(super) fn close(&mut self) {
        self.numbers.pop();
    }

    /// How many are open inside the root.
    pub(super) fn inner(&self) -> usize {
        self.numbers.len() - 1
    }

    /// The innermost one.
    pub(super) fn innermost(&self) -> Stamp {
        Stamp { run: self.run, number: self.numbers[self.inner()] }
    }

    /// Whether the scope with this stamp is open.
    pub(super) fn have(&self, scope: Stamp) -> bool {
        self.numbers.contains(&scope.number)
    }

    /// Whether the tensor's scope is open.
    #[inline]
    pub(super) fn have_that_of(&self, tensor: &Tensor) -> bool {
        self.numbers.get(tensor.depth as usize) == Some(&tensor.stamp.number)
    }
}

impl Stamp {
    /// Says why what is stamped so cannot be used in this run.
    #[cold]
    pub(super) fn closed(self, run: u64, what: &str) -> String {
        if self.run == run {
            format!(
                "{what} was used after its scope was closed. What is made in a scope goes with it. Make it in an outer scope, or read it before."
            )
        } else {
            format!("{what} of another run was used. Every run has its own. Read it there and enter the data here.")
        }
    }
}

/// A tensor, or a view of one. It may be copied anywhere; where it is used, its run and its scope must be open.
#[derive(Clone, Copy)]
pub struct Tensor {
    /// The typed tier knows how to cut views, whatever the elements are: their size is in the core.
    view: Typed<'static, u8>,
    pub(super) element: ElementSpec,
    /// The place of its scope in the stack.
    depth: u32,
    pub(super) stamp: Stamp,
}

/// A submitted task that later ones can be told to wait for.
#[derive(Clone, Copy, Debug)]
pub struct Submitted {
    pub(super) task: plimsoll_abi::TaskId,
    pub(super) stamp: Stamp,
}

impl Submitted {
    /// The task's id.
    pub fn id(&self) -> plimsoll_abi::TaskId {
        self.task
    }

    /// As plain words, for other languages.
    pub fn to_words(self) -> [u64; 3] {
        [self.task.raw(), self.stamp.run, self.stamp.number]
    }

    /// The task that such words stand for.
    ///
    /// # Safety
    /// They came from [`to_words`](Self::to_words).
    pub unsafe fn from_words([task, run, scope]: [u64; 3]) -> Self {
        Self { task: plimsoll_abi::TaskId::from_raw(task), stamp: Stamp { run, number: scope } }
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.view.fmt(f)
    }
}

/// Calls a method of the typed tensor with arrays of the rank that slices have.
macro_rules! ranked {
    ($given:expr, |$array:ident| $call:expr) => {
        match $given.len() {
            0 => ranked!(@ 0, $given, $array, $call),
            1 => ranked!(@ 1, $given, $array, $call),
            2 => ranked!(@ 2, $given, $array, $call),
            3 => ranked!(@ 3, $given, $array, $call),
            4 => ranked!(@ 4, $given, $array, $call),
            5 => ranked!(@ 5, $given, $array, $call),
            many => Err(Error::invalid(format!(
                "There is no such view: a tensor has at most 5 dimensions, not {many}. Ask for fewer."
            ))),
        }
    };
    (@ $rank:literal, $given:expr, $array:ident, $call:expr) => {{
        let $array: [usize; $rank] = std::array::from_fn(|at| $given[at]);
        $call
    }};
}

impl Tensor {
    /// A tensor of the innermost scope.
    pub(super) fn new(core: TensorCore, element: ElementSpec, scopes: &OpenScopes) -> Self {
        let stamp = scopes.innermost();
        Self { view: Typed::new(core, stamp.run), element, depth: scopes.inner() as u32, stamp }
    }

    /// The same tensor as one of the innermost scope.
    pub(super) fn of_innermost(&self, scopes: &OpenScopes) -> Self {
        Self { depth: scopes.inner() as u32, stamp: scopes.innermost(), ..*self }
    }

    #[inline]
    pub(super) fn core(&self) -> &TensorCore {
        &self.view.core
    }

    fn with(&self, view: Result<Typed<'static, u8>>) -> Result<Self> {
        Ok(Self { view: view?, ..*self })
    }

    /// The same tensor, marked: a run that captures marked arguments captures those that are given so.
    #[must_use]
    pub fn marked(&self) -> Self {
        let mut marked = *self;
        marked.view.core.word |= plimsoll_sched::args::MARK;
        marked
    }

    /// The same tensor, which tasks may only read.
    #[must_use]
    pub fn read_only(&self) -> Self {
        let mut tensor = *self;
        tensor.view.core.writable = false;
        tensor
    }

    /// The same tensor, which tasks may write.
    ///
    /// # Safety
    /// Its memory may be written, and nobody but tasks uses it.
    #[must_use]
    pub unsafe fn writable(&self) -> Self {
        let mut tensor = *self;
        tensor.view.core.writable = true;
        tensor
    }

    /// Extents, one per dimension.
    pub fn shape(&self) -> &[u32] {
        self.view.shape()
    }

    /// Whether tasks may write it.
    pub fn is_writable(&self) -> bool {
        self.view.core.writable
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// Never: a tensor has at least one element.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// What its elements are.
    pub fn element(&self) -> ElementSpec {
        self.element
    }

    /// Elements `range` of dimension `dim`.
    ///
    /// # Errors
    /// [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) if the view does not have them; so do the other cuts.
    pub fn slice(&self, dim: usize, range: std::ops::Range<usize>) -> Result<Self> {
        self.with(self.view.slice(dim, range))
    }

    /// Tile number `index` when every dimension is cut into tiles of extent `tile`.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
    pub fn tile(&self, index: &[usize], tile: &[usize]) -> Result<Self> {
        if index.len() != tile.len() {
            return Err(Error::invalid(format!(
                "There is no such view: {} numbers say which tile, and {} how large it is. Give as many of each.",
                index.len(),
                tile.len()
            )));
        }
        self.with(ranked!(tile, |extents| {
            let at = std::array::from_fn(|dim| index[dim]);
            self.view.tile(at, extents)
        }))
    }

    /// The same elements under another shape.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
    pub fn reshape(&self, shape: &[usize]) -> Result<Self> {
        self.with(ranked!(shape, |shape| self.view.reshape(shape)))
    }

    /// The same elements under a shape that differs in dimensions of one element: some are left out, or there are more of them.
    /// Unlike [`reshape`](Self::reshape) it is of no matter whether the elements lie in a row.
    ///
    /// # Errors
    /// As [`slice`](Self::slice), if the shape differs in more than that.
    pub fn with_ones(&self, shape: &[usize]) -> Result<Self> {
        let from = self.view.core.layout;
        let mut rest = from.shape().iter().zip(from.strides()).filter(|(extent, _)| **extent != 1).peekable();
        let (mut extents, mut strides) = ([1u32; MAX_DIMS], [0i32; MAX_DIMS]);
        for (dim, &extent) in shape.iter().enumerate() {
            if dim >= MAX_DIMS {
                return self.reshape(shape);
            }
            // One element is stepped over as if the next dimension lay in a row.
            let after = rest.peek().map_or(1, |(extent, step)| **extent as i32 * **step);
            match (extent, rest.next_if(|(known, _)| **known as usize == extent)) {
                (1, None) => strides[dim] = after,
                (_, Some((known, step))) => (extents[dim], strides[dim]) = (*known, *step),
                _ => return self.reshape(shape),
            }
        }
        match (rest.next(), Layout::from_parts(shape.len(), extents, strides, from.offset())) {
            (None, Some(layout)) => self.with(self.view.view(Ok(layout))),
            _ => self.reshape(shape),
        }
    }

    /// The dimensions in another order.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
    pub fn permute(&self, order: &[usize]) -> Result<Self> {
        self.with(ranked!(order, |order| self.view.permute(order)))
    }

    /// A view of any extents and strides, in elements, that begins where this tensor does.
    ///
    /// # Errors
    /// As [`slice`](Self::slice); and if an element would be in the view twice, or this tensor is a view with gaps itself.
    pub fn strided(&self, shape: &[usize], strides: &[usize]) -> Result<Self> {
        self.with(self.view.strided(shape, strides))
    }

    /// The dimensions in reverse order.
    pub fn transpose(&self) -> Self {
        Self { view: self.view.transpose(), ..*self }
    }
}
