//! The host's end: starts the device's process, talks to it, and learns how it ended.

use super::child::{DEVICE_VARIABLE, is_prepared};
use super::message::{self, Answer, HostOrder, Received, receive};
use crate::engine::{EmulatedOptions, EngineFacts, EngineOrder};
use crate::error::{Error, Result};
use plimsoll_abi::ErrorCode;
use plimsoll_platform::ArchSpec;
use serde::Serialize;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a child whose socket is closed may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// What the thread of a link tells.
type Answers = Receiver<Received<Answer>>;

/// A device's process, as its host has it. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Link {
    voice: Voice,
    /// The same socket, for whoever closes it while somebody else is stuck in sending.
    socket: UnixStream,
    answers: Mutex<Answers>,
    /// How the process ended, once it has.
    ended: Arc<OnceLock<String>>,
    /// Why the host ended the process by force, if it did, and what its run fails with.
    given_up: Arc<OnceLock<(ErrorCode, String)>>,
    pid: u32,
    thread: Option<JoinHandle<()>>,
}

/// The sending end of the socket to the other process. It has several users: whoever uses a run's token sends, too.
#[derive(Clone, Debug)]
pub(super) struct Voice(Arc<Mutex<UnixStream>>);

impl Voice {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self(Arc::new(Mutex::new(socket)))
    }

    pub(super) fn say(
        &self,
        message: &impl Serialize,
        bytes: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        // A panic in between leaves half a message, after which the other end gives up.
        message::send(&self.0.lock().unwrap_or_else(PoisonError::into_inner), message, bytes, descriptor)
    }
}

impl Link {
    /// Starts the process.
    pub(crate) fn start() -> Result<Self> {
        if !is_prepared() {
            return Err(Error::invalid(
                "A device in a process of its own needs the program's main to call plimsoll::device_main first. The process is this executable once more, and main must hand it over. Call it as the first thing in main, with the programs that it may run.",
            ));
        }
        let (ours, theirs) = UnixStream::pair().map_err(refused)?;
        let listening = ours.try_clone().map_err(refused)?;
        let socket = ours.try_clone().map_err(refused)?;
        let (tell, answers) = channel();
        let (started, pid) = channel();
        let ended = Arc::new(OnceLock::new());
        let given_up = Arc::new(OnceLock::new());
        let (end, forced) = (Arc::clone(&ended), Arc::clone(&given_up));
        // L2: this thread starts the child, and lives as long as the child does.
        let thread = std::thread::Builder::new().name("plimsoll-device".into()).spawn(move || {
            let child = spawn(theirs.into());
            let told = started.send(child.as_ref().map(Child::id).map_err(|error| error.kind()));
            if let (Ok(mut child), Ok(())) = (child, told) {
                listen(&listening, &tell);
                let grace = if forced.get().is_some() { Duration::ZERO } else { GRACE };
                let text = reap(&mut child, grace).map_or_else(|error| error.to_string(), how_it_ended);
                // L3: set before the last sender is dropped, so that whoever waits can say how the process ended.
                drop(end.set(text));
                drop(tell);
            }
        });
        let thread = thread.map_err(refused)?;
        let pid = pid.recv().map_err(|_| io::ErrorKind::Other).and_then(|pid| pid);
        let pid = pid.map_err(|kind| refused(kind.into()))?;
        let voice = Voice::new(ours);
        Ok(Self { voice, socket, answers: Mutex::new(answers), ended, given_up, pid, thread: Some(thread) })
    }

    /// Has the process open the device, and returns the device's facts.
    pub(crate) fn open(&self, options: &EmulatedOptions, order: &EngineOrder) -> Result<EngineFacts> {
        let EmulatedOptions { arch, isolate: _, orch_to_sched, wrong_stamp } = options;
        if wrong_stamp.is_some() {
            return Err(Error::invalid(
                "A device in a process of its own cannot be given a wrong stamp. It is a hook for tests of devices in this process. Leave one of the two out.",
            ));
        }
        let numbers = ArchSpec::NUMBERS.iter().map(|number| (number.key.to_owned(), number.of(arch))).collect();
        let open = HostOrder::Open {
            arch: arch.name.to_owned(),
            numbers,
            workers: order.workers,
            orch_to_sched: *orch_to_sched,
            rings: message::ring_sizes(&order.capacities),
            tensormap: order.capacities.tensormap,
        };
        match self.ask(&open, &[], None)? {
            (Answer::Opened(facts), _) => Ok(facts.engine(arch)),
            _ => Err(self.lost("it answered out of turn")),
        }
    }

