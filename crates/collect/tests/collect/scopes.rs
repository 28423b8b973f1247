//! Scope samples and their peaks: what a session keeps of them is right, whatever it drops.
#![allow(clippy::unwrap_used)]

use crate::harness::*;
use plimsoll_abi::record::{Kind, Record, ScopePhase, ScopeRecord, ScopeRingsRecord};
use plimsoll_abi::{AgentId, Flags, Heads, Usage};
use plimsoll_collect::bench::CounterWorld;
use plimsoll_collect::{Ledger, Policy, Session, SessionConfig, segment};
use plimsoll_probe::{Lane, Probe, ScopeEvent};
use plimsoll_trace::{FindingKind, FullSample, Quality, ScopeJoin};
use std::path::Path;

/// What is in use at a sample: it moves on every ring, each at its own pace.
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
    let moved = |ring: usize| at == 0 || used.ring(ring) != used_at(at - 1).ring(ring);
    let own = (at % 5).min(3) as usize;
    lane.scope(&ScopeEvent {
        phase: if at.is_multiple_of(2) { ScopePhase::Begin } else { ScopePhase::End },
        depth: (at % 5) as u16,
        scope: at,
        heads: Heads { window: u64::from(at) << 20, heap: u64::from(at) << 40, dep_pool: u64::from(at) * 2 },
        used: &used,
        changed: (0..4).filter(|&ring| ring != own && moved(ring)).fold(0, |mask, ring| mask | 1 << ring),
        peaks: Some(&peaks),
        ..ScopeEvent::default()
    });
}

fn cast<R: Record>(bytes: &[u8]) -> impl Iterator<Item = R> {
    bytes.chunks_exact(size_of::<R>()).map(bytemuck::pod_read_unaligned)
}

/// The samples in the file, each checked against what was written.
fn read(dir: &Path) -> (Vec<u32>, Quality) {
    let (mut samples, mut join, mut quality) = (Vec::new(), ScopeJoin::default(), Quality::default());
    let scan = segment::scan(dir, |frame, bytes| {
        if frame.kind == Kind::ScopeSample as u16 {
            samples.extend(cast::<ScopeRecord>(bytes));
        } else {
            cast::<ScopeRingsRecord>(bytes).for_each(|record| join.add_rings(frame.instance, record));
        }
    });
    scan.unwrap();
    let mut found = Vec::new();
    for record in &samples {
        let missing = quality.count(FindingKind::MissingRings);
        let FullSample { sample, used, peaks } = join.full_sample(0, record, &mut quality);
        let at = sample.scope;
        let own = sample.ring as usize;
        assert_eq!(used.ring(own), used_at(at).ring(own));
        // Of a record that was dropped, what stands for it is right of the scope's own ring alone.
        if quality.count(FindingKind::MissingRings) == missing {
            assert_eq!(used, used_at(at));
            assert_eq!(peaks, if sample.phase == ScopePhase::End { peaks_at(at) } else { used_at(at) });
        }
        assert_eq!((sample.window_head, sample.heap_head), (u64::from(at) << 20, u64::from(at) << 40));
        assert_eq!(sample.dep_head - sample.dep_tail, u64::from(used.dep_pool[own]));
        found.push(at);
    }
    (found, quality)
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
    let dropped = ledger.pool(Kind::ScopeRings, 0).unwrap().dropped;
    assert!(quality.count(FindingKind::MissingRings) <= dropped, "{quality:?}");
    assert_eq!(ledger.pool(Kind::ScopeSample, 0).unwrap().collected, found.len() as u64);
    assert!(found.is_sorted());
    (found, ledger)
}

#[test]
fn what_is_kept_under_policy_drop_is_right() {
    for (buffers, batch, gone) in [((1, 1), 1, 1), ((1, 2), 1, 2), ((2, 3), 2, 4), ((3, 5), 4, 4), ((2, 7), 40, 3)] {
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
