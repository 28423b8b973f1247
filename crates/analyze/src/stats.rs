//! Where the time of tasks went, by function and by core.

use plimsoll_trace::{Facts, KernelTime, NO_KERNEL, Trace};
use serde::Serialize;

use crate::counters::{CounterStats, HostPhaseStats, counter_stats, host_phase_stats};
use crate::quantile::quantile;

/// Statistics of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Stats {
    /// What the run was.
    #[serde(flatten)]
    pub facts: Facts,
    /// Different tasks that ran, counted by round.
    pub tasks: u64,
    /// Executions on cores.
    pub executions: u64,
    /// Executions that had not ended when the capture did; they are in no sum below.
    pub open: u64,
    /// From the first kernel start to the last kernel end; absent if no kernel ran.
    pub makespan_ns: Option<u64>,
    /// From the first dispatch to the last finish; absent below level 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ns: Option<u64>,
    /// Time in kernels, over all cores.
    pub exec_ns: u64,
    /// Time from dispatch to finish, over all executions; absent below level 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<u64>,
    /// Time in kernels over cores × makespan; absent if no time passed.
    pub utilisation: Option<f64>,
    /// By function, the one with most time first.
    pub functions: Vec<FunctionStats>,
    /// By core.
    pub cores: Vec<CoreStats>,
    /// Hardware counters by function; absent if none were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<CounterStats>,
    /// What the host did, by phase; absent if that was not recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host_phases: Vec<HostPhaseStats>,
}

/// Statistics of one function.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FunctionStats {
    /// The kernel's number; absent for executions that no file names.
    pub kernel: Option<u32>,
    /// Its name.
    pub name: String,
    /// Executions.
    pub count: u64,
    /// Time in the kernel, summed up.
    pub exec_total_ns: u64,
    /// Its mean.
    pub exec_avg_ns: f64,
    /// Its median.
    pub exec_p50_ns: u64,
    /// The time that 99 of 100 executions stay below.
    pub exec_p99_ns: u64,
    /// Its least.
    pub exec_min_ns: u64,
    /// Its most.
    pub exec_max_ns: u64,
    /// Share of all time in kernels.
    pub exec_share: f64,
    /// What the scheduler saw; absent below level 2.
    #[serde(flatten)]
    pub lifecycle: Option<LifecycleStats>,
    /// Mean time from receipt to start.
    pub local_avg_ns: f64,
}

/// What the scheduler saw of a function's executions.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LifecycleStats {
    /// Mean time from dispatch to finish.
    pub latency_avg_ns: f64,
    /// Median of it.
    pub latency_p50_ns: u64,
    /// The latency that 99 of 100 executions stay below.
    pub latency_p99_ns: u64,
    /// Mean time from dispatch to start.
    pub head_avg_ns: f64,
    /// Mean time from end to finish.
    pub tail_avg_ns: f64,
    /// Share of the latency that is the kernel's.
    pub exec_of_latency: f64,
}

/// Statistics of one core.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CoreStats {
    /// Its number.
    pub core: u16,
    /// What people call it.
    pub name: String,
    /// What it can run.
    #[serde(rename = "type")]
    pub core_type: &'static str,
    /// Executions.
    pub tasks: u64,
    /// Time in kernels.
    pub busy_ns: u64,
    /// Share of the makespan in kernels.
    pub utilisation: f64,
    /// Share of the makespan between its first kernel start and its last kernel end.
    pub span_share: f64,
}

/// Sums over executions, in ticks.
#[derive(Clone, Debug, Default)]
struct Sums {
    exec: Vec<u64>,
    latency: Vec<u64>,
    local: u64,
    /// None of an execution that was dispatched after its start or finished before its end: clocks of two threads may
    /// disagree by a little.
    head: u64,
    tail: u64,
}

/// Statistics of all executions of a trace.
pub fn stats(trace: &Trace) -> Stats {
    let sums = sums_by_kernel(trace);
    let time = trace.executions.kernel_time();
    let makespan_ns = time.makespan_ns(&trace.clock);
    let exec_ticks = total(sums.iter().flat_map(|(_, s)| &s.exec));
    let latency_ticks = total(sums.iter().flat_map(|(_, s)| &s.latency));
    let mut functions: Vec<FunctionStats> =
        sums.into_iter().map(|(kernel, sums)| function(trace, kernel, sums, exec_ticks)).collect();
    functions.sort_by(|a, b| b.exec_total_ns.cmp(&a.exec_total_ns).then(a.kernel.cmp(&b.kernel)));
    let cores = cores(trace, makespan_ns.unwrap_or(0));
    Stats {
        facts: trace.facts.clone(),
        tasks: distinct_tasks(trace),
        executions: trace.executions.len() as u64,
        open: (0..trace.executions.len()).filter(|at| trace.executions.end(*at).is_none()).count() as u64,
        makespan_ns,
        wall_ns: wall_ns(trace),
        exec_ns: trace.clock.ns(exec_ticks),
        latency_ns: trace.executions.has_lifecycle().then(|| trace.clock.ns(latency_ticks)),
        utilisation: time.utilisation(trace.cores.len()),
        functions,
        cores,
        counters: counter_stats(trace),
        host_phases: host_phase_stats(trace),
    }
}

