//! The device's end: takes over the process, builds programs and runs them until the host is gone.

use super::link::Voice;
use super::message::{Answer, DeviceFacts, HostOrder, Received, Report, RunOrder, capacities, receive};
use super::program::{DeviceProgram, ProgramCall, Registered};
use crate::cancel::CancelToken;
use crate::device::Device;
use crate::engine::{EmulatedOptions, EngineKind};
use crate::error::{Error, ErrorParts, Result};
use crate::options::{HungHook, StillNotice};
use plimsoll_abi::{CounterGroup, ErrorCode};
use plimsoll_collect::Session;
use plimsoll_platform::ArchSpec;
use plimsoll_sched::KernelEntry;
use plimsoll_sched::site::Site;
use plimsoll_shm::{Board, BoardLook, Region};
use rustix::process::{Signal, kill_process};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Says that a process is a device's: the number of the process that started it.
pub(super) const DEVICE_VARIABLE: &str = "PLIMSOLL_DEVICE_OF";

/// Whether `main` has called [`device_main`]: a fact of the executable.
static PREPARED: AtomicBool = AtomicBool::new(false);

pub(super) fn is_prepared() -> bool {
    PREPARED.load(Ordering::Relaxed)
}

/// Makes this executable fit for devices in processes of their own. To be called as the first thing in `main`, before there
/// are other threads.
///
/// In the process that the user started it returns at once. In the process of a device it does not return: it serves the
/// programs that are registered here until its host is done or gone.
pub fn device_main(programs: impl IntoIterator<Item = Registered>) {
    PREPARED.store(true, Ordering::Relaxed);
    let Some(host) = std::env::var(DEVICE_VARIABLE).ok().and_then(|host| host.parse::<u32>().ok()) else { return };
    if std::os::unix::process::parent_id() != host {
        if has_socket() {
            // The host was gone before this process had begun. `main` is not for a device to run.
            std::process::exit(1);
        }
        // The variable was handed down to some other process.
        return;
    }
    // SAFETY: the caller has no other threads yet, so nobody reads the environment meanwhile. What kernels start is no device.
    unsafe { std::env::remove_var(DEVICE_VARIABLE) };
    let programs: Vec<Registered> = programs.into_iter().collect();
    match serve(&programs) {
        Ok(()) => std::process::exit(0),
        Err(error) => {
            eprintln!("plimsoll: The device's process could not talk to its host: {error}.");
            std::process::exit(1)
        }
    }
}

/// Ends this process at once, whatever its kernels do.
fn end_now() -> ! {
    // What it returns does not matter: there is nobody to tell.
    let _ = kill_process(rustix::process::getpid(), Signal::KILL);
    std::process::abort()
}

/// Whether standard input is a socket, as it is in every process that a host starts.
fn has_socket() -> bool {
    rustix::net::sockopt::socket_type(rustix::stdio::stdin()).is_ok()
}

/// The socket that came as standard input, which is empty from now on.
fn take_socket() -> io::Result<UnixStream> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let nothing = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(UnixStream::from(socket))
}

/// Signals that a terminal or a supervisor sends to the whole group are the host's to handle: it ends this process.
fn ignore_signals_of_the_group() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: no handler is installed, and this process is the library's own.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// The token of the run under way. The reading thread uses it when the host says so.
type Stoppable = Arc<Mutex<Option<CancelToken>>>;

/// Serves the host until it says that it is done.
fn serve(programs: &[Registered]) -> io::Result<()> {
    ignore_signals_of_the_group();
    let socket = take_socket()?;
    // The name that tools show for the process: the name of its file would say nothing.
    let _ = rustix::thread::set_name(c"plimsoll-device");
    // L2.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let running = Stoppable::default();
    let (pass_on, orders) = channel();
    let (listening, stoppable) = (socket.try_clone()?, Arc::clone(&running));
    let thread = std::thread::Builder::new().name("plimsoll-host".into());
    thread.spawn(move || listen(&listening, &stoppable, &pass_on))?;
    Server { programs, voice: Voice::new(socket), running, device: None, built: None, recorded: None }.serve(&orders)
}

