//! The recording itself: its ledger in one line, and what it cost.

use plimsoll_trace::{PhaseTotals, Trace};

use super::super::{Answers, gaps, html};
use crate::text::{duration, percent};

/// What a run's recording took.
pub(super) struct RecordingCost {
    records: u64,
    /// Records for every task.
    per_task: f64,
    /// Time that producers waited for the recorder, summed up: for buffers, and copying arguments that are captured.
    pub(super) waited_ns: u64,
    /// Its parts: for buffers, as the pools count it, and copying, as far as the phases of schedulers tell it.
    parts: Option<(u64, u64)>,
    /// Whether arguments were copied in a time that nothing tells of.
    copied_besides: bool,
    /// The whole as a share of all time of all producers, as far as that is known.
    share: Option<f64>,
}

impl RecordingCost {
    /// The wait as people read it.
    pub(super) fn shown(&self) -> String {
        duration(self.waited_ns as f64)
    }

    /// What the wait was for, where it may have been for more than buffers.
    fn parts(&self) -> String {
        match self.parts {
            Some((buffers, copying)) => {
                format!(" ({} for buffers, {} copying arguments)", duration(buffers as f64), duration(copying as f64))
            }
            None if self.copied_besides => " (for buffers; copying arguments is not among it)".to_string(),
            None => String::new(),
        }
    }
}

/// What the recording cost; none where no ledger says.
pub(super) fn cost(trace: &Trace, answers: &Answers) -> Option<RecordingCost> {
    let pools = &answers.check.reconcile.as_ref()?.pools;
    let records = pools.iter().fold(0u64, |sum, check| sum.saturating_add(check.pool.total));
    let buffers_ns = pools.iter().fold(0u64, |sum, check| sum.saturating_add(check.pool.wait_ns));
    let copies = trace.manifest.as_ref().is_some_and(|manifest| manifest.dump_args_level > 0);
    // The phases hold both: waits for buffers while arguments are copied are not told apart there.
    let in_phases = copies.then(|| recorder_phases(trace)).flatten().map(|ns| ns.max(buffers_ns));
    let waited_ns = in_phases.unwrap_or(buffers_ns);
    let agents = trace.manifest.as_ref().map_or(0, |manifest| manifest.topology.agents.len()) as f64;
    let elapsed = trace.manifest.as_ref().map_or(0, |manifest| manifest.elapsed_ns) as f64;
    Some(RecordingCost {
        records,
        per_task: records as f64 / answers.stats.tasks.max(1) as f64,
        waited_ns,
        parts: in_phases.map(|ns| (buffers_ns, ns - buffers_ns)),
        copied_besides: copies,
        share: (agents * elapsed > 0.0).then(|| waited_ns as f64 / (agents * elapsed)),
    })
}

/// Time in the phases that say that a producer waited for the recorder; none where no phases were recorded.
fn recorder_phases(trace: &Trace) -> Option<u64> {
    let phases = &trace.sched_phases;
    let is_wait = |name: &usize| u16::try_from(*name).is_ok_and(|name| phases.names.name(name) == gaps::PHASE);
    let of_agent = |totals: &PhaseTotals| {
        let waits = (0..totals.by_name.len()).filter(is_wait).map(|name| totals.by_name[name].1);
        waits.fold(0u64, u64::saturating_add)
    };
    let ticks = phases.totals.iter().map(of_agent).fold(0u64, u64::saturating_add);
    phases.were_recorded().then(|| trace.clock.ns(ticks))
}

/// The panel: whether every record is there, and what the recording cost.
pub(super) fn ledger_and_cost(trace: &Trace, answers: &Answers) -> String {
    let Some(reconcile) = &answers.check.reconcile else { return String::new() };
    let add = |sum: u64, amount: u64| sum.saturating_add(amount);
    let sum = |of: fn(&plimsoll_trace::PoolLedger) -> u64| {
        html::count(reconcile.pools.iter().map(|p| of(&p.pool)).fold(0, add))
    };
    let (class, word) = if reconcile.balanced { ("good", "balanced") } else { ("bad", "does not balance") };
    let cost = cost(trace, answers).map_or(String::new(), |cost| {
        let share = cost.share.map_or(String::new(), |share| format!(", {} of their time", percent(share)));
        format!(
            "<h3>What the recording cost</h3><p class=soft id=cost>{} records, {:.1} for every task. Agents waited {} for the recorder{}{share}. Writing a record is inside the times above; the same run without a recording tells how much it is.</p>",
            html::count(cost.records),
            cost.per_task,
            cost.shown(),
            cost.parts(),
        )
    });
    format!(
        "<section><div class=split><h3>Ledger</h3><span class={class}>{word}</span></div><p class=num>{} = {} collected + {} recovered + {} dropped + {} mismatched</p>{cost}</section>",
        sum(|p| p.total),
        sum(|p| p.collected),
        sum(|p| p.recovered),
        sum(|p| p.dropped),
        sum(|p| p.mismatch),
    )
}
