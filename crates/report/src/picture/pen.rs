//! Drawing the lanes of a trace, group by group.

use std::io;

use plimsoll_abi::RINGS;
use plimsoll_analyze::critical_arrows;
use plimsoll_trace::{Quality, Trace};

use super::flows::FlowTable;
use super::lane::{PictureLane, Span};
use super::names::SliceNames;
use super::{Canvas, Drawn, Flows, Key, Slice, Unit};

/// Draws the parts of a picture.
pub(super) struct Pen<'p, C> {
    trace: &'p Trace,
    canvas: &'p mut C,
    names: SliceNames,
    drawn: Drawn,
}

impl<'p, C: Canvas> Pen<'p, C> {
    pub(super) fn new(trace: &'p Trace, canvas: &'p mut C, names: SliceNames) -> Self {
        Self { trace, canvas, names, drawn: Drawn::default() }
    }

    pub(super) fn finish(self) -> io::Result<Drawn> {
        self.canvas.finish()?;
        Ok(self.drawn)
    }

    pub(super) fn orchestrators(&mut self) -> io::Result<()> {
        let (orch, scopes, clock) = (&self.trace.orch_phases, &self.trace.scopes, self.trace.clock);
        let timed_scopes = scopes.timed && !scopes.is_empty();
        if orch.is_empty() && !timed_scopes {
            return Ok(());
        }
        self.canvas.group("orchestrator")?;
        if timed_scopes {
            let spans = scopes.spans(&mut Quality::default());
            let span = |at: usize| Span {
                start: scopes.samples[spans[at].begin].at,
                end: spans[at].end.map(|end| scopes.samples[end].at),
            };
            let lane = PictureLane::new("scopes", 0..spans.len(), span);
            let names = &self.names;
            lane.draw(&clock, self.canvas, &mut self.drawn, |at, canvas, ns| {
                let sample = &scopes.samples[spans[at].begin];
                let facts = [(Key::Depth, u64::from(sample.depth)), (Key::Ring, u64::from(sample.ring))];
                let name = names.site(sample, scopes.sites.len());
                canvas.begin(ns, &Slice { name, task: None, facts: &facts, flows_out: &[], flows_in: &[] })
            })?;
        }
        let agents = orch.agent.last().map_or(0, |last| u32::from(*last) + 1);
        for agent in (0..agents).map(|agent| agent as u16) {
            let range = orch.of_agent(agent);
            if range.is_empty() {
                continue;
            }
            let lane_name = if agents == 1 { "submits".to_string() } else { format!("submits {agent}") };
            let span = |at: usize| Span { start: orch.start[at], end: Some(orch.end[at]) };
            let names = &self.names;
            PictureLane::new(&lane_name, range, span).draw(
                &clock,
                self.canvas,
                &mut self.drawn,
                |at, canvas, ns| {
                    let name = names.first_orch + orch.name.get(at).map_or(0, |n| u32::from(*n) + 1);
                    let facts = [(Key::Submit, u64::from(orch.submit_idx[at]))];
                    let task = Some(orch.task[at]);
                    canvas.begin(ns, &Slice { name, task, facts: &facts, flows_out: &[], flows_in: &[] })
                },
            )?;
        }
        Ok(())
    }

    pub(super) fn schedulers(&mut self) -> io::Result<()> {
        let (sched, clock) = (&self.trace.sched_phases, self.trace.clock);
        if sched.is_empty() {
            return Ok(());
        }
        self.canvas.group("schedulers")?;
        for agent in 0..sched.agents {
            let range = sched.of_agent(agent);
            if range.is_empty() {
                continue;
            }
            let span = |at: usize| Span { start: sched.start[at], end: Some(sched.end[at]) };
            let first = self.names.first_sched;
            let lane_name = self.trace.agent_name(agent);
            PictureLane::new(&lane_name, range, span).draw(
                &clock,
                self.canvas,
                &mut self.drawn,
                |at, canvas, ns| {
                    let facts = [
                        (Key::Loop, u64::from(sched.loop_iter[at])),
                        (Key::Tasks, u64::from(sched.tasks[at])),
                        (Key::PopHit, u64::from(sched.pop_hit[at])),
                        (Key::PopMiss, u64::from(sched.pop_miss[at])),
                    ];
                    // The counts of pops are shown only for phases that popped.
                    let popped = sched.pop_hit[at] > 0 || sched.pop_miss[at] > 0;
                    let facts = if popped { &facts[..] } else { &facts[..2] };
                    let name = first + u32::from(sched.name[at]);
                    canvas.begin(ns, &Slice { name, task: None, facts, flows_out: &[], flows_in: &[] })
                },
            )?;
        }
        Ok(())
    }

    pub(super) fn scheduler_view(&mut self) -> io::Result<()> {
        let (executions, clock) = (&self.trace.executions, self.trace.clock);
        if !executions.has_lifecycle() {
            return Ok(());
        }
        self.canvas.group("scheduler view (dispatch to finish)")?;
        for core in self.cores() {
            let span = |at: usize| {
                // An execution without a dispatch record has a slice of no length here, where it started.
                let start = executions.start(at);
                let (start, end) = executions.lifecycle(at).unwrap_or((start, start));
                Span { start, end: Some(end) }
            };
            let mut last = (None, self.names.unknown_kernel);
            let names = &self.names;
            let lane_name = self.trace.core_name(core);
            let lane = PictureLane::new(&lane_name, executions.of_core(core), span);
            lane.draw(&clock, self.canvas, &mut self.drawn, |at, canvas, ns| {
                let name = names.kernel(executions.kernel(at), &mut last);
                let task = Some(executions.word(at));
                canvas.begin(ns, &Slice { name, task, facts: &[], flows_out: &[], flows_in: &[] })
            })?;
        }
        Ok(())
    }

