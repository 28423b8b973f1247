//! A run from Python: who calls what, with the GIL or without.

use crate::context::{DeviceContext, given_up};
use crate::error::{invalid, raise, raise_run};
use crate::fork::{self, ProcessMark};
use crate::gil::{self, AssertSend};
use crate::kernel;
use crate::orchestrator::{OrchestratorAccess, PyOrchestrator, locked};
use crate::relay::{BareOrchestrator, RelayCaller, relay};
use crate::signals::HeldSignals;
use plimsoll::record::{Flags, RecordOptions, RunPlace};
use plimsoll::run::{ErrorCode, RunReport, Site};
use plimsoll::untyped;
use plimsoll::{CancelToken, Device, Prebuilt, RunOptions};
use plimsoll_capi::settings::{self, RecordSettings};
use plimsoll_capi::wording::{Language, worded};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Times that end a run, in seconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct RunBudgets {
    pub(crate) deadline: Option<f64>,
    pub(crate) read_timeout: Option<f64>,
    pub(crate) op_timeout: Option<f64>,
    pub(crate) stall_timeout: Option<f64>,
    pub(crate) orch_timeout: Option<f64>,
}

impl RunBudgets {
    /// Refuses what is no time, or what no run on such a device can keep.
    pub(crate) fn check(&self, py: Python<'_>, is_virtual: bool) -> PyResult<()> {
        let Self { deadline, read_timeout, op_timeout, stall_timeout, orch_timeout } = *self;
        for given in [deadline, read_timeout, op_timeout, stall_timeout, orch_timeout] {
            seconds(py, given)?;
        }
        let given = [("op_timeout", op_timeout), ("stall_timeout", stall_timeout), ("orch_timeout", orch_timeout)];
        let given = given.map(|(name, time)| (name, time.is_some()));
        settings::check_time_outs(is_virtual, given).map_err(|error| raise(py, &error))
    }

    /// Whether a watchdog looks after the run, for which the caller does not execute tasks.
    pub(crate) fn watches(&self) -> bool {
        self.op_timeout.is_some() || self.stall_timeout.is_some()
    }
}

/// What a run is told, by its own call or by its device's settings.
#[derive(Clone, Default)]
pub(crate) struct RunSettings {
    pub(crate) record: Option<String>,
    pub(crate) out: Option<PathBuf>,
    /// Every run gets a directory of its own in this one.
    pub(crate) outputs: Option<PathBuf>,
    pub(crate) rounds: Option<u32>,
    pub(crate) program: Option<String>,
    pub(crate) budgets: RunBudgets,
}

impl RunSettings {
    /// These settings, and those of `other` where these say nothing.
    pub(crate) fn over(self, other: &Self) -> Self {
        let (own, others) = (self.budgets, other.budgets);
        Self {
            record: self.record.or_else(|| other.record.clone()),
            out: self.out.or_else(|| other.out.clone()),
            outputs: self.outputs.or_else(|| other.outputs.clone()),
            rounds: self.rounds.or(other.rounds),
            program: self.program.or_else(|| other.program.clone()),
            budgets: RunBudgets {
                deadline: own.deadline.or(others.deadline),
                read_timeout: own.read_timeout.or(others.read_timeout),
                op_timeout: own.op_timeout.or(others.op_timeout),
                stall_timeout: own.stall_timeout.or(others.stall_timeout),
                orch_timeout: own.orch_timeout.or(others.orch_timeout),
            },
        }
    }

    /// With a name, if there is none.
    pub(crate) fn named(mut self, name: impl FnOnce() -> Option<String>) -> Self {
        self.program = self.program.or_else(name);
        self
    }

