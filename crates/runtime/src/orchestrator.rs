//! The orchestrator: submits tasks, opens scopes, reads data back.

use crate::arg::{Args, Scratch};
use crate::buffer::{AnyLease, SharedBuffer};
use crate::device::Device;
use crate::element::{Element, check_element, element_spec};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::shape::ShapeLimits;
use crate::sink::SubmitSink;
use crate::tensor::Tensor;
use plimsoll_abi::{ErrorCode, KernelId, TaskId};
use plimsoll_graph::Layout;
use plimsoll_sched::signature::ElementSpec;
use plimsoll_sched::site::Site;
use plimsoll_sched::{Demand, Failure, FailureCause, KernelEntry, TaskArg, TensorCore};
use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Drives a run: submits its tasks, opens its scopes, reads its data. `'s` is the innermost scope; `'env` is what the run
/// may borrow.
pub struct Orchestrator<'s, 'env> {
    pub(crate) engine: &'s mut dyn SubmitSink,
    /// What the run keeps alive for its kernels.
    pub(crate) keep: &'s mut Vec<Box<dyn Any>>,
    pub(crate) kernels: &'s [KernelEntry],
    pub(crate) scratch: &'s mut Scratch,
    pub(crate) run: u64,
    pub(crate) device: u64,
    pub(crate) limits: ShapeLimits,
    pub(crate) last: Option<TaskId>,
    scope: PhantomData<fn(&'s ()) -> &'s ()>,
    env: PhantomData<fn(&'env ()) -> &'env ()>,
}

/// A submitted task that later ones can be told to wait for.
#[derive(Clone, Copy, Debug)]
pub struct Dep<'s> {
    task: TaskId,
    run: u64,
    scope: PhantomData<fn(&'s ()) -> &'s ()>,
}

impl Dep<'_> {
    pub(crate) fn new(task: TaskId, run: u64) -> Self {
        Self { task, run, scope: PhantomData }
    }

    /// The task's id.
    pub fn id(&self) -> TaskId {
        self.task
    }
}

impl<'s, 'env> Orchestrator<'s, 'env> {
    pub(crate) fn new(
        engine: &'s mut dyn SubmitSink,
        keep: &'s mut Vec<Box<dyn Any>>,
        kernels: &'s [KernelEntry],
        scratch: &'s mut Scratch,
        (run, device): (u64, u64),
        limits: ShapeLimits,
    ) -> Self {
        Self { engine, keep, kernels, scratch, run, device, limits, last: None, scope: PhantomData, env: PhantomData }
    }

    /// Submits a task of `kernel`. It runs when the tasks that wrote what it reads, and those that use what it
    /// writes, have completed.
    ///
    /// Returns a handle for every argument: a tensor for each [`output`](crate::output), `()` for the others, so that
    /// `let (.., c) = o.submit(…)?` names the last.
    ///
    /// # Errors
    /// The run's first failure. Among others: arguments that overlap and one of which is written, a tensor of another run or
    /// device, a ring that open scopes fill. After an error the run has failed, and every later call returns the same error.
    // Forced inline: `arg.rs` says what it saves.
    #[inline(always)]
    pub fn submit<A: Args>(&mut self, kernel: &Kernel<A::Kinds>, args: A) -> Result<A::Handles<'s>> {
        self.submit_after(&[], kernel, args)
    }

    /// As [`submit`](Self::submit), and the task waits for `deps` besides.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[inline(always)]
    pub fn submit_after<A: Args>(
        &mut self,
        deps: &[Dep<'_>],
        kernel: &Kernel<A::Kinds>,
        args: A,
    ) -> Result<A::Handles<'s>> {
        if kernel.device != self.device {
            return Err(self.foreign_kernel(kernel.device));
        }
        if !deps.is_empty() {
            self.set_after(deps)?;
        }
        let (engine, last, kernels) = (&mut *self.engine, &mut self.last, self.kernels);
        let mut entered = false;
        // SAFETY: the engine is this run's, and fills in where it puts every output before it accepts a task.
        let outcome = unsafe {
            args.submit(self.run, self.scratch, |args, demand| {
                entered = true;
                enter(engine, last, kernels, kernel.id, args, demand)
            })
        };
        if !deps.is_empty() {
            self.engine.set_after(&[]);
        }
        self.or_refuse(entered, outcome)
    }

    #[cold]
    pub(crate) fn foreign_kernel(&mut self, device: u64) -> Error {
        let most = Device::MOST_KERNELS;
        self.refuse(match device {
            0 => format!(
                "The kernel was registered when the device had {most} already. A device has room for no more. Register each kernel once, or spread them over devices."
            ),
            _ => "The kernel belongs to another device. Register it with this one.".to_owned(),
        })
    }

