//! How the records of a frame are packed: as what changes from each record to the next.
//!
//! Records of one pool resemble their neighbours: times move on a little, tokens count, upper halves stay. A record is
//! seen as *columns* of four bytes. A payload is the first record as it is, and then *groups* of up to [`GROUP`] records;
//! only the last group has fewer. A group is
//!
//! - one byte per column: its *width* in bytes, 0 to 4;
//! - column by column, for each record its difference to the record before, zigzagged (0, −1, 1, −2 … become 0, 1, 2,
//!   3 …) and cut to the column's width.
//!
//! The width is what the widest difference of the group takes, so records that do not resemble each other take their own
//! size and the widths. Differences wrap, so every value can be told.
//!
//! Packing runs in the collector, for every record that is drained, so it passes over the bytes twice and no more: row by
//! row for the differences, which is arithmetic on whole vectors, then column by column for the stores. A group is as
//! long as keeps the loops busy, and as short as keeps one large difference from widening many.
//!
//! Records that are mostly elements of tensors do not resemble each other, and come in bulk: a kind that [`is_stored`] has its
//! records as they are, so that the collector writes them from where they lie.
//!
//! Unpacking trusts nothing: [`Packed::of`] finds how much of a payload makes sense before room is made for it.

use crate::record::Kind;

/// Records of a whole group.
pub const GROUP: usize = 64;

/// Whether records of this kind are stored as they are.
pub const fn is_stored(kind: Kind) -> bool {
    matches!(kind, Kind::ArgDump)
}

