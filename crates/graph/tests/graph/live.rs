//! Superseded uses retire: where writes are of whole cells, every edge joins two uses of a common element that nobody has
//! written in between, and every hazard is a path of edges all the same.

use crate::scale;
use plimsoll_abi::{MAX_DIMS, RINGS, TaskId};
use plimsoll_graph::{BufferRef, BufferShape, BufferUse, Dependency, Edges, Footprint, Layout, Mark, Tensormap, User};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The cells of both buffers along each dimension: how many, their extent, and borders before and behind them.
type Board = Vec<(usize, usize, usize)>;

fn shape(board: &Board) -> Vec<usize> {
    board.iter().map(|&(cells, extent, border)| cells * extent + 2 * border).collect()
}

/// Where the cells along a dimension begin, and where the last one ends: borders are cells of their own.
fn bounds(&(cells, extent, border): &(usize, usize, usize)) -> Vec<usize> {
    let mut bounds: BTreeSet<usize> = (0..=cells).map(|cell| border + cell * extent).collect();
    bounds.extend([0, cells * extent + 2 * border]);
    bounds.into_iter().collect()
}

fn board() -> impl Strategy<Value = Board> {
    (1usize..=5).prop_flat_map(|ndim| {
        let (cells, extent) = match ndim {
            1 => (48usize, 4usize),
            2 => (8, 4),
            3 => (4, 2),
            _ => (2, 2),
        };
        prop::collection::vec((1..=cells, 1..=extent, 0..=1usize), ndim)
    })
}

#[derive(Clone, Copy, Debug)]
enum What {
    Cell,
    Cells,
    Whole,
    Halo,
    Strip,
    Box,
    /// All but the borders, or one of up to three slabs of it.
    Slab,
    /// Every second column of a box, which is no box: where the last dimension is even, not transposed and not the fifth.
    Strided,
}

#[derive(Clone, Debug)]
struct Arg {
    buffer: usize,
    what: What,
    writes: bool,
    /// Numbers from which the part follows.
    at: [u16; 5],
    to: [u16; 5],
    transposed: bool,
}

fn arg() -> impl Strategy<Value = Arg> {
    let what = prop_oneof![
        8 => Just((What::Cell, true)),
        1 => Just((What::Cells, true)),
        1 => (0..8u8).prop_map(|n| (What::Whole, n == 0)),
        2 => Just((What::Cell, false)),
        5 => Just((What::Halo, false)),
        2 => Just((What::Strip, false)),
        2 => Just((What::Box, false)),
    ];
    (0..2usize, what, any::<[u16; 5]>(), any::<[u16; 5]>(), any::<bool>())
        .prop_map(|(buffer, (what, writes), at, to, transposed)| Arg { buffer, what, writes, at, to, transposed })
}

/// First and one past the last coordinate of an argument, by dimension.
fn extents(arg: &Arg, board: &Board) -> Vec<(usize, usize)> {
    let of = |d: usize| {
        let bounds = bounds(&board[d]);
        let (cells, size) = (bounds.len() - 1, bounds[bounds.len() - 1]);
        let (at, to) = (arg.at[d] as usize, arg.to[d] as usize);
        let cell = at % cells;
        match arg.what {
            What::Whole => (0, size),
            What::Slab => {
                let (cells, extent, border) = board[d];
                let slabs = if arg.to[3] as usize % board.len() == d { 1 + arg.to[4] as usize % 3 } else { 1 };
                let until = |slab: usize| border + cells * slab / slabs * extent;
                (until(arg.at[4] as usize % slabs), until(arg.at[4] as usize % slabs + 1))
            }
            What::Cell => (bounds[cell], bounds[cell + 1]),
            What::Cells => (bounds[cell], bounds[cell + 1 + to % (cells - cell)]),
            What::Halo => (bounds[cell].saturating_sub(1), (bounds[cell + 1] + 1).min(size)),
            What::Strip if d == 0 => (bounds[cell], bounds[cell] + 1),
            What::Strip => (bounds[cell], bounds[cell + 1]),
            What::Box | What::Strided => (at % size, at % size + 1 + to % (size - at % size)),
        }
    };
    (0..board.len()).map(of).collect()
}

