//! The table of who last used which part of which buffer, and the dependencies that follow from it.
//!
//! # Structure
//! Every buffer has an *anchor*: its shape, the task that made it, and a *home* for the accesses that later tasks may have
//! to wait for: the last write and the reads since. A buffer that is used by tiles gets a grid besides, and every cell of
//! the grid a home. What touches few cells is kept in each of them, so that tiles of one matrix do not meet each other;
//! the anchor's own home has what is wider.
//!
//! Most accesses are of exactly the part that was used before: the whole buffer, or the same tile. They take a short way
//! ([`Tensormap::access_whole`], [`Tensormap::access_tile`]), on which nothing is compared; what is not sure to be such
//! takes the long one ([`search`]).
//!
//! # What is kept
//! A write supersedes the accesses before it as far as it covers them: whoever overlaps them there later overlaps the write
//! too, and the write itself depends on them. Nothing is superseded because its task has come back: what such a task left
//! is told by its number, and passed over.
//!
//! # Accounting
//! Every tracked argument counts as one entry, from its submit until its task's slot is reclaimed, whether or not
//! anything of it is still kept: usage is a property of the program, not of timing. The caller counts.

mod anchors;
mod arena;
mod boxes;
mod cells;
mod edges;
mod grid;
mod home;
mod lists;
mod refit;
mod search;
mod user;

pub use edges::{Conflict, Dependency, DependencySource, Edges};
pub use user::User;

use crate::{BufferShape, Footprint};
use anchors::{Anchors, Creator, NO_GRID};
use cells::Cells;
use grid::{FEW, Grid};
use home::{Home, HomeContent, Lists, RingUses};
use plimsoll_abi::{MAX_DIMS, RINGS, TaskId};
use std::hint::cold_path;
use std::io;

/// No place: numbers of places begin with 1.
const NONE: u32 = 0;
/// The number of the first place.
const FIRST: u32 = 1;
/// Grids that a table has, as many as an anchor can tell apart; a buffer that gets none is searched without.
const GRIDS: usize = 1 << 16;
const UNBOUNDED_START: u32 = 1 << 12;
/// Uses of a ring for which there is room in any case; more than one for every entry if they lie in several cells.
const MOST_USES: usize = 1 << 21;
/// Numbers of uses begin again after four times as many, references to buffers after twice as many.
const SWEEP_EVERY: u32 = 1 << 28;

/// A buffer of the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct BufferRef(pub(crate) u32);

/// One use of a buffer by a task.
#[derive(Clone, Copy, Debug)]
pub struct BufferUse<'a> {
    /// The task that is being submitted, and which argument of it this is.
    pub user: User,
    /// The buffer.
    pub buffer: BufferRef,
    /// The part of it.
    pub footprint: &'a Footprint,
}

/// The table.
#[derive(Debug)]
pub struct Tensormap {
    capacity: u32,
    /// Entries taken since the run began, those that were given back included.
    taken: u64,
    /// What `taken` may reach: the capacity, and every entry that was given back.
    limit: u64,
    conservative: u64,
    anchors: Anchors,
    /// Grids by number. Number 0 means that a buffer has no grid.
    grids: Vec<Grid>,
    free_grids: Vec<u16>,
    cells: Cells,
    rings: [RingUses; RINGS],
    lists: Vec<Lists>,
    free_lists: Vec<u32>,
    growing: bool,
    /// Counts accesses that took the long way.
    clock: u64,
    /// The numbers of uses and of buffers at the last sweep.
    swept: [[u32; RINGS]; 2],
}

/// What the tasks of a ring have put into the table up to a moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, bytemuck::Zeroable)]
pub struct Mark {
    uses: u32,
    parts: u32,
    anchors: u32,
}

impl Tensormap {
    /// A table of at most `entries`. Memory for all of them is reserved, and taken as it is used.
    ///
    /// # Errors
    /// What the system says when it refuses that much memory.
    pub fn bounded(entries: u32) -> io::Result<Self> {
        Self::with(entries, entries, false, FIRST)
    }

    /// A table that grows.
    pub fn unbounded() -> Self {
        // So little is refused only where any allocation would be.
        let refused = |_| std::alloc::handle_alloc_error(std::alloc::Layout::new::<Home>());
        Self::with(u32::MAX, UNBOUNDED_START, true, FIRST).unwrap_or_else(refused)
    }

    /// A table of at most `entries` whose numbers are about to begin again: for tests.
    #[doc(hidden)]
    pub fn bounded_and_old(entries: u32) -> io::Result<Self> {
        Self::with(entries, entries, false, u32::MAX - 20)
    }

