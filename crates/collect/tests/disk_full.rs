//! A full disk ends the recording: with a clear error, a capture that can be read, and a ledger that says what is missing.
//!
//! A file size limit stands in for the full disk. It holds for the whole process, so this file has one test.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::*;
use plimsoll_abi::Flags;
use plimsoll_collect::{Session, SessionConfig, segment};

const LIMIT: u64 = 1 << 20;

#[test]
fn a_full_disk_ends_the_recording_and_leaves_a_readable_capture() {
    let dir = tempfile::tempdir().unwrap();
    let session = SessionConfig { sizes: sizes(4, 512), ..config(dir.path(), Flags::CORE_TIMING, 2) };
    let session = Session::start(session).unwrap();
    // SAFETY: plain system calls; the region is reserved already, so only the segment file can meet the limit.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: LIMIT, rlim_max: libc::RLIM_INFINITY };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    // Far more than fits; the producers must not wait 30 s for a collector that writes nothing any more.
    write_tasks(&session, 2, 200_000);
    assert!(session.failed());
    let error = session.finish().expect_err("the limit was met");
    assert!(error.is_disk_full(), "{error}");
    assert!(error.to_string().contains("free some space"), "{error}");
    let ledger = error.ledger().expect("the account is there all the same");
    assert!(ledger.balanced && !ledger.lossless, "{ledger:#?}");
    let tokens = tokens(dir.path());
    for pool in &ledger.pools {
        assert_eq!(pool.total, 200_000);
        assert_eq!(pool.collected + pool.dropped, 200_000);
        assert_tokens(&tokens, pool.instance, pool.collected as u32);
    }
    let written = segment::path(dir.path()).metadata().unwrap().len();
    assert!(written > LIMIT / 2 && written <= LIMIT, "{written} bytes");
}
