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
pub struct Lead<'l>(Work<'l>);

enum Work<'l> {
    /// Runs a program in a root scope. Whatever it returns, and a panic, it keeps to itself.
    Program(&'l mut dyn FnMut(&mut dyn SubmitSink)),
    /// Launches a graph.
    Graph(&'l Prebuilt<'l>),
}

/// What came of a lead.
#[derive(Debug)]
pub struct Led {
    /// Accepted submits, or tasks of the graph.
    pub tasks: u64,
    /// Ticks from the first submit to the last completion.
    pub span_ticks: u64,
    /// The fullest moment of every ring and resource.
    pub load: Vec<Load>,
    /// Overlaps that may be false.
    pub conservative_overlaps: u64,
    /// How many of them were met in which scopes.
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

impl<'l> Lead<'l> {
    pub(crate) fn program(program: &'l mut dyn FnMut(&mut dyn SubmitSink)) -> Self {
        Self(Work::Program(program))
    }

    pub(crate) fn graph(graph: &'l Prebuilt<'l>) -> Self {
        Self(Work::Graph(graph))
    }

    /// What the agents of the round share, ready for it: the engine's own, or the graph's.
    pub fn open<'s>(&'s self, own: &'s Arc<Shared>) -> &'s Arc<Shared> {
        match &self.0 {
            Work::Program(_) => {
                own.open();
                own
            }
            Work::Graph(prebuilt) => {
                prebuilt.graph.reset();
                &prebuilt.graph.shared
            }
        }
    }

    /// Does it, as `agent`. `begin` is called once there may be something to do for others; with true, if there is for all of
    /// them. Books that are left in `books` serve a program, and are left there again if it went well.
    pub fn run<P: Platform, L: Lane>(
        self,
        agent: Agent<'_, P, L>,
        round: &Round<'_>,
        books: &mut Option<Books>,
        begin: impl FnOnce(bool),
    ) -> Result<Led> {
        match self.0 {
            Work::Program(program) => conduct(agent, round, books, program, begin),
            Work::Graph(graph) => Ok(launch(agent, round, graph, begin)),
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
) -> Result<Led> {
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
    let drained = submitter.drain();
    let span_ticks = submitter.span_ticks();
    submitter.agent.lane.flush();
    submitter.set_activity(Activity::Away);
    let led = Led {
        tasks: submitter.submitted(),
        span_ticks,
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
) -> Led {
    agent.pulse.clone_from(&round.options.pulse);
    prebuilt.record_submits(&mut agent);
    agent.set_activity(Activity::Drain);
    let start = agent.ticks();
    prebuilt.graph.roots().iter().for_each(|&root| agent.publish(root));
    begin(true);
    let tasks = prebuilt.tasks() as u64;
    agent.work_until(tasks, round.lend);
    let span_ticks = agent.ticks() - start;
    agent.lane.flush();
    agent.set_activity(Activity::Away);
    Led {
        tasks,
        span_ticks,
        // A graph lies in an arena of its own and says nothing about rings.
        load: Vec::new(),
        conservative_overlaps: 0,
        conservative_sites: Vec::new(),
        failure: agent.shared.failure(),
        borrows: prebuilt.borrows(),
        busy_ticks: span_ticks.saturating_sub(agent.idle_ticks()),
        token: agent.dispatches(),
    }
}
