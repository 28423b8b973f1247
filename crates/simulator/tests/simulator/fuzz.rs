//! The adversary in short: a few thousand random programs of the whole API pass on every engine.

use crate::scale;
use plimsoll_simulator::fuzz::{Fuzzer, quiet_planned_panics};

#[test]
fn random_programs_of_the_whole_api_pass_and_everything_happens_in_them() {
    quiet_planned_panics();
    let programs = u64::from(scale::cases(3000));
    let tally = Fuzzer::new().search(0, |seed| seed >= programs).unwrap_or_else(|what| panic!("{what}"));
    println!("{tally:?}");
    let happened = [
        tally.shaped,
        tally.cohorts,
        tally.emulated,
        tally.manual,
        tally.prebuilt,
        tally.untyped,
        tally.failures,
        tally.panics,
        tally.cancelled,
    ];
    assert!(happened.iter().all(|&count| count > 0), "a search that never meets something proves nothing: {tally:?}");
}
