//! The chain from whoever waits to the final blocker.

use plimsoll_abi::board::Activity;
use plimsoll_abi::record::Kind;
use plimsoll_abi::{ErrorCode, Resource, TaskId};
use plimsoll_trace::{Blocker, BoardFacts, ChainLink, EndClass, ErrorReport, RunningFacts, Trace};

use super::{Case, WaitChain};

/// The most links that are told; those in the middle of a longer chain are left out.
const MOST: usize = 16;

impl Case<'_> {
    /// Who waits for whom, down to the final blocker.
    pub(super) fn wait_chain(&self) -> WaitChain {
        if self.class == EndClass::Ok {
            return WaitChain::default();
        }
        if let Some(error) = self.manifest.error.as_ref().filter(|_| !self.is_about_waiting()) {
            return if error.resource.is_some() { shortage(error) } else { self.failed(error) };
        }
        let Some(board) = self.board else {
            return self.manifest.error.as_ref().map(|error| self.failed(error)).unwrap_or_default();
        };
        let mut told = WaitChain::default();
        let first = self.orchestrator(board, &mut told);
        match (self.class, first) {
            (EndClass::OrchestratorStarved, _) => self.starved(board, &mut told),
            (EndClass::Interrupted, _) if self.is_stuck_in_user_code(board) => self.starved(board, &mut told),
            (EndClass::Killed | EndClass::Lost, _) if is_in_user_code(board) => self.starved(board, &mut told),
            (EndClass::CapacityDeadlock, _) => pinned(self, board, &mut told),
            (_, Some(first))
                if self.unfinished.is_some() && !self.named_was_executed() && !self.is_code_to_blame(board) =>
            {
                self.tasks(board, first, &mut told);
            }
            _ => self.running_one(board, &mut told),
        }
        if let (None, Some(error)) = (&told.blocker.task, &self.manifest.error) {
            self.as_named(error, &mut told);
        }
        if let Some(between) = board.between.filter(|_| self.class == EndClass::ReadyButIdle) {
            let does = self.does(between.thread).map_or(String::new(), |does| format!("; its thread is {does}"));
            let name = self.trace.agent_name(between.agent);
            told.links.push(link("scheduler", name, format!("stands still between two tasks{does}"), None));
        }
        told
    }

    /// Takes the blocker from the error, where neither submits nor the board name one: whoever ended the run saw its queues.
    fn as_named(&self, error: &ErrorReport, told: &mut WaitChain) {
        let site = told.blocker.site.take().or_else(|| error.site.clone());
        let (task, kernel, core) = (error.task.clone(), error.kernel.clone(), error.core);
        let arguments = self.arguments_of(error);
        let Blocker { ring, resource, .. } = std::mem::take(&mut told.blocker);
        if let Some(task) = &task {
            let called = kernel.as_ref().map_or(format!("task {task}"), |kernel| format!("task {task} ({kernel})"));
            let does = match core {
                Some(_) => "did not end".to_string(),
                None if self.named_was_executed() => "was executed, and no scheduler took note of it".to_string(),
                None if self.unfinished.is_some() => "waited for nobody and was not started".to_string(),
                // Without submits nobody knows how many executions it should have had.
                None => match self.executed_on(task) {
                    Some(core) => format!("was executed on {}, and had not completed", self.trace.core_name(core)),
                    None => "had not completed".to_string(),
                },
            };
            told.links.push(link("task", called, does, Some(task.clone())));
        }
        told.blocker = Blocker { task, kernel, core, site, ring, resource, arguments, ..Blocker::default() };
    }

    /// Whether all executions of the task that the error names have ended, and whoever ended the run saw it open even so: its
    /// scheduler did not take note.
    fn named_was_executed(&self) -> bool {
        let error = self.manifest.error.as_ref().filter(|error| error.core.is_none());
        let named = error.and_then(|error| error.task.as_deref());
        let (Some(named), Some(unfinished)) = (named, &self.unfinished) else { return false };
        let open = unfinished.named(|word| self.trace.task_name(word) == named);
        self.class.is_stall() && open.is_none_or(|task| unfinished.was_executed(task))
    }

    /// A core that has executed the task with this name in the last round, as the board or a record says.
    fn executed_on(&self, named: &str) -> Option<u16> {
        let is_named = |task: TaskId| task.to_string() == named;
        let lines = self.board.into_iter().flat_map(|board| &board.executed);
        // A core that did nothing has no task on its line.
        let mut lines = lines.filter(|line| line.task != 0 && is_named(TaskId::from_raw(line.task)));
        let executions = &self.trace.executions;
        let last_round = (0..executions.len()).map(|at| executions.round(at)).max();
        let recorded = |at: &usize| {
            Some(executions.round(*at)) == last_round && executions.end(*at).is_some() && is_named(executions.task(*at))
        };
        let of_records = || (0..executions.len()).find(recorded).map(|at| executions.core(at));
        lines.next().map(|line| line.core).or_else(of_records)
    }

    /// The link of the orchestrator and of the ring that it waits for; gives the task from which the chain goes on.
    fn orchestrator(&self, board: &BoardFacts, told: &mut WaitChain) -> Option<u32> {
        let unfinished = self.unfinished.as_ref();
        let mut link = |does: String| told.links.push(link("orchestrator", "the orchestrator".into(), does, None));
        match board.activity() {
            Activity::WaitRoom => {
                let Some((resource, ring)) = board.wanted() else {
                    link("waits for room".into());
                    return unfinished.and_then(|unfinished| unfinished.newest());
                };
                link(format!("waits for room for {}", amount(board.orchestrator.amount, resource)));
                let of = &board.rings[usize::from(ring)];
                let (used, name) = match resource {
                    Resource::TaskWindow => (of.head.saturating_sub(of.tail), place_name(resource, ring)),
                    Resource::Heap => (of.heap, place_name(resource, ring)),
                    Resource::DepPool => (of.dep_pool, place_name(resource, ring)),
                    Resource::Tensormap => (board.tensormap.0, place_name(resource, ring)),
                };
                let does = format!("holds {}, given back in the order of submits", amount(used, resource));
                told.links.push(self::link("ring", name, does, None));
                told.blocker.ring = Some(ring);
                told.blocker.resource = Some(resource.name().to_string());
                unfinished.and_then(|unfinished| unfinished.oldest_on(ring).or_else(|| unfinished.newest()))
            }
            Activity::WaitTensor => {
                link(
                    board.awaited().map_or("waits for a tensor".into(), |task| {
                        format!("waits for a tensor that task {task} uses")
                    }),
                );
                let awaited = board.awaited()?;
                unfinished.and_then(|unfinished| unfinished.find(awaited.raw()))
            }
            Activity::Drain => {
                link("waits for all tasks to complete".into());
                unfinished.and_then(|unfinished| unfinished.newest())
            }
            _ => unfinished.and_then(|unfinished| unfinished.newest()),
        }
    }

    /// Follows who waits for whom, from the unfinished task `first` to a task that waits for no other.
    fn tasks(&self, board: &BoardFacts, first: u32, told: &mut WaitChain) {
        let Some(unfinished) = &self.unfinished else { return };
        let run = |task: u32| {
            let of_task = board.running.iter().filter(|of| unfinished.find(of.task) == Some(task));
            of_task.min_by_key(|of| self.rank(of))
        };
        // Of several tasks to follow: the task that the error names, else the one that has run for longest, else one that is ready.
        let named = self.manifest.error.as_ref().and_then(|error| error.task.clone());
        let rank = |task: u32| {
            let is_named = named.as_deref() == Some(&self.trace.task_name(unfinished.word(task)));
            let since = run(task).map_or(u64::MAX, |of| self.since(of).unwrap_or(0));
            (!is_named, since, task)
        };
        let (mut chain, closed) = unfinished.chain(first, rank);
        told.closed = closed;
        // What is ready need not be what the last submit waits for: it is the task that the error names, else the first of them.
        let ready = match named.as_deref() {
            _ if closed || !board.running.is_empty() => None,
            Some(named) => unfinished.named(|word| self.trace.task_name(word) == named),
            None if self.class == EndClass::ReadyButIdle => unfinished.first_idle(board),
            None => None,
        };
        if let Some(task) = ready.filter(|task| chain.last() != Some(task)) {
            chain = vec![task];
        }
        let (kept, left_out) = shortened(&chain);
        for (at, &task) in kept.iter().enumerate() {
            let name = self.trace.task_name(unfinished.word(task));
            let kernel = run(task).map(|of| self.kernel_name(of.kernel)).or_else(|| unfinished.kernel(task));
            let called = kernel.as_ref().map_or(format!("task {name}"), |kernel| format!("task {name} ({kernel})"));
            let does = match run(task) {
                _ if at + 1 < kept.len() || closed => "waits for".to_string(),
                Some(of) => self.runs(of),
                None if unfinished.was_executed(task) => {
                    "was executed, and no scheduler has taken note of it".to_string()
                }
                // What was ready at an end that came from elsewhere may have been so for an instant.
                None if !self.class.is_stall() => format!("{} ready", self.is_or_was()),
                None if board.running.is_empty() => "is ready, and nobody takes it".to_string(),
                None => "is ready, and waits for a core".to_string(),
            };
            told.links.push(link("task", called, does, Some(name)));
            if at + 1 == MOST / 2 && left_out > 0 {
                let more = link("more", format!("{left_out} tasks"), "wait for each other in turn".into(), None);
                told.links.push(ChainLink { left_out: Some(left_out), ..more });
            }
        }
        let Some(&last) = chain.last() else { return };
        if !closed && run(last).is_none() && !unfinished.was_executed(last) && !board.running.is_empty() {
            return self.running_one(board, told);
        }
        let before = std::mem::take(&mut told.blocker);
        told.blocker = match run(last) {
            Some(of) => self.blocker(of),
            None => Blocker {
                task: Some(self.trace.task_name(unfinished.word(last))),
                kernel: unfinished.kernel(last),
                site: unfinished.site(last).map(str::to_owned),
                arguments: self.arguments(unfinished.word(last)),
                ..Blocker::default()
            },
        };
        (told.blocker.ring, told.blocker.resource) = (before.ring, before.resource);
    }

    /// Without recorded submits only two links are known: who waits, and the execution that is to blame.
    fn running_one(&self, board: &BoardFacts, told: &mut WaitChain) {
        let Some(of) = self.suspect(board) else { return };
        let name = TaskId::from_raw(of.task).to_string();
        let called = format!("task {name} ({})", self.kernel_name(of.kernel));
        told.links.push(link("task", called, self.runs(of), Some(name)));
        let before = std::mem::take(&mut told.blocker);
        told.blocker = Blocker { ring: before.ring, resource: before.resource, ..self.blocker(of) };
    }

    /// The orchestration itself does not go on.
    fn starved(&self, board: &BoardFacts, told: &mut WaitChain) {
        let does = match (board.activity(), self.does(board.orchestrator.thread)) {
            (activity, Some(does)) => format!("{}; its thread is {does}", activity.words()),
            (activity, None) => activity.words().to_string(),
        };
        told.links = vec![link("orchestrator", "the orchestrator".into(), does, None)];
        // Whoever ended the run saw the scope at that moment; the board may be of a moment later.
        let named = self.manifest.error.as_ref().and_then(|error| error.site.clone());
        let site = named.or_else(|| self.site_text(board.orchestrator.site));
        told.blocker = Blocker { site, ..Blocker::default() };
    }

    /// Whether a run was given up because its orchestration did not return from its own code.
    fn is_stuck_in_user_code(&self, board: &BoardFacts) -> bool {
        is_in_user_code(board) && self.manifest.left_behind > 0
    }

    /// A task that failed.
    fn failed(&self, error: &ErrorReport) -> WaitChain {
        let blocker = Blocker {
            task: error.task.clone(),
            kernel: error.kernel.clone(),
            core: error.core,
            site: error.site.clone(),
            ring: error.ring,
            arguments: self.arguments_of(error),
            ..Blocker::default()
        };
        let is_late = error.code == ErrorCode::DeadlineExceeded.number();
        let waited_for = error.code == ErrorCode::TensorWaitTimeout.number();
        let links = error.task.iter().map(|task| {
            let kernel = error.kernel.as_ref().map_or(String::new(), |kernel| format!(" ({kernel})"));
            let core = error.core.map_or(String::new(), |core| format!(" on {}", self.trace.core_name(core)));
            let did = match error.code {
                _ if is_late => "had not returned when the run was given up",
                _ if waited_for => "had not completed",
                _ => "ended the run",
            };
            link("task", format!("task {task}{kernel}"), format!("{did}{core}"), Some(task.clone()))
        });
        let mut links: Vec<ChainLink> = links.collect();
        if waited_for {
            let does = "waited for a tensor, longer than it was to".to_string();
            links.insert(0, link("orchestrator", "the orchestrator".into(), does, None));
        }
        if links.is_empty() && is_late && self.manifest.left_behind > 0 {
            let does = "had not returned when the run was given up".to_string();
            links.push(link("orchestrator", "the orchestrator".into(), does, None));
        }
        WaitChain { links, blocker, closed: false }
    }

    /// What an execution does, where and for how long.
    fn runs(&self, of: &RunningFacts) -> String {
        // Whoever ended the run has said how long it ran until then; the last reading of the clock is later.
        let age = self.age_ns(of).filter(|_| !(self.class.is_stall() && self.manifest.error.is_some()));
        let age = age.map_or(String::new(), |ns| format!(" for {}", seconds(ns)));
        let does = self.does(of.thread).map_or(String::new(), |does| format!("; its thread is {does}"));
        if self.trace.executions.has_ended(of.core, of.token) {
            return format!("ran on {}, and returned after the run was given up", self.trace.core_name(of.core));
        }
        let verb = if self.is_alive() { "runs" } else { "ran" };
        format!("{verb} on {}{age}{does}", self.trace.core_name(of.core))
    }

    fn is_alive(&self) -> bool {
        self.trace.liveness == plimsoll_trace::Liveness::Alive
    }

    fn is_or_was(&self) -> &'static str {
        if self.is_alive() { "is" } else { "was" }
    }

    fn blocker(&self, of: &RunningFacts) -> Blocker {
        let found = self.unfinished.as_ref().and_then(|unfinished| Some((unfinished, unfinished.find(of.task)?)));
        let site = found.and_then(|(unfinished, at)| unfinished.site(at)).map(str::to_owned);
        let named = self.manifest.error.as_ref().and_then(|error| error.site.clone());
        Blocker {
            task: Some(TaskId::from_raw(of.task).to_string()),
            kernel: Some(self.kernel_name(of.kernel)),
            core: Some(of.core),
            site: site.or(named),
            since_ns: self.age_ns(of),
            arguments: self.arguments(of.task),
            ..Blocker::default()
        }
    }

    /// The arguments of the task that an error names, if they were kept.
    fn arguments_of(&self, error: &ErrorReport) -> Vec<String> {
        let word = error.task.as_deref().and_then(Trace::task_word);
        word.map_or_else(Vec::new, |word| self.arguments(word))
    }

    /// The arguments of a task, if they were kept.
    fn arguments(&self, word: u64) -> Vec<String> {
        // Where submits were dropped, the last one with this number may be of an earlier round.
        let deps = self.trace.deps.as_ref().filter(|_| self.lost(|kind| kind == Kind::Submit) == 0);
        let Some(deps) = deps else { return Vec::new() };
        let task = deps.tasks.iter().rev().find(|task| task.id().raw() == word);
        let args = task.map_or(&[][..], |task| deps.args_of(task));
        args.iter()
            .map(|arg| {
                let view = deps.view(arg);
                let shape: Vec<String> = view.shape[..usize::from(view.ndim)].iter().map(u32::to_string).collect();
                let mode = arg.mode.reference_name().to_lowercase();
                format!("{}: {mode} {}[{}]", arg.idx, arg.dtype.name(), shape.join("×"))
            })
            .collect()
    }
}