/// From the first dispatch to the last finish. Never shorter than the makespan: an execution without its dispatch, as one that
/// had not ended, counts with what is known of it.
fn wall_ns(trace: &Trace) -> Option<u64> {
    let executions = &trace.executions;
    let (mut first, mut last) = executions.kernel_time().window()?;
    let mut told = false;
    for (dispatch, finish) in (0..executions.len()).filter_map(|at| executions.lifecycle(at)) {
        (first, last, told) = (first.min(dispatch), last.max(finish), true);
    }
    told.then(|| trace.clock.ns(last - first))
}

fn sums_by_kernel(trace: &Trace) -> Vec<(Option<u32>, Sums)> {
    let executions = &trace.executions;
    // Kernels are few and numbered from 0; whatever a broken file numbers beyond shares one table.
    const DENSE: u32 = 4096;
    let mut dense: Vec<Sums> = Vec::new();
    let mut sparse: std::collections::BTreeMap<u32, Sums> = std::collections::BTreeMap::new();
    for at in 0..executions.len() {
        let Some(exec) = executions.exec(at) else { continue };
        let kernel = executions.kernel(at).unwrap_or(NO_KERNEL);
        let sums = if kernel < DENSE {
            if dense.len() <= kernel as usize {
                dense.resize(kernel as usize + 1, Sums::default());
            }
            &mut dense[kernel as usize]
        } else {
            sparse.entry(kernel).or_default()
        };
        sums.exec.push(exec);
        sums.local += u64::from(executions.receive_to_start(at));
        if let (Some((dispatch, finish)), Some(end)) = (executions.lifecycle(at), executions.end(at)) {
            sums.latency.push(finish.saturating_sub(dispatch));
            sums.head = sums.head.saturating_add(executions.start(at).saturating_sub(dispatch));
            sums.tail = sums.tail.saturating_add(finish.saturating_sub(end));
        }
    }
    let dense = dense.into_iter().enumerate().map(|(kernel, sums)| (kernel as u32, sums));
    let all = dense.chain(sparse).filter(|(_, sums)| !sums.exec.is_empty());
    all.map(|(kernel, sums)| ((kernel != NO_KERNEL).then_some(kernel), sums)).collect()
}

fn function(trace: &Trace, kernel: Option<u32>, mut sums: Sums, all_exec: u64) -> FunctionStats {
    let clock = &trace.clock;
    let count = sums.exec.len() as u64;
    let exec = total(&sums.exec);
    let mean = |ticks: f64, count: u64| clock.ns_f64(ticks / count.max(1) as f64);
    let dispatched = sums.latency.len() as u64;
    let latency = total(&sums.latency);
    let lifecycle = (dispatched > 0).then(|| LifecycleStats {
        latency_avg_ns: mean(latency as f64, dispatched),
        latency_p50_ns: clock.ns(quantile(&mut sums.latency, 0.5)),
        latency_p99_ns: clock.ns(quantile(&mut sums.latency, 0.99)),
        head_avg_ns: mean(sums.head as f64, dispatched),
        tail_avg_ns: mean(sums.tail as f64, dispatched),
        exec_of_latency: share(exec as f64, latency as f64),
    });
    FunctionStats {
        kernel,
        name: kernel.map_or_else(|| "(unknown)".to_string(), |k| trace.kernel_name(k).into_owned()),
        count,
        exec_total_ns: clock.ns(exec),
        exec_avg_ns: mean(exec as f64, count),
        exec_p50_ns: clock.ns(quantile(&mut sums.exec, 0.5)),
        exec_p99_ns: clock.ns(quantile(&mut sums.exec, 0.99)),
        exec_min_ns: clock.ns(sums.exec.iter().copied().min().unwrap_or(0)),
        exec_max_ns: clock.ns(sums.exec.iter().copied().max().unwrap_or(0)),
        exec_share: share(exec as f64, all_exec as f64),
        lifecycle,
        local_avg_ns: mean(sums.local as f64, count),
    }
}

fn cores(trace: &Trace, makespan_ns: u64) -> Vec<CoreStats> {
    let executions = &trace.executions;
    (0..trace.cores.len().min(1 << 16))
        .map(|core| {
            let range = executions.of_core(core as u16);
            let mut time = KernelTime::default();
            range.clone().for_each(|at| time.see(executions.start(at), executions.end(at)));
            let busy_ns = trace.clock.ns(time.ticks());
            CoreStats {
                core: core as u16,
                name: trace.core_name(core as u16),
                core_type: trace.cores[core].core_type.name(),
                tasks: range.len() as u64,
                busy_ns,
                utilisation: share(busy_ns as f64, makespan_ns as f64),
                span_share: share(time.makespan_ns(&trace.clock).unwrap_or(0) as f64, makespan_ns as f64),
            }
        })
        .collect()
}

/// Tasks of all rounds, each once however often it ran.
fn distinct_tasks(trace: &Trace) -> u64 {
    let mut words: Vec<u64> = (0..trace.executions.len()).map(|at| trace.executions.word(at)).collect();
    words.sort_unstable();
    words.dedup();
    words.len() as u64
}

/// A sum that a broken file cannot overflow.
fn total<'a>(ticks: impl IntoIterator<Item = &'a u64>) -> u64 {
    ticks.into_iter().fold(0, |sum, t| sum.saturating_add(*t))
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
