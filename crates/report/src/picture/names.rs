//! The names of slices.

use std::collections::BTreeMap;

use plimsoll_trace::{ScopeSample, Trace};

/// The names of all slices: kernels, phases, sites. Which part a number lies in is known from where the parts begin.
pub(super) struct SliceNames {
    pub(super) all: Vec<String>,
    /// Where each kernel's name lies.
    kernels: BTreeMap<u32, u32>,
    /// Where the name of executions without a kernel lies.
    pub(super) unknown_kernel: u32,
    /// Where the scheduler phases begin.
    pub(super) first_sched: u32,
    /// Where the orchestrator phases begin: a plain submit, then those with names.
    pub(super) first_orch: u32,
    /// Where the sites begin: an unknown one, then those of the table.
    first_site: u32,
}

impl SliceNames {
    pub(super) fn of(trace: &Trace) -> Self {
        let mut all = vec!["task".to_string()];
        let mut kernels = BTreeMap::new();
        let mut last = None;
        for at in 0..trace.executions.len() {
            let kernel = trace.executions.kernel(at);
            if let Some(id) = kernel.filter(|_| kernel != last) {
                kernels.entry(id).or_insert_with(|| {
                    all.push(trace.kernel_name(id).into_owned());
                    all.len() as u32 - 1
                });
            }
            last = kernel;
        }
        let first_sched = all.len() as u32;
        all.extend(
            (0..trace.sched_phases.name.iter().max().map_or(0, |m| m + 1))
                .map(|n| trace.sched_phases.names.name(n).to_string()),
        );
        let first_orch = all.len() as u32;
        all.push("submit".to_string());
        all.extend(
            (0..trace.orch_phases.name.iter().max().map_or(0, |m| m + 1))
                .map(|n| trace.orch_phases.names.name(n).to_string()),
        );
        let first_site = all.len() as u32;
        all.push("(unknown):0".to_string());
        all.extend(trace.scopes.sites.iter().cloned());
        Self { all, kernels, unknown_kernel: 0, first_sched, first_orch, first_site }
    }

    #[inline]
    pub(super) fn kernel(&self, kernel: Option<u32>, last: &mut (Option<u32>, u32)) -> u32 {
        // Neighbours mostly run the same kernel, so one remembered answer saves the look-up.
        if last.0 != kernel {
            let name = kernel.and_then(|k| self.kernels.get(&k).copied()).unwrap_or(self.unknown_kernel);
            *last = (kernel, name);
        }
        last.1
    }

    pub(super) fn site(&self, sample: &ScopeSample, sites: usize) -> u32 {
        self.first_site + if (sample.site as usize) < sites { sample.site + 1 } else { 0 }
    }
}