impl Arg {
    fn is_strided(&self, shape: &[usize]) -> bool {
        let last = shape.last().copied().unwrap_or(1);
        matches!(self.what, What::Strided) && !self.transposed && last.is_multiple_of(2) && shape.len() < MAX_DIMS
    }
}

fn view(arg: &Arg, board: &Board) -> Layout {
    let sizes = shape(board);
    if arg.is_strided(&sizes) {
        let last = sizes.len() - 1;
        let pairs: Vec<usize> = sizes[..last].iter().copied().chain([sizes[last] / 2, 2]).collect();
        let whole = Layout::dense(&sizes).and_then(|whole| whole.reshape(&pairs));
        let mut view = whole.and_then(|view| view.slice(last + 1, 0, 1)).expect("in bounds");
        for (d, (start, end)) in extents(arg, board).into_iter().enumerate() {
            let (start, end) = if d == last { (start / 2, end.div_ceil(2)) } else { (start, end) };
            view = view.slice(d, start, end).expect("in bounds");
        }
        return view;
    }
    let mut view = Layout::dense(&shape(board)).expect("small");
    if arg.transposed {
        view = view.transpose();
    }
    for (d, (start, end)) in extents(arg, board).into_iter().enumerate() {
        let dim = if arg.transposed { board.len() - 1 - d } else { d };
        view = view.slice(dim, start, end).expect("in bounds");
    }
    view
}

fn elements(arg: &Arg, board: &Board) -> BTreeSet<usize> {
    let shape = shape(board);
    let mut out = BTreeSet::from([0]);
    for (d, (start, end)) in extents(arg, board).into_iter().enumerate() {
        let is_strided = d + 1 == shape.len() && arg.is_strided(&shape);
        let (start, step) = if is_strided { (start / 2 * 2, 2) } else { (start, 1) };
        let along = |at: usize| (start..end).step_by(step).map(move |i| (at, i));
        out = out.iter().flat_map(|&at| along(at)).map(|(at, i)| at * shape[d] + i).collect();
    }
    out
}

/// One use of a buffer: by which task and argument, of which elements.
#[derive(Debug)]
struct Use {
    task: usize,
    arg: u16,
    buffer: usize,
    writes: bool,
    elements: BTreeSet<usize>,
}

impl Use {
    fn conflicts(&self, other: &Use) -> bool {
        self.buffer == other.buffer && (self.writes || other.writes) && !self.elements.is_disjoint(&other.elements)
    }
}

/// Whether two uses share an element that no task in between has written.
fn is_live(uses: &[Use], one: &Use, other: &Use) -> bool {
    let between = |u: &&Use| u.writes && u.buffer == one.buffer && u.task > one.task && u.task < other.task;
    let mut common: BTreeSet<usize> = one.elements.intersection(&other.elements).copied().collect();
    for written in uses.iter().filter(between) {
        common = &common - &written.elements;
    }
    !common.is_empty()
}

/// The tasks of a program whose arguments do not conflict with each other. Task 0 makes buffer 0.
fn program(tasks: &[Vec<Arg>], board: &Board) -> Vec<Use> {
    let mut uses: Vec<Use> = vec![];
    let all = (0..shape(board).iter().product()).collect();
    uses.push(Use { task: 0, arg: 0, buffer: 0, writes: true, elements: all });
    for (task, args) in (1..).zip(tasks) {
        for (arg, number) in args.iter().zip(0..) {
            let elements = elements(arg, board);
            let next = Use { task, arg: number, buffer: arg.buffer, writes: arg.writes, elements };
            if !uses.iter().any(|other| other.task == task && other.conflicts(&next)) {
                uses.push(next);
            }
        }
    }
    uses
}

/// Enters a use and returns whom it has to wait for: tasks and their arguments.
fn enter(map: &mut Tensormap, at: &Use, ring: u8, buffer: BufferRef, view: &Layout, mut edges: impl Edges) {
    let footprint = Footprint::of(&map.buffer_shape(buffer), view);
    let user = User::new(TaskId::new(ring, at.task as u32), at.arg, at.writes);
    map.access(&BufferUse { user, buffer, footprint: &footprint }, |edge: Dependency| edges.meet(edge))
        .expect("no conflict");
}

