//! The homes of cells, which all buffers share.
//!
//! A cell's home is found by its number: cells of a buffer have numbers in a row from one that depends on the buffer, so
//! that neighbours lie side by side. Cells with the same place are chained: those behind the first lie in the upper half.
//!
//! # What is forgotten, and when
//! A home may be given to another cell when that changes nothing that anybody can see: its buffer has come back; or all in
//! it is spent, and there is nothing older, neither of the buffer's maker nor in the buffer's own home, that it
//! supersedes. So whether a home is still there may depend on what has completed, but no dependency on a task of an open
//! scope does.

use super::home::{Home, HomeContent, Lists, are_spent};
use super::user::User;
use super::{BufferRef, Edges, NONE, Tensormap};
use bytemuck::Zeroable;
use plimsoll_abi::RINGS;
use plimsoll_shm::mapped::Mapped;
use std::io;
use std::ops::Range;

/// Order of the cell's last full write, and the next cell of its hash chain.
#[derive(Clone, Copy, Debug, Zeroable)]
#[repr(C)]
struct CellLink {
    /// Its last write of all of the cell by the long way, in the order of accesses that took it.
    wrote: u64,
    /// The next with the same place, or 0.
    next: u32,
    unused: u32,
}

/// The homes of cells.
#[derive(Debug)]
pub(super) struct Cells {
    /// A power of two that are found by number, and as many behind them.
    pub(super) homes: Mapped<Home>,
    links: Mapped<CellLink>,
    /// The only places of which a write by the long way may be known. So emptying a home seldom touches what is in `links`.
    noted: Range<u32>,
    /// The homes that can be found by number, less one: a mask of bits.
    pub(super) mask: u32,
    /// The first home behind those that was never used.
    fresh: u32,
    /// Which stretches of those found by number hold a home that keeps something or did.
    touched: Vec<bool>,
    /// More homes, reserved from the start, for when there are more cells than have room here.
    larger: Option<Box<Cells>>,
}

/// Homes of a stretch, as a shift: half a page of them, so that emptying a stretch touches no page that was not.
const STRETCH: u32 = 6;

impl Cells {
    pub(super) fn new(room: usize) -> io::Result<Self> {
        let places = room.next_power_of_two().max(1 << 10);
        Ok(Self {
            homes: Mapped::zeroed(2 * places)?,
            links: Mapped::zeroed(2 * places)?,
            noted: 0..0,
            mask: places as u32 - 1,
            fresh: places as u32,
            touched: vec![false; places >> STRETCH],
            larger: None,
        })
    }

    /// The same, with room for `most` cells reserved besides, so that having more cells than `room` allocates nothing.
    pub(super) fn with_larger(room: usize, most: usize) -> io::Result<Self> {
        Ok(Self { larger: Some(Box::new(Self::new(most)?)), ..Self::new(room)? })
    }

    /// Where the home of a cell is, by what it keeps.
    #[inline]
    pub(super) fn find(&self, key: HomeContent, number: u32, lists: &[Lists]) -> Option<u32> {
        let mut at = number & self.mask;
        loop {
            let kept = self.homes[at as usize].kept;
            if kept == key || kept.lists().is_some_and(|mixed| lists[mixed as usize].key == key) {
                return Some(at);
            }
            at = self.links[at as usize].next;
            if at == 0 {
                return None;
            }
        }
    }

    /// The last write of all of the cell by the long way.
    pub(super) fn wrote(&self, at: u32) -> u64 {
        self.links[at as usize].wrote
    }

    pub(super) fn set_wrote(&mut self, at: u32, order: u64) {
        let Range { start, end } = self.noted;
        self.noted = if start == end { at..at + 1 } else { start.min(at)..end.max(at + 1) };
        self.links[at as usize].wrote = order;
    }

    /// Notes that a home keeps something.
    #[inline]
    pub(super) fn touch(&mut self, at: u32) {
        if let Some(touched) = self.touched.get_mut((at >> STRETCH) as usize) {
            *touched = true;
        }
    }

