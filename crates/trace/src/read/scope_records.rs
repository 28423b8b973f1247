//! From the records of kind 4 to samples: a mark, with what the records before it told of the rings.

use plimsoll_abi::record::{
    MarkSays, ScopeAccount, ScopeMark, ScopePeak, ScopePhase, ScopeRecord, ScopeSays, ScopeWholePeak,
};
use plimsoll_abi::{RINGS, Usage};

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
    account: ScopeAccount,
    /// Records since the last mark.
    before: u32,
    /// Peaks since the last mark, by ring.
    peaks: [Option<Told<ScopePeak>>; RINGS],
    /// The same, of no ring.
    whole_peak: Option<Told<ScopeWholePeak>>,
}

/// A record that belongs to one mark.
#[derive(Clone, Copy, Debug)]
struct Told<R> {
    record: R,
    /// How many records lay between it and the mark before it.
    after: u32,
}

impl ScopeDecoder {
    /// Records are missing here: nothing is known until it is told again.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Takes a record; a mark gives a sample, unless something that it needs is not known.
    pub fn take(&mut self, record: ScopeRecord, quality: &mut Quality) -> Option<FullSample> {
        let Some(says) = record.read() else {
            quality.note(FindingKind::BadRecord, None, || format!("a scope record of words {:x?}", record.words()));
            return None;
        };
        match says {
            ScopeSays::Mark(phase, mark) => {
                let sample = self.sample(phase, &mark);
                (self.before, self.peaks, self.whole_peak) = (0, [None; RINGS], None);
                if sample.is_none() {
                    // Its number may be among what is not known.
                    quality.note(FindingKind::UnknownCounters, None, || format!("a scope of depth {}", mark.depth));
                }
                return sample;
            }
            ScopeSays::Used(told) => self.account.tell_used(told.ring as usize, told.in_use()),
            ScopeSays::Base(told) => self.account.tell_base(told.ring as usize, told.heads()),
            ScopeSays::Peak(record) => self.peaks[record.ring as usize] = Some(Told { record, after: self.before }),
            ScopeSays::Moment(told) => self.account.tell_moment(told.moment()),
            ScopeSays::WholePeak(record) => self.whole_peak = Some(Told { record, after: self.before }),
        }
        self.before = self.before.saturating_add(1);
        None
    }

