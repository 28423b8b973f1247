//! Segment files that are cut, bent, doubled or no segments at all: what is there is read, the rest is counted.

use std::fs;
use std::path::Path;

use plimsoll_abi::record::{
    AicoreTask, Kind, Moment, ScopeBase, ScopeMark, ScopeMoment, ScopeRecord, ScopeTag, ScopeUsed,
};
use plimsoll_abi::segment::Origin;
use plimsoll_abi::{Heads, RingUse, TaskId};
use plimsoll_trace::synthetic::{SegmentBytes, Synthetic};
use plimsoll_trace::{FindingKind, Manifest, Trace, open};
use proptest::prelude::*;

fn read(segments: &[&[u8]]) -> Trace {
    let dir = tempfile::tempdir().expect("temporary directory");
    write(dir.path(), segments);
    open(dir.path()).expect("a directory with a manifest is readable")
}

fn write(dir: &Path, segments: &[&[u8]]) {
    fs::create_dir_all(dir.join("records")).expect("directory");
    Manifest::new("x").write(dir).expect("manifest");
    for (at, bytes) in segments.iter().enumerate() {
        fs::write(dir.join(format!("records/{at}.seg")), bytes).expect("segment");
    }
}

fn task(core: u16, token: u32) -> AicoreTask {
    let start = u64::from(token) * 100 + u64::from(core);
    let word = TaskId::new(0, token).with_round(0);
    AicoreTask { start, end: start + 50, task: word, token, receive_and_kernel: AicoreTask::pack(3, 1) }
}

fn tasks(core: u16, tokens: std::ops::Range<u32>) -> Vec<AicoreTask> {
    tokens.map(|token| task(core, token)).collect()
}

#[test]
fn everything_is_read_from_whole_files() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Synthetic::default().write(dir.path()).expect("written");
    let trace = open(dir.path()).expect("readable");
    assert!(trace.quality.findings().is_empty(), "{:?}", trace.quality);
    assert_eq!(trace.executions.len(), 100);
    assert!((0..100).all(|at| trace.executions.lifecycle(at).is_some()));
    assert_eq!(trace.sched_phases.len(), 300);
    assert_eq!(trace.orch_phases.len(), 100);
    assert_eq!(trace.scopes.samples.len(), 28);
    let deps = trace.deps.expect("submits were recorded");
    assert_eq!((deps.tasks.len(), deps.args.len(), deps.tensors.len()), (100, 200, 5));
    assert_eq!(deps.edges.len(), 97, "on each of three cores all but the first wait for the one before");
    let ledger = trace.manifest.and_then(|m| m.reconcile).expect("a ledger");
    for pool in &ledger.pools {
        let read = trace.pools.iter().find(|p| p.kind.name() == pool.kind && p.instance == pool.instance);
        assert_eq!(read.map(|p| p.collected), Some(pool.collected), "{pool:?}");
    }
}

/// Bytes of a frame of `tasks` after its header: the first record, then groups of 64, each the widths of eight columns and
/// a byte for each of the four that change.
fn packed(count: usize) -> usize {
    let rest = count - 1;
    32 + rest.div_ceil(64) * 8 + rest * 4
}

#[test]
fn a_file_cut_at_any_byte_gives_the_whole_groups_before_the_cut() {
    let mut segment = SegmentBytes::default();
    segment.frame(0, 0, Origin::Collected, &tasks(0, 1..131));
    segment.frame(1, 0, Origin::Collected, &tasks(1, 1..3));
    segment.frame(0, 1, Origin::Recovered, &tasks(0, 131..133));
    let bytes = segment.bytes();
    let starts = [16, 16 + 32 + packed(130), 16 + 32 + packed(130) + 32 + packed(2)];
    assert_eq!(bytes.len(), starts[2] + 32 + packed(2));
    for cut in 0..=bytes.len() {
        let trace = read(&[&bytes[..cut]]);
        let records = |start: usize, groups: &[usize]| {
            groups.iter().rfind(|&&count| cut >= start + 32 + packed(count)).copied().unwrap_or(0)
        };
        let expected =
            records(starts[0], &[1, 65, 129, 130]) + records(starts[1], &[1, 2]) + records(starts[2], &[1, 2]);
        assert_eq!(trace.executions.len(), expected, "cut at {cut}");
        let at_a_seam = starts.contains(&cut) || cut == bytes.len();
        assert_eq!(trace.quality.count(FindingKind::CutOff) == 0, at_a_seam, "cut at {cut}: {:?}", trace.quality);
        let counted: u64 = trace.pools.iter().map(|p| p.collected + p.recovered).sum();
        assert_eq!(counted, expected as u64);
    }
}

