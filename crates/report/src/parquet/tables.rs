//! What each table has. `docs/sql.md` lists the columns.

use plimsoll_analyze::TaskRow;
use plimsoll_trace::deps::NO_ARG;
use plimsoll_trace::{PeakForm, Quality, ScopeSpan, Trace};

use super::columns::ParquetTable;

/// One row: what the run was and how long it took.
pub(super) fn runs(trace: &Trace) -> ParquetTable<'_> {
    let (facts, manifest) = (&trace.facts, trace.manifest.as_ref());
    let stats = plimsoll_analyze::stats(trace);
    let table = plimsoll_analyze::TaskTable::new(trace);
    let path = plimsoll_analyze::path_summary(trace, &table, |_, _| {});
    let some = |text: &str| Some(text.to_string()).filter(|text| !text.is_empty());
    let (makespan, wall, tasks, utilisation) = (stats.makespan_ns, stats.wall_ns, stats.tasks, stats.utilisation);
    let (fixed, bound) = (path.as_ref().map(|path| path.static_ns), path.as_ref().map(|path| path.bound_ns));
    let sched = path.as_ref().and_then(|path| plimsoll_analyze::sched_beside(trace, &table, path));
    let verdict = sched.map(|sched| sched.verdict.to_string());
    ParquetTable::new("runs", 1)
        .text("program", move |_| some(&facts.program))
        .text("engine", move |_| some(&facts.engine))
        .text("arch", move |_| some(&facts.arch))
        .flag("virtual", move |_| facts.virtual_time)
        .flag("emulated", move |_| facts.emulated)
        .int("level", move |_| u64::from(facts.level))
        .text("status", move |_| manifest.map(|manifest| manifest.status.name().to_string()))
        .int("cores", move |_| trace.cores.len() as u64)
        .int("tasks", move |_| tasks)
        .int("executions", move |_| trace.executions.len() as u64)
        .maybe_int("makespan_ns", move |_| makespan)
        .maybe_int("wall_ns", move |_| wall)
        .maybe_int("static_ns", move |_| fixed)
        .maybe_int("bound_ns", move |_| bound)
        .real("utilisation", move |_| utilisation)
        .text("verdict", move |_| verdict.clone())
}

/// One row per task that ran.
pub(super) fn tasks<'t>(trace: &'t Trace, rows: &'t [TaskRow]) -> ParquetTable<'t> {
    let clock = trace.clock;
    let ns = move |ticks: Option<u64>| ticks.map(|ticks| clock.ns_at(ticks));
    ParquetTable::new("tasks", rows.len())
        .int("task_id", move |at| rows[at].word)
        .text("task", move |at| Some(trace.task_name(rows[at].word)))
        .int("round", move |at| trace.round(rows[at].word))
        .named("kernel", move |at| rows[at].kernel.map(u64::from), move |kernel| name_of(trace, kernel))
        .maybe_int("submitted_ns", move |at| ns(rows[at].submitted))
        .maybe_int("dispatch_ns", move |at| ns(rows[at].dispatch))
        .maybe_int("start_ns", move |at| ns(Some(rows[at].start)))
        .maybe_int("end_ns", move |at| ns(Some(rows[at].end)))
        .maybe_int("finish_ns", move |at| ns(rows[at].finish))
        .int("executions", move |at| u64::from(rows[at].executions))
        .int("fanin", move |at| u64::from(rows[at].fanin))
        .int("fanout", move |at| u64::from(rows[at].fanout))
        .flag("critical", move |at| rows[at].critical)
        .maybe_int("path_kernel_ns", move |at| rows[at].path_kernel_ns)
        .maybe_int("followed_id", move |at| rows[at].followed)
        .maybe_int("data_wait_ns", move |at| rows[at].waits.data_wait)
        .int("core_wait_ns", move |at| rows[at].waits.core_wait)
        .maybe_int("scheduling_ns", move |at| rows[at].waits.scheduling)
        .maybe_int("submit_ns", move |at| rows[at].waits.submit)
        .maybe_int("ring_wait_ns", move |at| rows[at].waits.ring_wait)
        .maybe_int("recorder_wait_ns", move |at| rows[at].waits.recorder_wait)
        .maybe_int("gil_wait_ns", move |at| rows[at].waits.gil_wait)
        .int("front_gap_ns", move |at| rows[at].waits.front_gap)
}

