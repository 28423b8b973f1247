//! What a program calls while it runs: submits, scopes, buffers, reads.

use crate::entry::{given, given_mut, invalid, options, several, text};
use crate::types::{CArg, CElement, CKernel, CSubmitOptions, CTask, CTensor, MAX_DIMS, uses};
use plimsoll::Result;
use plimsoll::abi::Dtype;
use plimsoll::run::{ErrorCode, Site};
use plimsoll::untyped::{self, Access, ArgSource, Submitted};
use std::ffi::{c_char, c_void};
use std::sync::{Mutex, PoisonError};

type Inner = untyped::Orchestrator<'static, 'static>;

/// The orchestrator of a run, valid inside the program that was called with it.
pub struct COrchestrator {
    /// Its lifetimes are those of the call: the header forbids to keep it. Null when the program has returned.
    inner: *mut Inner,
    /// The thread that the program was called on.
    thread: usize,
    /// Room for the tensors of lists and those that are marked, side by side.
    listed: Vec<untyped::Tensor>,
}

/// A number of this thread's, which no other has as long as it lives.
#[inline]
fn own_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

impl std::fmt::Debug for COrchestrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("COrchestrator")
    }
}

/// Handles that no program has at the moment. They are never freed: whoever kept one is refused.
static UNUSED: Mutex<Vec<UnusedHandle>> = Mutex::new(Vec::new());

struct UnusedHandle(*mut COrchestrator);

// SAFETY: nobody uses what it points to, which has no orchestrator.
unsafe impl Send for UnusedHandle {}

/// The handle that a program is called with, until it returns.
pub(crate) struct OrchestratorHandle(*mut COrchestrator);

impl OrchestratorHandle {
    pub(crate) fn new(inner: &mut untyped::Orchestrator<'_, '_>) -> Self {
        let unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let new =
            || Box::into_raw(Box::new(COrchestrator { inner: std::ptr::null_mut(), thread: 0, listed: Vec::new() }));
        let handle = unused.map_or_else(new, |unused| unused.0);
        // SAFETY: it is never freed, and nobody else has it.
        unsafe { ((*handle).inner, (*handle).thread) = (std::ptr::from_mut(inner).cast(), own_thread()) };
        Self(handle)
    }

    pub(crate) fn get(&self) -> *mut COrchestrator {
        self.0
    }
}

impl Drop for OrchestratorHandle {
    fn drop(&mut self) {
        // SAFETY: as above; the program has returned.
        unsafe { (*self.0).inner = std::ptr::null_mut() };
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(UnusedHandle(self.0));
    }
}

#[cold]
fn ended() -> plimsoll::Error {
    invalid(
        "The orchestrator was used after its program returned. It is valid inside the program that was called with it. Submit tasks there.",
    )
}

#[cold]
fn elsewhere() -> plimsoll::Error {
    invalid(
        "The orchestrator was used on another thread than its program's. It is valid on the thread that the program was called on. Submit tasks there.",
    )
}

impl COrchestrator {
    fn inner(&mut self) -> &mut Inner {
        // SAFETY: it lives longer than the call of the program, and only the program's thread has the handle.
        unsafe { &mut *self.inner }
    }

    /// Fails the run with an error that was found before the runtime was called, as a refusal by the runtime would.
    #[cold]
    fn refuse(&mut self, error: plimsoll::Error) -> plimsoll::Error {
        match error.code() {
            ErrorCode::InvalidArgs => self.inner().refuse(error.explanation()),
            _ => error,
        }
    }

    /// Submits a task with these arguments; `then` is called with it and what it makes.
    #[inline]
    fn submit<T>(
        &mut self,
        task: &untyped::Task<'_>,
        args: &[CArg],
        then: impl FnOnce(Submitted, &[untyped::Tensor]) -> Result<T>,
    ) -> Result<T> {
        // SAFETY: as in `inner`; borrowed apart from the lists.
        let inner = unsafe { &mut *self.inner };
        inner.submit_args(task, TakenArgs { args, listed: &mut self.listed }, then)
    }
}