/// Enters the uses of a program. Every hazard must be a path of edges, and every edge must join uses that conflict; with `only_live`,
/// such as share an element that nobody has written in between.
fn check_edges(board: &Board, tasks: &[Vec<Arg>], only_live: bool) -> Result<(), TestCaseError> {
    let uses = program(tasks, board);
    let mut map = Tensormap::bounded(256).expect("memory");
    let buffer_shape = BufferShape::of(&Layout::dense(&shape(board)).expect("small"));
    let buffers = [map.add_output(TaskId::new(0, 0), 0, &buffer_shape), map.add_buffer(buffer_shape)];
    let mut reach = vec![BTreeSet::new(); tasks.len() + 1];
    let mut direct = vec![BTreeSet::new(); tasks.len() + 1];
    for at in &uses[1..] {
        let view = view(&tasks[at.task - 1][at.arg as usize], board);
        let mut met = vec![];
        enter(&mut map, at, 0, buffers[at.buffer], &view, |edge: Dependency| {
            met.push((edge.pred.local() as usize, edge.pred_arg, edge.conservative));
            true
        });
        for (pred, pred_arg, conservative) in met {
            let with = uses.iter().find(|u| u.task == pred && u.arg == pred_arg && u.buffer == at.buffer);
            let with = with.expect("an argument of the same buffer");
            prop_assert!(conservative || at.conflicts(with), "{at:?} waits for {with:?}, which it does not touch");
            if only_live {
                prop_assert!(is_live(&uses, with, at), "{at:?} waits for {with:?}, which is superseded");
            }
            direct[at.task].insert(pred);
        }
    }
    for task in 0..=tasks.len() {
        let producers = direct[task].clone();
        let indirect: Vec<_> = producers.iter().flat_map(|&pred: &usize| reach[pred].clone()).collect();
        reach[task].extend(producers);
        reach[task].extend(indirect);
    }
    for (k, later) in uses.iter().enumerate() {
        for earlier in uses[..k].iter().filter(|u| u.task != later.task && u.conflicts(later)) {
            prop_assert!(reach[later.task].contains(&earlier.task), "{later:?} must wait for {earlier:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scale::cases(1500)))]
    #[test]
    fn edges_join_live_pairs_and_every_hazard_is_a_path(
        board in board(),
        tasks in prop::collection::vec(prop::collection::vec(arg(), 1..4), 1..40),
    ) {
        check_edges(&board, &tasks, true)?;
    }
}

/// Boards of so many cells that uses of a few rows of them are wide.
fn wide_board() -> impl Strategy<Value = Board> {
    let line = (1100usize..1500, 1..=2usize, 0..=1usize).prop_map(|line| vec![line]);
    let sheet = (30usize..50, 30usize..50, 0..=1usize)
        .prop_map(|(rows, columns, border)| vec![(rows, 1, border), (columns, 1, border)]);
    prop_oneof![line, sheet]
}

/// Uses of any parts, most of which are of one cell or wide.
fn wide_arg() -> impl Strategy<Value = Arg> {
    let what = prop_oneof![
        4 => Just(What::Cell),
        3 => Just(What::Cells),
        1 => Just(What::Whole),
        2 => Just(What::Halo),
        2 => Just(What::Box),
    ];
    // Cells are drawn from few, so that they are met again.
    let few = |n: u16| if n.is_multiple_of(3) { n } else { n % 4 };
    (0..2usize, what, any::<bool>(), any::<[u16; 2]>(), any::<[u16; 2]>(), any::<bool>()).prop_map(
        move |(buffer, what, writes, at, to, transposed)| {
            let at = [few(at[0]), few(at[1]), 0, 0, 0];
            Arg { buffer, what, writes, at, to: [to[0], to[1], 0, 0, 0], transposed }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scale::cases(150)))]
    #[test]
    fn wide_uses_miss_no_hazard(
        board in wide_board(),
        tasks in prop::collection::vec(prop::collection::vec(wide_arg(), 1..3), 1..30),
    ) {
        check_edges(&board, &tasks, false)?;
    }
}

/// Boards of more cells than a write is kept in, one by one.
fn large_board() -> impl Strategy<Value = Board> {
    prop_oneof![
        (1100usize..1300, 1..=3usize, 0..=1usize).prop_map(|line| vec![line]),
        (33usize..36, 33usize..40, 1..=2usize, 0..=1usize)
            .prop_map(|(rows, columns, extent, border)| vec![(rows, extent, border), (columns, extent, border)]),
        (11usize..13, 0..=1usize).prop_map(|(cells, border)| vec![(cells, 1, border); 3]),
    ]
}

/// Uses of single cells, and of cells with a halo, after `large` ones.
fn large_first(large: impl Strategy<Value = Arg>) -> impl Strategy<Value = Vec<Vec<Arg>>> {
    let what = prop_oneof![
        6 => Just((What::Cell, true)),
        4 => Just((What::Halo, false)),
        1 => Just((What::Cell, false)),
        1 => Just((What::Strip, false)),
        1 => any::<bool>().prop_map(|writes| (What::Slab, writes)),
        1 => Just((What::Whole, false)),
    ];
    // Cells are drawn from few, so that they are met again.
    let few = |n: u16| if n.is_multiple_of(3) { n } else { n % 4 };
    let small = (arg(), what).prop_map(move |(arg, (what, writes))| {
        let [a, b, c, d, e] = arg.at;
        Arg { what, writes, at: [few(a), few(b), few(c), d, e], ..arg }
    });
    let large = prop::collection::vec(large.prop_map(|arg| vec![arg]), 1..6);
    let small = prop::collection::vec(prop::collection::vec(small, 1..3), 1..30);
    (large, small).prop_map(|(large, small)| large.into_iter().chain(small).collect())
}

/// Slabs of both buffers, written; `is_even` says that they are of all but the borders.
fn slab(is_even: bool) -> impl Strategy<Value = Arg> {
    arg().prop_map(move |mut arg| {
        arg.to[4] = if is_even { 0 } else { arg.to[4] };
        Arg { what: What::Slab, writes: true, ..arg }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scale::cases(100)))]
    #[test]
    fn edges_of_cells_after_large_writes_join_live_pairs(board in large_board(), tasks in large_first(slab(true))) {
        check_edges(&board, &tasks, true)?;
    }

    #[test]
    fn cells_after_large_writes_miss_no_hazard(board in large_board(), tasks in large_first(slab(false))) {
        check_edges(&board, &tasks, false)?;
    }

    #[test]
    fn what_is_held_after_large_writes_does_not_depend_on_completion(
        board in large_board(),
        tasks in large_first(slab(false)),
        per_scope in 2usize..12,
    ) {
        let uses = program(&tasks, &board);
        let at_once = run_scoped(&tasks, &uses, &board, 1, per_scope);
        for lag in [3, 10, 100] {
            prop_assert_eq!(&at_once, &run_scoped(&tasks, &uses, &board, lag, per_scope), "lag {}", lag);
        }
    }
}

/// A read that is cut into pieces stays whole when the next one in its list goes.
#[test]
fn pieces_of_a_read_outlive_the_reads_behind_it() {
    let whole = Layout::dense(&[47, 47]).expect("small");
    let part = |rows: (usize, usize), columns: (usize, usize)| {
        whole.slice(0, rows.0, rows.1).and_then(|view| view.slice(1, columns.0, columns.1)).expect("in bounds")
    };
    let mut map = Tensormap::bounded(64).expect("memory");
    let buffer = map.add_buffer(BufferShape::of(&whole));
    let uses = [
        (true, part((0, 1), (0, 1))),
        (false, part((30, 31), (3, 47))),
        // More cells than a few, of which the next write leaves two pieces.
        (false, part((1, 4), (2, 13))),
        (true, part((2, 47), (3, 47))),
        (true, part((2, 5), (0, 3))),
    ];
    let mut met = BTreeSet::new();
    for (task, (writes, view)) in uses.iter().enumerate() {
        let at = Use { task, arg: 0, buffer: 0, writes: *writes, elements: BTreeSet::new() };
        met.clear();
        enter(&mut map, &at, 0, buffer, view, |edge: Dependency| met.insert(edge.pred.local()));
    }
    assert_eq!(met, BTreeSet::from([2]), "the last task writes what task 2 reads");
}

/// One element that is written makes neither the submits of wide panels long nor the table large.
#[test]
fn a_written_element_does_not_split_what_is_written_in_panels() {
    const N: usize = 2048;
    let whole = Layout::dense(&[N, N]).expect("small");
    let panel = |k: usize| whole.slice(0, 32 * k, 32 * k + 32).expect("in bounds");
    let element = whole.tile([0, 0], [1, 1]).expect("in bounds");
    for element_first in [false, true] {
        let mut map = Tensormap::bounded(1024).expect("memory");
        let buffer = map.add_buffer(BufferShape::of(&whole));
        let panels = (0..64).map(panel);
        let views: Vec<Layout> = match element_first {
            true => [element].into_iter().chain(panels.clone()).chain(panels).collect(),
            false => panels.clone().chain([element]).chain(panels).collect(),
        };
        let mut met = 0;
        for (task, view) in views.iter().enumerate() {
            let at = Use { task, arg: 0, buffer: 0, writes: true, elements: BTreeSet::new() };
            enter(&mut map, &at, 0, buffer, view, |_: Dependency| {
                met += 1;
                true
            });
        }
        assert!(met < 4 * views.len(), "{met} dependencies of {} tasks", views.len());
    }
}

/// What a scheduler knows: which scopes are open and which tasks have completed.
struct Known<'k> {
    scopes: &'k [Scope],
    of: &'k [usize],
    done: &'k [bool],
    /// The producers that open scopes hold.
    held: &'k mut BTreeSet<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Scope {
    ring: u8,
    open: bool,
    first: usize,
    mark: [Mark; RINGS],
    given_back: bool,
}

