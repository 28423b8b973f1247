//! From the records of kinds 4 and 6 to samples of scopes, with what all rings held and the scopes' peaks.

use plimsoll_abi::Usage;
use plimsoll_abi::record::{ScopePhase, ScopeRecord, ScopeRingsRecord};
use std::collections::BTreeMap;

use crate::{FindingKind, Quality, ScopeSample};

/// A sample with all that belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FullSample {
    /// The sample.
    pub sample: ScopeSample,
    /// What was in use.
    pub used: Usage,
    /// The most that was in use inside the scope; what is in use if it has only begun.
    pub peaks: Usage,
}

/// Completes samples: takes all records of kind 6 first, then the samples of each instance in order of writing.
#[derive(Clone, Debug, Default)]
pub struct ScopeJoin {
    /// The records of kind 6, each with the instance that wrote it.
    rings: Vec<(u16, ScopeRingsRecord)>,
    sorted: bool,
    /// What was in use at the last sample of each instance.
    last: BTreeMap<u16, Usage>,
}

/// The key by which a record of kind 6 is found.
fn key((instance, record): &(u16, ScopeRingsRecord)) -> (u16, u64, u32) {
    (*instance, record.at, record.scope)
}

impl ScopeJoin {
    /// Adds a record of kind 6 that an instance wrote.
    pub fn add_rings(&mut self, instance: u16, record: ScopeRingsRecord) {
        self.rings.push((instance, record));
        self.sorted = false;
    }

    fn find(&mut self, instance: u16, sample: &ScopeRecord) -> Option<ScopeRingsRecord> {
        if !self.sorted {
            self.rings.sort_unstable_by_key(key);
            self.sorted = true;
        }
        let place = self.rings.binary_search_by_key(&(instance, sample.at, sample.scope), key).ok()?;
        Some(self.rings[place].1)
    }

