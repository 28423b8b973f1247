//! Submits of the untyped tier: the arguments of a task are checked and listed in one pass. Tensors that plainly fit their
//! parameters are listed on the stack; from the first other argument on, a longer way is gone.

use super::arg::ArgKind;
use super::tensor::{OpenScopes, Stamp};
use super::{Access, Arg, ArgSource, ElementSpec, Kernel, Orchestrator, Param, Submitted, Task, Tensor};
use crate::arg::MOST_BYTES;
use crate::error::{Error, Result};
use crate::orchestrator::Dep;
use crate::shape::{NO_BLOCKS, prepare};
use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{Dtype, KernelId, TaskId};
use plimsoll_graph::Layout;
use plimsoll_sched::shape::NO_KERNEL;
use plimsoll_sched::signature::{Share, Signature};
use plimsoll_sched::submit::{PredicateRequest, ShapeRequest};
use plimsoll_sched::{CallShape, Demand, Failure, KernelEntry, OutputRequest, TaskArg, TensorCore};
use std::mem::MaybeUninit;

/// Arguments of a task that are listed without an allocation.
const MOST_ON_STACK: usize = 16;

impl Orchestrator<'_, '_> {
    /// Submits a task. What it makes, one tensor for each [`Arg::output`], is put into `outputs`, whose content goes.
    ///
    /// # Errors
    /// [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) if the arguments are not what the kernel takes or not of this run
    /// and its open scopes; what the submit itself refuses; the run's failure, if it has failed.
    #[inline]
    pub fn submit(&mut self, task: &Task<'_>, outputs: &mut Vec<Tensor>) -> Result<Submitted> {
        outputs.clear();
        let task = match task.plain() {
            Some(kernel) => self.submit_plain(kernel, task.args, outputs)?,
            None => self.submit_shaped(task, task.args).map(|task| self.hand_over(task, outputs))?,
        };
        Ok(Submitted { task, stamp: self.current })
    }