/// One row per execution of a task on a core.
pub(super) fn executions(trace: &Trace) -> ParquetTable<'_> {
    let (rows, clock) = (&trace.executions, trace.clock);
    let class = move |core: u64| trace.cores.get(core as usize).map_or("any", |core| core.core_type.name()).to_string();
    ParquetTable::new("executions", rows.len())
        .int("task_id", move |at| rows.word(at))
        .int("round", move |at| trace.round(rows.word(at)))
        .named("kernel", move |at| rows.kernel(at).map(u64::from), move |kernel| name_of(trace, kernel))
        .int("core", move |at| u64::from(rows.core(at)))
        .named("core_type", move |at| Some(u64::from(rows.core(at))), class)
        .int("token", move |at| u64::from(rows.token(at)))
        .maybe_int("dispatch_ns", move |at| rows.lifecycle(at).map(|(dispatch, _)| clock.ns_at(dispatch)))
        .int("receive_to_start_ns", move |at| clock.ns(u64::from(rows.receive_to_start(at))))
        .int("start_ns", move |at| clock.ns_at(rows.start(at)))
        .maybe_int("end_ns", move |at| rows.end(at).map(|end| clock.ns_at(end)))
        .maybe_int("finish_ns", move |at| rows.lifecycle(at).map(|(_, finish)| clock.ns_at(finish)))
}

/// One row per phase: of schedulers, then of submitters.
pub(super) fn phases(trace: &Trace) -> ParquetTable<'_> {
    let (sched, orch, clock) = (&trace.sched_phases, &trace.orch_phases, trace.clock);
    let first = sched.len();
    // Submitters may be numbered apart from schedulers.
    let agent = move |at: usize| match at < first {
        true => u64::from(sched.agent[at]),
        false => 1 << 16 | u64::from(orch.agent[at - first]),
    };
    let name_of_agent = move |agent: u64| match agent >> 16 {
        0 => trace.agent_name(agent as u16),
        _ => trace.submitter_name(agent as u16),
    };
    let of_scheduler = move |at: usize, column: &[u32]| (at < first).then(|| u64::from(column[at]));
    // Names of the two tables of phases, one behind the other.
    let name = move |at: usize| match at < first {
        true => u64::from(sched.name[at]),
        false => 1 << 32 | orch.name.get(at - first).map_or(1 << 16, |name| u64::from(*name)),
    };
    let text = move |name: u64| match (name >> 32, name as u32) {
        (0, name) => sched.names.name(name as u16).to_string(),
        (_, name) if name == 1 << 16 => "orch_submit".to_string(),
        (_, name) => orch.names.name(name as u16).to_string(),
    };
    ParquetTable::new("phases", first + orch.len())
        .named("agent", move |at| Some(agent(at)), name_of_agent)
        .named("phase", move |at| Some(name(at)), text)
        .int("start_ns", move |at| clock.ns_at(if at < first { sched.start[at] } else { orch.start[at - first] }))
        .int("end_ns", move |at| clock.ns_at(if at < first { sched.end[at] } else { orch.end[at - first] }))
        .maybe_int("loop_iter", move |at| of_scheduler(at, &sched.loop_iter))
        .maybe_int("tasks", move |at| of_scheduler(at, &sched.tasks))
        .maybe_int("pop_hit", move |at| of_scheduler(at, &sched.pop_hit))
        .maybe_int("pop_miss", move |at| of_scheduler(at, &sched.pop_miss))
        .maybe_int("task_id", move |at| (at >= first).then(|| orch.task[at - first]))
}

/// The scopes of a trace, in order of opening.
pub(super) fn scope_spans(trace: &Trace) -> Vec<ScopeSpan> {
    trace.scopes.spans(&mut Quality::default())
}

