//! Whatever tasks do to overlapping views, every hazard between two of them is covered by a path of inferred edges,
//! and no edge joins tasks that could not touch a common element.

use crate::scale;
use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{RINGS, TaskId};
use plimsoll_graph::{BufferRef, BufferShape, BufferUse, Dependency, Edges, Footprint, Layout, Mark, Tensormap, User};
use proptest::prelude::*;
use std::collections::HashSet;

const SHAPES: [&[usize]; 3] = [&[24], &[6, 8], &[2, 3, 4]];

/// One argument: which buffer, how it is cut, how it is used, and the ring of the task that uses it.
#[derive(Clone, Debug)]
struct Arg {
    ring: u8,
    buffer: usize,
    cuts: Vec<(u8, u8, u8)>,
    reshaped: bool,
    mode: u8,
}

fn arg() -> impl Strategy<Value = Arg> {
    let cuts = prop::collection::vec(any::<(u8, u8, u8)>(), 0..3);
    (0..4u8, 0..SHAPES.len(), cuts, prop::bool::weighted(0.1), 0u8..4)
        .prop_map(|(ring, buffer, cuts, reshaped, mode)| Arg { ring, buffer, cuts, reshaped, mode })
}

fn layout(arg: &Arg) -> Layout {
    let mut view = Layout::dense(SHAPES[arg.buffer]).expect("small");
    for &(dim, start, len) in &arg.cuts {
        let dim = dim as usize % view.ndim();
        let extent = view.shape()[dim] as usize;
        let start = start as usize % extent;
        view = view.slice(dim, start, start + 1 + len as usize % (extent - start)).expect("in bounds");
    }
    if arg.reshaped { view.reshape(&[view.len() as usize]).unwrap_or(view) } else { view }
}

fn elements(view: &Layout) -> HashSet<u64> {
    let mut out = HashSet::from([view.offset()]);
    for (&extent, &stride) in view.shape().iter().zip(view.strides()) {
        out = out.iter().flat_map(|&at| (0..u64::from(extent)).map(move |i| at + i * stride as u64)).collect();
    }
    out
}

fn mode(arg: &Arg) -> ArgMode {
    [ArgMode::Input, ArgMode::Input, ArgMode::Inout, ArgMode::OutputExisting][arg.mode as usize]
}

/// Collects producers, as a scheduler does: some stand for those that they wait for, and released ones are nobody's concern.
struct Collected<'c> {
    direct: &'c mut HashSet<usize>,
    released: usize,
}

impl Edges for Collected<'_> {
    fn meet(&mut self, edge: Dependency) -> bool {
        let pred = edge.pred.local() as usize;
        if pred < self.released {
            return false;
        }
        self.direct.insert(pred);
        !pred.is_multiple_of(3)
    }

    fn is_spent(&self, task: TaskId) -> bool {
        (task.local() as usize) < self.released
    }
}

/// Submits tasks of one argument each, releasing the entries of the oldest ones now and then.
struct Model {
    map: Tensormap,
    buffers: Vec<BufferRef>,
    /// What the tasks of each ring have in the table, after each task.
    marks: Vec<[Mark; RINGS]>,
    released: usize,
    /// For every task, the tasks it waits for, directly or not.
    reach: Vec<HashSet<usize>>,
    direct: Vec<HashSet<usize>>,
}

impl Model {
    fn new(mut map: Tensormap) -> Self {
        let buffers =
            SHAPES.iter().map(|shape| map.add_buffer(BufferShape::of(&Layout::dense(shape).expect("small")))).collect();
        Self { map, buffers, marks: vec![], released: 0, reach: vec![], direct: vec![] }
    }

    fn submit(&mut self, arg: &Arg) {
        let index = self.reach.len();
        let buffer = self.buffers[arg.buffer];
        let footprint = Footprint::of(&self.map.buffer_shape(buffer), &layout(arg));
        let user = User::new(TaskId::new(arg.ring, index as u32), 0, mode(arg).writes());
        let access = BufferUse { user, buffer, footprint: &footprint };
        let mut direct = HashSet::new();
        let edges = Collected { direct: &mut direct, released: self.released };
        self.map.access(&access, edges).expect("one argument cannot conflict");
        let mut reach = direct.clone();
        for &pred in &direct {
            reach.extend(self.reach[pred].iter().copied());
        }
        self.reach.push(reach);
        self.direct.push(direct);
        self.map.hold(1);
        self.marks.push(std::array::from_fn(|ring| self.map.mark(ring)));
    }

    /// Releases the tasks before `first_left`.
    fn release(&mut self, first_left: usize) {
        if first_left > self.released {
            for (ring, mark) in self.marks[first_left - 1].into_iter().enumerate() {
                self.map.release(ring, mark, if ring == 0 { (first_left - self.released) as u32 } else { 0 });
            }
            self.released = first_left;
        }
    }
}

