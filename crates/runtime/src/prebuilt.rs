//! Graphs that are built once and launched any number of times.
//!
//! Building runs the orchestration against a recorder of submits instead of a submitter: dependencies are inferred with
//! a table that grows, outputs get places in the graph's own heap, and nothing is executed. So ring limits do not apply,
//! and a `read` inside has nothing to read.

mod builder;

use crate::arg::Scratch;
use crate::buffer::{Held, SharedBuffer};
use crate::crew::{Floor, Job};
use crate::device::{Device, Round, Work, no_memory, with_timer};
use crate::element::Element;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::options::{RunOptions, check_rounds};
use crate::orchestrator::Orchestrator;
use crate::report::{RunReport, WorkerReport};
use builder::{Builder, host_number};
use plimsoll_abi::Flags;
use plimsoll_abi::record::{SubmitRecord, SubmitTag};
use plimsoll_platform::Platform;
use plimsoll_probe::{Lane, Off, Probe};
use plimsoll_sched::prebuilt::Graph;
use plimsoll_sched::shared::ORCHESTRATOR;
use plimsoll_sched::slot::SlotRef;
use plimsoll_sched::{Agent, Shared};
use std::any::Any;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A graph that was built once. It may borrow what it was built with for `'env`.
pub struct Prebuilt<'env> {
    pub(crate) graph: Graph,
    /// Host buffers by number: what keeps each, and its address.
    buffers: Vec<Bound>,
    /// The submits as dep_gen records them.
    submits: Vec<SubmitRecord>,
    device: u64,
    env: PhantomData<&'env mut ()>,
}

struct Bound {
    /// The shared buffer that the graph was built with, by number: what a binding names.
    built_with: Option<u64>,
    base: u64,
    elements: u64,
    /// What owns the memory; nothing for a borrow.
    keep: Option<Box<dyn Any>>,
}

impl std::fmt::Debug for Prebuilt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prebuilt({} tasks)", self.graph.tasks())
    }
}

impl Prebuilt<'_> {
    /// Tasks of the graph.
    pub fn tasks(&self) -> usize {
        self.graph.tasks()
    }

    /// Uses `new` wherever the graph was built with `old`, from the next launch on. `old` keeps naming that place, whatever
    /// was bound to it before; so the buffer itself puts things back: `bind(&old, &old)`.
    pub fn bind<T: Element>(&mut self, old: &SharedBuffer<T>, new: &SharedBuffer<T>) -> Result<()> {
        let built_with = Some(old.number());
        let Some(at) = self.buffers.iter().position(|bound| bound.built_with == built_with) else {
            return Err(Error::invalid(
                "The graph was not built with that buffer. A binding names the buffer that the graph was built with, also after another was bound in its place. Name that one.",
            ));
        };
        let (address, elements) = new.extent();
        if elements != self.buffers[at].elements {
            return Err(Error::invalid(format!(
                "A buffer of {elements} elements cannot stand in for one of {}. The graph's views would leave it. Bind one of the same size.",
                self.buffers[at].elements
            )));
        }
        let mut lease = new.lease()?;
        lease.suspend();
        self.buffers[at].keep = Some(Box::new(Held::new(lease)));
        self.buffers[at].base = address;
        self.graph.bind(at as u32, address);
        Ok(())
    }

    /// Records the submits it was built from, as if they were made now: every round has its own.
    pub(crate) fn record_submits<P: Platform, L: Lane>(&self, agent: &mut Agent<'_, P, L>) {
        if !agent.lane.on(Flags::DEP_GEN) {
            return;
        }
        for record in &self.submits {
            let mut record = *record;
            if record.tag == SubmitTag::Buffer as u8 {
                let number = host_number(record.id);
                let base = self.buffers[number as usize - 1].base;
                record.offset = agent.platform.buffer_address(number, base);
            }
            agent.lane.submit_record(&record);
        }
    }

    /// Takes every shared buffer for a launch.
    fn hold(&mut self) -> Result<()> {
        for at in 0..self.buffers.len() {
            if let Some(held) = held(&mut self.buffers[at])
                && let Err(error) = held.resume()
            {
                self.buffers[..at].iter_mut().filter_map(self::held).for_each(Held::suspend);
                return Err(error);
            }
        }
        Ok(())
    }

    fn let_go(&mut self) {
        self.buffers.iter_mut().filter_map(held).for_each(Held::suspend);
    }
}

