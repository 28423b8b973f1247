//! From the records of kind 4 to samples: a mark, with what the records before it told of the rings.

use plimsoll_abi::record::{ScopeMark, ScopePhase, ScopeRecord, ScopeSays};
use plimsoll_abi::{Heads, RINGS, Usage};

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

/// Reads the records of one pool in order of writing.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScopeDecoder {
    used: Usage,
    heads: [Heads; RINGS],
    bases: [Heads; RINGS],
    /// Which of these are known: in bit `r` the use of ring r, in bit `RINGS + r` its heads, in bit `2 * RINGS + r` its
    /// base.
    known: u16,
    /// Records since the last mark.
    before: u8,
    /// Peaks since the last mark, and the scope that each is of.
    peaks: Usage,
    peak_of: [Option<u32>; RINGS],
}

/// Bits of [`ScopeDecoder::known`].
const ALL_USES: u16 = (1 << RINGS) - 1;
const HEADS: u16 = 1 << RINGS;
const BASE: u16 = 1 << (2 * RINGS);

impl ScopeDecoder {
    /// Records are missing here: nothing is known until it is told again.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Takes a record; a mark gives a sample, unless something that it needs is not known.
    pub fn take(&mut self, record: ScopeRecord, quality: &mut Quality) -> Option<FullSample> {
        let Some(says) = record.read() else {
            quality.note(FindingKind::BadRecord, None, || format!("a scope record of words {:x?}", record.words));
            return None;
        };
        match says {
            ScopeSays::Mark(phase, mark) => {
                let sample = self.sample(phase, &mark);
                (self.before, self.peak_of) = (0, [None; RINGS]);
                if sample.is_none() {
                    quality.note(FindingKind::UnknownCounters, None, || format!("scope {}", mark.scope));
                }
                return sample;
            }
            ScopeSays::Ring(told) => {
                let ring = told.ring as usize;
                self.used.set_ring(ring, told.in_use());
                self.known |= 1 << ring;
                if self.known & BASE << ring != 0 {
                    self.heads[ring] = told.heads(&self.bases[ring]);
                    self.known |= HEADS << ring;
                }
            }
            ScopeSays::Used(told) => {
                self.used.set_ring(told.ring as usize, told.in_use());
                self.known |= 1 << told.ring;
            }
            ScopeSays::Base(told) => {
                let ring = told.ring as usize;
                (self.bases[ring], self.heads[ring]) = (told.heads(), told.heads());
                self.known |= (BASE | HEADS) << ring;
            }
            ScopeSays::Peak(told) => {
                self.peaks.set_ring(told.ring as usize, told.most());
                self.peak_of[told.ring as usize] = Some(told.scope);
            }
        }
        self.before = self.before.saturating_add(1);
        None
    }

