//! The status board: who does what in a run, for whoever looks from this process or another.
//!
//! An agent or core writes one line; nobody waits for anybody. A look reads the words as they are, so what it tells is of no
//! one instant. An age is told by looking twice: words that have not changed between two looks were so all the time.
//!
//! ```text
//!   away ──enter: its thread──► schedule ◄──begin, end: its thread──► executes a task
//!     ▲                            │ ▲
//!     │                            ▼ │ set: its thread
//!     └──leave: its thread──── idle, recorder, user code, submit, waits
//! ```
//!
//! # Owners
//! A line belongs to the thread that entered it last. The head and the rings belong to the orchestrator.
//!
//! # Invariants
//! * B1: `begun` and `ended` only grow between `enter` and `leave`, `ended` after `begun`, and the task and the kernel of an
//!   execution are stored before its `begun`, by the line's one writer.
//! * B2: every store is a whole word and relaxed: nothing is read on the strength of a board, so nothing is ordered by it.
//! * B3: a line that two looks found alike, executing the same dispatch, was executing it all the time between them. Its kernel
//!   may differ: that of a mixed task whose parts take turns on one core is the part that has the turn.
//!
//! The race it accepts: a look between two stores of one execution may see the new task with the old kernel. The next look
//! differs, so nobody tells an age by it.

#[cfg(no_board)]
mod unwritten;

#[cfg(not(no_board))]
use crate::sync::{AtomicU32 as ShownU32, AtomicU64 as ShownU64};
use crate::sync::{AtomicU32, Ordering};
use bytemuck::{bytes_of, cast_slice, pod_read_unaligned};
use plimsoll_abi::board::{Activity, AgentStatus, BoardHead, RingStatus, wanted_word};
use plimsoll_abi::{AgentId, CoreId, KernelId, RINGS, Resource, SiteId, TaskId};
#[cfg(no_board)]
use unwritten::{ShownU32, ShownU64};

/// See [`AgentStatus`].
#[derive(Default, Debug)]
#[repr(C, align(64))]
pub struct StatusLine {
    task: ShownU64,
    kernel: ShownU32,
    /// The scheduler counts by it, too: a dispatch token, and which executions are timed.
    begun: AtomicU32,
    ended: ShownU32,
    activity: ShownU32,
    thread: ShownU32,
    ready: ShownU32,
    submits_begun: ShownU32,
    submits_ended: ShownU32,
    wanted: ShownU32,
    site: ShownU32,
    amount: ShownU64,
    awaited: ShownU64,
    since: ShownU64,
    pad: [ShownU64; 7],
}

impl StatusLine {
    /// This thread is in the run from now on, and its last dispatch token was `token`.
    pub fn enter(&self, token: u32) {
        let clean = AgentStatus { begun: token, ended: token, thread: this_thread(), ..AgentStatus::default() };
        self.put(&AgentStatus { activity: Activity::Schedule as u32, ..clean });
    }

    /// The thread has left the run.
    pub fn leave(&self) {
        self.set(Activity::Away);
    }

    /// Takes note that `task` is executed from now on.
    #[inline]
    pub fn begin(&self, task: u64, kernel: u32) {
        self.task.store(task, Ordering::Relaxed);
        self.kernel.store(kernel, Ordering::Relaxed);
        let begun = self.begun.load(Ordering::Relaxed);
        self.begun.store(begun.wrapping_add(1), Ordering::Relaxed);
    }

    /// Takes note that the present execution is in another kernel of its task from now on.
    pub fn note_kernel(&self, kernel: u32) {
        self.kernel.store(kernel, Ordering::Relaxed);
    }

    /// Notes when the kernel of the present execution was called. It may be read together with the task before it, so a
    /// reader holds it against the end of that one.
    #[inline]
    pub fn note_since(&self, tick: u64) {
        self.since.store(tick, Ordering::Relaxed);
    }