    fn with(capacity: u32, room: u32, growing: bool, first: u32) -> io::Result<Self> {
        let room = room as usize;
        // What is reserved here and never used is never touched. A use that lies in several cells may have a part in each, and
        // lists in each.
        let mut grids = Vec::with_capacity(GRIDS.min(room));
        grids.push(Grid::EMPTY);
        let mut anchors = Anchors::new(first);
        anchors.reserve(room)?;
        let mut rings: [RingUses; RINGS] = std::array::from_fn(|_| RingUses::new(first));
        let most_uses = room.saturating_mul(FEW as usize).min(room.max(MOST_USES));
        let others = most_uses.min(MOST_USES);
        for ring in &mut rings {
            ring.uses.reserve(most_uses)?;
            ring.parts.reserve(others)?;
        }
        let (mut lists, mut free_lists) = (Vec::new(), Vec::new());
        lists.try_reserve_exact(others)?;
        free_lists.try_reserve_exact(others)?;
        Ok(Self {
            capacity,
            taken: 0,
            limit: u64::from(capacity),
            conservative: 0,
            anchors,
            grids,
            free_grids: Vec::with_capacity(GRIDS.min(room)),
            cells: if growing { Cells::new(room)? } else { Cells::with_larger(room, most_uses)? },
            rings,
            lists,
            free_lists,
            growing,
            clock: 1,
            swept: [[first; RINGS]; 2],
        })
    }

    /// Forgets every buffer, so that the memory serves the next run. False if entries are in use, or more than there were at
    /// the start: then it is of no further use.
    pub fn restart(&mut self) -> bool {
        if self.used() > 0 || self.growing {
            return false;
        }
        (self.taken, self.limit) = (0, u64::from(self.capacity));
        self.cells.restart();
        self.anchors.restart(FIRST);
        self.rings.iter_mut().for_each(|ring| ring.restart(FIRST));
        self.swept = [[FIRST; RINGS]; 2];
        self.clock = 1;
        self.grids.truncate(1);
        self.free_grids.clear();
        self.lists.clear();
        self.free_lists.clear();
        self.conservative = 0;
        true
    }

    /// Entries in use.
    #[inline]
    pub fn used(&self) -> u32 {
        (self.taken + u64::from(self.capacity) - self.limit) as u32
    }

    /// Entries that were ever in use.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether this many entries are free.
    #[inline]
    pub fn has_room(&self, entries: u32) -> bool {
        self.taken + u64::from(entries) <= self.limit
    }

    /// Counts entries as in use.
    #[inline]
    pub fn hold(&mut self, entries: u32) {
        self.taken += u64::from(entries);
    }

    /// Entries there are.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Lets the table grow from now on: for counting what a failed run would have needed.
    pub fn lift_limit(&mut self) {
        self.limit += u64::from(u32::MAX - self.capacity);
        self.capacity = u32::MAX;
        self.growing = true;
    }

    /// Overlaps by comparison of spans so far, each of which may be a false one.
    #[inline]
    pub fn conservative_overlaps(&self) -> u64 {
        self.conservative
    }

    /// Enters a buffer that no task made. It stays for the life of the table.
    pub fn add_buffer(&mut self, buffer_shape: BufferShape) -> BufferRef {
        self.anchors.add_host(buffer_shape)
    }

    /// Enters a buffer that `task` makes.
    #[inline]
    pub fn add_output(&mut self, task: TaskId, arg: u16, buffer_shape: &BufferShape) -> BufferRef {
        self.anchors.add_output(task, arg, buffer_shape)
    }

    /// The shape of a buffer.
    #[inline]
    pub fn buffer_shape(&self, buffer: BufferRef) -> BufferShape {
        self.anchors.at(buffer).buffer_shape()
    }

    /// The number of a buffer in records, unique in the run: bit 63 and a count for those that no task made, else the task
    /// and its argument in the low 12 bits.
    pub fn number(&self, buffer: BufferRef) -> u64 {
        self.anchors.at(buffer).number()
    }

    /// Looks up whom a use of a buffer has to wait for, hands each to `edges`, and enters the use. The same task may be
    /// handed over more than once.
    ///
    /// [`Edges::meet`] says whether the task may stand for those that it waits for itself. A caller that counts some
    /// producers says so only of tasks that stay in the table as long as those do: else what is found would depend on
    /// when a task in between is reclaimed.
    ///
    /// # Errors
    /// [`Conflict`] if the use overlaps another argument of the same task and one of the two is written. The table is of no further
    /// use to inference then.
    pub fn access(&mut self, access: &BufferUse<'_>, mut edges: impl Edges) -> Result<(), Conflict> {
        let BufferUse { user, buffer, footprint } = *access;
        let (writes, edges) = (user.writes(), &mut edges);
        let short = if footprint.is_whole() {
            match writes {
                true => self.access_whole::<true>(user, buffer, edges),
                false => self.access_whole::<false>(user, buffer, edges),
            }
        } else if footprint.is_box() {
            let (start, shape) = (&footprint.start, &footprint.extents());
            match writes {
                true => self.access_box::<true>(user, buffer, start, shape, edges),
                false => self.access_box::<false>(user, buffer, start, shape, edges),
            }
        } else {
            None
        };
        short.unwrap_or_else(|| self.access_long(access, edges))
    }

