//! A graph that was built once: slots, argument words and fan-out lists in an arena of its own, launched any number of
//! times by the same agents that run streamed tasks.
//!
//! All of it is known beforehand, so it lies as it will be walked: the entries of a fan-out list side by side, the
//! arguments of most tasks in their slots.
//!
//! A launch puts back what the last one used up, the heads of the fan-out lists and the counts of pending producers,
//! and publishes the tasks that wait for nobody. Ring limits do not apply: the arena is as large as the graph.

use crate::args::{SCALAR_WORDS, describe, tensor_words, write_scalar, write_tensor};
use crate::execute::arg_words;
use crate::kernel::KernelEntry;
use crate::ring::{Capacity, HEAP_ALIGN};
use crate::shape::{NO_KERNEL, ShapeWords};
use crate::shared::Shared;
use crate::site::Site;
use crate::slot::{FanOut, INLINE_WORDS, SlotRef};
use crate::submit::CallShape;
use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{Dtype, RINGS, TaskId};
use plimsoll_graph::Layout;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One argument of a task in a graph under construction.
#[derive(Clone, Copy, Debug)]
pub enum GraphArg {
    /// A tensor: where it is, its layout, how it is used.
    Tensor {
        /// Where its buffer is.
        place: BufferPlace,
        /// The elements.
        layout: Layout,
        /// Their size.
        elem_bytes: u32,
        /// How the task uses it.
        mode: ArgMode,
        /// The type of the elements.
        dtype: Dtype,
    },
    /// A plain value.
    Scalar {
        /// Its bits.
        value: u64,
        /// Its type.
        dtype: Dtype,
    },
}

/// Where a buffer of a graph is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferPlace {
    /// A host buffer, by number; its address is bound to the graph and may change between launches.
    Host(u32),
    /// In the graph's own heap, at this offset.
    Heap(u64),
}

/// One task of a graph under construction.
#[derive(Clone, Debug)]
pub struct GraphTask {
    /// The kernel's number.
    pub kernel: u32,
    /// How it is executed.
    pub shape: CallShape,
    /// The scope it was submitted in.
    pub site: Site,
    /// Its arguments, as a range of the graph's.
    pub args: std::ops::Range<usize>,
    /// Its producers, as a range of the graph's.
    pub preds: std::ops::Range<usize>,
}

/// A graph under construction.
#[derive(Clone, Debug, Default)]
pub struct GraphPlan {
    /// Tasks, in the order of their submits.
    pub tasks: Vec<GraphTask>,
    /// The arguments of all tasks.
    pub args: Vec<GraphArg>,
    /// The producers of all tasks, each an earlier task.
    pub preds: Vec<u32>,
    /// Bytes of outputs.
    pub heap: u64,
}

/// A word of an argument that holds an address in a host buffer.
#[derive(Clone, Copy, Debug)]
struct Patch {
    buffer: u32,
    task: u32,
    /// Which of the task's argument words.
    word: u32,
    offset: u64,
}

/// A graph that can be launched.
#[derive(Debug)]
pub struct Graph {
    /// What its agents share.
    pub shared: Arc<Shared>,
    /// Argument words of the tasks whose slots have no room for them.
    words: Box<[AtomicU64]>,
    heads: Box<[u64]>,
    pending: Box<[u32]>,
    roots: Box<[SlotRef]>,
    /// The tasks that are not ordinary.
    shaped: Box<[SlotRef]>,
    patches: Vec<Patch>,
}

impl GraphPlan {
    /// Lays the graph out for agents that share what `share` maps: [`Shared::new`] or [`Shared::classed`].
    ///
    /// # Errors
    /// What `share` fails with.
    ///
    /// # Safety
    /// Every argument lies in the heap or in its buffer, and is one that its kernel may be called with. Before the graph is launched
    /// every buffer has an address ([`Graph::bind`]).
    pub unsafe fn build(&self, share: impl FnOnce([Capacity; RINGS]) -> io::Result<Shared>) -> io::Result<Graph> {
        let tiny = Capacity { window: 1, heap: HEAP_ALIGN, dep_pool: 1 };
        let mut capacities = [tiny; RINGS];
        capacities[0] = Capacity {
            window: (self.tasks.len().max(1) as u32).next_power_of_two(),
            heap: self.heap.max(HEAP_ALIGN),
            dep_pool: self.preds.len().max(1) as u32,
        };
        let shared = share(capacities)?;
        let mut graph = Graph {
            shared: Arc::new(shared),
            words: Box::default(),
            heads: Box::default(),
            pending: self.tasks.iter().map(|task| task.preds.len() as u32).collect(),
            roots: (0..self.tasks.len()).filter(|&t| self.tasks[t].preds.is_empty()).map(slot_ref).collect(),
            shaped: (0..self.tasks.len())
                .filter(|&t| self.tasks[t].shape != CallShape::ORDINARY)
                .map(slot_ref)
                .collect(),
            patches: Vec::new(),
        };
        self.write_args(&mut graph);
        self.link(&mut graph);
        Ok(graph)
    }

