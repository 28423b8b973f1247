//! What a device and a run can be told: ring sizes, a token, a deadline, a recording.

use crate::cancel::CancelToken;
use crate::engine::SchedulerStall;
use crate::error::{Error, Result};
use crate::record_options::RecordOptions;
use crate::report::RunReport;
use plimsoll_abi::{RINGS, TaskId};
use plimsoll_sched::agent::Pulse;
use plimsoll_sched::ring::{Capacity, HEAP_ALIGN};
use plimsoll_sched::site::Site;
use plimsoll_sched::slot::SlotRef;
use std::num::{IntErrorKind, ParseIntError};
use std::sync::Arc;
use std::time::Duration;

/// The sizes of the rings and of the tensormap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacities {
    /// Every ring's.
    pub rings: [Capacity; RINGS],
    /// Entries of the tensormap.
    pub tensormap: u32,
}

impl Default for Capacities {
    fn default() -> Self {
        Self { rings: [Capacity::default(); RINGS], tensormap: 65_536 }
    }
}

/// A size that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} is not a size: {why}")]
pub struct ParseSizeError {
    text: String,
    why: &'static str,
}

/// Reads a number with an optional byte suffix: k, m, g (or KiB, MiB, GiB) for powers of 1024.
///
/// # Errors
/// If the text is no number, has another suffix, or is too large.
pub fn parse_bytes(text: &str) -> std::result::Result<u64, ParseSizeError> {
    let error = |why| ParseSizeError { text: text.to_owned(), why };
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(trimmed.len());
    let number = trimmed[..digits].replace('_', "");
    let number: u64 = number
        .parse()
        .map_err(|failed| error(why_no_number(&failed, "it should start with a whole number, such as 64m")))?;
    let shift = match trimmed[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(error("the suffix is not one of k, m, g")),
    };
    number.checked_mul(1 << shift).ok_or_else(|| error("it is too large"))
}