    /// Takes note that the execution has ended.
    #[inline]
    pub fn end(&self) {
        add_one(&self.ended);
    }

    /// Executions begun: the last dispatch token.
    #[inline]
    pub fn begun(&self) -> u32 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Executions ended: the dispatch token of the last one.
    pub fn ended(&self) -> u32 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Goes on counting dispatches from `token`.
    pub fn resume(&self, token: u32) {
        self.begun.store(token, Ordering::Relaxed);
        self.ended.store(token, Ordering::Relaxed);
    }

    /// Says what its thread does when it executes nothing.
    #[inline]
    pub fn set(&self, activity: Activity) {
        self.activity.store(activity as u32, Ordering::Relaxed);
    }

    /// What its thread does when it executes nothing.
    pub fn activity(&self) -> Activity {
        Activity::from_number(self.activity.load(Ordering::Relaxed))
    }

    /// Does `body` while the line says `activity`, and has it say afterwards what it said before.
    pub fn during<R>(&self, activity: Activity, body: impl FnOnce() -> R) -> R {
        let before = self.activity();
        self.set(activity);
        let result = body();
        self.set(before);
        result
    }

    /// How many ready tasks there are where its thread finds no work.
    pub fn note_ready(&self, ready: u32) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// The orchestrator begins a submit.
    #[inline]
    pub fn begin_submit(&self) {
        add_one(&self.submits_begun);
    }

    /// The orchestrator has ended a submit.
    #[inline]
    pub fn end_submit(&self) {
        add_one(&self.submits_ended);
    }

    /// The orchestrator's innermost scope.
    pub fn note_site(&self, site: SiteId) {
        self.site.store(site.0, Ordering::Relaxed);
    }

    /// The orchestrator wants `amount` of a resource and has to wait for it.
    pub fn want(&self, resource: Resource, ring: u8, amount: u64) {
        self.wanted.store(wanted_word(resource, ring), Ordering::Relaxed);
        self.amount.store(amount, Ordering::Relaxed);
    }

    /// The orchestrator waits until `task` is done with `buffer`.
    pub fn await_task(&self, buffer: u64, task: TaskId) {
        self.amount.store(buffer, Ordering::Relaxed);
        self.awaited.store(task.raw() + 1, Ordering::Relaxed);
    }

    /// What the line says.
    pub fn look(&self) -> AgentStatus {
        AgentStatus {
            // What has begun first: what begins after that is missed, and nothing that had ended by then is seen as running.
            begun: self.begun.load(Ordering::Relaxed),
            ended: self.ended.load(Ordering::Relaxed),
            task: self.task.load(Ordering::Relaxed),
            kernel: self.kernel.load(Ordering::Relaxed),
            activity: self.activity.load(Ordering::Relaxed),
            thread: self.thread.load(Ordering::Relaxed),
            ready: self.ready.load(Ordering::Relaxed),
            submits_begun: self.submits_begun.load(Ordering::Relaxed),
            submits_ended: self.submits_ended.load(Ordering::Relaxed),
            wanted: self.wanted.load(Ordering::Relaxed),
            site: self.site.load(Ordering::Relaxed),
            amount: self.amount.load(Ordering::Relaxed),
            awaited: self.awaited.load(Ordering::Relaxed),
            since: self.since.load(Ordering::Relaxed),
            pad: [0; 7],
        }
    }

    fn put(&self, to: &AgentStatus) {
        self.task.store(to.task, Ordering::Relaxed);
        self.kernel.store(to.kernel, Ordering::Relaxed);
        self.begun.store(to.begun, Ordering::Relaxed);
        self.ended.store(to.ended, Ordering::Relaxed);
        self.activity.store(to.activity, Ordering::Relaxed);
        self.thread.store(to.thread, Ordering::Relaxed);
        self.ready.store(to.ready, Ordering::Relaxed);
        self.submits_begun.store(to.submits_begun, Ordering::Relaxed);
        self.submits_ended.store(to.submits_ended, Ordering::Relaxed);
        self.wanted.store(to.wanted, Ordering::Relaxed);
        self.site.store(to.site, Ordering::Relaxed);
        self.amount.store(to.amount, Ordering::Relaxed);
        self.awaited.store(to.awaited, Ordering::Relaxed);
        self.since.store(to.since, Ordering::Relaxed);
    }
}

