//! Captured arguments out of records, some of which are missing: what is short is said to be, and counted.

use plimsoll_abi::TaskId;
use plimsoll_abi::record::{ArgDumpHead, ArgDumpRecord, ArgMode};
use plimsoll_trace::synthetic::SegmentBytes;
use plimsoll_trace::{ArgsDump, Manifest, export_args};
use std::path::Path;

/// The lines of an argument of 100 floats, by which it is the `serial`th of its agent.
fn lines(serial: u32) -> Vec<ArgDumpRecord> {
    let mut head = ArgDumpHead {
        task: TaskId::new(1, serial).with_round(0),
        bytes: 400,
        elem_bytes: 4,
        mode: ArgMode::Input as u8,
        dtype: plimsoll_abi::Dtype::F32 as u8,
        ndim: 1,
        blocks: 1,
        ..ArgDumpHead::default()
    };
    (head.shape[0], head.strides[0]) = (100, 1);
    let bytes: Vec<u8> = (0..100).flat_map(|at| (at as f32 + serial as f32).to_le_bytes()).collect();
    let (mut out, mut rest) = (Vec::new(), bytes.as_slice());
    while !rest.is_empty() {
        let line = out.len() as u32;
        let mut record = if line == 0 { ArgDumpRecord::opening(&head) } else { ArgDumpRecord::default() };
        (record.serial, record.line) = (serial, line);
        let room = record.room_mut();
        let here = room.len().min(rest.len());
        room[..here].copy_from_slice(&rest[..here]);
        rest = &rest[here..];
        out.push(record);
    }
    out
}

fn dump(dir: &Path, records: &[ArgDumpRecord]) -> ArgsDump {
    let mut segment = SegmentBytes::default();
    segment.pool(0, records, 3);
    std::fs::create_dir_all(dir.join("records")).expect("made");
    std::fs::write(dir.join("records/records.seg"), segment.bytes()).expect("written");
    Manifest::new("dump").write(dir).expect("written");
    export_args(dir, 2).expect("exported");
    ArgsDump::open(dir).expect("read")
}

#[test]
fn an_argument_is_put_together_of_its_lines() {
    let dir = tempfile::tempdir().expect("dir");
    let records: Vec<ArgDumpRecord> = (1..=3).flat_map(lines).collect();
    let dump = dump(dir.path(), &records);
    assert_eq!((dump.args.len(), dump.dropped), (3, 0));
    for (arg, serial) in dump.args.iter().zip(1..) {
        let bytes = dump.bytes(arg).expect("read").expect("there");
        let numbers: Vec<f64> = arg.form().expect("known").numbers(&bytes).collect();
        let expected: Vec<f64> = (0..100).map(|at| f64::from(at) + f64::from(serial)).collect();
        assert_eq!((arg.task, numbers), (TaskId::new(1, serial), expected));
    }
}

/// Whatever lines are missing, each argument is whole, or said to be lost; and the lost ones are counted.
#[test]
fn lines_that_are_missing_make_an_argument_lost() {
    let all: Vec<ArgDumpRecord> = (1..=4).flat_map(lines).collect();
    for first in 0..all.len() {
        for last in first + 1..=all.len() {
            let mut left = all.clone();
            let gone: Vec<ArgDumpRecord> = left.drain(first..last).collect();
            let dir = tempfile::tempdir().expect("dir");
            let dump = dump(dir.path(), &left);
            let mut lost: Vec<u32> = gone.iter().map(|record| record.serial).collect();
            lost.dedup();
            for arg in &dump.args {
                let is_lost = lost.contains(&arg.task.local());
                assert_eq!(arg.overwritten, is_lost, "{first}..{last}");
                assert_eq!(dump.has_elements(arg), !is_lost, "{first}..{last}");
            }
            // Of what follows the last line nothing is known but the ledger's count of lines, of which this one has none.
            let after = all.len() == last;
            let trailing = lost.iter().filter(|serial| after && !left.iter().any(|record| record.serial == **serial));
            assert_eq!(dump.dropped, (lost.len() - trailing.count()) as u64, "{first}..{last}");
        }
    }
}

#[test]
fn counts_that_the_list_does_not_bear_out_are_told() {
    let notes = |counts: &str| {
        let dir = tempfile::tempdir().expect("dir");
        let text = format!(
            r#"{{"dump_args_level": 2, {counts} "args": [{{"task_id": "0x0", "role": "input", "stage": "before_dispatch",
                "arg_index": 0, "kind": "scalar", "dtype": "INT32", "value": 7}}]}}"#
        );
        std::fs::write(dir.path().join(ArgsDump::FILE), text).expect("written");
        ArgsDump::open(dir.path()).expect("readable").notes
    };
    assert_eq!(notes(r#""total_args": 1, "before_dispatch": 1, "after_completion": 0,"#), [""; 0]);
    assert_eq!(notes(""), [""; 0], "not every file has counts");
    let told = notes(r#""total_args": 18, "before_dispatch": 1, "after_completion": 5,"#);
    assert_eq!(
        told,
        [
            "total_args is 18 by the file's own count, and 1 are listed.",
            "after_completion is 5 by the file's own count, and 0 are listed."
        ]
    );
}

/// Nobody writes into it: who opened it would wait for ever.
#[test]
fn a_pipe_in_place_of_the_elements_is_a_note() {
    let dir = tempfile::tempdir().expect("dir");
    drop(dump(dir.path(), &lines(1)));
    let elements = dir.path().join(ArgsDump::DIR).join(ArgsDump::ELEMENTS);
    std::fs::remove_file(&elements).expect("removed");
    assert!(std::process::Command::new("mkfifo").arg(&elements).status().expect("mkfifo").success());
    let dump = ArgsDump::open(dir.path()).expect("read");
    assert!(!dump.has_elements(&dump.args[0]));
    assert!(dump.notes.iter().any(|note| note.contains("not a plain file")), "{:?}", dump.notes);
}
