//! An account that keeps no record finds what reading the whole run finds.

use std::path::Path;

use plimsoll_abi::record::{AicoreTask, AicpuTask, SubmitRecord};
use plimsoll_abi::segment::Origin;
use plimsoll_trace::synthetic::{SegmentBytes, Synthetic};
use plimsoll_trace::{Audit, FindingKind, audit, open};

/// What both ways of reading look for.
const SHARED: [FindingKind; 13] = [
    FindingKind::CutOff,
    FindingKind::NotAFrame,
    FindingKind::BadChecksum,
    FindingKind::NotASegment,
    FindingKind::DuplicateFrame,
    FindingKind::SequenceGap,
    FindingKind::DispatchWithoutExecution,
    FindingKind::ExecutionWithoutDispatch,
    FindingKind::DuplicateToken,
    FindingKind::EndBeforeStart,
    FindingKind::MissingRings,
    FindingKind::CutSubmit,
    FindingKind::StillRunning,
];

fn agree(dir: &Path, what: &str) -> Audit {
    let whole = open(dir).expect("readable");
    let mut told = Vec::new();
    let streamed = audit(dir, &mut |read, all| told.push((read, all))).expect("readable");
    for kind in SHARED {
        assert_eq!(streamed.quality.count(kind), whole.quality.count(kind), "{what}: {kind:?}");
    }
    // Of damaged submits it tells fewer, because it knows no buffers; of damage at all it always tells.
    assert!(whole.quality.is_sound() || !streamed.quality.is_sound(), "{what}");
    let sorted = |mut pools: Vec<plimsoll_trace::PoolCount>| {
        pools.sort_by_key(|pool| (pool.kind, pool.instance));
        pools
    };
    assert_eq!(sorted(streamed.pools.clone()), sorted(whole.pools), "{what}");
    assert!(told.is_sorted() && told.last().is_none_or(|(read, all)| read <= all), "{what}: progress only grows");
    streamed
}

fn write(dir: &Path, segment: &SegmentBytes) {
    std::fs::write(dir.join("records/records.seg"), segment.bytes()).expect("written");
}

#[test]
fn a_whole_run_and_one_cut_at_any_byte_are_accounted_for_alike() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = Synthetic { tasks: 60, per_frame: 8, ..Synthetic::default() };
    run.write(dir.path()).expect("written");
    let account = agree(dir.path(), "whole");
    assert!(account.quality.is_sound() && account.scope_depths > 1, "{:?}", account.quality);
    let bytes = run.segment().bytes().to_vec();
    for cut in (0..bytes.len()).step_by(97) {
        std::fs::write(dir.path().join("records/records.seg"), &bytes[..cut]).expect("written");
        agree(dir.path(), &format!("cut at {cut}"));
    }
    for at in (0..bytes.len()).step_by(211) {
        let mut bent = bytes.clone();
        bent[at] ^= 0x40;
        std::fs::write(dir.path().join("records/records.seg"), &bent).expect("written");
        agree(dir.path(), &format!("bent at {at}"));
    }
}

#[test]
fn the_two_views_of_a_core_are_held_against_each_other_in_any_order() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    Synthetic { tasks: 8, ..Synthetic::default() }.write(dir.path()).expect("written");
    let ran = |token: u32| AicoreTask { start: 10, end: 20, task: token.into(), token, receive_and_kernel: 0 };
    let sent = |token: u32| AicpuTask { dispatch: 5, finish: 25, task: token.into(), token, ..AicpuTask::default() };
    let orders: [(&str, Vec<u32>, Vec<u32>, [u64; 2]); 5] = [
        ("the same order", (1..=40).collect(), (1..=40).collect(), [0, 0]),
        ("the reverse", (1..=40).collect(), (1..=40).rev().collect(), [0, 0]),
        (
            "one missing in each",
            (1..=40).filter(|t| *t != 7).collect(),
            (1..=40).filter(|t| *t != 33).collect(),
            [1, 1],
        ),
        ("no dispatch of this core", (1..=40).collect(), Vec::new(), [0, 40]),
        ("no execution", Vec::new(), (1..=40).collect(), [40, 0]),
    ];
    for (what, tokens, dispatched, [without_execution, without_dispatch]) in orders {
        let mut segment = SegmentBytes::default();
        segment.pool(0, &tokens.iter().map(|t| ran(*t)).collect::<Vec<_>>(), 7);
        segment.pool(0, &dispatched.iter().map(|t| sent(*t)).collect::<Vec<_>>(), 5);
        // Another core with both, so that there are dispatches at all.
        segment.frame(1, 0, Origin::Collected, &[ran(1)]);
        segment.frame(1, 0, Origin::Collected, &[sent(1)]);
        write(dir.path(), &segment);
        let account = agree(dir.path(), what);
        let count = |kind| account.quality.count(kind);
        assert_eq!(count(FindingKind::DispatchWithoutExecution), without_execution, "{what}");
        assert_eq!(count(FindingKind::ExecutionWithoutDispatch), without_dispatch, "{what}");
    }
}

#[test]
fn a_submit_that_the_capture_ends_in_is_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    Synthetic { tasks: 8, ..Synthetic::default() }.write(dir.path()).expect("written");
    let mut segment = SegmentBytes::default();
    let task = SubmitRecord { tag: 1, id: 5, shape: [1, 0, 0, 1, 2], ..SubmitRecord::default() };
    segment.frame(0, 0, Origin::Collected, &[task, SubmitRecord { tag: 9, ..SubmitRecord::default() }]);
    write(dir.path(), &segment);
    let account = agree(dir.path(), "a cut submit");
    assert_eq!(account.quality.count(FindingKind::CutSubmit), 1);
    assert_eq!(account.quality.count(FindingKind::BadRecord), 1);
}