/// Counts up a word that only this thread writes: one instruction, and no lock.
#[inline]
fn add_one(word: &ShownU32) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// See [`RingStatus`].
#[derive(Default, Debug)]
#[repr(C, align(64))]
pub struct RingLine {
    /// The first eleven words of the image.
    words: [ShownU64; 11],
    site: ShownU32,
    pad: [ShownU32; 9],
}

impl RingLine {
    /// Notes how full the ring is.
    pub fn note(&self, ring: &RingStatus) {
        let values = [
            ring.head,
            ring.tail,
            ring.watermark,
            ring.heap_head,
            ring.heap_tail,
            ring.dep_head,
            ring.dep_tail,
            ring.pin,
            ring.window,
            ring.heap,
            ring.dep_pool,
        ];
        self.words.iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        self.site.store(ring.site, Ordering::Relaxed);
    }

    /// What was noted last.
    pub fn look(&self) -> RingStatus {
        let word = |at: usize| self.words[at].load(Ordering::Relaxed);
        RingStatus {
            head: word(0),
            tail: word(1),
            watermark: word(2),
            heap_head: word(3),
            heap_tail: word(4),
            dep_head: word(5),
            dep_tail: word(6),
            pin: word(7),
            window: word(8),
            heap: word(9),
            dep_pool: word(10),
            site: self.site.load(Ordering::Relaxed),
            pad: [0; 9],
        }
    }
}

/// See [`BoardHead`].
#[derive(Default, Debug)]
#[repr(C, align(64))]
pub struct HeadLine {
    agents: AtomicU32,
    cores: AtomicU32,
    tensormap: ShownU64,
    tensormap_capacity: ShownU64,
}

impl HeadLine {
    /// Notes how full the tensormap is.
    pub fn note_tensormap(&self, used: u64, capacity: u64) {
        self.tensormap.store(used, Ordering::Relaxed);
        self.tensormap_capacity.store(capacity, Ordering::Relaxed);
    }

    fn look(&self) -> BoardHead {
        BoardHead {
            agents: self.agents.load(Ordering::Relaxed),
            cores: self.cores.load(Ordering::Relaxed),
            tensormap: self.tensormap.load(Ordering::Relaxed),
            tensormap_capacity: self.tensormap_capacity.load(Ordering::Relaxed),
            pad: [0; 5],
        }
    }
}

/// The board of one run.
#[derive(Debug)]
pub struct Board {
    memory: Memory,
    /// What it said when the run was given up: those that are well leave then, and nobody else knows what they did.
    kept: std::sync::OnceLock<BoardLook>,
}

#[derive(Debug)]
enum Memory {
    Own {
        head: HeadLine,
        rings: Box<[RingLine; RINGS]>,
        lines: Box<[StatusLine]>,
    },
    #[cfg(not(loom))]
    Region(std::sync::Arc<crate::region::Region>),
}

impl Board {
    /// A board in plain memory, for a run that records nothing.
    pub fn new(agents: usize, cores: usize) -> Self {
        let head = HeadLine::default();
        head.agents.store(agents as u32, Ordering::Relaxed);
        head.cores.store(cores as u32, Ordering::Relaxed);
        let lines = (0..agents + cores).map(|_| StatusLine::default()).collect();
        Self::of(Memory::Own { head, rings: Default::default(), lines })
    }

