//! Exit codes: 0 fine, 1 the run or check failed, 2 wrong usage.

use std::process::ExitCode;

/// Wrong usage that was found after the command line was read.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// What the parser has to say: help and version are fine, the rest is wrong usage.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // Nothing can be done about a closed terminal.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}

/// Says what went wrong.
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    eprintln!("plimsoll: {error:#}");
    ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
}

/// Wrong usage.
pub(crate) fn wrong(text: impl std::fmt::Display) -> anyhow::Error {
    Usage(text.to_string()).into()
}
