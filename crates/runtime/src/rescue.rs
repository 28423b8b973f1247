//! Getting the records out of a run that was given up and cannot return: the caller's own thread hangs, or kernels that hang
//! may use what the caller lent. Whoever comes first ends the recording, the run or its watchdog; the other finds it gone.

use crate::error::Error;
use crate::options::HungHook;
use crate::record::Recorder;
use crate::report::RunReport;
use std::sync::{Arc, Mutex, PoisonError};

/// What is done for a run that cannot return.
pub(crate) struct Rescue {
    state: Mutex<RescueState>,
    hook: Option<Arc<HungHook>>,
}

#[derive(Default)]
struct RescueState {
    /// The recording, until somebody ends it.
    recorder: Option<Recorder>,
    /// What the hook was told, for a run that returns after all.
    told: RunReport,
}

impl Rescue {
    pub(crate) fn new(recorder: Option<Recorder>, hook: Option<&Arc<HungHook>>) -> Self {
        let state = RescueState { recorder, ..RescueState::default() };
        Self { state: Mutex::new(state), hook: hook.cloned() }
    }

    /// The recording, for whoever ends it; or the report of the rescue that has ended it.
    pub(crate) fn take(&self) -> Result<Recorder, Box<RunReport>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.recorder.take().ok_or_else(|| Box::new(std::mem::take(&mut state.told)))
    }

    /// Ends the recording and tells the run's hook. `clock` reads the run's clock, as [`Engine::clock_pair`](crate::engine::Engine) does.
    pub(crate) fn rescue(&self, error: Error, mut report: RunReport, clock: impl FnOnce(u64) -> (u64, u64)) {
        // The lock is held to the end: a run that returns meanwhile waits until its directory is whole.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut recorder) = state.recorder.take() {
            let (tick, ns) = clock(recorder.elapsed_ns());
            recorder.clock_pair(tick, ns);
            // Somebody may be in the middle of a record: what the region holds is read as that of a dead run.
            recorder.session().device_lost();
            report.dir = Some(recorder.path().to_path_buf());
            report.ledger = recorder.finish(&report, Some(&error)).ok();
        }
        if let Some(hook) = &self.hook {
            hook(error, &report);
        }
        state.told = report;
    }
}
