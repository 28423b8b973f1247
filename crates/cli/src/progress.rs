//! Progress of what takes more than a second, on a terminal only.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A line that is written over and over, and gone at the end.
pub(crate) struct Progress {
    what: &'static str,
    shown: bool,
    next: Option<Instant>,
}

/// Time before the first line, and between two.
const PACE: Duration = Duration::from_secs(1);

impl Progress {
    pub(crate) fn new(what: &'static str) -> Self {
        let next = std::io::stderr().is_terminal().then(|| Instant::now() + PACE);
        Self { what, shown: false, next }
    }

    /// Says how far it is, if it is time to.
    pub(crate) fn tell(&mut self, done: u64, all: u64) {
        if self.next.is_some_and(|next| Instant::now() >= next) {
            crate::console::err_raw(format_args!(
                "\r\x1b[K{} of {} million {}",
                millions(done),
                millions(all),
                self.what
            ));
            self.shown = true;
            self.next = Some(Instant::now() + PACE);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            crate::console::err_raw(format_args!("\r\x1b[K"));
        }
    }
}

fn millions(count: u64) -> String {
    format!("{:.1}", count as f64 / 1e6)
}
