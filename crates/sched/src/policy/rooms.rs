//! Which core a task goes to where cores stand behind mailboxes, and which scheduler is woken for it.
//!
//! A core holds at most two tasks: one runs, one waits behind it. So a core has an *idle* room, a *single* room behind a
//! running task, or none. Every scheduler knows the rooms of its own cores exactly ([`Rooms`]) and publishes how many it
//! has ([`RoomHints`]) for the others.
//!
//! # Invariants
//! * M1: a scheduler sleeps only if no queue holds a task that one of its cores could take now and no receipt waits. The
//!   room that it has published is exact while it sleeps. While a cohort assembles, none can take a task out of a queue.
//! * M2: a task is put behind a running one only while no other scheduler has an idle core that could start it.
//! * M3: no task stays in a queue while a sleeping scheduler has room for it. Whoever publishes a task, and whoever goes to
//!   sleep beside tasks that it has no room for, wakes a scheduler that has room, unless one that is awake has it.
//! * M4: tasks are taken one at a time and from any queue, so none can hide with a scheduler that has no room.

use crate::kernel::KernelEntry;
use crate::shared::{ORCHESTRATOR, Shared};
use crate::slot::SlotRef;
use crate::sync::{AtomicU32, Ordering};
use plimsoll_abi::AgentId;
use plimsoll_platform::{CoreClass, Platform};

/// The classes that cores are of. A core of class `Any` takes every task, as a task of class `Any` goes to every core.
pub(crate) const CORE_CLASSES: [CoreClass; 3] = [CoreClass::Aic, CoreClass::Aiv, CoreClass::Any];

/// The place of a core's class in [`CORE_CLASSES`].
pub(crate) fn class_place(class: CoreClass) -> usize {
    places_for(class)[0]
}

/// The places of the core classes that can run a task of this class; the class's own first.
const fn places_for(class: CoreClass) -> &'static [usize] {
    match class {
        CoreClass::Aic => &[0, 2],
        CoreClass::Aiv => &[1, 2],
        CoreClass::Any => &[2, 0, 1],
    }
}

/// The classes of tasks that a core of the class at `place` can run, in the order in which it looks for them.
const fn tasks_for(place: usize) -> &'static [CoreClass] {
    match CORE_CLASSES[place] {
        CoreClass::Aic => &[CoreClass::Aic, CoreClass::Any],
        CoreClass::Aiv => &[CoreClass::Aiv, CoreClass::Any],
        CoreClass::Any => &CORE_CLASSES,
    }
}

/// Whether a core of the class at `place` can run a task that wants `class`.
pub(crate) fn runs(place: usize, class: CoreClass) -> bool {
    places_for(class).contains(&place)
}

/// The two kinds of room.
const IDLE: usize = 0;
const SINGLE: usize = 1;

/// How much room one scheduler has, by core class and kind of room, for the other schedulers to read.
#[derive(Debug, Default)]
pub struct RoomHints([[AtomicU32; 2]; CORE_CLASSES.len()]);

impl RoomHints {
    /// Whether there is room of this kind for a task that wants `class`.
    fn has(&self, class: CoreClass, kind: usize) -> bool {
        // Relaxed: a sleeper announced its sleep after it stored the hint, and the announcement was seen through the
        // barriers of `sleep`. For a scheduler that is awake the count only tells where a task starts sooner.
        places_for(class).iter().any(|&place| self.0[place][kind].load(Ordering::Relaxed) > 0)
    }
}

/// `own` published a task that wants `class`: wakes a scheduler for it unless `own` will start it sooner (M3).
pub(crate) fn published<P: Platform>(shared: &Shared, platform: &P, own: AgentId, class: CoreClass, task: SlotRef) {
    platform.light_barrier();
    if !shared.sleep.anyone() {
        return;
    }
    // A scheduler with an idle core and nothing else to hand out takes the task itself, sooner than anybody could wake.
    let backlog = shared.class_queues(class)[own.index()].len();
    if backlog > 1 || !shared.rooms[own.index()].has(class, IDLE) {
        wake_for(shared, platform, class, task.0 as usize);
    }
}