    /// The sample that an instance recorded, completed. A missing record of kind 6 is a finding. In its place stand the
    /// amounts of the sample before, and for the peaks what is in use.
    pub fn full_sample(&mut self, instance: u16, record: &ScopeRecord, quality: &mut Quality) -> FullSample {
        let (ring, heads, own) = (record.ring(), record.heads(), record.own_use());
        let ends = record.phase() == ScopePhase::End;
        let mut used = self.last.get(&instance).copied().unwrap_or(Usage::NONE);
        let mut found = None;
        if record.has(ScopeRecord::HAS_RINGS) {
            found = self.find(instance, record);
            match &found {
                Some(rings) => used = rings.used(record.tensormap),
                None => quality.note(FindingKind::MissingRings, None, || format!("scope {}", record.scope)),
            }
        }
        used.tensormap = record.tensormap;
        used.set_ring(ring, own);
        self.last.insert(instance, used);
        let peaks = found.filter(|_| ends).map_or(used, |rings| rings.peaks());
        let sample = ScopeSample {
            at: record.at,
            site: u32::from(record.site()),
            phase: record.phase(),
            ring: ring as u8,
            depth: record.depth,
            scope: record.scope,
            fatal: record.has(ScopeRecord::FATAL),
            window_tail: heads.window.saturating_sub(u64::from(own.window)),
            window_head: heads.window,
            heap_tail: heads.heap.saturating_sub(own.heap),
            heap_head: heads.heap,
            dep_tail: heads.dep_pool.saturating_sub(u64::from(own.dep_pool)),
            dep_head: heads.dep_pool,
            tensormap: record.tensormap,
            peak_tensormap: if ends { peaks.tensormap } else { 0 },
            peak_fanin: record.peak_fanin,
            ..ScopeSample::default()
        };
        FullSample { sample, used, peaks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_abi::{Heads, RINGS, RingUse};
    use proptest::prelude::*;

    fn usage() -> impl Strategy<Value = Usage> {
        let amounts = (any::<[u32; RINGS]>(), any::<[u64; RINGS]>(), any::<[u32; RINGS]>(), any::<u32>());
        amounts.prop_map(|(window, heap, dep_pool, tensormap)| Usage { window, heap, dep_pool, tensormap })
    }

    /// The sample of a scope of depth 2.
    fn sample(at: u64, scope: u32, used: &Usage, bits: u16) -> ScopeRecord {
        let RingUse { window, heap, dep_pool } = used.ring(2);
        let site_and_bits = 7 | bits;
        let tensormap = used.tensormap;
        ScopeRecord { at, scope, window, heap, dep_pool, tensormap, depth: 2, site_and_bits, ..ScopeRecord::default() }
    }

    proptest! {
        #[test]
        fn rings_and_peaks_are_those_of_their_scope_and_instance(all in proptest::collection::vec((usage(), usage()), 1..20)) {
            let (mut join, mut quality) = (ScopeJoin::default(), Quality::default());
            // All at one time, as scopes that end in virtual time may.
            for (scope, (used, peaks)) in all.iter().enumerate().rev() {
                join.add_rings(scope as u16 % 2, ScopeRingsRecord::of(5, scope as u32 / 2, used, peaks));
            }
            for (scope, (used, peaks)) in all.iter().enumerate() {
                let record = sample(5, scope as u32 / 2, used, ScopeRecord::ENDS | ScopeRecord::HAS_RINGS);
                let full = join.full_sample(scope as u16 % 2, &record, &mut quality);
                prop_assert_eq!((full.used, full.peaks), (*used, *peaks));
                prop_assert_eq!(full.sample.peak_tensormap, peaks.tensormap);
            }
            prop_assert!(quality.findings().is_empty());
        }
    }

    #[test]
    fn without_the_bit_other_rings_hold_what_they_held_and_peaks_are_what_is_in_use() {
        let (mut join, mut quality) = (ScopeJoin::default(), Quality::default());
        let before = Usage { window: [1, 2, 3, 4], tensormap: 9, ..Usage::NONE };
        join.add_rings(0, ScopeRingsRecord::of(5, 1, &before, &before));
        join.full_sample(0, &sample(5, 1, &before, ScopeRecord::HAS_RINGS), &mut quality);
        let now = Usage { window: [1, 2, 30, 4], tensormap: 3, ..Usage::NONE };
        let full = join.full_sample(0, &sample(6, 1, &now, ScopeRecord::ENDS), &mut quality);
        assert_eq!((full.used, full.peaks, full.sample.peak_tensormap), (now, now, 3));
        let other = join.full_sample(1, &sample(6, 1, &now, ScopeRecord::ENDS), &mut quality);
        assert_eq!(other.used.window, [0, 0, 30, 0], "what another agent's scopes saw is not carried over");
        assert!(quality.findings().is_empty());
    }

    #[test]
    fn what_is_missing_is_a_finding() {
        let used = Usage { tensormap: 3, ..Usage::NONE };
        let (mut join, mut quality) = (ScopeJoin::default(), Quality::default());
        join.add_rings(0, ScopeRingsRecord::of(4, 1, &used, &Usage::NONE));
        join.add_rings(1, ScopeRingsRecord::of(5, 1, &used, &Usage::NONE));
        let full = join.full_sample(0, &sample(5, 1, &used, ScopeRecord::ENDS | ScopeRecord::HAS_RINGS), &mut quality);
        assert_eq!((full.peaks, quality.count(FindingKind::MissingRings)), (used, 1));
    }

    #[test]
    fn a_sample_says_what_its_record_says() {
        let used = Usage { window: [1, 2, 3, 4], heap: [5, 6, 7, 8], dep_pool: [9, 10, 11, 12], tensormap: 13 };
        let mut record = sample(40, 14, &used, ScopeRecord::ENDS | ScopeRecord::FATAL);
        (record.window_head, record.heap_head, record.dep_head, record.peak_fanin) = (103, 107, 111, 15);
        let found = ScopeJoin::default().full_sample(0, &record, &mut Quality::default()).sample;
        assert_eq!((found.at, found.site, found.phase, found.fatal), (40, 7, ScopePhase::End, true));
        assert_eq!((found.ring, found.depth, found.scope, found.peak_fanin), (2, 2, 14, 15));
        assert_eq!(record.heads(), Heads { window: 103, heap: 107, dep_pool: 111 });
        assert_eq!((found.window_tail, found.heap_tail, found.dep_tail), (100, 100, 100));
    }
}