    /// As [`submit`](Self::submit), with the arguments that `args` gives instead of the task's own: another language's need not
    /// be listed before. `then` is called with the task and what it makes.
    ///
    /// # Errors
    /// As those of [`submit`](Self::submit), and what `args` and `then` give.
    // Forced inline: left to the compiler, with what it calls below, a task that C submits takes 664.7 instructions instead of 658.8.
    #[inline(always)]
    pub fn submit_args<'t, T>(
        &mut self,
        task: &Task<'t>,
        args: impl ArgSource<'t>,
        then: impl FnOnce(Submitted, &[Tensor]) -> Result<T>,
    ) -> Result<T> {
        let then = |o: &mut Self, task, makes| {
            then(Submitted { task, stamp: o.current }, if makes { &o.tensors } else { &[] })
        };
        match task.plain() {
            Some(kernel) => self.enter_plain(kernel, args, then),
            None => {
                let task = self.submit_shaped(task, args)?;
                then(self, task, true)
            }
        }
    }

    #[inline(never)]
    fn submit_plain(&mut self, kernel: Kernel, args: &[Arg<'_>], outputs: &mut Vec<Tensor>) -> Result<TaskId> {
        self.enter_plain(kernel, args, |o, task, makes| Ok(if makes { o.hand_over(task, outputs) } else { task }))
    }

    /// Submits a task that has a kernel and arguments and no other fields. This function lists the leading arguments that are
    /// tensors of the kind that the kernel takes; [`enter`](Self::enter) checks the others. `then` is told whether the task has
    /// outputs that it makes.
    #[inline(always)]
    fn enter_plain<'t, T>(
        &mut self,
        kernel: Kernel,
        args: impl ArgSource<'t>,
        then: impl FnOnce(&mut Self, TaskId, bool) -> Result<T>,
    ) -> Result<T> {
        let mut list = [const { MaybeUninit::<TaskArg<'t>>::uninit() }; MOST_ON_STACK];
        let (mut listed, mut demand) = (0, Demand::default());
        let count = args.count();
        if count <= MOST_ON_STACK
            && let Some(params) = self.params_of(kernel, count)
        {
            loop {
                if listed == count {
                    // SAFETY: so many were written.
                    let list = unsafe { list[..listed].assume_init_mut() };
                    return match self.typed.engine.submit(kernel.id, list, demand) {
                        Ok(task) => then(self, task, false),
                        Err(failure) => Err(self.explained(failure)),
                    };
                }
                let is_listed = args.list_tensor(listed, |tensor, access| {
                    let fits = params.is_none_or(|params| fits_plainly(&params[listed], access, tensor))
                        && self.scopes.have_that_of(tensor)
                        && (tensor.core().writable || access == Access::Read);
                    if fits {
                        // What inference looks at asks for as much however it is used.
                        demand.tensor(tensor.core(), ArgMode::Input);
                        list[listed].write(TaskArg::Tensor { core: tensor.core(), mode: access.mode() });
                    }
                    fits
                });
                if !is_listed {
                    break;
                }
                listed += 1;
            }
        }
        // SAFETY: so many were written.
        let list = unsafe { list[..listed].assume_init_mut() };
        let task = self.enter(&Request { kernel: Some(kernel), shape: None }, args, (list, demand))?;
        then(self, task, true)
    }

    /// What a kernel takes, if it is one of this device and takes so many arguments. Inside, nothing if it takes any.
    #[inline(always)]
    fn params_of(&self, kernel: Kernel, count: usize) -> Option<Option<&[Param]>> {
        let entry = self.typed.kernels.get(kernel.id.index()).filter(|_| kernel.device == self.typed.device)?;
        match &entry.signature {
            Signature::Any => Some(None),
            Signature::Exactly(params) if params.len() == count => Some(Some(params)),
            Signature::Exactly(_) => None,
        }
    }

    /// The run's failure, for people.
    #[cold]
    #[inline(never)]
    fn explained(&self, failure: Box<Failure>) -> Error {
        self.typed.explain(&failure)
    }

    /// Hands over what the task makes.
    fn hand_over(&mut self, task: TaskId, outputs: &mut Vec<Tensor>) -> TaskId {
        std::mem::swap(&mut self.tensors, outputs);
        task
    }

    /// Submits a task that is not executed once whatever happens, or waits for others that it names.
    #[inline(never)]
    fn submit_shaped<'t>(&mut self, task: &Task<'t>, args: impl ArgSource<'t>) -> Result<TaskId> {
        if let Err(what) = self.check_shape(task) {
            return Err(self.typed.refuse(what));
        }
        self.deps.clear();
        self.deps.extend(task.after.iter().map(|one| Dep::new(one.task, one.stamp.run)));
        self.typed.engine.set_after(&self.deps);
        let request = Request { kernel: task.kernel, shape: (!task.is_ordinary()).then_some(task) };
        let outcome = self.enter(&request, args, (&mut [], Demand::default()));
        self.typed.engine.set_after(&[]);
        self.typed.engine.set_shape(CallShape::ORDINARY);
        outcome
    }

    /// Says what is wrong with a task besides its arguments, if anything.
    fn check_shape(&self, task: &Task<'_>) -> std::result::Result<(), String> {
        let foreign =
            |kernel: &Kernel| kernel.device != self.typed.device || kernel.id.index() >= self.typed.kernels.len();
        if task.others.iter().flatten().any(foreign) {
            return Err("A part's kernel belongs to another device. Register it with this one.".to_owned());
        }
        if task.kernel.is_some() && task.blocks == 0 {
            return Err(NO_BLOCKS.to_owned());
        }
        let check = |stamp: Stamp, what: &str| match self.scopes.have(stamp) {
            true => Ok(()),
            false => Err(stamp.closed(self.typed.run, what)),
        };
        if let Some((tensor, _)) = task.predicate {
            check(tensor.stamp, "The predicate of a task")?;
        }
        task.after.iter().try_for_each(|one| check(one.stamp, "An explicit dependency"))
    }

    /// Checks the arguments of a task and hands it to the engine. Those in `listed` were checked before. What the task makes is in
    /// `tensors` then.
    #[inline(never)]
    fn enter<'t>(
        &mut self,
        request: &Request<'_, 't>,
        args: impl ArgSource<'t>,
        (listed, demand): (&mut [TaskArg<'t>], Demand),
    ) -> Result<TaskId> {
        let (mut id, mut params) = (KernelId(NO_KERNEL), None);
        if let Some(kernel) = request.kernel {
            let entry = self.typed.kernels.get(kernel.id.index()).filter(|_| kernel.device == self.typed.device);
            let Some(entry) = entry else { return Err(self.typed.refuse(FOREIGN_KERNEL)) };
            if let Signature::Exactly(exactly) = &entry.signature {
                if exactly.len() != args.count() {
                    let error = wrong_count(&entry.name, exactly.len(), args.count());
                    return Err(self.typed.refuse_as(&error));
                }
                params = Some(&exactly[..]);
            }
            id = kernel.id;
        }
        self.layouts.clear();
        self.tensors.clear();
        if self.requests.len() < args.count() {
            make_room(&mut self.requests, args.count());
        }
        let Self { typed, scopes, requests, layouts, .. } = self;
        let first = listed.len();
        let rest = match args.rest(first) {
            Ok(rest) => rest,
            Err(error) => return Err(typed.refuse_as(&error)),
        };
        let list = typed.scratch.list();
        list.extend(listed.iter_mut().map(TaskArg::reborrow));
        let mut listing = Listing { demand, requests };
        for (arg, index) in rest.zip(first..) {
            let arg = match arg {
                Ok(arg) => arg,
                Err(error) => return Err(typed.refuse_as(&error)),
            };
            match listing.take(arg, params.map(|params| &params[index]), scopes, list, layouts) {
                Ok(longer) => listing = longer,
                Err(fault) => {
                    let error = fault.error(typed.run, typed.kernels.get(id.index()), index, arg);
                    return Err(typed.refuse_as(&error));
                }
            }
        }
        let mut demand = listing.demand;
        if let Some(task) = request.shape {
            let predicate = task.predicate.map(|(tensor, if_zero)| PredicateRequest { tensor: tensor.core(), if_zero });
            let others = task.others.map(|other| other.map(|kernel| kernel.id));
            let request = ShapeRequest { blocks: task.blocks, sync_start: task.sync_start, predicate, others };
            match prepare(typed.kernels, &typed.limits, id, &request, list, &mut demand) {
                Ok(call) => typed.engine.set_shape(call),
                Err(error) => return Err(typed.refuse_as(&error)),
            }
        }
        let task = typed.engine.submit(id, list, demand).map_err(|failure| typed.explain(&failure))?;
        let Self { requests, layouts, scopes, tensors, .. } = self;
        tensors.extend(requests.iter().zip(layouts).map(|(request, (layout, element))| {
            Tensor::new(TensorCore::whole(request.place, *layout, element.dtype, element.bytes), *element, scopes)
        }));
        Ok(task)
    }
}

/// What is submitted besides arguments.
struct Request<'r, 't> {
    /// `None` for a dummy.
    kernel: Option<Kernel>,
    /// A task that is not executed once, whatever happens.
    shape: Option<&'r Task<'t>>,
}

const FOREIGN_KERNEL: &str = "The kernel belongs to another device. Register it with this one.";

#[cold]
fn make_room(requests: &mut Vec<OutputRequest>, args: usize) {
    requests.resize(args, OutputRequest::default());
}

/// Whether a tensor can be a parameter at the first look: its elements are just those that the kernel declares. Then they also
/// lie as the kernel may address them, because buffers are refused that are not aligned as their elements are.
#[inline(always)]
fn fits_plainly(param: &Param, access: Access, tensor: &Tensor) -> bool {
    param.access == access && param.element.is(&tensor.element)
}

/// A submit in the making.
struct Listing<'t> {
    demand: Demand,
    /// Places for the outputs that are still to come.
    requests: &'t mut [OutputRequest],
}

