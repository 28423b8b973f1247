//! Kind 4: the begin or the end of a scope, written as a mark, after what a reader would not know otherwise.

use super::RecordingLane;
use crate::ScopeSample;
use plimsoll_abi::record::{
    NearHeads, ScopeAccount, ScopeBase, ScopeMark, ScopePeak, ScopePhase, ScopeRecord, ScopeTag, ScopeUsed,
};
use plimsoll_abi::{Flags, RINGS};
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

/// What a reader of the records that were kept so far knows. A lane may not be the first that writes its pool, so at first
/// nothing is taken for told.
#[derive(Debug, Default)]
pub(super) struct ScopeTold {
    account: ScopeAccount,
    /// Rings of which the account may be wrong when a mark of them comes next, as a mask.
    unsure: u8,
    /// Samples until everything is told anew.
    left: u32,
}

/// A reader that misses a buffer does without at most this many samples more. Telling everything takes some six records.
const ANEW: u32 = 512;

/// A record was lost: the sample is given up.
struct Lost;

impl ScopeTold {
    /// Writes a sample. `keep` says whether a record was kept.
    #[inline(always)]
    pub(super) fn tell(&mut self, sample: &ScopeSample<'_>, at: u64, mut keep: impl FnMut(ScopeRecord) -> bool) {
        let own = sample.ring();
        if self.left > 0
            && (sample.changed | self.unsure >> own & 1) == 0
            && peaks_follow(sample)
            && let Some(heads) = self.account.covers(own, &sample.heads)
        {
            debug_assert!(self.is_right(own, sample), "{sample:?} after {self:?}");
            self.left -= 1;
            if keep(mark(sample, at, heads, 0)) {
                self.account.covered(own, sample.used.ring(own));
            } else {
                self.unsure = ScopeSample::ANY_RING;
            }
        } else {
            // A copy, so that the sample itself can stay in registers.
            self.tell_more(&{ *sample }, at, &mut keep);
        }
    }

    /// Writes a sample whose mark may not tell everything.
    #[cold]
    #[inline(never)]
    fn tell_more(&mut self, sample: &ScopeSample<'_>, at: u64, keep: &mut impl FnMut(ScopeRecord) -> bool) {
        if self.left == 0 {
            self.account.forget();
            self.left = ANEW;
        }
        self.left -= 1;
        let own = sample.ring();
        let told = self.tell_before(own, sample, keep);
        if told.is_ok_and(|(heads, before)| keep(mark(sample, at, heads, before))) {
            self.account.move_to(own, &sample.heads);
            // Of the other rings the use is right, but it may be by chance that it is still the same.
            self.unsure = (self.unsure | sample.changed) & !(1 << own);
        } else {
            self.unsure = ScopeSample::ANY_RING;
        }
    }

    /// Whether a reader gets the use of all rings right from a mark alone.
    fn is_right(&self, own: usize, sample: &ScopeSample<'_>) -> bool {
        (0..RINGS).all(|ring| self.account.covers_ring(ring, sample.used.ring(ring), own, &sample.heads))
    }

    /// Tells what a reader needs and does not know: how the mark spells the heads, and how many records it took.
    fn tell_before(
        &mut self,
        own: usize,
        sample: &ScopeSample<'_>,
        keep: &mut impl FnMut(ScopeRecord) -> bool,
    ) -> Result<(NearHeads, u8), Lost> {
        let mut told = 0;
        let heads = match self.account.near(own, &sample.heads) {
            Some(heads) => heads,
            None => {
                told += kept(keep, ScopeBase::of(own, &sample.heads).into())?;
                self.account.tell_base(own, sample.heads);
                NearHeads::default()
            }
        };
        for ring in 0..RINGS {
            let used = sample.used.ring(ring);
            if !self.account.covers_ring(ring, used, own, &sample.heads) {
                told += kept(keep, ScopeUsed::of(ring, used).into())?;
                self.account.tell_used(ring, used);
            }
        }
        if !peaks_follow(sample) {
            told += tell_peaks(own, sample, keep)?;
        }
        Ok((heads, told))
    }
}

