//! The mailbox of a core that is a thread: one cache line between the core and the scheduler that owns it.
//!
//! ```text
//!   scheduler: send ──dispatched──► core: receive ──received──► execute ──► finish ──finished──► scheduler: finished
//! ```
//!
//! Three counters of tokens say everything. `dispatched` is the newest order that was sent, `received` the newest that the
//! core has begun, `finished` the newest that it has ended. Orders lie at `token % ISSUE`: one runs, one may wait behind it.
//!
//! # The handshake
//! ```text
//!            core: report            scheduler: configure             scheduler: dismiss            core: leave
//!   Absent ──────────────► Reported ─────────────────────► Working ──────────────────────► Leaving ────────────► Absent
//! ```
//! A core reports when it is ready to be told what it needs; only then does its scheduler configure it, and only a core
//! that is Working is sent orders.
//!
//! # Who writes what
//! | field | scheduler | core |
//! |---|---|---|
//! | `tasks`, `executions`, `pipes`, `places` at `token % ISSUE` | before it raises `dispatched` to the token, and again only after `finished` has reached it | reads |
//! | `dispatched` | writes | reads |
//! | `received`, `finished`, `outcomes` | reads | writes |
//! | `stage` | Reported → Working → Leaving | Absent → Reported, Leaving → Absent |
//!
//! # Invariants
//! * L1: `finished ≤ received ≤ dispatched ≤ finished + ISSUE`, by tokens that wrap.
//! * L2: a core executes its orders in the order of their tokens.
//! * L3: a core leaves only when it has finished every order that was sent.
//!
//! The race it prevents: an order that is overwritten while the core still reads it. The scheduler reuses a place only
//! after it has seen `finished` reach the token that lay there.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use plimsoll_platform::ports::{ISSUE, Order};

/// The states of the handshake.
const ABSENT: u32 = 0;
const REPORTED: u32 = 1;
const WORKING: u32 = 2;
const LEAVING: u32 = 3;

/// One core's line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct CoreLine {
    dispatched: AtomicU32,
    received: AtomicU32,
    finished: AtomicU32,
    stage: AtomicU32,
    /// What came of the order at each place, as [`OrderOutcome`] packs it.
    outcomes: [AtomicU32; ISSUE as usize],
    /// The task of the order at each place.
    tasks: [AtomicU32; ISSUE as usize],
    /// Which execution of its task the order at each place is.
    executions: [AtomicU32; ISSUE as usize],
    /// The pipes of the order at each place.
    pipes: [AtomicU32; ISSUE as usize],
    /// Where the record of the order at each place goes.
    places: [AtomicU64; ISSUE as usize],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<CoreLine>() == 64);

/// What a core finds in its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mail {
    /// The next order.
    Order(Order),
    /// Nothing to do yet.
    Nothing,
    /// Everything is done and the core may go.
    Dismissed,
}

/// What came of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderOutcome {
    /// Whether the kernel succeeded.
    pub succeeded: bool,
    /// Whether the core has left beside the line what the kernel waited for.
    pub waited: bool,
}

impl OrderOutcome {
    #[inline]
    fn word(self) -> u32 {
        u32::from(!self.succeeded) | u32::from(self.waited) << 1
    }

    #[inline]
    fn of_word(word: u32) -> Self {
        Self { succeeded: word & 1 == 0, waited: word & 2 != 0 }
    }
}

/// Where in a core's line, and beside it, an order lies.
#[inline]
pub(crate) fn place(token: u32) -> usize {
    (token % ISSUE) as usize
}

impl CoreLine {
    /// The core is ready to be configured, and counts its tokens from `token`.
    pub fn report(&self, token: u32) {
        for counter in [&self.dispatched, &self.received, &self.finished] {
            counter.store(token, Ordering::Relaxed);
        }
        // Release: the counters above come before. pairs(line.reported): Acquire in `has_reported`.
        self.stage.store(REPORTED, Ordering::Release);
    }

