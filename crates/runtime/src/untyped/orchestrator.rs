//! The untyped orchestrator: submits descriptors, opens and closes scopes by calls.

use super::keep::ScopeKeep;
use super::tensor::{OpenScopes, Stamp};
use super::{ElementSpec, Tensor};
use crate::error::{Error, Result};
use crate::orchestrator::{self as typed, Dep};
use plimsoll_graph::Layout;
use plimsoll_sched::OutputRequest;
use plimsoll_sched::site::Site;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Drives an untyped run: submits its tasks, opens its scopes, reads its data. `'env` is what the run may borrow.
pub struct Orchestrator<'r, 'env> {
    pub(super) typed: typed::Orchestrator<'r, 'env>,
    pub(super) scopes: OpenScopes,
    /// The innermost of them.
    pub(super) current: Stamp,
    /// Room for the outputs of the task at hand; at least one place for each of its arguments.
    pub(super) requests: Vec<OutputRequest>,
    /// Layouts and elements of the outputs of the task at hand.
    pub(super) layouts: Vec<(Layout, ElementSpec)>,
    /// The outputs of the task at hand as tensors, once it is submitted.
    pub(super) tensors: Vec<Tensor>,
    pub(super) deps: Vec<Dep<'static>>,
    kept: ScopeKeep,
}

impl<'r, 'env> Orchestrator<'r, 'env> {
    /// Runs an untyped program with the typed orchestrator of a run.
    ///
    /// # Errors
    /// Those of the program; and [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) if it leaves a scope open.
    pub fn drive<R>(
        o: &mut typed::Orchestrator<'_, 'env>,
        program: impl FnOnce(&mut Orchestrator<'_, 'env>) -> Result<R>,
    ) -> Result<R> {
        let typed = o.reborrow();
        let scopes = OpenScopes::new(typed.run);
        let current = scopes.innermost();
        let (requests, layouts, tensors, deps, kept) = (vec![], vec![], vec![], vec![], ScopeKeep::default());
        let mut untyped = Orchestrator { typed, scopes, current, requests, layouts, tensors, deps, kept };
        match catch_unwind(AssertUnwindSafe(|| program(&mut untyped))) {
            Ok(outcome) => untyped.end(outcome),
            Err(panic) => {
                // Who catches it outside goes on outside of the program's scopes. That the run has failed is found there, too.
                drop(untyped.close_scopes());
                resume_unwind(panic)
            }
        }
    }

    /// Ends the program. Scopes that it left open are closed, and are an error.
    fn end<R>(mut self, outcome: Result<R>) -> Result<R> {
        let open = self.scopes.inner();
        let outcome = match outcome {
            Ok(_) if open > 0 => Err(self.typed.refuse(format!(
                "The program left {open} of its scopes open. What is made in a scope is held until its end. Close every scope that is opened."
            ))),
            outcome => outcome,
        };
        self.close_scopes()?;
        outcome
    }

    /// Closes all scopes that are open, and returns the first error.
    fn close_scopes(&mut self) -> Result<()> {
        let mut closed = Ok(());
        for _ in 0..self.scopes.inner() {
            closed = closed.and(self.close_scope());
        }
        closed
    }

    /// Opens a scope. What is made in it is held until it is closed, and cannot be used after that.
    ///
    /// # Errors
    /// [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) inside a manual scope.
    #[track_caller]
    pub fn open_scope(&mut self) -> Result<()> {
        self.open_scope_at(Site::caller())
    }

    /// As [`open_scope`](Self::open_scope), of a program whose source is at `site`.
    ///
    /// # Errors
    /// As those of [`open_scope`](Self::open_scope).
    pub fn open_scope_at(&mut self, site: Site) -> Result<()> {
        self.typed.check_scope()?;
        self.enter_scope(site, false);
        Ok(())
    }

    /// Opens a scope in which nothing is inferred: tasks wait for explicit dependencies only.
    ///
    /// # Safety
    /// Tasks inside, and tasks that run at the same time, do not use the same elements unless all of them only read.
    #[track_caller]
    pub unsafe fn open_manual_scope(&mut self) {
        // SAFETY: the caller's promise.
        unsafe { self.open_manual_scope_at(Site::caller()) };
    }

