//! Devices, kernels, runs and graphs.

use crate::entry::{given, given_mut, invalid, options, several, text};
use crate::error::{CError, c_text};
use crate::orchestrator::OrchestratorHandle;
use crate::settings::{RecordSettings, check_time_outs, core_class, engine, set_sizes};
use crate::types::{
    CDeviceOptions, CKernel, CKernelOptions, CParam, CReport, CRunOptions, HungFn, ProgramFn, ReleaseFn,
};
use crate::wording::{Language, worded};
use plimsoll::run::{Builder, HungHook, RunReport, Site};
use plimsoll::untyped;
use plimsoll::{CancelToken, Result};
use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A device, with what C asked it last.
#[derive(Debug)]
pub struct CDevice {
    held: DeviceOwner,
    dir: CString,
    /// Whether a call uses the device, which calls of the program that it runs must not use then.
    busy: AtomicBool,
    /// The process that opened it. A fork of that has none of its workers.
    process: u32,
    is_virtual: bool,
}

/// Whose a device is.
#[derive(Debug)]
enum DeviceOwner {
    /// C opened it, and closes it.
    Own(Box<plimsoll::Device>),
    /// It was lent to a plug-in that builds a program.
    Lent(*mut plimsoll::Device),
    /// The program is built, and the loan is over.
    Returned,
}

impl CDevice {
    fn new(held: DeviceOwner, is_virtual: bool) -> Self {
        let (dir, busy, process) = (CString::default(), AtomicBool::new(false), std::process::id());
        Self { held, dir, busy, process, is_virtual }
    }

    /// Whether this is a fork of the process that opened it.
    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// A handle of the command's own device, for a plug-in to register kernels with until the handle is
    /// [returned](Self::give_back).
    pub(crate) fn lent(device: &mut plimsoll::Device) -> Self {
        Self::new(DeviceOwner::Lent(device), false)
    }

    /// Ends the loan. Whoever kept the handle is refused.
    pub(crate) fn give_back(&mut self) {
        self.held = DeviceOwner::Returned;
    }

    fn get(&self) -> Result<&plimsoll::Device> {
        match &self.held {
            DeviceOwner::Own(device) => Ok(device),
            // SAFETY: whoever lent it does not use it before the handle is returned.
            DeviceOwner::Lent(device) => Ok(unsafe { &**device }),
            DeviceOwner::Returned => Err(returned()),
        }
    }

    fn get_mut(&mut self) -> Result<&mut plimsoll::Device> {
        match &mut self.held {
            DeviceOwner::Own(device) => Ok(device),
            // SAFETY: as in `get`.
            DeviceOwner::Lent(device) => Ok(unsafe { &mut **device }),
            DeviceOwner::Returned => Err(returned()),
        }
    }

    /// The device, to run something on it.
    fn own(&mut self) -> Result<&mut plimsoll::Device> {
        match &mut self.held {
            DeviceOwner::Own(device) => Ok(device),
            _ => Err(invalid(
                "A plug-in cannot run anything on the device that its program is built for. The command runs the program itself, with its own flags. Submit tasks in the program's orchestrate.",
            )),
        }
    }
}

/// A device that one call uses, and no other meanwhile.
struct UsedDevice<'a>(&'a mut CDevice);

impl UsedDevice<'_> {
    /// # Safety
    /// Null, or a device that was not closed.
    unsafe fn new(device: *mut CDevice) -> Result<Self> {
        // SAFETY: the caller's promise; the flag is atomic, and nobody refers to it exclusively.
        let used = unsafe { given(device.cast_const(), "device") }?;
        if used.is_forked() {
            return Err(invalid(
                "The device belongs to the process that opened it, and this is a fork of that. Its workers are not here. Open another one in this process.",
            ));
        }
        if used.busy.swap(true, Ordering::Relaxed) {
            return Err(invalid(
                "The device runs a program already. It does one thing at a time. Wait for the run, or open another device.",
            ));
        }
        // SAFETY: as above, and the flag keeps others away.
        Ok(Self(unsafe { &mut *device }))
    }
}