    fn write_args(&self, graph: &mut Graph) {
        let words_of = |task: &GraphTask| self.args[task.args.clone()].iter().map(GraphArg::words).sum::<usize>();
        let apart = self.tasks.iter().map(words_of).filter(|&words| words > INLINE_WORDS).sum();
        graph.words = (0..apart).map(|_| AtomicU64::new(0)).collect();
        let mut apart: &[AtomicU64] = &graph.words;
        for (index, task) in self.tasks.iter().enumerate() {
            let slot = graph.shared.slot(slot_ref(index));
            let count = words_of(task);
            let mut words: &[AtomicU64] = &slot.inline;
            if count > INLINE_WORDS {
                (words, apart) = apart.split_at(count);
                slot.inline[0].store(words.as_ptr() as u64, Ordering::Relaxed);
            }
            slot.set_call(task.kernel, count, task.shape.executions);
            let mut out = words;
            for arg in &self.args[task.args.clone()] {
                out = match *arg {
                    GraphArg::Scalar { value, dtype } => write_scalar(out, value, dtype),
                    GraphArg::Tensor { place, ref layout, elem_bytes, mode, dtype } => {
                        let offset = layout.offset() * u64::from(elem_bytes);
                        let address = match place {
                            BufferPlace::Heap(start) => graph.shared.rings[0].heap.address(start) as u64 + offset,
                            BufferPlace::Host(buffer) => {
                                let word = (words.len() - out.len()) as u32;
                                graph.patches.push(Patch { buffer, task: index as u32, word, offset });
                                0
                            }
                        };
                        write_tensor(out, address, describe(layout, dtype), layout, mode)
                    }
                };
            }
            slot.task.store(TaskId::new(0, index as u32).raw(), Ordering::Relaxed);
            slot.site.store(task.site.to_word(), Ordering::Relaxed);
        }
    }

    fn link(&self, graph: &mut Graph) {
        let shared = &graph.shared;
        let mut nodes = self.first_nodes();
        for (index, task) in self.tasks.iter().enumerate() {
            for &pred in &self.preds[task.preds.clone()] {
                shared.slot(slot_ref(pred as usize)).fan_out.push(slot_ref(index), || {
                    let node = SlotRef::new(0, nodes[pred as usize]);
                    nodes[pred as usize] += 1;
                    (node, shared.node(node))
                });
            }
        }
        graph.heads = (0..self.tasks.len()).map(|t| shared.slot(slot_ref(t)).fan_out.head()).collect();
    }

    /// Where the entries of each task's fan-out list begin.
    fn first_nodes(&self) -> Vec<u32> {
        let mut consumers = vec![0; self.tasks.len()];
        self.preds.iter().for_each(|&pred| consumers[pred as usize] += 1);
        let mut next = 0;
        for count in &mut consumers {
            (next, *count) = (next + *count, next);
        }
        consumers
    }
}

impl GraphArg {
    /// The words that it takes.
    fn words(&self) -> usize {
        match self {
            GraphArg::Tensor { layout, dtype, .. } => tensor_words(describe(layout, *dtype)),
            GraphArg::Scalar { .. } => SCALAR_WORDS,
        }
    }
}

fn slot_ref(index: usize) -> SlotRef {
    SlotRef::new(0, index as u32)
}

impl Graph {
    /// Tasks of the graph.
    pub fn tasks(&self) -> usize {
        self.pending.len()
    }

    /// The tasks that wait for nobody.
    pub fn roots(&self) -> &[SlotRef] {
        &self.roots
    }

    /// Puts back what the last launch used up. Only while no agent is at work.
    pub fn reset(&self) {
        self.shared.open();
        for (index, (&head, &pending)) in self.heads.iter().zip(&self.pending).enumerate() {
            let slot = self.shared.slot(slot_ref(index));
            slot.fan_out.restore(head);
            slot.pending.store(pending, Ordering::Relaxed);
        }
        self.shaped.iter().for_each(|&task| ShapeWords::of(self.shared.slot(task)).reset());
    }

    /// Gives host buffer `buffer` the address `base` in every argument that uses it.
    ///
    /// # Safety
    /// No agent is at work. Until other memory is bound, tasks of a launch may use the buffer's elements there as their arguments say.
    pub unsafe fn bind(&self, buffer: u32, base: u64) {
        for patch in self.patches.iter().filter(|patch| patch.buffer == buffer) {
            let slot = self.shared.slot(SlotRef::new(0, patch.task));
            arg_words(slot)[patch.word as usize].store(base + patch.offset, Ordering::Relaxed);
        }
    }

    /// Checks that every kernel of the graph exists.
    pub fn fits(&self, kernels: &[KernelEntry]) -> bool {
        let known = |kernel: u32| kernel == NO_KERNEL || (kernel as usize) < kernels.len();
        (0..self.tasks()).all(|t| known(self.shared.slot(slot_ref(t)).kernel()))
    }
}

impl FanOut {
    /// The list as it is now, to be restored later.
    pub(crate) fn head(&self) -> u64 {
        self.word().load(Ordering::Relaxed)
    }

    /// Makes the list what it was. Only while nobody else can reach the slot.
    pub(crate) fn restore(&self, head: u64) {
        self.word().store(head, Ordering::Relaxed);
    }
}