    /// As [`access`](Self::access) where the short way was tried and had no answer.
    ///
    /// # Errors
    /// As of `access`.
    pub fn access_long(&mut self, access: &BufferUse<'_>, edges: &mut impl Edges) -> Result<(), Conflict> {
        let few = if access.user.writes() { None } else { self.read_cells(access, edges) };
        few.unwrap_or_else(|| self.access_any(access, edges))
    }

    /// As [`access`](Self::access) of the whole buffer, if it was only ever used as a whole, or what else there was is
    /// spent: then nothing has to be compared. Nothing has happened if there is no answer. `WRITES` says what the user
    /// says, so that each kind of access has its own code.
    // Forced inline: the short way. Left to the compiler, a task of a chain takes 27 instructions more, of a stencil 158.
    #[inline(always)]
    pub fn access_whole<const WRITES: bool>(
        &mut self,
        user: User,
        buffer: BufferRef,
        edges: &mut impl Edges,
    ) -> Option<Result<(), Conflict>> {
        let anchor = self.anchors.at_mut(buffer);
        if anchor.grid() != NO_GRID {
            return None;
        }
        if anchor.home.kept != HomeContent::WHOLE {
            cold_path();
            if anchor.home.kept != HomeContent::NOTHING {
                return None;
            }
            anchor.home.kept = HomeContent::WHOLE;
        }
        Some(access_same::<WRITES>(&mut anchor.home, &anchor.creator, &mut self.rings, user, NONE, edges))
    }

    /// The same for a tile of extents `shape`, `index` tiles from the beginning along each dimension. If another cell has the
    /// place of this one's home there is an answer only with `CLAIMS`, which takes a search.
    #[inline(always)]
    pub fn access_tile<const WRITES: bool, const CLAIMS: bool>(
        &mut self,
        user: User,
        buffer: BufferRef,
        index: &[u32; MAX_DIMS],
        shape: &[u32; MAX_DIMS],
        edges: &mut impl Edges,
    ) -> Option<Result<(), Conflict>> {
        let Self { anchors, grids, cells, rings, .. } = self;
        let anchor = anchors.at(buffer);
        if anchor.grid() == NO_GRID || anchor.home.kept != HomeContent::NOTHING {
            return None;
        }
        let grid = &mut grids[anchor.grid() as usize];
        let number = grid.exact_tile(anchor.ndim(), index, shape)?;
        if WRITES {
            // As the long way does: which way a write takes depends on what has completed, what cells there are must not.
            grid.written = true;
        }
        let (kept, at) = (HomeContent::cell(buffer, number), number & cells.mask);
        let home = &mut cells.homes[at as usize];
        if home.kept != kept {
            if home.kept == HomeContent::NOTHING {
                // Nobody ever had it, so nothing lies behind it and all else in it is zero.
                home.kept = kept;
                cells.touch(at);
            } else {
                let is_spent = !home.writer.is_somebody() || edges.is_spent(home.writer.task());
                if !is_spent || anchor.creator.user().is_some() || !cells.pass_on(at, kept) {
                    if !CLAIMS {
                        return None;
                    }
                    return self.access_claimed::<WRITES>(user, buffer, number, edges);
                }
            }
        }
        Some(access_same::<WRITES>(&mut cells.homes[at as usize], &anchor.creator, rings, user, NONE, edges))
    }

    /// As `access_tile`, for a cell whose hash place another cell occupies.
    #[inline(never)]
    fn access_claimed<const WRITES: bool>(
        &mut self,
        user: User,
        buffer: BufferRef,
        number: u32,
        edges: &mut impl Edges,
    ) -> Option<Result<(), Conflict>> {
        let at = self.claim(buffer, number, edges);
        let home = &mut self.cells.homes[at as usize];
        if home.kept != HomeContent::cell(buffer, number) {
            // It is mixed.
            return None;
        }
        Some(access_same::<WRITES>(home, &self.anchors.at(buffer).creator, &mut self.rings, user, NONE, edges))
    }