/// Hands over what a task makes.
///
/// # Safety
/// There is room for that many tensors, which may be uninitialised words.
unsafe fn give(made: &[untyped::Tensor], out: *mut CTensor, room: usize) -> Result<()> {
    if room < made.len() {
        return Err(invalid(format!(
            "The task makes {} tensors, and there is room for {room}. Give a place for each output.",
            made.len()
        )));
    }
    if out.is_null() {
        return Err(invalid("The place for outputs is a null pointer. Give a place for each."));
    }
    for (index, tensor) in made.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { out.add(index).write(CTensor::new(*tensor)) };
    }
    Ok(())
}

fn has_tensor(arg: &CArg) -> bool {
    !matches!(arg.use_, uses::OUTPUT | uses::SCALAR)
}

/// Arguments of C as the runtime takes them.
struct TakenArgs<'a> {
    args: &'a [CArg],
    /// Room for the tensors of lists and those that are marked, side by side.
    listed: &'a mut Vec<untyped::Tensor>,
}

// SAFETY: each use is listed or not as `list` says.
unsafe impl<'a> ArgSource<'a> for TakenArgs<'a> {
    #[inline]
    fn count(&self) -> usize {
        self.args.len()
    }

    #[inline]
    fn list_tensor(&self, index: usize, list: impl FnOnce(&'a untyped::Tensor, Access) -> bool) -> bool {
        let arg = &self.args[index];
        match arg.use_ {
            uses::INPUT => plain_tensor(arg).is_some_and(|tensor| list(tensor, Access::Read)),
            uses::INOUT => plain_tensor(arg).is_some_and(|tensor| list(tensor, Access::ReadWrite)),
            uses::OUTPUT_EXISTING => plain_tensor(arg).is_some_and(|tensor| list(tensor, Access::Write)),
            _ => false,
        }
    }

    fn rest(self, first: usize) -> Result<impl Iterator<Item = Result<untyped::Arg<'a>>>> {
        let rest = &self.args[first..];
        self.listed.clear();
        for arg in rest {
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
        let mut listed = &self.listed[..];
        Ok(rest.iter().map(move |arg| take(arg, &mut listed)))
    }
}

/// The tensor of an argument that has one, unless something is wrong with it or it is marked.
#[inline]
fn plain_tensor(arg: &CArg) -> Option<&untyped::Tensor> {
    if arg.marked != 0 {
        return None;
    }
    // SAFETY: the header asks for a tensor, for uses that have one.
    unsafe { arg.tensor.as_ref() }?.known()
}

/// A tensor of a list that may be marked.
fn marked(tensor: &untyped::Tensor, arg: &CArg) -> untyped::Tensor {
    if arg.marked == 0 { *tensor } else { tensor.marked() }
}

/// The tensor of an argument; one that is marked is taken off the front of `listed`.
fn tensor_of<'a>(arg: &'a CArg, listed: &mut &'a [untyped::Tensor]) -> Result<&'a untyped::Tensor> {
    match arg.marked {
        // SAFETY: the header asks for a tensor, for uses that have one.
        0 => unsafe { given(arg.tensor, "tensor of an argument") }?.get(),
        _ => listed.split_off_first().ok_or_else(null_tensor),
    }
}

/// An argument of C as one of the runtime's. Lists, and tensors that are marked, are taken off the front of `listed`.
fn take<'a>(arg: &'a CArg, listed: &mut &'a [untyped::Tensor]) -> Result<untyped::Arg<'a>> {
    Ok(match arg.use_ {
        uses::INPUT => untyped::Arg::input(tensor_of(arg, listed)?),
        uses::INOUT => untyped::Arg::inout(tensor_of(arg, listed)?),
        uses::OUTPUT_EXISTING => untyped::Arg::output_existing(tensor_of(arg, listed)?),
        // SAFETY: whoever calls it so promised what the header asks for.
        uses::NO_DEP => unsafe { untyped::Arg::no_dep(tensor_of(arg, listed)?) },
        // SAFETY: as above.
        uses::NO_DEP_INOUT => unsafe { untyped::Arg::no_dep_inout(tensor_of(arg, listed)?) },
        uses::OUTPUT => {
            let shape = arg.shape.get(..arg.ndim as usize).ok_or_else(|| too_many(arg.ndim))?;
            let element = arg.element.spec()?;
            if arg.marked == 0 {
                untyped::Arg::output(element, shape)
            } else {
                untyped::Arg::marked_output(element, shape)
            }
        }
        uses::SCALAR => match arg.element.spec()?.dtype {
            Dtype::User => return Err(untyped_scalar()),
            dtype => untyped::Arg::scalar_bits(dtype, arg.bits),
        },
        uses::INPUT_LIST => untyped::Arg::input_list(listed.split_off(..arg.count).unwrap_or_default()),
        other => return Err(no_use(other)),
    })
}

