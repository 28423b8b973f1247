//! Columns of numbers as text: differences, as numbers of seven bits a byte, deflated, in base64.
//!
//! The other half is `crates/report/page/columns.js`.

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
    pub(super) name: &'static str,
    pub(super) part: ColumnPart,
    /// Whether it is of the run that the page's own is compared with.
    pub(super) before: bool,
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

/// The most bytes that the columns of a page may take. A small run's page stays below 250 KB with its scripts, one of a
/// million tasks below 20 MB, one of ten million below 150 MB.
pub(super) fn budget(executions: usize) -> usize {
    100_000 + 14 * executions
}

/// Deflates the columns, on as many threads as help, and leaves out what does not fit.
pub(super) fn pack(columns: Vec<Column>, budget: usize) -> PackedColumns {
    let texts: Vec<String> = {
        let next = std::sync::atomic::AtomicUsize::new(0);
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(columns.len().max(1));
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(column) = columns.get(at) else { return done };
                done.push((at, deflated(&column.bytes)));
            }
        };
        let mut done: Vec<(usize, String)> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut done = work();
            for other in others {
                match other.join() {
                    Ok(more) => done.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            done
        });
        done.sort_unstable_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, text)| text).collect()
    };
    let name = |column: &Column| format!("{}{}", if column.before { "before." } else { "" }, column.name);
    let mut blocks: Vec<(ColumnPart, String, String)> =
        columns.iter().zip(texts).map(|(column, text)| (column.part, name(column), text)).collect();
    let mut left_out = Vec::new();
    for part in [ColumnPart::Arguments, ColumnPart::Counters, ColumnPart::Scheduler, ColumnPart::Edges] {
        let size: usize = blocks.iter().map(|(_, _, text)| text.len()).sum();
        if size > budget && blocks.iter().any(|(of, ..)| *of == part) {
            blocks.retain(|(of, ..)| *of != part);
            left_out.push(part);
        }
    }
    PackedColumns { blocks: blocks.into_iter().map(|(_, name, text)| (name, text)).collect(), left_out }
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
        let columns =
            || vec![column("e", ColumnPart::Edges), column("t", ColumnPart::Tasks), column("c", ColumnPart::Counters)];
        let names = |packed: &PackedColumns| packed.blocks.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&pack(columns(), 1_000_000)), ["e", "t", "c"]);
        let one = pack(vec![column("t", ColumnPart::Tasks)], 0).blocks[0].1.len();
        let tight = pack(columns(), 2 * one);
        assert_eq!(
            (names(&tight), tight.left_out),
            (vec!["e".to_string(), "t".to_string()], vec![ColumnPart::Counters])
        );
        let tighter = pack(columns(), 10);
        assert_eq!(
            (names(&tighter), tighter.left_out),
            (vec!["t".to_string()], vec![ColumnPart::Counters, ColumnPart::Edges])
        );
    }
}