    /// Whether the core has reported.
    pub fn has_reported(&self) -> bool {
        // Acquire: the core's counters come before. pairs(line.reported): Release in `report`.
        self.stage.load(Ordering::Acquire) == REPORTED
    }

    /// The core may work: the scheduler has told it all it needs.
    pub fn configure(&self) {
        // Release: what the core was told comes before. pairs(line.stage): Acquire in `mail`.
        self.stage.store(WORKING, Ordering::Release);
    }

    /// The core shall leave when it has finished what it was sent.
    pub fn dismiss(&self) {
        // Release: every order that was sent comes before (L3). pairs(line.stage): Acquire in `mail`.
        self.stage.store(LEAVING, Ordering::Release);
    }

    /// The core has left.
    pub fn leave(&self) {
        // Release: what its kernels wrote comes before. pairs(line.left): Acquire in `has_left`.
        self.stage.store(ABSENT, Ordering::Release);
    }

    /// Whether the core has left.
    pub fn has_left(&self) -> bool {
        // Acquire: what the core's kernels wrote comes before. pairs(line.left): Release in `leave`.
        self.stage.load(Ordering::Acquire) == ABSENT
    }

    /// Sends an order to a core that has room.
    #[inline]
    pub fn send(&self, order: &Order) {
        let at = place(order.token);
        self.tasks[at].store(order.word, Ordering::Relaxed);
        self.executions[at].store(order.execution, Ordering::Relaxed);
        self.pipes[at].store(order.pipes, Ordering::Relaxed);
        self.places[at].store(order.place, Ordering::Relaxed);
        // Release: the order, and the slot that it names, come before. pairs(line.dispatched): Acquire in `mail`.
        self.dispatched.store(order.token, Ordering::Release);
    }

    /// What the core has to do after it has finished order `last`.
    #[inline]
    pub fn mail(&self, last: u32) -> Mail {
        // Acquire: a core that is dismissed sees every order that was sent (L3). pairs(line.stage): Release in `configure`
        // and `dismiss`.
        let stage = self.stage.load(Ordering::Acquire);
        // Acquire: the order and its slot are visible. pairs(line.dispatched): Release in `send`.
        if self.dispatched.load(Ordering::Acquire) != last {
            let token = last.wrapping_add(1);
            let at = place(token);
            return Mail::Order(Order {
                token,
                word: self.tasks[at].load(Ordering::Relaxed),
                execution: self.executions[at].load(Ordering::Relaxed),
                pipes: self.pipes[at].load(Ordering::Relaxed),
                place: self.places[at].load(Ordering::Relaxed),
            });
        }
        if stage == LEAVING { Mail::Dismissed } else { Mail::Nothing }
    }

    /// The core begins order `token`.
    #[inline]
    pub fn acknowledge(&self, token: u32) {
        self.received.store(token, Ordering::Relaxed);
    }

    /// The core has ended order `token`.
    #[inline]
    pub fn finish(&self, token: u32, outcome: OrderOutcome) {
        self.outcomes[place(token)].store(outcome.word(), Ordering::Relaxed);
        // Release: what the kernel wrote comes before, and what it waited for. pairs(line.finished): Acquire in `finished`.
        self.finished.store(token, Ordering::Release);
    }

    /// The newest order that the core has ended, for the scheduler.
    #[inline]
    pub fn finished(&self) -> u32 {
        // Acquire: what the kernels wrote is visible. pairs(line.finished): Release in `finish`.
        self.finished.load(Ordering::Acquire)
    }

    /// The newest order that the core has begun, for whoever watches.
    pub fn received(&self) -> u32 {
        self.received.load(Ordering::Relaxed)
    }

    /// The task of a finished order, and what came of it. Only before its place is used again.
    #[inline]
    pub fn outcome(&self, token: u32) -> (u32, OrderOutcome) {
        let at = place(token);
        let outcome = OrderOutcome::of_word(self.outcomes[at].load(Ordering::Relaxed));
        (self.tasks[at].load(Ordering::Relaxed), outcome)
    }
}