/// Whether the orchestrator was in its own code while no task ran: nothing else can have been going on.
fn is_in_user_code(board: &BoardFacts) -> bool {
    matches!(board.activity(), Activity::UserCode | Activity::Submit) && board.running.is_empty()
}

/// Open scopes hold what the next submit needs: as the error says it.
fn shortage(error: &ErrorReport) -> WaitChain {
    let resource = Resource::ALL.into_iter().find(|resource| Some(resource.name()) == error.resource.as_deref());
    let Some(resource) = resource else { return WaitChain::default() };
    let site = error.site.clone().unwrap_or_else(|| "an unknown place".into());
    let figures = match (error.used, error.capacity) {
        (Some(used), Some(capacity)) => format!("{used} of {} in use", amount(capacity, resource)),
        _ => "full".to_string(),
    };
    let name = error.ring.map_or("the tensormap".into(), |ring| place_name(resource, ring));
    let pin = error.task.as_ref().map_or(String::new(), |task| format!(" from task {task} on"));
    let links = vec![
        link("orchestrator", "the orchestrator".into(), "waits in a submit for room".into(), None),
        link("ring", name, figures, None),
        link("scope", format!("the scope opened at {site}"), format!("holds it{pin}"), error.task.clone()),
        link("orchestrator", "the orchestrator".into(), "alone can close that scope".into(), None),
    ];
    let blocker = Blocker {
        task: error.task.clone(),
        site: error.site.clone(),
        ring: error.ring,
        resource: error.resource.clone(),
        ..Blocker::default()
    };
    WaitChain { links, blocker, closed: true }
}

