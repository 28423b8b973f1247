//! What the writers of one agent share: its world, its ready queue, and how long it waits for the host.

use crate::queue::{Producer, QueueView};
use crate::sync::Ordering;
use crate::words::Control;
use crate::world::World;

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
    /// The agent + 1, as `owner` words hold it.
    pub(crate) owner: u32,
}

impl<'r, W: World> LaneContext<'r, W> {
    /// The context of agent `agent`, whose ready queue is `ready`.
    pub fn new(world: W, control: &'r Control, ready: QueueView<'r>, patience: Patience, agent: u16) -> Self {
        Self { world, control, ready, sealed: Producer::attach(ready), patience, owner: u32::from(agent) + 1 }
    }

    pub(crate) fn ended(&self) -> bool {
        // Relaxed: only says whether waiting still makes sense; nothing is read on the strength of it.
        self.control.ended.0.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn gives_up(&self, since: u64, step: u32) -> bool {
        self.ended() || step >= self.patience.steps || self.world.ticks().saturating_sub(since) >= self.patience.ticks
    }

    /// Waits as long as somebody else waits for the host, so that the picture shows one gap and not many.
    /// Ends with the first wait that ends, so it lasts no longer than that one.
    pub(crate) fn wait_with_others(&self) -> u64 {
        let waits = &self.control.waits;
        // Relaxed: the two words only time this wait.
        if self.patience.policy != Policy::Block || waits.blocked.load(Ordering::Relaxed) == 0 {
            return 0;
        }
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