    pub(super) fn core_view(&mut self, flows: Flows) -> io::Result<()> {
        let (executions, clock) = (&self.trace.executions, self.trace.clock);
        if executions.is_empty() {
            return Ok(());
        }
        let table = match (flows, &self.trace.deps) {
            (Flows::All, Some(deps)) => FlowTable::of(self.trace, deps),
            (Flows::Critical, _) => FlowTable::of_arrows(executions.len(), &critical_arrows(self.trace)),
            _ => FlowTable::default(),
        };
        self.drawn.flows = table.len() as u64;
        let index = self.trace.deps.as_ref().map(|deps| (deps, deps.index()));
        self.canvas.group(if self.trace.has_workers() { "workers" } else { "cores" })?;
        for core in self.cores() {
            let span = |at: usize| Span { start: executions.start(at), end: executions.end(at) };
            let mut last = (None, self.names.unknown_kernel);
            let names = &self.names;
            let lane_name = self.trace.core_name(core);
            let lane = PictureLane::new(&lane_name, executions.of_core(core), span);
            let trace = self.trace;
            lane.draw(&clock, self.canvas, &mut self.drawn, |at, canvas, ns| {
                let mut facts = [(Key::Token, u64::from(executions.token(at))); 4];
                let mut count = 1;
                let mut add = |key: Key, value: u64| {
                    facts[count] = (key, value);
                    count += 1;
                };
                if executions.receive_to_start(at) > 0 {
                    add(Key::ReceiveToStart, clock.ns(u64::from(executions.receive_to_start(at))));
                }
                let round = trace.round(executions.word(at));
                if round > 0 {
                    add(Key::Round, round);
                }
                let task = index
                    .as_ref()
                    .and_then(|(deps, index)| Some(&deps.tasks[index.of_execution(executions.word(at))?]));
                if let Some(task) = task {
                    add(Key::Args, u64::from(task.args));
                }
                let slice = Slice {
                    name: names.kernel(executions.kernel(at), &mut last),
                    task: Some(executions.word(at)),
                    facts: &facts[..count],
                    flows_out: table.out_of(at),
                    flows_in: table.ending_at(at),
                };
                canvas.begin(ns, &slice)
            })?;
        }
        Ok(())
    }

    /// Cores that ran something: on a chip of a hundred a small run would drown in empty lanes.
    fn cores(&self) -> Vec<u16> {
        let executions = &self.trace.executions;
        (0..self.trace.cores.len().min(1 << 16) as u32)
            .map(|core| core as u16)
            .filter(|core| !executions.of_core(*core).is_empty())
            .collect()
    }

    pub(super) fn rings(&mut self) -> io::Result<()> {
        let scopes = &self.trace.scopes;
        if !scopes.timed || scopes.is_empty() {
            return Ok(());
        }
        self.canvas.group("rings")?;
        let in_order = scopes.samples.is_sorted_by_key(|sample| sample.at);
        for ring in 0..RINGS {
            let capacity = scopes.capacities.rings[ring];
            let of = |what: &str, capacity: u64| format!("ring {ring} {what} (of {capacity})");
            let changes = || scopes.changes(ring);
            let window = changes().map(|(from, now)| (from, u64::from(now.window)));
            self.count(&of("task window", capacity.task_window), Unit::Count, in_order, window)?;
            let heap = changes().map(|(from, now)| (from, now.heap));
            self.count(&of("heap", capacity.heap), Unit::Bytes, in_order, heap)?;
            let dep_pool = changes().map(|(from, now)| (from, u64::from(now.dep_pool)));
            self.count(&of("dependency pool", capacity.dep_pool), Unit::Count, in_order, dep_pool)?;
        }
        let name = format!("tensormap (of {})", scopes.capacities.tensormap);
        let tensormap = scopes.samples.iter().map(|s| u64::from(s.tensormap)).enumerate();
        self.count(&name, Unit::Count, in_order, tensormap)
    }

    /// Draws a counter's changes; one that never left zero is left out. `steps` has the samples at which the value changes,
    /// with the new value; the first sample is among them. `in_order` says whether samples are in order of time.
    fn count(
        &mut self,
        name: &str,
        unit: Unit,
        in_order: bool,
        steps: impl Iterator<Item = (usize, u64)> + Clone,
    ) -> io::Result<()> {
        if steps.clone().all(|(_, value)| value == 0) {
            return Ok(());
        }
        self.canvas.counter(name, unit)?;
        self.drawn.lanes += 1;
        let samples = &self.trace.scopes.samples;
        if in_order {
            return self.values(steps.map(|(at, value)| (samples[at].at, value)));
        }
        let ends = steps.clone().map(|(at, _)| at).skip(1).chain([samples.len()]);
        let held = steps.zip(ends).flat_map(|((from, value), end)| (from..end).map(move |at| (samples[at].at, value)));
        let mut held: Vec<(u64, u64)> = held.collect();
        held.sort_by_key(|(at, _)| *at);
        self.values(held.into_iter())
    }

    /// Draws the values of a counter, in order of time, that differ from the one before.
    fn values(&mut self, values: impl Iterator<Item = (u64, u64)>) -> io::Result<()> {
        let mut last = None;
        for (at, value) in values {
            if last != Some(value) {
                self.canvas.value(self.trace.clock.ns_at(at), value)?;
                self.drawn.values += 1;
                last = Some(value);
            }
        }
        Ok(())
    }
}