#[cold]
fn untyped_scalar() -> plimsoll::Error {
    invalid(
        "A plain value cannot be of a type of the program's own. It is passed as bits of a type that the library knows. Pass it as one of those, or in a tensor.",
    )
}

#[cold]
fn no_use(other: u32) -> plimsoll::Error {
    invalid(format!("There is no use {other} of an argument. Use the names of the header."))
}

#[cold]
fn null_tensor() -> plimsoll::Error {
    invalid("The tensor of a marked argument is a null pointer. The call needs one. Pass what an earlier call gave.")
}

#[cold]
fn too_many(ndim: u32) -> plimsoll::Error {
    invalid(format!("A tensor cannot have {ndim} dimensions. It has at most {MAX_DIMS}. Reshape it."))
}

/// The orchestrator that C named, if its program runs, and on this thread.
///
/// # Safety
/// Null, or an orchestrator; so for all below, as the header says.
#[inline]
unsafe fn entered<'a>(o: *mut COrchestrator) -> Result<&'a mut COrchestrator> {
    // SAFETY: the caller's promise; an orchestrator is never freed.
    let known = unsafe { given(o.cast_const(), "orchestrator") }?;
    if known.inner.is_null() {
        return Err(ended());
    }
    if known.thread != own_thread() {
        return Err(elsewhere());
    }
    // SAFETY: as above, and only its program's thread gets here.
    Ok(unsafe { &mut *o })
}

/// Has a body use an orchestrator.
///
/// # Safety
/// As [`entered`].
#[inline]
unsafe fn with(o: *mut COrchestrator, body: impl FnOnce(&mut COrchestrator) -> Result<()>) -> Result<()> {
    // SAFETY: the caller's promise.
    let o = unsafe { entered(o) }?;
    body(o).map_err(|error| o.refuse(error))
}

#[inline]
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
            o.submit(&untyped::Task::new(kernel, &[]), args, |_, made| match made {
                [] => Ok(()),
                made => give(made, out, room),
            })
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
            o.submit(&shaped(&options, kernel)?.after(&after), args, |submitted, made| {
                if let Some(task) = task.as_mut() {
                    *task = CTask { words: submitted.to_words() };
                }
                if made.is_empty() { Ok(()) } else { give(made, out, room) }
            })
        })
    }
}

/// A task of the shape that options say, without its arguments.
///
/// # Safety
/// The options' pointers are null or valid.
unsafe fn shaped<'a>(options: &CSubmitOptions, kernel: CKernel) -> Result<untyped::Task<'a>> {
    let of = |kernel: &CKernel| untyped::Kernel::from_words(kernel.words);
    // SAFETY: the caller's promise.
    let parts = unsafe { several(options.parts, options.part_count, "list of parts") }?;
    if options.dummy != 0 {
        let has_predicate = !(options.only_if.is_null() && options.unless.is_null());
        if !parts.is_empty() || options.blocks > 1 || options.sync_start != 0 || has_predicate {
            return Err(invalid(
                "A dummy task has no blocks, parts, common start or predicate. It executes nothing. Leave them out.",
            ));
        }
        return Ok(untyped::Task::dummy(&[]));
    }
    let mut task = untyped::Task::new(of(&kernel), &[]).blocks(options.blocks.max(1));
    task = match parts {
        [] => task,
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

/// The place of a program that does not say where it is written.
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
    unsafe { entered(o) }?.inner().close_scope()
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