impl Known<'_> {
    fn holds(&self, task: TaskId) -> bool {
        self.scopes[self.of[task.local() as usize]].open
    }
}

impl Edges for Known<'_> {
    fn meet(&mut self, edge: Dependency) -> bool {
        let holds = self.holds(edge.pred);
        if holds {
            self.held.insert(edge.pred.local() as usize);
        }
        holds
    }

    fn is_spent(&self, task: TaskId) -> bool {
        !self.holds(task) && self.done[task.local() as usize]
    }

    fn is_held(&self, task: TaskId) -> bool {
        self.holds(task)
    }
}

/// Submits in a scope inside another one, over and over; tasks complete after `lag` others were submitted. Returns the
/// producers of each task that open scopes held.
fn run_scoped(tasks: &[Vec<Arg>], uses: &[Use], board: &Board, lag: usize, per_scope: usize) -> Vec<BTreeSet<usize>> {
    let mut map = Tensormap::bounded(64).expect("memory");
    let buffer_shape = BufferShape::of(&Layout::dense(&shape(board)).expect("small"));
    let buffers = [map.add_output(TaskId::new(0, 0), 0, &buffer_shape), map.add_buffer(buffer_shape)];
    let (root, inner) = (Scope { ring: 0, open: true, first: 0, mark: Default::default(), given_back: false }, 1u8);
    let mut scopes = vec![root];
    let (mut of, mut done, mut held) = (vec![0], vec![false], vec![BTreeSet::new()]);
    for task in 1..=tasks.len() {
        // Every third task is the outer scope's.
        let is_outer = task % 3 == 0;
        if !is_outer && (scopes.len() == 1 || task.is_multiple_of(per_scope)) {
            if let Some(last) = scopes.last_mut().filter(|scope| scope.ring == inner) {
                last.open = false;
                last.mark = std::array::from_fn(|ring| map.mark(ring));
            }
            scopes.push(Scope { ring: inner, first: task, ..root });
        }
        of.push(if is_outer { 0 } else { scopes.len() - 1 });
        done.push(false);
        if task > lag {
            done[task - lag] = true;
        }
        for scope in 1..scopes.len() {
            let until = scopes.get(scope + 1).map_or(task, |next| next.first);
            let all_done = done[..until.min(task)].iter().skip(1).all(|&done| done);
            if !scopes[scope].open && !scopes[scope].given_back && all_done {
                map.release(1, scopes[scope].mark[1], 0);
                scopes[scope].given_back = true;
            }
        }
        let mut producers = BTreeSet::new();
        for at in uses.iter().filter(|u| u.task == task) {
            let arg = &tasks[task - 1][at.arg as usize];
            let buffer = buffers[at.buffer];
            let footprint = Footprint::of(&map.buffer_shape(buffer), &view(arg, board));
            let user = User::new(TaskId::new(if is_outer { 0 } else { 1 }, task as u32), at.arg, at.writes);
            let known = Known { scopes: &scopes, of: &of, done: &done, held: &mut producers };
            map.access(&BufferUse { user, buffer, footprint: &footprint }, known).expect("no conflict");
        }
        held.push(producers);
    }
    held
}

