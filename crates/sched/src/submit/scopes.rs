//! Scopes: which ring a task goes to, and how long it is held.

use super::books::Books;
use super::count::SubmitMode;
use super::rings::{PeakSites, Peaks, RingHeads, RunPeaks, UNPINNED};
use super::{Demand, Guesses, Submitter};
use crate::failure::{Failure, FailureCause};
use crate::site::Site;
use crate::slot::SlotRef;
use plimsoll_abi::record::ScopePhase;
use plimsoll_abi::{Flags, RINGS, Usage};
use plimsoll_platform::Platform;
use plimsoll_probe::{Lane, ScopeEvent};
use std::hint::cold_path;

/// An open scope.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) ring: u8,
    pub(super) manual: bool,
    pub(super) site: Site,
    /// Its number in order of opening.
    pub(super) number: u32,
    /// The scope's first own task on its ring.
    pub(super) first: u64,
    /// Tensormap entries of its own tasks.
    pub(super) entries: u64,
    /// Dependency entries of its own tasks to producers that open scopes held.
    dep_pinned: u64,
    /// Highest usage seen inside this scope. Complete once the scope has closed.
    pub(super) peaks: Peaks,
    /// [`Gauge::reclaims`] when it was opened.
    reclaims: u64,
    /// The peaks by a look at every allocation and every task: what `peaks` must equal, checked in debug builds.
    #[cfg(debug_assertions)]
    oracle: Peaks,
}

/// What open scopes hold: sums that are kept, so that closing a scope takes the same few steps however many are open.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Holding {
    /// Tensormap entries of all open scopes.
    entries: u64,
    /// Dependency entries to producers that open scopes held, by ring.
    dep_pinned: [u64; RINGS],
    /// The outermost open scope with a task on each ring, by its place among the open ones; of no meaning without one.
    holders: [usize; RINGS],
}

impl Holding {
    /// The scope at `place`, the innermost, is the outermost with a task on `ring`.
    pub(super) fn set_holder(&mut self, ring: usize, place: usize) {
        self.holders[ring] = place;
    }

    /// The place of the outermost open scope with a task on `ring`; of no meaning without one.
    pub(super) fn holder(&self, ring: usize) -> usize {
        self.holders[ring]
    }

    /// The tasks of an open scope took this many tensormap entries more.
    pub(super) fn add_entries(&mut self, entries: u64) {
        self.entries += entries;
    }
}

/// The innermost scope, as far as every submit needs it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct InnermostScope {
    ring: u8,
    pub(super) infers: bool,
    /// Address of the source location.
    pub(super) site: u64,
    /// The scope's first task, as in [`Scope`].
    pub(super) first: u64,
    /// The ring's count of tensormap entries when the [`Scope`] was settled last.
    pub(super) entries_before: u64,
    /// Dependency entries that the scope's submits have pinned since the [`Scope`] was settled last.
    dep_pinned: u64,
    /// Most producers of one task that the scope has submitted since the [`Scope`] was settled last.
    fan_in: u32,
    pub(super) gauge: Gauge,
}

impl InnermostScope {
    /// `scope` is the innermost from now on.
    fn change_to(&mut self, scope: &Scope) {
        (self.ring, self.infers) = (scope.ring, !scope.manual);
        (self.site, self.first) = (scope.site.to_word(), scope.first);
        (self.dep_pinned, self.fan_in) = (0, 0);
    }

    /// The ring that tasks go to.
    #[inline]
    pub(super) fn ring(&self) -> usize {
        self.ring as usize % RINGS
    }
}

/// Usage of the resources at the last look. Between two reclaims only submits move the counters of a ring, and all submits go to
/// the ring of the innermost scope. So it is enough to look at that ring whenever a scope opens or closes.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Gauge {
    pub(super) used: Usage,
    /// How many reclaims there were.
    reclaims: u64,
    /// The count of reclaims at the last look.
    seen: u64,
}

impl Gauge {
    /// Whether something may have been given back since `scope` was opened. If not, its peaks are what is in use.
    #[inline]
    pub(super) fn reclaimed_in(&self, scope: &Scope) -> bool {
        self.reclaims != scope.reclaims
    }
}

