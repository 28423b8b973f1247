//! A task's slot, and the hand-over from a producer to its consumers.
//!
//! # Who touches what
//! The orchestrator writes a slot when it submits the task, before anyone else can reach it. From then on:
//!
//! | field | orchestrator | agents |
//! |---|---|---|
//! | `fan_out` | pushes consumers while it is open | the executing agent closes it, once |
//! | `pending` | takes back what it could not link | every finished producer takes 1 |
//! | `unfinished` | – | of a task in blocks: its first holder sets it, every finished execution takes 1, and whoever takes the last completes the task |
//! | the rest | – | the executing agent reads |
//!
//! # States of `fan_out`
//! ```text
//!          push (orchestrator)            close (agent that ran the task)
//!   Empty ───────────────────► Linked ─────────────────────────► Closed
//!     └───────────────────────── close ──────────────────────────►─┘
//! ```
//! # Invariants
//! * F1: only the orchestrator pushes, so a push can fail for one reason alone: the list was closed.
//! * F2: a consumer that was pushed before the close is released by whoever closed; one that was refused is not, and
//!   its orchestrator takes the refusal off `pending` itself.
//! * F3: `pending` is at least the number of producers that will still release the task, so whoever sees 1 and has not
//!   released yet is the last.
//!
//! The race it prevents: a producer that finishes while a consumer is being linked to it. Either the push comes first
//! and the close sees it, or the close comes first and the push is refused; a consumer is never forgotten nor
//! released twice.

use crate::shape::SHAPED;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Words of arguments that a slot holds itself.
pub const INLINE_WORDS: usize = 11;

/// A slot of any ring: `ring << 30 | index`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlotRef(pub u32);

impl SlotRef {
    const RING_SHIFT: u32 = 30;
    /// Slots that a ring can have.
    pub const MAX_INDEX: u32 = (1 << Self::RING_SHIFT) - 2;

    /// Slot `index` of `ring`.
    #[inline]
    pub const fn new(ring: u8, index: u32) -> Self {
        Self((ring as u32) << Self::RING_SHIFT | index)
    }

    /// Its ring.
    #[inline]
    pub const fn ring(self) -> usize {
        (self.0 >> Self::RING_SHIFT) as usize
    }

    /// Its place in the ring.
    #[inline]
    pub const fn index(self) -> usize {
        (self.0 & ((1 << Self::RING_SHIFT) - 1)) as usize
    }
}

/// One task. Two cache lines: what scheduling needs with the first argument, and the other arguments of most tasks.
///
/// Agents follow the addresses in it, so only this crate writes them:
///
/// ```compile_fail,E0616
/// let slot = plimsoll_sched::slot::Slot::default();
/// slot.site.store(640, std::sync::atomic::Ordering::Relaxed);
/// ```
///
/// ```compile_fail,E0624
/// let slot = plimsoll_sched::slot::Slot::default();
/// slot.set_call(0, 1 << 20, 1); // that many words at an address nobody has stored
/// ```
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Slot {
    /// Who waits for this task.
    pub fan_out: FanOut,
    /// Producers that have not finished.
    pub pending: AtomicU32,
    /// Executions that have not finished; in use only where a task is not ordinary.
    unfinished: AtomicU32,
    /// What is called: the kernel's number (16 bits), how many argument words there are (16 bits), and how many times the
    /// task is executed (31 bits), below a bit that says whether it has a [shape](crate::shape).
    call: AtomicU64,
    /// The task id.
    pub task: AtomicU64,
    /// Address of the scope's source location.
    pub(crate) site: AtomicU64,
    /// The argument words, or the address of them all if they are more: then they are in the ring's heap.
    pub(crate) inline: [AtomicU64; INLINE_WORDS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 128 && core::mem::offset_of!(Slot, inline) == 40);

const WORDS_SHIFT: u32 = 16;
const EXECUTIONS_SHIFT: u32 = 32;

/// A dependency entry: the list behind the head of a [`FanOut`].
pub type DepNode = AtomicU64;

/// The consumers of a task: a list whose newest member lies in the head itself, so that one consumer costs no node.
#[derive(Debug)]
pub struct FanOut(AtomicU64);

/// The head of a fan-out list: consumer (low half) and the node that holds the rest (high half), both plus one.
type Head = u64;
const EMPTY: Head = 0;
const CLOSED: Head = u64::MAX;

impl Default for FanOut {
    fn default() -> Self {
        Self(AtomicU64::new(EMPTY))
    }
}

impl FanOut {
    #[cfg(not(loom))]
    pub(crate) fn word(&self) -> &AtomicU64 {
        &self.0
    }

    /// Opens it for a new task. Only while nobody else can reach the slot.
    #[inline]
    pub fn open(&self) {
        self.0.store(EMPTY, Ordering::Relaxed);
    }

    /// Enters a consumer, using a node of `node` if there are others already. False: the task has finished.
    // Forced inline: left to the compiler, filling and emptying a list of consumers takes a task 17 to 38 instructions more.
    #[inline(always)]
    pub fn push<'n>(&self, consumer: SlotRef, node: impl FnOnce() -> (SlotRef, &'n DepNode)) -> bool {
        // Acquire pairs(fan_out.closed): a refusal means that what the task wrote is visible from here on.
        let old = self.0.load(Ordering::Acquire);
        if old == CLOSED {
            return false;
        }
        let mut new = u64::from(consumer.0) + 1;
        if old != EMPTY {
            let (at, node) = node();
            node.store(old, Ordering::Relaxed);
            new |= (u64::from(at.0) + 1) << 32;
        }
        // Release pairs(fan_out.pushed): the node above and the consumer's slot are visible to whoever closes.
        self.0.compare_exchange(old, new, Ordering::Release, Ordering::Acquire).is_ok()
    }

    /// Closes the list for good and hands every consumer to `each`.
    #[inline(always)]
    pub fn close<'n>(&self, nodes: impl Fn(SlotRef) -> &'n DepNode, mut each: impl FnMut(SlotRef)) {
        // Acquire pairs(fan_out.pushed); Release pairs(fan_out.closed): what the kernel wrote comes before.
        let mut head = self.0.swap(CLOSED, Ordering::AcqRel);
        debug_assert_ne!(head, CLOSED, "F2: closed once");
        while head != EMPTY {
            each(SlotRef(head as u32 - 1));
            let node = (head >> 32) as u32;
            head = if node == 0 { EMPTY } else { nodes(SlotRef(node - 1)).load(Ordering::Relaxed) };
        }
    }

    /// Hands to `each` everyone who waits for the task, without closing the list: what a look at a run that stands still finds.
    /// At most `most` are told, so that a list which is changed meanwhile ends the look, too.
    pub fn peek<'n>(&self, nodes: impl Fn(SlotRef) -> Option<&'n DepNode>, most: usize, mut each: impl FnMut(SlotRef)) {
        // Acquire pairs(fan_out.pushed).
        let mut head = self.0.load(Ordering::Acquire);
        for _ in 0..most {
            if head == EMPTY || head == CLOSED {
                return;
            }
            each(SlotRef((head as u32).wrapping_sub(1)));
            let node = ((head >> 32) as u32).checked_sub(1).and_then(|node| nodes(SlotRef(node)));
            head = node.map_or(EMPTY, |node| node.load(Ordering::Relaxed));
        }
    }

    /// Whether the task has finished.
    #[inline]
    pub fn is_closed(&self) -> bool {
        // Acquire pairs(fan_out.closed): what the kernel wrote.
        self.0.load(Ordering::Acquire) == CLOSED
    }
}

