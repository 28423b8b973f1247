//! Columns of numbers as text: differences, as numbers of seven bits a byte, deflated, in base64.
//!
//! The other half is `crates/report/page/columns.js`.

use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Mutex, PoisonError};

use miniz_oxide::deflate::compress_to_vec;

/// What a column belongs to. When a page would be too large, parts are left out in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum ColumnPart {
    /// What tasks were given.
    Arguments,
    /// What rings held.
    Counters,
    /// What schedulers and orchestrators did.
    Scheduler,
    /// Dependencies; those along the critical path are with the tasks.
    Edges,
    /// Tasks: never left out.
    Tasks,
}

impl ColumnPart {
    /// As the page and the command name it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            ColumnPart::Arguments => "arguments",
            ColumnPart::Counters => "counters",
            ColumnPart::Scheduler => "scheduler records",
            ColumnPart::Edges => "edges off the critical path",
            ColumnPart::Tasks => "tasks",
        }
    }
}

/// One column, before it is deflated.
#[derive(Clone, Debug)]
pub(super) struct Column {
    name: &'static str,
    part: ColumnPart,
    /// Whether it belongs to the run before, with which the page's run is compared.
    before: bool,
    bytes: Vec<u8>,
    last: i64,
}

impl Column {
    pub(super) fn new(name: &'static str, part: ColumnPart) -> Self {
        Self { name, part, before: false, bytes: Vec::new(), last: 0 }
    }

    /// Adds a number as it is.
    #[inline]
    pub(super) fn put(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Adds bytes as they are.
    pub(super) fn put_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a number that may be negative; small ones of either sign stay short.
    #[inline]
    pub(super) fn put_signed(&mut self, value: i64) {
        self.put(((value << 1) ^ (value >> 63)) as u64);
    }

    /// Adds a number as its difference from the one before.
    #[inline]
    pub(super) fn put_delta(&mut self, value: u64) {
        self.put_signed((value as i64).wrapping_sub(self.last));
        self.last = value as i64;
    }
}

/// Columns as they stand in the page.
pub(super) struct PackedColumns {
    pub(super) blocks: Vec<(String, String)>,
    pub(super) left_out: Vec<ColumnPart>,
}

/// The most bytes that the columns of a page may take. With its scripts and tables the page of 64 tasks stays below 250 KB,
/// one of a million below 20 MB, one of ten million below 150 MB. Between those marks a page may hold all that a browser
/// opens at once, which 6 MB are.
pub(super) fn budget(executions: usize) -> usize {
    (30_000 + 500 * executions).min(6_000_000 + 12 * executions)
}

/// Takes columns as they are done. Other threads pack them while the next are made, so that few are ever there unpacked.
pub(super) struct Packing {
    /// Whether the next columns belong to the run before, with which the page's run is compared.
    pub(super) before: bool,
    to_others: SyncSender<(usize, Column)>,
    own: Vec<(usize, PackedColumn)>,
    count: usize,
}

struct PackedColumn {
    part: ColumnPart,
    name: String,
    text: String,
}

impl Packing {
    /// Takes a column that is done.
    pub(super) fn push(&mut self, mut column: Column) {
        column.before = self.before;
        let at = self.count;
        self.count += 1;
        // Where all others are busy this thread packs the column itself: waiting would keep it no shorter.
        if let Err(TrySendError::Full((at, column)) | TrySendError::Disconnected((at, column))) =
            self.to_others.try_send((at, column))
        {
            self.own.push((at, column.packed()));
        }
    }

    /// Takes columns that are done.
    pub(super) fn extend(&mut self, columns: impl IntoIterator<Item = Column>) {
        columns.into_iter().for_each(|column| self.push(column));
    }
}

impl Column {
    fn packed(self) -> PackedColumn {
        let name = format!("{}{}", if self.before { "before." } else { "" }, self.name);
        PackedColumn { part: self.part, name, text: deflated(&self.bytes) }
    }
}

/// Packs the columns that `make` makes, and leaves out what exceeds the budget.
pub(super) fn pack<T>(budget: usize, make: impl FnOnce(&mut Packing) -> T) -> (T, PackedColumns) {
    let (to_others, columns) = std::sync::mpsc::sync_channel(0);
    let columns = Mutex::new(columns);
    let next = || columns.lock().unwrap_or_else(PoisonError::into_inner).recv();
    let work = || {
        let mut done = Vec::new();
        while let Ok((at, column)) = next() {
            let column: Column = column;
            done.push((at, column.packed()));
        }
        done
    };
    let (made, mut done) = std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut packing = Packing { before: false, to_others, own: Vec::new(), count: 0 };
        let made = make(&mut packing);
        let mut done = packing.own;
        // The others end when nothing more can come.
        drop(packing.to_others);
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        (made, done)
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    (made, within(budget, done.into_iter().map(|(_, column)| column).collect()))
}

/// Leaves parts out until the rest is within the budget.
fn within(budget: usize, mut columns: Vec<PackedColumn>) -> PackedColumns {
    let mut left_out = Vec::new();
    for part in [ColumnPart::Arguments, ColumnPart::Counters, ColumnPart::Scheduler, ColumnPart::Edges] {
        let size: usize = columns.iter().map(|column| column.text.len()).sum();
        if size > budget && columns.iter().any(|column| column.part == part) {
            columns.retain(|column| column.part != part);
            left_out.push(part);
        }
    }
    PackedColumns { blocks: columns.into_iter().map(|column| (column.name, column.text)).collect(), left_out }
}

/// Level 6 takes half of what level 1 leaves, in twice its time: a page is written once and kept.
fn deflated(bytes: &[u8]) -> String {
    base64(&compress_to_vec(bytes, 6))
}

/// Bytes as text of the base64 alphabet, with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, text) in pairs {
            assert_eq!(base64(plain.as_bytes()), text);
        }
    }

    #[test]
    fn numbers_take_few_bytes_and_both_signs() {
        let mut column = Column::new("x", ColumnPart::Tasks);
        column.put(300);
        column.put_signed(-1);
        column.put_delta(1000);
        column.put_delta(999);
        assert_eq!(column.bytes, [0xac, 2, 1, 0xd0, 0x0f, 1]);
    }

    #[test]
    fn parts_are_left_out_in_order_until_the_rest_fits() {
        let column = |name, part| {
            let mut column = Column::new(name, part);
            (0..750).for_each(|i: u64| column.put(i * i % 127));
            column
        };
        let packed = |budget| {
            pack(budget, |packing| {
                packing.push(column("e", ColumnPart::Edges));
                packing.extend([column("t", ColumnPart::Tasks), column("c", ColumnPart::Counters)]);
            })
            .1
        };
        let names = |packed: &PackedColumns| packed.blocks.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let all = packed(1_000_000);
        assert_eq!(names(&all), ["e", "t", "c"]);
        let tight = packed(2 * all.blocks[1].1.len());
        assert_eq!(
            (names(&tight), tight.left_out),
            (vec!["e".to_string(), "t".to_string()], vec![ColumnPart::Counters])
        );
        let tighter = packed(10);
        assert_eq!(
            (names(&tighter), tighter.left_out),
            (vec!["t".to_string()], vec![ColumnPart::Counters, ColumnPart::Edges])
        );
    }
}
