//! Where large parts are written first and small ones later, tasks wait for nothing but what they touch.

use plimsoll_abi::TaskId;
use plimsoll_graph::{BufferRef, BufferShape, BufferUse, Dependency, Footprint, Layout, Tensormap, User};
use std::collections::BTreeSet;

/// First and one past the last coordinate, by dimension.
type Part = Vec<(usize, usize)>;

/// Who wrote an element last, and who has read it since.
#[derive(Clone, Default)]
struct Element {
    writer: Option<u32>,
    reads: Vec<u32>,
}

/// Submits tasks to a table, none of which completes, and holds their edges against what each element says.
struct Played {
    map: Tensormap,
    shape: Vec<usize>,
    buffers: Vec<(BufferRef, Vec<Element>)>,
    tasks: u32,
}

impl Played {
    fn new(shape: &[usize], buffers: usize) -> Self {
        let mut map = Tensormap::bounded(1 << 14).expect("memory");
        let whole = BufferShape::of(&Layout::dense(shape).expect("small"));
        let elements = vec![Element::default(); shape.iter().product()];
        let buffers = (0..buffers).map(|_| (map.add_buffer(whole), elements.clone())).collect();
        Self { map, shape: shape.to_vec(), buffers, tasks: 0 }
    }

    fn elements(&self, part: &Part) -> Vec<usize> {
        let along = |at: usize, d: usize| (part[d].0..part[d].1).map(move |i| (at, i));
        (0..part.len()).fold(vec![0], |out, d| {
            out.into_iter().flat_map(|at| along(at, d)).map(|(at, i)| at * self.shape[d] + i).collect()
        })
    }

    /// Submits a task that uses these parts of these buffers, and writes those that are marked. Returns how many it waits for.
    fn submit(&mut self, uses: &[(usize, &Part, bool)]) -> usize {
        let (task, mut met) = (self.tasks, BTreeSet::new());
        self.tasks += 1;
        let (mut live, mut needed) = (BTreeSet::new(), BTreeSet::new());
        for (&(buffer, part, writes), arg) in uses.iter().zip(0..) {
            let mut view = Layout::dense(&self.shape).expect("small");
            for (d, &(start, end)) in part.iter().enumerate() {
                view = view.slice(d, start, end).expect("in bounds");
            }
            let reference = self.buffers[buffer].0;
            let footprint = &Footprint::of(&self.map.buffer_shape(reference), &view);
            let access = BufferUse { user: User::new(TaskId::new(0, task), arg, writes), buffer: reference, footprint };
            let edges = |edge: Dependency| {
                met.insert(edge.pred.local());
                true
            };
            self.map.access(&access, edges).expect("no conflict");
            for at in self.elements(part) {
                let element = &mut self.buffers[buffer].1[at];
                live.extend(element.writer);
                if !writes {
                    needed.extend(element.writer);
                    element.reads.push(task);
                    continue;
                }
                let reads = std::mem::take(&mut element.reads);
                needed.extend(if reads.is_empty() { element.writer.into_iter().collect() } else { reads.clone() });
                live.extend(reads);
                element.writer = Some(task);
            }
        }
        let (missed, dead) = (&needed - &met, &met - &live);
        assert!(missed.is_empty() && dead.is_empty(), "task {task} misses {missed:?}, and need not wait for {dead:?}");
        met.len()
    }

    /// Writes every tile of these extents inside a border.
    fn write_tiles(&mut self, border: usize, extent: usize) {
        let tiles = self.shape.iter().fold(vec![vec![]], |tiles: Vec<Part>, &size| {
            let along = (border..size - border).step_by(extent).map(|at| (at, (at + extent).min(size - border)));
            let behind = |tile: &Part| along.clone().map(|part| [&tile[..], &[part]].concat()).collect::<Vec<_>>();
            tiles.iter().flat_map(behind).collect()
        });
        tiles.iter().for_each(|tile| _ = self.submit(&[(0, tile, true)]));
    }
}