    /// The stretches with homes that keep something or did.
    fn stretches(touched: &[bool]) -> impl Iterator<Item = Range<usize>> {
        let touched = touched.iter().enumerate().filter(|(_, touched)| **touched);
        touched.map(|(number, _)| number << STRETCH..(number + 1) << STRETCH)
    }

    /// A home that keeps nothing gets another cell.
    fn take(&mut self, at: u32, key: HomeContent) {
        self.touch(at);
        self.homes[at as usize] = Home { kept: key, ..Home::EMPTY };
        if self.noted.contains(&at) {
            self.links[at as usize].wrote = 0;
        }
    }

    /// Gives the home of one cell to another cell of the same buffer, if it keeps no reads and there is no other to choose
    /// from. The caller knows that its writer is spent, and that the buffer has no maker and keeps nothing in its own home.
    /// It is what [`Tensormap::claim`] would do, for a buffer of more cells than have a place.
    #[inline]
    pub(super) fn pass_on(&mut self, at: u32, key: HomeContent) -> bool {
        let is_alone = self.fresh == self.mask + 1 && !self.noted.contains(&at);
        let home = &mut self.homes[at as usize];
        let passes = is_alone && home.kept.is_of_same_buffer(key) && home.reads == [NONE; RINGS];
        if passes {
            (home.kept, home.writer) = (key, User::NOBODY);
        }
        passes
    }

    /// One more home in the chain of a place; none if all are taken.
    fn chain(&mut self, number: u32, key: HomeContent) -> Option<u32> {
        let (first, at) = (number & self.mask, self.fresh);
        if at as usize == self.homes.len() {
            return None;
        }
        self.fresh += 1;
        let next = std::mem::replace(&mut self.links[first as usize].next, at);
        self.links[at as usize].next = next;
        self.take(at, key);
        Some(at)
    }

    /// The places in a chain from that of a number on.
    fn chained(&self, number: u32) -> impl Iterator<Item = u32> {
        let next = |at: u32| Some(self.links[at as usize].next).filter(|&next| next != 0);
        std::iter::successors(Some(number & self.mask), move |&at| next(at))
    }

    /// All that keep something or did.
    pub(super) fn taken(&self) -> impl Iterator<Item = u32> + use<'_> {
        let found = Self::stretches(&self.touched).flatten().filter(|&at| self.homes[at].kept != HomeContent::NOTHING);
        found.map(|at| at as u32).chain(self.mask + 1..self.fresh)
    }

    /// The first home from place `from` on that keeps something of a buffer's cell or did, and the number of that cell.
    pub(super) fn next_of(&self, buffer: BufferRef, from: u32, lists: &[Lists]) -> Option<(u32, u32)> {
        let mut at = from;
        while at < self.fresh {
            if at <= self.mask && at.is_multiple_of(1 << STRETCH) && !self.touched[(at >> STRETCH) as usize] {
                at += 1 << STRETCH;
                continue;
            }
            let kept = self.homes[at as usize].kept;
            let key = kept.lists().map_or(kept, |mixed| lists[mixed as usize].key);
            if let Some((of, number)) = key.as_cell()
                && of == buffer
            {
                return Some((at, number));
            }
            at += 1;
        }
        None
    }

    /// Hands every home to `each`.
    pub(super) fn each_home(&mut self, mut each: impl FnMut(&mut Home)) {
        let behind = self.mask as usize + 1..self.fresh as usize;
        for homes in Self::stretches(&self.touched).chain([behind]) {
            self.homes[homes].iter_mut().filter(|home| home.kept != HomeContent::NOTHING).for_each(&mut each);
        }
    }

    /// All homes, with room for more cells: what was reserved for it, or twice as many. Only where more cells are alive than
    /// there was room for.
    #[cold]
    fn grow(&mut self, lists: &[Lists]) {
        let refused = |_| std::alloc::handle_alloc_error(std::alloc::Layout::new::<Home>());
        let reserved = self.larger.take().map(|larger| *larger);
        let mut grown = reserved.unwrap_or_else(|| Self::new(2 * (self.mask as usize + 1)).unwrap_or_else(refused));
        for at in self.taken() {
            let (home, wrote) = (self.homes[at as usize], self.wrote(at));
            let key = home.kept.lists().map_or(home.kept, |mixed| lists[mixed as usize].key);
            let Some((_, number)) = key.as_cell() else { continue };
            let first = number & grown.mask;
            let free = grown.homes[first as usize].kept == HomeContent::NOTHING;
            let place = if free { Some(first) } else { grown.chain(number, key) };
            // Twice as many have room for all that there were.
            let Some(place) = place else { continue };
            grown.take(place, key);
            grown.homes[place as usize] = home;
            grown.set_wrote(place, wrote);
        }
        *self = grown;
    }

    /// Every home is empty.
    pub(super) fn restart(&mut self) {
        let behind = self.mask as usize + 1..self.fresh as usize;
        for homes in Self::stretches(&self.touched).chain([behind]) {
            bytemuck::fill_zeroes(&mut self.homes[homes.clone()]);
            bytemuck::fill_zeroes(&mut self.links[homes]);
        }
        self.touched.fill(false);
        self.noted = 0..0;
        self.fresh = self.mask + 1;
    }
}