#[inline(always)]
fn mark(sample: &ScopeSample<'_>, at: u64, heads: NearHeads, before: u8) -> ScopeRecord {
    debug_assert!(sample.site.0 <= u32::from(u16::MAX), "a number of the site table");
    let ends = sample.phase == ScopePhase::End;
    let mark = ScopeMark {
        tag: if ends { ScopeTag::End } else { ScopeTag::Begin } as u8,
        before: before | if sample.fatal { ScopeMark::FATAL } else { 0 },
        depth: sample.depth,
        site: sample.site.0 as u16,
        // What does not fit is in a peak.
        peak_fanin: if ends { sample.peak_fanin as u16 } else { 0 },
        at,
        scope: sample.scope,
        tensormap: sample.used.tensormap,
        heads,
    };
    mark.into()
}

/// Whether the peaks of a scope are those that a reader takes for granted; those of one that begins always are.
#[inline(always)]
fn peaks_follow(sample: &ScopeSample<'_>) -> bool {
    let told = sample.peak_fanin <= u32::from(u16::MAX) && sample.peaks.is_none_or(|peaks| peaks == sample.used);
    told || sample.phase == ScopePhase::Begin
}

/// Tells the peaks of the rings that have less in use at the end of the scope, of its own if there are none: how many
/// records it took.
fn tell_peaks(own: usize, sample: &ScopeSample<'_>, keep: &mut impl FnMut(ScopeRecord) -> bool) -> Result<u8, Lost> {
    let peaks = sample.peaks.unwrap_or(sample.used);
    let same_rings = peaks.same_rings(sample.used);
    let mut told = 0;
    for ring in 0..RINGS {
        let most = peaks.ring(ring);
        if most != sample.used.ring(ring) || (same_rings && ring == own) {
            let peak = ScopePeak::of(sample.scope, ring, most, peaks.tensormap, sample.peak_fanin);
            told += kept(keep, peak.into())?;
        }
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
    use plimsoll_abi::{Heads, RingUse, SiteId, Usage};
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
        changed: u8,
        /// `None` if they are what is in use, and not told.
        peaks: Option<Usage>,
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
                changed: self.changed,
                peaks: self.peaks.as_ref(),
                peak_fanin,
            }
        }

        fn true_peaks(&self) -> Usage {
            self.peaks.unwrap_or(self.used)
        }

        fn assert_is(&self, full: &FullSample) {
            let (sample, found) = (self.sample(), full.sample);
            let own = self.used.ring(sample.ring());
            let peaks = self.true_peaks();
            assert_eq!(full.used, self.used);
            assert_eq!(full.peaks, if self.ends { peaks } else { self.used });
            let said = (found.phase, found.ring as usize, found.depth, found.site, found.scope, found.fatal);
            assert_eq!(said, (sample.phase, sample.ring(), self.depth, sample.site.0, sample.scope, self.fatal));
            let heads = Heads { window: found.window_head, heap: found.heap_head, dep_pool: found.dep_head };
            assert_eq!(heads, self.heads);
            assert_eq!(found.window_tail, heads.window - u64::from(own.window));
            assert_eq!(found.heap_tail, heads.heap - own.heap);
            assert_eq!(found.dep_tail, heads.dep_pool - u64::from(own.dep_pool));
            let peaks = if self.ends { (peaks.tensormap, sample.peak_fanin) } else { (0, 0) };
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
                let numbers = [numbers[0] % 4097, numbers[1], numbers[2], numbers[3], numbers[4] >> (numbers[3] % 32)];
                Given { ends, fatal, depth, numbers, heads, used, changed: ScopeSample::ANY_RING, peaks: Some(peaks) }
            },
        )
    }

    /// What happens between two samples: something is submitted to the ring of the scope that was innermost, perhaps the
    /// rings of a mask give something back, then a scope begins or ends at a depth one more or one less.
    #[derive(Clone, Debug)]
    struct Step {
        submitted: (u64, u64, u64),
        gives_back: u8,
        deeper: bool,
    }

    fn step() -> impl Strategy<Value = Step> {
        let gives_back = prop_oneof![3 => Just(0u8), 1 => 0u8..16];
        (amount(), amount(), amount(), gives_back, any::<bool>()).prop_map(
            |(window, heap, dep_pool, gives_back, deeper)| Step {
                submitted: (window % (1 << 20), heap, dep_pool % (1 << 20)),
                gives_back,
                deeper,
            },
        )
    }

    /// The samples of rings that move by these steps, each with no more in `changed` than it must have.
    fn lived(steps: &[Step]) -> Vec<Given> {
        let (mut heads, mut tails) = ([Heads::default(); RINGS], [Heads::default(); RINGS]);
        let (mut depth, mut given) = (0u16, Vec::new());
        let ring_of = |depth: u16| usize::from(depth).min(RINGS - 1);
        for (at, step) in steps.iter().enumerate() {
            let to = ring_of(depth);
            // Who submits nothing allocates nothing.
            if step.submitted.0 > 0 {
                heads[to].window += step.submitted.0;
                heads[to].heap += step.submitted.1;
                heads[to].dep_pool += step.submitted.2;
            }
            for ring in (0..RINGS).filter(|ring| step.gives_back >> ring & 1 == 1) {
                let middle = |tail: u64, head: u64| tail + (head - tail).div_ceil(2);
                tails[ring].window = middle(tails[ring].window, heads[ring].window);
                tails[ring].heap = middle(tails[ring].heap, heads[ring].heap);
                tails[ring].dep_pool = middle(tails[ring].dep_pool, heads[ring].dep_pool);
            }
            // A scope that ends has the depth that was; one that begins, the next.
            let ends = !step.deeper && depth > 0;
            let of = if ends { depth } else { depth + 1 };
            depth = if ends { depth - 1 } else { depth + 1 };
            let own = ring_of(of);
            let mut changed = step.gives_back;
            if step.submitted.0 > 0 && to != own {
                changed |= 1 << to;
            }
            let mut used = Usage { tensormap: at as u32, ..Usage::NONE };
            for ring in 0..RINGS {
                let (head, tail) = (&heads[ring], &tails[ring]);
                let use_of = RingUse {
                    window: (head.window - tail.window) as u32,
                    heap: head.heap - tail.heap,
                    dep_pool: (head.dep_pool - tail.dep_pool) as u32,
                };
                used.set_ring(ring, use_of);
            }
            let numbers = [1, at as u32, 0, 0, 2];
            given.push(Given { ends, fatal: false, depth: of, numbers, heads: heads[own], used, changed, peaks: None });
        }
        given
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

    /// Samples of any values; and such as rings live through, of which most marks stand alone.
    fn histories() -> impl Strategy<Value = Vec<Given>> {
        prop_oneof![samples(), proptest::collection::vec(step(), 1..200).prop_map(|steps| lived(&steps))]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(given in histories()) {
            let records = write(&given, || true);
            let (found, quality) = read(&given, &mut ScopeDecoder::default(), &records);
            prop_assert_eq!(found, (0..given.len()).collect::<Vec<_>>());
            prop_assert!(quality.findings().is_empty(), "{:?}", quality);
        }

        #[test]
        fn what_the_model_keeps_is_what_was_read(given in histories()) {
            let (mut decoder, mut quality) = (ScopeDecoder::default(), Quality::default());
            let mut model = ScopeSamples::default();
            for (_, record) in write(&given, || true) {
                if let Some(full) = decoder.take(record, &mut quality) {
                    model.push(full.sample, &full.used, &full.peaks);
                }
            }
            for (at, given) in given.iter().enumerate() {
                prop_assert_eq!(model.used(at), given.used);
                prop_assert!(!given.ends || model.true_peaks(at) == given.true_peaks());
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
        fn dropped_records_cost_their_own_samples(given in histories(), kept in proptest::collection::vec(any::<bool>(), 1..99)) {
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
        fn a_missing_stretch_hides_what_is_built_on_it(given in histories(), cut in any::<[prop::sample::Index; 2]>()) {
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
    fn a_scope_is_two_records_as_long_as_nothing_is_given_back() {
        let mut used = Usage::NONE;
        let mut given = Vec::new();
        let mut sample = |ends, used: Usage| {
            let heads = Heads { window: u64::from(used.window[1]), ..Heads::default() };
            let changed = if given.is_empty() { ScopeSample::ANY_RING } else { 0 };
            given.push(Given { ends, fatal: false, depth: 1, numbers: [1; 5], heads, used, changed, peaks: None });
        };
        for _ in 0..100 {
            sample(false, used);
            used.window[1] += 1;
            sample(true, used);
        }
        (0..100).for_each(|at| sample(at % 2 == 1, used));
        assert_eq!(write(&given, || true).len(), 5 + 100 * 2 + 100);
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
            changed: 0,
            peaks: None,
        };
        let given = vec![still; 2 * ANEW as usize];
        let records = write(&given, || true);
        let (found, quality) = read(&given, &mut ScopeDecoder::default(), &records[100..]);
        assert_eq!(found, (ANEW as usize..2 * ANEW as usize).collect::<Vec<_>>());
        assert_eq!(quality.count(plimsoll_trace::FindingKind::UnknownCounters), u64::from(ANEW) - 95);
    }
}
