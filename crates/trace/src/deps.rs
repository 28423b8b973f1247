//! Tasks, their arguments and the edges between them.
//!
//! From a run directory of ours they are inferred again from the recorded submits; from the reference's `deps.json`
//! they are read as they are.

mod by_later;
mod index;
mod json;
mod submits;
mod views;

use std::collections::HashMap;

use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{Dtype, TaskId};

pub use by_later::EdgesByLater;
pub use index::TaskIndex;
pub use json::{write_deps_json, write_newest_deps_json};
pub(crate) use submits::SubmitAssembly;
pub use submits::Submits;
pub use views::{RecordedView, ViewForms};

/// Stands for the tensor of an argument that files do not describe.
pub const NO_TENSOR: u32 = u32::MAX;
/// Stands for the form of an argument whose dimensions are too many or too large for views to be compared.
pub const NO_FORM: u32 = u32::MAX;
/// Stands for the argument of an edge that comes from none.
pub const NO_ARG: i16 = -1;

/// Why one task waits for another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum EdgeSource {
    /// The orchestration named the producer.
    Explicit,
    /// The consumer uses a buffer that the producer created.
    Creator,
    /// The consumer uses elements that the producer wrote.
    Tensormap,
    /// The consumer overwrites elements that the producer reads.
    Reader,
    /// A file lists the edge without its reason.
    Fanout,
}

impl EdgeSource {
    /// As files spell it.
    pub const fn name(self) -> &'static str {
        match self {
            EdgeSource::Explicit => "explicit",
            EdgeSource::Creator => "creator",
            EdgeSource::Tensormap => "tensormap",
            EdgeSource::Reader => "reader",
            EdgeSource::Fanout => "fanout",
        }
    }

    /// From the spelling of a file.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Explicit, Self::Creator, Self::Tensormap, Self::Reader, Self::Fanout];
        all.into_iter().find(|s| s.name() == name)
    }
}

/// A task as it was submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskNode {
    /// Task id and round.
    pub word: u64,
    /// Kernels for a matrix core and the two vector cores beside it; −1 where there is none.
    pub kernels: [i32; 3],
    /// Blocks of an SPMD task.
    pub blocks: u32,
    /// The first of its arguments.
    pub first_arg: u32,
    /// How many arguments it has.
    pub args: u16,
    /// Whether it was submitted in a manual scope.
    pub manual: bool,
    /// Whether only an edge names it: it allocates and runs nothing.
    pub implied: bool,
    /// Whether cores of both types run its kernel, which is that of the first vector core.
    pub any_core: bool,
}

/// An argument of a task. Runs have tens of millions of them, so what many have in common is kept once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedArg {
    /// The offset of its first element in the buffer, in elements.
    pub offset: u64,
    /// Its tensor, or [`NO_TENSOR`].
    pub tensor: u32,
    /// Its dimensions, by their number in [`Dependencies::forms`], or [`NO_FORM`].
    pub form: u32,
    /// Its index among the task's arguments.
    pub idx: u16,
    /// How the task uses it.
    pub mode: ArgMode,
    /// Its element type.
    pub dtype: Dtype,
}

/// A buffer that arguments are parts of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedTensor {
    /// The number that files carry.
    pub id: u64,
    /// The buffer: its number in a run of ours, its address in the reference's files.
    pub buffer: u64,
    /// Which content of the buffer.
    pub version: u32,
    /// Its element type.
    pub dtype: Dtype,
    /// How many elements it has.
    pub numel: u64,
}

/// One task waits for another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Edge {
    /// The later task, as an index into the tasks.
    pub succ: u32,
    /// The earlier task, as an index into the tasks.
    pub pred: u32,
    /// The later task's argument, or [`NO_ARG`].
    pub arg: i16,
    /// The earlier task's argument, or [`NO_ARG`] where files do not say.
    pub pred_arg: i16,
    /// Why.
    pub source: EdgeSource,
    /// Whether what the later task uses lies wholly in what the earlier one touched.
    pub covered: bool,
    /// Which of the [`Dependencies::loose_views`] of its tasks and argument are its own, from 1; 0 if it has none.
    pub loose: u8,
}

/// What the two tasks of an edge use, as far as no argument of theirs tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EdgeViews {
    /// What the earlier task uses.
    pub producer: Option<RecordedView>,
    /// What the later task uses.
    pub consumer: Option<RecordedView>,
}

