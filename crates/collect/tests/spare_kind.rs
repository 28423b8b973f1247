//! A record kind is one row: a kind that has nothing but its row and its type gets through pools, packing, ledger and
//! readers to `check`. `cargo xtask test --only spare-kind` compiles with that row.
#![cfg(spare_kind)]
#![allow(clippy::unwrap_used)]

use plimsoll_abi::record::{Kind, Spare};
use plimsoll_abi::{AgentId, Flags};
use plimsoll_collect::bench::CounterWorld;
use plimsoll_collect::{Session, SessionConfig, segment};
use plimsoll_probe::Probe;
use plimsoll_shm::Role;
use plimsoll_trace::{Manifest, Status};

#[test]
fn a_kind_that_is_a_row_gets_to_check() {
    let dir = tempfile::tempdir().unwrap();
    let session = Session::start(SessionConfig::new(dir.path(), Flags::PMU, 0, vec![Role::SCHEDULER; 2])).unwrap();
    let probe = session.probe(CounterWorld::new(&session));
    for agent in 0..2 {
        let mut lane = probe.lane(AgentId(agent));
        (0..5000).for_each(|at| assert!(lane.push(Spare { at, value: at * at })));
    }
    drop(probe);
    let ledger = session.finish().unwrap();
    let mut values = Vec::new();
    segment::scan(dir.path(), |frame, bytes| {
        assert_eq!(frame.kind, Kind::Spare as u16);
        values.extend(bytes.chunks_exact(16).map(bytemuck::pod_read_unaligned::<Spare>));
    })
    .unwrap();
    assert!(values.len() == 10_000 && values.iter().all(|spare| spare.value == spare.at * spare.at));

    let mut manifest = Manifest::new("spare");
    manifest.status = Status::Ok;
    manifest.reconcile = Some(ledger);
    manifest.write(dir.path()).unwrap();
    let check = plimsoll_analyze::check(&plimsoll_trace::audit(dir.path(), &mut |_, _| ()).unwrap());
    assert!(check.sound, "{:?}", check.complaints());
    let counted = check.reconcile.unwrap().pools;
    let counted: Vec<_> = counted.iter().map(|row| (row.pool.kind.as_str(), row.pool.instance, row.in_files)).collect();
    assert_eq!(counted, [("spare", 0, 5000), ("spare", 1, 5000)]);
}