#[test]
fn tiles_of_panels_wait_for_their_panel_alone() {
    for tile_first in [false, true] {
        let mut played = Played::new(&[64, 64], 1);
        if tile_first {
            played.submit(&[(0, &vec![(0, 1), (0, 1)], true)]);
        }
        for panel in [vec![(0, 32), (0, 64)], vec![(32, 64), (0, 64)]] {
            played.submit(&[(0, &panel, true)]);
        }
        played.write_tiles(0, 1);
        played.write_tiles(0, 1);
    }
}

#[test]
fn tiles_of_uneven_panels_wait_for_their_panels_alone() {
    let mut played = Played::new(&[4001], 1);
    for panel in [(0, 1334), (1334, 2668), (2668, 4001)] {
        played.submit(&[(0, &vec![panel], true)]);
    }
    played.write_tiles(0, 1);
    played.submit(&[(0, &vec![(3, 3990)], true)]);
    played.write_tiles(0, 1);
}

#[test]
fn tiles_behind_a_border_wait_for_the_interior_alone() {
    for (shape, border, extent) in [
        (vec![2052], 1, 2),
        (vec![70, 70], 1, 2),
        (vec![66, 66], 1, 1),
        (vec![14, 13, 14], 1, 1),
        (vec![23, 23, 23], 0, 2),
    ] {
        let mut played = Played::new(&shape, 1);
        let interior = shape.iter().map(|&size| (border, size - border)).collect();
        for _ in 0..2 {
            played.submit(&[(0, &interior, true)]);
            played.write_tiles(border, extent);
        }
    }
}

/// Both plates of a stencil are written at once before the first step.
#[test]
fn a_stencil_waits_for_its_neighbours_alone_whoever_wrote_its_plates() {
    const N: usize = 33;
    let mut played = Played::new(&[N + 2, N + 2], 2);
    for plate in 0..2 {
        played.submit(&[(plate, &vec![(1, N + 1), (1, N + 1)], true)]);
    }
    for step in 0..3 {
        let (from, to) = (step % 2, (step + 1) % 2);
        for (i, j) in (0..N).flat_map(|i| (0..N).map(move |j| (i, j))) {
            let (halo, tile) = (vec![(i, i + 3), (j, j + 3)], vec![(i + 1, i + 2), (j + 1, j + 2)]);
            let met = played.submit(&[(from, &halo, false), (to, &tile, true)]);
            assert!(met <= 9 + 9 + 1, "{met} producers in step {step}");
        }
    }
}

/// Wide panels are told apart after one element made the cells finer, whether they are few enough for that or not.
#[test]
fn panels_wait_for_themselves_alone_after_an_element_is_written() {
    for (panels, width) in [(64, 2048), (200, 1100)] {
        let mut played = Played::new(&[panels, width], 1);
        for _ in 0..3 {
            for panel in 0..panels {
                let met = played.submit(&[(0, &vec![(panel, panel + 1), (0, width)], true)]);
                assert!(met <= 2, "{met} producers of a panel");
            }
            played.submit(&[(0, &vec![(5, 6), (7, 8)], true)]);
        }
    }
}

/// Reads of all that a wide write is a part of are met where they were not superseded.
#[test]
fn wide_reads_are_cut_by_the_writes_that_became_wide() {
    let mut played = Played::new(&[64, 64], 1);
    let (upper, lower) = (vec![(0, 32), (0, 64)], vec![(32, 64), (0, 64)]);
    played.submit(&[(0, &upper, true)]);
    played.submit(&[(0, &vec![(1, 63), (1, 63)], false)]);
    played.submit(&[(0, &lower, true)]);
    played.submit(&[(0, &vec![(0, 64), (2, 62)], false)]);
    played.write_tiles(0, 1);
    played.submit(&[(0, &upper, true)]);
    played.write_tiles(0, 2);
}
