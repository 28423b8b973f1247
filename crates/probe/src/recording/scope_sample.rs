//! Kind 4: the begin or the end of a scope, written as a mark, after what a reader would not know otherwise.

use super::RecordingLane;
use crate::ScopeSample;
use plimsoll_abi::record::{
    Moment, NearHeads, NearMoment, ScopeAccount, ScopeBase, ScopeMark, ScopeMoment, ScopePeak, ScopePhase, ScopeRecord,
    ScopeTag, ScopeUsed, ScopeWholePeak,
};
use plimsoll_abi::{Flags, RINGS};
use plimsoll_shm::World;

impl<W: World> RecordingLane<'_, W> {
    #[inline(always)]
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
    /// Rings whose next mark may need something in front, even if nothing has changed; as a mask.
    unsure: u8,
    /// Samples until everything is told anew. A word, because its sign is tested together with others.
    left: u64,
}

/// A reader that misses a buffer does without at most this many samples more. Telling everything takes some seven records.
const ANEW: u64 = 512;

/// A record was lost: the sample is given up.
struct Lost;

impl ScopeTold {
    /// Writes a sample. `keep` says whether a record was kept.
    #[inline(always)]
    pub(super) fn tell(&mut self, sample: &ScopeSample<'_>, at: u64, mut keep: impl FnMut(ScopeRecord) -> bool) {
        let own = sample.ring();
        let (moment, heads, excess) = self.account.spell(own, &moment(sample, at), &sample.heads);
        let left = self.left.wrapping_sub(1);
        // All that stands against a mark alone in one test, because for nearly every sample nothing does.
        let against = u32::from(sample.changed | self.unsure >> own & 1) | sample.peak_fanin >> 16;
        if excess | left >> 32 | u64::from(against) == 0 && usage_follows(sample) {
            debug_assert!(self.is_right(own, sample), "{sample:?} after {self:?}");
            self.left = left;
            if keep(mark(sample, &moment, &heads, 0)) {
                self.account.covered(own, &heads);
            } else {
                self.unsure = ScopeSample::ANY_RING;
            }
        } else {
            // A copy, so that the sample itself can stay in registers; and `keep` by value for the same reason.
            self.tell_more(&{ *sample }, at, keep);
        }
    }

    /// Writes a sample whose mark may not tell everything.
    #[cold]
    #[inline(never)]
    fn tell_more(&mut self, sample: &ScopeSample<'_>, at: u64, mut keep: impl FnMut(ScopeRecord) -> bool) {
        if self.left == 0 {
            self.account.forget();
            self.left = ANEW;
        }
        self.left -= 1;
        let (own, now) = (sample.ring(), moment(sample, at));
        let told = self.tell_before(own, sample, &now, &mut keep);
        let (moment, heads, _) = self.account.spell(own, &now, &sample.heads);
        if told.is_ok_and(|before| keep(mark(sample, &moment, &heads, before))) {
            self.account.move_to(own, &heads);
            // Of the other rings the use is right, but it may be by chance that it is still the same.
            self.unsure = (self.unsure | sample.changed) & !(1 << own);
            (0..RINGS).for_each(|ring| self.unsure |= u8::from(!self.account.suffices(ring)) << ring);
        } else {
            self.unsure = ScopeSample::ANY_RING;
        }
    }

    /// Whether a reader gets everything right from a mark alone.
    fn is_right(&self, own: usize, sample: &ScopeSample<'_>) -> bool {
        let right = |ring| self.account.covers_ring(ring, sample.used.ring(ring), own, &sample.heads);
        self.account.suffices(own) && (0..RINGS).all(right)
    }

    /// Tells what a reader needs and does not know: how many records it took.
    fn tell_before(
        &mut self,
        own: usize,
        sample: &ScopeSample<'_>,
        now: &Moment,
        keep: &mut impl FnMut(ScopeRecord) -> bool,
    ) -> Result<u8, Lost> {
        let mut told = 0;
        if !self.account.reaches_moment(now) {
            let from = ScopeMoment::for_marks_from(now);
            told += kept(keep, from.into())?;
            self.account.tell_moment(from.moment());
        }
        if !self.account.reaches_heads(own, &sample.heads) {
            told += kept(keep, ScopeBase::of(own, &sample.heads).into())?;
            self.account.tell_base(own, sample.heads);
        }
        for ring in 0..RINGS {
            let used = sample.used.ring(ring);
            if !self.account.covers_ring(ring, used, own, &sample.heads) {
                told += kept(keep, ScopeUsed::of(ring, used).into())?;
                self.account.tell_used(ring, used);
            }
        }
        if sample.phase == ScopePhase::End {
            told += tell_peaks(sample, keep)?;
        }
        Ok(told)
    }
}

