//! Places that are taken in order and come back in order: what the tasks of one ring put into the table.
//!
//! A place is known by its number, which counts up. Whether a place has come back is told by its number alone, so that
//! nobody has to go to the lists that lead to it when it does: a list ends where it comes to such a number. That is
//! why every ring has arenas of its own; only the tasks of one ring come back in order.
//!
//! Numbers begin again after 2^32. Whoever keeps one for long clears it before ([`super::Tensormap::sweep`]).

use super::NONE;
use std::io;

const AT_FIRST: usize = 64;

/// Numbered places for values of one type. A power of two in size, so that finding one of several takes a shift.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Arena<T> {
    /// The values, a power of two of them: as many as are in use at once. The value with number `n` is at `n` modulo that.
    places: Vec<T>,
    /// One less than there are places.
    mask: u32,
    /// The number of the next place.
    head: u32,
    /// The first number that has not come back.
    tail: u32,
    /// The number at which to stop and look: all places are taken, or it is no number.
    limit: u32,
}

impl<T: Copy> Arena<T> {
    /// An arena of a few places that hold `empty` at first. Numbers begin with `first`.
    pub(super) fn new(empty: T, first: u32) -> Self {
        let places = vec![empty; AT_FIRST];
        let mut arena = Self { places, mask: AT_FIRST as u32 - 1, head: first, tail: first, limit: 0 };
        arena.set_limit();
        arena
    }

    /// Reserves memory for `room` places, so that making room for them allocates nothing. What is never taken is never
    /// touched.
    pub(super) fn reserve(&mut self, room: usize) -> io::Result<()> {
        let more = room.next_power_of_two().saturating_sub(self.places.len());
        Ok(self.places.try_reserve_exact(more)?)
    }

    /// Places for which there is memory.
    #[cfg(test)]
    pub(super) fn reserved(&self) -> usize {
        self.places.capacity()
    }

    /// The number that the next place will have.
    #[inline]
    pub(super) fn next(&self) -> u32 {
        self.head
    }

    /// Whether the place with this number is taken.
    #[inline]
    pub(super) fn holds(&self, number: u32) -> bool {
        number != NONE && number.wrapping_sub(self.tail) < self.head.wrapping_sub(self.tail)
    }

    /// Takes the next place for what `value` returns, and returns its number. The value is made when there is a place for
    /// it, so that it need not be kept anywhere else.
    #[inline]
    pub(super) fn push(&mut self, value: impl FnOnce() -> T) -> u32 {
        if self.head == self.limit {
            self.look();
        }
        let number = self.head;
        self.head = number.wrapping_add(1);
        let place = self.at_mut(number);
        *place = value();
        number
    }

    /// Passes over what is no number, and makes room where there is none.
    #[cold]
    #[inline(never)]
    fn look(&mut self) {
        self.head += u32::from(self.head == NONE);
        if self.head.wrapping_sub(self.tail) as usize >= self.places.len() {
            self.make_room();
        }
        self.set_limit();
    }

    #[inline]
    fn set_limit(&mut self) {
        let (free, before_none) = (self.free(), NONE.wrapping_sub(self.head));
        self.limit = self.head.wrapping_add(free.min(before_none));
    }

    /// Numbers that can be given before all places are taken.
    #[inline]
    fn free(&self) -> u32 {
        self.places.len() as u32 - self.head.wrapping_sub(self.tail)
    }

    /// A place that is taken, by its number.
    #[inline]
    pub(super) fn at(&self, number: u32) -> &T {
        &self.places[(number & self.mask) as usize]
    }

    /// The value with this number, to be changed.
    #[inline]
    pub(super) fn at_mut(&mut self, number: u32) -> &mut T {
        &mut self.places[(number & self.mask) as usize]
    }

    /// Every place before `number` comes back.
    #[inline]
    pub(super) fn release(&mut self, number: u32) {
        debug_assert!(number.wrapping_sub(self.tail) <= self.head.wrapping_sub(self.tail), "places come back in order");
        self.tail = number;
        self.set_limit();
    }

    /// The numbers of the places that are taken.
    pub(super) fn taken(&self) -> impl Iterator<Item = u32> + use<T> {
        let (tail, count) = (self.tail, self.head.wrapping_sub(self.tail));
        (0..count).map(move |k| tail.wrapping_add(k)).filter(|&number| number != NONE)
    }

    /// Doubles it.
    fn make_room(&mut self) {
        let places = self.places.len();
        let empty = self.places[0];
        self.places.resize(2 * places, empty);
        self.mask = 2 * places as u32 - 1;
        for number in self.taken() {
            let (from, to) = (number as usize & (places - 1), number as usize & (2 * places - 1));
            // Either where it is already, or in the half that is new.
            self.places[to] = self.places[from];
        }
    }

    /// Nothing is taken, and numbers begin again.
    pub(super) fn restart(&mut self, first: u32) {
        (self.head, self.tail) = (first, first);
        self.set_limit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Any order of taking and giving back, across the end of the numbers, is that of a queue.
    #[test]
    fn it_is_a_queue_whose_members_have_numbers() {
        let mut arena = Arena::new(0u64, u32::MAX - 3000);
        let mut queue: VecDeque<(u32, u64)> = VecDeque::new();
        let mut random = 1u64;
        for step in 0..20_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let most = if step % 5000 < 2500 { 1500 } else { 10 };
            if queue.len() < most {
                queue.push_back((arena.push(|| step), step));
            }
            if random >> 62 == 0 || queue.len() > most {
                let back = (random >> 32) as usize % (queue.len() + 1);
                let gone: Vec<_> = queue.drain(..back).collect();
                arena.release(queue.front().map_or(arena.next(), |first| first.0));
                assert!(gone.iter().all(|&(number, _)| !arena.holds(number)));
            }
            assert!(!arena.holds(NONE));
            for &(number, value) in queue.iter().rev().take(3).chain(queue.front()) {
                assert!(arena.holds(number));
                assert_eq!(*arena.at(number), value);
            }
        }
        assert!(arena.taken().eq(queue.iter().map(|member| member.0)));
    }
}
