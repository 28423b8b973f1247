//! Graphs that are built once and launched any number of times.
//!
//! Building runs the orchestration against a recorder of submits instead of a submitter: dependencies are inferred with
//! a table that grows, outputs get places in the graph's own heap, and nothing is executed. So ring limits do not apply,
//! and a `read` inside has nothing to read.

mod builder;

use crate::arg::Scratch;
use crate::buffer::{AnyLease, SharedBuffer};
use crate::device::Device;
use crate::element::Element;
use crate::engine::{Lead, RoundCount, no_memory, watch_building};
use crate::error::{Error, Result};
use crate::isolate::refuse_closure;
use crate::options::{RunOptions, check_rounds};
use crate::orchestrator::Orchestrator;
use crate::sink::SubmitSink;
use builder::{GraphBuilder, host_number};
use plimsoll_abi::Flags;
use plimsoll_abi::record::{SubmitRecord, SubmitTag};
use plimsoll_collect::Session;
use plimsoll_platform::Platform;
use plimsoll_probe::Lane;
use plimsoll_sched::Agent;
use plimsoll_sched::prebuilt::Graph;
use plimsoll_sched::site::Site;
use plimsoll_sched::slot::SlotRef;
use plimsoll_sched::submit::Guesses;
use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

/// A graph that was built once. It may borrow what it was built with for `'env`.
pub struct Prebuilt<'env> {
    /// Counted, because an agent that was left behind may be in it.
    pub(crate) graph: Arc<Graph>,
    /// Host buffers by number: what keeps each, and its address.
    buffers: Vec<Bound>,
    /// The submits as dep_gen records them.
    submits: Vec<SubmitRecord>,
    /// Overlaps that may be false: the tasks of every launch wait for them.
    pub(crate) guesses: Guesses,
    device: u64,
    env: PhantomData<&'env mut ()>,
}

struct Bound {
    /// The number of the shared buffer that the graph was built with. `bind` finds the place by it.
    built_with: Option<u64>,
    base: u64,
    elements: u64,
    /// The owner of the memory; `None` if it is borrowed.
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
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) if the graph does not use `old`, if `new` has another length, or if another
    /// run or caller has `new`.
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
        self.buffers[at].keep = Some(Box::new(AnyLease::new(lease)));
        self.buffers[at].base = address;
        // SAFETY: a graph that is borrowed mutably is not at work; it keeps the lease of the new buffer, which has as many elements.
        unsafe { self.graph.bind(at as u32, address) };
        Ok(())
    }

    /// Whether its kernels may touch what somebody else owns.
    pub(crate) fn borrows(&self) -> bool {
        self.buffers.iter().any(|bound| bound.keep.is_none())
    }

    /// An agent that was left behind may use it for ever: nothing of it is freed, and its buffers stay taken.
    fn quarantine(&mut self) {
        std::mem::forget((Arc::clone(&self.graph), std::mem::take(&mut self.buffers)));
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
                self.buffers[..at].iter_mut().filter_map(self::held).for_each(AnyLease::suspend);
                return Err(error);
            }
        }
        Ok(())
    }

    fn let_go(&mut self) {
        self.buffers.iter_mut().filter_map(held).for_each(AnyLease::suspend);
    }
}

fn held(bound: &mut Bound) -> Option<&mut AnyLease> {
    bound.keep.as_mut()?.downcast_mut::<AnyLease>()
}