/// Packing and unpacking of a kind's records, for which the compiler knows the number of columns.
macro_rules! by_columns {
    ($($(#[$cfg:meta])* $kind:ident = $n:literal, $r:ident, $name:ident, $f:ident, $w:ident $(($s:ident))?, $d:literal;)*) => {
        /// Packs the whole records that `records` has into `out`, which has [`room`] for them; gives the bytes they take
        /// there.
        pub fn pack(kind: Kind, records: &[u8], out: &mut [u8]) -> usize {
            if is_stored(kind) {
                let whole = records.len() / kind.record_bytes() * kind.record_bytes();
                out[..whole].copy_from_slice(&records[..whole]);
                return whole;
            }
            match kind { $($(#[$cfg])* Kind::$kind => pack_columns::<{ columns(Kind::$kind) }>(records, out),)* }
        }

        fn unpack(kind: Kind, bytes: &[u8], out: &mut [u8]) {
            if is_stored(kind) {
                return out.copy_from_slice(bytes);
            }
            match kind { $($(#[$cfg])* Kind::$kind => unpack_columns::<{ columns(Kind::$kind) }>(bytes, out),)* }
        }
    };
}
crate::for_each_kind!(by_columns);

/// Columns of a kind's records.
const fn columns(kind: Kind) -> usize {
    assert!(kind.record_bytes().is_multiple_of(4), "a record is whole columns");
    kind.record_bytes() / 4
}

/// The most bytes that so many records of a kind can take.
pub const fn room(kind: Kind, records: usize) -> usize {
    let widths = if is_stored(kind) { 0 } else { records.div_ceil(GROUP) * columns(kind) };
    records * kind.record_bytes() + widths
}

/// The most records that a payload of so many bytes can hold.
pub const fn most_records(kind: Kind, bytes: usize) -> usize {
    if is_stored(kind) {
        return bytes / kind.record_bytes();
    }
    match bytes.checked_sub(kind.record_bytes()) {
        Some(groups) => 1 + (groups / columns(kind)).saturating_mul(GROUP),
        None => 0,
    }
}

fn pack_columns<const N: usize>(records: &[u8], out: &mut [u8]) -> usize {
    let whole = records.len() / (4 * N) * (4 * N);
    let Some((first, rest)) = records[..whole].split_at_checked(4 * N) else { return 0 };
    out[..4 * N].copy_from_slice(first);
    let mut at = 4 * N;
    let mut before = row::<N>(first);
    let mut differences = [[0; N]; GROUP];
    for group in rest.chunks(4 * N * GROUP) {
        // The bits that any difference of a column has.
        let mut any = [0; N];
        for (record, differences) in group.chunks_exact(4 * N).zip(&mut differences) {
            let now = row::<N>(record);
            for column in 0..N {
                let difference = zigzag(now[column].wrapping_sub(before[column]));
                differences[column] = difference;
                any[column] |= difference;
            }
            before = now;
        }
        let out = &mut out[at..];
        at += match group.len() / (4 * N) {
            // A length that the compiler knows makes loops without remainders.
            GROUP => put_group(&differences, &any, out),
            count => put_group(&differences[..count], &any, out),
        };
    }
    at
}

#[inline]
fn put_group<const N: usize>(differences: &[[u32; N]], any: &[u32; N], out: &mut [u8]) -> usize {
    let (widths, mut rest) = out.split_at_mut(N);
    let mut length = N;
    for column in 0..N {
        let width = (u32::BITS - any[column].leading_zeros()).div_ceil(8) as usize;
        widths[column] = width as u8;
        let (cells, after) = rest.split_at_mut(width * differences.len());
        match width {
            0 => {}
            1 => put_column::<N, 1>(differences, column, cells),
            2 => put_column::<N, 2>(differences, column, cells),
            3 => put_column::<N, 3>(differences, column, cells),
            _ => put_column::<N, 4>(differences, column, cells),
        }
        length += cells.len();
        rest = after;
    }
    length
}

#[inline]
fn put_column<const N: usize, const WIDTH: usize>(differences: &[[u32; N]], column: usize, cells: &mut [u8]) {
    for (cell, differences) in cells.as_chunks_mut::<WIDTH>().0.iter_mut().zip(differences) {
        let bytes = differences[column].to_le_bytes();
        *cell = core::array::from_fn(|at| bytes[at]);
    }
}

/// A payload as far as it makes sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packed<'a> {
    kind: Kind,
    records: usize,
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    /// Finds what `bytes` holds of `count` records: all of them, or the first record and the groups before the one that
    /// is cut off or is none.
    pub fn of(kind: Kind, count: usize, bytes: &'a [u8]) -> Self {
        if is_stored(kind) {
            let records = count.min(bytes.len() / kind.record_bytes());
            return Self { kind, records, bytes: &bytes[..records * kind.record_bytes()] };
        }
        let (columns, mut records, mut length) = (columns(kind), 0, 0);
        if count > 0 && bytes.len() >= kind.record_bytes() {
            (records, length) = (1, kind.record_bytes());
        }
        while 0 < records && records < count {
            let group = GROUP.min(count - records);
            let Some(widths) = bytes[length..].get(..columns).filter(|widths| widths.iter().all(|&width| width <= 4))
            else {
                break;
            };
            let cells = widths.iter().map(|&width| usize::from(width)).sum::<usize>() * group;
            if bytes.len() - length < columns + cells {
                break;
            }
            (records, length) = (records + group, length + columns + cells);
        }
        Self { kind, records, bytes: &bytes[..length] }
    }

    /// Packed records, if `bytes` holds all of `count` of them and nothing else.
    pub fn exactly(kind: Kind, count: usize, bytes: &'a [u8]) -> Option<Self> {
        let packed = Self::of(kind, count, bytes);
        (packed.records == count && packed.bytes.len() == bytes.len()).then_some(packed)
    }

    /// Records that are there.
    pub const fn records(&self) -> usize {
        self.records
    }

    /// Bytes that they take, packed.
    pub const fn packed_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that they take, unpacked.
    pub const fn record_bytes(&self) -> usize {
        self.records * self.kind.record_bytes()
    }

    /// Unpacks into `out`, which is [`Self::record_bytes`] long.
    ///
    /// # Panics
    /// If `out` has another length.
    pub fn unpack(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.record_bytes(), "room for the records and no more");
        unpack(self.kind, self.bytes, out);
    }
}

fn unpack_columns<const N: usize>(bytes: &[u8], out: &mut [u8]) {
    let Some((first, rest)) = out.split_at_mut_checked(4 * N) else { return };
    let (packed_first, mut bytes) = bytes.split_at(4 * N);
    first.copy_from_slice(packed_first);
    let mut before = row::<N>(first);
    let mut differences = [[0; N]; GROUP];
    for group in rest.chunks_mut(4 * N * GROUP) {
        let differences = &mut differences[..group.len() / (4 * N)];
        bytes = take_group(bytes, differences);
        for (record, differences) in group.chunks_exact_mut(4 * N).zip(differences) {
            for (column, cell) in record.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                before[column] = before[column].wrapping_add(unzigzag(differences[column]));
                *cell = before[column].to_le_bytes();
            }
        }
    }
}

/// Reads a group's differences; gives what follows.
fn take_group<'a, const N: usize>(bytes: &'a [u8], differences: &mut [[u32; N]]) -> &'a [u8] {
    let (widths, mut bytes) = bytes.split_at(N);
    for (column, &width) in widths.iter().enumerate() {
        let (cells, after) = bytes.split_at(usize::from(width) * differences.len());
        match width {
            0 => differences.iter_mut().for_each(|differences| differences[column] = 0),
            1 => take_column::<N, 1>(cells, column, differences),
            2 => take_column::<N, 2>(cells, column, differences),
            3 => take_column::<N, 3>(cells, column, differences),
            _ => take_column::<N, 4>(cells, column, differences),
        }
        bytes = after;
    }
    bytes
}

fn take_column<const N: usize, const WIDTH: usize>(cells: &[u8], column: usize, differences: &mut [[u32; N]]) {
    for (cell, differences) in cells.as_chunks::<WIDTH>().0.iter().zip(differences) {
        let mut bytes = [0; 4];
        bytes[..WIDTH].copy_from_slice(cell);
        differences[column] = u32::from_le_bytes(bytes);
    }
}

/// The columns of a record.
#[inline]
fn row<const N: usize>(record: &[u8]) -> [u32; N] {
    let cells = record.as_chunks::<4>().0;
    core::array::from_fn(|column| u32::from_le_bytes(cells[column]))
}

/// Small differences of either sign as small numbers.
#[inline]
const fn zigzag(difference: u32) -> u32 {
    difference << 1 ^ (difference.cast_signed() >> 31).cast_unsigned()
}

#[inline]
const fn unzigzag(number: u32) -> u32 {
    number >> 1 ^ (number & 1).wrapping_neg()
}