#[test]
fn a_buffer_that_was_drained_and_recovered_is_used_once_and_the_better_copy() {
    let mut drained = SegmentBytes::default();
    drained.frame(0, 0, Origin::Collected, &tasks(0, 1..4));
    drained.frame(0, 1, Origin::Collected, &tasks(0, 4..8));
    let cut = &drained.bytes()[..drained.bytes().len() - 40];
    let mut recovered = SegmentBytes::default();
    recovered.frame(0, 1, Origin::Recovered, &tasks(0, 4..8));
    recovered.frame(0, 0, Origin::Recovered, &tasks(0, 1..4));
    let trace = read(&[cut, recovered.bytes()]);
    assert_eq!(trace.executions.len(), 7);
    assert_eq!(trace.quality.count(FindingKind::DuplicateFrame), 2);
    assert_eq!(trace.quality.count(FindingKind::DuplicateToken), 0);
    let pool = trace.pools.iter().find(|p| p.kind == Kind::AicoreTask).expect("the pool");
    assert_eq!((pool.collected, pool.recovered), (3, 4));
}

#[test]
fn wrong_sums_gaps_and_strangers_are_counted_and_the_rest_is_read() {
    let mut segment = SegmentBytes::default();
    segment.frame(0, 0, Origin::Collected, &tasks(0, 1..4));
    segment.frame(0, 1, Origin::Collected, &tasks(0, 4..6));
    segment.frame(0, 4, Origin::Collected, &tasks(0, 6..8));
    let mut bytes = segment.bytes().to_vec();
    bytes[16 + 32 + 5] ^= 1;
    let seam = 16 + 32 + packed(3);
    bytes.splice(seam..seam, *b"noise");
    let trace = read(&[&bytes, b"not a segment at all", b"PLIM"]);
    assert_eq!(trace.executions.len(), 4);
    for (kind, count) in [
        (FindingKind::BadChecksum, 1),
        (FindingKind::NotAFrame, 1),
        (FindingKind::SequenceGap, 2),
        (FindingKind::NotASegment, 1),
        (FindingKind::CutOff, 1),
    ] {
        assert_eq!(trace.quality.count(kind), count, "{kind:?}: {:?}", trace.quality);
    }
    assert!(!trace.quality.is_sound());
}

#[test]
fn a_length_beyond_the_file_does_not_hide_the_frames_after_it() {
    let mut segment = SegmentBytes::default();
    segment.frame(0, 0, Origin::Collected, &tasks(0, 1..4));
    segment.frame(0, 1, Origin::Collected, &tasks(0, 4..6));
    // Too many records for the bytes; more bytes than there are.
    for field in [16 + 16..16 + 20, 16 + 20..16 + 24] {
        let mut bytes = segment.bytes().to_vec();
        bytes[field].copy_from_slice(&u32::MAX.to_le_bytes());
        let trace = read(&[&bytes]);
        assert_eq!(trace.executions.len(), 2);
        assert_eq!(trace.quality.count(FindingKind::NotAFrame), 1);
    }
}

#[test]
fn a_frame_that_unpacks_to_other_than_it_says_is_damage_though_its_sum_is_right() {
    let mut segment = SegmentBytes::default();
    segment.frame(0, 0, Origin::Collected, &tasks(0, 1..4));
    segment.frame(0, 1, Origin::Collected, &tasks(0, 4..6));
    let widths = 16 + 32 + 32;
    for (at, value) in [(16 + 16, 2), (16 + 16, 4), (16 + 16, 64), (widths + 1, 5), (widths + 1, 1), (widths, 0)] {
        let mut bytes = segment.bytes().to_vec();
        bytes[at] = value;
        let sum = crc32c::crc32c(&bytes[16 + 32..16 + 32 + packed(3)]);
        bytes[16 + 28..16 + 32].copy_from_slice(&sum.to_le_bytes());
        let trace = read(&[&bytes]);
        assert_eq!(trace.executions.len(), 2, "{value} at {at}");
        assert_eq!(trace.quality.count(FindingKind::BadChecksum), 1, "{value} at {at}: {:?}", trace.quality);
    }
}

#[test]
fn gaps_of_any_size_are_counted() {
    let mut segment = SegmentBytes::default();
    segment.frame(0, u64::MAX, Origin::Collected, &tasks(0, 1..2));
    segment.frame(1, u64::MAX - 1, Origin::Collected, &tasks(1, 1..2));
    let trace = read(&[segment.bytes()]);
    assert_eq!(trace.executions.len(), 2);
    assert_eq!(trace.quality.count(FindingKind::SequenceGap), u64::MAX);
}

/// The record with a tag and a ring that there are, or nearly.
fn tagged(record: ScopeRecord) -> ScopeRecord {
    let [first, second, third] = record.words();
    ScopeRecord::from_words([first & !0xfcf8, second, third])
}

/// A scope's records over three frames: everything told and the begin of scope 1; a task more and its end; scope 2.
fn scope_frames() -> [Vec<ScopeRecord>; 3] {
    let mark = |tag: ScopeTag, scope, before, window| {
        ScopeRecord::from(ScopeMark { tag: tag as u8, before, depth: 1, scope, window, ..ScopeMark::default() })
    };
    let base = ScopeBase::of(1, &Heads { window: 1 << 40, ..Heads::default() });
    let mut told: Vec<ScopeRecord> = (0..4).map(|ring| ScopeUsed::of(ring, RingUse::default()).into()).collect();
    let moment = ScopeMoment::of(&Moment::default());
    told.extend([base.into(), moment.into(), mark(ScopeTag::Begin, 1, 6, 0)]);
    let used = ScopeUsed::of(1, RingUse { window: 1, ..RingUse::default() });
    let ended = vec![used.into(), mark(ScopeTag::End, 1, 1, 1)];
    [told, ended, vec![mark(ScopeTag::Begin, 2, 0, 1), mark(ScopeTag::End, 2, 0, 1)]]
}