impl Drop for UsedDevice<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Relaxed);
    }
}

fn returned() -> plimsoll::Error {
    invalid(
        "The device was used after the program was built. It is lent to a plug-in for that time only. Register kernels in the program's build.",
    )
}

/// A token that ends runs.
#[derive(Debug, Default)]
pub struct CCancel(CancelToken);

/// A prebuilt graph.
#[derive(Debug)]
pub struct CGraph(plimsoll::Prebuilt<'static>);

/// # Safety
/// As the header says; so for all below.
pub(crate) unsafe fn open(given: *const CDeviceOptions, out: *mut *mut CDevice) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let options = unsafe { options(given, "device options") }?;
    // SAFETY: as above.
    let out = unsafe { given_mut(out, "place for the device") }?;
    // SAFETY: as above.
    let device = unsafe { builder(&options) }?.open()?;
    // SAFETY: as above.
    let is_virtual = unsafe { text(options.engine, "engine") }? == Some("virtual");
    *out = Box::into_raw(Box::new(CDevice::new(DeviceOwner::Own(Box::new(device)), is_virtual)));
    Ok(())
}

unsafe fn builder(options: &CDeviceOptions) -> Result<Builder> {
    // SAFETY: the header asks for strings or null.
    let [named, arch, costs, changes] = [options.engine, options.arch, options.costs, options.arch_set]
        .map(|it| unsafe { text(it, "setting of the device") });
    let seed = (options.seed != 0).then_some(options.seed);
    let mut builder = plimsoll::Device::builder().engine(engine(named?, arch?, list(changes?), seed, costs?)?);
    if options.workers != 0 {
        builder = builder.workers(options.workers as usize);
    }
    builder = builder.lend(options.no_lend == 0);
    let sizes = [options.ring_task_window, options.ring_heap, options.ring_dep_pool, options.tensormap];
    // SAFETY: as above.
    let sizes = sizes.map(|it| unsafe { text(it, "size of the device") });
    let [window, heap, deps, tensormap] = sizes;
    set_sizes(builder, [window?, heap?, deps?, tensormap?])
}

/// What stands between commas.
fn list(text: Option<&str>) -> impl Iterator<Item = &str> {
    text.unwrap_or_default().split(',').map(str::trim).filter(|one| !one.is_empty())
}

pub(crate) unsafe fn close(device: *mut CDevice) {
    // SAFETY: a device or null.
    let Some(used) = (unsafe { device.as_ref() }) else { return };
    if used.is_forked() {
        // Its workers, whose end would be waited for, are those of its parent.
        return;
    }
    if used.busy.load(Ordering::Relaxed) {
        return eprintln!(
            "plimsoll: a device was closed while it runs a program. Its workers and its memory are in use. It stays open; close it when the run has returned."
        );
    }
    // SAFETY: as above.
    let is_own = matches!(unsafe { &*device }.held, DeviceOwner::Own(_));
    // One that was lent is closed by whoever lent it.
    if is_own {
        // SAFETY: it came from a box and is not used again.
        drop(unsafe { Box::from_raw(device) });
    }
}

pub(crate) unsafe fn workers(device: *const CDevice) -> u32 {
    // SAFETY: a device or null.
    unsafe { device.as_ref() }.and_then(|device| device.get().ok()).map_or(0, |device| device.workers() as u32)
}

/// Calls the release function of a context at its end.
struct Context(*mut c_void, ReleaseFn);

// SAFETY: the header says that the context is released from any thread.
unsafe impl Send for Context {}
// SAFETY: nobody reads it but its drop.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the header's promise: the function takes that context, once.
        unsafe { (self.1)(self.0) };
    }
}

