//! Programs that go wrong on purpose, one per error code. With settings that avoid the fault, or with larger rings, the
//! same program passes and is verified.

pub(crate) mod args;
pub(crate) mod crash;
pub(crate) mod deadline;
pub(crate) mod dep_pool;
pub(crate) mod fatal;
pub(crate) mod flow_control;
pub(crate) mod hang;
pub(crate) mod heap;
pub(crate) mod kernel_error;
pub(crate) mod nan;
pub(crate) mod orchestrator;
pub(crate) mod panic;
pub(crate) mod scheduler;
pub(crate) mod scope_deadlock;
pub(crate) mod sync_start;
mod tally;
pub(crate) mod tensormap;
pub(crate) mod wait;

use crate::Verdict;
use plimsoll_runtime::{Device, InOut, Kernel, Orchestrator, Result, SharedBuffer, Tensor, inout, scalar};
use plimsoll_runtime::{ReadWrite, Value};

/// A number per task: task i adds i + 1 to its own, so that one that did not run, or ran twice, is noticed.
struct Marks {
    out: SharedBuffer<i64>,
    mark: Kernel<(Value<i64>, ReadWrite<i64>)>,
    len: usize,
}

impl Marks {
    fn new(device: &mut Device, len: usize) -> Self {
        let tally = tally::Tally::from_env();
        let mark = device.kernel("mark", move |index: i64, mut out: InOut<i64>| {
            out[[0]] += index + 1;
            tally.count();
        });
        Self { out: SharedBuffer::new(vec![0; len]), mark, len }
    }

    /// Enters the numbers into a run.
    fn share<'s>(&self, o: &mut Orchestrator<'s, '_>) -> Result<Tensor<'s, i64>> {
        o.share(&self.out, [self.len])
    }

    /// Submits the tasks of a range, in the scope at hand.
    fn submit(&self, o: &mut Orchestrator<'_, '_>, out: &Tensor<'_, i64>, range: std::ops::Range<usize>) -> Result<()> {
        for index in range {
            o.submit(&self.mark, (scalar(index as i64), inout(&out.tile([index], [1])?)))?;
        }
        Ok(())
    }

    /// Submits the first `count` tasks in scopes that are too small to fill anything.
    fn submit_before(&self, o: &mut Orchestrator<'_, '_>, out: &Tensor<'_, i64>, count: usize) -> Result<()> {
        const PORTION: usize = 8;
        for first in (0..count).step_by(PORTION) {
            o.scope(|o| self.submit(o, out, first..count.min(first + PORTION)))?;
        }
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        self.out.with(|out| out.fill(0))
    }

    fn verify(&self) -> Result<Verdict> {
        let golden: Vec<i64> = (1..=self.len as i64).collect();
        Ok(Verdict::equal(&self.out.to_vec()?, &golden))
    }

    fn spoil(&self) -> Result<()> {
        self.out.with(|out| out[self.len / 2] += 1)
    }
}

/// What is done in the innermost of nested scopes.
type Body<'b, 'env> = &'b mut dyn for<'i> FnMut(&mut Orchestrator<'i, 'env>) -> Result<()>;

/// Runs `body` inside `depth` scopes that hold nothing themselves.
fn nest<'env>(o: &mut Orchestrator<'_, 'env>, depth: usize, body: Body<'_, 'env>) -> Result<()> {
    if depth == 0 { body(o) } else { o.scope(|o| nest(o, depth - 1, body)) }
}

/// Implements the parts of `Instance` that only concern the marks.
macro_rules! checked_by_marks {
    () => {
        fn buffers(&self) -> crate::Buffers<'_> {
            vec![&self.marks.out]
        }

        fn reset(&self) -> Result<()> {
            self.marks.reset()
        }

        fn verify(&self) -> Result<Verdict> {
            self.marks.verify()
        }

        fn spoil(&self) -> Result<()> {
            self.marks.spoil()
        }
    };
}
use checked_by_marks;