/// A read of more than a few of the finer cells goes from its old cells to the buffer's home, where it still follows the write.
#[test]
fn a_read_that_moves_to_the_buffers_home_is_met_by_the_write_that_moved_it() {
    let arg = |cuts: &[(u8, u8, u8)], mode| Arg { ring: 0, buffer: 1, cuts: cuts.to_vec(), reshaped: false, mode };
    let mut model = Model::new(Tensormap::bounded(64).expect("memory"));
    model.submit(&arg(&[(1, 1, 6)], 2));
    model.submit(&arg(&[(0, 0, 4)], 0));
    model.submit(&arg(&[(0, 3, 0), (1, 1, 0)], 2));
    assert!(model.direct[2].contains(&1), "{:?}", model.direct);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scale::cases(1500)))]
    #[test]
    fn every_hazard_is_ordered_and_no_edge_is_made_up(args in prop::collection::vec(arg(), 1..40)) {
        let mut model = Model::new(Tensormap::bounded(64).expect("memory"));
        for arg in &args {
            model.submit(arg);
        }
        let touched: Vec<_> = args.iter().map(|arg| elements(&layout(arg))).collect();
        for later in 0..args.len() {
            for earlier in 0..later {
                let (a, b) = (&args[earlier], &args[later]);
                let hazard = a.buffer == b.buffer
                    && (mode(a).writes() || mode(b).writes())
                    && !touched[earlier].is_disjoint(&touched[later]);
                prop_assert!(!hazard || model.reach[later].contains(&earlier), "{later} must wait for {earlier}");
                let exact = !a.reshaped && !b.reshaped;
                prop_assert!(hazard || !exact || !model.direct[later].contains(&earlier), "{later} -> {earlier} made up");
            }
        }
    }

    /// Reclaiming tasks in order, as rings do, loses no hazard between the tasks that are left.
    #[test]
    fn release_keeps_what_is_left(args in prop::collection::vec(arg(), 1..60), keep in 1usize..20, old: bool) {
        let mut model = Model::new(if old { Tensormap::bounded_and_old(20).expect("memory") } else { Tensormap::bounded(20).expect("memory") });
        let touched: Vec<_> = args.iter().map(|arg| elements(&layout(arg))).collect();
        for (later, arg) in args.iter().enumerate() {
            let first_left = later.saturating_sub(keep);
            model.release(first_left);
            if old && later % 7 == 0 {
                model.map.sweep(|task| (first_left..later).contains(&(task.local() as usize)));
            }
            prop_assert_eq!(model.map.used() as usize, later - first_left);
            model.submit(arg);
            for earlier in first_left..later {
                let hazard = args[earlier].buffer == arg.buffer
                    && (mode(&args[earlier]).writes() || mode(arg).writes())
                    && !touched[earlier].is_disjoint(&touched[later]);
                prop_assert!(!hazard || model.reach[later].contains(&earlier), "{later} must wait for {earlier}");
            }
        }
    }
}

#[test]
fn outputs_depend_on_their_creator_until_they_are_overwritten() {
    let mut map = Tensormap::bounded(8).expect("memory");
    let buffer_shape = BufferShape::of(&Layout::dense(&[4]).expect("small"));
    let buffer = map.add_output(TaskId::new(1, 0), 2, &buffer_shape);
    let look = |map: &mut Tensormap, task, mode: ArgMode| {
        let mut preds = vec![];
        let user = User::new(TaskId::new(1, task), 0, mode.writes());
        let access = BufferUse { user, buffer, footprint: &Footprint::WHOLE };
        map.access(&access, |edge: Dependency| {
            preds.push((edge.pred.local(), edge.source));
            true
        })
        .expect("no conflict");
        preds
    };
    use plimsoll_graph::DependencySource::{Creator, Reader, Tensormap as Written};
    assert_eq!(look(&mut map, 1, ArgMode::Input), [(0, Creator)]);
    // The reader waits for the creator, and stands for it.
    assert_eq!(look(&mut map, 2, ArgMode::Inout), [(1, Reader)]);
    assert_eq!(look(&mut map, 3, ArgMode::Input), [(2, Written)]);
}

#[test]
fn two_arguments_that_overlap_are_a_conflict_if_one_is_written() {
    let mut map = Tensormap::bounded(8).expect("memory");
    let whole = Layout::dense(&[4, 4]).expect("small");
    let buffer = map.add_buffer(BufferShape::of(&whole));
    let tile = Footprint::of(&map.buffer_shape(buffer), &whole.tile([1, 1], [2, 2]).expect("fits"));
    let mut enter = |arg, footprint: &Footprint, mode: ArgMode| {
        let access = BufferUse { user: User::new(TaskId::new(0, 7), arg, mode.writes()), buffer, footprint };
        map.access(&access, |_: Dependency| panic!("no other task"))
    };
    enter(0, &tile, ArgMode::Input).expect("the first");
    enter(1, &Footprint::WHOLE, ArgMode::Input).expect("two reads may overlap");
    let with = enter(2, &tile, ArgMode::Inout).expect_err("overlaps both").with;
    assert!(with < 2, "argument {with}");
}

/// Tiles that are 2^32 tiles apart, which a number of 32 bits could not tell from each other.
#[test]
fn tiles_of_a_huge_buffer_are_told_apart() {
    let mut map = Tensormap::bounded(64).expect("memory");
    let whole = Layout::dense(&[1 << 31, 4]).expect("its strides are small");
    let buffer = map.add_buffer(BufferShape::of(&whole));
    let mut look = |task, row, mode: ArgMode| {
        let footprint = Footprint::of(&map.buffer_shape(buffer), &whole.tile([row, 0], [1, 1]).expect("fits"));
        let access =
            BufferUse { user: User::new(TaskId::new(0, task), 0, mode.writes()), buffer, footprint: &footprint };
        let mut preds = vec![];
        map.access(&access, |edge: Dependency| {
            preds.push(edge.pred.local());
            true
        })
        .expect("no conflict");
        preds
    };
    let rows = [7, 7 + (1 << 30)];
    assert_eq!((look(0, rows[0], ArgMode::Inout), look(1, rows[1], ArgMode::Inout)), (vec![], vec![]));
    assert_eq!((look(2, rows[0], ArgMode::Input), look(3, rows[1], ArgMode::Input)), (vec![0], vec![1]));
}
