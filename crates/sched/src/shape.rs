//! Task shapes: tasks that are executed other than once.
//!
//! | shape | executions | how the slot says it |
//! |---|---|---|
//! | ordinary | 1 | `call` counts one execution |
//! | dummy | 0: it only orders others | `call` is [`SHAPED`] and counts none |
//! | in blocks (SPMD) | one per block, in any order, on any cores | `call` is [`SHAPED`] and counts the blocks |
//! | cohort (sync start) | one per block, all at the same time | as in blocks, and the shape's words say so |
//! | mixed | its parts, each with a kernel of its own, for each block | the shape's words name the kernels of the other parts |
//! | predicated | as without, or none if an element says so | an argument behind the kernel's, named by the shape's words |
//!
//! Whatever is more than a count stands in the *words of the shape*, behind the task's argument words: two plain values that the
//! submit added, the configuration and the count of blocks that were claimed. A cohort's blocks are not claimed but taken as
//! seats ([`cohort`](crate::cohort)), and that word names the cohort that waits behind it. So ordinary tasks pay for one comparison.
//!
//! # Who touches what
//! A shaped task is in at most one ready queue, and in it once. Whoever takes it out is its *holder*: the only one who claims
//! a block. If blocks are left, the holder puts the task back for the next one. So `claimed` has one writer at a time,
//! ordered by the queue; `unfinished` is set by the first holder and taken from by every execution that ends.

use crate::args::ArgWords;
use crate::execute::arg_words;
use crate::pipe::MOST_PARTS;
use crate::slot::{Slot, SlotRef};
use crate::sync::{AtomicU64, Ordering};
use plimsoll_abi::Dtype;

/// Set in a slot's count of executions if the words of a shape stand behind the arguments.
pub const SHAPED: u32 = 1 << 31;

/// The most blocks that a task can have.
pub const MOST_BLOCKS: u32 = (u32::MAX / MOST_PARTS as u32) >> 1;

/// The number of no kernel: that of a dummy.
pub const NO_KERNEL: u32 = u16::MAX as u32;

/// Words that a shape takes behind the arguments: the configuration and the claimed blocks, two plain values.
const SHAPE_WORDS: usize = 4;
/// Where the two values stand, counted from the end.
const CONFIGURATION: usize = 4;
const CLAIMED: usize = 2;

/// The configuration: how many words are the kernel's (16 bits), and these.
const PREDICATED: u64 = 1 << 16;
/// It is executed if the element is zero, and not if it is something else.
const IF_ZERO: u64 = 1 << 17;
/// Its blocks start together.
const TOGETHER: u64 = 1 << 18;
/// How many parts there are besides the first (2 bits), and their kernels (16 bits each).
const OTHERS_SHIFT: u32 = 20;
const KERNELS_SHIFT: u32 = 32;

/// What the configuration of a shape is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Configuration {
    /// Argument words of the kernel: those in front of what the shape adds.
    pub kernel_words: u16,
    /// Whether the argument behind them decides whether the task is executed, and if so, whether zero means that it is.
    pub predicate: Option<bool>,
    /// Whether its blocks start together.
    pub sync_start: bool,
    /// The kernels of a mixed task's parts behind the first.
    pub others: [Option<u16>; MOST_PARTS - 1],
}

impl Configuration {
    /// As a plain value.
    pub fn word(self) -> u64 {
        let predicate = match self.predicate {
            None => 0,
            Some(false) => PREDICATED,
            Some(true) => PREDICATED | IF_ZERO,
        };
        let together = if self.sync_start { TOGETHER } else { 0 };
        let others = self.others.iter().flatten().count() as u64;
        let kernels = self.others.iter().flatten().rev().fold(0, |word, &kernel| word << 16 | u64::from(kernel));
        u64::from(self.kernel_words) | predicate | together | others << OTHERS_SHIFT | kernels << KERNELS_SHIFT
    }

    /// Whether the configuration with this value has a predicate.
    pub(crate) fn has_predicate(word: u64) -> bool {
        word & PREDICATED != 0
    }
}

/// What became of the look at a shaped task by its holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// Nothing is executed: it is a dummy, or `skipped` because its predicate said so.
    Nothing {
        /// Whether a predicate said so.
        skipped: bool,
    },
    /// There is a block to claim.
    Block,
}

/// A shaped task as its holder, and those who execute it, see it.
#[derive(Clone, Copy)]
pub(crate) struct ShapeWords<'s> {
    slot: &'s Slot,
    words: &'s [AtomicU64],
    configuration: u64,
}

impl<'s> ShapeWords<'s> {
    /// The shape of a task whose slot is not ordinary.
    pub(crate) fn of(slot: &'s Slot) -> Self {
        let words = arg_words(slot);
        debug_assert!(words.len() >= SHAPE_WORDS, "a shaped task has the words of its shape");
        Self { slot, words, configuration: words[words.len() - CONFIGURATION].load(Ordering::Relaxed) }
    }

    /// How many blocks the task has.
    pub(crate) fn blocks(&self) -> u32 {
        self.slot.blocks()
    }