    fn options(&self, py: Python<'_>, shared: &Arc<DeviceContext>, site: Site) -> PyResult<RunOptions> {
        self.budgets.check(py, shared.is_virtual)?;
        let out = self.out.as_ref().map(|out| out.display().to_string());
        let mut record = recording(self.record.as_deref(), out.as_deref(), self.program.as_deref())
            .map_err(|error| raise(py, &error))?;
        if let (Some(options), Some(outputs), None) = (&mut record, &self.outputs, &self.out) {
            options.place = RunPlace::Under(outputs.clone());
        }
        let options = RunOptions {
            deadline: seconds(py, self.budgets.deadline)?,
            read_timeout: seconds(py, self.budgets.read_timeout)?,
            op_timeout: seconds(py, self.budgets.op_timeout)?,
            stall_timeout: seconds(py, self.budgets.stall_timeout)?,
            orch_timeout: seconds(py, self.budgets.orch_timeout)?,
            record,
            on_hung: Some(Arc::new(hung)),
            ..RunOptions::default()
        };
        hooked(py, shared, site, options)
    }
}

fn seconds(py: Python<'_>, given: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(given) = given else { return Ok(None) };
    let time = Duration::try_from_secs_f64(given).ok().filter(|time| !time.is_zero());
    time.map(Some).ok_or_else(|| {
        invalid(py, format!("{given} is no time. It is a number of seconds above zero. Give one, or leave it out."))
    })
}

/// How often a program runs.
pub(crate) fn rounds(py: Python<'_>, given: Option<i64>) -> PyResult<Option<u32>> {
    let Some(given) = given else { return Ok(None) };
    let rounds = u32::try_from(given).ok().filter(|rounds| *rounds > 0);
    rounds.map(Some).ok_or_else(|| {
        invalid(
            py,
            format!(
                "A program cannot run {given} times. Rounds are counted from 1. Give at least one, or leave it out."
            ),
        )
    })
}