    #[inline(never)]
    pub(crate) fn set_after(&mut self, deps: &[Dep<'_>]) -> Result<()> {
        if deps.iter().any(|dep| dep.run != self.run) {
            return Err(self.refuse("An explicit dependency names a task of another run. Name tasks of this run only."));
        }
        self.engine.set_after(deps);
        Ok(())
    }

    /// Fails the run if the submit was refused before it reached the engine, so that the run fails even if the caller
    /// ignores the error.
    #[inline]
    pub(crate) fn or_refuse<R>(&mut self, entered: bool, outcome: Result<R>) -> Result<R> {
        match outcome {
            Err(error) if !entered => Err(self.refuse_as(&error)),
            outcome => outcome,
        }
    }

    /// The task submitted last in this scope.
    pub fn last(&self) -> Option<Dep<'s>> {
        self.last.map(|task| Dep { task, run: self.run, scope: PhantomData })
    }

    /// Opens a scope for the duration of `body`. What is made in it is held until its end, and cannot leave it.
    ///
    /// ```compile_fail
    /// # use plimsoll_runtime::*;
    /// # let mut device = Device::builder().open().unwrap();
    /// let zero = device.kernel("zero", |mut x: Out<f32>| x.fill(0.0));
    /// device.run(|o| {
    ///     let leaked = o.scope(|o| {
    ///         let (x,) = o.submit(&zero, (output([4]),))?;
    ///         Ok(x) // the tensor cannot leave its scope
    ///     })?;
    ///     o.read(&leaked)
    /// });
    /// ```
    ///
    /// Until it ends, tasks are submitted through the inner orchestrator only:
    ///
    /// ```compile_fail,E0500
    /// # use plimsoll_runtime::*;
    /// # let mut device = Device::builder().open().unwrap();
    /// let zero = device.kernel("zero", |mut x: Out<f32>| x.fill(0.0));
    /// device.run(|outer| {
    ///     outer.scope(|_inner| {
    ///         outer.submit(&zero, (output([4]),))?; // the outer one is taken
    ///         Ok(())
    ///     })
    /// });
    /// ```
    ///
    /// # Errors
    /// What `body` returns, or the run's first failure.
    #[track_caller]
    #[inline]
    pub fn scope<R>(&mut self, body: impl for<'i> FnOnce(&mut Orchestrator<'i, 'env>) -> Result<R>) -> Result<R> {
        self.check_scope()?;
        self.enter_scope(Site::caller(), false, body)
    }

    /// Refuses a scope with inference inside a manual scope.
    pub(crate) fn check_scope(&mut self) -> Result<()> {
        if self.engine.in_manual_scope() {
            return Err(self.refuse(
                "A scope with inference was opened inside a manual one. Inference could not see what the manual scope's tasks do. Open a manual scope, or close the outer one first.",
            ));
        }
        Ok(())
    }

    /// Opens a scope in which nothing is inferred: tasks wait for explicit dependencies only.
    ///
    /// # Safety
    /// Tasks inside, and tasks that run at the same time, do not use the same elements unless all of them only read.
    ///
    /// # Errors
    /// As [`scope`](Self::scope).
    #[track_caller]
    pub unsafe fn manual_scope<R>(
        &mut self,
        body: impl for<'i> FnOnce(&mut Orchestrator<'i, 'env>) -> Result<R>,
    ) -> Result<R> {
        self.enter_scope(Site::caller(), true, body)
    }

    /// The same run, for an inner scope or another tier.
    #[inline]
    pub(crate) fn reborrow(&mut self) -> Orchestrator<'_, 'env> {
        Orchestrator::new(
            &mut *self.engine,
            &mut *self.keep,
            self.kernels,
            &mut *self.scratch,
            (self.run, self.device),
            self.limits,
        )
    }

    #[inline]
    fn enter_scope<R>(
        &mut self,
        site: Site,
        manual: bool,
        body: impl for<'i> FnOnce(&mut Orchestrator<'i, 'env>) -> Result<R>,
    ) -> Result<R> {
        self.engine.open_scope(site, manual);
        // The scope closes when a panic passes, too: who catches it outside goes on outside of the scope.
        let result = catch_unwind(AssertUnwindSafe(|| body(&mut self.reborrow())));
        let closed = self.engine.close_scope();
        match (result.unwrap_or_else(|panic| resume_unwind(panic)), closed) {
            (Ok(value), Ok(_)) => Ok(value),
            (Err(error), Ok(_)) => Err(error),
            // The run has failed. The scope returns the first failure, even if the body ignored it.
            (_, Err(failure)) => Err(self.explain(&failure)),
        }
    }

