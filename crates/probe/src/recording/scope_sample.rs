//! Kind 4: the begin or the end of a scope, written as a mark and what has changed since the sample before it.

use super::RecordingLane;
use crate::ScopeSample;
use plimsoll_abi::record::{ScopeBase, ScopeMark, ScopePeak, ScopePhase, ScopeRecord, ScopeRing, ScopeTag};
use plimsoll_abi::{Flags, Heads, RINGS, RingUse, Usage};
use plimsoll_shm::World;

impl<W: World> RecordingLane<'_, W> {
    #[inline]
    pub(super) fn write_scope_sample(&mut self, sample: &ScopeSample<'_>) {
        if self.flags.has(Flags::SCOPE_STATS) {
            let at = self.context.world.ticks();
            let (writer, context) = (&mut self.scope_sample, &mut self.context);
            self.scope_told.tell(sample, at, |record| writer.push(record, context));
        }
    }
}

/// What a reader of the records that were kept so far knows of the rings.
#[derive(Debug, Default)]
pub(super) struct ScopeTold {
    used: Usage,
    heads: [Heads; RINGS],
    bases: [Heads; RINGS],
    /// Which of these were told: in bit `r` the use of ring r, in bit `RINGS + r` its heads and its base. A lane may not
    /// be the first that writes its pool, so at first nothing is taken for told.
    known: u8,
    /// Samples until everything is told anew.
    left: u32,
}

/// Bits of [`ScopeTold::known`].
const ALL_USES: u8 = (1 << RINGS) - 1;
const HEADS: u8 = 1 << RINGS;
/// A reader that misses a buffer does without at most this many samples more. Telling everything takes some six records.
const ANEW: u32 = 512;

/// A record was lost: the sample is given up.
struct Lost;

impl ScopeTold {
    /// Writes a sample. `keep` says whether a record was kept.
    #[inline(always)]
    pub(super) fn tell(&mut self, sample: &ScopeSample<'_>, at: u64, mut keep: impl FnMut(ScopeRecord) -> bool) {
        if self.left == 0 {
            (self.known, self.left) = (0, ANEW);
        }
        self.left -= 1;
        let ring = sample.ring();
        let mut before = 0;
        if !self.covers(sample, ring) {
            match self.tell_rings(ring, sample.heads, sample.used, &mut keep) {
                Ok(told) => before += told,
                Err(Lost) => return,
            }
        }
        let ends = sample.phase == ScopePhase::End;
        if ends && !sample.peaks.same_rings(sample.used) {
            match tell_peaks(sample.scope, sample.used, sample.peaks, &mut keep) {
                Ok(told) => before += told,
                Err(Lost) => return,
            }
        }
        let mark = ScopeMark {
            tag: if ends { ScopeTag::End } else { ScopeTag::Begin } as u8,
            before: before | if sample.fatal { ScopeMark::FATAL } else { 0 },
            depth: sample.depth,
            site: sample.site.0,
            at,
            scope: sample.scope,
            tensormap: sample.used.tensormap,
            peak_tensormap: if ends { sample.peaks.tensormap } else { 0 },
            peak_fanin: if ends { sample.peak_fanin } else { 0 },
        };
        keep(mark.into());
    }

    /// Whether a mark alone says everything.
    #[inline(always)]
    fn covers(&self, sample: &ScopeSample<'_>, ring: usize) -> bool {
        let needed = ALL_USES | HEADS << ring;
        self.known & needed == needed && self.used.same_rings(sample.used) && self.heads[ring] == sample.heads
    }

    /// Tells what a reader needs and does not know: how many records it took.
    #[inline(never)]
    fn tell_rings(
        &mut self,
        own: usize,
        heads: Heads,
        used: &Usage,
        keep: &mut impl FnMut(ScopeRecord) -> bool,
    ) -> Result<u8, Lost> {
        let mut told = 0;
        if self.known & HEADS << own == 0 || self.heads[own] != heads {
            told += self.tell_heads(own, heads, used.ring(own), keep)?;
        }
        // Mostly a scope submits to its own ring alone.
        if self.known & ALL_USES == ALL_USES && self.used.same_rings(used) {
            return Ok(told);
        }
        for ring in 0..RINGS {
            let now = used.ring(ring);
            if self.known & 1 << ring == 0 || self.used.ring(ring) != now {
                told += kept(keep, ScopeRing::used(ring, now).into())?;
                self.used.set_ring(ring, now);
                self.known |= 1 << ring;
            }
        }
        Ok(told)
    }