/// Tasks and edges of a run, in order of submission.
#[derive(Clone, Debug, Default)]
pub struct Dependencies {
    /// The tasks.
    pub tasks: Vec<TaskNode>,
    /// The arguments of all tasks.
    pub args: Vec<RecordedArg>,
    /// The dimensions of arguments, each once.
    pub forms: ViewForms,
    /// The tensors that arguments name.
    pub tensors: Vec<RecordedTensor>,
    /// The edges; one pair may occur more than once.
    pub edges: Vec<Edge>,
    /// Views that files tell with an edge and with no argument, by earlier task, later task, its argument and [`Edge::loose`].
    pub loose_views: HashMap<(u32, u32, i16, u8), EdgeViews>,
}

impl TaskNode {
    /// A task that is known by its id alone.
    pub fn implied(word: u64) -> Self {
        Self { word, kernels: [-1; 3], blocks: 0, first_arg: 0, args: 0, manual: false, implied: true, any_core: false }
    }

    /// The task's id.
    pub fn id(&self) -> TaskId {
        TaskId::from_word(self.word).0
    }

    /// How many executions it asks for.
    pub fn executions(&self) -> u64 {
        let parts = self.kernels.iter().filter(|k| **k >= 0).count() as u64;
        parts * u64::from(self.blocks.max(1))
    }
}

impl Dependencies {
    /// A task's arguments.
    pub fn args_of(&self, task: &TaskNode) -> &[RecordedArg] {
        let first = task.first_arg as usize;
        self.args.get(first..first + task.args as usize).unwrap_or(&[])
    }

    /// The part of its tensor that an argument is; without dimensions for [`NO_FORM`].
    pub fn view(&self, arg: &RecordedArg) -> RecordedView {
        RecordedView { offset: arg.offset, ..self.forms.get(arg.form) }
    }

    /// What the two tasks of an edge use, where that is known: the earlier one's part, and the later one's. Nothing for elements of two types, which
    /// cannot be compared, and for [`NO_FORM`].
    pub fn views_of(&self, edge: &Edge) -> Option<(RecordedView, RecordedView)> {
        let argument = |task: u32, arg: i16| {
            let idx = u16::try_from(arg).ok()?;
            self.args_of(&self.tasks[task as usize]).iter().find(|arg| arg.idx == idx)
        };
        let (theirs, own) = (argument(edge.pred, edge.pred_arg), argument(edge.succ, edge.arg));
        if theirs.into_iter().chain(own).any(|arg| arg.form == NO_FORM) {
            return None;
        }
        if let Some((theirs, own)) = theirs.zip(own) {
            return (theirs.dtype == own.dtype).then(|| (self.view(theirs), self.view(own)));
        }
        let loose = self.loose_views_of(edge)?;
        let producer = theirs.map(|arg| self.view(arg)).or(loose.producer)?;
        Some((producer, own.map(|arg| self.view(arg)).or(loose.consumer)?))
    }

    /// What a file tells of the two tasks of an edge with the edge alone.
    pub fn loose_views_of(&self, edge: &Edge) -> Option<&EdgeViews> {
        self.loose_views.get(&(edge.pred, edge.succ, edge.arg, edge.loose))
    }

    /// Finds tasks by their words.
    pub fn index(&self) -> TaskIndex {
        TaskIndex::new(self.tasks.iter().map(|t| t.word))
    }

    /// The edges by later task.
    pub fn by_later(&self) -> EdgesByLater<'_> {
        EdgesByLater::of(&self.edges)
    }

    /// The pairs (earlier, later) as task indices, each once, by later and then by earlier task.
    pub fn pairs(&self) -> Vec<(u32, u32)> {
        let mut pairs = Vec::with_capacity(self.edges.len());
        self.by_later().each_pair(|pred, succ| pairs.push((pred, succ)));
        pairs
    }
}

/// The number of a tensor: FNV-1a over the bytes of buffer and version, as the reference numbers them.
pub fn tensor_id(buffer: u64, version: u32) -> u64 {
    let bytes = buffer.to_le_bytes().into_iter().chain(version.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_numbered_as_the_reference_does() {
        assert_eq!(tensor_id(94_466_209_889_376, 0), 3_461_508_267_841_263_802);
        assert_eq!(tensor_id(140_519_955_944_448, 0), 17_424_125_465_396_648_717);
    }
}