impl Device {
    /// Builds a graph without running it. `read` inside is an error.
    ///
    /// # Errors
    /// As [`Device::run`]; a graph cannot be built with `read` or `write` inside.
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
    ///
    /// # Errors
    /// As [`prebuild`](Self::prebuild), and [`ScopeTasksOverflow`](plimsoll_abi::ErrorCode::ScopeTasksOverflow) if there are more tasks than
    /// allowed.
    #[track_caller]
    pub fn prebuild_within<'env>(
        &mut self,
        most: usize,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<()>,
    ) -> Result<Prebuilt<'env>> {
        self.prebuild_at(Site::caller(), most, &RunOptions::default(), program)
    }

    /// As [`prebuild_within`](Self::prebuild_within), of a program whose source is at `site`, within the budgets of `options`.
    pub(crate) fn prebuild_at<'env>(
        &mut self,
        site: Site,
        most: usize,
        options: &RunOptions,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<()>,
    ) -> Result<Prebuilt<'env>> {
        if self.is_isolated() {
            return Err(refuse_closure());
        }
        let (run, device) = self.next_run();
        let mut builder = GraphBuilder::new(site, self.kernels(), most.min(Self::MOST_PREBUILT));
        let mut keep = Vec::new();
        let mut scratch = Scratch::new();
        let built = {
            let kernels = self.kernels();
            let limits = self.limits();
            let progress = Arc::clone(&builder.progress);
            let deadline = options.deadline.filter(|_| !self.engine_facts().virtual_time);
            let mut o = Orchestrator::new(&mut builder, &mut keep, kernels, &mut scratch, (run, device), limits);
            watch_building(options, deadline, &progress, || program(&mut o))
        };
        if let Some(failure) = builder.failure() {
            // The program may have ignored the failure of a call: it is returned here.
            return Err(self.explain(&failure));
        }
        built?;
        // SAFETY: the builder placed every argument in the heap or in its buffer, as the two tiers checked it; all buffers are bound below.
        let graph = unsafe { builder.plan.build(|rings| self.share(rings)) };
        let graph = Arc::new(graph.map_err(|error| no_memory(&error))?);
        let (submits, guesses) = (builder.submits, builder.guesses);
        let mut prebuilt = Prebuilt { graph, buffers: Vec::new(), submits, guesses, device, env: PhantomData };
        let mut keep = keep.into_iter();
        for (number, buffer) in builder.buffers.into_iter().enumerate() {
            // SAFETY: the graph has not been launched, and keeps what owns the buffer; what is borrowed outlives it.
            unsafe { prebuilt.graph.bind(number as u32, buffer.base) };
            let keep = if buffer.kept { keep.next() } else { None };
            let built_with = keep.as_ref().and_then(|keep| keep.downcast_ref::<AnyLease>()).map(AnyLease::number);
            prebuilt.buffers.push(Bound { built_with, base: buffer.base, elements: buffer.elements, keep });
        }
        prebuilt.let_go();
        Ok(prebuilt)
    }

    /// Launches a graph `rounds` times, one after the other, and returns when every task has completed.
    ///
    /// # Errors
    /// As [`Device::run_with`], and if the graph was built on another device.
    #[track_caller]
    pub fn launch(&mut self, prebuilt: &mut Prebuilt<'_>, rounds: u32, options: &RunOptions) -> Result<()> {
        self.launch_rounds(prebuilt, rounds, options, |_| Ok(()))
    }

    /// As [`launch`](Self::launch), and calls `between` with the number of the next round before each but the first. The
    /// graph's shared buffers are free meanwhile.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    #[track_caller]
    pub fn launch_rounds(
        &mut self,
        prebuilt: &mut Prebuilt<'_>,
        rounds: u32,
        options: &RunOptions,
        mut between: impl FnMut(u32) -> Result<()>,
    ) -> Result<()> {
        check_rounds(rounds)?;
        let (_, device) = self.next_run();
        if prebuilt.device != device {
            return Err(Error::invalid(
                "The graph was built on another device. Its kernels are registered there. Launch it there.",
            ));
        }
        let site = Site::caller();
        self.recorded(options, |device, session| {
            device.rounds(rounds, |device, count| {
                if count.number > 0 {
                    between(count.number)?;
                }
                device.launch_round(prebuilt, options, session, count, site)
            })
        })
    }

    /// Launches a graph once.
    fn launch_round(
        &mut self,
        prebuilt: &mut Prebuilt<'_>,
        options: &RunOptions,
        session: Option<&Session>,
        count: &RoundCount,
        site: Site,
    ) -> Result<()> {
        prebuilt.hold()?;
        let failure = self.run_led(options, session, count, site, Lead::graph(prebuilt));
        if self.lost().is_empty() {
            prebuilt.let_go();
        } else {
            prebuilt.quarantine();
        }
        match failure? {
            Some(failure) => Err(self.explain(&failure)),
            None => Ok(()),
        }
    }
}