    /// Enters a buffer that the run owns.
    ///
    /// # Errors
    /// [`InvalidArgs`](ErrorCode::InvalidArgs) if the data has not as many elements as the shape. The run has failed then.
    pub fn own<T: Element, const N: usize>(&mut self, data: Vec<T>, shape: [usize; N]) -> Result<Tensor<'s, T>> {
        let mut data = data.into_boxed_slice();
        let (at, len) = (data.as_mut_ptr(), data.len());
        let tensor = self.enter_buffer(at, len, &shape, true, true)?;
        self.keep.push(Box::new(data));
        Ok(tensor)
    }

    /// Enters a shared buffer; no other run can use it until this one ends.
    ///
    /// # Errors
    /// As [`own`](Self::own), and if another run or caller has the buffer.
    pub fn share<T: Element, const N: usize>(
        &mut self,
        buffer: &SharedBuffer<T>,
        shape: [usize; N],
    ) -> Result<Tensor<'s, T>> {
        let mut lease = buffer.lease().map_err(|error| self.refuse(error.explanation()))?;
        let (at, len) = lease.data();
        let tensor = self.enter_buffer(at, len, &shape, true, true)?;
        self.keep.push(Box::new(AnyLease::new(lease)));
        Ok(tensor)
    }

    /// Enters a slice that tasks only read. The run does not return before every kernel that may hold it has.
    ///
    /// # Errors
    /// As [`own`](Self::own).
    pub fn borrow<T: Element, const N: usize>(&mut self, data: &'env [T], shape: [usize; N]) -> Result<Tensor<'s, T>> {
        self.enter_buffer(data.as_ptr().cast_mut(), data.len(), &shape, false, false)
    }

    /// Enters a slice that tasks may write. The run does not return before every kernel that may hold it has.
    ///
    /// # Errors
    /// As [`own`](Self::own).
    pub fn borrow_mut<T: Element, const N: usize>(
        &mut self,
        data: &'env mut [T],
        shape: [usize; N],
    ) -> Result<Tensor<'s, T>> {
        self.enter_buffer(data.as_mut_ptr(), data.len(), &shape, true, false)
    }

    fn enter_buffer<T: Element>(
        &mut self,
        at: *mut T,
        len: usize,
        shape: &[usize],
        writable: bool,
        kept: bool,
    ) -> Result<Tensor<'s, T>> {
        const { check_element::<T>() };
        let core = self.enter_memory(at as u64, len, shape, &element_spec::<T>(), writable, kept)?;
        Ok(Tensor::new(core, self.run))
    }

    /// Enters `len` elements at `base`.
    pub(crate) fn enter_memory(
        &mut self,
        base: u64,
        len: usize,
        shape: &[usize],
        element: &ElementSpec,
        writable: bool,
        kept: bool,
    ) -> Result<TensorCore> {
        let layout = Layout::dense(shape)
            .map_err(|error| self.refuse(format!("A buffer cannot have that shape: {error}. Give it another.")))?;
        if layout.len() != len as u64 {
            return Err(self.refuse(format!(
                "A buffer of {len} elements cannot have the shape {shape:?}. That shape has {} elements. Give it another.",
                layout.len()
            )));
        }
        if let Some(failure) = self.engine.failure() {
            return Err(self.explain(&failure));
        }
        let mut core = self.engine.add_buffer(base, layout, element.dtype, element.bytes, kept);
        core.writable = writable;
        Ok(core)
    }

    /// Waits for the tasks that write `tensor` and copies its elements, in row-major order.
    ///
    /// # Errors
    /// [`InvalidArgs`](ErrorCode::InvalidArgs) for a tensor of another run, or while a graph is built; the run's failure, if it
    /// has failed.
    pub fn read<T: Element>(&mut self, tensor: &Tensor<'_, T>) -> Result<Vec<T>> {
        if tensor.run != self.run {
            return Err(self.refuse("A tensor of another run was read. Every run has its own buffers. Read it there."));
        }
        self.wait_for(&tensor.core, false)?;
        // SAFETY: the addresses are those of elements of a buffer that the run keeps. All tasks that write them have
        // completed, and none that may was submitted since.
        Ok(addresses(&tensor.core).map(|at| unsafe { *(at as *const T) }).collect())
    }

    /// Waits for the tasks that use `tensor` and overwrites its elements, in row-major order. Tasks submitted from now on
    /// find `data` in it.
    ///
    /// ```
    /// # use plimsoll_runtime::*;
    /// # fn main() -> Result<()> {
    /// # let mut device = Device::builder().workers(2).open()?;
    /// let double = device.kernel("double", |mut x: InOut<i32>| x[[0]] *= 2);
    /// let last = device.run(|o| {
    ///     let x = o.own(vec![1], [1])?;
    ///     while o.read(&x)?[0] < 100 {
    ///         o.submit(&double, (inout(&x),))?;
    ///     }
    ///     o.write(&x, &[5])?;
    ///     o.submit(&double, (inout(&x),))?;
    ///     o.read(&x)
    /// })?;
    /// assert_eq!(last, [10]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As those of [`read`](Self::read); and [`InvalidArgs`](ErrorCode::InvalidArgs) if `data` has not as many elements as the
    /// tensor, or the tensor is of a slice that was borrowed to be read.
    pub fn write<T: Element>(&mut self, tensor: &Tensor<'_, T>, data: &[T]) -> Result<()> {
        if tensor.run != self.run {
            return Err(
                self.refuse("A tensor of another run was written. Every run has its own buffers. Write it there.")
            );
        }
        if data.len() != tensor.len() {
            return Err(self.refuse(format!(
                "{} elements cannot be written to a tensor of {}. All of its elements are written. Give as many.",
                data.len(),
                tensor.len()
            )));
        }
        self.check_writable(&tensor.core)?;
        self.wait_for(&tensor.core, true)?;
        for (value, at) in data.iter().zip(addresses(&tensor.core)) {
            // SAFETY: as in `read`; all tasks that read them have completed, too, and the buffer may be written.
            unsafe { *(at as *mut T) = *value };
        }
        Ok(())
    }

    /// Waits for the tasks that a read of the tensor has to wait for, or a write if it `writes`.
    pub(crate) fn wait_for(&mut self, core: &TensorCore, writes: bool) -> Result<()> {
        self.engine.wait_for(core, writes).map_err(|failure| explain(self.kernels, &failure))
    }

    /// Refuses to write a buffer that may only be read.
    pub(crate) fn check_writable(&mut self, core: &TensorCore) -> Result<()> {
        if core.writable { Ok(()) } else { Err(self.refuse(crate::arg::READ_ONLY)) }
    }

    /// Gives up: ends the run with [`ErrorCode::ExplicitFatal`] and this message.
    pub fn fatal(&mut self, message: impl Into<String>) -> Error {
        self.raise(Failure::new(ErrorCode::ExplicitFatal, FailureCause::GaveUp(message.into())))
    }

    /// Ends the run with [`ErrorCode::InvalidArgs`], unless it has failed already; the first failure is returned.
    pub(crate) fn refuse(&mut self, what: impl Into<String>) -> Error {
        self.raise_refusal(ErrorCode::InvalidArgs, &what.into())
    }

    /// The run fails with an error of a submit that did not get as far as the engine.
    pub(crate) fn refuse_as(&mut self, error: &Error) -> Error {
        self.raise_refusal(error.code(), error.explanation())
    }

    fn raise_refusal(&mut self, code: ErrorCode, explanation: &str) -> Error {
        let cause = FailureCause::Refused(explanation.trim_end_matches('.').to_owned());
        self.raise(Failure::new(code, cause))
    }

    fn raise(&mut self, failure: Failure) -> Error {
        let first = self.engine.raise(failure);
        self.explain(&first)
    }

    #[cold]
    pub(crate) fn explain(&self, failure: &Failure) -> Error {
        explain(self.kernels, failure)
    }
}