    /// Tells the heads of the scope's own ring, and its use with them where both fit one record.
    #[inline(always)]
    fn tell_heads(
        &mut self,
        own: usize,
        heads: Heads,
        used: RingUse,
        keep: &mut impl FnMut(ScopeRecord) -> bool,
    ) -> Result<u8, Lost> {
        let near = ScopeRing::used(own, used).with_heads(&heads, &self.bases[own]);
        let told = match near.filter(|_| self.known & HEADS << own != 0) {
            Some(near) => {
                let told = kept(keep, near.into())?;
                self.used.set_ring(own, used);
                self.known |= 1 << own;
                told
            }
            None => {
                let told = kept(keep, ScopeBase::of(own, &heads).into())?;
                self.bases[own] = heads;
                self.known |= HEADS << own;
                told
            }
        };
        self.heads[own] = heads;
        Ok(told)
    }
}

/// Tells the peaks of the rings that have less in use at the end of the scope: how many records it took.
#[inline(never)]
fn tell_peaks(scope: u32, used: &Usage, peaks: &Usage, keep: &mut impl FnMut(ScopeRecord) -> bool) -> Result<u8, Lost> {
    let mut told = 0;
    for ring in (0..RINGS).filter(|&ring| peaks.ring(ring) != used.ring(ring)) {
        told += kept(keep, ScopePeak::of(scope, ring, peaks.ring(ring)).into())?;
    }
    Ok(told)
}

