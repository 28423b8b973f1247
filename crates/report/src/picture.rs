//! The picture of a run: which lanes there are, top to bottom, and what lies on each.
//!
//! Orchestrator; scheduler threads with their phases; the scheduler's view, dispatch to finish by core; the cores'
//! own view, start to end; counters of what the rings held. The pens of the forms that show it are [`Canvas`]es.

mod flows;
mod lane;
mod names;
mod pen;

use std::io;

use plimsoll_trace::Trace;

use names::SliceNames;
use pen::Pen;

/// Which dependencies to draw as arrows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flows {
    /// Every one. Viewers get slow with many.
    All,
    /// The steps of the critical path.
    Critical,
    /// No flows.
    #[default]
    None,
}

/// What was drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drawn {
    /// Lanes, counters included.
    pub lanes: u64,
    /// Slices.
    pub slices: u64,
    /// Values of counters.
    pub values: u64,
    /// Arrows.
    pub flows: u64,
}

/// What a counter counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
}

/// A fact about a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// The round of the task.
    Round,
    /// The core's dispatch token.
    Token,
    /// Nanoseconds from receipt to start.
    ReceiveToStart,
    /// How many arguments the task has.
    Args,
    /// The scheduler's loop.
    Loop,
    /// Tasks that a phase dealt with.
    Tasks,
    /// Looks into a ready queue that found a task.
    PopHit,
    /// Looks that found none.
    PopMiss,
    /// The number of a submit.
    Submit,
    /// The depth of a scope.
    Depth,
    /// The ring of a scope.
    Ring,
}

impl Key {
    /// All keys, by number.
    pub const ALL: [Key; 11] = [
        Key::Round,
        Key::Token,
        Key::ReceiveToStart,
        Key::Args,
        Key::Loop,
        Key::Tasks,
        Key::PopHit,
        Key::PopMiss,
        Key::Submit,
        Key::Depth,
        Key::Ring,
    ];

    /// As viewers show it.
    pub const fn name(self) -> &'static str {
        match self {
            Key::Round => "round",
            Key::Token => "token",
            Key::ReceiveToStart => "receive_to_start_ns",
            Key::Args => "args",
            Key::Loop => "loop",
            Key::Tasks => "tasks",
            Key::PopHit => "pop_hit",
            Key::PopMiss => "pop_miss",
            Key::Submit => "submit",
            Key::Depth => "depth",
            Key::Ring => "ring",
        }
    }
}

/// One slice, to be begun.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    /// Its name, as a number of the canvas's name table.
    pub name: u32,
    /// The task it is of: id and round.
    pub task: Option<u64>,
    /// Facts about it.
    pub facts: &'a [(Key, u64)],
    /// Arrows that leave it.
    pub flows_out: &'a [u64],
    /// Arrows that end at it.
    pub flows_in: &'a [u64],
}

/// A form's pen. Lanes are drawn one after the other, each from left to right; slices on a lane nest.
///
/// Every call fails with the error of whatever the form is written to, and with nothing else.
#[expect(clippy::missing_errors_doc, reason = "the sentence above is about all of its calls")]
pub trait Canvas {
    /// Starts a picture; `names` are all names that slices will have.
    fn start(&mut self, title: &str, names: Vec<String>) -> io::Result<()>;
    /// Starts a group of lanes, below those before it.
    fn group(&mut self, name: &str) -> io::Result<()>;
    /// Starts a lane in the group, below those before it. Lanes of one name are one lane with slices that overlap.
    fn lane(&mut self, name: &str) -> io::Result<()>;
    /// Starts a counter in the group, below what is before it.
    fn counter(&mut self, name: &str, unit: Unit) -> io::Result<()>;
    /// Begins a slice on the lane.
    fn begin(&mut self, at_ns: u64, slice: &Slice<'_>) -> io::Result<()>;
    /// Ends the innermost open slice of the lane.
    fn end(&mut self, at_ns: u64) -> io::Result<()>;
    /// A value of the counter, from here on.
    fn value(&mut self, at_ns: u64, value: u64) -> io::Result<()>;
    /// Ends the picture.
    fn finish(&mut self) -> io::Result<()>;
}

/// Draws a trace.
///
/// # Errors
/// The canvas's first error.
pub fn draw(trace: &Trace, flows: Flows, canvas: &mut impl Canvas) -> io::Result<Drawn> {
    let names = SliceNames::of(trace);
    canvas.start(&title(trace), names.all.clone())?;
    let mut pen = Pen::new(trace, canvas, names);
    pen.orchestrators()?;
    pen.schedulers()?;
    pen.scheduler_view()?;
    pen.core_view(flows)?;
    pen.rings()?;
    pen.finish()
}

/// What the run was, and plainly that it was no real chip.
fn title(trace: &Trace) -> String {
    let facts = &trace.facts;
    let mut title = if facts.program.is_empty() { "run".to_string() } else { facts.program.clone() };
    for part in [&facts.engine, &facts.arch] {
        if !part.is_empty() && !title.ends_with(part.as_str()) {
            title.push_str(" · ");
            title.push_str(part);
        }
    }
    if facts.emulated {
        title.push_str(" (emulated)");
    }
    if facts.virtual_time {
        title.push_str(" (virtual time)");
    }
    title
}