    /// The board of a run that records: it lies in the region, and the region lives as long as it.
    #[cfg(not(loom))]
    pub fn in_region(region: std::sync::Arc<crate::region::Region>) -> Self {
        let (head, _, _) = region.board_words();
        head.agents.store(region.agents().into(), Ordering::Relaxed);
        head.cores.store(region.cores().into(), Ordering::Relaxed);
        Self::of(Memory::Region(region))
    }

    fn of(memory: Memory) -> Self {
        Self { memory, kept: std::sync::OnceLock::new() }
    }

    /// Keeps what a look found, for whoever asks [how the run ended](Self::last_look). The first one counts.
    pub fn keep(&self, look: BoardLook) {
        drop(self.kept.set(look));
    }

    /// What the board said when the run was given up, if it was.
    pub fn kept(&self) -> Option<&BoardLook> {
        self.kept.get()
    }

    /// What the board said when the run was given up, or else says now.
    pub fn last_look(&self) -> BoardLook {
        self.kept().cloned().unwrap_or_else(|| self.look())
    }

    fn words(&self) -> (&HeadLine, &[RingLine; RINGS], &[StatusLine]) {
        match &self.memory {
            Memory::Own { head, rings, lines } => (head, rings, lines),
            #[cfg(not(loom))]
            Memory::Region(region) => region.board_words(),
        }
    }

    /// What concerns all lines.
    pub fn head(&self) -> &HeadLine {
        self.words().0
    }

    /// The rings.
    pub fn rings(&self) -> &[RingLine; RINGS] {
        self.words().1
    }

    /// The line of an agent, or of a core's thread, whose number is behind the agents'.
    pub fn agent(&self, agent: AgentId) -> &StatusLine {
        &self.words().2[agent.index()]
    }

    /// The line of a core that is not its scheduler's own thread.
    pub fn core(&self, core: CoreId) -> &StatusLine {
        let (head, _, lines) = self.words();
        &lines[head.agents.load(Ordering::Relaxed) as usize..][core.index()]
    }

    /// What the board says.
    pub fn look(&self) -> BoardLook {
        let (head, rings, lines) = self.words();
        let head = head.look();
        let mut agents: Vec<AgentStatus> = lines.iter().map(StatusLine::look).collect();
        let cores = agents.split_off((head.agents as usize).min(agents.len()));
        BoardLook { head, rings: std::array::from_fn(|ring| rings[ring].look()), agents, cores }
    }
}

/// What a look at a board found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BoardLook {
    /// What concerns all lines.
    pub head: BoardHead,
    /// The rings.
    pub rings: [RingStatus; RINGS],
    /// The lines of agents, by number.
    pub agents: Vec<AgentStatus>,
    /// The lines of cores, by number; zero where an agent is its own core.
    pub cores: Vec<AgentStatus>,
}

/// Something that a look found executing a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Execution {
    /// The core, which on inline ports has the number of its agent.
    pub core: CoreId,
    /// The task.
    pub task: TaskId,
    /// Its kernel.
    pub kernel: KernelId,
    /// The core's dispatch token.
    pub token: u32,
    /// The thread that executes it.
    pub thread: u32,
    /// When its kernel was called, in ticks; 0 if that is not known.
    pub since: u64,
}

impl Execution {
    /// Whether two looks found the same execution (B3). Its parts may have taken turns in between.
    pub fn is_same_as(&self, other: &Execution) -> bool {
        *self == Execution { kernel: self.kernel, ..*other }
    }
}