impl Tensormap {
    /// The home of a cell. One that was not there has taken the place of one that may be forgotten.
    #[inline(never)]
    pub(super) fn claim(&mut self, buffer: BufferRef, number: u32, edges: &impl Edges) -> u32 {
        let key = HomeContent::cell(buffer, number);
        if let Some(at) = self.cells.find(key, number, &self.lists) {
            return at;
        }
        let free = self.cells.chained(number).find(|&at| self.may_forget(at, edges));
        if let Some(at) = free {
            self.free_lists_of(self.cells.homes[at as usize].kept);
            self.cells.take(at, key);
            return at;
        }
        loop {
            match self.cells.chain(number, key) {
                Some(at) => return at,
                None => self.cells.grow(&self.lists),
            }
        }
    }

    /// Whether a home may be given to another cell.
    fn may_forget(&self, at: u32, edges: &impl Edges) -> bool {
        let home = &self.cells.homes[at as usize];
        let mixed = home.kept.lists().map(|mixed| &self.lists[mixed as usize]);
        let Some((buffer, _)) = mixed.map_or(home.kept, |mixed| mixed.key).as_cell() else { return true };
        if !self.anchors.is_alive(buffer) {
            return true;
        }
        let anchor = self.anchors.at(buffer);
        anchor.home.kept == HomeContent::NOTHING
            && anchor.creator.user().is_none_or(|maker| !edges.is_held(maker.task()))
            && home.is_spent(&self.rings, edges)
            && mixed.is_none_or(|mixed| are_spent(&mixed.writes, &self.rings, edges))
    }

    /// Gives the lists of a mixed home back.
    pub(super) fn free_lists_of(&mut self, kept: HomeContent) {
        if let Some(lists) = kept.lists() {
            self.lists[lists as usize] = Lists::EMPTY;
            self.free_lists.push(lists);
        }
    }

    /// A home keeps nothing any more.
    pub(super) fn empty_cell(&mut self, at: u32) {
        self.free_lists_of(self.cells.homes[at as usize].kept);
        self.cells.homes[at as usize] = Home { kept: HomeContent::NOTHING_MORE, ..Home::EMPTY };
    }

    /// Forgets the cells of buffers that have come back, before others have the same numbers.
    pub(super) fn sweep_cells(&mut self) {
        let taken: Vec<u32> = self.cells.taken().collect();
        for at in taken {
            let kept = self.cells.homes[at as usize].kept;
            let key = kept.lists().map_or(kept, |mixed| self.lists[mixed as usize].key);
            if key.as_cell().is_some_and(|(buffer, _)| !self.anchors.is_alive(buffer)) {
                self.empty_cell(at);
            }
        }
    }
}
