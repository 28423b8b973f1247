//! Segment files that are cut, bent, doubled or no segments at all: what is there is read, the rest is counted.

use std::fs;
use std::path::Path;

use plimsoll_abi::TaskId;
use plimsoll_abi::record::{AicoreTask, Kind, ScopeRecord, ScopeRingsRecord};
use plimsoll_abi::segment::Origin;
use plimsoll_trace::synthetic::{SegmentBytes, Synthetic};
use plimsoll_trace::{FindingKind, Manifest, Trace, audit, open};
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
    assert_eq!((deps.tasks.len(), deps.args.len(), deps.tensors.len()), (100, 294, 100));
    assert_eq!(deps.edges.len(), 194, "on each of three cores all but the first wait for two");
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

/// Read as an empty run it would give answers, and they would be wrong.
#[test]
fn records_of_an_older_version_are_refused_in_words() {
    let mut bytes = Synthetic::default().segment().bytes().to_vec();
    let known = plimsoll_abi::segment::SCHEMA;
    bytes[8..12].copy_from_slice(&(known - 1).to_le_bytes());
    let dir = tempfile::tempdir().expect("temporary directory");
    write(dir.path(), &[&bytes]);
    let said = open(dir.path()).expect_err("its schema is older").to_string();
    let told =
        format!("0.seg holds records of schema {}. This build reads schema {known}. Read the run with", known - 1);
    assert!(said.contains(&told), "{said}");
    assert_eq!(audit(dir.path(), &mut |_, _| ()).expect_err("the same").to_string(), said);
}

#[test]
fn wrong_sums_gaps_and_strangers_are_counted_and_the_rest_is_read() {
    let mut segment = SegmentBytes::default();
    segment.frame(0, 0, Origin::Collected, &tasks(0, 1..4));
    segment.frame(0, 1, Origin::Collected, &tasks(0, 4..6));
    segment.frame(0, 4, Origin::Collected, &tasks(0, 6..8));
    let mut bytes = segment.bytes().to_vec();
    bytes[16 + 32 + 5] ^= 1;
    let seam = 16 + 32 + packed(3) + 32 + packed(2);
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

#[test]
fn a_missing_buffer_costs_its_own_scope_samples_alone() {
    let sample = |scope, bits| ScopeRecord { at: 9, scope, site_and_bits: bits, ..ScopeRecord::default() };
    let ends = ScopeRecord::ENDS | ScopeRecord::HAS_RINGS;
    let frames = [vec![sample(1, 0)], vec![sample(1, ends)], vec![sample(2, 0), sample(2, ends)]];
    let rings = [1, 2].map(|scope| ScopeRingsRecord { at: 9, scope, peak_tensormap: 5, ..ScopeRingsRecord::default() });
    let found = |samples: &[u64], rings: &[ScopeRingsRecord]| {
        let mut segment = SegmentBytes::default();
        samples.iter().for_each(|&at| segment.frame(0, at, Origin::Collected, &frames[at as usize]));
        segment.frame(0, 0, Origin::Collected, rings);
        let trace = read(&[segment.bytes()]);
        let samples: Vec<_> = trace.scopes.samples.iter().map(|s| (s.scope, s.peak_tensormap)).collect();
        (samples, trace.quality.count(FindingKind::MissingRings))
    };
    assert_eq!(found(&[0, 1, 2], &rings), (vec![(1, 0), (1, 5), (2, 0), (2, 5)], 0));
    assert_eq!(found(&[2], &rings), (vec![(2, 0), (2, 5)], 0));
    assert_eq!(found(&[0, 2], &rings[..1]), (vec![(1, 0), (2, 0), (2, 0)], 1));
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
        let dir = tempfile::tempdir().expect("temporary directory");
        write(dir.path(), &[&bytes]);
        // A bent schema is refused.
        let _ = open(dir.path());
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
        segment.pool(0, &all::<ScopeRecord>(&bytes), 4);
        segment.pool(0, &all::<ScopeRingsRecord>(&bytes), 4);
        segment.pool(0, &submits, 4);
        let trace = read(&[segment.bytes()]);
        let _ = (trace.extent(), trace.scopes.spans(&mut plimsoll_trace::Quality::default()));
    }
}