    /// How many parts every block has.
    pub(crate) fn parts(&self) -> usize {
        1 + (self.configuration >> OTHERS_SHIFT) as usize % 4
    }

    /// The kernel of a part.
    pub(crate) fn part_kernel(&self, part: usize) -> u32 {
        match part.checked_sub(1) {
            None => self.slot.kernel(),
            Some(other) => u32::from((self.configuration >> (KERNELS_SHIFT + 16 * other as u32)) as u16),
        }
    }

    fn claimed(&self) -> &AtomicU64 {
        &self.words[self.words.len() - CLAIMED]
    }

    /// The argument words that the kernel sees.
    pub(crate) fn kernel_words(&self) -> &'s [AtomicU64] {
        let count = usize::from(self.configuration as u16);
        &self.words[..count.min(self.words.len())]
    }

    /// Elements of the tensors of one block, as costs are charged by.
    pub(crate) fn elements(&self) -> u64 {
        ArgWords::new(self.kernel_words()).elements() / u64::from(self.slot.blocks().max(1))
    }

    /// What is to be done with the task. Only for its holder.
    pub(crate) fn look(&self) -> Claim {
        if self.slot.blocks() == 0 {
            return Claim::Nothing { skipped: false };
        }
        let first = self.claimed().load(Ordering::Relaxed) == 0;
        if first && self.is_skipped() { Claim::Nothing { skipped: true } } else { Claim::Block }
    }

    /// Claims the next block: its number, and whether more are left. Every block is executed `times`: once, or once for each
    /// part. Only for the holder, after `look` said that there is one.
    pub(crate) fn claim(&self, times: usize) -> (u32, bool) {
        let index = self.claimed().load(Ordering::Relaxed) as u32;
        if index == 0 {
            // Relaxed: the queue, or the mailbox, orders it before any other execution.
            self.slot.set_unfinished(self.slot.blocks() * times as u32);
        }
        self.claimed().store(u64::from(index) + 1, Ordering::Relaxed);
        (index, index + 1 < self.slot.blocks())
    }

    /// Whether its blocks start together.
    pub(crate) fn starts_together(&self) -> bool {
        self.configuration & TOGETHER != 0
    }

    /// The cohort that was called after this one while both wait. Under the lock of cohorts.
    pub(crate) fn next_cohort(&self) -> Option<SlotRef> {
        self.claimed().load(Ordering::Relaxed).checked_sub(1).map(|next| SlotRef(next as u32))
    }

    /// Names the cohort that was called after this one.
    pub(crate) fn set_next_cohort(&self, next: SlotRef) {
        self.claimed().store(u64::from(next.0) + 1, Ordering::Relaxed);
    }

    /// Whether it is a dummy, or its predicate says no: of an argument of the task, which nobody writes before it completes.
    pub(crate) fn executes_nothing(&self) -> bool {
        self.slot.blocks() == 0 || self.is_skipped()
    }

    /// No block is claimed: for the next launch of a graph. Only while no agent is at work.
    #[cfg(not(loom))]
    pub(crate) fn reset(&self) {
        self.claimed().store(0, Ordering::Relaxed);
    }

    fn is_skipped(&self) -> bool {
        if self.configuration & PREDICATED == 0 {
            return false;
        }
        let behind = &self.words[self.kernel_words().len()..];
        let Some(argument) = ArgWords::new(behind).next_arg() else { return false };
        // SAFETY: the submit added a tensor of one element of that dtype as an argument that is read, and the task is ready: who
        // writes the element has finished or waits for this task.
        let is_zero = unsafe { is_zero(argument.value, argument.dtype) };
        is_zero != (self.configuration & IF_ZERO != 0)
    }
}

/// Whether the element at `address` is zero.
///
/// # Safety
/// There is an element of this dtype, which nobody writes meanwhile.
unsafe fn is_zero(address: u64, dtype: Dtype) -> bool {
    // SAFETY: the caller's promise; a read of the element's own size, from where it lies.
    unsafe {
        match dtype {
            Dtype::F64 => *(address as *const f64) == 0.0,
            Dtype::F32 => *(address as *const f32) == 0.0,
            Dtype::I64 => *(address as *const i64) == 0,
            Dtype::I32 => *(address as *const i32) == 0,
            // All bits but the sign, because minus zero is zero, too.
            Dtype::F16 | Dtype::Bf16 => *(address as *const u16) & 0x7fff == 0,
            Dtype::I16 => *(address as *const i16) == 0,
            Dtype::I8 | Dtype::U8 | Dtype::Bool | Dtype::User => *(address as *const u8) == 0,
        }
    }
}

/// Writes a task of kernel 0 without arguments, and of this shape, into a slot, for models.
#[cfg(loom)]
pub fn write_shape(slot: &Slot, blocks: u32, configuration: Configuration) {
    slot.set_call(0, SHAPE_WORDS, SHAPED | blocks);
    slot.inline[SHAPE_WORDS - CONFIGURATION].store(configuration.word(), Ordering::Relaxed);
    slot.inline[SHAPE_WORDS - CLAIMED].store(0, Ordering::Relaxed);
}
