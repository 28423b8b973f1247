//! What the writers of one agent share: its world, its ready queue, and how long it waits for the host.

use crate::board::StatusLine;
use crate::queue::{Producer, QueueView};
use crate::sync::Ordering;
use crate::words::Control;
use crate::world::World;
use plimsoll_abi::board::Activity;

/// What a producer does that finds no buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u32)]
pub enum Policy {
    /// Waits for the host: nothing is lost.
    #[default]
    Block = 0,
    /// Waits a little, then drops the record and counts it.
    Drop = 1,
}

/// How long a producer waits for the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// What happens afterwards, and whether others wait too.
    pub policy: Policy,
    /// Ticks after which it gives up.
    pub ticks: u64,
    /// Steps of waiting after which it gives up, for worlds whose clock stands still meanwhile.
    pub steps: u32,
}

/// What the writers of one agent share.
#[derive(Debug)]
pub struct LaneContext<'r, W> {
    /// Clock and waiting.
    pub world: W,
    pub(crate) control: &'r Control,
    pub(crate) ready: QueueView<'r>,
    pub(crate) sealed: Producer,
    pub(crate) patience: Patience,
    /// Where the agent says that it waits.
    status: Option<&'r StatusLine>,
    /// Sealed buffers of which the host has not been told.
    unannounced: u32,
    /// How many of them make it worth waking the host. Fewer wake-ups and larger writes cost much less.
    announce_every: u32,
    /// The agent + 1, as `owner` words hold it.
    pub(crate) owner: u32,
    /// When it waited for the host, first to last, and how many of these there are.
    waits: [Waited; WAITS],
    waited: usize,
}

/// A wait for the host: begin and end, in ticks.
pub type Waited = (u64, u64);

/// Waits that are kept until somebody takes them. Whole buffers of records lie between two waits, so few are; those beyond
/// are in the pools' counters only.
const WAITS: usize = 16;

impl<'r, W: World> LaneContext<'r, W> {
    /// The context of agent `agent`, whose ready queue is `ready`. The host is woken for every `announce_every` sealed
    /// buffers, and whenever somebody waits.
    pub fn new(
        world: W,
        control: &'r Control,
        ready: QueueView<'r>,
        patience: Patience,
        announce_every: u32,
        agent: u16,
    ) -> Self {
        let sealed = Producer::attach(ready);
        Self {
            world,
            control,
            ready,
            sealed,
            patience,
            status: None,
            unannounced: 0,
            announce_every,
            owner: u32::from(agent) + 1,
            waits: [(0, 0); WAITS],
            waited: 0,
        }
    }

    /// Says on `status` when the agent waits for the host.
    pub fn with_status(mut self, status: &'r StatusLine) -> Self {
        self.status = Some(status);
        self
    }

    /// The agent waits for the host until the guard is dropped.
    pub(crate) fn begin_wait(&self) -> RecorderWait<'r> {
        let before = self.status.map(|status| (status, status.activity()));
        if let Some(status) = self.status {
            status.set(Activity::Recorder);
        }
        RecorderWait(before)
    }

    /// Notes a sealed buffer.
    pub(crate) fn note_sealed(&mut self) {
        self.unannounced += 1;
        if self.unannounced >= self.announce_every {
            self.announce();
        }
    }

    /// Wakes the host if there is anything it does not know of.
    pub fn announce(&mut self) {
        if self.unannounced > 0 {
            self.unannounced = 0;
            self.world.notify_host();
        }
    }

    /// Notes a wait that ends now.
    pub(crate) fn note_wait(&mut self, ticks: u64) {
        let end = self.world.ticks();
        if let Some(wait) = self.waits.get_mut(self.waited) {
            *wait = (end.saturating_sub(ticks), end);
            self.waited += 1;
        }
    }

    /// Whether it waited for the host since its waits were taken.
    #[inline]
    pub fn has_waited(&self) -> bool {
        self.waited > 0
    }

    /// The waits since they were taken before.
    pub fn take_waits(&mut self) -> impl Iterator<Item = Waited> + use<W> {
        self.waits.into_iter().take(std::mem::take(&mut self.waited))
    }

    pub(crate) fn ended(&self) -> bool {
        // Relaxed: only says whether waiting still makes sense; nothing is read on the strength of it.
        self.control.ended.0.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn gives_up(&self, since: u64, step: u32) -> bool {
        self.ended() || step >= self.patience.steps || self.world.ticks().saturating_sub(since) >= self.patience.ticks
    }

    /// Waits as long as somebody else waits for the host, so that the picture shows one gap and not many.
    /// Ends with the first wait that ends, so it lasts at most as long.
    pub(crate) fn wait_with_others(&self) -> u64 {
        let waits = &self.control.waits;
        // Relaxed: the two words only time this wait.
        if self.patience.policy != Policy::Block || waits.blocked.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let _waits = self.begin_wait();
        let releases = waits.releases.load(Ordering::Relaxed);
        let since = self.world.ticks();
        let mut step = 0;
        while waits.blocked.load(Ordering::Relaxed) != 0
            && waits.releases.load(Ordering::Relaxed) == releases
            && !self.gives_up(since, step)
        {
            self.world.wait_for_host(step);
            step = step.saturating_add(1);
        }
        self.world.ticks().saturating_sub(since)
    }
}

/// A wait for the host, with what the agent's line said before it.
pub(crate) struct RecorderWait<'r>(Option<(&'r StatusLine, Activity)>);

impl Drop for RecorderWait<'_> {
    fn drop(&mut self) {
        if let Some((status, before)) = self.0 {
            status.set(before);
        }
    }
}