/// Whether the write of one cell takes the short way follows from what has completed; the cells that later writes find do not.
#[test]
fn the_cells_of_a_buffer_do_not_depend_on_completion() {
    let task = |buffer, what, writes, at, to| {
        let (at, to) = ([at, 0, 0, 0, 0], [to, 0, 0, 0, 0]);
        vec![Arg { buffer, what, writes, at, to, transposed: false }]
    };
    let mut tasks = vec![task(0, What::Cell, true, 0, 0); 15];
    tasks[0] = task(1, What::Whole, true, 0, 0);
    tasks[2] = task(1, What::Cell, false, 0, 0);
    tasks[11] = task(1, What::Cell, true, 6, 0);
    tasks[13] = task(1, What::Whole, false, 0, 0);
    tasks[14] = task(1, What::Cells, true, 4, 2);
    let board = vec![(8, 1, 0)];
    let uses = program(&tasks, &board);
    assert_eq!(run_scoped(&tasks, &uses, &board, 1, 2), run_scoped(&tasks, &uses, &board, 3, 2));
}

/// A write that part of a coarser cell is left of does not bring back whoever made the buffer.
#[test]
fn a_maker_that_was_superseded_as_a_whole_is_not_met_in_the_cells_of_another_grid() {
    let shape = BufferShape::of(&Layout::dense(&[40]).expect("small"));
    let mut map = Tensormap::bounded(64).expect("memory");
    let buffer = map.add_output(TaskId::new(0, 0), 0, &shape);
    let mut producers = vec![];
    for (task, (start, end)) in (1..).zip([(0, 40), (0, 5), (1, 34)]) {
        let view = Layout::dense(&[40]).and_then(|whole| whole.slice(0, start, end)).expect("in bounds");
        let at = Use { task, arg: 0, buffer: 0, writes: true, elements: (start..end).collect() };
        producers.clear();
        enter(&mut map, &at, 0, buffer, &view, |edge: Dependency| {
            producers.push(edge.pred.local());
            true
        });
    }
    assert_eq!(producers, [2, 1]);
}

