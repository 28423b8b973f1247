//! A buffer of more cells than have a place in the table: a cell may take the place of another one that nobody has to wait
//! for any more, and of no other.

use plimsoll_abi::{MAX_DIMS, TaskId};
use plimsoll_graph::{BufferShape, BufferUse, Dependency, Edges, Footprint, Layout, Tensormap, User};
use std::collections::BTreeSet;

/// The cells of the buffer, of which a table of [`ENTRIES`] entries has a place for a quarter.
const CELLS: u32 = 4096;
const ENTRIES: u32 = 1024;
/// Cells that are used, all of which share a few places.
const USED: u32 = 32;
/// Tasks that have not come back.
const IN_FLIGHT: u32 = 24;
const TASKS: u32 = 40_000;

/// The dependencies of one task. Tasks before `tail` have come back.
struct Met {
    tail: u32,
    tasks: BTreeSet<u32>,
}

impl Edges for Met {
    fn meet(&mut self, edge: Dependency) -> bool {
        self.tasks.insert(edge.pred.local());
        false
    }

    fn is_spent(&self, task: TaskId) -> bool {
        task.local() < self.tail
    }

    fn is_held(&self, task: TaskId) -> bool {
        !self.is_spent(task)
    }
}

/// What a cell holds, kept the plain way.
#[derive(Clone, Default)]
struct Plain {
    writer: Option<u32>,
    reads: Vec<u32>,
}

#[test]
fn a_cell_whose_place_another_one_had_forgets_nothing_that_counts() {
    let mut map = Tensormap::bounded(ENTRIES).expect("memory");
    let whole = Layout::dense(&[CELLS as usize]).expect("small");
    let buffer = map.add_buffer(BufferShape::of(&whole));
    let shape = [1; MAX_DIMS];
    let mut plain = vec![Plain::default(); CELLS as usize];
    let mut marks = std::collections::VecDeque::new();
    let mut random = 1u64;
    let (mut waited, mut passed_on) = (0, 0);
    for local in 0..TASKS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = (random >> 33) as u32 % USED;
        let cell = drawn % 8 + ENTRIES * (drawn / 8);
        let writes = random >> 60 < 10;
        let user = User::new(TaskId::new(0, local), 0, writes);
        let mut met = Met { tail: local.saturating_sub(IN_FLIGHT), tasks: BTreeSet::new() };
        let mut index = [0; MAX_DIMS];
        index[0] = cell;
        let short = match writes {
            true => map.access_tile::<true, true>(user, buffer, &index, &shape, &mut met),
            false => map.access_tile::<false, true>(user, buffer, &index, &shape, &mut met),
        };
        passed_on += u32::from(short.is_some());
        let outcome = short.unwrap_or_else(|| {
            let tile = whole.tile([cell as usize], [1]).expect("in bounds");
            let footprint = &Footprint::of(&map.buffer_shape(buffer), &tile);
            map.access_long(&BufferUse { user, buffer, footprint }, &mut met)
        });
        outcome.expect("one argument does not conflict");

        let plain = &mut plain[cell as usize];
        let wanted: Vec<u32> = match writes && !plain.reads.is_empty() {
            true => std::mem::take(&mut plain.reads),
            false => plain.writer.into_iter().collect(),
        };
        for task in wanted.into_iter().filter(|&task| task >= met.tail) {
            assert!(met.tasks.contains(&task), "task {local} does not wait for {task} in cell {cell}");
            waited += 1;
        }
        match writes {
            true => plain.writer = Some(local),
            false => plain.reads.push(local),
        }
        marks.push_back(map.mark(0));
        if marks.len() > IN_FLIGHT as usize {
            let mark = marks.pop_front().expect("not empty");
            map.release(0, mark, 0);
        }
    }
    assert!(waited > TASKS / 4, "{waited} tasks had to wait for another");
    assert!(passed_on > TASKS / 2, "{passed_on} accesses took the short way");
}