pub(crate) unsafe fn kernel(device: *mut CDevice, given: *const CKernelOptions, out: *mut CKernel) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let options = unsafe { options(given, "kernel options") }?;
    // From here on the context is released, also if the kernel is refused.
    let context = options.release.map(|release| Context(options.context, release));
    // SAFETY: as above.
    let (device, out) = unsafe { (UsedDevice::new(device)?, given_mut(out, "place for the kernel")?) };
    // SAFETY: as above.
    let (name, class) = unsafe { (text(options.name, "kernel's name")?, text(options.core_class, "class of cores")?) };
    let name = name.ok_or_else(|| invalid("The kernel has no name. Records and errors name it. Give it one."))?;
    let body = options.body.ok_or_else(|| invalid(format!("Kernel {name} has no body. Give it a function.")))?;
    // SAFETY: as above.
    let params = unsafe { several(options.params, options.param_count, "list of parameters") }?;
    let params = params.iter().map(param).collect::<Result<Vec<_>>>()?;
    let params = (!options.params.is_null()).then_some(&params[..]);
    let keep = context.map(|context| Box::new(context) as Box<dyn std::any::Any + Send + Sync>);
    // SAFETY: the header asks the same of the function as of a body.
    let registered = unsafe {
        let call = crate::call::native_kernel(body, options.context, keep);
        match options.in_blocks {
            0 => device.0.get_mut()?.kernel_untyped(core_class(class)?, name, params, call),
            _ => device.0.get_mut()?.block_kernel_untyped(core_class(class)?, name, params, call),
        }
    }?;
    *out = CKernel { words: registered.to_words() };
    Ok(())
}

fn param(param: &CParam) -> Result<untyped::Param> {
    let element = param.element.spec()?;
    let share = match param.share {
        0 => untyped::Share::All,
        1 => untyped::Share::RowsOfBlock,
        2..=4 => untyped::Share::RowsOfPart(param.share as u8 - 2),
        other => return Err(invalid(format!("A parameter has no share {other}. Use the names of the header."))),
    };
    let param = match param.access {
        0 => untyped::Param::read(element),
        1 => untyped::Param::write(element),
        2 => untyped::Param::read_write(element),
        3 => untyped::Param::read_list(element),
        4 => untyped::Param::value(element.dtype),
        other => {
            return Err(invalid(format!("A parameter has no access {other}. Use the names of the header.")));
        }
    };
    Ok(untyped::Param { share, ..param })
}

pub(crate) unsafe fn kernel_named(device: *const CDevice, name: *const c_char, out: *mut CKernel) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let (device, out) = unsafe { (given(device, "device")?, given_mut(out, "place for the kernel")?) };
    // SAFETY: as above.
    let name = unsafe { text(name, "kernel's name") }?.unwrap_or_default();
    let kernel = device.get()?.kernel_named(name);
    let kernel = kernel.ok_or_else(|| invalid(format!("The device has no kernel {name:?}. Register it first.")))?;
    *out = CKernel { words: kernel.to_words() };
    Ok(())
}

