//! Submits of tasks that are not ordinary: what the shape adds to their arguments, and how they are recorded.

use super::{Demand, TaskArg, TensorCore};
use crate::pipe::MOST_PARTS;
use crate::shape::{Configuration, SHAPED};
use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{Dtype, KernelId};
use plimsoll_platform::CoreClass;

/// How a task is executed, as a submit says it.
#[derive(Clone, Copy, Debug)]
pub struct ShapeRequest<'t> {
    /// How many blocks it has; none if it is a dummy.
    pub blocks: u32,
    /// The element that decides whether it is executed.
    pub predicate: Option<PredicateRequest<'t>>,
    /// Whether its blocks start together, if there are several.
    pub sync_start: bool,
    /// The kernels of a mixed task's parts behind the first, which is the submit's.
    pub others: [Option<KernelId>; MOST_PARTS - 1],
}

/// An element that decides whether a task is executed.
#[derive(Clone, Copy, Debug)]
pub struct PredicateRequest<'t> {
    /// A tensor of one element.
    pub tensor: &'t TensorCore,
    /// Whether zero means that the task is executed; else everything but zero does.
    pub if_zero: bool,
}

impl<'t> ShapeRequest<'t> {
    /// Adds what the shape needs behind a task's arguments, and says how the slot tells it.
    pub fn append(&self, args: &mut Vec<TaskArg<'t>>, demand: &mut Demand) -> CallShape {
        let configuration = Configuration {
            kernel_words: demand.words() as u16,
            predicate: self.predicate.map(|one| one.if_zero),
            sync_start: self.sync_start && self.blocks > 1,
            others: self.others.map(|kernel| kernel.map(|kernel| kernel.0 as u16)),
        };
        if let Some(predicate) = self.predicate {
            let (core, mode) = (predicate.tensor, ArgMode::Input);
            demand.tensor(core, mode);
            args.push(TaskArg::Tensor { core, mode });
        }
        for value in [configuration.word(), 0] {
            demand.scalar();
            args.push(TaskArg::Scalar { value, dtype: Dtype::I64 });
        }
        CallShape { executions: SHAPED | self.blocks, others: self.others }
    }
}

/// How the slot of the next submit tells its shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallShape {
    /// What a slot counts: 1, or the blocks of a task that is not ordinary.
    pub(crate) executions: u32,
    /// The kernels of a mixed task's parts behind the first.
    others: [Option<KernelId>; MOST_PARTS - 1],
}

impl CallShape {
    /// The shape of an ordinary task.
    pub const ORDINARY: Self = Self { executions: 1, others: [None; MOST_PARTS - 1] };

    /// Which of a task's arguments is its predicate's tensor: it stands before the two words of the shape.
    pub(super) fn predicate_among(self, args: &[TaskArg<'_>]) -> Option<usize> {
        let [.., TaskArg::Tensor { .. }, TaskArg::Scalar { value: configuration, .. }, _] = args else { return None };
        let is_shaped = self.executions & SHAPED != 0;
        (is_shaped && Configuration::has_predicate(*configuration)).then(|| args.len() - 3)
    }

    /// Kernels by the reference's slots (matrix, first and second vector core; plus one, 0 if there is none) and the number
    /// of blocks, as dep_gen records a submit.
    pub fn recorded(self, kernel: KernelId, class: CoreClass) -> [u32; 4] {
        let blocks = self.executions & !SHAPED;
        if blocks == 0 {
            return [0, 0, 0, 0];
        }
        if let [Some(first), second] = self.others {
            return [kernel.0 + 1, first.0 + 1, second.map_or(0, |second| second.0 + 1), blocks];
        }
        // A task of any class is shown in the first vector slot, as the reference shows tasks of one core.
        let number = kernel.0 + 1;
        if class == CoreClass::Aic { [number, 0, 0, blocks] } else { [0, number, 0, blocks] }
    }
}

impl TaskArg<'_> {
    /// The same argument for a shorter time.
    pub fn reborrow(&mut self) -> TaskArg<'_> {
        match self {
            TaskArg::Tensor { core, mode } => TaskArg::Tensor { core, mode: *mode },
            TaskArg::Output { request } => TaskArg::Output { request },
            TaskArg::Scalar { value, dtype } => TaskArg::Scalar { value: *value, dtype: *dtype },
        }
    }
}