/// A run was given up and cannot return: Python code or a kernel does not, on the calling thread, or the GIL is held for ever.
fn hung(error: plimsoll::Error, report: &RunReport) {
    eprintln!("plimsoll: {}", worded(&error.to_string(), Language::Python));
    let Some(dir) = &report.dir else { return };
    if let Err(error) = plimsoll::record::export_run(dir, None) {
        let again = format!("plimsoll export {}", quoted(&dir.display().to_string()));
        eprintln!("plimsoll: The files for viewers could not all be written. {error}. `{again}` tries again.");
    }
    eprintln!(
        "plimsoll: the records are in {}; the run itself cannot return before its Python code does",
        dir.display()
    );
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Options with what every run from Python has: signals that are looked for, and the GIL that is let go of.
pub(crate) fn hooked(
    py: Python<'_>,
    shared: &Arc<DeviceContext>,
    site: Site,
    options: RunOptions,
) -> PyResult<RunOptions> {
    let token = CancelToken::new();
    *locked(&shared.token) = token.clone();
    *locked(&shared.interrupt) = None;
    *locked(&shared.failure) = None;
    shared.begin_signals(is_main_thread(py)?, is_interrupt_default(py)?);
    let pulsed = Arc::clone(shared);
    let pulse = move || {
        gil::let_go();
        pulsed.look_for_signals();
    };
    let (tell, hung, run) = (options.on_hung.clone(), Arc::clone(shared), shared.begin_run());
    let on_hung = move |error: plimsoll::Error, report: &RunReport| {
        if let Some(tell) = &tell {
            tell(error, report);
        }
        // A thread of its own: it waits for the GIL, which may be held for ever.
        let hung = Arc::clone(&hung);
        std::thread::spawn(move || hung.end_hung_code(run));
    };
    let pulse = Some(Arc::new(pulse) as _);
    Ok(RunOptions { cancel: Some(token), site: Some(site), pulse, on_hung: Some(Arc::new(on_hung)), ..options })
}

/// What is recorded: a level or `profile`, and more after plus signs, as in `2+dep_gen+dump_args=2`.
fn recording(
    record: Option<&str>,
    out: Option<&str>,
    program: Option<&str>,
) -> plimsoll::Result<Option<RecordOptions>> {
    let mut parts = record.into_iter().flat_map(|record| record.split('+'));
    let language = Language::Python;
    let mut asked = RecordSettings { record: parts.next(), out, program, language, ..RecordSettings::default() };
    let mut flags = Flags::NONE;
    for part in parts {
        let unknown = || {
            plimsoll::Error::invalid(format!(
                "{part:?} cannot be recorded. Besides a level there are dep_gen, scope_stats, pmu, pmu=GROUP, dump_args=1, 2 or 3, dump_tasks=TASKS and dump_bytes=N. Choose among them."
            ))
        };
        match part.split_once('=').map_or((part, None), |(what, value)| (what, Some(value))) {
            ("dep_gen", None) => asked.dep_gen = true,
            ("scope_stats", None) => flags = Flags::SCOPE_STATS,
            ("pmu", group) => asked.pmu = group.or(Some("cycles")),
            ("dump_args", None) => asked.dump_args = 2,
            ("dump_args", Some(level @ ("1" | "2" | "3"))) => asked.dump_args = level.parse().map_err(|_| unknown())?,
            ("dump_tasks", Some(tasks)) => asked.dump_tasks = Some(tasks),
            ("dump_bytes", Some(bytes)) => asked.dump_bytes = bytes.parse().map_err(|_| unknown())?,
            _ => return Err(unknown()),
        }
    }
    let options = asked.options()?;
    Ok(options.map(|options| RecordOptions { flags: options.flags.with(flags), ..options }))
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    Ok(threading.call_method0("current_thread")?.is(&threading.call_method0("main_thread")?))
}

/// Whether Ctrl-C raises KeyboardInterrupt, and calls no function of the program's own.
fn is_interrupt_default(py: Python<'_>) -> PyResult<bool> {
    let signal = py.import("signal")?;
    let handler = signal.call_method1("getsignal", (signal.getattr("SIGINT")?,))?;
    Ok(handler.is(signal.getattr("default_int_handler")?))
}

/// What came of the orchestration.
#[derive(Default)]
struct Orchestrated {
    given: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

/// Runs a program.
pub(crate) fn run(
    py: Python<'_>,
    device: &mut Device,
    shared: &Arc<DeviceContext>,
    settings: &RunSettings,
    site: Site,
    program: &Bound<'_, PyAny>,
) -> PyResult<Py<PyAny>> {
    let options = settings.options(py, shared, site)?;
    run_with(py, device, shared, &options, settings.rounds.unwrap_or(1), program)
}

/// Runs a program with these options.
pub(crate) fn run_with(
    py: Python<'_>,
    device: &mut Device,
    shared: &Arc<DeviceContext>,
    options: &RunOptions,
    rounds: u32,
    program: &Bound<'_, PyAny>,
) -> PyResult<Py<PyAny>> {
    let mut orchestrated = Orchestrated::default();
    let program = program.clone().unbind();
    let outcome = match shared.is_virtual {
        false => gil::released(py, || {
            // What the run starts for itself, it starts before the program.
            let held = HeldSignals::hold();
            device.run_rounds_untyped(options, rounds, |_, o| {
                held.release();
                let call = gil::attached(|py| direct(py, o, shared, &program, &mut orchestrated));
                call.unwrap_or_else(|| Err(leaving()))
            })
        }),
        true => gil::released(py, || relayed(device, shared, options, rounds, &program, &mut orchestrated)),
    };
    finish(py, shared, outcome, orchestrated.raised)?;
    Ok(orchestrated.given.unwrap_or_else(|| py.None()))
}

fn leaving() -> plimsoll::Error {
    plimsoll::Error::new(ErrorCode::Cancelled, "The interpreter is on its way out. No program runs any more.")
}

/// Says how a run ended, and raises what went wrong.
fn finish<R>(
    py: Python<'_>,
    shared: &DeviceContext,
    outcome: plimsoll::Result<R>,
    raised: Option<PyErr>,
) -> PyResult<R> {
    shared.end_run(py);
    let interrupt = locked(&shared.interrupt).take();
    let error = match outcome {
        // Python gives a signal once: whoever took it for a run that was over by then raises it all the same.
        Ok(done) => return interrupt.map_or(Ok(done), Err),
        Err(error) => error,
    };
    *locked(&shared.failure) = Some(error.clone());
    let failed = raise_run(py, &error);
    if let Some(interrupt) = interrupt {
        let is_why = error.code() == ErrorCode::Interrupted;
        interrupt.set_cause(py, if is_why { failed.cause(py) } else { Some(failed) });
        return Err(interrupt);
    }
    // What it was made to raise says less than why.
    let gave_up = |raised: &PyErr| given_up(py).is_ok_and(|class| raised.matches(py, class).unwrap_or(false));
    Err(raised.filter(|raised| !gave_up(raised)).unwrap_or(failed))
}

/// Calls the orchestration on this thread.
fn direct(
    py: Python<'_>,
    o: &mut untyped::Orchestrator<'_, 'static>,
    shared: &Arc<DeviceContext>,
    program: &Py<PyAny>,
    orchestrated: &mut Orchestrated,
) -> plimsoll::Result<()> {
    let o: *mut BareOrchestrator = std::ptr::from_mut(o).cast();
    orchestrate(py, OrchestratorAccess::Direct(o), shared, program, orchestrated, |_| ());
    // SAFETY: it is the one that was given, and the handle in Python has ended.
    conclude(py, orchestrated, unsafe { &mut *o })
}

/// Calls the orchestration, and notes what came of it before the loop, if there is one, goes on.
fn orchestrate(
    py: Python<'_>,
    way: OrchestratorAccess,
    shared: &Arc<DeviceContext>,
    program: &Py<PyAny>,
    orchestrated: &mut Orchestrated,
    noted: impl FnOnce(&Orchestrated),
) {
    let process = ProcessMark::of_this();
    let handle = Bound::new(py, PyOrchestrator::new(way, Arc::clone(shared)));
    let running = shared.enter_python(py, true);
    let called = handle.as_ref().map_err(|error| error.clone_ref(py)).and_then(|handle| program.call1(py, (handle,)));
    let called = called.and_then(|given| kernel::refuse_begun(given.bind(py), "program").map(|()| given));
    drop(running);
    if process.is_parent() {
        fork::end_process(py, called.as_ref().err());
    }
    match called {
        Ok(given) => orchestrated.given = Some(given),
        Err(error) => {
            shared.interrupt_if(py, &error);
            orchestrated.raised.get_or_insert(error);
        }
    }
    noted(orchestrated);
    if let Ok(handle) = handle {
        handle.get().end();
    }
}

/// An orchestration that raised something fails the run.
fn conclude(py: Python<'_>, orchestrated: &Orchestrated, o: &mut BareOrchestrator) -> plimsoll::Result<()> {
    match &orchestrated.raised {
        None => Ok(()),
        Some(error) if error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(interrupted()),
        Some(error) => Err(o.fatal(format!("the orchestration raised {error}"))),
    }
}

fn interrupted() -> plimsoll::Error {
    plimsoll::Error::new(
        ErrorCode::Interrupted,
        "The orchestration was interrupted. A signal asked for the end of the run. What had been submitted has run.",
    )
}

/// Runs a program in virtual time: the loop on a thread of its own, Python on this one.
fn relayed(
    device: &mut Device,
    shared: &Arc<DeviceContext>,
    options: &RunOptions,
    rounds: u32,
    program: &Py<PyAny>,
    orchestrated: &mut Orchestrated,
) -> plimsoll::Result<()> {
    let (sender, caller) = relay();
    shared.set_relay(Some(sender.clone()));
    let device = AssertSend::new(device);
    let failed = std::sync::Mutex::new(None::<String>);
    let outcome = std::thread::scope(|scope| {
        let failed = &failed;
        let held = HeldSignals::hold();
        let looping = scope.spawn(move || {
            let device = device.get();
            let outcome = device.run_rounds_untyped(options, rounds, |_, o| {
                let o: *mut BareOrchestrator = std::ptr::from_mut(o).cast();
                // SAFETY: it is the one that was given, used inside this call.
                let o = unsafe { &mut *o };
                sender.serve(o);
                match locked(failed).take() {
                    Some(_) if locked(&shared.interrupt).is_some() => Err(interrupted()),
                    Some(text) => Err(o.fatal(text)),
                    None => Ok(()),
                }
            });
            sender.end();
            AssertSend::new(outcome)
        });
        drop(held);
        attend(&caller, shared, program, orchestrated, failed);
        looping.join()
    });
    shared.set_relay(None);
    match outcome {
        Ok(outcome) => outcome.get(),
        Err(panic) => Err(plimsoll::Error::orchestration_panicked(&*panic)),
    }
}

/// Calls the orchestration of each round, and the kernels, until the run has ended.
fn attend(
    caller: &RelayCaller,
    shared: &Arc<DeviceContext>,
    program: &Py<PyAny>,
    orchestrated: &mut Orchestrated,
    failed: &std::sync::Mutex<Option<String>>,
) {
    while let Some(operations) = caller.next_program(shared) {
        gil::attached(|py| {
            orchestrate(
                py,
                OrchestratorAccess::Relayed(operations, caller),
                shared,
                program,
                orchestrated,
                |orchestrated| {
                    let text = orchestrated.raised.as_ref().map(|error| format!("the orchestration raised {error}"));
                    *locked(failed) = text;
                },
            );
        });
    }
}

/// Records what a program submits. Nothing is executed, so nothing waits.
pub(crate) fn build(
    py: Python<'_>,
    device: &mut Device,
    shared: &Arc<DeviceContext>,
    settings: &RunSettings,
    site: Site,
    program: &Bound<'_, PyAny>,
) -> PyResult<Prebuilt<'static>> {
    let options = settings.options(py, shared, site)?;
    build_with(py, device, shared, &options, Device::MOST_PREBUILT, program)
}

/// Records what a program submits with these options, which are those of a run.
pub(crate) fn build_with(
    py: Python<'_>,
    device: &mut Device,
    shared: &Arc<DeviceContext>,
    options: &RunOptions,
    most: usize,
    program: &Bound<'_, PyAny>,
) -> PyResult<Prebuilt<'static>> {
    let mut orchestrated = Orchestrated::default();
    let program = program.clone().unbind();
    let held = HeldSignals::hold();
    let built = device.prebuild_untyped_with(options, most, |o| {
        held.release();
        direct(py, o, shared, &program, &mut orchestrated)
    });
    finish(py, shared, built, orchestrated.raised)
}

