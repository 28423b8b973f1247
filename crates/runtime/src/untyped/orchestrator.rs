//! The untyped orchestrator: submits descriptors, opens and closes scopes by calls.

use super::arg::ArgKind;
use super::tensor::{Stamp, Submitted};
use super::{Access, Arg, ElementSpec, Kernel, Param, Task, Tensor};
use crate::arg::MOST_BYTES;
use crate::error::{Error, Result};
use crate::orchestrator::{self as typed, Dep};
use crate::shape::{NO_BLOCKS, prepare};
use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{Dtype, KernelId};
use plimsoll_graph::Layout;
use plimsoll_sched::shape::NO_KERNEL;
use plimsoll_sched::signature::{Share, Signature};
use plimsoll_sched::site::Site;
use plimsoll_sched::submit::{PredicateRequest, ShapeRequest};
use plimsoll_sched::{self as sched, CallShape, Demand, OutputRequest, TensorCore};
use std::any::Any;

/// What an untyped run is driven with. `'env` is what the run may borrow.
pub struct Orchestrator<'r, 'env> {
    typed: typed::Orchestrator<'r, 'env>,
    /// The open scopes; the root is the first.
    scopes: Vec<Stamp>,
    /// Scopes opened so far.
    opened: u32,
    /// The outputs of the task at hand.
    wanted: Vec<OutputRequest>,
    made: Vec<(Layout, ElementSpec)>,
    deps: Vec<Dep<'static>>,
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
        let root = Stamp { run: typed.run, depth: 0, number: 0 };
        let mut untyped =
            Orchestrator { typed, scopes: vec![root], opened: 0, wanted: vec![], made: vec![], deps: vec![] };
        let outcome = program(&mut untyped);
        untyped.end(outcome)
    }

    /// Closes what the program left open, which it should not have.
    fn end<R>(mut self, outcome: Result<R>) -> Result<R> {
        let open = self.scopes.len() - 1;
        let outcome = match outcome {
            Ok(_) if open > 0 => Err(self.typed.refuse(format!(
                "The program left {open} of its scopes open. What is made in a scope is held until its end. Close every scope that is opened."
            ))),
            outcome => outcome,
        };
        for _ in 0..open {
            self.close_scope()?;
        }
        outcome
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
        self.opened += 1;
        let depth = self.scopes.len() as u32;
        self.scopes.push(Stamp { run: self.typed.run, depth, number: self.opened });
    }

    /// Closes the scope that was opened last.
    ///
    /// # Errors
    /// The run's failure, if it has failed; [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) if no scope is open.
    pub fn close_scope(&mut self) -> Result<()> {
        if self.scopes.len() < 2 {
            return Err(self.typed.refuse(
                "A scope was closed that was not opened. The run itself is not closed by the program. Close each scope once.",
            ));
        }
        self.scopes.pop();
        match self.typed.engine.close_scope() {
            Ok(_) => Ok(()),
            Err(failure) => Err(self.typed.explain(&failure)),
        }
    }

    /// Submits a task. What it makes, one tensor for each [`Arg::output`], is put into `made`, whose content goes.
    ///
    /// # Errors
    /// [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) if the arguments are not what the kernel takes or not of this run
    /// and its open scopes; what the submit itself refuses; the run's failure, if it has failed.
    pub fn submit(&mut self, task: &Task<'_>, made: &mut Vec<Tensor>) -> Result<Submitted> {
        made.clear();
        if let Err(what) = self.check(task) {
            return Err(self.typed.refuse(what));
        }
        if !task.after.is_empty() {
            self.deps.clear();
            self.deps.extend(task.after.iter().map(|one| Dep::new(one.task, one.stamp.run)));
            self.typed.engine.set_after(&self.deps);
        }
        let outcome = self.enter(task);
        if !task.after.is_empty() {
            self.typed.engine.set_after(&[]);
        }
        let id = outcome?;
        let stamp = self.scope();
        made.extend(self.wanted.iter().zip(&self.made).map(|(wanted, (layout, element))| {
            let core = TensorCore::whole(wanted.made, *layout, element.dtype, element.bytes);
            Tensor::new(core, *element, stamp)
        }));
        Ok(Submitted { task: id, stamp })
    }

    /// Hands a task that was checked to the engine.
    fn enter(&mut self, task: &Task<'_>) -> Result<plimsoll_abi::TaskId> {
        let Self { typed, wanted, made, .. } = self;
        wanted.clear();
        wanted.extend(made.iter().map(|(layout, element)| OutputRequest::new(layout, element.dtype, element.bytes)));
        let mut outputs = wanted.iter_mut();
        let list = typed.scratch.list();
        for arg in task.args {
            match arg.0 {
                ArgKind::Tensor { tensor, mode, .. } => list.push(sched::TaskArg::Tensor { core: tensor.core(), mode }),
                ArgKind::List(tensors) => {
                    list.push(sched::TaskArg::Scalar { value: tensors.len() as u64, dtype: Dtype::I64 });
                    let mode = ArgMode::Input;
                    tensors.iter().for_each(|one| list.push(sched::TaskArg::Tensor { core: one.core(), mode }));
                }
                ArgKind::Output { marked, .. } => {
                    if let Some(wanted) = outputs.next() {
                        if marked {
                            wanted.mark();
                        }
                        list.push(sched::TaskArg::Output { wanted });
                    }
                }
                ArgKind::Scalar { bits, dtype } => list.push(sched::TaskArg::Scalar { value: bits, dtype }),
            }
        }
        let mut demand = Demand::of(list);
        let kernel = task.kernel.map_or(KernelId(NO_KERNEL), |kernel| kernel.id);
        if !task.is_ordinary() {
            let predicate = task.predicate.map(|(tensor, if_zero)| PredicateRequest { tensor: tensor.core(), if_zero });
            let others = task.others.map(|other| other.map(|kernel| kernel.id));
            let request = ShapeRequest { blocks: task.blocks, sync_start: task.sync_start, predicate, others };
            match prepare(typed.kernels, &typed.limits, kernel, &request, list, &mut demand) {
                Ok(call) => typed.engine.set_shape(call),
                Err(error) => return Err(typed.refuse_as(&error)),
            }
        }
        let outcome = typed.engine.submit(kernel, list, demand);
        typed.engine.set_shape(CallShape::ORDINARY);
        outcome.map_err(|failure| typed.explain(&failure))
    }

    /// Says what is wrong with a task, if anything, and notes what it makes.
    fn check(&mut self, task: &Task<'_>) -> std::result::Result<(), String> {
        let foreign =
            |kernel: &Kernel| kernel.device != self.typed.device || kernel.id.index() >= self.typed.kernels.len();
        if task.others.iter().flatten().any(foreign) {
            return Err("A part's kernel belongs to another device. Register it with this one.".to_owned());
        }
        if let Some(kernel) = task.kernel {
            let entry = self.typed.kernels.get(kernel.id.index()).filter(|_| kernel.device == self.typed.device);
            let Some(entry) = entry else {
                return Err("The kernel belongs to another device. Register it with this one.".to_owned());
            };
            if let Signature::Exactly(params) = &entry.signature {
                check_params(&entry.name, params, task.args)?;
            }
            if task.blocks == 0 {
                return Err(NO_BLOCKS.to_owned());
            }
        }
        if let Some((tensor, _)) = task.predicate {
            self.check_stamp(tensor.stamp, "The predicate of a task")?;
        }
        for one in task.after {
            self.check_stamp(one.stamp, "An explicit dependency")?;
        }
        self.made.clear();
        for arg in task.args {
            match arg.0 {
                ArgKind::Tensor { tensor, mode, .. } => {
                    self.check_stamp(tensor.stamp, "A tensor")?;
                    if mode.writes() && !tensor.core().writable {
                        return Err("A borrowed buffer cannot be written. It was entered to be read only. Enter it as one that may be written.".to_owned());
                    }
                }
                ArgKind::List(tensors) => {
                    for tensor in tensors {
                        self.check_stamp(tensor.stamp, "A tensor")?;
                    }
                }
                ArgKind::Output { element, shape, .. } => self.made.push((output_layout(&element, shape)?, element)),
                ArgKind::Scalar { .. } => {}
            }
        }
        Ok(())
    }

    fn check_stamp(&self, stamp: Stamp, what: &str) -> std::result::Result<(), String> {
        if self.scopes.get(stamp.depth as usize) == Some(&stamp) {
            return Ok(());
        }
        Err(if stamp.run == self.typed.run {
            format!(
                "{what} was used after its scope was closed. What is made in a scope goes with it. Make it in an outer scope, or read it before."
            )
        } else {
            format!("{what} of another run was used. Every run has its own. Read it there and enter the data here.")
        })
    }

    fn scope(&self) -> Stamp {
        self.scopes.last().copied().unwrap_or(Stamp { run: self.typed.run, depth: 0, number: 0 })
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
    /// `keep` until no task can touch them any more.
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
        self.typed.keep.extend(keep);
        Ok(Tensor::new(core, element, self.scope()))
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
        let wanted = tensor.len() * tensor.element.bytes as usize;
        let wrong = self.check_stamp(tensor.stamp, "A tensor").err().or_else(|| {
            (bytes != wanted).then(|| {
                format!("{bytes} bytes cannot be {verb} of a tensor that has {wanted}. All of its elements are copied. Give as many bytes.")
            })
        });
        wrong.map_or(Ok(()), |what| Err(self.typed.refuse(what)))
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

/// The layout of an output, if it can be had.
fn output_layout(element: &ElementSpec, shape: &[usize]) -> std::result::Result<Layout, String> {
    if let Some(fault) = element.fault() {
        return Err(format!("{fault}. Give another."));
    }
    let layout =
        Layout::dense(shape).map_err(|error| format!("An output cannot have that shape: {error}. Ask for another."))?;
    match layout.len() <= MOST_BYTES / u64::from(element.bytes) {
        true => Ok(layout),
        false => Err(crate::arg::too_large_text(&layout, element.bytes as usize)),
    }
}

/// Says what is wrong with arguments for a kernel of these parameters, if anything.
fn check_params(name: &str, params: &[Param], args: &[Arg<'_>]) -> std::result::Result<(), String> {
    if params.len() != args.len() {
        return Err(format!(
            "Kernel {name} takes {} arguments, and the task has {}. Give one for each of its parameters.",
            params.len(),
            args.len()
        ));
    }
    for (index, (param, arg)) in params.iter().zip(args).enumerate() {
        let fits = match arg.0 {
            ArgKind::Tensor { tensor, access, .. } => takes(param, access, tensor),
            ArgKind::List(tensors) => {
                param.access == Access::ReadList && tensors.iter().all(|one| takes(param, Access::ReadList, one))
            }
            ArgKind::Output { element, .. } => param.takes(Access::Write, &element),
            ArgKind::Scalar { dtype, .. } => param.access == Access::Value && param.element.dtype == dtype,
        };
        if !fits {
            return Err(format!(
                "Argument {index} of kernel {name} is {}, and the kernel takes {param}. Give it that.",
                described(arg)
            ));
        }
    }
    Ok(())
}

/// Whether a tensor can be a parameter: its elements are of that type, and where the kernel may address them.
fn takes(param: &Param, access: Access, tensor: &Tensor) -> bool {
    param.takes(access, &tensor.element) && tensor.core().base.is_multiple_of(u64::from(param.element.align))
}

fn described(arg: &Arg<'_>) -> String {
    let element = match arg.0 {
        ArgKind::Tensor { tensor, .. } => tensor.element,
        ArgKind::List([first, ..]) => first.element,
        ArgKind::List([]) => return "an empty list".to_owned(),
        ArgKind::Output { element, .. } => element,
        ArgKind::Scalar { dtype, .. } => ElementSpec::of(dtype),
    };
    Param { access: arg.access(), element, share: Share::All }.to_string()
}