/// `own` is about to sleep: wakes schedulers that have room for what `own` leaves in the queues (M3).
pub(crate) fn pass_on<P: Platform>(shared: &Shared, platform: &P, own: AgentId) {
    // Tasks are left where they are when dispatch has stopped, or until a cohort has started, which wakes everybody.
    if shared.has_notice() || !shared.sleep.anyone() {
        return;
    }
    for class in CoreClass::ALL {
        if any_ready(shared, class) {
            wake_for(shared, platform, class, own.index());
        }
    }
}

/// Wakes one sleeping scheduler that has room for a task of the class: idle room before single room, and of several with
/// the same kind of room each in `turn`. Wakes nobody if a scheduler that is awake has the better kind of room.
fn wake_for<P: Platform>(shared: &Shared, platform: &P, class: CoreClass, turn: usize) {
    let schedulers = shared.agents() - 1;
    let agent = |at: usize| AgentId((1 + (turn + at) % schedulers) as u16);
    // The orchestrator has room once it has become a scheduler.
    let agents = || (0..schedulers).map(agent).chain([ORCHESTRATOR]);
    for kind in [IDLE, SINGLE] {
        let mut with_room = agents().filter(|a| shared.rooms[a.index()].has(class, kind)).peekable();
        if with_room.peek().is_some() {
            if let Some(sleeper) = with_room.find(|&agent| shared.sleep.sleeps(agent)) {
                shared.sleep.wake(platform, sleeper);
            }
            return;
        }
    }
}

/// A ready task that a core of the class at `place` can run: one that wants this class before one that takes any, and from
/// the scheduler's own queue before the others' (M4).
pub(crate) fn take(shared: &Shared, own: AgentId, place: usize) -> Option<SlotRef> {
    tasks_for(place).iter().find_map(|&wanted| {
        let queues = shared.class_queues(wanted);
        let others = || queues.iter().filter(|queue| !queue.is_empty()).find_map(|queue| queue.take());
        queues[own.index()].take().or_else(others).map(SlotRef)
    })
}

/// The class of cores that a kernel wants; no kernel, which is a dummy's, wants any.
#[inline]
pub(crate) fn class_of(kernels: &[KernelEntry], kernel: u32) -> CoreClass {
    kernels.get(kernel as usize).map_or(CoreClass::Any, |entry| entry.class)
}

/// A task that was taken goes back to a queue: there is no place for its record now.
pub(crate) fn put_back(shared: &Shared, kernels: &[KernelEntry], own: AgentId, task: SlotRef) {
    let class = class_of(kernels, shared.slot(task).kernel());
    shared.class_queues(class)[own.index()].push(task.0);
}

/// Whether a task waits that wants exactly this class.
fn any_ready(shared: &Shared, class: CoreClass) -> bool {
    shared.class_queues(class).iter().any(|queue| !queue.is_empty())
}

/// The rooms of one scheduler's cores, by class. A core is named by its place among the scheduler's cores.
#[derive(Debug)]
pub(crate) struct Rooms {
    own: AgentId,
    by_class: [ClassRooms; CORE_CLASSES.len()],
}

/// The cores of one class that have room.
#[derive(Debug, Default)]
struct ClassRooms {
    idle: CoreSet,
    single: CoreSet,
}

impl Rooms {
    /// No cores yet, for scheduler `own`.
    pub(crate) fn new(own: AgentId) -> Self {
        Self { own, by_class: Default::default() }
    }

    /// A core that holds nothing joins.
    pub(crate) fn add(&mut self, shared: &Shared, place: usize, core: usize) {
        self.by_class[place].idle.insert(core);
        self.tell(shared, place);
    }

    /// The core that the next task of a class goes to; it holds one task more from now on.
    pub(crate) fn occupy(&mut self, shared: &Shared, place: usize) -> Option<usize> {
        let rooms = &mut self.by_class[place];
        let core = match rooms.idle.take() {
            Some(core) => {
                rooms.single.insert(core);
                Some(core)
            }
            None => rooms.single.take(),
        };
        self.tell(shared, place);
        core
    }

    /// The core finished one of its tasks and holds `held` now.
    pub(crate) fn vacate(&mut self, shared: &Shared, place: usize, core: usize, held: u32) {
        let rooms = &mut self.by_class[place];
        if held == 0 {
            rooms.single.remove(core);
            rooms.idle.insert(core);
        } else {
            rooms.single.insert(core);
        }
        self.tell(shared, place);
    }