/// What moves to other cells may come to lie behind uses of earlier tasks. It is still met when those are spent.
#[test]
fn a_read_that_moved_to_another_cell_is_met_when_an_older_one_is_spent() {
    let board = vec![(3, 2, 0), (4, 1, 1), (2, 2, 0)];
    let mut tasks = vec![vec![]; 18];
    for (task, buffer, what, writes, at, to, transposed) in [
        (1, 1, What::Halo, false, [10819, 1315, 0, 0, 0], [0, 0, 0, 0, 0], false),
        (2, 0, What::Cell, true, [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], false),
        (3, 0, What::Cell, true, [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], false),
        (4, 0, What::Cell, true, [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], false),
        (5, 0, What::Cell, true, [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], false),
        (6, 0, What::Cell, true, [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], false),
        (7, 1, What::Halo, false, [3, 45625, 0, 0, 0], [0, 0, 0, 0, 0], false),
        (8, 0, What::Strip, false, [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], false),
        (9, 0, What::Cell, true, [0, 0, 0, 0, 0], [0, 114, 52067, 38385, 45933], false),
        (10, 1, What::Cell, false, [44884, 10041, 9305, 47679, 16481], [34377, 60042, 8196, 35697, 11159], false),
        (11, 0, What::Whole, false, [23032, 49987, 1058, 23595, 37461], [12499, 26428, 38157, 11548, 19650], true),
        (12, 0, What::Halo, false, [63442, 16541, 3301, 48741, 62289], [55704, 42861, 63383, 7083, 12573], false),
        (13, 1, What::Halo, false, [7441, 39367, 11099, 27875, 57558], [41367, 6454, 39755, 54637, 26612], false),
        (14, 1, What::Halo, false, [1657, 35663, 43611, 27607, 18186], [10142, 32997, 46424, 12248, 24362], false),
        (14, 1, What::Box, false, [32469, 28894, 21589, 29041, 39014], [35301, 49421, 4723, 27640, 44032], false),
        (14, 0, What::Cell, true, [65500, 20188, 8128, 20654, 33031], [10712, 35784, 41204, 22908, 20354], true),
        (15, 1, What::Cell, false, [55842, 28965, 58959, 968, 59496], [24121, 58052, 18202, 27898, 35470], true),
        (16, 1, What::Cell, true, [47993, 24893, 32180, 27593, 46656], [24498, 15985, 27231, 14558, 58762], false),
        (17, 0, What::Halo, false, [3951, 5011, 20686, 57347, 22383], [5894, 19144, 61177, 35605, 36834], true),
        (17, 1, What::Box, false, [18553, 37201, 10151, 52541, 28991], [50984, 32992, 22718, 65399, 60032], true),
        (18, 1, What::Cell, true, [49659, 41900, 37246, 35474, 38762], [11418, 27892, 25068, 2217, 17984], false),
    ] {
        tasks[task - 1].push(Arg { buffer, what, writes, at, to, transposed });
    }
    let uses = program(&tasks, &board);
    for lag in [1, 3, 10, 100] {
        let held = run_scoped(&tasks, &uses, &board, lag, 5);
        assert!(
            held[18].contains(&13),
            "lag {lag}: the last task writes what task 13 reads, but waits for {:?}",
            held[18]
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scale::cases(700)))]
    #[test]
    fn what_open_scopes_hold_does_not_depend_on_completion(
        board in board(),
        tasks in prop::collection::vec(prop::collection::vec(arg(), 1..4), 1..50),
        per_scope in 2usize..12,
    ) {
        let uses = program(&tasks, &board);
        let at_once = run_scoped(&tasks, &uses, &board, 1, per_scope);
        for lag in [3, 10, 100] {
            prop_assert_eq!(&at_once, &run_scoped(&tasks, &uses, &board, lag, per_scope), "lag {}", lag);
        }
    }
}