/// Reads what the host says (L1).
fn listen(socket: &UnixStream, running: &Stoppable, pass_on: &Sender<Received<HostOrder>>) {
    loop {
        match receive::<HostOrder>(socket) {
            Ok(Received { message: HostOrder::Stop { code }, .. }) => {
                let token = running.lock().unwrap_or_else(PoisonError::into_inner).clone();
                match token {
                    Some(token) if code == ErrorCode::Interrupted.number() => token.interrupt(),
                    Some(token) => token.cancel(),
                    None => {}
                }
            }
            Ok(received) => {
                let done = matches!(received.message, HostOrder::Close);
                if pass_on.send(received).is_err() || done {
                    return;
                }
            }
            Err(_) => end_now(),
        }
    }
}

/// The device of this process, and the program that was built on it last.
struct Server<'p> {
    programs: &'p [Registered],
    voice: Voice,
    running: Stoppable,
    device: Option<Device>,
    built: Option<Built>,
    /// What the last run recorded into. The host reads it in this process's memory after the run has ended, too, and
    /// sends its next order when it has read all.
    recorded: Option<Session>,
}

/// A program as it was built. Every program has the device's kernels to itself.
struct Built {
    program: String,
    settings: Vec<String>,
    instance: Box<dyn DeviceProgram>,
    kernels: Arc<Vec<KernelEntry>>,
}