impl<'t> Listing<'t> {
    /// Checks an argument of any kind and lists it.
    #[inline(never)]
    fn take(
        mut self,
        arg: Arg<'t>,
        param: Option<&Param>,
        scopes: &OpenScopes,
        list: &mut Vec<TaskArg<'t>>,
        layouts: &mut Vec<(Layout, ElementSpec)>,
    ) -> std::result::Result<Self, ArgFault> {
        if param.is_some_and(|param| !fits(param, &arg)) {
            return Err(ArgFault::Misfit);
        }
        match arg.0 {
            ArgKind::Tensor { tensor, access } => {
                if access != Access::Read && !tensor.core().writable {
                    return Err(ArgFault::ReadOnly);
                }
                self.tensor(tensor, access.mode(), scopes, list)?;
            }
            ArgKind::Untracked { tensor, access } => self.tensor(tensor, access.untracked_mode(), scopes, list)?,
            ArgKind::List(tensors) => {
                self.scalar(tensors.len() as u64, Dtype::I64, list);
                for tensor in tensors {
                    self.tensor(tensor, Access::ReadList.mode(), scopes, list)?;
                }
            }
            ArgKind::Output { element, shape, marked } => {
                let layout = output_layout(&element, shape).map_err(ArgFault::Other)?;
                let Some((request, rest)) = std::mem::take(&mut self.requests).split_first_mut() else {
                    unreachable!("there is a place for each argument")
                };
                self.requests = rest;
                *request = OutputRequest::new(&layout, element.dtype, element.bytes);
                if marked {
                    request.mark();
                }
                self.demand.output(request);
                list.push(TaskArg::Output { request });
                layouts.push((layout, element));
            }
            ArgKind::Scalar { bits, dtype } => self.scalar(bits, dtype, list),
        }
        Ok(self)
    }