/// The same for a run that has not ended, as the board shows it.
fn pinned(case: &Case<'_>, board: &BoardFacts, told: &mut WaitChain) {
    let Some((_, ring)) = board.wanted() else { return };
    let of = &board.rings[usize::from(ring)];
    let site = case.site_text(of.site);
    let called = site.as_deref().unwrap_or("an unknown place");
    let pin = of.pin.map(|local| TaskId::new(ring, local as u32).to_string());
    let does = pin.as_ref().map_or("holds it".to_string(), |task| format!("holds it from task {task} on"));
    told.links.push(link("scope", format!("the scope opened at {called}"), does, pin.clone()));
    told.links.push(link("orchestrator", "the orchestrator".into(), "alone can close that scope".into(), None));
    (told.blocker.task, told.blocker.site, told.closed) = (pin, site, true);
}

fn link(what: &str, name: String, does: String, task: Option<String>) -> ChainLink {
    ChainLink { what: what.to_string(), name, does, task, left_out: None }
}

/// A chain without its middle if it is long, and how many links that were.
fn shortened(chain: &[u32]) -> (Vec<u32>, u64) {
    if chain.len() <= MOST {
        return (chain.to_vec(), 0);
    }
    let tail = MOST - MOST / 2;
    let kept = chain[..MOST / 2].iter().chain(&chain[chain.len() - tail..]).copied().collect();
    (kept, (chain.len() - MOST) as u64)
}

fn place_name(resource: Resource, ring: u8) -> String {
    match resource {
        Resource::TaskWindow => format!("ring {ring}'s task window"),
        Resource::Heap => format!("ring {ring}'s heap"),
        Resource::DepPool => format!("ring {ring}'s dependency pool"),
        Resource::Tensormap => "the tensormap".to_string(),
    }
}

fn amount(of: u64, resource: Resource) -> String {
    match resource {
        Resource::TaskWindow => format!("{of} slots"),
        Resource::Heap => format!("{of} bytes"),
        Resource::DepPool | Resource::Tensormap => format!("{of} entries"),
    }
}

/// A time as people read it.
pub(super) fn seconds(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        ns if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.0} ms", ns / 1e6),
        ns => format!("{:.1} s", ns / 1e9),
    }
}