    /// Gives back what the tasks of a ring put into the table up to `mark`, and as many `entries`.
    #[inline]
    pub fn release(&mut self, ring: usize, mark: Mark, entries: u32) {
        self.limit += u64::from(entries);
        let Self { rings, anchors, free_grids, lists, free_lists, .. } = self;
        rings[ring].uses.release(mark.uses);
        rings[ring].parts.release(mark.parts);
        anchors.release(ring, mark.anchors, |left| {
            if left.grid != NO_GRID {
                free_grids.push(left.grid);
            }
            if let Some(at) = left.lists {
                lists[at as usize] = Lists::EMPTY;
                free_lists.push(at);
            }
        });
    }

    /// What the tasks of a ring have put into the table so far.
    #[inline]
    pub fn mark(&self, ring: usize) -> Mark {
        let RingUses { uses, parts } = &self.rings[ring];
        Mark { uses: uses.next(), parts: parts.next(), anchors: self.anchors.next(ring) }
    }

    /// Whether it is time for a [`sweep`](Self::sweep), on account of how much was entered since the last one.
    #[inline]
    pub fn wants_sweep(&self) -> bool {
        let numbers = self.numbers();
        let is_due = |kind: usize, ring: usize| numbers[kind][ring].wrapping_sub(self.swept[kind][ring]) > SWEEP_EVERY;
        (0..RINGS).any(|ring| is_due(0, ring) || is_due(1, ring))
    }

    /// The next numbers of uses and of buffers.
    fn numbers(&self) -> [[u32; RINGS]; 2] {
        [std::array::from_fn(|ring| self.rings[ring].uses.next()), self.anchors.made()]
    }

    /// Forgets the numbers of tasks that are not in flight and of places that have come back, before others have the same.
    #[cold]
    pub fn sweep(&mut self, is_in_flight: impl Fn(TaskId) -> bool) {
        self.sweep_cells();
        let Self { rings, lists, anchors, cells, .. } = self;
        let cut = |heads: &mut [u32; RINGS]| {
            for (ring, head) in heads.iter_mut().enumerate() {
                if !rings[ring].uses.holds(*head) {
                    *head = NONE;
                }
            }
        };
        let tidy = |home: &mut Home| {
            if !is_in_flight(home.writer.task()) {
                home.writer = User::NOBODY;
            }
            cut(&mut home.reads);
        };
        cells.each_home(tidy);
        anchors.homes(tidy);
        lists.iter_mut().for_each(|lists| cut(&mut lists.writes));
        self.swept = self.numbers();
    }
}

/// The short way: every write in the home is of exactly the part that the home is of. A write of it waits for the reads since
/// the last write, or for that write if there are none, and stands for all of them from now on. A read may be of a `part`.
#[inline(always)]
fn access_same<const WRITES: bool>(
    home: &mut Home,
    creator: &Creator,
    rings: &mut [RingUses; RINGS],
    user: User,
    part: u32,
    edges: &mut impl Edges,
) -> Result<(), Conflict> {
    debug_assert_eq!(user.writes(), WRITES);
    let mut shadowed = false;
    if WRITES {
        if home.reads != [NONE; RINGS] {
            shadowed = drop_reads(&mut home.reads, rings, user, edges)?;
        }
    } else {
        let ring = user.task().ring() as usize % RINGS;
        home.push_read(ring, rings, user, part);
    }
    let writer = home.writer;
    if WRITES {
        home.writer = user;
    }
    if writer.is_somebody() {
        if writer.is_task_of(user) {
            return Err(Conflict { with: writer.arg() });
        }
        if !shadowed {
            edges.meet(writer.edge());
        }
        return Ok(());
    }
    if !shadowed && let Some(maker) = creator.user() {
        if maker.is_task_of(user) {
            return Err(Conflict { with: maker.arg() });
        }
        edges.meet(maker.edge_of_maker());
    }
    Ok(())
}

