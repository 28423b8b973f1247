//! Finding a task by its word.

use std::collections::HashMap;

use plimsoll_abi::TaskId;

use crate::model::{RINGLESS_EPOCH_BIT, RINGLESS_EPOCHS};

/// Where each task lies. Task numbers of a ring are nearly always dense, so each ring and round has a plain table; a
/// number that would make the table sparse goes into a map instead.
#[derive(Clone, Debug, Default)]
pub struct TaskIndex {
    /// The tables, sorted by ring and round. There are few of them.
    dense: Vec<(u32, Vec<u32>)>,
    sparse: HashMap<u64, u32>,
}

const ABSENT: u32 = u32::MAX;
/// A table may run ahead of the tasks it holds by this much.
const SLACK: usize = 256;
/// The most tables. Tasks of further rings and rounds go into the map.
const TABLES: usize = 4096;

impl TaskIndex {
    /// The index of these words; the first wins where one occurs twice.
    pub fn new(words: impl Iterator<Item = u64>) -> Self {
        let mut index = Self::default();
        for (at, word) in words.enumerate() {
            index.insert(word, at as u32);
        }
        index
    }

    /// An empty index with tables for these words, which may come in any order: executions come by core, and those of the
    /// second core would not find a table that has grown up to them.
    pub fn with_room_for(words: impl Iterator<Item = u64>) -> Self {
        let mut extents: Vec<(u32, u32, usize)> = Vec::new();
        let mut last = 0;
        for word in words {
            let (upper, local) = ((word >> 32) as u32, word as u32);
            if extents.get(last).is_none_or(|(of, ..)| *of != upper) {
                last = match extents.binary_search_by_key(&upper, |(of, ..)| *of) {
                    Ok(place) => place,
                    Err(_) if extents.len() == TABLES => continue,
                    Err(place) => {
                        extents.insert(place, (upper, 0, 0));
                        place
                    }
                };
            }
            let (_, most, count) = &mut extents[last];
            *most = local.max(*most);
            *count += 1;
        }
        let length = |most: u32, count: usize| if most as usize >= count * 4 + SLACK { 0 } else { most as usize + 1 };
        let dense = extents.into_iter().map(|(of, most, count)| (of, vec![ABSENT; length(most, count)])).collect();
        Self { dense, sparse: HashMap::new() }
    }

    /// Adds a word, unless it is there.
    pub fn insert(&mut self, word: u64, at: u32) {
        if self.get(word).is_none() {
            self.replace(word, at);
        }
    }

    /// Adds a word, or says that it lies elsewhere now.
    pub fn replace(&mut self, word: u64, at: u32) {
        let (upper, local) = ((word >> 32) as u32, word as u32 as usize);
        let known = self.dense.binary_search_by_key(&upper, |(of, _)| *of);
        let table = match known {
            Ok(place) => place,
            Err(place) if self.dense.len() < TABLES => {
                self.dense.insert(place, (upper, Vec::new()));
                place
            }
            Err(_) => {
                self.sparse.insert(word, at);
                return;
            }
        };
        let table = &mut self.dense[table].1;
        if local >= table.len() * 4 + SLACK || self.sparse.contains_key(&word) {
            self.sparse.insert(word, at);
            return;
        }
        if local >= table.len() {
            table.resize(local + 1, ABSENT);
        }
        table[local] = at;
    }

    /// Where the task of an execution lies. The graph of a prebuilt program is recorded in the first round only, and
    /// executions of later rounds are of the same tasks.
    #[inline]
    pub fn of_execution(&self, word: u64) -> Option<usize> {
        let ringless = word & !(RINGLESS_EPOCHS << RINGLESS_EPOCH_BIT);
        self.get(word).or_else(|| self.get(TaskId::from_word(word).0.raw())).or_else(|| self.get(ringless))
    }

    /// Where a word lies.
    #[inline]
    pub fn get(&self, word: u64) -> Option<usize> {
        let upper = (word >> 32) as u32;
        let table = self.dense.binary_search_by_key(&upper, |(of, _)| *of);
        match table.ok().and_then(|place| self.dense[place].1.get(word as u32 as usize)) {
            Some(at) if *at != ABSENT => Some(*at as usize),
            _ if self.sparse.is_empty() => None,
            _ => self.sparse.get(&word).map(|at| *at as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_and_sparse_numbers_are_found_and_the_first_wins() {
        let words = [5, 1 << 32, 5, u64::from(u32::MAX), (1 << 40) | 5, 6];
        let index = TaskIndex::new(words.into_iter());
        assert_eq!(index.get(5), Some(0));
        let mut moved = index.clone();
        moved.replace(5, 9);
        moved.replace(u64::from(u32::MAX), 8);
        assert_eq!((moved.get(5), moved.get(u64::from(u32::MAX))), (Some(9), Some(8)));
        assert_eq!(index.get(1 << 32), Some(1));
        assert_eq!(index.get(u64::from(u32::MAX)), Some(3));
        assert_eq!(index.get((1 << 40) | 5), Some(4));
        assert_eq!((index.get(7), index.get(1 << 33), index.get(u64::MAX)), (None, None, None));
    }

    #[test]
    fn words_in_any_order_find_their_tables() {
        let words: Vec<u64> = (0..10_000).rev().chain((0..500).map(|local| (7 << 32) | (local * 1000))).collect();
        let mut index = TaskIndex::with_room_for(words.iter().copied());
        words.iter().zip(0..).for_each(|(word, at)| index.insert(*word, at));
        assert!(words.iter().zip(0..).all(|(word, at)| index.get(*word) == Some(at)));
        assert!(index.sparse.len() < 500, "only those of the sparse ring are outside of tables");
    }

    #[test]
    fn rings_and_rounds_beyond_the_tables_are_found_too() {
        let word = |round: u64| (TABLES as u64 + 8 - round) << 32 | 3;
        let index = TaskIndex::new((0..TABLES as u64 + 8).map(word));
        assert!((0..TABLES as u64 + 8).all(|round| index.get(word(round)) == Some(round as usize)));
        assert_eq!(index.get(word(0) + 1), None);
    }
}
