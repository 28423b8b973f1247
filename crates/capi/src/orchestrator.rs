//! What a program calls while it runs: submits, scopes, buffers, reads.

use crate::entry::{given, given_mut, invalid, options, several, text};
use crate::types::{CArg, CElement, CKernel, CSubmitOptions, CTask, CTensor, MAX_DIMS, uses};
use plimsoll::Result;
use plimsoll::run::{ErrorCode, Site};
use plimsoll::untyped::{self, Submitted};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;

type Inner = untyped::Orchestrator<'static, 'static>;

/// The orchestrator of a run, valid inside the program that was called with it.
pub struct COrchestrator {
    /// Its lifetimes are those of the call: the header forbids to keep it.
    inner: *mut Inner,
    made: Vec<untyped::Tensor>,
    /// The tensors of lists and those that are marked, side by side.
    listed: Vec<untyped::Tensor>,
}

impl std::fmt::Debug for COrchestrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("COrchestrator")
    }
}

/// Arguments that are taken over without an allocation.
const MOST_INLINE: usize = 8;

impl COrchestrator {
    pub(crate) fn new(inner: &mut untyped::Orchestrator<'_, '_>) -> Self {
        Self { inner: std::ptr::from_mut(inner).cast(), made: Vec::new(), listed: Vec::new() }
    }

    fn inner(&mut self) -> &mut Inner {
        // SAFETY: it lives longer than the call of the program, and only the program's thread has the handle.
        unsafe { &mut *self.inner }
    }

    /// A call whose arguments do not get as far as the runtime fails the run like one that the runtime refuses itself.
    fn refuse(&mut self, error: plimsoll::Error) -> plimsoll::Error {
        match error.code() {
            ErrorCode::InvalidArgs => self.inner().refuse(error.explanation()),
            _ => error,
        }
    }