    /// As [`open_manual_scope`](Self::open_manual_scope), of a program whose source is at `site`.
    ///
    /// # Safety
    /// As for [`open_manual_scope`](Self::open_manual_scope).
    pub unsafe fn open_manual_scope_at(&mut self, site: Site) {
        self.enter_scope(site, true);
    }

    fn enter_scope(&mut self, site: Site, manual: bool) {
        self.typed.engine.open_scope(site, manual);
        self.scopes.open();
        self.current = self.scopes.innermost();
    }

    /// Closes the scope that was opened last.
    ///
    /// # Errors
    /// The run's failure, if it has failed; [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) if no scope is open.
    pub fn close_scope(&mut self) -> Result<()> {
        if self.scopes.inner() == 0 {
            return Err(self.typed.refuse(
                "A scope was closed that was not opened. The run itself is not closed by the program. Close each scope once.",
            ));
        }
        self.scopes.close();
        self.current = self.scopes.innermost();
        let closed = self.typed.engine.close_scope();
        self.kept.close(self.scopes.inner(), self.typed.engine, self.typed.keep);
        match closed {
            Ok(_) => Ok(()),
            Err(failure) => Err(self.typed.explain(&failure)),
        }
    }

    /// Enters a copy of `data` as a buffer that the run owns.
    ///
    /// # Errors
    /// [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) if there are not as many bytes as the shape has.
    pub fn own(&mut self, data: impl AsRef<[u8]>, element: ElementSpec, shape: &[usize]) -> Result<Tensor> {
        #[derive(Clone, Copy)]
        #[repr(align(64))]
        struct Line([u8; 64]);
        let data = data.as_ref();
        let mut lines = vec![Line([0; 64]); data.len().div_ceil(64)];
        lines.iter_mut().zip(data.chunks(64)).for_each(|(line, part)| line.0[..part.len()].copy_from_slice(part));
        let at = lines.as_mut_ptr().cast::<u8>();
        // SAFETY: the lines have that many bytes, and the run keeps them.
        unsafe { self.borrow(at, data.len(), element, shape, true, Some(Box::new(lines))) }
    }

    /// Enters memory that stays where it is: `bytes` bytes at `data`, which tasks only read unless `writable`. The run keeps
    /// `keep` until no task can touch them any more: the scope has closed, and all that was submitted until then has completed.
    ///
    /// # Errors
    /// [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) if there are not as many bytes as the shape has, or the address is not
    /// aligned as the element says.
    ///
    /// # Safety
    /// Until the run has returned (or `keep` is dropped, if a prebuilt graph has it) the memory is valid, nobody else writes
    /// it, and nobody else reads it if it is writable. It overlaps no other buffer of the run.
    pub unsafe fn borrow(
        &mut self,
        data: *mut u8,
        bytes: usize,
        element: ElementSpec,
        shape: &[usize],
        writable: bool,
        keep: Option<Box<dyn Any>>,
    ) -> Result<Tensor> {
        if let Some(fault) = element.fault() {
            return Err(self.typed.refuse(format!("{fault}. Give another.")));
        }
        let len = bytes / element.bytes as usize;
        if len * element.bytes as usize != bytes || !(data as usize).is_multiple_of(element.align as usize) {
            return Err(self.typed.refuse(format!(
                "A buffer of {bytes} bytes at {data:p} cannot hold {element}. They have {} bytes each and are aligned to {}. Copy them to a buffer of their own.",
                element.bytes, element.align
            )));
        }
        let core = self.typed.enter_memory(data as u64, len, shape, &element, writable, keep.is_some())?;
        self.keep_for_scope(keep);
        Ok(Tensor::new(core, element, &self.scopes))
    }

    /// Whether the scope of this tensor is open.
    pub fn is_open(&self, tensor: &Tensor) -> bool {
        self.scopes.have(tensor.stamp)
    }

    /// Waits for the tasks that use a tensor, whose scope may have closed: so its memory can be entered as something else.
    ///
    /// # Errors
    /// [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) for a tensor of another run; the run's failure, if it has failed.
    pub fn wait_out(&mut self, tensor: &Tensor) -> Result<()> {
        self.check_run(tensor)?;
        self.typed.wait_for(tensor.core(), true)
    }