/// Why digits are no number: there are too many, or none.
fn why_no_number(failed: &ParseIntError, if_none: &'static str) -> &'static str {
    if *failed.kind() == IntErrorKind::PosOverflow { "it is too large" } else { if_none }
}

/// Reads a time: a whole number with its unit, one of ms, s, m. `off` is none.
///
/// # Errors
/// If the text is something else, or the time is zero or too large.
pub fn parse_duration(text: &str) -> std::result::Result<Option<Duration>, ParseDurationError> {
    let error = |why| ParseDurationError { text: text.to_owned(), why };
    let trimmed = text.trim();
    if trimmed == "off" {
        return Ok(None);
    }
    let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let number: u64 = trimmed[..digits]
        .parse()
        .map_err(|failed| error(why_no_number(&failed, "it should start with a whole number, such as 500ms")))?;
    let unit = match &trimmed[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return Err(error("the unit is not one of ms, s, m")),
    };
    match number.checked_mul(unit).filter(|ms| *ms <= MOST_MS) {
        Some(0) => Err(error("it is no time at all; `off` turns the limit off")),
        Some(ms) => Ok(Some(Duration::from_millis(ms))),
        None => Err(error("it is longer than a year")),
    }
}

/// The longest time that can be given: a year.
const MOST_MS: u64 = 366 * 24 * 3_600_000;

/// A time that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} is not a time: {why}")]
pub struct ParseDurationError {
    text: String,
    why: &'static str,
}

/// Reads one value for all rings, or four with commas between them; `-` leaves a ring as it is.
///
/// # Errors
/// As [`parse_bytes`], or if there are not one or four values.
pub fn parse_per_ring(text: &str) -> std::result::Result<[Option<u64>; RINGS], ParseSizeError> {
    let parts: Vec<&str> = text.split(',').collect();
    let one = |part: &str| if part.trim() == "-" { Ok(None) } else { parse_bytes(part).map(Some) };
    match parts.as_slice() {
        [one_value] => Ok([one(one_value)?; RINGS]),
        [a, b, c, d] => Ok([one(a)?, one(b)?, one(c)?, one(d)?]),
        _ => Err(ParseSizeError { text: text.to_owned(), why: "give one value, or four with commas between them" }),
    }
}

impl Capacities {
    /// The defaults, changed by `PLIMSOLL_RING_TASK_WINDOW`, `PLIMSOLL_RING_HEAP`, `PLIMSOLL_RING_DEP_POOL` and
    /// `PLIMSOLL_TENSORMAP` where they are set.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs), naming the variable that cannot be used.
    pub fn from_env() -> Result<Self> {
        let mut out = Self::default();
        for (variable, set) in Self::SETTINGS {
            if let Some(text) = std::env::var_os(variable) {
                let text = text.into_string().map_err(|text| format!("{text:?} is not text"));
                text.and_then(|text| set(&mut out, &text))
                    .map_err(|why| Error::invalid(format!("{variable} cannot be used. {why}. Correct or unset it.")))?;
            }
        }
        Ok(out)
    }

    const SETTINGS: [(&'static str, fn(&mut Self, &str) -> std::result::Result<(), String>); 4] = [
        ("PLIMSOLL_RING_TASK_WINDOW", Self::set_task_window),
        ("PLIMSOLL_RING_HEAP", Self::set_heap),
        ("PLIMSOLL_RING_DEP_POOL", Self::set_dep_pool),
        ("PLIMSOLL_TENSORMAP", Self::set_tensormap),
    ];

    /// Sets the task windows from text: one value or four.
    ///
    /// # Errors
    /// A sentence of what is wrong with the text; nothing is changed for rings after the wrong value.
    pub fn set_task_window(&mut self, text: &str) -> std::result::Result<(), String> {
        self.set(text, "task window", |ring, value| value.try_into().map(|value| ring.window = value))
    }

    /// Sets the heaps from text: one value or four, with byte suffixes.
    ///
    /// # Errors
    /// As [`set_task_window`](Self::set_task_window).
    pub fn set_heap(&mut self, text: &str) -> std::result::Result<(), String> {
        self.set(text, "heap", |ring, value| {
            ring.heap = value;
            Ok(())
        })
    }

    /// Sets the dependency pools from text: one value or four.
    ///
    /// # Errors
    /// As [`set_task_window`](Self::set_task_window).
    pub fn set_dep_pool(&mut self, text: &str) -> std::result::Result<(), String> {
        self.set(text, "dependency pool", |ring, value| value.try_into().map(|value| ring.dep_pool = value))
    }

    /// Sets the tensormap from text.
    ///
    /// # Errors
    /// A sentence of what is wrong with the text.
    pub fn set_tensormap(&mut self, text: &str) -> std::result::Result<(), String> {
        let value = parse_bytes(text).map_err(|error| error.to_string())?;
        self.tensormap = value.try_into().map_err(|_| format!("a tensormap of {value} entries is too large"))?;
        Ok(())
    }

    fn set(
        &mut self,
        text: &str,
        what: &str,
        apply: impl Fn(&mut Capacity, u64) -> std::result::Result<(), std::num::TryFromIntError>,
    ) -> std::result::Result<(), String> {
        let values = parse_per_ring(text).map_err(|error| error.to_string())?;
        for (ring, value) in values.into_iter().enumerate() {
            if let Some(value) = value {
                apply(&mut self.rings[ring], value)
                    .map_err(|_| format!("a {what} of {value} on ring {ring} is too large"))?;
            }
        }
        Ok(())
    }

    /// Says what is wrong with the sizes, if anything.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs), with the next size that would do.
    pub fn validate(&self) -> Result<()> {
        const MOST_HEAP: u64 = 1 << 40;
        for (ring, c) in self.rings.iter().enumerate() {
            let refuse = |what: String| Err(Error::invalid(what));
            if !c.window.is_power_of_two() || c.window > SlotRef::MAX_INDEX / 2 {
                const MOST_WINDOW: u32 = 1 << 28;
                let near = c.window.clamp(1, MOST_WINDOW).next_power_of_two();
                let which = if c.window > MOST_WINDOW { "largest" } else { "next" };
                return refuse(format!(
                    "The task window of ring {ring} cannot be {}. It must be a power of two up to {MOST_WINDOW}. The {which} one is {near}.",
                    c.window
                ));
            }
            if c.heap == 0 || !c.heap.is_multiple_of(HEAP_ALIGN) || c.heap > MOST_HEAP {
                let near = c.heap.clamp(1, MOST_HEAP).next_multiple_of(HEAP_ALIGN);
                let which = if c.heap > MOST_HEAP { "largest" } else { "next" };
                return refuse(format!(
                    "The heap of ring {ring} cannot be {} bytes. It must be a multiple of {HEAP_ALIGN} up to 1 TiB. The {which} one is {near}.",
                    c.heap
                ));
            }
            if c.dep_pool == 0 || c.dep_pool > SlotRef::MAX_INDEX {
                return refuse(format!(
                    "The dependency pool of ring {ring} cannot be {}. It needs at least 1 entry and has at most {}. The default is 16384.",
                    c.dep_pool,
                    SlotRef::MAX_INDEX
                ));
            }
        }
        if self.tensormap == 0 || self.tensormap > 1 << 28 {
            return Err(Error::invalid(format!(
                "The tensormap cannot have {} entries. It needs at least 1 and has at most {}. The default is 65536.",
                self.tensormap,
                1 << 28
            )));
        }
        Ok(())
    }
}

/// Refuses more rounds than records can tell apart.
pub(crate) fn check_rounds(rounds: u32) -> Result<()> {
    if rounds > TaskId::ROUNDS {
        return Err(Error::invalid(format!(
            "A run cannot have {rounds} rounds. Records number them up to {}. Make several runs of them.",
            TaskId::ROUNDS
        )));
    }
    Ok(())
}

/// What is told of a run that was given up and cannot return: its error, and what is known of it.
pub type HungHook = dyn Fn(Error, &RunReport) + Send + Sync;

/// Somebody who wants to know when a run seems to stand still. It goes on, whatever this does.
#[derive(Clone)]
pub struct StillNotice {
    /// Time without any task starting or ending before the notice is sent.
    pub after: Duration,
    /// Is told what runs since when, in a sentence.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

/// What one run can be told.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// Ends the run when it is cancelled.
    pub cancel: Option<CancelToken>,
    /// Ends the run when it has taken this long: all its rounds together.
    pub deadline: Option<Duration>,
    /// How long one kernel may take. One that takes longer ends the run with [`OpTimeout`](plimsoll_abi::ErrorCode::OpTimeout),
    /// and its worker is left behind: the device runs nothing any more, another one does. If the device has two workers, the
    /// calling thread executes no tasks. Engines on threads only, as the next two.
    pub op_timeout: Option<Duration>,
    /// How long nothing may move: no task begins or ends, nothing is submitted, and no kernel uses the CPU. Ends the run with
    /// [`SchedulerTimeout`](plimsoll_abi::ErrorCode::SchedulerTimeout). Waiting for the recorder does not count, nor does the
    /// orchestrator's wait for room while a kernel runs: how long that one may take is what `op_timeout` says. As with
    /// `op_timeout`, the calling thread executes no tasks if there are two workers.
    pub stall_timeout: Option<Duration>,
    /// Whether a kernel that has begun and not ended counts as moving for `stall_timeout`, also if it uses no CPU: it may wait
    /// for a disk or a device. How long it may take is what `op_timeout` says.
    pub stall_spares_kernels: bool,
    /// How long the orchestration may be in its own code between two calls. Ends the run as `stall_timeout` does.
    pub orch_timeout: Option<Duration>,
    /// Makes a scheduler stand still, for tests; on the engine `emulated` only.
    #[doc(hidden)]
    pub scheduler_stall: Option<SchedulerStall>,
    /// Is told once, if nothing has begun or ended for a while.
    pub notice: Option<StillNotice>,
    /// Is told of a run that was given up and that cannot return: the calling thread itself hangs, or kernels may use what the
    /// caller lent. Its records are safe by then. `run` waits, whatever this does; a command may end the process here.
    pub on_hung: Option<Arc<HungHook>>,
    /// Bounds every wait of a `read`.
    pub read_timeout: Option<Duration>,
    /// Records the run. Left out, `PLIMSOLL_RECORD` and `PLIMSOLL_OUT` decide, as they were when the device was opened.
    pub record: Option<RecordOptions>,
    /// Where the program is, if the caller of `run` is not where its author wrote it: other languages have their own sites.
    pub site: Option<Site>,
    /// A function that the calling thread calls besides its work: before it waits for tasks or executes some, every few
    /// milliseconds while it waits, and before each further task that it executes meanwhile. Engines on threads only.
    pub pulse: Option<Arc<Pulse>>,
}

impl RunOptions {
    /// Whether a kernel that does not return may end the run.
    pub(crate) fn gives_up_kernels(&self) -> bool {
        self.op_timeout.is_some() || (self.stall_timeout.is_some() && !self.stall_spares_kernels)
    }
}

impl std::fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cancel, deadline, op_timeout, stall_timeout, orch_timeout, read_timeout, record, site, .. } = self;
        let budgets = (deadline, op_timeout, stall_timeout, orch_timeout, read_timeout);
        let hooks = (self.pulse.is_some(), self.on_hung.is_some(), self.notice.is_some());
        write!(f, "RunOptions({cancel:?}, {budgets:?}, {record:?}, {site:?}, {hooks:?})")
    }
}
