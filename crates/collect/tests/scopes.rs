//! Scope samples build on the records before them: what a session keeps of them is right, whatever it drops.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::*;
use plimsoll_abi::record::{Kind, ScopePhase, ScopeRecord};
use plimsoll_abi::{AgentId, Flags, Heads, Usage};
use plimsoll_collect::bench::CounterWorld;
use plimsoll_collect::{Ledger, Policy, Session, SessionConfig, segment};
use plimsoll_probe::{Lane, Probe, ScopeSample};
use plimsoll_trace::{FullSample, Quality, ScopeDecoder};
use std::path::Path;

/// The number of a sample's scope is that of the sample by this, so that the last is out of reach of the first.
const SCOPES_APART: u32 = 30;

/// What is in use at a sample: it moves on every ring, each at its own pace, and the tensormap farther than a mark can tell.
fn used_at(at: u32) -> Usage {
    let mut used = Usage { tensormap: at % 4 * 40_000, ..Usage::NONE };
    for ring in 0..4 {
        let held = at / (3 << ring);
        (used.window[ring], used.heap[ring], used.dep_pool[ring]) = (held, u64::from(held) << 33, held * 2);
    }
    used
}

fn peaks_at(at: u32) -> Usage {
    let mut peaks = used_at(at);
    peaks.window[(at % 7 % 4) as usize] += at % 3;
    peaks
}

fn write(lane: &mut impl Lane, at: u32) {
    let (used, peaks) = (used_at(at), peaks_at(at));
    lane.scope_sample(&ScopeSample {
        phase: if at.is_multiple_of(2) { ScopePhase::Begin } else { ScopePhase::End },
        depth: (at % 5) as u16,
        scope: at * SCOPES_APART,
        heads: Heads { window: u64::from(at) << 20, heap: u64::from(at) << 40, dep_pool: u64::from(at) * 2 },
        used: &used,
        peaks: Some(&peaks),
        ..ScopeSample::default()
    });
}

/// The samples in the file, each checked against what was written.
fn read(dir: &Path) -> (Vec<u32>, Quality) {
    let (mut decoder, mut quality, mut found) = (ScopeDecoder::default(), Quality::default(), Vec::new());
    let scan = segment::scan(dir, |frame, bytes| {
        assert_eq!(frame.kind, Kind::ScopeSample as u16);
        let records = bytes.chunks_exact(size_of::<ScopeRecord>()).map(bytemuck::pod_read_unaligned);
        found.extend(records.filter_map(|record| decoder.take(record, &mut quality)));
    });
    scan.unwrap();
    for FullSample { sample, used, peaks } in &found {
        let at = sample.scope / SCOPES_APART;
        assert_eq!(*used, used_at(at));
        assert_eq!(*peaks, if sample.phase == ScopePhase::End { peaks_at(at) } else { used_at(at) });
        assert_eq!((sample.window_head, sample.heap_head), (u64::from(at) << 20, u64::from(at) << 40));
        assert_eq!(sample.dep_head - sample.dep_tail, u64::from(used.dep_pool[sample.ring as usize]));
    }
    (found.iter().map(|full| full.sample.scope / SCOPES_APART).collect(), quality)
}

/// Writes 3000 samples; after a batch the host comes by, then it is gone for so many batches.
fn record(policy: Policy, buffers: (u32, u32), batch: u32, gone: u32) -> (Vec<u32>, Ledger) {
    let dir = tempfile::tempdir().unwrap();
    let base = driven_by_caller(dir.path(), Flags::SCOPE_STATS, 1, sizes(buffers.0, buffers.1));
    let session = Session::start(SessionConfig { policy, ..base }).unwrap();
    let probe = session.probe(CounterWorld::new(&session));
    let mut lane = probe.lane(AgentId(0));
    for at in 0..3000 {
        write(&mut lane, at);
        if at.is_multiple_of(batch * (gone + 1)) {
            session.drain_step();
        }
    }
    drop(lane);
    drop(probe);
    let ledger = session.finish().unwrap();
    let (found, quality) = read(dir.path());
    assert!(quality.findings().is_empty(), "what was dropped was not built upon: {quality:?}");
    assert!(found.is_sorted());
    (found, ledger)
}

#[test]
fn what_is_kept_under_policy_drop_is_right() {
    for (buffers, batch, gone) in [((1, 1), 1, 0), ((1, 2), 1, 1), ((2, 3), 2, 2), ((3, 5), 4, 1), ((2, 7), 40, 3)] {
        let (found, ledger) = record(Policy::Drop, buffers, batch, gone);
        assert!(ledger.balanced && !ledger.lossless, "{buffers:?}");
        assert!(buffers.0 * buffers.1 < 6 || !found.is_empty(), "{buffers:?}");
        assert!(found.len() < 3000, "{buffers:?}");
    }
}

#[test]
fn nothing_is_missing_where_nothing_was_dropped() {
    let (found, ledger) = record(Policy::Drop, (4, 500), 1, 0);
    assert!(ledger.lossless);
    assert_eq!(found, (0..3000).collect::<Vec<_>>());
}