/// Uses most of which are no boxes. One per task: spans of one task may be said to overlap where they do not.
fn span_arg(what: impl Strategy<Value = (What, bool)>) -> impl Strategy<Value = Arg> {
    (arg(), what).prop_map(|(arg, (what, writes))| Arg { what, writes, transposed: false, ..arg })
}

fn mostly_spans() -> impl Strategy<Value = (What, bool)> {
    prop_oneof![
        6 => prop::bool::weighted(0.6).prop_map(|writes| (What::Strided, writes)),
        1 => Just((What::Cell, false)),
        2 => Just((What::Halo, false)),
    ]
}

fn spans_and_written_boxes() -> impl Strategy<Value = (What, bool)> {
    prop_oneof![8 => mostly_spans(), 1 => Just((What::Cell, true)), 1 => Just((What::Box, true))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scale::cases(200)))]
    #[test]
    fn when_a_span_stands_for_those_before_it_does_not_depend_on_completion(
        board in board(),
        tasks in prop::collection::vec(span_arg(mostly_spans()).prop_map(|arg| vec![arg]), 50..200),
        per_scope in 2usize..30,
    ) {
        let uses = program(&tasks, &board);
        let at_once = run_scoped(&tasks, &uses, &board, 1, per_scope);
        for lag in [3, 30, 300] {
            prop_assert_eq!(&at_once, &run_scoped(&tasks, &uses, &board, lag, per_scope), "lag {}", lag);
        }
    }

    #[test]
    fn spans_of_boards_miss_no_hazard(
        board in board(),
        tasks in prop::collection::vec(span_arg(spans_and_written_boxes()).prop_map(|arg| vec![arg]), 50..150),
    ) {
        check_edges(&board, &tasks, false)?;
    }
}