fn scope_windows(segment: &[u8]) -> (Vec<(u32, u64, u64)>, u64) {
    let trace = read(&[segment]);
    let samples = trace.scopes.samples.iter().map(|s| (s.scope, s.window_tail, s.window_head));
    (samples.collect(), trace.quality.count(FindingKind::UnknownCounters))
}

#[test]
fn scope_samples_after_a_missing_buffer_are_left_out_until_all_is_told_again() {
    let [told, ended, next] = scope_frames();
    let segment = |frames: &[(u64, &[ScopeRecord])]| {
        let mut segment = SegmentBytes::default();
        frames.iter().for_each(|(sequence, records)| segment.frame(0, *sequence, Origin::Collected, records));
        segment.bytes().to_vec()
    };
    let (start, more) = (1u64 << 40, (1 << 40) + 1);
    let whole = segment(&[(0, &told), (1, &ended), (2, &next)]);
    let all = vec![(1, start, start), (1, start, more), (2, start, more), (2, start, more)];
    assert_eq!(scope_windows(&whole), (all, 0));
    assert_eq!(scope_windows(&segment(&[(0, &told), (2, &next)])), (vec![(1, start, start)], 2), "a gap");
    assert_eq!(scope_windows(&segment(&[(1, &ended), (2, &next)])), (vec![], 3), "the first is missing");
    let again = segment(&[(1, &ended), (2, &next), (3, &told), (4, &next)]);
    assert_eq!(scope_windows(&again), (vec![(1, start, start), (2, start, more), (2, start, more)], 3));
    let mut bent = whole.clone();
    let first = u32::from_le_bytes([whole[16 + 20], whole[16 + 21], whole[16 + 22], whole[16 + 23]]) as usize;
    bent[16 + 32 + first + 32 + 4] ^= 1;
    assert_eq!(scope_windows(&bent), (vec![(1, start, start)], 2), "a wrong sum");
    // The end of scope 1 is cut off its frame, and another file goes on after it.
    let cut = segment(&[(0, &told), (1, &ended[..1])]);
    assert_eq!(scope_windows(&cut), (vec![(1, start, start)], 0), "nothing is shown of half a sample");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400), with_header: bool) {
        let mut file = if with_header { SegmentBytes::default().bytes().to_vec() } else { Vec::new() };
        file.extend(bytes);
        let _ = read(&[&file]);
    }

    #[test]
    fn bent_captures_are_survived(flips in proptest::collection::vec((any::<u32>(), any::<u8>()), 1..20)) {
        let mut bytes = Synthetic { tasks: 20, ..Synthetic::default() }.segment().bytes().to_vec();
        for (at, with) in flips {
            let at = at as usize % bytes.len();
            bytes[at] ^= with;
        }
        let _ = read(&[&bytes]);
    }

    /// Checksums are right, so every record reaches the code behind the reader.
    #[test]
    fn records_of_any_content_are_survived(words in proptest::collection::vec(any::<u64>(), 8..512)) {
        use plimsoll_abi::record::{AicpuTask, OrchPhase, SchedPhase, SubmitRecord};
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        fn all<R: plimsoll_abi::record::Record>(bytes: &[u8]) -> Vec<R> {
            bytes.chunks_exact(size_of::<R>()).map(bytemuck::pod_read_unaligned).collect()
        }
        let mut submits = all::<SubmitRecord>(&bytes);
        // Mostly sensible tags and sizes, or nothing would get past the first look.
        for (at, record) in submits.iter_mut().enumerate() {
            record.tag %= 4;
            record.ndim %= 6;
            if at % 2 == 0 {
                record.shape = record.shape.map(|e| e % 4);
                record.strides = record.strides.map(|s| s % 4);
                record.offset %= 8;
                record.aux %= 3;
                record.id %= 4;
            }
        }
        let mut segment = SegmentBytes::default();
        segment.pool(0, &all::<AicoreTask>(&bytes), 4);
        segment.pool(0, &all::<AicpuTask>(&bytes), 4);
        segment.pool(0, &all::<SchedPhase>(&bytes), 4);
        segment.pool(0, &all::<OrchPhase>(&bytes), 4);
        let mut scopes = all::<ScopeRecord>(&bytes);
        // Half of them with a tag and a ring.
        scopes.iter_mut().step_by(2).for_each(|record| *record = tagged(*record));
        segment.pool(0, &scopes, 4);
        segment.pool(0, &submits, 4);
        let trace = read(&[segment.bytes()]);
        let _ = (trace.extent(), trace.scopes.spans(&mut plimsoll_trace::Quality::default()));
    }
}
