//! What a program calls while it runs: submits, scopes, buffers, reads.

use crate::entry::{given, given_mut, invalid, several, text};
use crate::types::{CArg, CElement, CKernel, CTask, CTensor, MAX_DIMS, uses};
use plimsoll::Result;
use plimsoll::run::Site;
use plimsoll::untyped::{self, Submitted};
use std::ffi::{c_char, c_void};

/// The orchestrator of a run, valid inside the program that was called with it.
pub struct COrchestrator {
    /// Its lifetimes are those of the call: the header forbids to keep it.
    inner: *mut untyped::Orchestrator<'static, 'static>,
    made: Vec<untyped::Tensor>,
    /// The tensors of lists, side by side.
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

    fn inner(&mut self) -> &mut untyped::Orchestrator<'static, 'static> {
        // SAFETY: it lives longer than the call of the program, and only the program's thread has the handle.
        unsafe { &mut *self.inner }
    }

    /// Arguments that do not get as far as the runtime fail the run like those that it refuses itself.
    fn submit(&mut self, kernel: CKernel, args: &[CArg], after: &[Submitted]) -> Result<Submitted> {
        let mut entered = false;
        let outcome = self.enter(kernel, args, after, &mut entered);
        outcome.map_err(|error| if entered { error } else { self.inner().refuse(error.explanation()) })
    }

    fn enter(&mut self, kernel: CKernel, args: &[CArg], after: &[Submitted], entered: &mut bool) -> Result<Submitted> {
        self.listed.clear();
        for arg in args.iter().filter(|arg| arg.use_ == uses::INPUT_LIST) {
            // SAFETY: the header asks for that many tensors.
            for tensor in unsafe { several(arg.tensor, arg.count, "list of tensors") }? {
                self.listed.push(*tensor.get()?);
            }
        }
        // SAFETY: as in `inner`; borrowed apart from the lists.
        let inner = unsafe { &mut *self.inner };
        let (made, mut listed) = (&mut self.made, &self.listed[..]);
        let mut own = [untyped::Arg::scalar(0i64); MOST_INLINE];
        let kernel = untyped::Kernel::from_words(kernel.words);
        if args.len() <= MOST_INLINE {
            for (own, arg) in own.iter_mut().zip(args) {
                *own = take(arg, &mut listed)?;
            }
            *entered = true;
            return inner.submit(&untyped::Task::new(kernel, &own[..args.len()]).after(after), made);
        }
        let own = args.iter().map(|arg| take(arg, &mut listed)).collect::<Result<Vec<_>>>()?;
        *entered = true;
        inner.submit(&untyped::Task::new(kernel, &own).after(after), made)
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

/// An argument of C as one of the runtime's. Lists take theirs off the front of `listed`.
fn take<'a>(arg: &'a CArg, listed: &mut &'a [untyped::Tensor]) -> Result<untyped::Arg<'a>> {
    // SAFETY: the header asks for a tensor, for uses that have one.
    let tensor = || unsafe { given(arg.tensor, "tensor of an argument") }?.get();
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
            untyped::Arg::output(arg.element.spec()?, shape)
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

/// # Safety
/// As the header says; so for all below.
pub(crate) unsafe fn submit(
    o: *mut COrchestrator,
    kernel: CKernel,
    args: *const CArg,
    count: usize,
    out: *mut CTensor,
    room: usize,
) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let (o, args) = unsafe { (given_mut(o, "orchestrator")?, several(args, count, "list of arguments")?) };
    o.submit(kernel, args, &[])?;
    // SAFETY: as above.
    o.give(unsafe { made(out, room) }?)
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn submit_after(
    o: *mut COrchestrator,
    kernel: CKernel,
    args: *const CArg,
    count: usize,
    after: *const CTask,
    after_count: usize,
    out: *mut CTensor,
    room: usize,
    task: *mut CTask,
) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let (o, args) = unsafe { (given_mut(o, "orchestrator")?, several(args, count, "list of arguments")?) };
    // SAFETY: as above; tasks come from an earlier submit.
    let after: Vec<_> = unsafe { several(after, after_count, "list of tasks")?.iter() }
        .map(|task| unsafe { Submitted::from_words(task.words) })
        .collect();
    let submitted = o.submit(kernel, args, &after)?;
    // SAFETY: as above.
    if let Some(task) = unsafe { task.as_mut() } {
        *task = CTask { words: submitted.to_words() };
    }
    // SAFETY: as above.
    o.give(unsafe { made(out, room) }?)
}

pub(crate) unsafe fn open_scope(o: *mut COrchestrator, file: *const c_char, line: u32) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let (o, file) = unsafe { (given_mut(o, "orchestrator")?, text(file, "name of the source file")?) };
    o.inner().open_scope_at(Site::foreign(file.unwrap_or("an unknown place"), line))
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
    // SAFETY: this and the following hold by what the header asks of the caller.
    let (o, out) = unsafe { (given_mut(o, "orchestrator")?, given_mut(out, "place for the tensor")?) };
    // SAFETY: as above.
    let (data, shape) = unsafe { (several(data.cast::<u8>(), bytes, "data")?, several(shape, ndim, "shape")?) };
    *out = CTensor::new(o.inner().own(data, element.spec()?, shape)?);
    Ok(())
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
    // SAFETY: this and the following hold by what the header asks of the caller.
    let (o, out) = unsafe { (given_mut(o, "orchestrator")?, given_mut(out, "place for the tensor")?) };
    // SAFETY: as above.
    let (data, shape) = unsafe { (given_mut(data.cast::<u8>(), "data")?, several(shape, ndim, "shape")?) };
    let element = element.spec()?;
    // SAFETY: the header asks that the memory outlive the run, and that nobody else use it as a task might.
    *out = CTensor::new(unsafe { o.inner().borrow(data, bytes, element, shape, writable != 0, None) }?);
    Ok(())
}

pub(crate) unsafe fn read(o: *mut COrchestrator, tensor: *const CTensor, out: *mut c_void, bytes: usize) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let (o, tensor) = unsafe { (given_mut(o, "orchestrator")?, given(tensor, "tensor")?) };
    // SAFETY: as above; the bytes are overwritten.
    let first = unsafe { given_mut(out.cast::<u8>(), "place for the data") }?;
    // SAFETY: as above.
    o.inner().read(tensor.get()?, unsafe { std::slice::from_raw_parts_mut(first, bytes) })
}

pub(crate) unsafe fn write(
    o: *mut COrchestrator,
    tensor: *const CTensor,
    data: *const c_void,
    bytes: usize,
) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let (o, tensor) = unsafe { (given_mut(o, "orchestrator")?, given(tensor, "tensor")?) };
    // SAFETY: as above.
    let data = unsafe { several(data.cast::<u8>(), bytes, "data") }?;
    o.inner().write(tensor.get()?, data)
}

pub(crate) unsafe fn fatal(o: *mut COrchestrator, message: *const c_char) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let (o, message) = unsafe { (given_mut(o, "orchestrator")?, text(message, "message")?) };
    Err(o.inner().fatal(message.unwrap_or("no reason was given")))
}