/// One row per scope, with its peaks on its own ring.
pub(super) fn scopes<'t>(trace: &'t Trace, spans: &'t [ScopeSpan]) -> ParquetTable<'t> {
    let (samples, clock) = (&trace.scopes, trace.clock);
    let begin = move |at: usize| &samples.samples[spans[at].begin];
    let end = move |at: usize| spans[at].end.map(|end| &samples.samples[end]);
    let ring = move |at: usize| begin(at).ring as usize;
    let site = move |site: u64| samples.sites.get(site as usize).map_or("(unknown):0", String::as_str).to_string();
    let peaks = move |at: usize| samples.peaks_of(spans[at]);
    let known = match samples.peaks {
        PeakForm::True => "true",
        PeakForm::HighWater => "at_most",
        PeakForm::AtSample => "at_least",
    };
    ParquetTable::new("scopes", spans.len())
        .named("site", move |at| Some(u64::from(begin(at).site)), site)
        .int("depth", move |at| u64::from(begin(at).depth))
        .int("ring", move |at| ring(at) as u64)
        .maybe_int("begin_ns", move |at| samples.timed.then(|| clock.ns_at(begin(at).at)))
        .maybe_int("end_ns", move |at| end(at).filter(|_| samples.timed).map(|end| clock.ns_at(end.at)))
        .maybe_int("tasks", move |at| end(at).map(|end| end.window_head.saturating_sub(begin(at).window_head)))
        .text("peaks", move |_| Some(known.to_string()))
        .int("peak_task_window", move |at| peaks(at).window[ring(at)])
        .int("peak_heap", move |at| peaks(at).heap[ring(at)])
        .int("peak_dep_pool", move |at| peaks(at).dep[ring(at)])
        .int("peak_tensormap", move |at| peaks(at).tensormap)
        .int("peak_fanin", move |at| u64::from(peaks(at).fanin))
        .int("task_window", move |at| samples.capacities.rings[ring(at)].task_window)
        .int("heap", move |at| samples.capacities.rings[ring(at)].heap)
        .int("dep_pool", move |at| samples.capacities.rings[ring(at)].dep_pool)
        .int("tensormap", move |_| samples.capacities.tensormap)
}

/// The edges of every round, as the table has them.
pub(super) fn edges_of_rounds(trace: &Trace) -> Vec<(u64, u32)> {
    trace.deps.as_ref().map_or(Vec::new(), |deps| plimsoll_analyze::TaskTable::new(trace).edges_of_rounds(deps))
}

/// One row per dependency and round; a pair of tasks may have several.
pub(super) fn edges<'t>(trace: &'t Trace, rows: &'t [(u64, u32)]) -> ParquetTable<'t> {
    let (edges, tasks) = trace.deps.as_ref().map_or((&[][..], &[][..]), |deps| (&deps.edges[..], &deps.tasks[..]));
    let edge = move |at: usize| &edges[rows[at].1 as usize];
    ParquetTable::new("edges", rows.len())
        .int("pred_id", move |at| tasks[edge(at).pred as usize].word ^ rows[at].0)
        .int("succ_id", move |at| tasks[edge(at).succ as usize].word ^ rows[at].0)
        .maybe_int("arg", move |at| Some(edge(at).arg).filter(|arg| *arg != NO_ARG).map(|arg| arg as u64))
        .text("source", move |at| Some(edge(at).source.name().to_string()))
        .flag("covered", move |at| edge(at).covered)
}

/// One row per reading and counter; all cycles are the counter `total_cycles`.
pub(super) fn counters(trace: &Trace) -> ParquetTable<'_> {
    let counters = &trace.counters;
    let cycles = usize::from(counters.has_cycles);
    let width = (counters.names.len() + cycles).max(1);
    let row = move |at: usize| &counters.rows[at / width];
    let name = move |name: u64| match (name as usize).checked_sub(cycles) {
        Some(name) => counters.names[name].clone(),
        None => "total_cycles".to_string(),
    };
    let value = move |at: usize| match (at % width).checked_sub(cycles) {
        Some(counter) => counters.counts(at / width)[counter],
        None => row(at).total_cycles,
    };
    ParquetTable::new("counters", counters.rows.len() * width)
        .int("task_id", move |at| row(at).task)
        .named("kernel", move |at| counters.kernel(at / width).map(u64::from), move |kernel| name_of(trace, kernel))
        .int("core", move |at| u64::from(row(at).core))
        .text("core_type", move |at| Some(row(at).core_type.name().to_string()))
        .named("counter", move |at| Some((at % width) as u64), name)
        .int("value", value)
}

fn name_of(trace: &Trace, kernel: u64) -> String {
    trace.kernel_name(kernel as u32).into_owned()
}
