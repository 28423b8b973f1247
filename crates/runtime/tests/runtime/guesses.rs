//! Overlaps of views that are no boxes of their buffer may be false. A run says how many it met, and where.

use plimsoll_runtime::{Device, InOut, Orchestrator, Result, RunOptions, inout};

/// Elements 0, 2, 4, … and 1, 3, 5, … are no boxes and share nothing, which nobody can tell from their first and last.
#[test]
fn arguments_that_may_not_overlap_are_not_said_to() -> Result<()> {
    let mut device = Device::builder().workers(1).open()?;
    let two = device.kernel("two", |_: InOut<i64>, _: InOut<i64>| {});
    let program = |o: &mut Orchestrator<'_, '_>| {
        let pairs = o.own(vec![0i64; 16], [16])?.reshape([8, 2])?;
        let (even, odd) = (pairs.slice(1, 0..1)?, pairs.slice(1, 1..2)?);
        o.submit(&two, (inout(&even), inout(&odd)))?;
        Ok(())
    };
    let streamed = device.run(program).expect_err("they cannot be told apart");
    let built = device.prebuild(program).expect_err("they cannot be told apart");
    for error in [streamed, built] {
        let text = error.to_string();
        assert!(text.contains("arguments 0 and 1 may overlap") && text.contains("no box"), "{text}");
    }
    Ok(())
}

#[test]
fn overlaps_that_may_be_false_are_counted_by_scope() -> Result<()> {
    let mut device = Device::builder().workers(1).open()?;
    let touch = device.kernel("touch", |_: InOut<i64>| {});
    let program = |o: &mut Orchestrator<'_, '_>| {
        let matrix = o.own(vec![0i64; 16], [4, 4])?;
        let flat = matrix.reshape([16])?;
        o.scope(|o| {
            // Each begins in one row and ends in the next.
            for first in [2, 5, 6] {
                o.submit(&touch, (inout(&flat.slice(0, first..first + 5)?),))?;
            }
            Ok(())
        })
    };
    device.run(program)?;
    let report = device.report();
    // The third meets what is left of the first besides the second.
    assert_eq!(report.conservative_overlaps, 3);
    let [(site, count)] = &report.conservative_sites[..] else { panic!("{:?}", report.conservative_sites) };
    assert!(site.contains("guesses.rs") && *count == 3, "{site} {count}");
    let graph = &mut device.prebuild(program)?;
    device.launch(graph, 2, &RunOptions::default())?;
    let launched = device.report();
    assert_eq!((launched.conservative_overlaps, launched.rounds), (6, 2), "as the same tasks submitted twice");
    let [(site, count)] = &launched.conservative_sites[..] else { panic!("{:?}", launched.conservative_sites) };
    assert!(site.contains("guesses.rs") && *count == 6, "{site} {count}");
    Ok(())
}
