//! Ring sizes for random programs.

use plimsoll_runtime::Capacities;
use proptest::prelude::*;

/// Ring sizes as they are drawn: powers of two, from almost nothing to more than any program takes.
pub fn capacities() -> impl Strategy<Value = Capacities> {
    let ring = || (0u32..8, 0u32..8, prop_oneof![0u32..8, Just(14)]);
    ([ring(), ring(), ring(), ring()], 0u32..8, prop::bool::weighted(0.2)).prop_map(|(rings, tensormap, roomy)| {
        let mut out = Capacities::default();
        if roomy {
            return out;
        }
        for (capacity, (window, heap, dep_pool)) in out.rings.iter_mut().zip(rings) {
            (capacity.window, capacity.heap, capacity.dep_pool) = (1 << window, 64 << heap, 1 << dep_pool);
        }
        out.tensormap = 4 << tensormap;
        out
    })
}