/// What a mark of the sample says that is of no ring.
#[inline(always)]
fn moment(sample: &ScopeSample<'_>, at: u64) -> Moment {
    Moment { at, scope: sample.scope, tensormap: sample.used.tensormap }
}

/// The mark. Its parts come by reference and are copied one by one, or they would be packed into words on their way.
#[inline(always)]
fn mark(sample: &ScopeSample<'_>, moment: &NearMoment, heads: &NearHeads, before: u8) -> ScopeRecord {
    debug_assert!(sample.site.0 <= u32::from(u16::MAX), "a number of the site table");
    let ends = sample.phase == ScopePhase::End;
    debug_assert!(ends || sample.peak_fanin == 0, "a scope that begins has no tasks");
    let mark = ScopeMark {
        tag: if ends { ScopeTag::End } else { ScopeTag::Begin } as u8,
        before: before | if sample.fatal { ScopeMark::FATAL } else { 0 },
        depth: sample.depth,
        site: sample.site.0 as u16,
        // What does not fit is told in front.
        peak_fanin: sample.peak_fanin as u16,
        at: moment.at,
        tensormap: moment.tensormap,
        scope: moment.scope,
        heap: heads.heap,
        window: heads.window,
        dep_pool: heads.dep_pool,
    };
    mark.into()
}

/// Whether the most that was in use is what a reader takes for granted; for a scope that begins it always is.
#[inline(always)]
fn usage_follows(sample: &ScopeSample<'_>) -> bool {
    sample.peaks.is_none_or(|peaks| peaks == sample.used) || sample.phase == ScopePhase::Begin
}

