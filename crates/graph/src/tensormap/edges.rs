//! What the table tells of a use: whom its task has to wait for, and why.

use plimsoll_abi::TaskId;

/// Who is told of dependencies.
pub trait Edges {
    /// Takes note of a dependency. Returns whether an open scope holds the producer, so that a write which meets it may stand for
    /// everything before it.
    fn meet(&mut self, edge: Dependency) -> bool;

    /// Whether nobody has to wait for this task any more: then it need not be met, and nor do earlier ones of its ring.
    /// Never, if tasks do not come back.
    fn is_spent(&self, _: TaskId) -> bool {
        false
    }

    /// Whether an open scope holds this task. Always, if tasks do not come back.
    fn is_held(&self, _: TaskId) -> bool {
        true
    }
}

impl<F: FnMut(Dependency) -> bool> Edges for F {
    #[inline]
    fn meet(&mut self, edge: Dependency) -> bool {
        self(edge)
    }
}

/// How a dependency was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DependencySource {
    /// Named by the orchestration.
    Explicit,
    /// The producer made the buffer.
    Creator,
    /// The producer wrote an overlapping part.
    Tensormap,
    /// The other task only read it: write-after-read.
    Reader,
}

/// One dependency of the task that is being submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dependency {
    /// The task to wait for.
    pub pred: TaskId,
    /// Which of its arguments made the dependency.
    pub pred_arg: u16,
    /// How it was found.
    pub source: DependencySource,
    /// Whether the other task's part covers this one.
    pub covered: bool,
    /// Whether the overlap may be a false one, because a span was compared.
    pub conservative: bool,
}

/// Two arguments of one task overlap and one of them is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The earlier of the two arguments.
    pub with: u16,
}