    fn sample(&mut self, phase: ScopePhase, mark: &ScopeMark) -> Option<FullSample> {
        let ring = mark.ring();
        if self.before < mark.before & !ScopeMark::FATAL {
            // Records were lost that nobody counted, so what was known may have changed.
            self.forget();
        }
        let needed = ALL_USES | HEADS << ring;
        if self.known & needed != needed {
            return None;
        }
        let used = Usage { tensormap: mark.tensormap, ..self.used };
        let mut peaks = used;
        if phase == ScopePhase::End {
            peaks.tensormap = mark.peak_tensormap;
            for ring in (0..RINGS).filter(|&ring| self.peak_of[ring] == Some(mark.scope)) {
                peaks.set_ring(ring, self.peaks.ring(ring));
            }
        }
        let (heads, own) = (self.heads[ring], used.ring(ring));
        let sample = ScopeSample {
            at: mark.at,
            site: mark.site,
            phase,
            ring: ring as u8,
            depth: mark.depth,
            scope: mark.scope,
            fatal: mark.before & ScopeMark::FATAL != 0,
            window_tail: heads.window.saturating_sub(u64::from(own.window)),
            window_head: heads.window,
            heap_tail: heads.heap.saturating_sub(own.heap),
            heap_head: heads.heap,
            dep_tail: heads.dep_pool.saturating_sub(u64::from(own.dep_pool)),
            dep_head: heads.dep_pool,
            tensormap: mark.tensormap,
            peak_tensormap: mark.peak_tensormap,
            peak_fanin: mark.peak_fanin,
            ..ScopeSample::default()
        };
        Some(FullSample { sample, used, peaks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_abi::RingUse;
    use plimsoll_abi::record::{ScopeBase, ScopePeak, ScopeRing, ScopeTag};

    fn used(ring: usize, window: u32) -> ScopeRecord {
        ScopeRing::used(ring, RingUse { window, dep_pool: 2 * window, heap: u64::from(window) << 40 }).into()
    }

    fn base(ring: usize, window: u64) -> ScopeRecord {
        ScopeBase::of(ring, &Heads { window, heap: u64::MAX, dep_pool: window }).into()
    }

    fn mark(tag: ScopeTag, scope: u32, before: u8) -> ScopeRecord {
        ScopeMark { tag: tag as u8, before, depth: 1, scope, ..ScopeMark::default() }.into()
    }

    /// What comes out: the scope, its window's tail and head, and the peak of ring 3; and how many were left out.
    fn decode(records: &[ScopeRecord]) -> (Vec<(u32, u64, u64, u32)>, u64) {
        let (mut decoder, mut quality) = (ScopeDecoder::default(), Quality::default());
        let samples = records.iter().filter_map(|record| decoder.take(*record, &mut quality));
        let found = samples.map(|full| {
            let sample = full.sample;
            (sample.scope, sample.window_tail, sample.window_head, full.peaks.window[3])
        });
        (found.collect(), quality.count(FindingKind::UnknownCounters))
    }

    fn told() -> Vec<ScopeRecord> {
        vec![used(0, 0), base(1, 1 << 40), used(1, 5), used(2, 0), used(3, 8), mark(ScopeTag::Begin, 1, 5)]
    }

    #[test]
    fn a_mark_stands_on_what_was_told_before_it() {
        let mut records = told();
        let heads = Heads { window: (1 << 40) + u64::from(u32::MAX), heap: u64::MAX, dep_pool: 1 << 40 };
        let base = Heads { window: 1 << 40, heap: u64::MAX, dep_pool: 1 << 40 };
        let near = ScopeRing::used(1, RingUse { window: 6, ..RingUse::default() }).with_heads(&heads, &base);
        records.push(near.expect("within reach").into());
        records.push(mark(ScopeTag::End, 1, 1));
        let begin = (1, (1 << 40) - 5, 1 << 40, 8);
        assert_eq!(decode(&records), (vec![begin, (1, heads.window - 6, heads.window, 8)], 0));
        let far = Heads { window: heads.window + 1, ..heads };
        assert_eq!(ScopeRing::default().with_heads(&far, &base), None, "out of reach of the base");
    }

    #[test]
    fn a_peak_is_of_the_scope_it_names_and_of_the_next_mark() {
        let peak = |scope| ScopePeak::of(scope, 3, RingUse { window: 99, ..RingUse::default() }).into();
        let mut records = told();
        // The end of scope 7 was lost behind its peak.
        records.extend([
            peak(7),
            mark(ScopeTag::End, 6, 0),
            peak(5),
            mark(ScopeTag::End, 5, 1),
            mark(ScopeTag::End, 5, 0),
        ]);
        let peaks: Vec<u32> = decode(&records).0.iter().map(|found| found.3).collect();
        assert_eq!(peaks, [8, 8, 99, 8]);
    }

    #[test]
    fn records_lost_in_front_hide_the_samples_that_need_them() {
        for lost in 1..=5 {
            let mut records = told().split_off(lost);
            // The mark itself shows that something is missing; the next one does not, and is not trusted either.
            records.push(mark(ScopeTag::End, 1, 0));
            assert_eq!(decode(&records), (vec![], 2), "{lost} lost");
            records.extend(told());
            assert_eq!(decode(&records).0.len(), 1, "until all is told again");
        }
    }

    #[test]
    fn a_stream_cut_at_the_end_shows_what_is_whole() {
        let mut records = told();
        records.extend(told());
        for len in 6..12 {
            assert_eq!(decode(&records[..len]), (vec![(1, (1 << 40) - 5, 1 << 40, 8)], 0), "cut to {len}");
        }
    }

    #[test]
    fn an_offset_without_its_base_is_not_shown() {
        let near = ScopeRing { tag: ScopeTag::Ring as u8, ring: 1, window_head: 3, ..ScopeRing::default() };
        let records = [used(0, 0), near.into(), used(2, 0), used(3, 0), mark(ScopeTag::Begin, 1, 4)];
        assert_eq!(decode(&records), (vec![], 1));
    }

    #[test]
    fn records_without_a_known_tag_or_ring_are_findings() {
        let (mut decoder, mut quality) = (ScopeDecoder::default(), Quality::default());
        for word in [6, 0xff, 0x0402, 0xff05] {
            assert_eq!(decoder.take(ScopeRecord { words: [word, 0, 0, 0] }, &mut quality), None);
        }
        assert_eq!(quality.count(FindingKind::BadRecord), 4);
    }
}