#[inline]
pub(crate) fn enter(
    engine: &mut dyn SubmitSink,
    last: &mut Option<TaskId>,
    kernels: &[KernelEntry],
    kernel: KernelId,
    args: &mut [TaskArg<'_>],
    demand: Demand,
) -> Result<()> {
    match engine.submit(kernel, args, demand) {
        Ok(task) => {
            *last = Some(task);
            Ok(())
        }
        Err(failure) => Err(explain(kernels, &failure)),
    }
}

#[cold]
fn explain(kernels: &[KernelEntry], failure: &Failure) -> Error {
    Error::from_failure(failure, |kernel| kernels[kernel as usize].name.clone())
}

/// The addresses of a tensor's elements, in row-major order.
pub(crate) fn addresses(core: &TensorCore) -> impl Iterator<Item = u64> + use<> {
    let (layout, first, bytes) = (core.layout, core.address(), u64::from(core.elem_bytes));
    let mut index = [0u32; plimsoll_abi::MAX_DIMS];
    (0..layout.len()).map(move |_| {
        let (shape, strides) = (layout.padded_shape(), layout.padded_strides());
        let step: u64 = (0..index.len()).map(|d| u64::from(index[d]) * strides[d] as u64).sum();
        for dim in (0..layout.ndim()).rev() {
            index[dim] += 1;
            if index[dim] < shape[dim] {
                break;
            }
            index[dim] = 0;
        }
        first + step * bytes
    })
}
