//! Exit codes: 0 fine, 1 the run or check failed, 2 wrong usage; 130 and 143 a run that Ctrl-C or SIGTERM ended.

use crate::wording::in_flags;
use plimsoll::abi::ErrorCode;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};

/// Wrong usage that was found after the command line was read.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// An error of the command itself about a run of the user's own program: it names calls of the library on purpose.
#[derive(Debug)]
struct InCalls(String);

impl std::fmt::Display for InCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InCalls {}

/// What the parser has to say: help and version are fine, the rest is wrong usage.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        // Nothing can be done about a closed terminal.
        let _ = error.print();
        return ExitCode::from(2);
    }
    if let Err(error) = error.print() {
        crate::console::fail(&error);
    }
    ExitCode::SUCCESS
}

/// Says what went wrong.
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    // An error's text includes its causes.
    let text = error.to_string();
    eprintln!("plimsoll: {}", if error.is::<InCalls>() { text } else { in_flags(&text) });
    ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
}

/// Wrong usage.
pub(crate) fn wrong(text: impl std::fmt::Display) -> anyhow::Error {
    UsageError(text.to_string()).into()
}

/// A failure whose text names calls of the library and keeps them.
pub(crate) fn in_calls(text: impl std::fmt::Display) -> anyhow::Error {
    InCalls(text.to_string()).into()
}

/// Turns an error about a setting into wrong usage, without the code that a failed run has. What the system refuses, and a device
/// that is lost while it opens, stay errors of the run.
pub(crate) fn refused(error: plimsoll::Error) -> anyhow::Error {
    match error.code() {
        ErrorCode::SystemRefused | ErrorCode::DiskFull | ErrorCode::DeviceLost | ErrorCode::Defect => error.into(),
        _ => wrong(in_flags(error.explanation())),
    }
}

/// Whether SIGXFSZ was ignored before this command ignored it.
static IGNORED_BEFORE: AtomicBool = AtomicBool::new(false);

/// Lets writes beyond a file size limit fail with an error that can be told, and a closed pipe end the command quietly.
pub(crate) fn set_signals() {
    // SAFETY: no handler is installed; both are dispositions that exist on every Unix, set before any thread starts.
    let before = unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN)
    };
    IGNORED_BEFORE.store(before == libc::SIG_IGN, Ordering::Relaxed);
}

/// Has a program that is started get SIGXFSZ as this command found it: what is ignored stays so in what is executed. SIGPIPE has its
/// default meaning there already.
pub(crate) fn give_back_signals(command: &mut Command) {
    if IGNORED_BEFORE.load(Ordering::Relaxed) {
        return;
    }
    let give_back = || {
        // SAFETY: it may be called between fork and exec, and installs no handler.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    unsafe { command.pre_exec(give_back) };
}
