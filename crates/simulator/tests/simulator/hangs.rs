//! Hangs with a known cause are told right, and what is well is not told of.

#![cfg(not(feature = "planted-bug"))]

use plimsoll_simulator::hangs::{HangCause, hang, healthy};
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs `one` for seeds on all CPUs, and gives what came of them.
fn search<T: Send>(seeds: u64, one: impl Fn(u64) -> Result<T, String> + Sync) -> (Vec<T>, Vec<String>) {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let parts = std::thread::scope(|scope| {
        let work = || {
            let (mut good, mut wrong) = (Vec::new(), Vec::new());
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds {
                    return (good, wrong);
                }
                match one(seed) {
                    Ok(value) => good.push(value),
                    Err(what) => wrong.push(what),
                }
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let (good, wrong): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    (good.into_iter().flatten().collect(), wrong.into_iter().flatten().collect())
}

#[test]
fn hangs_are_told_right() {
    let (struck, wrong) = search(1200, hang);
    assert!(wrong.is_empty(), "{} of 1200:\n{}\n", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
    let count = |cause: HangCause| struck.iter().filter(|struck| **struck == Some(cause)).count();
    let counts: Vec<(HangCause, usize)> = HangCause::ALL.into_iter().map(|cause| (cause, count(cause))).collect();
    println!("{counts:?}");
    assert!(counts.iter().all(|(_, count)| *count >= 30), "a cause that never strikes proves nothing: {counts:?}");
    assert!(counts.iter().map(|(_, count)| count).sum::<usize>() >= 500, "{counts:?}");
}

#[test]
fn what_is_well_gets_no_verdict() {
    let (_, wrong) = search(1000, healthy);
    assert!(wrong.is_empty(), "{} of 1000:\n{}\n", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
}