    /// Takes over the arguments and has `submit` submit them; what it made is in `made` then.
    fn submit(
        &mut self,
        args: &[CArg],
        submit: impl FnOnce(&mut Inner, &[untyped::Arg<'_>], &mut Vec<untyped::Tensor>) -> Result<Submitted>,
    ) -> Result<Submitted> {
        self.listed.clear();
        for arg in args {
            if arg.use_ == uses::INPUT_LIST {
                // SAFETY: the header asks for that many tensors.
                for tensor in unsafe { several(arg.tensor, arg.count, "list of tensors") }? {
                    self.listed.push(marked(tensor.get()?, arg));
                }
            } else if arg.marked != 0 && has_tensor(arg) && !arg.tensor.is_null() {
                // SAFETY: the header asks for a tensor.
                self.listed.push(unsafe { &*arg.tensor }.get()?.marked());
            }
        }
        // SAFETY: as in `inner`; borrowed apart from the lists.
        let inner = unsafe { &mut *self.inner };
        let (made, mut listed) = (&mut self.made, &self.listed[..]);
        let mut own = [const { MaybeUninit::<untyped::Arg<'_>>::uninit() }; MOST_INLINE];
        if args.len() <= MOST_INLINE {
            for (own, arg) in own.iter_mut().zip(args) {
                own.write(take(arg, &mut listed)?);
            }
            // SAFETY: one was written for each argument.
            let own = unsafe { std::slice::from_raw_parts(own.as_ptr().cast::<untyped::Arg<'_>>(), args.len()) };
            return submit(inner, own, made);
        }
        let own = args.iter().map(|arg| take(arg, &mut listed)).collect::<Result<Vec<_>>>()?;
        submit(inner, &own, made)
    }

    /// Hands over what the last submit made.
    fn give(&self, room: &mut [CTensor]) -> Result<()> {
        if room.len() < self.made.len() {
            return Err(invalid(format!(
                "The task makes {} tensors, and there is room for {}. Give a place for each output.",
                self.made.len(),
                room.len()
            )));
        }
        room.iter_mut().zip(&self.made).for_each(|(place, made)| *place = CTensor::new(*made));
        Ok(())
    }
}

fn has_tensor(arg: &CArg) -> bool {
    !matches!(arg.use_, uses::OUTPUT | uses::SCALAR)
}

/// A tensor of a list that may be marked.
fn marked(tensor: &untyped::Tensor, arg: &CArg) -> untyped::Tensor {
    if arg.marked == 0 { *tensor } else { tensor.marked() }
}

/// An argument of C as one of the runtime's. Lists, and tensors that are marked, are taken off the front of `listed`.
#[inline]
fn take<'a>(arg: &'a CArg, listed: &mut &'a [untyped::Tensor]) -> Result<untyped::Arg<'a>> {
    let mut tensor = || match (arg.marked, *listed) {
        // SAFETY: the header asks for a tensor, for uses that have one.
        (0, _) => unsafe { given(arg.tensor, "tensor of an argument") }?.get(),
        (_, [first, rest @ ..]) => {
            *listed = rest;
            Ok(first)
        }
        (_, []) => Err(null_tensor()),
    };
    Ok(match arg.use_ {
        uses::INPUT => untyped::Arg::input(tensor()?),
        uses::INOUT => untyped::Arg::inout(tensor()?),
        uses::OUTPUT_EXISTING => untyped::Arg::output_existing(tensor()?),
        // SAFETY: whoever calls it so promised what the header asks for.
        uses::NO_DEP => unsafe { untyped::Arg::no_dep(tensor()?) },
        // SAFETY: as above.
        uses::NO_DEP_INOUT => unsafe { untyped::Arg::no_dep_inout(tensor()?) },
        uses::OUTPUT => {
            let shape = arg.shape.get(..arg.ndim as usize).ok_or_else(|| too_many(arg.ndim))?;
            let element = arg.element.spec()?;
            if arg.marked == 0 {
                untyped::Arg::output(element, shape)
            } else {
                untyped::Arg::marked_output(element, shape)
            }
        }
        uses::SCALAR => untyped::Arg::scalar_bits(arg.element.spec()?.dtype, arg.bits),
        uses::INPUT_LIST => {
            let (own, rest) = listed.split_at(arg.count);
            *listed = rest;
            untyped::Arg::input_list(own)
        }
        other => return Err(invalid(format!("There is no use {other} of an argument. Use the names of the header."))),
    })
}

fn null_tensor() -> plimsoll::Error {
    invalid("The tensor of a marked argument is a null pointer. The call needs one. Pass what an earlier call gave.")
}

fn too_many(ndim: u32) -> plimsoll::Error {
    invalid(format!("A tensor cannot have {ndim} dimensions. It has at most {MAX_DIMS}. Reshape it."))
}

unsafe fn made<'a>(made: *mut CTensor, room: usize) -> Result<&'a mut [CTensor]> {
    match room {
        0 => Ok(&mut []),
        _ if made.is_null() => Err(invalid("The place for outputs is a null pointer. Give a place for each.")),
        // SAFETY: the header asks for room for that many; they may be uninitialised words, which tensors are made of.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(made, room) }),
    }
}

/// Has a body use an orchestrator.
///
/// # Safety
/// Null, or an orchestrator whose program has not returned; so for all below, as the header says.
unsafe fn with(o: *mut COrchestrator, body: impl FnOnce(&mut COrchestrator) -> Result<()>) -> Result<()> {
    // SAFETY: the caller's promise.
    let o = unsafe { given_mut(o, "orchestrator") }?;
    body(o).map_err(|error| o.refuse(error))
}

pub(crate) unsafe fn submit(
    o: *mut COrchestrator,
    kernel: CKernel,
    args: *const CArg,
    count: usize,
    out: *mut CTensor,
    room: usize,
) -> Result<()> {
    let kernel = untyped::Kernel::from_words(kernel.words);
    // SAFETY: this and the following hold by what the header asks of the caller.
    unsafe {
        with(o, |o| {
            let args = several(args, count, "list of arguments")?;
            o.submit(args, |inner, args, made| inner.submit(&untyped::Task::new(kernel, args), made))?;
            o.give(made(out, room)?)
        })
    }
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn submit_with(
    o: *mut COrchestrator,
    given: *const CSubmitOptions,
    kernel: CKernel,
    args: *const CArg,
    count: usize,
    out: *mut CTensor,
    room: usize,
    task: *mut CTask,
) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    unsafe {
        with(o, |o| {
            let args = several(args, count, "list of arguments")?;
            let options = options(given, "options of a submit")?;
            let after = several(options.after, options.after_count, "list of tasks")?;
            let after: Vec<_> = after.iter().map(|task| Submitted::from_words(task.words)).collect();
            let submitted = o.submit(args, |inner, args, made| {
                let shaped = shaped(&options, kernel, args)?;
                inner.submit(&shaped.after(&after), made)
            })?;
            if let Some(task) = task.as_mut() {
                *task = CTask { words: submitted.to_words() };
            }
            o.give(made(out, room)?)
        })
    }
}

/// A task of the shape that options say.
///
/// # Safety
/// The options' pointers are null or valid.
unsafe fn shaped<'a>(
    options: &CSubmitOptions,
    kernel: CKernel,
    args: &'a [untyped::Arg<'a>],
) -> Result<untyped::Task<'a>> {
    let of = |kernel: &CKernel| untyped::Kernel::from_words(kernel.words);
    // SAFETY: the caller's promise.
    let parts = unsafe { several(options.parts, options.part_count, "list of parts") }?;
    let mut task = if options.dummy == 0 {
        untyped::Task::new(of(&kernel), args).blocks(options.blocks.max(1))
    } else {
        untyped::Task::dummy(args)
    };
    task = match parts {
        [] => task,
        _ if options.dummy != 0 => {
            return Err(invalid("A dummy task has no parts. It executes nothing. Leave them out."));
        }
        [first] => task.with_parts(of(first), None),
        [first, second] => task.with_parts(of(first), Some(of(second))),
        more => {
            return Err(invalid(format!(
                "A mixed task cannot have {} parts behind its first. It has at most 2. Give fewer.",
                more.len()
            )));
        }
    };
    if options.sync_start != 0 {
        task = task.sync_start();
    }
    // SAFETY: as above.
    match unsafe { (options.only_if.as_ref(), options.unless.as_ref()) } {
        (None, None) => Ok(task),
        (Some(tensor), None) => Ok(task.only_if(tensor.get()?)),
        (None, Some(tensor)) => Ok(task.unless(tensor.get()?)),
        (Some(_), Some(_)) => {
            Err(invalid("A task has one predicate. Both only_if and unless are given. Leave one of them out."))
        }
    }
}

/// Where a program is that does not say.
pub(crate) const NOWHERE: &str = "an unknown place";

pub(crate) unsafe fn open_scope(o: *mut COrchestrator, file: *const c_char, line: u32) -> Result<()> {
    // SAFETY: by what the header asks of the caller.
    unsafe {
        with(o, |o| {
            let file = text(file, "name of the source file")?;
            o.inner().open_scope_at(Site::foreign(file.unwrap_or(NOWHERE), line))
        })
    }
}

pub(crate) unsafe fn open_manual_scope(o: *mut COrchestrator, file: *const c_char, line: u32) -> Result<()> {
    // SAFETY: by what the header asks of the caller, of tasks inside, too.
    unsafe {
        with(o, |o| {
            let file = text(file, "name of the source file")?;
            o.inner().open_manual_scope_at(Site::foreign(file.unwrap_or(NOWHERE), line));
            Ok(())
        })
    }
}

pub(crate) unsafe fn close_scope(o: *mut COrchestrator) -> Result<()> {
    // SAFETY: by what the header asks of the caller.
    unsafe { given_mut(o, "orchestrator") }?.inner().close_scope()
}

pub(crate) unsafe fn own(
    o: *mut COrchestrator,
    data: *const c_void,
    bytes: usize,
    element: CElement,
    shape: *const usize,
    ndim: usize,
    out: *mut CTensor,
) -> Result<()> {
    // SAFETY: by what the header asks of the caller.
    unsafe {
        with(o, |o| {
            let out = given_mut(out, "place for the tensor")?;
            let (data, shape) = (several(data.cast::<u8>(), bytes, "data")?, several(shape, ndim, "shape")?);
            *out = CTensor::new(o.inner().own(data, element.spec()?, shape)?);
            Ok(())
        })
    }
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn borrow(
    o: *mut COrchestrator,
    data: *mut c_void,
    bytes: usize,
    element: CElement,
    shape: *const usize,
    ndim: usize,
    writable: u32,
    out: *mut CTensor,
) -> Result<()> {
    // SAFETY: by what the header asks of the caller: also that the memory outlive the run, and that nobody else use it as a task
    // might.
    unsafe {
        with(o, |o| {
            let out = given_mut(out, "place for the tensor")?;
            let (data, shape) = (given_mut(data.cast::<u8>(), "data")?, several(shape, ndim, "shape")?);
            *out = CTensor::new(o.inner().borrow(data, bytes, element.spec()?, shape, writable != 0, None)?);
            Ok(())
        })
    }
}

pub(crate) unsafe fn read(o: *mut COrchestrator, tensor: *const CTensor, out: *mut c_void, bytes: usize) -> Result<()> {
    // SAFETY: by what the header asks of the caller; the bytes are overwritten.
    unsafe {
        with(o, |o| {
            let tensor = given(tensor, "tensor")?.get()?;
            let first = given_mut(out.cast::<u8>(), "place for the data")?;
            o.inner().read(tensor, std::slice::from_raw_parts_mut(first, bytes))
        })
    }
}

pub(crate) unsafe fn write(
    o: *mut COrchestrator,
    tensor: *const CTensor,
    data: *const c_void,
    bytes: usize,
) -> Result<()> {
    // SAFETY: by what the header asks of the caller.
    unsafe {
        with(o, |o| {
            let tensor = given(tensor, "tensor")?.get()?;
            o.inner().write(tensor, several(data.cast::<u8>(), bytes, "data")?)
        })
    }
}

pub(crate) unsafe fn fatal(o: *mut COrchestrator, message: *const c_char) -> Result<()> {
    // SAFETY: by what the header asks of the caller.
    unsafe {
        with(o, |o| {
            let message = text(message, "message")?;
            Err(o.inner().fatal(message.unwrap_or("no reason was given")))
        })
    }
}
