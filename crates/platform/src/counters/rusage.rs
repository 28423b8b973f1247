//! What the system says of the calling thread without perf events.

use plimsoll_abi::CounterGroup;
use plimsoll_shm::{CounterValues, ThreadCounters};
use rustix::time::{ClockId, clock_gettime};

/// `getrusage` of the calling thread, and its CPU clock: `getrusage` itself tells CPU time by timer ticks only.
pub(super) struct RusageCounters;

impl ThreadCounters for RusageCounters {
    fn read(&mut self) -> Option<CounterValues> {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let ns = (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64);
        // SAFETY: zeroes are a valid value of the plain structure, and the call fills one that is there for all its duration.
        let (said, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), usage)
        };
        let faults = usage.ru_minflt.saturating_add(usage.ru_majflt) as u64;
        let switches = usage.ru_nvcsw.saturating_add(usage.ru_nivcsw) as u64;
        let mut counts = [0; CounterGroup::MOST];
        counts[..3].copy_from_slice(&[ns, faults, switches]);
        (said == 0).then_some(CounterValues { counts, wanted_ns: ns, counted_ns: ns })
    }
}