impl Slot {
    /// What is to be called, with how many argument words and how many times: 1, or as many as [`SHAPED`] is set for. Only
    /// while nobody else can reach the slot.
    #[inline]
    pub(crate) fn set_call(&self, kernel: u32, words: usize, executions: u32) {
        debug_assert!(kernel <= u32::from(u16::MAX) && words <= usize::from(u16::MAX), "both have 16 bits");
        let call = u64::from(kernel) | (words as u64) << WORDS_SHIFT | u64::from(executions) << EXECUTIONS_SHIFT;
        self.call.store(call, Ordering::Relaxed);
    }

    /// A task without arguments, for models.
    #[cfg(loom)]
    pub fn set_kernel_times(&self, kernel: u32, executions: u32) {
        self.set_call(kernel, 0, executions);
        self.set_unfinished(executions);
    }

    /// So many executions have not finished. Only for the task's first holder.
    pub(crate) fn set_unfinished(&self, executions: u32) {
        self.unfinished.store(executions, Ordering::Relaxed);
    }

    /// The kernel's number.
    #[inline]
    pub fn kernel(&self) -> u32 {
        u32::from(self.call.load(Ordering::Relaxed) as u16)
    }

    /// How many argument words there are.
    #[inline]
    pub fn word_count(&self) -> usize {
        usize::from((self.call.load(Ordering::Relaxed) >> WORDS_SHIFT) as u16)
    }

    /// Whether the task is executed once, whatever happens, and completes with that.
    #[inline]
    pub fn is_ordinary(&self) -> bool {
        (self.call.load(Ordering::Relaxed) >> EXECUTIONS_SHIFT) as u32 == 1
    }

    /// How many blocks the task has; none if it is a dummy.
    #[inline]
    pub fn blocks(&self) -> u32 {
        (self.call.load(Ordering::Relaxed) >> EXECUTIONS_SHIFT) as u32 & !SHAPED
    }

    /// One execution of a task that is not ordinary finished. True: it was the last, and the task has completed.
    #[inline]
    pub fn finish_execution(&self) -> bool {
        // AcqRel pairs(slot.unfinished): whoever takes the last one off sees what every other execution wrote.
        self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// One producer finished. True: it was the last, and the task is ready.
    #[inline]
    pub fn release_one(&self) -> bool {
        // F3: a 1 that is still ours is the last; no other agent will touch the counter.
        // Acquire pairs(pending.released): the other producers' writes come before the consumer's reads.
        if self.pending.load(Ordering::Acquire) == 1 {
            return true;
        }
        // Release pairs(pending.released).
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The orchestrator takes `refused` producers back that had finished. True: none is left, the task is ready.
    #[inline]
    pub fn take_back(&self, refused: u32) -> bool {
        // AcqRel pairs(pending.released): the writes of producers that finished come before the reads of the task, which the
        // orchestrator publishes if none is left.
        self.pending.fetch_sub(refused, Ordering::AcqRel) == refused
    }
}
