//! Where uses cannot be told apart exactly, what a task waits for does not grow with the past, and no hazard is missed.

use crate::scale;
use plimsoll_abi::TaskId;
use plimsoll_graph::{BufferRef, BufferShape, BufferUse, Dependency, Edges, Footprint, Layout, Tensormap, User};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Submits tasks to a table. None of them completes.
struct Program {
    map: Tensormap,
    tasks: u32,
    scopes: Scopes,
    /// The first task that an open scope holds.
    first_held: u32,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Scopes {
    /// One that holds all tasks.
    One,
    /// One per step: tasks of earlier steps are in flight, and nothing holds them.
    PerStep,
}

/// Takes the tasks that one has to wait for.
struct Met<'m> {
    tasks: &'m mut BTreeSet<u32>,
    first_held: u32,
}

impl Edges for Met<'_> {
    fn meet(&mut self, edge: Dependency) -> bool {
        self.tasks.insert(edge.pred.local());
        self.is_held(edge.pred)
    }

    fn is_held(&self, task: TaskId) -> bool {
        task.local() >= self.first_held
    }
}

impl Program {
    fn new(scopes: Scopes) -> Self {
        Self { map: Tensormap::bounded(1 << 14).expect("memory"), tasks: 0, scopes, first_held: 0 }
    }

    /// Begins a step.
    fn begin_step(&mut self) {
        if self.scopes == Scopes::PerStep {
            self.first_held = self.tasks;
        }
    }

    /// Submits a task that uses these views, and writes those that are marked. Returns the tasks that it waits for.
    fn submit(&mut self, uses: &[(BufferRef, Layout, bool)]) -> BTreeSet<u32> {
        let mut met = BTreeSet::new();
        let task = TaskId::new(0, self.tasks);
        self.tasks += 1;
        for (arg, (buffer, view, writes)) in uses.iter().enumerate() {
            let footprint = &Footprint::of(&self.map.buffer_shape(*buffer), view);
            let access = BufferUse { user: User::new(task, arg as u16, *writes), buffer: *buffer, footprint };
            let edges = Met { tasks: &mut met, first_held: self.first_held };
            self.map.access(&access, edges).expect("no conflict");
        }
        met
    }
}

/// Every second element of a line of pairs, from one pair to another: no box.
fn every_second(pairs: usize, from: usize, to: usize) -> Layout {
    let line = Layout::dense(&[2 * pairs]).and_then(|line| line.reshape(&[pairs, 2]));
    line.and_then(|line| line.slice(0, from, to)).and_then(|view| view.slice(1, 0, 1)).expect("in bounds")
}

/// The edges of the last step, each of which is submitted by `step`.
fn edges_of_last_step(steps: usize, mut step: impl FnMut(usize) -> usize) -> usize {
    (0..steps).map(&mut step).last().unwrap_or(0)
}

/// No step waits for more than steps that went before it did: a later step has at most twice the edges of an early one. Spans that
/// no open scope holds are kept up to twice as many before a write stands for them, so early is later there.
fn assert_constant(edges: impl Fn(Scopes, usize) -> usize) {
    for (scopes, early) in [(Scopes::One, 10), (Scopes::PerStep, 60)] {
        let few = (early..early + 10).map(|steps| edges(scopes, steps)).max().unwrap_or(0);
        for steps in [4, 8, 16].map(|times| times * early) {
            let many = edges(scopes, steps);
            assert!(many <= 2 * few, "{scopes:?}: {many} edges in step {steps}, at most {few} in the first steps");
        }
    }
}

/// Tiles that are read with a halo, of every second element.
#[test]
fn a_halo_of_every_second_element_waits_for_as_much_in_every_step() {
    const TILES: usize = 8;
    const PAIRS: usize = 4 * TILES + 2;
    assert_constant(|scopes, steps| {
        let mut program = Program::new(scopes);
        let shape = BufferShape::of(&Layout::dense(&[2 * PAIRS]).expect("small"));
        let buffers = [program.map.add_buffer(shape), program.map.add_buffer(shape)];
        edges_of_last_step(steps, |step| {
            program.begin_step();
            let task = |k: usize| {
                let read = (buffers[step % 2], every_second(PAIRS, 4 * k, 4 * k + 6), false);
                [read, (buffers[(step + 1) % 2], every_second(PAIRS, 4 * k + 1, 4 * k + 5), true)]
            };
            (0..TILES).map(|k| program.submit(&task(k)).len()).sum()
        })
    });
}

/// A panel that many read, and of which one element is written.
#[test]
fn an_element_of_a_panel_that_many_read_waits_for_as_much_in_every_step() {
    let whole = Layout::dense(&[2048, 2048]).expect("small");
    let panel = |k: usize| whole.slice(0, 32 * k, 32 * k + 32).expect("in bounds");
    let element = whole.slice(0, 2, 3).and_then(|row| row.slice(1, 5, 6)).expect("in bounds");
    assert_constant(|scopes, steps| {
        let mut program = Program::new(scopes);
        let buffer = program.map.add_buffer(BufferShape::of(&whole));
        for k in 0..64 {
            program.submit(&[(buffer, panel(k), true)]);
        }
        edges_of_last_step(steps, |_| {
            program.begin_step();
            let read: usize = (0..40).map(|_| program.submit(&[(buffer, panel(0), false)]).len()).sum();
            read + program.submit(&[(buffer, element, true)]).len()
        })
    });
}

