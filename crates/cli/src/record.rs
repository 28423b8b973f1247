//! `plimsoll record`: runs a program of the user's own that uses the library, and has its runs recorded.

use crate::exit::wrong;
use clap::Args;
use plimsoll::RecordOptions;
use plimsoll::report::plain::{PROGRAM_NAME, one_line};
use plimsoll::report::text::duration;
use plimsoll::trace::{Liveness, Manifest, OUTPUTS, Status, for_shell};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Options of `record`.
#[derive(Args)]
pub(crate) struct RecordCommand {
    /// Record swimlanes: 1 core timing, 2 + dispatch and finish, 3 + scheduler phases, 4 + orchestrator phases; 4 if no
    /// level is given, 1 if the flag is left out
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "4",
          value_parser = clap::value_parser!(u8).range(1..=4))]
    swimlane: Option<u8>,
    /// Everything: swimlane 4, dependencies, scope statistics
    #[arg(long, conflicts_with = "swimlane")]
    profile: bool,
    /// The directory in which every run gets its own
    #[arg(long, value_name = "DIR", default_value = OUTPUTS)]
    out: PathBuf,
    /// When the program has ended, explain every run of it that did not end well, as `plimsoll explain` does; one that was
    /// killed is recovered first
    #[arg(long)]
    explain_on_exit: bool,
    /// Print one JSON object when the program has ended
    #[arg(long, conflicts_with = "explain_on_exit")]
    json: bool,
    /// The program and its arguments, behind `--`
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl RecordCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let out = std::path::absolute(&self.out)?;
        let before = runs_in(&out);
        let recorder = own_name();
        let status = self.spawn(&out, &recorder)?;
        let runs = self.made(&out, &before, &recorder);
        let code = exit_code(status);
        if code != 0 {
            // Also if there is nowhere to write to: the program's own code says more.
            crate::console::fail_with(code);
        }
        if self.json {
            let rows: Vec<Value> = runs.iter().map(|(dir, manifest)| row(dir, manifest)).collect();
            println!("{}", json!({ "exit": code, "runs": rows }));
        } else {
            for (dir, manifest) in &runs {
                print(dir, manifest);
                if self.explain_on_exit {
                    explain(dir, manifest)?;
                }
            }
            if runs.is_empty() {
                eprintln!(
                    "plimsoll: nothing was recorded. The program made no run of a Plimsoll device, or says itself what to record. Look at its `RunOptions::record`."
                );
            }
        }
        Ok(ExitCode::from(code))
    }

    /// The runs that the program made, in the order in which they started. Other programs may record into the same directory meanwhile.
    fn made(&self, out: &Path, before: &BTreeSet<OsString>, recorder: &str) -> Vec<(PathBuf, Manifest)> {
        let new = runs_in(out).into_iter().filter(|name| !before.contains(name)).map(|name| self.out.join(name));
        let read = new.filter_map(|dir| Manifest::read(&dir).ok().map(|manifest| (dir, manifest)));
        let mut made: Vec<_> = read.filter(|(_, manifest)| manifest.recorder == recorder).collect();
        made.sort_by_key(|(_, manifest)| manifest.started_unix_ns);
        made
    }

    /// Runs the program to its end. Its runs are told by `recorder`.
    fn spawn(&self, out: &Path, recorder: &str) -> anyhow::Result<ExitStatus> {
        let level = self.swimlane.unwrap_or(1).to_string();
        let asked = if self.profile { "profile" } else { &level };
        let (program, arguments) = self.program.split_first().expect("the parser asks for a program");
        let mut command = Command::new(program);
        command.args(arguments);
        command.env(RecordOptions::RECORD_VARIABLE, asked).env(RecordOptions::OUT_VARIABLE, out);
        command.env(RecordOptions::RECORDER_VARIABLE, recorder);
        crate::exit::give_back_signals(&mut command);
        take_signals();
        let mut child = command.spawn().map_err(|error| {
            wrong(format!(
                "{} cannot be started. The system says: {error}. Give the program's path behind `--`.",
                program.display()
            ))
        })?;
        pass_signals_to(&child);
        Ok(child.wait()?)
    }
}

/// The directories of runs in a directory, by name.
fn runs_in(outputs: &Path) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(outputs).into_iter().flatten().flatten();
    let runs = entries.filter(|entry| !entry.path().is_symlink() && entry.path().join(Manifest::FILE).is_file());
    runs.map(|entry| entry.file_name()).collect()
}

/// A name that no other `plimsoll record` has.
fn own_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", std::process::id(), now.as_nanos())
}