/// Counts a record that was kept.
#[inline(always)]
fn kept(keep: &mut impl FnMut(ScopeRecord) -> bool, record: ScopeRecord) -> Result<u8, Lost> {
    if keep(record) { Ok(1) } else { Err(Lost) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_abi::SiteId;
    use plimsoll_trace::{FullSample, Quality, ScopeDecoder, ScopeSamples};
    use proptest::prelude::*;

    /// A sample by its values.
    #[derive(Clone, Debug)]
    struct Given {
        ends: bool,
        fatal: bool,
        depth: u16,
        numbers: [u32; 5],
        heads: Heads,
        used: Usage,
        peaks: Usage,
    }

    impl Given {
        fn sample(&self) -> ScopeSample<'_> {
            let [site, scope, _, _, peak_fanin] = self.numbers;
            ScopeSample {
                phase: if self.ends { ScopePhase::End } else { ScopePhase::Begin },
                site: SiteId(site),
                depth: self.depth,
                scope,
                fatal: self.fatal,
                heads: self.heads,
                used: &self.used,
                peaks: &self.peaks,
                peak_fanin,
            }
        }

        fn assert_is(&self, full: &FullSample) {
            let (sample, found) = (self.sample(), full.sample);
            let own = self.used.ring(sample.ring());
            assert_eq!(full.used, self.used);
            assert_eq!(full.peaks, if self.ends { self.peaks } else { self.used });
            let said = (found.phase, found.ring as usize, found.depth, found.site, found.scope, found.fatal);
            assert_eq!(said, (sample.phase, sample.ring(), self.depth, sample.site.0, sample.scope, self.fatal));
            let heads = Heads { window: found.window_head, heap: found.heap_head, dep_pool: found.dep_head };
            assert_eq!(heads, self.heads);
            assert_eq!(found.window_tail, heads.window - u64::from(own.window));
            assert_eq!(found.heap_tail, heads.heap - own.heap);
            assert_eq!(found.dep_tail, heads.dep_pool - u64::from(own.dep_pool));
            let peaks = if self.ends { (self.peaks.tensormap, sample.peak_fanin) } else { (0, 0) };
            assert_eq!(
                (found.tensormap, found.peak_tensormap, found.peak_fanin),
                (self.used.tensormap, peaks.0, peaks.1)
            );
        }
    }

    /// Mostly as before or a little more; now and then anything.
    fn amount() -> impl Strategy<Value = u64> {
        prop_oneof![6 => Just(0u64), 3 => 0u64..4, 1 => any::<u32>().prop_map(u64::from), 1 => 0..1u64 << 60]
    }

    fn usage() -> impl Strategy<Value = Usage> {
        let ring = || (amount(), amount(), amount());
        ([ring(), ring(), ring(), ring()], any::<u32>()).prop_map(|(rings, tensormap)| {
            let mut usage = Usage { tensormap, ..Usage::NONE };
            for (ring, (window, heap, dep_pool)) in rings.into_iter().enumerate() {
                usage.set_ring(ring, RingUse { window: window as u32, heap, dep_pool: dep_pool as u32 });
            }
            usage
        })
    }

    fn given() -> impl Strategy<Value = Given> {
        let moved = (amount(), amount(), amount());
        let flags = (any::<bool>(), proptest::bool::weighted(0.1), proptest::bool::weighted(0.6));
        (flags, 0u16..7, any::<[u32; 5]>(), moved, usage(), usage()).prop_map(
            |(flags, depth, numbers, moved, used, more)| {
                let (ends, fatal, plain) = flags;
                let own = used.ring((depth as usize).min(RINGS - 1));
                let heads = Heads {
                    window: u64::from(own.window) + moved.0,
                    heap: own.heap + moved.1,
                    dep_pool: u64::from(own.dep_pool) + moved.2,
                };
                let mut peaks = used;
                if !plain {
                    peaks.raise_to(&more);
                }
                Given { ends, fatal, depth, numbers, heads, used, peaks }
            },
        )
    }

    /// The records of the samples, each with the number of its sample, as far as they are kept.
    fn write(given: &[Given], mut keep: impl FnMut() -> bool) -> Vec<(usize, ScopeRecord)> {
        let mut told = ScopeTold::default();
        let mut records = Vec::new();
        for (at, given) in given.iter().enumerate() {
            told.tell(&given.sample(), at as u64, |record| {
                let kept = keep();
                records.extend(kept.then_some((at, record)));
                kept
            });
        }
        records
    }

    /// Reads records; every sample that comes out is the one that went in.
    fn read(given: &[Given], decoder: &mut ScopeDecoder, records: &[(usize, ScopeRecord)]) -> (Vec<usize>, Quality) {
        let mut quality = Quality::default();
        let full: Vec<FullSample> =
            records.iter().filter_map(|(_, record)| decoder.take(*record, &mut quality)).collect();
        full.iter().for_each(|full| given[full.sample.at as usize].assert_is(full));
        (full.iter().map(|full| full.sample.at as usize).collect(), quality)
    }

    fn samples() -> impl Strategy<Value = Vec<Given>> {
        // Neighbours are mostly alike, as an empty scope's are.
        proptest::collection::vec((given(), 1usize..4), 1..80)
            .prop_map(|runs| runs.into_iter().flat_map(|(given, times)| std::iter::repeat_n(given, times)).collect())
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(given in samples()) {
            let records = write(&given, || true);
            let (found, quality) = read(&given, &mut ScopeDecoder::default(), &records);
            prop_assert_eq!(found, (0..given.len()).collect::<Vec<_>>());
            prop_assert!(quality.findings().is_empty(), "{:?}", quality);
        }

        #[test]
        fn what_the_model_keeps_is_what_was_read(given in samples()) {
            let (mut decoder, mut quality) = (ScopeDecoder::default(), Quality::default());
            let mut model = ScopeSamples::default();
            for (_, record) in write(&given, || true) {
                if let Some(full) = decoder.take(record, &mut quality) {
                    model.push(full.sample, &full.used, &full.peaks);
                }
            }
            for (at, given) in given.iter().enumerate() {
                prop_assert_eq!(model.used(at), given.used);
                prop_assert!(!given.ends || model.true_peaks(at) == given.peaks);
            }
            for ring in 0..RINGS {
                let changes: Vec<_> = model.changes(ring).collect();
                prop_assert_eq!(changes[0], (0, given[0].used.ring(ring)));
                prop_assert!(changes.iter().all(|(at, now)| given[*at].used.ring(ring) == *now));
                prop_assert!(changes.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1));
            }
        }

        /// The writer knows what it dropped: a sample that lost a record is missing, all others are right.
        #[test]
        fn dropped_records_cost_their_own_samples(given in samples(), kept in proptest::collection::vec(any::<bool>(), 1..99)) {
            let mut turns = kept.iter().cycle().copied();
            let mut marks = Vec::new();
            let records = write(&given, || turns.next().unwrap_or(true));
            for (at, record) in &records {
                if matches!(record.read(), Some(plimsoll_abi::record::ScopeSays::Mark(..))) {
                    marks.push(*at);
                }
            }
            let (found, quality) = read(&given, &mut ScopeDecoder::default(), &records);
            prop_assert_eq!(found, marks, "a mark is written only if it can be read");
            prop_assert!(quality.findings().is_empty(), "{:?}", quality);
        }

        /// A reader that misses a stretch, in front, in the middle or at the end, shows nothing wrong and says what it left out.
        #[test]
        fn a_missing_stretch_hides_what_is_built_on_it(given in samples(), cut in any::<[prop::sample::Index; 2]>()) {
            let records = write(&given, || true);
            let mut cut = cut.map(|at| at.index(records.len() + 1));
            cut.sort();
            let mut decoder = ScopeDecoder::default();
            let (mut found, first) = read(&given, &mut decoder, &records[..cut[0]]);
            decoder.forget();
            let (after, second) = read(&given, &mut decoder, &records[cut[1]..]);
            found.extend(after);
            prop_assert!(first.findings().is_empty());
            let marks = |range: &[(usize, ScopeRecord)]| {
                let is_mark = |record: &ScopeRecord| matches!(record.read(), Some(plimsoll_abi::record::ScopeSays::Mark(..)));
                range.iter().filter(|(_, record)| is_mark(record)).count()
            };
            let left_out = second.count(plimsoll_trace::FindingKind::UnknownCounters) as usize;
            prop_assert_eq!(found.len() + left_out, marks(&records[..cut[0]]) + marks(&records[cut[1]..]));
        }
    }

    #[test]
    fn an_empty_scope_is_two_records_and_one_of_a_task_is_three() {
        let mut used = Usage::NONE;
        let mut given = Vec::new();
        let mut sample = |ends, used: Usage| {
            let heads = Heads { window: u64::from(used.window[1]), ..Heads::default() };
            given.push(Given { ends, fatal: false, depth: 1, numbers: [1; 5], heads, used, peaks: used });
        };
        for _ in 0..100 {
            sample(false, used);
            used.window[1] += 1;
            sample(true, used);
        }
        (0..100).for_each(|at| sample(at % 2 == 1, used));
        assert_eq!(write(&given, || true).len(), 5 + 100 * 3 + 100);
    }

    #[test]
    fn everything_is_told_anew_from_time_to_time() {
        let still = Given {
            ends: false,
            fatal: false,
            depth: 2,
            numbers: [0; 5],
            heads: Heads { window: 7, heap: u64::MAX, dep_pool: 9 },
            used: Usage { window: [1, 2, 3, 4], ..Usage::NONE },
            peaks: Usage::NONE,
        };
        let given = vec![still; 2 * ANEW as usize];
        let records = write(&given, || true);
        let (found, quality) = read(&given, &mut ScopeDecoder::default(), &records[100..]);
        assert_eq!(found, (ANEW as usize..2 * ANEW as usize).collect::<Vec<_>>());
        assert_eq!(quality.count(plimsoll_trace::FindingKind::UnknownCounters), u64::from(ANEW) - 95);
    }
}
