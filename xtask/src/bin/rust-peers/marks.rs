//! The marks of a measurement, in the order they are passed: wall and process CPU time.

use std::time::Instant;

/// What a measurement took.
pub(crate) struct PeerTimes {
    pub(crate) build_ns: u64,
    pub(crate) total_ns: u64,
    pub(crate) cpu_ns: u64,
}

pub(crate) struct Running {
    cpu_begin_ns: u64,
    begin: Instant,
}

pub(crate) struct Built {
    running: Running,
    build_ns: u64,
}

impl Running {
    pub(crate) fn start() -> Running {
        Running { cpu_begin_ns: process_cpu_ns(), begin: Instant::now() }
    }

    pub(crate) fn graph_is_built(self) -> Built {
        let build_ns = self.begin.elapsed().as_nanos() as u64;
        Built { running: self, build_ns }
    }
}

impl Built {
    pub(crate) fn stop(self) -> PeerTimes {
        let total_ns = self.running.begin.elapsed().as_nanos() as u64;
        PeerTimes { build_ns: self.build_ns, total_ns, cpu_ns: process_cpu_ns() - self.running.cpu_begin_ns }
    }
}

fn process_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call, and the clock exists on every POSIX system.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "the process has a CPU clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