fn row(dir: &Path, manifest: &Manifest) -> Value {
    json!({
        "out": dir,
        "program": manifest.program,
        "status": manifest.status.name(),
        "tasks": manifest.tasks,
        "dispatches": manifest.dispatches,
        "elapsed_ns": manifest.elapsed_ns,
        "reconcile": manifest.reconcile,
    })
}

/// What became of a run, in two lines.
fn print(dir: &Path, manifest: &Manifest) {
    println!("{}: {}", one_line(&manifest.program, PROGRAM_NAME), manifest.status.name());
    if let Some(error) = &manifest.error {
        println!("  {} ({}): {}", error.name, error.code, error.explanation);
    }
    match (manifest.liveness(), &manifest.reconcile) {
        (Liveness::NeedsRecovery, _) => {
            println!("  it was killed: `plimsoll recover {}` gets its last records", for_shell(dir));
        }
        (_, Some(ledger)) => {
            let total: u64 = ledger.pools.iter().map(|pool| pool.total).sum();
            let word = if ledger.lossless { "nothing lost" } else { "RECORDS LOST: see plimsoll check" };
            let elapsed = duration(manifest.elapsed_ns as f64);
            // Of a run that failed not all tasks ran.
            let done = match manifest.status {
                Status::Ok => format!("{} tasks", manifest.tasks),
                _ => format!("{} dispatches of {} tasks", manifest.dispatches, manifest.tasks),
            };
            println!("  {done} in {elapsed}; {total} records, {word}: {}", dir.display());
            println!("next: plimsoll stats {0} · plimsoll export {0}", for_shell(dir));
        }
        _ => println!("  it has not ended: {}", dir.display()),
    }
}

/// Explains a run that did not end well.
fn explain(dir: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    if manifest.needs_recovery() {
        crate::continue_with(["recover".as_ref(), dir.as_os_str()])?;
    }
    if manifest.status != Status::Ok {
        crate::continue_with(["explain".as_ref(), dir.as_os_str()])?;
    }
    Ok(())
}

/// What the program ended with; 128 and the signal's number if one killed it, as shells have it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}

/// Signals that somebody may send to the command and mean the program. Left out is what stops a process, such as SIGTSTP: the
/// command would have to stop, too.
const PASSED_ON: [libc::c_int; 14] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGCONT,
    libc::SIGURG,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGWINCH,
    libc::SIGIO,
    libc::SIGPWR,
];

/// Those that the terminal sends to the whole process group, the program included.
const OF_TERMINAL: [libc::c_int; 5] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGCONT, libc::SIGWINCH];

/// The process of the program, to which signals are passed on; 0 before it is started.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// Signals that came before the program was started: bit 0 for signal 1.
static EARLY: AtomicU64 = AtomicU64::new(0);

/// From here on a signal that somebody sends to this process is passed on to the program. A signal from the terminal reaches
/// the program by itself, because both are in one process group. What this process was told to ignore, as `nohup` does, the program
/// ignores, too.
fn take_signals() {
    for signal in PASSED_ON.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()) {
        // SAFETY: all zeroes is a valid set of no signals and no flags.
        let [mut action, mut before]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
        // SAFETY: it only asks.
        let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut before) };
        if asked != 0 || before.sa_sigaction == libc::SIG_IGN {
            continue;
        }
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = pass_on;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the handler only calls what may be called in one, and stays for the life of the process.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}

/// Passes on the signals that came early, and all that follow.
fn pass_signals_to(child: &Child) {
    let program = child.id() as i32;
    // SeqCst pairs(record.program), and pairs(record.early): the handler sees the program, or its signal is seen here.
    PROGRAM.store(program, Ordering::SeqCst);
    let early = EARLY.swap(0, Ordering::SeqCst);
    for signal in (1..=64).filter(|signal| early >> (signal - 1) & 1 != 0) {
        // If it has ended, nobody is left to be told.
        send(program, signal);
    }
}

/// Sends the program a signal; of the system's own call, because real-time signals have no names.
fn send(program: libc::pid_t, signal: libc::c_int) {
    // SAFETY: `kill` may be called in a handler. The program was not waited for yet, so the number is still its own, or the command is
    // about to end.
    unsafe { libc::kill(program, signal) };
}

/// The handler.
extern "C" fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system gives a valid description with every signal.
    let by_system = unsafe { (*info).si_code } == libc::SI_KERNEL;
    // SeqCst pairs(record.program), and pairs(record.early).
    match PROGRAM.load(Ordering::SeqCst) {
        _ if by_system && OF_TERMINAL.contains(&signal) => {}
        0 => drop(EARLY.fetch_or(1 << (signal - 1), Ordering::SeqCst)),
        program => send(program, signal),
    }
}
