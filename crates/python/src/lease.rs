//! What becomes of views that outlive the kernel that they were made for.
//!
//! Every array of one call refers to the call's [`CallLease`]. When the call has returned, whoever else refers to it has kept a view:
//! the kernel did, or the traceback of what it raised. Such a lease holds what the view shows, which is given back when the last
//! view is gone: the arrays that were entered into the run, and after the device is closed the device itself, in whose memory
//! the outputs of tasks are.

use crate::fork::ProcessMark;
use crate::gil;
use crate::memory::{EnteredArray, drop_left};
use crate::orchestrator::locked;
use pyo3::ffi;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

/// What every array of one call refers to.
#[pyclass(frozen)]
#[derive(Default)]
pub(crate) struct CallLease {
    held: Mutex<Option<Box<LeaseHolds>>>,
}

#[derive(Default)]
struct LeaseHolds {
    /// Held for their destructors only.
    _arrays: Vec<Arc<EnteredArray>>,
    _device: Option<Arc<ClosedDevice>>,
}

impl Drop for CallLease {
    fn drop(&mut self) {
        if locked(&self.held).take().is_some() {
            Python::attach(drop_left);
        }
    }
}

impl CallLease {
    fn hold_arrays(&self, arrays: Vec<Arc<EnteredArray>>) {
        locked(&self.held).get_or_insert_default()._arrays = arrays;
    }

    fn hold_device(&self, device: Arc<ClosedDevice>) {
        locked(&self.held).get_or_insert_default()._device = Some(device);
    }
}

/// Whether anybody but the caller refers to the lease.
pub(crate) fn is_kept(lease: &Bound<'_, CallLease>) -> bool {
    // SAFETY: a live object.
    unsafe { ffi::Py_REFCNT(lease.as_ptr()) > 1 }
}

/// What only cycles hold is not kept.
pub(crate) fn collect(py: Python<'_>) -> PyResult<()> {
    py.import("gc")?.call_method0("collect").map(drop)
}

/// The leases of a device that somebody held on to when their calls returned.
#[derive(Default)]
pub(crate) struct KeptLeases(Mutex<Vec<Py<CallLease>>>);

impl KeptLeases {
    /// Somebody may hold views: they keep these arrays.
    pub(crate) fn keep(&self, lease: &Bound<'_, CallLease>, arrays: Vec<Arc<EnteredArray>>) {
        lease.get().hold_arrays(arrays);
        locked(&self.0).push(lease.clone().unbind());
    }

    /// Forgets those that nobody refers to any more; gives the others.
    pub(crate) fn living<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, CallLease>> {
        let leases = std::mem::take(&mut *locked(&self.0));
        let (living, gone): (Vec<_>, Vec<_>) = leases.into_iter().map(|lease| lease.into_bound(py)).partition(is_kept);
        // What they held may run any Python: no lock is held here.
        drop(gone);
        locked(&self.0).extend(living.iter().map(|lease| lease.clone().unbind()));
        living
    }

    /// Ends a device, now or when the last view of its memory is gone.
    pub(crate) fn end(&self, py: Python<'_>, device: plimsoll::Device) {
        let device = ClosedDevice { device: Mutex::new(Some(device)), process: ProcessMark::of_this() };
        let mut living = self.living(py);
        if !living.is_empty() && collect(py).is_ok() {
            drop(living);
            living = self.living(py);
        }
        if living.is_empty() {
            return drop(device);
        }
        let device = Arc::new(device);
        living.iter().for_each(|lease| lease.get().hold_device(Arc::clone(&device)));
        locked(&self.0).clear();
    }
}

/// A device that runs nothing any more. Its workers end when it is dropped.
pub(crate) struct ClosedDevice {
    device: Mutex<Option<plimsoll::Device>>,
    process: ProcessMark,
}

impl Drop for ClosedDevice {
    fn drop(&mut self) {
        let device = locked(&self.device).take();
        if self.process.is_parent() || gil::exiting() {
            return std::mem::forget(device);
        }
        // Workers let go of their thread states on their way out, for which they need the GIL.
        Python::attach(|py| gil::released(py, || drop(device)));
    }
}