/// Tiles that are read as boxes and written in strides, in a buffer of rows.
#[test]
fn tiles_that_are_written_in_strides_wait_for_as_much_in_every_step() {
    let whole = Layout::dense(&[16, 16]).expect("small");
    let column = whole.reshape(&[16, 8, 2]).and_then(|view| view.slice(2, 0, 1)).expect("in bounds");
    assert_constant(|scopes, steps| {
        let mut program = Program::new(scopes);
        let buffer = program.map.add_buffer(BufferShape::of(&whole));
        edges_of_last_step(steps, |_| {
            program.begin_step();
            let tile = |k: usize| whole.tile([k / 4, k % 4], [4, 4]).expect("in bounds");
            let read: usize = (0..16).map(|k| program.submit(&[(buffer, tile(k), false)]).len()).sum();
            read + program.submit(&[(buffer, column, true)]).len()
        })
    });
}

/// A write that stands for many others does so even where a later write covers it.
#[test]
fn what_a_covered_write_stood_for_is_still_waited_for() {
    const PAIRS: usize = 100;
    for early_writes in [false, true] {
        let mut program = Program::new(Scopes::One);
        let buffer = program.map.add_buffer(BufferShape::of(&Layout::dense(&[2 * PAIRS]).expect("small")));
        let mut submit = |from, to, writes| program.submit(&[(buffer, every_second(PAIRS, from, to), writes)]);
        for k in 0..33 {
            submit(2 * k, 2 * k + 2, early_writes);
        }
        // The first of these stands for all before it, and the second covers it.
        let (first, second) = (submit(90, 92, true), submit(89, 93, true));
        assert!(first.contains(&5) && second.contains(&33), "{first:?}, {second:?}");
        let last = submit(10, 12, true);
        assert!(last.contains(&5) || last.contains(&33), "{early_writes}: the last write waits for {last:?}");
    }
}

/// A part of a sheet of rows: a box of it, or a stride.
#[derive(Clone, Debug)]
struct Part {
    rows: (usize, usize),
    columns: (usize, usize),
    strided: bool,
    writes: bool,
}

const ROWS: usize = 6;
const COLUMNS: usize = 8;

fn part(one_row: bool) -> impl Strategy<Value = Part> {
    let range = |size: usize| (0..size).prop_flat_map(move |from| (Just(from), from + 1..=size));
    let rows = range(if one_row { 1 } else { ROWS });
    (rows, range(COLUMNS), prop::bool::weighted(0.2), prop::bool::weighted(0.4)).prop_map(
        |(rows, columns, strided, writes)| {
            let columns = if strided { (columns.0 / 2, columns.1.div_ceil(2).max(columns.0 / 2 + 1)) } else { columns };
            Part { rows, columns, strided, writes }
        },
    )
}

fn view(part: &Part, shape: &[usize]) -> Layout {
    let mut view = Layout::dense(shape).expect("small");
    let last = shape.len() - 1;
    if part.strided {
        let halved: Vec<usize> = shape[..last].iter().copied().chain([COLUMNS / 2, 2]).collect();
        view = view.reshape(&halved).and_then(|view| view.slice(last + 1, 0, 1)).expect("in bounds");
    }
    if last > 0 {
        view = view.slice(0, part.rows.0, part.rows.1).expect("in bounds");
    }
    view.slice(last, part.columns.0, part.columns.1).expect("in bounds")
}

fn elements(view: &Layout) -> BTreeSet<u64> {
    let mut out = BTreeSet::from([view.offset()]);
    for (&extent, &stride) in view.shape().iter().zip(view.strides()) {
        out = out.iter().flat_map(|&at| (0..u64::from(extent)).map(move |i| at + i * stride as u64)).collect();
    }
    out
}

/// Every hazard between tasks of one part each must be a path of edges.
fn check_hazards(shape: &[usize], parts: &[Part]) -> Result<(), TestCaseError> {
    let mut program = Program::new(Scopes::One);
    let buffer = program.map.add_buffer(BufferShape::of(&Layout::dense(shape).expect("small")));
    let mut reach: Vec<BTreeSet<u32>> = vec![];
    let mut used: Vec<BTreeSet<u64>> = vec![];
    for (task, part) in parts.iter().enumerate() {
        let view = view(part, shape);
        let direct = program.submit(&[(buffer, view, part.writes)]);
        let indirect: BTreeSet<u32> = direct.iter().flat_map(|&pred| reach[pred as usize].iter().copied()).collect();
        reach.push(&direct | &indirect);
        used.push(elements(&view));
        for earlier in (0..task).filter(|&earlier| part.writes || parts[earlier].writes) {
            let is_hazard = !used[earlier].is_disjoint(&used[task]);
            prop_assert!(!is_hazard || reach[task].contains(&(earlier as u32)), "{task} must wait for {earlier}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scale::cases(300)))]
    #[test]
    fn many_uses_of_a_sheet_miss_no_hazard(parts in prop::collection::vec(part(false), 1..200)) {
        check_hazards(&[ROWS, COLUMNS], &parts)?;
    }

    #[test]
    fn many_uses_of_a_line_miss_no_hazard(parts in prop::collection::vec(part(true), 1..200)) {
        check_hazards(&[COLUMNS], &parts)?;
    }
}