impl Server<'_> {
    fn serve(mut self, orders: &Receiver<Received<HostOrder>>) -> io::Result<()> {
        for Received { message, bytes, descriptor } in orders {
            self.recorded = None;
            let answer = match message {
                HostOrder::Close => return Ok(()),
                HostOrder::Stop { .. } => continue,
                HostOrder::Open { arch, numbers, workers, orch_to_sched, rings, tensormap } => self
                    .open(&arch, &numbers, workers, orch_to_sched, capacities(&rings, tensormap))
                    .map(|answer| (answer, Vec::new())),
                HostOrder::Build { program, settings } => {
                    self.build(program, settings).map(|answer| (answer, Vec::new()))
                }
                HostOrder::Run(order) => self.run(&order, &bytes, descriptor),
            };
            let (answer, bytes) = answer.unwrap_or_else(|error| (Answer::Failed(ErrorParts::new(&error)), Vec::new()));
            self.voice.say(&answer, &bytes, None)?;
        }
        Ok(())
    }

    fn open(
        &mut self,
        arch: &str,
        numbers: &[(String, u64)],
        workers: Option<usize>,
        orch_to_sched: bool,
        capacities: crate::options::Capacities,
    ) -> Result<Answer> {
        let unknown =
            || Error::new(ErrorCode::Defect, "The host asked for an arch that this executable does not have.");
        let mut arch = ArchSpec::named(arch).ok_or_else(unknown)?.clone();
        for (key, value) in numbers {
            ArchSpec::number(key).and_then(|number| number.change(&mut arch, *value)).ok_or_else(unknown)?;
        }
        let mut builder = Device::builder().capacities(capacities);
        if let Some(workers) = workers {
            builder = builder.workers(workers);
        }
        let options = EmulatedOptions { isolate: false, orch_to_sched, ..EmulatedOptions::new(&arch) };
        let device = builder.open_on(|order| EngineKind::from(options).open(order))?;
        let facts = DeviceFacts::new(&device.engine_facts());
        self.device = Some(device);
        Ok(Answer::Opened(facts))
    }

    fn build(&mut self, program: String, settings: Vec<String>) -> Result<Answer> {
        let Some(device) = &mut self.device else { return Err(out_of_turn()) };
        let same = |built: &&Built| built.program == program && built.settings == settings;
        if self.built.as_ref().filter(same).is_none() {
            let Some(registered) = self.programs.iter().find(|known| known.name() == program) else {
                let names: Vec<&str> = self.programs.iter().map(Registered::name).collect();
                return Err(Error::invalid(format!(
                    "There is no program {program:?} for a device in a process of its own. plimsoll::device_main was given {}. Register it there by this name.",
                    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
                )));
            };
            self.built = None;
            device.swap_kernels(Arc::default());
            let built = catch_unwind(AssertUnwindSafe(|| registered.build(device, &settings)));
            let instance = built.unwrap_or_else(|panic| Err(Error::orchestration_panicked(panic.as_ref())))?;
            self.built = Some(Built { program, settings, instance, kernels: device.swap_kernels(Arc::default()) });
        }
        let Some(built) = &self.built else { return Err(out_of_turn()) };
        Ok(Answer::Built {
            kernels: built.kernels.iter().map(|kernel| (kernel.name.clone(), kernel.class as u8)).collect(),
            buffers: built.instance.buffers().iter().map(|buffer| buffer.len_bytes()).collect(),
        })
    }

    fn run(&mut self, order: &RunOrder, bytes: &[u8], region: Option<OwnedFd>) -> Result<(Answer, Vec<u8>)> {
        let (Some(device), Some(built)) = (&mut self.device, &self.built) else { return Err(out_of_turn()) };
        let mut rest = bytes;
        for buffer in built.instance.buffers() {
            let (content, behind) = rest.split_at_checked(buffer.len_bytes()).ok_or_else(out_of_turn)?;
            buffer.fill_from(content)?;
            rest = behind;
        }
        if let (Some(path), Some(region)) = (&order.region, region) {
            let region = Region::attach(File::from(region), path).map_err(|error| {
                Error::new(ErrorCode::RecordingFailed, format!("The run could not be recorded: {error}."))
            })?;
            let attached = Answer::Attached { base: region.address() };
            // If the host cannot be told, it is gone, and so is this process in a moment.
            drop(self.voice.say(&attached, &[], None));
            let counters = CounterGroup::from_number(order.counters).ok_or_else(out_of_turn)?;
            let session = Session::attach(region, order.dump.plan(), counters);
            self.recorded = Some(session.handle());
            device.attach(session);
        }
        let mut options = built.instance.options();
        options.deadline = order.deadline_ns.map(Duration::from_nanos);
        options.read_timeout = order.read_timeout_ns.map(Duration::from_nanos);
        [options.op_timeout, options.stall_timeout, options.orch_timeout] =
            order.budgets_ns.map(|ns| ns.map(Duration::from_nanos));
        options.stall_spares_kernels = order.stall_spares_kernels;
        options.notice = order.notice_ns.map(|ns| notice(self.voice.clone(), Duration::from_nanos(ns)));
        let board = self.recorded.as_ref().map(Session::board);
        options.on_hung = Some(last_words(self.voice.clone(), board.clone()));
        options.site = order.site.as_ref().map(|(file, line)| Site::foreign(file, *line)).or(options.site);
        let token = options.cancel.get_or_insert_with(CancelToken::new).clone();
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
        let call =
            ProgramCall { rounds: order.rounds, prebuilt: order.prebuilt, ..ProgramCall::new(&built.program, &[]) };
        device.swap_kernels(Arc::clone(&built.kernels));
        let ran = catch_unwind(AssertUnwindSafe(|| device.run_program(&call, built.instance.as_ref(), &options)));
        let ran = ran.unwrap_or_else(|panic| Err(Error::orchestration_panicked(panic.as_ref())));
        device.swap_kernels(Arc::default());
        device.detach();
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let lost = !device.lost().is_empty();
        let mut out = Vec::new();
        if !lost {
            built.instance.buffers().iter().try_for_each(|buffer| buffer.append_to(&mut out))?;
        }
        let report = Report::new(device.report());
        let error = ran.err().as_ref().map(ErrorParts::new);
        Ok((Answer::Ended { report, error, lost, last_look: last_look(board.as_deref()) }, out))
    }
}

/// Tells the host that nothing begins or ends.
fn notice(voice: Voice, after: Duration) -> StillNotice {
    let tell = move |state: &str| drop(voice.say(&Answer::Still { state: state.to_owned() }, &[], None));
    StillNotice { after, tell: Arc::new(tell) }
}

/// Tells the host of a run that cannot return: its own thread hangs. The host ends this process then.
fn last_words(voice: Voice, board: Option<Arc<Board>>) -> Arc<HungHook> {
    Arc::new(move |error, report| {
        let (report, error) = (Report::new(report), Some(ErrorParts::new(&error)));
        let last_look = last_look(board.as_deref());
        // If it cannot be said, the host is gone, and so is this process in a moment.
        drop(voice.say(&Answer::Ended { report, error, lost: true, last_look }, &[], None));
    })
}

/// What the board of a run that records said when the run was given up.
fn last_look(board: Option<&Board>) -> Option<Vec<u8>> {
    board?.kept().map(BoardLook::to_bytes)
}

fn out_of_turn() -> Error {
    Error::new(
        ErrorCode::Defect,
        "The device's process was told things in a wrong order. That is a defect of the runtime, not of the program; please report it.",
    )
}
