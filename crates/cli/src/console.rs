//! Where the command's words go: every `println!`, `print!` and `eprintln!` of this crate means the macros of this file.
//!
//! Standard output that cannot be written (a full disk, `/dev/full`) ends the command with exit code 1, or the one that it would have
//! failed with anyway, and one sentence on standard error; a closed pipe ends it quietly, because SIGPIPE keeps its default meaning (`exit::set_signals`).
//! Standard error that cannot be written is nobody's loss.
//!
//! Names of kernels, programs and files come from outside. Characters in them that would move the cursor, change colours
//! or turn the direction of reading are written as `\u001b`, which is also what they are in JSON.

use plimsoll::report::plain::is_obeyed;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};

/// Prints to standard output, with a line end.
macro_rules! println {
    () => { $crate::console::out(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::console::out(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Prints to standard output.
macro_rules! print {
    ($($arg:tt)*) => { $crate::console::out(format_args!($($arg)*)) };
}

/// Prints to standard error, with a line end.
macro_rules! eprintln {
    ($($arg:tt)*) => { $crate::console::err(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Writes to standard output, or ends the command.
pub(crate) fn out(text: fmt::Arguments<'_>) {
    let stdout = io::stdout().lock();
    if let Err(error) = write_to(stdout, text) {
        fail(&error);
    }
}

/// Writes to standard error as far as that is possible.
pub(crate) fn err(text: fmt::Arguments<'_>) {
    let _ = write_to(io::stderr().lock(), text);
}

/// Writes control sequences to a terminal, unescaped.
pub(crate) fn err_raw(text: fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Writes out what is still buffered, at the end of the command.
pub(crate) fn flush() {
    if let Err(error) = io::stdout().lock().flush() {
        fail(&error);
    }
}

/// The exit code if standard output cannot be written.
static FAILED: AtomicU8 = AtomicU8::new(1);

/// From here on the command fails with this code, whether or not standard output can be written.
pub(crate) fn fail_with(code: u8) {
    FAILED.store(code, Ordering::Relaxed);
}

/// Says that standard output cannot be written and ends the command.
pub(crate) fn fail(error: &io::Error) -> ! {
    err(format_args!(
        "plimsoll: Standard output cannot be written. The system says: {error}. Send the output elsewhere.\n"
    ));
    std::process::exit(FAILED.load(Ordering::Relaxed).into())
}

fn write_to(to: impl Write, text: fmt::Arguments<'_>) -> io::Result<()> {
    let mut plain = Plain { to, error: None };
    match (plain.write_fmt(text), plain.error) {
        (Err(_), Some(error)) => Err(error),
        (Err(_), None) => Err(io::Error::other("a value could not be formatted")),
        (Ok(()), _) => Ok(()),
    }
}

/// Passes text on, with what a terminal would obey written as an escape.
struct Plain<W> {
    to: W,
    error: Option<io::Error>,
}

impl<W: Write> Plain<W> {
    fn pass(&mut self, bytes: &[u8]) -> fmt::Result {
        self.to.write_all(bytes).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}

impl<W: Write> fmt::Write for Plain<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut from = 0;
        for (at, c) in text.char_indices().filter(|(_, c)| is_obeyed(*c)) {
            self.pass(&text.as_bytes()[from..at])?;
            self.pass(format!("\\u{:04x}", u32::from(c)).as_bytes())?;
            from = at + c.len_utf8();
        }
        self.pass(&text.as_bytes()[from..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_instead() {
        let mut seen = Vec::new();
        write_to(&mut seen, format_args!("a{}b\n", "\u{1b}[31m\u{9b}\r\u{202e}µ")).expect("written");
        assert_eq!(String::from_utf8(seen).expect("UTF-8"), "a\\u001b[31m\\u009b\\u000d\\u202eµb\n");
    }

    #[test]
    fn a_name_means_the_same_in_json_before_and_after() {
        let name = "k\u{1b}[2J\u{9b}\u{202e}";
        let mut seen = Vec::new();
        write_to(&mut seen, format_args!("{}", serde_json::json!({ "name": name }))).expect("written");
        let value: serde_json::Value = serde_json::from_slice(&seen).expect("JSON");
        assert_eq!(value["name"], name);
    }

    #[test]
    fn a_full_disk_is_an_error_and_no_panic() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        assert!(write_to(full, format_args!("x")).is_err());
    }
}