/// Tells the peaks that are not what is in use at the end of the scope: how many records it took.
fn tell_peaks(sample: &ScopeSample<'_>, keep: &mut impl FnMut(ScopeRecord) -> bool) -> Result<u8, Lost> {
    let (scope, fanin, peaks) = (sample.scope, sample.peak_fanin, sample.peaks.unwrap_or(sample.used));
    let mut told = 0;
    for ring in 0..RINGS {
        let most = peaks.ring(ring);
        if most != sample.used.ring(ring) {
            told += kept(keep, ScopePeak::of(scope, ring, most).into())?;
        }
    }
    if peaks.tensormap != sample.used.tensormap || fanin > u32::from(u16::MAX) {
        told += kept(keep, ScopeWholePeak::of(scope, peaks.tensormap, fanin).into())?;
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
        /// Ticks since the one before, one less.
        later: u64,
        ends: bool,
        fatal: bool,
        depth: u16,
        site: u32,
        scope: u32,
        /// At the end.
        peak_fanin: u32,
        heads: Heads,
        used: Usage,
        changed: u8,
        /// `None` if they are what is in use, and not told.
        peaks: Option<Usage>,
    }

    impl Given {
        fn sample(&self) -> ScopeSample<'_> {
            ScopeSample {
                phase: if self.ends { ScopePhase::End } else { ScopePhase::Begin },
                site: SiteId(self.site),
                depth: self.depth,
                scope: self.scope,
                fatal: self.fatal,
                heads: self.heads,
                used: &self.used,
                changed: self.changed,
                peaks: self.peaks.as_ref(),
                peak_fanin: if self.ends { self.peak_fanin } else { 0 },
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
            assert_eq!(said, (sample.phase, sample.ring(), self.depth, self.site, self.scope, self.fatal));
            let heads = Heads { window: found.window_head, heap: found.heap_head, dep_pool: found.dep_head };
            assert_eq!(heads, self.heads);
            assert_eq!(found.window_tail, heads.window - u64::from(own.window));
            assert_eq!(found.heap_tail, heads.heap - own.heap);
            assert_eq!(found.dep_tail, heads.dep_pool - u64::from(own.dep_pool));
            let peaks = if self.ends { (peaks.tensormap, self.peak_fanin) } else { (0, 0) };
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

    /// Ticks between two samples: about what fits a mark now and then.
    fn ticks() -> impl Strategy<Value = u64> {
        prop_oneof![6 => 0u64..1000, 1 => 0..1u64 << 33, 1 => u64::from(u32::MAX) - 2..=1 << 32, 1 => 0..1u64 << 50]
    }

    /// A number of 32 bits near the ends of what a field of 16 bits reaches from 0, or any.
    fn number() -> impl Strategy<Value = u32> {
        prop_oneof![3 => 0u32..5, 1 => 32_760u32..32_776, 1 => 65_530u32..65_542, 1 => 0u32..1 << 18, 1 => any::<u32>()]
    }

    fn usage() -> impl Strategy<Value = Usage> {
        let ring = || (amount(), amount(), amount());
        ([ring(), ring(), ring(), ring()], number()).prop_map(|(rings, tensormap)| {
            let mut usage = Usage { tensormap, ..Usage::NONE };
            for (ring, (window, heap, dep_pool)) in rings.into_iter().enumerate() {
                usage.set_ring(ring, RingUse { window: window as u32, heap, dep_pool: dep_pool as u32 });
            }
            usage
        })
    }

    fn given() -> impl Strategy<Value = Given> {
        // A base has 48 bits for the head of the window.
        let moved = (amount().prop_map(|window| window >> 13), amount(), amount());
        let flags = (any::<bool>(), proptest::bool::weighted(0.1), proptest::bool::weighted(0.6));
        let numbers = (0u32..4097, number(), number());
        (flags, 0u16..7, ticks(), numbers, moved, usage(), usage()).prop_map(
            |(flags, depth, later, (site, scope, peak_fanin), moved, used, more)| {
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
                let (changed, peaks) = (ScopeSample::ANY_RING, Some(peaks));
                Given { later, ends, fatal, depth, site, scope, peak_fanin, heads, used, changed, peaks }
            },
        )
    }

    /// What happens between two samples: something is submitted to the ring of the scope that was innermost, perhaps the
    /// rings of a mask give something back, then a scope begins or ends at a depth one more or one less. Many other scopes
    /// may have come and gone that nobody recorded.
    #[derive(Clone, Debug)]
    struct Step {
        submitted: (u64, u64, u64),
        gives_back: u8,
        deeper: bool,
        later: u64,
        tensormap: u32,
        others: u32,
    }

    fn step() -> impl Strategy<Value = Step> {
        let gives_back = prop_oneof![3 => Just(0u8), 1 => 0u8..16];
        let others = prop_oneof![9 => Just(0u32), 1 => number().prop_map(|others| others % (1 << 18))];
        let submitted = (amount(), amount(), amount());
        (submitted, gives_back, any::<bool>(), ticks(), number(), others).prop_map(
            |((window, heap, dep_pool), gives_back, deeper, later, tensormap, others)| Step {
                submitted: (window % (1 << 20), heap, dep_pool % (1 << 20)),
                gives_back,
                deeper,
                later,
                tensormap,
                others,
            },
        )
    }

    /// A scope that begins in an empty run, with nothing new.
    fn plain() -> Given {
        Given {
            later: 0,
            ends: false,
            fatal: false,
            depth: 1,
            site: 1,
            scope: 1,
            peak_fanin: 2,
            heads: Heads::default(),
            used: Usage::NONE,
            changed: 0,
            peaks: None,
        }
    }

    /// The samples of rings that move by these steps, each with no more in `changed` than it must have.
    fn lived(steps: &[Step]) -> Vec<Given> {
        let (mut heads, mut tails) = ([Heads::default(); RINGS], [Heads::default(); RINGS]);
        let (mut depth, mut given) = (0u16, Vec::new());
        let (mut open, mut next) = (Vec::new(), 0);
        let ring_of = |depth: u16| usize::from(depth).min(RINGS - 1);
        for step in steps {
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
            next += step.others;
            let scope = if ends { open.pop().expect("as many as the depth says") } else { next };
            if !ends {
                open.push(scope);
                next += 1;
            }
            let mut used = Usage { tensormap: step.tensormap, ..Usage::NONE };
            for ring in 0..RINGS {
                let (head, tail) = (&heads[ring], &tails[ring]);
                let use_of = RingUse {
                    window: (head.window - tail.window) as u32,
                    heap: head.heap - tail.heap,
                    dep_pool: (head.dep_pool - tail.dep_pool) as u32,
                };
                used.set_ring(ring, use_of);
            }
            let (later, heads) = (step.later, heads[own]);
            given.push(Given { later, ends, depth: of, scope, heads, used, changed, ..plain() });
        }
        given
    }

    /// When the samples are taken.
    fn times(given: &[Given]) -> Vec<u64> {
        let times = given.iter().scan(0, |at, given| {
            *at += given.later + 1;
            Some(*at)
        });
        times.collect()
    }

    /// The records of the samples, each with the number of its sample, as far as they are kept.
    fn write(given: &[Given], mut keep: impl FnMut() -> bool) -> Vec<(usize, ScopeRecord)> {
        let mut told = ScopeTold::default();
        let mut records = Vec::new();
        for (number, (given, at)) in given.iter().zip(times(given)).enumerate() {
            told.tell(&given.sample(), at, |record| {
                let kept = keep();
                records.extend(kept.then_some((number, record)));
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
        let times = times(given);
        let number = |full: &FullSample| times.binary_search(&full.sample.at).expect("a sample was taken then");
        full.iter().for_each(|full| given[number(full)].assert_is(full));
        (full.iter().map(number).collect(), quality)
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
            given.push(Given { ends, heads, used, changed, ..plain() });
        };
        for _ in 0..100 {
            sample(false, used);
            used.window[1] += 1;
            used.tensormap += 600;
            sample(true, used);
        }
        (0..100).for_each(|at| sample(at % 2 == 1, used));
        assert_eq!(write(&given, || true).len(), 6 + 100 * 2 + 100);
    }

    #[test]
    fn everything_is_told_anew_from_time_to_time() {
        let still = Given {
            depth: 2,
            heads: Heads { window: 7, heap: u64::MAX, dep_pool: 9 },
            used: Usage { window: [1, 2, 3, 4], ..Usage::NONE },
            ..plain()
        };
        let given = vec![still; 2 * ANEW as usize];
        let records = write(&given, || true);
        let (found, quality) = read(&given, &mut ScopeDecoder::default(), &records[100..]);
        assert_eq!(found, (ANEW as usize..2 * ANEW as usize).collect::<Vec<_>>());
        assert_eq!(quality.count(plimsoll_trace::FindingKind::UnknownCounters), ANEW - 94);
    }

    #[test]
    fn scopes_that_end_long_after_they_began_keep_their_numbers() {
        let sample = |ends, depth, scope| Given { ends, depth, scope, ..plain() };
        let mut given = vec![sample(false, 0, 0), sample(false, 1, 1)];
        for scope in 2..200_000 {
            given.extend([sample(false, 2, scope), sample(true, 2, scope)]);
        }
        given.extend([sample(true, 1, 1), sample(false, 1, 200_000), sample(true, 1, 200_000), sample(true, 0, 0)]);
        let records = write(&given, || true);
        let (found, quality) = read(&given, &mut ScopeDecoder::default(), &records);
        assert_eq!(found, (0..given.len()).collect::<Vec<_>>());
        assert!(quality.findings().is_empty(), "{quality:?}");
        // What is told anew with every 512th sample, and what is new with the others that are not of ring 2.
        let anew = given.len().div_ceil(ANEW as usize) * 6;
        assert!(records.len() <= given.len() + anew + 20, "{} records of {} samples", records.len(), given.len());
    }

    #[test]
    fn a_time_out_of_reach_costs_a_record() {
        let given: Vec<Given> =
            (0..100).map(|at| Given { ends: at % 2 == 1, later: (1 << 32) - 2 + at % 4 / 2, ..plain() }).collect();
        let records = write(&given, || true);
        let (found, _) = read(&given, &mut ScopeDecoder::default(), &records);
        assert_eq!(found.len(), given.len());
        assert!(records.len() <= 6 + 2 * given.len(), "a moment for each at most");
    }
}