/// Executes a graph.
pub(crate) fn launch(
    py: Python<'_>,
    device: &mut Device,
    shared: &Arc<DeviceContext>,
    settings: &RunSettings,
    site: Site,
    graph: &mut Prebuilt<'static>,
) -> PyResult<()> {
    let options = settings.options(py, shared, site)?;
    launch_with(py, device, shared, &options, settings.rounds.unwrap_or(1), graph)
}

/// Executes a graph with these options.
pub(crate) fn launch_with(
    py: Python<'_>,
    device: &mut Device,
    shared: &Arc<DeviceContext>,
    options: &RunOptions,
    rounds: u32,
    graph: &mut Prebuilt<'static>,
) -> PyResult<()> {
    let outcome = gil::released(py, || {
        if !shared.is_virtual {
            return device.launch(graph, rounds, options);
        }
        let (sender, caller) = relay();
        shared.set_relay(Some(sender.clone()));
        let given = AssertSend::new((device, graph));
        let outcome = std::thread::scope(|scope| {
            let held = HeldSignals::hold();
            let looping = scope.spawn(move || {
                let (device, graph) = given.get();
                let outcome = device.launch(graph, rounds, options);
                sender.end();
                AssertSend::new(outcome)
            });
            drop(held);
            while caller.next_program(shared).is_some() {}
            looping.join()
        });
        shared.set_relay(None);
        match outcome {
            Ok(outcome) => outcome.get(),
            Err(panic) => Err(plimsoll::Error::orchestration_panicked(&*panic)),
        }
    });
    finish(py, shared, outcome, None)
}
