//! Packed records come back as they were, of any kind, number and content; bytes that are none are found out.

use plimsoll_abi::TaskId;
use plimsoll_abi::record::{AicoreTask, Kind};
use plimsoll_abi::segment::packing::{GROUP, Packed, is_stored, most_records, pack, room};
use proptest::prelude::*;

const COUNTS: [usize; 9] = [0, 1, 2, 63, 64, 65, 128, 129, 200];

fn packed(kind: Kind, records: &[u8]) -> Vec<u8> {
    let mut out = vec![0xaa; room(kind, records.len() / kind.record_bytes())];
    let bytes = pack(kind, records, &mut out);
    out.truncate(bytes);
    out
}

/// The records that are found, and the bytes they took.
fn unpacked(kind: Kind, count: usize, bytes: &[u8]) -> (Vec<u8>, usize) {
    let found = Packed::of(kind, count, bytes);
    assert!(found.records() <= count && found.packed_bytes() <= bytes.len());
    assert!(found.records() <= most_records(kind, bytes.len()));
    let mut out = vec![0; found.record_bytes()];
    found.unpack(&mut out);
    (out, found.packed_bytes())
}

/// Asserts that records come back, and of any part of their packed bytes the whole groups; gives the packed bytes.
fn assert_kept(kind: Kind, records: &[u8]) -> Vec<u8> {
    let (size, bytes) = (kind.record_bytes(), packed(kind, records));
    let count = records.len() / size;
    assert!(bytes.len() <= room(kind, count) && count <= most_records(kind, bytes.len()));
    assert_eq!(unpacked(kind, count, &bytes), (records.to_vec(), bytes.len()), "{kind:?} × {count}");
    for cut in 0..bytes.len() {
        let (there, taken) = unpacked(kind, count, &bytes[..cut]);
        let whole = there.len() / size;
        let groups = whole == 0 || is_stored(kind) || (whole - 1).is_multiple_of(GROUP);
        assert!(whole < count && groups, "{whole} of {count}, cut at {cut}");
        assert!(there == records[..there.len()] && taken <= cut);
    }
    bytes
}

/// A core's tasks, one after the other.
fn tasks(count: usize) -> Vec<u8> {
    let mut now = u64::from(u32::MAX) - 40_000;
    let task = |at: usize| {
        let start = now + at as u64 % 7;
        now += 2_000 + at as u64 % 300;
        AicoreTask {
            start,
            end: now,
            task: TaskId::new(1, at as u32).with_round(3),
            token: at as u32 + 1,
            receive_and_kernel: AicoreTask::pack(at as u64 % 5, 2),
        }
    };
    (0..count).map(task).flat_map(|task| bytemuck::bytes_of(&task).to_vec()).collect()
}

#[test]
fn the_layout_is_the_first_record_then_widths_and_columns() {
    let words = |[a, b, c, d, e, f]: [u32; 6]| [a, b, c, d, e, f, 7, 8].map(u32::to_le_bytes).concat();
    let records =
        [words([1, 2, 3, 4, u32::MAX, 6]), words([1, 3, 2, 0x0104, 0, 0x8000_0006]), words([1, 4, 1, 0x0204, 0, 6])];
    let expected = [
        records[0].clone(),
        vec![0, 1, 1, 2, 1, 4, 0, 0],
        vec![2, 2],
        vec![1, 1],
        vec![0, 2, 0, 2],
        vec![2, 0],
        [u32::MAX.to_le_bytes(), u32::MAX.to_le_bytes()].concat(),
    ];
    assert_eq!(packed(Kind::AicoreTask, &records.concat()), expected.concat());
}

#[test]
fn every_kind_and_number_of_records_comes_back() {
    for kind in Kind::ALL {
        for count in COUNTS {
            let bytes = count * kind.record_bytes();
            let even = assert_kept(kind, &vec![0; bytes]);
            let groups = kind.record_bytes() + count.div_ceil(GROUP) * kind.record_bytes() / 4;
            assert!(if is_stored(kind) { even.len() == bytes } else { even.len() <= groups });
            assert_kept(kind, &vec![0xff; bytes]);
            // From nothing to all ones and back, and half of all: the largest steps there are.
            let steps = (0..count).flat_map(|at| vec![[0, 0xff][at % 2]; kind.record_bytes()]);
            assert_kept(kind, &steps.collect::<Vec<u8>>());
            let halves = (0..bytes).map(|at| if at % 4 == 3 && at / kind.record_bytes() % 2 == 1 { 0x80 } else { 0 });
            let halves = assert_kept(kind, &halves.collect::<Vec<u8>>());
            let raw = count < 2 || is_stored(kind);
            assert_eq!(halves.len(), if raw { bytes } else { room(kind, count - 1) + kind.record_bytes() });
        }
    }
}

#[test]
fn tasks_take_less_than_a_third_of_their_size() {
    let records = tasks(2048);
    let bytes = assert_kept(Kind::AicoreTask, &records);
    assert!(bytes.len() * 3 < records.len(), "{} of {} bytes", bytes.len(), records.len());
}

#[test]
fn a_count_that_the_bytes_cannot_hold_is_bounded_by_them() {
    let (size, columns) = (Kind::AicoreTask.record_bytes(), Kind::AicoreTask.record_bytes() / 4);
    let widths_only = vec![0; size + 10 * columns];
    let found = Packed::of(Kind::AicoreTask, u32::MAX as usize, &widths_only);
    assert_eq!(found.records(), 1 + 10 * GROUP);
    assert_eq!(most_records(Kind::AicoreTask, widths_only.len()), 1 + 10 * GROUP);
    assert_eq!(most_records(Kind::AicoreTask, size - 1), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_records_come_back(
        kind in proptest::sample::select(&Kind::ALL[..]),
        bytes in prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => Just(0xff), 2 => any::<u8>()], 0..5000),
    ) {
        let whole = bytes.len() / kind.record_bytes() * kind.record_bytes();
        assert_kept(kind, &bytes[..whole]);
        prop_assert_eq!(packed(kind, &bytes), packed(kind, &bytes[..whole]), "what is no whole record is left out");
    }

    #[test]
    fn any_bytes_unpack_to_no_more_than_they_can_hold(
        kind in proptest::sample::select(&Kind::ALL[..]),
        bytes in prop::collection::vec(prop_oneof![3 => 0..6u8, 1 => any::<u8>()], 0..3000),
        count in prop_oneof![0..300usize, Just(u32::MAX as usize)],
    ) {
        unpacked(kind, count, &bytes);
    }

    #[test]
    fn bent_bytes_are_survived(flips in prop::collection::vec((any::<usize>(), any::<u8>()), 1..10)) {
        let mut bytes = packed(Kind::AicoreTask, &tasks(200));
        for (at, with) in flips {
            let at = at % bytes.len();
            bytes[at] ^= with;
        }
        unpacked(Kind::AicoreTask, 200, &bytes);
    }
}
