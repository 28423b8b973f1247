//! The books of the rings, kept serially: every task has completed the moment it is submitted.
//!
//! That is the best that any order of completions can do for the submitter, so a submit that finds no room here finds
//! none ever: a deadlock. A submit that finds room here finds it in the end, however long it takes: no deadlock.
//! Slots, heap and tensormap are modelled; dependency entries depend on what inference finds.

use crate::program::{BoxView, Op, SimulatedProgram, SimulatedTask, Target};
use crate::shapes::SimulatedShape;
use plimsoll_abi::{ErrorCode, RINGS, Resource};
use plimsoll_runtime::Capacities;
use std::collections::VecDeque;

/// A submit that can never have room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadlock {
    /// The task that is not submitted.
    pub task: usize,
    /// What the error is.
    pub code: ErrorCode,
    /// What it lacks.
    pub resource: Resource,
    /// On which ring; none for the tensormap, which the rings share.
    pub ring: Option<u8>,
    /// What open scopes hold of it.
    pub used: u64,
    /// The oldest task that is held on that ring.
    pub pinned: Option<usize>,
}

/// What a task takes of its ring's heap: outputs, and argument words that its slot has no room for, in lines.
fn heap_of(task: &SimulatedTask) -> u64 {
    const LINE: u64 = 64;
    const SLOT_WORDS: u64 = 11;
    // A value and the length of a list take two words each; so does a dense vector, and a tile of a matrix one more.
    let words_of = |view: &BoxView| if view.is_output() { 2 } else { 3 };
    let (bytes, words) = match &task.target {
        Target::Make { len, .. } => (8 * *len as u64, 2),
        Target::Update(view) | Target::Replace(view) => (0, words_of(view)),
    };
    // A shape takes two values more.
    let shape = if task.shape == SimulatedShape::Ordinary { 0 } else { 4 };
    let words = 4 + words + shape + task.reads().map(words_of).sum::<u64>();
    let overflow = if words > SLOT_WORDS { (8 * words).next_multiple_of(LINE) } else { 0 };
    bytes.next_multiple_of(LINE) + overflow
}

/// What a task takes of the tensormap: an entry for every tensor that it uses.
fn entries_of(task: &SimulatedTask) -> u64 {
    1 + task.reads().count() as u64
}

impl BoxView {
    fn is_output(&self) -> bool {
        self.tensor >= crate::program::HOSTS.len()
    }
}

#[derive(Default)]
struct Ring {
    held: VecDeque<HeldSlot>,
    heap: u64,
    entries: u64,
}

/// A task that holds a slot.
struct HeldSlot {
    number: usize,
    scope: usize,
    heap: u64,
    entries: u64,
}

impl Ring {
    /// Takes back what tasks of closed scopes held, as far as none of an open one is in front of them.
    fn reclaim(&mut self, open: &[bool]) {
        while let Some(task) = self.held.front().filter(|task| !open[task.scope]) {
            self.heap -= task.heap;
            self.entries -= task.entries;
            self.held.pop_front();
        }
    }
}

struct ModelBooks<'c> {
    capacities: &'c Capacities,
    rings: [Ring; RINGS],
    /// Whether each scope, by number, is open.
    open: Vec<bool>,
    /// The scopes that are open, outermost first.
    stack: Vec<usize>,
}

impl ModelBooks<'_> {
    fn play(&mut self, ops: &[Op]) -> Result<(), Deadlock> {
        self.stack.push(self.open.len());
        self.open.push(true);
        for op in ops {
            match op {
                Op::Task(task) => self.submit(task)?,
                Op::Scope(ops) => self.play(ops)?,
                Op::Read(_) => {}
            }
        }
        if let Some(scope) = self.stack.pop() {
            self.open[scope] = false;
        }
        Ok(())
    }

    fn submit(&mut self, task: &SimulatedTask) -> Result<(), Deadlock> {
        self.rings.iter_mut().for_each(|ring| ring.reclaim(&self.open));
        let at = (self.stack.len() - 1).min(RINGS - 1);
        let entries_used: u64 = self.rings.iter().map(|ring| ring.entries).sum();
        let (ring, capacity) = (&mut self.rings[at], &self.capacities.rings[at]);
        let pinned = ring.held.front().map(|held| held.number);
        let lacks = |code, resource, used| {
            let ring = (resource != Resource::Tensormap).then_some(at as u8);
            Err(Deadlock { task: task.number, code, resource, ring, used, pinned })
        };
        let slots = ring.held.len() as u64;
        if slots >= u64::from(capacity.window) {
            let nested = self.stack.len() > RINGS;
            let code = if nested { ErrorCode::FlowControlDeadlock } else { ErrorCode::ScopeDeadlock };
            return lacks(code, Resource::TaskWindow, slots);
        }
        let (heap, entries) = (heap_of(task), entries_of(task));
        if ring.heap + heap > capacity.heap {
            return lacks(ErrorCode::HeapRingDeadlock, Resource::Heap, ring.heap);
        }
        if entries_used + entries > u64::from(self.capacities.tensormap) {
            return lacks(ErrorCode::TensormapOverflow, Resource::Tensormap, entries_used);
        }
        let (number, scope) = (task.number, self.stack[self.stack.len() - 1]);
        ring.held.push_back(HeldSlot { number, scope, heap, entries });
        ring.heap += heap;
        ring.entries += entries;
        Ok(())
    }
}

/// The first submit of a program that can never have room, if there is one.
pub fn deadlock(program: &SimulatedProgram, capacities: &Capacities) -> Option<Deadlock> {
    let mut books = ModelBooks { capacities, rings: Default::default(), open: Vec::new(), stack: Vec::new() };
    books.play(&program.ops).err()
}