    /// The number of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The sending end of the socket to the process.
    pub(super) fn voice(&self) -> Voice {
        self.voice.clone()
    }

    /// Refuses if the process has ended.
    pub(crate) fn check_alive(&self) -> Result<()> {
        match self.ended.get() {
            Some(how) => Err(Error::new(
                ErrorCode::DeviceLost,
                format!(
                    "The device's process has ended before this run: {how}. Nothing can run on it any more. Open another device."
                ),
            )),
            None => Ok(()),
        }
    }

    /// Says something and waits for the answer.
    pub(super) fn ask(
        &self,
        order: &HostOrder,
        bytes: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(Answer, Vec<u8>)> {
        match self.voice.say(order, bytes, descriptor) {
            Ok(()) => self.answer(),
            // The process is gone, or was just about to say why it goes.
            Err(error) => {
                Err(self.answer().err().unwrap_or_else(|| self.lost(&format!("it could not be reached: {error}"))))
            }
        }
    }

    /// Waits for the next answer.
    pub(super) fn answer(&self) -> Result<(Answer, Vec<u8>)> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        match answers.recv() {
            Ok(Received { message: Answer::Failed(parts), .. }) => Err(Error::from_parts(parts)),
            Ok(received) => Ok((received.message, received.bytes)),
            Err(_) => Err(self.lost(self.ended.get().map_or("it does not answer", String::as_str))),
        }
    }

    /// Ends the process, which has lost threads: at once if it can, else by force. Later calls find it gone.
    pub(super) fn end(&self) {
        drop(self.voice.say(&HostOrder::Close, &[], None));
        let socket = self.voice.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Both ways: the thread stops to listen, waits for the process, and kills it if it does not end.
        drop(socket.shutdown(std::net::Shutdown::Both));
    }

    /// Ends the process by force: it does not do what it was asked to. Whoever waits for its answer is told why, with this code.
    pub(super) fn give_up(&self, code: ErrorCode, why: String) {
        drop(self.given_up.set((code, why)));
        // The thread stops to listen, and kills the process.
        drop(self.socket.shutdown(std::net::Shutdown::Both));
    }

    /// Whether the host ended the process by force.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.get().is_some()
    }

    /// The error of a process that is gone, or that answers out of turn.
    pub(super) fn lost(&self, how: &str) -> Error {
        if let Some((code, why)) = self.given_up.get() {
            return Error::new(
                *code,
                format!(
                    "The device's process (pid {}) was ended by force: {why}. If a run records, the records that it had published are in its directory: look at the tasks that were running, and open another device.",
                    self.pid
                ),
            );
        }
        Error::new(
            ErrorCode::DeviceLost,
            format!(
                "The device's process (pid {}) was lost: {how}. A kernel or the orchestration may have crashed it, or somebody killed it. If a run records, the records that it had published are in its directory: look at the tasks that were running, and open another device.",
                self.pid
            ),
        )
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Whether or not the process is still there to hear it: the thread waits for its end, and kills it if it does not
        // end.
        self.end();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Starts this executable once more, with the socket as its standard input until it has taken it.
fn spawn(socket: OwnedFd) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    let name = std::env::args_os().next().unwrap_or_else(|| "plimsoll".into());
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    command.env(DEVICE_VARIABLE, std::process::id().to_string()).stdin(Stdio::from(socket)).spawn()
}

/// Passes on what the process says, until its end of the socket is gone.
fn listen(socket: &UnixStream, tell: &Sender<Received<Answer>>) {
    while let Ok(answer) = receive(socket) {
        if tell.send(answer).is_err() {
            break;
        }
    }
}

/// Waits for a process whose socket is closed; one that does not end in time is killed.
fn reap(child: &mut Child, grace: Duration) -> io::Result<ExitStatus> {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if since.elapsed() > grace {
            child.kill()?;
            return child.wait();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn how_it_ended(status: ExitStatus) -> String {
    const NAMES: [(i32, &str); 8] = [
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (15, "SIGTERM"),
        (31, "SIGSYS"),
    ];
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let name = NAMES.iter().find(|(number, _)| *number == signal).map(|(_, name)| format!(" ({name})"));
            format!("signal {signal}{} ended it", name.unwrap_or_default())
        }
        (None, Some(code)) => format!("it exited with code {code}"),
        _ => "nobody knows how it ended".to_owned(),
    }
}

fn refused(error: io::Error) -> Error {
    let what = format!(
        "The device's process could not be started: {error}. It is this executable once more, with a socket to it. Allow this process more files and processes, or open the device without isolation."
    );
    Error::new(ErrorCode::SystemRefused, what).caused_by(error)
}
