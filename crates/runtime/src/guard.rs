//! Warns when a kernel in virtual time seems to wait for another kernel: it would wait for ever.
//!
//! In virtual time kernels run to completion, one at a time, on the thread that drives the loop. So only another thread can
//! notice.

use plimsoll_platform::Virtual;
use plimsoll_sched::KernelEntry;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the guard looks, in real time.
const LOOK: Duration = Duration::from_secs(5);

/// A thread that watches the kernels of one run.
pub(crate) struct KernelGuard {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl KernelGuard {
    /// Watches until it is dropped. Without a thread for it, the run does without.
    pub(crate) fn start(platform: &Virtual, kernels: &[KernelEntry]) -> Self {
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let names: Vec<String> = kernels.iter().map(|kernel| kernel.name.clone()).collect();
        let (platform, watched) = (platform.clone(), Arc::clone(&over));
        let thread = std::thread::Builder::new().name("plimsoll-guard".into()).spawn(move || {
            watch(&platform, &names, &watched, LOOK, |kernel| eprintln!("{}", warning(kernel)));
        });
        Self { over, thread: thread.ok() }
    }
}

impl Drop for KernelGuard {
    fn drop(&mut self) {
        *self.over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // It only prints; whether that worked is nobody's business.
            drop(thread.join());
        }
    }
}

/// Tells, once, of a kernel that runs at two looks in a row.
fn watch(
    platform: &Virtual,
    names: &[String],
    over: &(Mutex<bool>, Condvar),
    look: Duration,
    mut tell: impl FnMut(&str),
) {
    let mut ended = over.0.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut seen, mut told) = (platform.running_kernel(), false);
    while !*ended {
        let (guard, time) = over.1.wait_timeout(ended, look).unwrap_or_else(PoisonError::into_inner);
        ended = guard;
        if !time.timed_out() {
            continue;
        }
        let now = platform.running_kernel();
        if let (Some(kernel), true, false) = (now.0, now == seen, told) {
            told = true;
            tell(names.get(kernel as usize).map_or("?", String::as_str));
        }
        seen = now;
    }
}

fn warning(kernel: &str) -> String {
    format!(
        "plimsoll: kernel {kernel} has been running for more than {LOOK:?}. In virtual time kernels run to completion one \
         at a time, so if it waits for another kernel it will wait for ever. Let it return, and make the other task a \
         dependency."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_platform::virtual_time::Faults;
    use plimsoll_platform::{ArchSpec, Platform};

    #[test]
    fn the_warning_names_the_kernel_and_what_to_do() {
        let text = super::warning("add");
        assert!(text.contains("kernel add") && text.contains("dependency"), "{text}");
    }

    /// The kernel waits for the guard's own word, so it ends exactly if the guard speaks.
    #[test]
    fn a_kernel_that_does_not_return_is_told_of_and_others_are_not() {
        let platform = Virtual::new(&ArchSpec::HOST, 1, 1, Faults::default());
        let names = ["quick", "stuck"].map(str::to_owned);
        let over = (Mutex::new(false), Condvar::new());
        let (told, said) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                watch(&platform, &names, &over, Duration::from_millis(20), |kernel| {
                    told.send(kernel.to_owned()).expect("somebody listens");
                });
            });
            platform.kernel_begins(0);
            platform.kernel_ends();
            platform.kernel_begins(1);
            let kernel = said.recv_timeout(Duration::from_secs(120));
            platform.kernel_ends();
            *over.0.lock().expect("not poisoned") = true;
            over.1.notify_all();
            assert_eq!(kernel.as_deref(), Ok("stuck"));
        });
        assert!(said.try_recv().is_err(), "once is enough");
    }
}