    /// A tensor of the innermost scope over memory that was entered in a scope of this run which has closed. It is the same buffer:
    /// tasks wait for those that used it in that scope.
    ///
    /// # Errors
    /// [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) for a tensor of another run; the run's failure, if it has failed.
    ///
    /// # Safety
    /// The tensor is the whole of what [`borrow`](Self::borrow) gave or a view of that, nothing that a task made, and what is
    /// promised there still holds. With `keep` it goes on to hold until no task can touch the memory any more.
    pub unsafe fn borrow_again(&mut self, tensor: &Tensor, keep: Option<Box<dyn Any>>) -> Result<Tensor> {
        self.check_run(tensor)?;
        if let Some(failure) = self.typed.engine.failure() {
            return Err(self.typed.explain(&failure));
        }
        self.keep_for_scope(keep);
        Ok(tensor.of_innermost(&self.scopes))
    }

    fn check_run(&mut self, tensor: &Tensor) -> Result<()> {
        if tensor.stamp.run == self.current.run {
            return Ok(());
        }
        Err(self.typed.refuse(tensor.stamp.closed(self.current.run, "A tensor")))
    }

    /// Keeps something until the innermost scope has closed and every task that was submitted until then has completed.
    fn keep_for_scope(&mut self, keep: Option<Box<dyn Any>>) {
        let Some(keep) = keep else { return };
        self.kept.sweep(self.typed.engine, self.typed.keep);
        self.kept.add(self.scopes.inner(), keep, self.typed.keep);
    }

    /// Waits for the tasks that write `tensor` and copies its elements, in row-major order.
    ///
    /// # Errors
    /// [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) if `out` has not as many bytes as the elements; the run's failure, if it
    /// has failed.
    pub fn read(&mut self, tensor: &Tensor, out: &mut [u8]) -> Result<()> {
        self.check_copy(tensor, out.len(), "read")?;
        self.typed.wait_for(tensor.core(), false)?;
        let width = tensor.element.bytes as usize;
        for (part, at) in out.chunks_exact_mut(width).zip(typed::addresses(tensor.core())) {
            // SAFETY: the address is that of an element of a buffer that the run keeps; nobody writes it before this
            // orchestrator submits the next task that may.
            unsafe { std::ptr::copy_nonoverlapping(at as *const u8, part.as_mut_ptr(), width) };
        }
        Ok(())
    }

    /// Waits for the tasks that use `tensor` and overwrites its elements, in row-major order.
    ///
    /// # Errors
    /// As [`read`](Self::read), and if the buffer may not be written.
    pub fn write(&mut self, tensor: &Tensor, data: &[u8]) -> Result<()> {
        self.check_copy(tensor, data.len(), "written")?;
        self.typed.check_writable(tensor.core())?;
        self.typed.wait_for(tensor.core(), true)?;
        let width = tensor.element.bytes as usize;
        for (part, at) in data.chunks_exact(width).zip(typed::addresses(tensor.core())) {
            // SAFETY: as in `read`; nobody reads or writes the element meanwhile, and its buffer may be written.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), at as *mut u8, width) };
        }
        Ok(())
    }

    fn check_copy(&mut self, tensor: &Tensor, bytes: usize, verb: &str) -> Result<()> {
        let there = tensor.len() * tensor.element.bytes as usize;
        if !self.scopes.have_that_of(tensor) {
            return Err(self.typed.refuse(tensor.stamp.closed(self.typed.run, "A tensor")));
        }
        if bytes != there {
            return Err(self.typed.refuse(format!(
                "{bytes} bytes cannot be {verb} of a tensor that has {there}. All of its elements are copied. Give as many bytes."
            )));
        }
        Ok(())
    }

    /// Ends the run with [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs), as a call does that is given wrong arguments.
    pub fn refuse(&mut self, what: impl Into<String>) -> Error {
        self.typed.refuse(what)
    }

    /// Gives up: ends the run with [`ExplicitFatal`](crate::abi::ErrorCode::ExplicitFatal) and this message.
    pub fn fatal(&mut self, message: impl Into<String>) -> Error {
        self.typed.fatal(message)
    }
}