    fn tensor(
        &mut self,
        tensor: &'t Tensor,
        mode: ArgMode,
        scopes: &OpenScopes,
        list: &mut Vec<TaskArg<'t>>,
    ) -> std::result::Result<(), ArgFault> {
        if !scopes.have_that_of(tensor) {
            return Err(ArgFault::Closed(tensor.stamp));
        }
        self.demand.tensor(tensor.core(), mode);
        list.push(TaskArg::Tensor { core: tensor.core(), mode });
        Ok(())
    }

    fn scalar(&mut self, value: u64, dtype: Dtype, list: &mut Vec<TaskArg<'t>>) {
        self.demand.scalar();
        list.push(TaskArg::Scalar { value, dtype });
    }
}

/// What is wrong with an argument.
enum ArgFault {
    /// It is not what the kernel takes there.
    Misfit,
    /// It would be written, and may only be read.
    ReadOnly,
    /// It belongs to a scope that is not open.
    Closed(Stamp),
    /// What this says.
    Other(String),
}

impl ArgFault {
    #[cold]
    fn error(self, run: u64, entry: Option<&KernelEntry>, index: usize, arg: Arg<'_>) -> Error {
        Error::invalid(match self {
            Self::Misfit => misfit(entry, index, &arg),
            Self::ReadOnly => "A borrowed buffer cannot be written. It was entered to be read only. Enter it as one that may be written.".to_owned(),
            Self::Closed(stamp) => stamp.closed(run, "A tensor"),
            Self::Other(text) => text,
        })
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

/// Whether an argument is what a kernel takes there.
fn fits(param: &Param, arg: &Arg<'_>) -> bool {
    match arg.0 {
        ArgKind::Tensor { tensor, access } | ArgKind::Untracked { tensor, access } => takes(param, access, tensor),
        ArgKind::List(tensors) => {
            param.access == Access::ReadList && tensors.iter().all(|one| takes(param, Access::ReadList, one))
        }
        ArgKind::Output { element, .. } => param.takes(Access::Write, &element),
        ArgKind::Scalar { dtype, .. } => param.access == Access::Value && param.element.dtype == dtype,
    }
}

/// Whether a tensor can be a parameter: its elements are of that type, and where the kernel may address them.
#[inline]
fn takes(param: &Param, access: Access, tensor: &Tensor) -> bool {
    // An alignment is a power of two: kernels with others are not registered.
    let is_aligned = tensor.core().base & u64::from(param.element.align - 1) == 0;
    param.takes(access, &tensor.element) && is_aligned
}

#[cold]
fn wrong_count(name: &str, params: usize, args: usize) -> Error {
    Error::invalid(format!(
        "Kernel {name} takes {params} arguments, and the task has {args}. Give one for each of its parameters."
    ))
}

fn misfit(entry: Option<&KernelEntry>, index: usize, arg: &Arg<'_>) -> String {
    let described = described(arg);
    let Some(KernelEntry { name, signature: Signature::Exactly(params), .. }) = entry else { return described };
    let param = &params[index];
    format!("Argument {index} of kernel {name} is {described}, and the kernel takes {param}. Give it that.")
}

fn described(arg: &Arg<'_>) -> String {
    let element = match arg.0 {
        ArgKind::Tensor { tensor, .. } | ArgKind::Untracked { tensor, .. } => tensor.element,
        ArgKind::List([first, ..]) => first.element,
        ArgKind::List([]) => return "an empty list".to_owned(),
        ArgKind::Output { element, .. } => element,
        ArgKind::Scalar { dtype, .. } => ElementSpec::of(dtype),
    };
    Param { access: arg.access(), element, share: Share::All }.to_string()
}