/// Meets the reads of a home, which a write has to wait for and stands for from now on. Whether one of them stands for those
/// that it waits for itself.
#[inline(always)]
fn drop_reads(
    reads: &mut [u32; RINGS],
    rings: &[RingUses; RINGS],
    user: User,
    edges: &mut impl Edges,
) -> Result<bool, Conflict> {
    let mut stands = false;
    for (newest, ring) in reads.iter_mut().zip(rings) {
        let mut at = std::mem::replace(newest, NONE);
        while ring.uses.holds(at) {
            let read = ring.uses.at(at);
            if read.user.is_task_of(user) {
                return Err(Conflict { with: read.user.arg() });
            }
            stands |= edges.meet(read.user.edge());
            at = read.older();
        }
    }
    Ok(stands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    /// Everything but the task at hand has come back.
    struct Alone(TaskId);

    impl Edges for Alone {
        fn meet(&mut self, edge: Dependency) -> bool {
            edge.pred == self.0
        }

        fn is_spent(&self, task: TaskId) -> bool {
            task != self.0
        }

        fn is_held(&self, task: TaskId) -> bool {
            task == self.0
        }
    }

    /// Columns of buffers that are written in panels: every write of one is entered in each panel.
    #[test]
    fn a_write_that_is_entered_in_many_pieces_allocates_nothing() {
        let mut map = Tensormap::bounded(64).expect("memory");
        let whole = Layout::dense(&[256, 2048]).expect("small");
        let reserved = |map: &Tensormap| (map.rings[0].parts.reserved(), map.lists.capacity());
        let before = reserved(&map);
        let mut local = 0;
        for _ in 0..3 {
            let buffer = map.add_buffer(BufferShape::of(&whole));
            let columns = (0..8).map(|k| whole.slice(0, 0, 32).and_then(|rows| rows.slice(1, k, k + 1)));
            for view in [whole.slice(0, 0, 1)].into_iter().chain(columns) {
                let footprint = &Footprint::of(&map.buffer_shape(buffer), &view.expect("fits"));
                let access = BufferUse { user: User::new(TaskId::new(0, local), 0, true), buffer, footprint };
                map.access(&access, |_: Dependency| true).expect("tasks of one argument");
                local += 1;
            }
        }
        assert!(map.lists.len() > 64 && map.rings[0].parts.next() > 64, "{} lists", map.lists.len());
        assert_eq!(reserved(&map), before);
    }

    /// Buffers that are cut into cells, made by tasks or not, as many as there are entries.
    #[test]
    fn buffers_with_cells_allocate_nothing() {
        const ENTRIES: u32 = 512;
        let mut map = Tensormap::bounded(ENTRIES).expect("memory");
        let whole = Layout::dense(&[4, 4]).expect("small");
        let before = map.anchors.reserved();
        for local in 0..ENTRIES {
            let buffers = [
                map.add_buffer(BufferShape::of(&whole)),
                map.add_output(TaskId::new(1, local), 0, &BufferShape::of(&whole)),
            ];
            for (buffer, arg) in buffers.into_iter().zip(0..) {
                let tile = whole.tile([1, 1], [2, 2]).expect("fits");
                let footprint = &Footprint::of(&map.buffer_shape(buffer), &tile);
                let access = BufferUse { user: User::new(TaskId::new(2, local), arg, false), buffer, footprint };
                map.access(&access, |_: Dependency| true).expect("reads do not conflict");
            }
        }
        assert_eq!(map.anchors.reserved(), before);
    }

    /// Buffers that come and go, used by tiles, by odd parts and as a whole, leave nothing behind.
    #[test]
    fn what_buffers_leave_behind_is_used_again() {
        let mut map = Tensormap::bounded(64).expect("memory");
        let whole = Layout::dense(&[8, 8]).expect("small");
        for local in 0..5000 {
            let (maker, user) = (TaskId::new(1, 2 * local), TaskId::new(2, local));
            let buffer = map.add_output(maker, 0, &BufferShape::of(&whole));
            let views = [
                whole.tile([1, 2], [4, 2]).expect("fits"),
                whole.slice(0, 1, 3).expect("fits"),
                whole.tile([0, 1], [4, 2]).expect("fits"),
                whole.tile([0, 0], [1, 1]).expect("fits"),
                whole,
            ];
            for (arg, view) in views.iter().enumerate() {
                let footprint = &Footprint::of(&map.buffer_shape(buffer), view);
                let access = BufferUse { user: User::new(user, arg as u16, false), buffer, footprint };
                map.access(&access, Alone(maker)).expect("reads do not conflict");
            }
            for ring in 0..RINGS {
                let mark = map.mark(ring);
                map.release(ring, mark, 0);
            }
        }
        assert!(map.grids.len() <= 3 && map.free_grids.len() <= 2, "{} grids", map.grids.len());
        assert!(map.lists.len() <= map.cells.homes.len() && map.free_lists.len() <= map.lists.len());
        let mut claimed: Vec<u32> = map.cells.taken().collect();
        assert!(claimed.len() <= map.cells.mask as usize + 1, "{} cells", claimed.len());
        let count = claimed.len();
        claimed.sort_unstable();
        claimed.dedup();
        assert_eq!(claimed.len(), count, "a cell is claimed once");
        assert!(map.restart());
        assert!(map.cells.homes.iter().all(|home| home.kept == HomeContent::NOTHING));
    }
}