/// How full the rings were inside a scope at most.
#[derive(Clone, Copy, Debug)]
pub struct ScopeView {
    /// Where it was opened.
    pub site: Site,
    /// Its depth.
    pub depth: usize,
    /// The largest usage inside it.
    pub peaks: Peaks,
}

impl<P: Platform, L: Lane> Submitter<'_, P, L> {
    /// How deep the innermost scope is; the root is 0.
    pub fn depth(&self) -> usize {
        self.scopes.len().saturating_sub(1)
    }

    /// Whether the innermost scope switches inference off.
    pub fn in_manual_scope(&self) -> bool {
        self.scopes.last().is_some_and(|scope| scope.manual)
    }

    /// Opens a scope. The first one is the root.
    pub fn open_scope(&mut self, site: Site, manual: bool) {
        self.settle();
        let changed = self.look();
        let ring = self.scopes.len().min(RINGS - 1) as u8;
        let number = self.scopes_opened;
        self.scopes_opened += 1;
        #[cfg(debug_assertions)]
        let oracle = Peaks { usage: self.usage(), fan_in: 0 };
        let scope = Scope {
            ring,
            manual,
            site,
            number,
            first: UNPINNED,
            entries: 0,
            dep_pinned: 0,
            peaks: Peaks::default(),
            reclaims: self.innermost.gauge.reclaims,
            #[cfg(debug_assertions)]
            oracle,
        };
        self.innermost.change_to(&scope);
        self.note_scope(site);
        self.scopes.push(scope);
        if self.agent.lane.on(Flags::SCOPE_STATS) {
            self.record_scope(ScopePhase::Begin, changed);
        }
    }

    /// Closes the innermost scope and tells its peaks.
    ///
    /// # Errors
    /// The run's first failure, if it has failed; [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) if no scope is open.
    pub fn close_scope(&mut self) -> Result<ScopeView, Box<Failure>> {
        self.settle();
        let changed = self.look();
        self.complete_peaks();
        self.check_peaks();
        let depth = self.depth();
        if self.agent.lane.on(Flags::SCOPE_STATS) {
            self.record_scope(ScopePhase::End, changed);
        }
        let Some(scope) = self.scopes.pop() else {
            let failure = Failure::new(plimsoll_abi::ErrorCode::InvalidArgs, FailureCause::NoOpenScope);
            return Err(Box::new(failure));
        };
        if let Some(parent) = self.scopes.last_mut() {
            self.innermost.change_to(parent);
            let site = parent.site;
            parent.peaks.fan_in = parent.peaks.fan_in.max(scope.peaks.fan_in);
            // If nothing was reclaimed, all of it is still in use, and is seen when the parent's peaks are noted next.
            if self.innermost.gauge.reclaimed_in(&scope) {
                parent.peaks.usage.raise_to(&scope.peaks.usage);
            }
            self.note_scope(site);
        }
        let view = ScopeView { site: scope.site, depth, peaks: scope.peaks };
        self.run_peaks = scope.peaks;
        self.peak_sites.note(&scope.peaks.usage, scope.site);
        self.note_held(&scope);
        if !matches!(self.mode, SubmitMode::Running) {
            return self.close_after_failure(&scope, depth).map(|()| view);
        }
        self.let_go(&scope);
        self.note_ring(scope.ring as usize);
        self.rewind_heap(scope.ring as usize);
        if self.shared.stopped() { Err(self.first_failure()) } else { Ok(view) }
    }

    /// Closes every scope that is open, the root included: the orchestration has ended.
    ///
    /// # Errors
    /// As [`close_scope`](Self::close_scope). All scopes are closed nevertheless.
    pub fn close_scopes(&mut self) -> Result<(), Box<Failure>> {
        let mut outcome = Ok(());
        while !self.scopes.is_empty() {
            outcome = outcome.and(self.close_scope().map(|_| ()));
        }
        outcome
    }

    /// The largest usage of the run, once it has ended.
    pub fn peaks(&self) -> RunPeaks {
        RunPeaks { usage: self.run_peaks.usage, fan_in: self.run_peaks.fan_in, held: self.held }
    }

    /// Where the largest usage of each resource was met.
    pub fn peak_sites(&self) -> &PeakSites {
        &self.peak_sites
    }

    /// The scope's tasks come back once all that was submitted so far has completed.
    fn let_go(&mut self, scope: &Scope) {
        if !self.hand_over(scope) {
            let ring = scope.ring as usize;
            let heads = std::array::from_fn(|r| self.books.rings[r].head);
            let mark = self.books.map.mark(ring);
            self.books.rings[ring].fence(heads, mark);
        }
    }

    /// `scope` has just closed: adds what it holds to the outermost open scope that has a task on the same ring, and returns
    /// whether there is one. Only the last ring, which several depths share, can have one. That scope's tasks are older, and the
    /// ring is reclaimed in order, so the end of that scope gives back the tasks of both.
    pub(super) fn hand_over(&mut self, scope: &Scope) -> bool {
        let ring = scope.ring as usize;
        let state = &mut self.books.rings[ring];
        // Firsts grow with depth, since only the innermost scope submits: so the pin is that of the outermost.
        if state.pin == scope.first {
            state.set_pin(UNPINNED);
        }
        let taken_over = state.pin != UNPINNED;
        if taken_over {
            let holder = &mut self.scopes[self.holding.holders[ring]];
            holder.entries += scope.entries;
            holder.dep_pinned += scope.dep_pinned;
        } else {
            self.holding.entries -= scope.entries;
            self.holding.dep_pinned[ring] -= scope.dep_pinned;
        }
        taken_over
    }

    /// Notes what is held right before `scope`, the innermost, lets go. Between two ends of scopes it only grows.
    fn note_held(&mut self, scope: &Scope) {
        let ring = scope.ring as usize;
        let state = &self.books.rings[ring];
        if state.pin != UNPINNED {
            self.held.window[ring] = self.held.window[ring].max((state.head - state.pin) as u32);
            self.held.heap[ring] = self.held.heap[ring].max(state.heap_head - state.pin_heap);
        }
        self.held.dep_pool[ring] = self.held.dep_pool[ring].max(self.holding.dep_pinned[ring] as u32);
        self.held.tensormap = self.held.tensormap.max(self.holding.entries as u32);
    }

    /// Notes the tensormap entries that a task asks for. It may keep fewer, as tasks of manual scopes do.
    #[inline(never)]
    pub(super) fn note_asked(&mut self, asked: u32) {
        self.settle();
        self.held.tensormap = self.held.tensormap.max(self.holding.entries as u32 + asked);
    }

    /// Enters the task at the head of `ring` into the books. Returns its slot.
    #[inline]
    pub(super) fn enter(&mut self, ring: usize, demand: Demand) -> SlotRef {
        let Books { rings, fetch, .. } = &mut self.books;
        let state = &mut rings[ring];
        let (fan_in, pinned) = (fetch.entries(), fetch.pinned());
        let first = self.innermost.first == UNPINNED;
        if first {
            cold_path();
            self.innermost.first = state.head;
            if state.pin == UNPINNED {
                state.set_pin(state.head);
                state.pin_heap = state.heap_head;
                self.holding.set_holder(ring, self.scopes.len() - 1);
            }
        }
        let index = state.enter(demand.heap, fan_in, pinned);
        if fan_in > self.innermost.fan_in {
            cold_path();
            self.innermost.fan_in = fan_in;
        }
        #[cfg(debug_assertions)]
        self.scopes.iter_mut().for_each(|scope| scope.oracle.fan_in = scope.oracle.fan_in.max(fan_in));
        self.innermost.dep_pinned += u64::from(pinned);
        SlotRef::new(ring as u8, index)
    }

    /// Brings the innermost scope up to date with what its submits added.
    pub(super) fn settle(&mut self) {
        let Some(scope) = self.scopes.last_mut() else { return };
        scope.first = scope.first.min(self.innermost.first);
        scope.peaks.fan_in = scope.peaks.fan_in.max(self.innermost.fan_in);
        let taken = self.books.map.taken();
        let entries = taken - std::mem::replace(&mut self.innermost.entries_before, taken);
        scope.entries += entries;
        self.holding.entries += entries;
        let ring = scope.ring as usize % RINGS;
        self.books.rings[ring].entry_head += entries;
        let dep_pinned = std::mem::take(&mut self.innermost.dep_pinned);
        scope.dep_pinned += dep_pinned;
        self.holding.dep_pinned[ring] += dep_pinned;
        let guesses = self.books.map.conservative_overlaps();
        if guesses != self.guesses.seen() {
            self.guesses.note(guesses, scope.site);
        }
    }

    /// Overlaps that may be false, and where they were met.
    pub fn guesses(&self) -> &Guesses {
        &self.guesses
    }

    /// Raises the innermost scope's peaks to what is in use. Usage only grows between two reclaims, so it is enough to
    /// call this before anything is given back, and to look once more where a scope ends.
    pub(super) fn note_peaks(&mut self) {
        self.look();
        let gauge = &mut self.innermost.gauge;
        if let Some(scope) = self.scopes.last_mut() {
            scope.peaks.usage.raise_to(&gauge.used);
        }
        gauge.reclaims += 1;
    }

    /// The innermost scope ends: its peaks are not raised any more.
    fn complete_peaks(&mut self) {
        let gauge = &self.innermost.gauge;
        if let Some(scope) = self.scopes.last_mut() {
            if gauge.reclaimed_in(scope) {
                scope.peaks.usage.raise_to(&gauge.used);
            } else {
                scope.peaks.usage = gauge.used;
            }
        }
    }

    /// Brings the gauge up to date. Returns the rings whose use has changed, as a mask.
    #[inline]
    fn look(&mut self) -> u8 {
        let (ring, gauge) = (self.innermost.ring(), &self.innermost.gauge);
        if gauge.seen != gauge.reclaims || self.frozen.is_some() {
            self.look_at_all();
            return ScopeEvent::ANY_RING;
        }
        let used = self.books.rings[ring].heads().used();
        let entries = self.books.map.used();
        let gauge = &mut self.innermost.gauge;
        // Whatever else a task takes, it takes a slot.
        let changed = u8::from(gauge.used.window[ring] != used.window) << ring;
        gauge.used.set_ring(ring, used);
        gauge.used.tensormap = entries;
        debug_assert_eq!(self.innermost.gauge.used, self.usage(), "nothing was given back");
        changed
    }

    #[inline(never)]
    fn look_at_all(&mut self) {
        self.innermost.gauge.used = self.usage();
        self.innermost.gauge.seen = self.innermost.gauge.reclaims;
    }

    /// Called after every allocation: lets the oracle of the open scopes look.
    #[inline]
    pub(super) fn allocated(&mut self) {
        #[cfg(debug_assertions)]
        {
            let usage = self.usage();
            self.scopes.iter_mut().for_each(|scope| scope.oracle.usage.raise_to(&usage));
        }
    }

    /// The peaks of the innermost scope, which ends, are those of its oracle.
    fn check_peaks(&self) {
        #[cfg(debug_assertions)]
        if let (Some(scope), SubmitMode::Running) = (self.scopes.last(), &self.mode) {
            assert_eq!(scope.peaks, scope.oracle, "the peaks of the scope at {}", scope.site);
        }
    }

    /// What is in use now.
    pub fn usage(&self) -> Usage {
        let tensormap = if self.frozen.is_some() { self.frozen_entries } else { self.books.map.used() };
        let mut usage = Usage { tensormap, ..Usage::NONE };
        (0..RINGS).for_each(|ring| usage.set_ring(ring, self.heads(ring).used()));
        usage
    }

    /// The counters of a ring; after a capacity deadlock, as they were then.
    #[inline]
    pub(super) fn heads(&self, ring: usize) -> RingHeads {
        match &self.frozen {
            Some(frozen) => *frozen_heads(frozen, ring),
            None => self.books.rings[ring].heads(),
        }
    }
}

/// Out of line, so that the counters of a run that has not failed are read where they are.
#[cold]
#[inline(never)]
fn frozen_heads(frozen: &[RingHeads; RINGS], ring: usize) -> &RingHeads {
    &frozen[ring]
}