    /// The core that was just occupied is given nothing after all, and nothing else until it is readmitted. It holds `held`.
    pub(crate) fn withdraw(&mut self, shared: &Shared, place: usize, core: usize, held: u32) {
        if held == 0 {
            self.by_class[place].single.remove(core);
        }
        self.tell(shared, place);
    }

    /// A core that has room is kept for a part of a mixed task: it is given nothing else until it is readmitted.
    pub(crate) fn keep(&mut self, shared: &Shared, place: usize, core: usize, held: u32) {
        let rooms = &mut self.by_class[place];
        let set = if held == 0 { &mut rooms.idle } else { &mut rooms.single };
        set.remove(core);
        self.tell(shared, place);
    }

    /// A core that was withdrawn or kept may be given tasks again, if it has room. It holds `held`.
    pub(crate) fn readmit(&mut self, shared: &Shared, place: usize, core: usize, held: u32) {
        let rooms = &mut self.by_class[place];
        match held {
            0 => rooms.idle.insert(core),
            1 => rooms.single.insert(core),
            _ => {}
        }
        self.tell(shared, place);
    }

    /// Whether a core of the class at `place` may be given a task now (M2).
    pub(crate) fn has(&self, shared: &Shared, place: usize) -> bool {
        let rooms = &self.by_class[place];
        let others_idle = || {
            let mut hints = shared.rooms.iter().enumerate();
            hints.any(|(agent, hints)| agent != self.own.index() && hints.has(CORE_CLASSES[place], IDLE))
        };
        rooms.idle.count > 0 || (rooms.single.count > 0 && !others_idle())
    }

    /// Whether a task waits that one of the cores may be given now (M1).
    pub(crate) fn has_work(&self, shared: &Shared) -> bool {
        let ready = |place: usize| tasks_for(place).iter().any(|&class| any_ready(shared, class));
        !shared.has_notice() && (0..CORE_CLASSES.len()).any(|place| self.has(shared, place) && ready(place))
    }

    /// The scheduler leaves, and has no room any more.
    pub(crate) fn retire(&mut self, shared: &Shared) {
        self.by_class = Default::default();
        (0..CORE_CLASSES.len()).for_each(|place| self.tell(shared, place));
    }

    /// Publishes how much room there is.
    fn tell(&self, shared: &Shared, place: usize) {
        let (hint, rooms) = (&shared.rooms[self.own.index()].0.0[place], &self.by_class[place]);
        hint[IDLE].store(rooms.idle.count, Ordering::Relaxed);
        hint[SINGLE].store(rooms.single.count, Ordering::Relaxed);
    }
}

/// A set of cores, taken from in turn so that the one that has waited longest comes first.
#[derive(Debug, Default)]
struct CoreSet {
    words: Vec<u64>,
    count: u32,
    next: usize,
}

impl CoreSet {
    fn insert(&mut self, core: usize) {
        if self.words.len() <= core / 64 {
            self.words.resize(core / 64 + 1, 0);
        }
        self.words[core / 64] |= 1 << (core % 64);
        self.count += 1;
    }

    fn remove(&mut self, core: usize) {
        self.words[core / 64] &= !(1 << (core % 64));
        self.count -= 1;
    }

    /// The next member at or after where the last one was found.
    fn peek(&self) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let (word, bit) = (self.next / 64 % self.words.len(), self.next % 64);
        let rest = self.words[word] & (u64::MAX << bit);
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        let turns = (1..=self.words.len()).map(|turn| (word + turn) % self.words.len());
        turns.filter(|&at| self.words[at] != 0).map(|at| at * 64 + self.words[at].trailing_zeros() as usize).next()
    }

    fn take(&mut self) -> Option<usize> {
        let core = self.peek()?;
        self.remove(core);
        self.next = core + 1;
        Some(core)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn cores_are_taken_in_turn() {
        let mut cores = CoreSet::default();
        [3, 70, 5].into_iter().for_each(|core| cores.insert(core));
        assert_eq!([cores.take(), cores.take()], [Some(3), Some(5)]);
        cores.insert(3);
        assert_eq!([cores.take(), cores.take(), cores.take()], [Some(70), Some(3), None]);
    }
}
