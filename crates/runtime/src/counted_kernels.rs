//! Kernels that read the counters of their thread themselves: what a recording of counters is compared with.
//!
//! Whoever waits for a core waits longer while the core reads its counters, and some wait busily. That is no cost of recording:
//! a kernel that takes as much longer has the same effect. A run whose kernels read the counters and throw the readings away has
//! it, too, so the difference between the two is what recording adds.

use crate::device::Device;
use plimsoll_abi::CounterGroup;
use plimsoll_platform::counters;
use plimsoll_shm::ThreadCounters;
use std::cell::RefCell;
use std::hint::black_box;
use std::mem;
use std::sync::Arc;

thread_local! {
    /// The group that the kernels of this thread read last; no counters if the system gives none.
    static OPENED: RefCell<Option<(CounterGroup, Option<Box<dyn ThreadCounters>>)>> = const { RefCell::new(None) };
}

impl Device {
    /// Makes every kernel registered so far read `group` before and after its body, as a run that records counters does. For
    /// benches.
    #[doc(hidden)]
    pub fn read_counters_around_kernels(&mut self, group: CounterGroup) {
        let Some(kernels) = Arc::get_mut(self.kernels_mut()) else { return };
        for kernel in kernels {
            let body = mem::replace(&mut kernel.call, Box::new(|_| Ok(())));
            kernel.call = Box::new(move |args| {
                read(group);
                let outcome = body(args);
                read(group);
                outcome
            });
        }
    }
}

fn read(group: CounterGroup) {
    OPENED.with_borrow_mut(|opened| {
        let (_, counters) = match opened {
            Some(opened) if opened.0 == group => opened,
            _ => opened.insert((group, counters::open(group))),
        };
        if let Some(counters) = counters {
            black_box(counters.read());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_read_the_counters_still_do_their_work() -> crate::Result<()> {
        let mut device = Device::builder().workers(1).open()?;
        let bump = device.kernel("bump", |mut x: crate::InOut<f32>| x[[0]] += 1.0);
        device.read_counters_around_kernels(CounterGroup::Rusage);
        let mut data = vec![0.0f32];
        device.run(|o| {
            let x = o.borrow_mut(&mut data, [1])?;
            (0..10).try_for_each(|_| o.submit(&bump, (crate::inout(&x),)).map(drop))
        })?;
        assert_eq!(data, [10.0]);
        // The only worker is this thread, so it has opened the group.
        assert!(OPENED.with_borrow(|opened| matches!(opened, Some((CounterGroup::Rusage, Some(_))))));
        Ok(())
    }
}
