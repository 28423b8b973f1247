//! Ctrl-C and SIGTERM while a program runs: the first ends the run cleanly, the second ends the command at once.
//!
//! A handler may do next to nothing, so it only writes the signal's number into a pipe. A thread reads it there and uses
//! the run's token. A run whose kernel or orchestration does not return is then given up by whoever watches it, its watchdog or the
//! guard of virtual time. This thread gives up on a program that nobody watches yet, and on what takes too long even so: its records are
//! what `plimsoll recover` gets out of its region.

use plimsoll::CancelToken;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io::{PipeReader, Read};
use std::os::fd::IntoRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// How long a run that was asked to end may take. A kernel that does not return is given a second of it. The records are written
/// meanwhile; what is made of them afterwards takes as long as it takes.
const GRACE: Duration = Duration::from_secs(10);

const SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// The write end of the pipe that the handler writes into; negative before there is one.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// The signals of a command that runs one program.
#[derive(Clone)]
pub(crate) struct Signals {
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The first signal; 0 if there was none.
    signal: AtomicU8,
    /// 1 once the run has ended.
    ended: AtomicU8,
    /// Whether the run's records are out, and only its explanation is left to be made.
    records_out: Arc<AtomicBool>,
}

impl Signals {
    /// From now on the first signal uses `token`.
    pub(crate) fn watch(token: CancelToken) -> anyhow::Result<Self> {
        Self::install(token).map_err(|error| {
            anyhow::anyhow!(
                "The command cannot watch for signals: {error}. It needs a pipe and a thread to end a run cleanly. Allow this process more open files and threads (`ulimit -n`, `ulimit -u`)."
            )
        })
    }

    fn install(token: CancelToken) -> std::io::Result<Self> {
        let (reader, writer) = std::io::pipe()?;
        let seen = Arc::new(Seen::default());
        let thread = std::thread::Builder::new().name("plimsoll-signals".into());
        let watched = Arc::clone(&seen);
        thread.spawn(move || follow(reader, &token, &watched))?;
        // It stays open for as long as the process lives, since the handler does.
        // SeqCst pairs(signals.pipe).
        PIPE.store(writer.into_raw_fd(), Ordering::SeqCst);
        for signal in SIGNALS {
            // SAFETY: the handler only calls what may be called in one, and stays for the life of the process.
            unsafe { libc::signal(signal, note as extern "C" fn(libc::c_int) as libc::sighandler_t) };
        }
        Ok(Self { seen })
    }

    /// What a recording sets when its records are out.
    pub(crate) fn records_out(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.seen.records_out)
    }

    /// The run has ended: there is nothing left that a signal would have to wait for.
    pub(crate) fn run_ended(&self) {
        // SeqCst pairs(signals.ended).
        self.seen.ended.store(1, Ordering::SeqCst);
    }

    /// The exit code of a command whose run was interrupted.
    pub(crate) fn exit_code(&self) -> u8 {
        // SeqCst pairs(signals.first).
        let signal = self.seen.signal.load(Ordering::SeqCst);
        exit_code(if signal == 0 { libc::SIGINT as u8 } else { signal })
    }
}

/// The exit code by which shells report a signal.
fn exit_code(signal: u8) -> u8 {
    128 + signal
}

/// The handler.
extern "C" fn note(signal: libc::c_int) {
    // A signal may come between a call that failed and the look at why.
    // SAFETY: the address of this thread's `errno`.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let byte = signal as u8;
    // SeqCst pairs(signals.pipe).
    // SAFETY: `write` may be called in a handler, and the byte outlives the call. If the pipe is full, enough was said.
    unsafe { libc::write(PIPE.load(Ordering::SeqCst), (&raw const byte).cast(), 1) };
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Follows the signals of the process to their end.
fn follow(mut pipe: PipeReader, token: &CancelToken, seen: &Seen) {
    let mut signal = [0];
    if pipe.read_exact(&mut signal).is_err() {
        return;
    }
    let [first] = signal;
    // SeqCst pairs(signals.first), and pairs(signals.ended): the command sees the signal, or the signal sees the end.
    seen.signal.store(first, Ordering::SeqCst);
    if seen.ended.load(Ordering::SeqCst) != 0 {
        end_now(first);
    }
    eprintln!("plimsoll: {}: the run is being ended. Once more ends the command at once.", name(first));
    token.interrupt();
    let goes_on = || {
        // SeqCst pairs(signals.ended).
        seen.ended.load(Ordering::SeqCst) == 0 && !seen.records_out.load(Ordering::Relaxed)
    };
    if !is_readable_within(&pipe, GRACE) && goes_on() {
        eprintln!(
            "plimsoll: The run does not end: a kernel or the orchestration has not returned for {GRACE:?}. The command ends \
             without it. If the run had begun to record, `plimsoll recover` gets its records out of its region."
        );
        end_now(first);
    }
    if pipe.read_exact(&mut signal).is_ok() {
        end_now(signal[0]);
    }
}

fn name(signal: u8) -> &'static str {
    if libc::c_int::from(signal) == libc::SIGTERM { "SIGTERM" } else { "Ctrl-C" }
}

/// Ends the process without looking back: something in it may never return.
fn end_now(signal: u8) -> ! {
    // SAFETY: it does not return, and runs nothing of this process.
    unsafe { libc::_exit(exit_code(signal).into()) }
}

/// Whether there is something to read, or comes within this time.
fn is_readable_within(pipe: &PipeReader, time: Duration) -> bool {
    let since = Instant::now();
    loop {
        let left = time.saturating_sub(since.elapsed()).try_into().ok();
        match poll(&mut [PollFd::new(pipe, PollFlags::IN)], left.as_ref()) {
            Err(Errno::INTR) => {}
            outcome => return outcome.is_ok_and(|ready| ready > 0),
        }
    }
}