    fn sample(&mut self, phase: ScopePhase, mark: &ScopeMark) -> Option<FullSample> {
        let ring = mark.ring();
        let in_front = u32::from(mark.before & !ScopeMark::FATAL);
        if self.before < in_front {
            // Records were lost that nobody counted, so what was known may have changed.
            self.forget();
        }
        // Further in front there may be peaks whose own mark was lost.
        let first = self.before.saturating_sub(in_front);
        let MarkSays { moment, heads, used } = self.account.mark(ring, &mark.moment(), &mark.heads())?;
        let (mut peaks, mut peak_fanin) = (used, u32::from(mark.peak_fanin));
        if phase == ScopePhase::End {
            let told = self.peaks.iter().flatten().filter(|told| told.after >= first);
            for peak in told.map(|told| told.record).filter(|peak| peak.scope == moment.scope) {
                peaks.set_ring(peak.ring as usize, peak.most());
            }
            let told = self.whole_peak.filter(|told| told.after >= first);
            if let Some(peak) = told.map(|told| told.record).filter(|peak| peak.scope == moment.scope) {
                (peaks.tensormap, peak_fanin) = (peak.tensormap, peak.fanin);
            }
        }
        let own = used.ring(ring);
        let sample = ScopeSample {
            at: moment.at,
            site: u32::from(mark.site),
            phase,
            ring: ring as u8,
            depth: mark.depth,
            scope: moment.scope,
            fatal: mark.before & ScopeMark::FATAL != 0,
            window_tail: heads.window.saturating_sub(u64::from(own.window)),
            window_head: heads.window,
            heap_tail: heads.heap.saturating_sub(own.heap),
            heap_head: heads.heap,
            dep_tail: heads.dep_pool.saturating_sub(u64::from(own.dep_pool)),
            dep_head: heads.dep_pool,
            tensormap: moment.tensormap,
            peak_tensormap: if phase == ScopePhase::End { peaks.tensormap } else { 0 },
            peak_fanin,
            ..ScopeSample::default()
        };
        Some(FullSample { sample, used, peaks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_abi::record::{Moment, NearHeads, NearMoment, ScopeBase, ScopeMoment, ScopeTag, ScopeUsed};
    use plimsoll_abi::{Heads, RingUse};

    fn used(ring: usize, window: u32) -> ScopeRecord {
        ScopeUsed::of(ring, RingUse { window, dep_pool: 2 * window, heap: u64::from(window) << 40 }).into()
    }

    fn base(ring: usize, window: u64) -> ScopeRecord {
        ScopeBase::of(ring, &Heads { window, heap: u64::MAX, dep_pool: window }).into()
    }

    fn moment(at: u64, scope: u32, tensormap: u32) -> ScopeRecord {
        ScopeMoment::of(&Moment { at, scope, tensormap }).into()
    }

    /// A mark of ring 1, so many tasks after its base.
    fn mark_at(tag: ScopeTag, scope: u16, before: u8, window: u16) -> ScopeRecord {
        ScopeMark { tag: tag as u8, before, depth: 1, scope, window, ..ScopeMark::default() }.into()
    }

    fn mark(tag: ScopeTag, scope: u16, before: u8) -> ScopeRecord {
        mark_at(tag, scope, before, 0)
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
        let mut told = vec![moment(0, 0, 0), used(0, 0), base(1, 1 << 40), used(1, 5), used(2, 0), used(3, 8)];
        told.push(mark(ScopeTag::Begin, 1, 6));
        told
    }

    #[test]
    fn the_use_of_a_scopes_ring_grows_with_its_heads() {
        let mut records = told();
        records.extend([
            mark_at(ScopeTag::End, 1, 0, 6),
            // Something was given back; what is told holds for the next mark of the ring, from there on use grows.
            used(1, 2),
            mark_at(ScopeTag::Begin, 2, 1, 7),
            mark_at(ScopeTag::End, 2, 0, u16::MAX),
            base(1, (1 << 40) + 70_000),
            mark_at(ScopeTag::Begin, 3, 1, 0),
        ]);
        let base = 1 << 40;
        let found = |scope, tail, head| (scope, base + tail, base + head, 8);
        let before = vec![(1, base - 5, base, 8), (1, base - 5, base + 6, 8)];
        let after = vec![found(2, 5, 7), found(2, 5, 65_535), found(3, 5, 70_000)];
        assert_eq!(decode(&records), ([before, after].concat(), 0));
    }

    #[test]
    fn heads_out_of_reach_of_a_base_are_not_spelt() {
        let base = Heads { window: 1 << 40, heap: 1 << 50, dep_pool: 7 };
        let far = Heads { window: base.window + 65_535, heap: base.heap + u64::from(u32::MAX), dep_pool: 65_542 };
        let near = NearHeads::of(&far, &base).expect("within reach");
        assert_eq!((near, near.from(&base)), (NearHeads { window: 65_535, heap: u32::MAX, dep_pool: 65_535 }, far));
        for beyond in [
            Heads { window: far.window + 1, ..far },
            Heads { heap: far.heap + 1, ..far },
            Heads { dep_pool: far.dep_pool + 1, ..far },
            Heads { window: base.window - 1, ..far },
            Heads { heap: base.heap - 1, ..far },
            Heads { dep_pool: base.dep_pool - 1, ..far },
        ] {
            assert_eq!(NearHeads::of(&beyond, &base), None);
        }
    }

    #[test]
    fn a_moment_out_of_reach_is_not_spelt() {
        let base = Moment { at: 1 << 50, scope: 1 << 20, tensormap: 7 };
        let far = Moment { at: base.at + u64::from(u32::MAX), scope: base.scope + 65_535, tensormap: 65_542 };
        let near = NearMoment::of(&far, &base).expect("within reach");
        assert_eq!(near, NearMoment { at: u32::MAX, scope: 65_535, tensormap: 65_535 });
        assert_eq!(near.from(&base), far);
        for beyond in [
            Moment { at: far.at + 1, ..far },
            Moment { scope: far.scope + 1, ..far },
            Moment { tensormap: far.tensormap + 1, ..far },
            Moment { at: base.at - 1, ..far },
            Moment { scope: base.scope - 1, ..far },
            Moment { tensormap: base.tensormap - 1, ..far },
        ] {
            assert_eq!(NearMoment::of(&beyond, &base), None);
        }
    }

    #[test]
    fn a_moment_is_told_with_room_below() {
        for (scope, tensormap) in [(0, 0), (32_768, 9), (70_000, 32_769), (u32::MAX, u32::MAX)] {
            let now = Moment { at: 5, scope, tensormap };
            let from = ScopeMoment::for_marks_from(&now).moment();
            let older =
                Moment { at: 5, scope: scope.saturating_sub(32_768), tensormap: tensormap.saturating_sub(32_768) };
            let newer = Moment {
                at: 5 + u64::from(u32::MAX),
                scope: scope.saturating_add(32_767),
                tensormap: tensormap.saturating_add(32_767),
            };
            for other in [now, older, newer] {
                let near = NearMoment::of(&other, &from).expect("within reach");
                assert_eq!(near.from(&from), other);
            }
        }
    }

    #[test]
    fn a_mark_counts_from_the_moment_that_was_told_last() {
        let mut records = told();
        let near =
            ScopeMark { tag: ScopeTag::End as u8, depth: 1, at: 9, tensormap: 8, scope: 7, ..ScopeMark::default() };
        let again = ScopeMark { before: 1, ..near };
        records.extend([near.into(), moment(u64::MAX, 1 << 20, u32::MAX), again.into(), near.into()]);
        let (mut decoder, mut quality) = (ScopeDecoder::default(), Quality::default());
        let found: Vec<(u64, u32, u32)> = records
            .iter()
            .filter_map(|record| decoder.take(*record, &mut quality))
            .map(|full| (full.sample.at, full.sample.scope, full.used.tensormap))
            .collect();
        let far = (8, (1 << 20) + 7, 7);
        assert_eq!(found, [(0, 1, 0), (9, 7, 8), far, far], "whatever a damaged moment says wraps around");
    }

    #[test]
    fn a_mark_without_its_moment_is_not_shown_but_built_upon() {
        let mut records = told().split_off(1);
        records[5] = mark(ScopeTag::Begin, 1, 5);
        records.push(mark_at(ScopeTag::End, 1, 0, 3));
        assert_eq!(decode(&records), (vec![], 2));
        records.extend([moment(0, 0, 0), mark_at(ScopeTag::Begin, 2, 1, 4)]);
        let base = 1 << 40;
        assert_eq!(decode(&records), (vec![(2, base - 5, base + 4, 8)], 2));
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
            // The peak is in front of what belongs to the mark.
            peak(4),
            used(2, 0),
            mark(ScopeTag::End, 4, 1),
        ]);
        let peaks: Vec<u32> = decode(&records).0.iter().map(|found| found.3).collect();
        assert_eq!(peaks, [8, 8, 99, 8, 8]);
    }

    #[test]
    fn so_are_the_peaks_of_no_ring() {
        let peak = |scope| ScopeWholePeak::of(scope, 77, 1 << 20).into();
        let mut records = told();
        records.extend([
            peak(7),
            mark(ScopeTag::End, 6, 0),
            peak(5),
            mark(ScopeTag::End, 5, 1),
            mark(ScopeTag::End, 5, 0),
            peak(8),
            mark(ScopeTag::Begin, 8, 1),
        ]);
        let (mut decoder, mut quality) = (ScopeDecoder::default(), Quality::default());
        let samples = records.iter().filter_map(|record| decoder.take(*record, &mut quality));
        let peaks: Vec<(u32, u32)> = samples.map(|full| (full.peaks.tensormap, full.sample.peak_fanin)).collect();
        assert_eq!(peaks, [(0, 0), (0, 0), (77, 1 << 20), (0, 0), (0, 0)]);
    }

    #[test]
    fn records_lost_in_front_hide_the_samples_that_need_them() {
        for lost in 1..=6 {
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
        for len in 7..14 {
            assert_eq!(decode(&records[..len]), (vec![(1, (1 << 40) - 5, 1 << 40, 8)], 0), "cut to {len}");
        }
    }

    #[test]
    fn a_mark_without_its_base_is_not_shown_nor_built_upon() {
        let mut records = vec![moment(0, 0, 0), used(0, 0), used(1, 1), used(2, 0), used(3, 0)];
        records.push(mark(ScopeTag::Begin, 1, 5));
        records.extend([base(1, 9), mark_at(ScopeTag::End, 1, 1, 3)]);
        assert_eq!(decode(&records), (vec![], 2), "nobody knows by how much the use grew in between");
        records.extend([used(1, 2), mark_at(ScopeTag::Begin, 2, 1, 3)]);
        assert_eq!(decode(&records), (vec![(2, 10, 12, 0)], 2));
    }

    #[test]
    fn records_without_a_known_tag_or_ring_are_findings() {
        let (mut decoder, mut quality) = (ScopeDecoder::default(), Quality::default());
        for word in [7, 0xff, 0x0402, 0xff04] {
            assert_eq!(decoder.take(ScopeRecord::from_words([word, 0, 0]), &mut quality), None);
        }
        assert_eq!(quality.count(FindingKind::BadRecord), 4);
    }
}
