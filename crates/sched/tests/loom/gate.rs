//! The gate of a run in every order up to a bound of preemptions: what a worker touches is there, and the run has it back once all have left; one
//! that never leaves is named and keeps what it holds.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-sched --release --test loom gate`.

use crate::model::{Datum, join, model};
use loom::sync::Arc;
use loom::thread;
use plimsoll_abi::AgentId;
use plimsoll_sched::Gate;

/// Two workers and a run that closes behind them: whoever got in is waited for, and nobody gets in later.
#[test]
fn a_run_that_closed_has_its_job_to_itself() {
    model(3, || {
        let gate = Arc::new(Gate::default());
        let job = Arc::new(Datum::new());
        gate.open(Arc::clone(&job));
        let workers = (1..3).map(|agent| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                let agent = AgentId(agent);
                if let Some(job) = gate.enter(agent) {
                    job.read();
                    drop(job);
                    gate.leave(agent);
                }
            })
        });
        let workers: Vec<_> = workers.collect();
        gate.close();
        assert!(gate.wait(true).is_empty(), "G3: nobody gave up");
        // G2: no read is under way, and none will be.
        job.write(1);
        join(workers);
    });
}

/// One worker never leaves. Somebody gives up: the run goes on without it, knows it by name, and what it holds stays.
#[test]
fn one_that_never_leaves_is_named_and_keeps_its_job() {
    model(3, || {
        let gate = Arc::new(Gate::default());
        gate.open(Arc::new(Datum::new()));
        let stays = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.enter(AgentId(1)))
        };
        let leaves = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                if let Some(job) = gate.enter(AgentId(2)) {
                    drop(job);
                    gate.leave(AgentId(2));
                }
                gate.give_up();
            })
        };
        gate.close();
        let behind = gate.wait(true);
        let kept = stays.join().expect("a thread of the model ended well");
        match &kept {
            // It was named, unless it got in and the run had looked before it did: but the gate was closed then.
            Some(job) => {
                assert!(behind.contains(&AgentId(1)), "G3: {behind:?}");
                job.read();
            }
            None => assert!(!behind.contains(&AgentId(1)), "G3: {behind:?}"),
        }
        join([leaves]);
    });
}

/// A run that borrows waits for everybody, whoever gives up.
#[test]
fn giving_up_does_not_hurry_a_run_that_borrows() {
    model(3, || {
        let gate = Arc::new(Gate::default());
        let job = Arc::new(Datum::new());
        gate.open(Arc::clone(&job));
        let worker = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                if let Some(job) = gate.enter(AgentId(1)) {
                    gate.give_up();
                    job.read();
                    drop(job);
                    gate.leave(AgentId(1));
                }
            })
        };
        gate.close();
        assert!(gate.wait(false).is_empty(), "G3");
        job.write(1);
        join([worker]);
    });
}
