//! The books of the rings, kept serially: every task has completed the moment it is submitted.
//!
//! That is the best that any order of completions can do for the submitter, so a submit that finds no room here finds
//! none ever: a deadlock. A submit that finds room here finds it in the end, however long it takes: no deadlock.
//! Slots and heap are modelled; dependency entries and the tensormap depend on what inference finds.

use crate::program::{Op, Program, Target, Task, View};
use plimsoll_abi::{RINGS, Resource};
use plimsoll_runtime::Capacities;
use std::collections::VecDeque;

/// A submit that can never have room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadlock {
    /// The task that is not submitted.
    pub task: usize,
    /// What it lacks.
    pub resource: Resource,
    /// On which ring.
    pub ring: u8,
}

/// What a task takes of its ring's heap: outputs, and argument words that its slot has no room for, in lines.
fn heap_of(task: &Task) -> u64 {
    const LINE: u64 = 64;
    const SLOT_WORDS: u64 = 8;
    // A value and the length of a list take two words each; so does a dense vector, and others two and their dimensions.
    let words_of = |view: &View| if view.is_output() { 2 } else { 4 };
    let (bytes, words) = match &task.target {
        Target::Make { len, .. } => (8 * *len as u64, 2),
        Target::Update(view) | Target::Replace(view) => (0, words_of(view)),
    };
    let words = 4 + words + task.inputs.iter().map(words_of).sum::<u64>();
    let overflow = if words > SLOT_WORDS { (8 * words).next_multiple_of(LINE) } else { 0 };
    bytes.next_multiple_of(LINE) + overflow
}

impl View {
    fn is_output(&self) -> bool {
        self.tensor >= crate::program::HOSTS.len()
    }
}

#[derive(Default)]
struct Ring {
    /// Scope and heap bytes of the tasks that hold slots.
    held: VecDeque<(usize, u64)>,
    heap: u64,
}

struct Books<'c> {
    capacities: &'c Capacities,
    rings: [Ring; RINGS],
    /// Whether each scope, by number, is open.
    open: Vec<bool>,
    /// The scopes that are open, outermost first.
    stack: Vec<usize>,
}

impl Books<'_> {
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

    fn submit(&mut self, task: &Task) -> Result<(), Deadlock> {
        let at = (self.stack.len() - 1).min(RINGS - 1);
        let (ring, capacity) = (&mut self.rings[at], &self.capacities.rings[at]);
        while let Some(&(_, heap)) = ring.held.front().filter(|(scope, _)| !self.open[*scope]) {
            ring.held.pop_front();
            ring.heap -= heap;
        }
        let lacks = |resource| Err(Deadlock { task: task.number, resource, ring: at as u8 });
        if ring.held.len() as u64 >= u64::from(capacity.window) {
            return lacks(Resource::TaskWindow);
        }
        let heap = heap_of(task);
        if ring.heap + heap > capacity.heap {
            return lacks(Resource::Heap);
        }
        ring.held.push_back((self.stack[self.stack.len() - 1], heap));
        ring.heap += heap;
        Ok(())
    }
}

/// The first submit of a program that can never have room, if there is one.
pub fn deadlock(program: &Program, capacities: &Capacities) -> Option<Deadlock> {
    let mut books = Books { capacities, rings: Default::default(), open: Vec::new(), stack: Vec::new() };
    books.play(&program.ops).err()
}
