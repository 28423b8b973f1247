//! The buffers of the table.

use super::BufferRef;
use super::arena::Arena;
use super::grid::FEW;
use super::home::{Home, HomeContent};
use super::user::User;
use crate::BufferShape;
use crate::footprint::SHAPE_WORDS;
use plimsoll_abi::{RINGS, TaskId};

/// Buffers are numbered by where they come from: 1 and the ring of the task that made them, or `HOST`.
const ORIGIN_SHIFT: u32 = 29;
const HOST: usize = RINGS + 1;

/// No grid.
pub(super) const NO_GRID: u16 = 0;

/// A buffer: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Anchor {
    /// What is kept of uses of the whole buffer, and of what is wider than a cell.
    pub(super) home: Home,
    pub(super) creator: Creator,
    /// Its shape's. In the last, above the number of dimensions: whether it has a grid or lists, or had; how many spans were
    /// entered; and its grid, or `NO_GRID`. So a new buffer takes its shape over as it is.
    words: [u32; SHAPE_WORDS],
}

const _: () = assert!(size_of::<Anchor>() == 64);

/// Spans of a buffer up to which each is kept for itself: a few reads and a few writes.
const MANY_SPANS: u32 = 2 * FEW as u32;

const LAST: usize = SHAPE_WORDS - 1;
const HAS_GRID_OR_LISTS: u32 = 1 << 8;
const SPANS_SHIFT: u32 = 9;
const GRID_SHIFT: u32 = 16;
/// Spans are counted up to here, which are more than [`MANY_SPANS`].
const MOST_SPANS: u32 = (1 << (GRID_SHIFT - SPANS_SHIFT)) - 1;

const _: () = assert!(MANY_SPANS < MOST_SPANS);

/// The last word of the shape itself.
const NDIM: u32 = HAS_GRID_OR_LISTS - 1;

/// Who made a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creator(u64);

/// The buffer was there before the run; its number follows. No user has this bit.
const NO_TASK: u64 = 1 << 63;

impl Creator {
    #[inline]
    fn of(task: TaskId, arg: u16) -> Self {
        Self(User::new(task, arg, true).bits())
    }

    /// The task that made the buffer, and which of its arguments it was.
    #[inline]
    pub(super) fn user(self) -> Option<User> {
        (self.0 & NO_TASK == 0).then(|| User::from_bits(self.0))
    }
}

impl Anchor {
    const EMPTY: Anchor = Anchor { home: Home::EMPTY, creator: Creator(NO_TASK), words: [0; SHAPE_WORDS] };

    /// A new buffer is taken to be used as a whole, because most are.
    #[inline]
    fn new(creator: Creator, buffer_shape: &BufferShape) -> Self {
        Self { home: Home { kept: HomeContent::WHOLE, ..Home::EMPTY }, creator, words: *buffer_shape.words() }
    }

    pub(super) fn buffer_shape(&self) -> BufferShape {
        let mut words = self.words;
        words[LAST] &= NDIM;
        BufferShape::from_words(words)
    }

    #[inline]
    pub(super) fn ndim(&self) -> usize {
        (self.words[LAST] & NDIM) as usize
    }

    /// Its grid, or `NO_GRID`.
    #[inline]
    pub(super) fn grid(&self) -> u16 {
        (self.words[LAST] >> GRID_SHIFT) as u16
    }

    pub(super) fn set_grid(&mut self, grid: u16) {
        self.words[LAST] = self.words[LAST] & ((1 << GRID_SHIFT) - 1) | u32::from(grid) << GRID_SHIFT;
    }

    /// Counts a span that is entered.
    pub(super) fn count_span(&mut self) {
        if self.spans() < MOST_SPANS {
            self.words[LAST] += 1 << SPANS_SHIFT;
        }
    }

    fn spans(&self) -> u32 {
        self.words[LAST] >> SPANS_SHIFT & MOST_SPANS
    }

    /// Whether more than a few spans were entered since the last write that stands for all before it. The order of submits alone
    /// decides: spans of tasks that have come back count, too.
    pub(super) fn has_many_spans(&self) -> bool {
        self.spans() > MANY_SPANS
    }

    /// A write stands for all spans before it.
    pub(super) fn forget_spans(&mut self) {
        self.words[LAST] &= !(MOST_SPANS << SPANS_SHIFT);
    }

    /// Marks the buffer as one that has a grid or lists. Returns whether it was marked before.
    fn note_grid_or_lists(&mut self) -> bool {
        let known = self.words[LAST] & HAS_GRID_OR_LISTS != 0;
        self.words[LAST] |= HAS_GRID_OR_LISTS;
        known
    }

    /// The buffer's number in records, unique in the run.
    pub(super) fn number(&self) -> u64 {
        match self.creator.user() {
            Some(user) => user.task().raw() << 12 | u64::from(user.arg()),
            None => self.creator.0,
        }
    }
}

/// All buffers.
#[derive(Debug)]
pub(super) struct Anchors {
    /// One arena per origin. The array is longer than there are origins, so that every value of a reference's origin is an index.
    arenas: [Arena<Anchor>; 1 << (32 - ORIGIN_SHIFT)],
    host_buffers: u64,
    /// Buffers that tasks made and that have a grid or lists, by ring.
    with_grid_or_lists: [Vec<u32>; RINGS],
}

/// The grid and the lists of a buffer that was reclaimed: they are to be given back, too.
#[derive(Clone, Copy, Debug)]
pub(super) struct GridAndLists {
    pub(super) grid: u16,
    pub(super) lists: Option<u32>,
}

