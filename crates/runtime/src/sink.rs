//! Where an orchestrator's submits go: what differs by engine and probe is behind one virtual call per submit (explicit
//! dependencies are named in another), so that the API that users see has no type parameters.

use crate::orchestrator::Dep;
use plimsoll_abi::{Dtype, KernelId, RINGS, TaskId};
use plimsoll_graph::Layout;
use plimsoll_platform::Platform;
use plimsoll_probe::Lane;
use plimsoll_sched::site::Site;
use plimsoll_sched::submit::ScopeView;
use plimsoll_sched::{CallShape, Demand, Failure, Submitter, TaskArg, TensorCore};

/// What an [`Orchestrator`](crate::Orchestrator) drives.
pub(crate) trait SubmitSink {
    /// Every submit waits for these tasks besides, until others are named or none.
    fn set_after(&mut self, deps: &[Dep<'_>]);
    /// Every submit has this shape, until another is named.
    fn set_shape(&mut self, shape: CallShape);
    /// Submits a task with these arguments, of which `demand` is the sum.
    fn submit(&mut self, kernel: KernelId, args: &mut [TaskArg<'_>], demand: Demand) -> Result<TaskId, Box<Failure>>;
    /// Enters a host buffer; `kept` if the run keeps what owns it, and not if it is borrowed.
    fn add_buffer(&mut self, base: u64, layout: Layout, dtype: Dtype, elem_bytes: u32, kept: bool) -> TensorCore;
    fn open_scope(&mut self, site: Site, manual: bool);
    fn close_scope(&mut self) -> Result<ScopeView, Box<Failure>>;
    fn in_manual_scope(&self) -> bool;
    /// Where the rings are: every task that was submitted so far is below these numbers.
    fn marks(&self) -> [u64; RINGS];
    /// Whether every task below these numbers has completed; not if that is not known.
    fn have_completed(&mut self, marks: &[u64; RINGS]) -> bool;
    /// Waits for the tasks that a read of the tensor has to wait for, or a write if it `writes`.
    fn wait_for(&mut self, tensor: &TensorCore, writes: bool) -> Result<(), Box<Failure>>;
    /// Ends the run with this failure, unless it failed before; the first failure is returned, with its scope's site.
    fn raise(&mut self, failure: Failure) -> Box<Failure>;
    /// The run's first failure; `None` while it is running or still counting what it needs.
    fn failure(&mut self) -> Option<Box<Failure>>;
}

impl<P: Platform, L: Lane> SubmitSink for Submitter<'_, P, L> {
    fn set_after(&mut self, deps: &[Dep<'_>]) {
        Submitter::set_after(self, deps.iter().map(Dep::id));
    }

    fn set_shape(&mut self, shape: CallShape) {
        Submitter::set_shape(self, shape);
    }

    fn submit(&mut self, kernel: KernelId, args: &mut [TaskArg<'_>], demand: Demand) -> Result<TaskId, Box<Failure>> {
        // SAFETY: the arguments are made by the two tiers, from buffers whose memory the run keeps, or was promised, and are checked
        // against the kernel's parameters.
        unsafe { Submitter::submit(self, kernel, args, demand) }
    }

    fn add_buffer(&mut self, base: u64, layout: Layout, dtype: Dtype, elem_bytes: u32, kept: bool) -> TensorCore {
        if !kept {
            self.set_borrows();
        }
        Submitter::add_buffer(self, base, layout, dtype, elem_bytes)
    }

    fn open_scope(&mut self, site: Site, manual: bool) {
        Submitter::open_scope(self, site, manual);
    }

    fn close_scope(&mut self) -> Result<ScopeView, Box<Failure>> {
        Submitter::close_scope(self)
    }

    fn in_manual_scope(&self) -> bool {
        Submitter::in_manual_scope(self)
    }

    fn marks(&self) -> [u64; RINGS] {
        Submitter::marks(self)
    }

    fn have_completed(&mut self, marks: &[u64; RINGS]) -> bool {
        Submitter::have_completed(self, marks)
    }

    fn wait_for(&mut self, tensor: &TensorCore, writes: bool) -> Result<(), Box<Failure>> {
        Submitter::wait_for(self, tensor, writes)
    }

    fn raise(&mut self, mut failure: Failure) -> Box<Failure> {
        failure.site.get_or_insert(self.site());
        Submitter::raise(self, failure)
    }

    fn failure(&mut self) -> Option<Box<Failure>> {
        Submitter::failure(self)
    }
}