impl BoardLook {
    /// The look as bytes, for another process: head, rings, and the lines of agents and cores.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { head, rings, agents, cores } = self;
        let parts = [bytes_of(head), cast_slice(rings), cast_slice(agents), cast_slice(cores)];
        parts.concat()
    }

    /// A look from its bytes; `None` if they are not as many as its head says.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(size_of::<BoardHead>())?;
        let (rings, lines) = rest.split_at_checked(RINGS * size_of::<RingStatus>())?;
        let head: BoardHead = pod_read_unaligned(head);
        let (lines, rest) = lines.as_chunks::<{ size_of::<AgentStatus>() }>();
        let all = u64::from(head.agents) + u64::from(head.cores);
        if !rest.is_empty() || lines.len() as u64 != all {
            return None;
        }
        let mut agents: Vec<AgentStatus> = lines.iter().map(|line| pod_read_unaligned(line)).collect();
        let cores = agents.split_off(head.agents as usize);
        Some(Self { head, rings: pod_read_unaligned(rings), agents, cores })
    }

    /// Everything that is being executed, by core.
    pub fn executions(&self) -> Vec<Execution> {
        let lines = self.agents.iter().enumerate().chain(self.cores.iter().enumerate());
        lines
            .filter_map(|(at, line)| {
                let (task, kernel, token) = line.running()?;
                let (core, kernel) = (CoreId(at as u16), KernelId(kernel));
                Some(Execution { core, task, kernel, token, thread: line.thread, since: line.since })
            })
            .collect()
    }

    /// The orchestrator's line.
    pub fn orchestrator(&self) -> AgentStatus {
        self.agents.first().copied().unwrap_or_default()
    }

    /// Executions begun so far by everybody.
    pub fn begun(&self) -> u64 {
        self.agents.iter().chain(&self.cores).map(|line| u64::from(line.begun)).sum()
    }
}

/// The operating system's number of this thread.
fn this_thread() -> u32 {
    #[cfg(not(loom))]
    {
        thread_local!(static NUMBER: u32 = rustix::thread::gettid().as_raw_pid() as u32);
        NUMBER.with(|number| *number)
    }
    #[cfg(loom)]
    1
}

#[cfg(not(loom))]
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<StatusLine>() == size_of::<AgentStatus>() && size_of::<RingLine>() == size_of::<RingStatus>());
    assert!(size_of::<HeadLine>() == size_of::<BoardHead>());
    assert!(offset_of!(StatusLine, task) == offset_of!(AgentStatus, task));
    assert!(offset_of!(StatusLine, kernel) == offset_of!(AgentStatus, kernel));
    assert!(offset_of!(StatusLine, begun) == offset_of!(AgentStatus, begun));
    assert!(offset_of!(StatusLine, ended) == offset_of!(AgentStatus, ended));
    assert!(offset_of!(StatusLine, activity) == offset_of!(AgentStatus, activity));
    assert!(offset_of!(StatusLine, thread) == offset_of!(AgentStatus, thread));
    assert!(offset_of!(StatusLine, ready) == offset_of!(AgentStatus, ready));
    assert!(offset_of!(StatusLine, submits_begun) == offset_of!(AgentStatus, submits_begun));
    assert!(offset_of!(StatusLine, submits_ended) == offset_of!(AgentStatus, submits_ended));
    assert!(offset_of!(StatusLine, wanted) == offset_of!(AgentStatus, wanted));
    assert!(offset_of!(StatusLine, site) == offset_of!(AgentStatus, site));
    assert!(offset_of!(StatusLine, amount) == offset_of!(AgentStatus, amount));
    assert!(offset_of!(StatusLine, awaited) == offset_of!(AgentStatus, awaited));
    assert!(offset_of!(StatusLine, since) == offset_of!(AgentStatus, since));
    assert!(offset_of!(RingLine, words) == offset_of!(RingStatus, head));
    assert!(offset_of!(RingLine, site) == offset_of!(RingStatus, site));
    assert!(offset_of!(HeadLine, agents) == offset_of!(BoardHead, agents));
    assert!(offset_of!(HeadLine, cores) == offset_of!(BoardHead, cores));
    assert!(offset_of!(HeadLine, tensormap) == offset_of!(BoardHead, tensormap));
    assert!(offset_of!(HeadLine, tensormap_capacity) == offset_of!(BoardHead, tensormap_capacity));
};