unsafe fn run_options(device: &CDevice, given: *const CRunOptions) -> Result<(plimsoll::RunOptions, u32)> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let options = unsafe { options(given, "run options") }?;
    let [op, stall, orch] =
        [options.op_timeout_ns, options.stall_timeout_ns, options.orch_timeout_ns].map(|time| time != 0);
    check_time_outs(
        device.is_virtual,
        [("op_timeout_ns", op), ("stall_timeout_ns", stall), ("orch_timeout_ns", orch)],
    )?;
    // SAFETY: as above.
    let set = |it| unsafe { text(it, "setting of the run") };
    let recorded = RecordSettings {
        record: set(options.record)?,
        out: set(options.out)?,
        program: set(options.program)?,
        transport: set(options.transport)?,
        region_dir: set(options.region_dir)?,
        on_full: set(options.on_full)?,
        dep_gen: options.dep_gen != 0,
        dump_args: options.dump_args,
        dump_tasks: set(options.dump_tasks)?,
        dump_bytes: options.dump_bytes,
        pmu: set(options.pmu)?,
        language: Language::C,
    };
    let file = set(options.file)?;
    let time = |ns: u64| (ns != 0).then(|| Duration::from_nanos(ns));
    let own = plimsoll::RunOptions {
        // SAFETY: as above.
        cancel: unsafe { options.cancel.as_ref() }.map(|cancel| cancel.0.clone()),
        deadline: time(options.deadline_ns),
        read_timeout: time(options.read_timeout_ns),
        op_timeout: time(options.op_timeout_ns),
        stall_timeout: time(options.stall_timeout_ns),
        orch_timeout: time(options.orch_timeout_ns),
        // A hook has the run watched, which one without a time-out need not be.
        on_hung: match options.on_hung {
            Some(hook) => Some(hung_hook(hook, options.on_hung_context)),
            None => (op || stall || orch).then(|| Arc::new(say_hung) as Arc<HungHook>),
        },
        record: recorded.options()?,
        // Where the program is not told, it is not where this library calls it.
        site: Some(Site::foreign(file.unwrap_or(crate::orchestrator::NOWHERE), options.line)),
        ..plimsoll::RunOptions::default()
    };
    Ok((own, options.rounds.max(1)))
}

/// Says on standard error that a run cannot return, where the program did not ask to be told.
fn say_hung(error: plimsoll::Error, report: &RunReport) {
    eprintln!("plimsoll: {}", worded(&error.to_string(), Language::C));
    if let Some(dir) = &report.dir {
        eprintln!("plimsoll: the records are in {}", dir.display());
    }
    eprintln!(
        "plimsoll: the run cannot return before what hangs does; on_hung of plimsoll_run_options can end the process"
    );
}

/// Tells C of a run that cannot return. The error is C's for the call.
fn hung_hook(hook: HungFn, context: *mut c_void) -> Arc<HungHook> {
    struct HungContext(*mut c_void);
    // SAFETY: the header says that the hook is called from any thread.
    unsafe impl Send for HungContext {}
    // SAFETY: as above.
    unsafe impl Sync for HungContext {}
    let context = HungContext(context);
    Arc::new(move |error, _| {
        let HungContext(context) = &context;
        let error = CError::boxed(error);
        // SAFETY: the header's promise: the function takes that context.
        unsafe { hook(error, *context) };
        // SAFETY: it was made above.
        drop(unsafe { CError::take(error) });
    })
}

/// Ends a fork that would come back into its parent's run: it would wait for workers that it does not have.
#[cold]
fn end_fork() -> ! {
    eprintln!(
        "plimsoll: a fork of the process came back from a program. The run belongs to its parent. It ends here; end such a fork with `_exit`."
    );
    // SAFETY: ends the process at once, without what its parent would do at its own end.
    unsafe { libc::_exit(1) }
}

/// Calls a program of C, and makes its error the run's.
pub(crate) unsafe fn call_program(
    program: ProgramFn,
    context: *mut c_void,
    o: &mut plimsoll::untyped::Orchestrator<'_, '_>,
) -> Result<()> {
    let handle = OrchestratorHandle::new(o);
    let process = std::process::id();
    // SAFETY: the header asks for a program that takes this context; the handle is valid while it runs, and refuses whoever keeps it.
    let error = unsafe { program(handle.get(), context) };
    if process != std::process::id() {
        end_fork();
    }
    drop(handle);
    // SAFETY: null, or an error that the program does not use any more.
    unsafe { CError::take(error) }.map_or(Ok(()), Err)
}

