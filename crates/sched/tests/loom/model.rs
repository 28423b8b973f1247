//! What the models of the scheduler share.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::thread;
use std::time::Duration;

/// Three preemptions find what is wrong with two-word protocols; without a bound the models do not end.
pub(crate) fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    builder(preemptions).check(body);
}

/// Explores as much as it can of a model that takes minutes to its end: for 20 seconds, or as many as PLIMSOLL_LOOM_SECONDS says.
pub(crate) fn model_for_a_while(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let seconds = std::env::var("PLIMSOLL_LOOM_SECONDS");
    let seconds = seconds.map_or(20, |text| text.parse().expect("PLIMSOLL_LOOM_SECONDS is a number of seconds"));
    let mut builder = builder(preemptions);
    builder.max_duration = Some(Duration::from_secs(seconds));
    // After so many executions loom looks at the time.
    builder.checkpoint_interval = 1_000;
    builder.check(body);
}

fn builder(preemptions: usize) -> Builder {
    let mut builder = Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    // Whole agents take more steps than the default allows.
    builder.max_branches = 10_000;
    builder
}

pub(crate) fn join<T>(threads: impl IntoIterator<Item = thread::JoinHandle<T>>) {
    for thread in threads {
        thread.join().expect("a thread of the model ended well");
    }
}

/// What a task writes: loom complains if it is looked at without having been made visible.
pub(crate) struct Datum(UnsafeCell<u32>);

// SAFETY: whether it is reached by one thread at a time is what loom checks.
unsafe impl Sync for Datum {}

impl Datum {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    pub(crate) fn write(&self, value: u32) {
        // SAFETY: loom reports any access that is not ordered with this one.
        self.0.with_mut(|at| unsafe { *at = value });
    }

    pub(crate) fn read(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|at| unsafe { *at })
    }
}
