//! A file system without room is an error at the start. A file size limit stands in for it; it holds for the whole
//! process, so this file has one test.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use plimsoll_abi::Flags;
use plimsoll_abi::region::ClockSource;
use plimsoll_shm::{BufferSizes, Error, Policy, Region, RegionSpec, Role};

#[test]
fn no_room_is_an_error_at_the_start_and_leaves_no_file() {
    let run = tempfile::tempdir().unwrap();
    let spec = RegionSpec {
        flags: Flags::CORE_TIMING,
        cores: 2,
        agents: vec![Role::BOTH; 2],
        policy: Policy::Block,
        host_gone_ns: 1,
        drop_wait_ns: 1,
        clock_hz: 1,
        clock_source: ClockSource::Os,
        sizes: BufferSizes::default(),
        kernel_name_bytes: 0,
    };
    // SAFETY: plain system calls.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: libc::RLIM_INFINITY };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    for place in [None, Some(run.path())] {
        let error = Region::create(&spec, run.path(), place).unwrap_err();
        assert!(matches!(error, Error::NoRoom { .. }), "{error}");
        assert!(error.to_string().contains("record less"), "{error}");
        assert_eq!(std::fs::read_dir(run.path()).unwrap().count(), 0, "nothing is left behind");
    }
}
