//! What agent 0 does in a round, the same on every engine: a program from its first submit to its last completion, or a
//! graph from its roots to its last task.

use crate::engine::{Round, no_memory};
use crate::error::Result;
use crate::prebuilt::Prebuilt;
use crate::report::{Load, load_of, sites_of};
use crate::sink::SubmitSink;
use plimsoll_abi::board::Activity;
use plimsoll_platform::Platform;
use plimsoll_probe::Lane;
use plimsoll_sched::{Agent, Books, Failure, Shared, Submitter};
use std::sync::Arc;

/// What the caller's thread does in a round.
pub struct Lead<'l>(LeadWork<'l>);

enum LeadWork<'l> {
    /// Runs a program in a root scope. The closure keeps the program's result and catches its panics.
    Program(&'l mut dyn FnMut(&mut dyn SubmitSink)),
    /// Launches a graph.
    Graph(&'l Prebuilt<'l>),
}

/// The outcome of a lead.
#[derive(Debug)]
pub struct LeadOutcome {
    /// Accepted submits, or tasks of the graph.
    pub tasks: u64,
    /// Ticks from the first submit to the last completion.
    pub span_ticks: u64,
    /// Ticks from the first submit of the first round to the last completion of this one.
    pub run_ticks: u64,
    /// The fullest moment of every ring and resource.
    pub load: Vec<Load>,
    /// Overlaps that may be false.
    pub conservative_overlaps: u64,
    /// Those overlaps by scope: where the scope was opened, and how many it met.
    pub conservative_sites: Vec<(String, u64)>,
    /// The first failure.
    pub failure: Option<Failure>,
    /// Whether kernels may touch what somebody else owns, so that nobody can be left behind.
    pub borrows: bool,
    /// Ticks that the agent had something to do.
    pub busy_ticks: u64,
    /// The agent's last dispatch token.
    pub token: u32,
}

/// What is known of a round when everything is submitted.
#[derive(Clone, Copy, Debug)]
pub struct AllSubmitted {
    /// How many tasks there are.
    pub tasks: u64,
    /// Whether kernels may touch what somebody else owns, so that nobody can be left behind.
    pub borrows: bool,
}

impl<'l> Lead<'l> {
    pub(crate) fn program(program: &'l mut dyn FnMut(&mut dyn SubmitSink)) -> Self {
        Self(LeadWork::Program(program))
    }

    pub(crate) fn graph(graph: &'l Prebuilt<'l>) -> Self {
        Self(LeadWork::Graph(graph))
    }

    /// Makes ready what the agents of the round share, and returns it: the engine's own for a program, the graph's for a
    /// launch.
    pub fn open<'s>(&'s self, own: &'s Arc<Shared>) -> &'s Arc<Shared> {
        match &self.0 {
            LeadWork::Program(_) => {
                own.open();
                own
            }
            LeadWork::Graph(prebuilt) => {
                prebuilt.graph.reset();
                &prebuilt.graph.shared
            }
        }
    }

    /// How many tasks a launch has; nothing of a program, which submits them one by one.
    pub(crate) fn launched(&self) -> Option<u64> {
        match &self.0 {
            LeadWork::Program(_) => None,
            LeadWork::Graph(prebuilt) => Some(prebuilt.graph.tasks() as u64),
        }
    }

