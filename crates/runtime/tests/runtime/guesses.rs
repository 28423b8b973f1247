//! Overlaps of views that are no boxes of their buffer may be false. A run says how many it met, and where.

use plimsoll_runtime::{Device, InOut, Result, inout};

#[test]
fn overlaps_that_may_be_false_are_counted_by_scope() -> Result<()> {
    let mut device = Device::builder().workers(1).open()?;
    let touch = device.kernel("touch", |_: InOut<i64>| {});
    device.run(|o| {
        let matrix = o.own(vec![0i64; 16], [4, 4])?;
        let flat = matrix.reshape([16])?;
        o.scope(|o| {
            // Each begins in one row and ends in the next.
            for first in [2, 5, 6] {
                o.submit(&touch, (inout(&flat.slice(0, first..first + 5)?),))?;
            }
            Ok(())
        })
    })?;
    let report = device.report();
    // The third meets what is left of the first besides the second.
    assert_eq!(report.conservative_overlaps, 3);
    let [(site, count)] = &report.conservative_sites[..] else { panic!("{:?}", report.conservative_sites) };
    assert!(site.contains("guesses.rs") && *count == 3, "{site} {count}");
    Ok(())
}