pub(crate) unsafe fn run(
    device: *mut CDevice,
    options: *const CRunOptions,
    program: Option<ProgramFn>,
    context: *mut c_void,
) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let device = unsafe { UsedDevice::new(device) }?;
    let program = program.ok_or_else(|| invalid("The run has no program. Give it a function."))?;
    // SAFETY: as above.
    let (options, rounds) = unsafe { run_options(&*device.0, options) }?;
    device.0.own()?.run_rounds_untyped(&options, rounds, |_, o| {
        // SAFETY: as above.
        unsafe { call_program(program, context, o) }
    })
}

pub(crate) unsafe fn build(
    device: *mut CDevice,
    options: *const CRunOptions,
    program: Option<ProgramFn>,
    context: *mut c_void,
    out: *mut *mut CGraph,
) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let (device, out) = unsafe { (UsedDevice::new(device)?, given_mut(out, "place for the graph")?) };
    let program = program.ok_or_else(|| invalid("The graph has no program. Give it a function."))?;
    // SAFETY: as above.
    let (options, _) = unsafe { run_options(&*device.0, options) }?;
    let most = plimsoll::Device::MOST_PREBUILT;
    // SAFETY: as above.
    let building = |o: &mut plimsoll::untyped::Orchestrator<'_, '_>| unsafe { call_program(program, context, o) };
    let graph = device.0.own()?.prebuild_untyped_with(&options, most, building)?;
    *out = Box::into_raw(Box::new(CGraph(graph)));
    Ok(())
}

pub(crate) unsafe fn launch(device: *mut CDevice, graph: *mut CGraph, options: *const CRunOptions) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let (device, graph) = unsafe { (UsedDevice::new(device)?, given_mut(graph, "graph")?) };
    // SAFETY: as above.
    let (options, rounds) = unsafe { run_options(&*device.0, options) }?;
    device.0.own()?.launch(&mut graph.0, rounds, &options)
}

pub(crate) unsafe fn graph_free(graph: *mut CGraph) {
    if !graph.is_null() {
        // SAFETY: it came from a box and is not used again.
        drop(unsafe { Box::from_raw(graph) });
    }
}

pub(crate) unsafe fn report(device: *const CDevice, out: *mut CReport) -> Result<()> {
    // SAFETY: this and the following hold by what the header asks of the caller.
    let (device, out) = unsafe { (UsedDevice::new(device.cast_mut())?, given_mut(out, "place for the report")?) };
    let device = device.0.get()?;
    let report = device.report();
    *out = CReport {
        tasks: report.tasks,
        elapsed_ns: report.elapsed_ns,
        records: report.ledger.iter().flat_map(|ledger| &ledger.pools).map(|pool| pool.total).sum(),
        lossless: report.ledger.as_ref().map_or(0, |ledger| u32::from(ledger.lossless)),
        workers: device.workers() as u32,
    };
    Ok(())
}

pub(crate) unsafe fn run_dir(device: *mut CDevice) -> *const c_char {
    // SAFETY: a device or null.
    let Ok(used) = (unsafe { UsedDevice::new(device) }) else { return std::ptr::null() };
    let device = &mut *used.0;
    let dir = device.get().ok().and_then(|device| device.report().dir.clone());
    let Some(dir) = dir else { return std::ptr::null() };
    device.dir = c_text(&dir.display().to_string());
    device.dir.as_ptr()
}

pub(crate) fn cancel_new() -> *mut CCancel {
    Box::into_raw(Box::default())
}

pub(crate) unsafe fn cancel(cancel: *const CCancel) {
    // SAFETY: a token or null.
    if let Some(cancel) = unsafe { cancel.as_ref() } {
        cancel.0.cancel();
    }
}

pub(crate) unsafe fn interrupt(cancel: *const CCancel) {
    // SAFETY: a token or null.
    if let Some(cancel) = unsafe { cancel.as_ref() } {
        cancel.0.interrupt();
    }
}

pub(crate) unsafe fn cancel_free(cancel: *mut CCancel) {
    if !cancel.is_null() {
        // SAFETY: it came from a box and is not used again.
        drop(unsafe { Box::from_raw(cancel) });
    }
}