    /// Does the work of the lead as `agent`. `begin` is called once other agents may have something to do, with `true` if
    /// all of them have. `finish` is called when everything is submitted: the agent may make itself useful until all tasks have
    /// completed. A program takes over the books in `books`, if there are any, and puts them back if it went well.
    ///
    /// # Errors
    /// The run's failure, or [`SystemRefused`](ErrorCode::SystemRefused) if there is no memory for the books of its rings.
    pub fn run<P: Platform, L: Lane>(
        self,
        agent: Agent<'_, P, L>,
        round: &Round<'_>,
        books: &mut Option<Books>,
        begin: impl FnOnce(bool),
        finish: impl FnOnce(&mut Agent<'_, P, L>, AllSubmitted),
    ) -> Result<LeadOutcome> {
        match self.0 {
            LeadWork::Program(program) => conduct(agent, round, books, program, begin, finish),
            LeadWork::Graph(graph) => Ok(launch(agent, round, graph, begin, finish)),
        }
    }
}

/// Runs the program and waits for its tasks.
fn conduct<P: Platform, L: Lane>(
    mut agent: Agent<'_, P, L>,
    round: &Round<'_>,
    books: &mut Option<Books>,
    program: &mut dyn FnMut(&mut dyn SubmitSink),
    begin: impl FnOnce(bool),
    finish: impl FnOnce(&mut Agent<'_, P, L>, AllSubmitted),
) -> Result<LeadOutcome> {
    let capacities = round.capacities;
    let kept = match books.take() {
        Some(books) => books,
        None => Books::new(&capacities.rings, capacities.tensormap).map_err(|error| no_memory(&error))?,
    };
    agent.pulse.clone_from(&round.options.pulse);
    let mut submitter = Submitter::new(agent, round.kernels, kept, round.lend);
    begin(false);
    submitter.set_wait_budget(round.options.read_timeout);
    submitter.open_scope(round.site, false);
    submitter.note_rings();
    submitter.set_activity(Activity::UserCode);
    program(&mut submitter);
    let closed = submitter.close_scopes();
    let all = AllSubmitted { tasks: submitter.submitted(), borrows: submitter.borrows() };
    finish(&mut submitter.agent, all);
    let drained = submitter.drain();
    let (start, end) = (submitter.started(), submitter.agent.ticks());
    let span_ticks = end - start;
    submitter.agent.lane.flush();
    submitter.set_activity(Activity::Away);
    let led = LeadOutcome {
        tasks: submitter.submitted(),
        span_ticks,
        run_ticks: round.count.ticks_since_first(start, end),
        load: load_of(&submitter.peaks(), submitter.peak_sites(), capacities),
        conservative_overlaps: submitter.map().conservative_overlaps(),
        conservative_sites: sites_of(submitter.guesses()),
        failure: closed.and(drained).err().map(|failure| *failure),
        borrows: submitter.borrows(),
        busy_ticks: span_ticks.saturating_sub(submitter.agent.idle_ticks()),
        token: submitter.agent.dispatches(),
    };
    *books = submitter.into_books();
    Ok(led)
}

/// Publishes the tasks of the graph that wait for nobody, and waits for the last completion.
fn launch<P: Platform, L: Lane>(
    mut agent: Agent<'_, P, L>,
    round: &Round<'_>,
    prebuilt: &Prebuilt<'_>,
    begin: impl FnOnce(bool),
    finish: impl FnOnce(&mut Agent<'_, P, L>, AllSubmitted),
) -> LeadOutcome {
    agent.pulse.clone_from(&round.options.pulse);
    prebuilt.record_submits(&mut agent);
    agent.set_activity(Activity::Drain);
    let start = agent.ticks();
    prebuilt.graph.roots().iter().for_each(|&root| agent.publish(root));
    begin(true);
    let tasks = prebuilt.tasks() as u64;
    finish(&mut agent, AllSubmitted { tasks, borrows: prebuilt.borrows() });
    agent.work_until(tasks, round.lend);
    let end = agent.ticks();
    let span_ticks = end - start;
    agent.lane.flush();
    agent.set_activity(Activity::Away);
    LeadOutcome {
        tasks,
        span_ticks,
        run_ticks: round.count.ticks_since_first(start, end),
        // A graph lies in an arena of its own and says nothing about rings.
        load: Vec::new(),
        conservative_overlaps: prebuilt.guesses.seen(),
        conservative_sites: sites_of(&prebuilt.guesses),
        failure: agent.shared.failure(),
        borrows: prebuilt.borrows(),
        busy_ticks: span_ticks.saturating_sub(agent.idle_ticks()),
        token: agent.dispatches(),
    }
}