fn held(bound: &mut Bound) -> Option<&mut Held> {
    bound.keep.as_mut()?.downcast_mut::<Held>()
}

impl Device {
    /// Builds a graph without running it. `read` inside is an error.
    #[track_caller]
    pub fn prebuild<'env>(
        &mut self,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<()>,
    ) -> Result<Prebuilt<'env>> {
        self.prebuild_within(Self::MOST_PREBUILT, program)
    }

    /// The most tasks that a prebuilt graph can have.
    pub const MOST_PREBUILT: usize = SlotRef::MAX_INDEX as usize + 1;

    /// As [`prebuild`](Self::prebuild), and a graph of more than `most` tasks is refused with
    /// [`ScopeTasksOverflow`](plimsoll_abi::ErrorCode::ScopeTasksOverflow): no ring bounds what it takes.
    #[track_caller]
    pub fn prebuild_within<'env>(
        &mut self,
        most: usize,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<()>,
    ) -> Result<Prebuilt<'env>> {
        let (run, device, _) = self.next_run();
        let mut builder = Builder::new(Location::caller(), self.kernels(), most.min(Self::MOST_PREBUILT));
        let mut keep = Vec::new();
        let mut scratch = Scratch::new();
        let built = {
            let kernels = self.kernels();
            let mut o = Orchestrator::new(&mut builder, &mut keep, kernels, &mut scratch, run, device);
            program(&mut o)
        };
        if let Some(failure) = builder.failure() {
            // Whoever ignored it inside gets it here.
            return Err(Error::from_failure(&failure, |kernel| self.kernels()[kernel as usize].name.clone()));
        }
        built?;
        let graph = builder.plan.build(|capacities| match self.is_virtual() {
            true => self.virtual_machine().share(capacities),
            false => Shared::new(self.workers(), capacities),
        });
        let graph = graph.map_err(|error| no_memory(&error))?;
        let mut prebuilt = Prebuilt { graph, buffers: Vec::new(), submits: builder.submits, device, env: PhantomData };
        let mut keep = keep.into_iter();
        for (number, buffer) in builder.buffers.into_iter().enumerate() {
            prebuilt.graph.bind(number as u32, buffer.base);
            let keep = if buffer.kept { keep.next() } else { None };
            let built_with = keep.as_ref().and_then(|keep| keep.downcast_ref::<Held>()).map(Held::number);
            prebuilt.buffers.push(Bound { built_with, base: buffer.base, elements: buffer.elements, keep });
        }
        prebuilt.let_go();
        Ok(prebuilt)
    }

    /// Launches a graph `rounds` times, one after the other, and returns when every task has completed.
    pub fn launch(&mut self, prebuilt: &mut Prebuilt<'_>, rounds: u32, options: &RunOptions) -> Result<()> {
        self.launch_rounds(prebuilt, rounds, options, |_| Ok(()))
    }

    /// As [`launch`](Self::launch), and calls `between` with the number of the next round before each but the first. The
    /// graph's shared buffers are free meanwhile.
    pub fn launch_rounds(
        &mut self,
        prebuilt: &mut Prebuilt<'_>,
        rounds: u32,
        options: &RunOptions,
        mut between: impl FnMut(u32) -> Result<()>,
    ) -> Result<()> {
        check_rounds(rounds)?;
        let (_, device, _) = self.next_run();
        if prebuilt.device != device {
            return Err(Error::invalid(
                "The graph was built on another device. Its kernels are registered there. Launch it there.",
            ));
        }
        let tokens: Vec<AtomicU32> = (0..self.workers()).map(|_| AtomicU32::new(0)).collect();
        let record = options.record.as_ref().filter(|record| !record.flags.is_empty());
        match (record, self.is_virtual()) {
            (Some(record), false) => self.recorded(record, |device, probe| {
                device.launch_each(prebuilt, rounds, &tokens, &mut between, |device, prebuilt, round| {
                    device.launch_probed(prebuilt, options, probe, round)
                })
            }),
            (None, false) => self.launch_each(prebuilt, rounds, &tokens, &mut between, |device, prebuilt, round| {
                device.launch_probed(prebuilt, options, &Off, round)
            }),
            (Some(record), true) => self.recorded_virtual(record, |device, probe, drain| {
                device.launch_each(prebuilt, rounds, &tokens, &mut between, |device, prebuilt, round| {
                    device.launch_virtual(prebuilt, options, probe, Some(drain), round)
                })
            }),
            (None, true) => self.launch_each(prebuilt, rounds, &tokens, &mut between, |device, prebuilt, round| {
                device.launch_virtual(prebuilt, options, &Off, None, round)
            }),
        }
    }

    fn launch_each(
        &mut self,
        prebuilt: &mut Prebuilt<'_>,
        rounds: u32,
        tokens: &[AtomicU32],
        between: &mut impl FnMut(u32) -> Result<()>,
        mut launch: impl FnMut(&mut Self, &Prebuilt<'_>, Round<'_>) -> Result<()>,
    ) -> Result<()> {
        self.rounds(rounds, |device, number| {
            if number > 0 {
                between(number)?;
            }
            prebuilt.hold()?;
            let outcome = launch(device, prebuilt, Round { number, tokens });
            prebuilt.let_go();
            outcome
        })
    }

    fn launch_probed<B: Probe>(
        &mut self,
        prebuilt: &Prebuilt<'_>,
        options: &RunOptions,
        probe: &B,
        round: Round<'_>,
    ) -> Result<()> {
        let lend = self.lends();
        let floor = &self.crew().floor;
        let shared = &prebuilt.graph.shared;
        prebuilt.graph.reset();
        let busy: Vec<AtomicU64> = (0..shared.agents()).map(|_| AtomicU64::new(0)).collect();
        let work = Work { floor, shared, kernels: self.kernels(), probe, busy: &busy, round };
        let mut agent =
            Agent::new(shared, &floor.platform, self.kernels(), round.lane(probe, ORCHESTRATOR), ORCHESTRATOR);
        agent.resume_tokens(round.first_token(ORCHESTRATOR));
        prebuilt.record_submits(&mut agent);
        let start = agent.ticks();
        prebuilt.graph.roots().iter().for_each(|&root| agent.publish(root));
        // SAFETY: `Gate` closes the gate before `work` goes away, also when a panic passes.
        unsafe { floor.open_to_all(Job { call: Work::<B>::call, context: (&raw const work).cast() }) };
        let gate = Gate { floor, shared };
        with_timer(floor, shared, options, || agent.work_until(prebuilt.graph.tasks() as u64, lend));
        let span = agent.ticks() - start;
        agent.lane.flush();
        round.keep_token(ORCHESTRATOR, agent.dispatches());
        busy[0].store(span.saturating_sub(agent.idle_ticks()), Ordering::Relaxed);
        drop(gate);
        let report = launch_report(floor, shared, span, &busy, prebuilt.graph.tasks() as u64);
        let failure = shared.failure();
        self.set_report(report);
        match failure {
            Some(failure) => Err(Error::from_failure(&failure, |kernel| self.kernels()[kernel as usize].name.clone())),
            None => Ok(()),
        }
    }
}

/// Closes the gate on every way out.
struct Gate<'g> {
    floor: &'g Floor,
    shared: &'g Shared,
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.floor.close(self.shared);
    }
}

fn launch_report(floor: &Floor, shared: &Shared, span: u64, busy: &[AtomicU64], tasks: u64) -> RunReport {
    let hz = u128::from(floor.platform.clock().hz_by_now());
    let ns = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / hz) as u64;
    let worker = |(at, busy): (usize, &AtomicU64)| WorkerReport {
        tasks: shared.done.by(at),
        busy_ns: ns(busy.load(Ordering::Relaxed).min(span)),
    };
    RunReport {
        rounds: 1,
        tasks,
        dispatches: shared.done.total(),
        elapsed_ns: ns(span),
        workers: busy.iter().enumerate().map(worker).collect(),
        ..RunReport::default()
    }
}