impl Anchors {
    pub(super) fn new(first: u32) -> Self {
        Self {
            arenas: std::array::from_fn(|_| Arena::new(Anchor::EMPTY, first)),
            host_buffers: 0,
            with_grid_or_lists: Default::default(),
        }
    }

    /// Reserves memory for `room` buffers that the tasks of each ring make, all with a grid or lists, and for as many that no
    /// task makes.
    pub(super) fn reserve(&mut self, room: usize) -> std::io::Result<()> {
        self.arenas[1..=HOST].iter_mut().try_for_each(|arena| arena.reserve(room))?;
        Ok(self.with_grid_or_lists.iter_mut().try_for_each(|noted| noted.try_reserve_exact(room))?)
    }

    /// Buffers for which there is memory, of every origin; and those with a grid or lists, of every ring.
    #[cfg(test)]
    pub(super) fn reserved(&self) -> (Vec<usize>, Vec<usize>) {
        let noted = self.with_grid_or_lists.iter().map(Vec::capacity);
        (self.arenas.iter().map(Arena::reserved).collect(), noted.collect())
    }

    #[inline]
    fn origin(buffer: BufferRef) -> usize {
        (buffer.0 >> ORIGIN_SHIFT) as usize
    }

    #[inline]
    pub(super) fn at(&self, buffer: BufferRef) -> &Anchor {
        self.arenas[Self::origin(buffer)].at(buffer.0)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, buffer: BufferRef) -> &mut Anchor {
        self.arenas[Self::origin(buffer)].at_mut(buffer.0)
    }

    #[inline]
    fn reference(origin: usize, number: u32) -> BufferRef {
        BufferRef((origin as u32) << ORIGIN_SHIFT | number & ((1 << ORIGIN_SHIFT) - 1))
    }

    pub(super) fn add_host(&mut self, buffer_shape: BufferShape) -> BufferRef {
        self.host_buffers += 1;
        let anchor = Anchor::new(Creator(NO_TASK | self.host_buffers), &buffer_shape);
        Self::reference(HOST, self.arenas[HOST].push(|| anchor))
    }

    #[inline]
    pub(super) fn add_output(&mut self, task: TaskId, arg: u16, buffer_shape: &BufferShape) -> BufferRef {
        let ring = task.ring() as usize % RINGS;
        let anchor = || Anchor::new(Creator::of(task, arg), buffer_shape);
        Self::reference(ring + 1, self.arenas[ring + 1].push(anchor))
    }

    /// The number of a buffer with the upper bits, which its reference has no room for: they follow from what is taken now.
    fn full_number(&self, buffer: BufferRef) -> u32 {
        let next = self.arenas[Self::origin(buffer)].next();
        next.wrapping_sub(next.wrapping_sub(buffer.0) & ((1 << ORIGIN_SHIFT) - 1))
    }

    /// Whether the buffer has not come back.
    pub(super) fn is_alive(&self, buffer: BufferRef) -> bool {
        self.arenas[Self::origin(buffer)].holds(self.full_number(buffer))
    }

    /// Buffers that the tasks of the rings have made, of which references can tell 2^29 apart.
    pub(super) fn made(&self) -> [u32; RINGS] {
        std::array::from_fn(|ring| self.next(ring))
    }

    /// The number that the next output of a ring's tasks will have.
    #[inline]
    pub(super) fn next(&self, ring: usize) -> u32 {
        self.arenas[ring + 1].next()
    }

    /// Notes that a buffer has a grid or lists, which are to be given back when the buffer is reclaimed.
    pub(super) fn note_grid_or_lists(&mut self, buffer: BufferRef) {
        let origin = Self::origin(buffer);
        let known = self.at_mut(buffer).note_grid_or_lists();
        if origin != HOST && !known {
            let number = self.full_number(buffer);
            self.with_grid_or_lists[origin - 1].push(number);
        }
    }

    /// Reclaims the buffers of a ring before `number`. `each` is given the grids and lists that they had.
    #[inline]
    pub(super) fn release(&mut self, ring: usize, number: u32, each: impl FnMut(GridAndLists)) {
        self.arenas[ring + 1].release(number);
        if !self.with_grid_or_lists[ring].is_empty() {
            self.clear_out(ring, each);
        }
    }

    #[cold]
    fn clear_out(&mut self, ring: usize, mut each: impl FnMut(GridAndLists)) {
        let arena = &mut self.arenas[ring + 1];
        self.with_grid_or_lists[ring].retain(|&number| {
            let stays = arena.holds(number);
            if !stays {
                // Nobody has taken the place since: it has come back just now.
                let anchor = arena.at_mut(number);
                each(GridAndLists { grid: anchor.grid(), lists: anchor.home.kept.lists() });
                anchor.set_grid(NO_GRID);
                anchor.home = Home::EMPTY;
            }
            stays
        });
    }

    /// The homes of all buffers.
    pub(super) fn homes(&mut self, mut each: impl FnMut(&mut Home)) {
        for arena in &mut self.arenas {
            for number in arena.taken() {
                each(&mut arena.at_mut(number).home);
            }
        }
    }

    /// Forgets all buffers.
    pub(super) fn restart(&mut self, first: u32) {
        self.arenas.iter_mut().for_each(|arena| arena.restart(first));
        self.with_grid_or_lists.iter_mut().for_each(Vec::clear);
        self.host_buffers = 0;
    }
}
