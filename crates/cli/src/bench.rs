//! `plimsoll bench`: what the runtime and the recorder cost on this machine.

mod dump;
mod grain;
mod graph;
mod mailbox;
mod overlaps;
mod read;
mod recorder;
mod recording;
mod scope_cost;
mod shapes;
mod start;
mod tiers;
mod virtual_time;

pub(crate) use graph::ShapeProgram;

use clap::Subcommand;
use rustix::time::{ClockId, clock_gettime};
use std::process::ExitCode;

/// What can be measured.
#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// How fast tensors are captured, beside a bare loop of writes
    Dump(dump::DumpBench),
    /// Time per task of a graph of a known shape
    Graph(graph::GraphBench),
    /// A round trip from a scheduler to a core and back, beside a bare ping-pong
    Mailbox(mailbox::MailboxBench),
    /// How fast captures are read and questions answered
    Read(read::ReadBench),
    /// Cost of one recorded span, and records per second
    Recorder(recorder::RecorderBench),
    /// Cost of recording a program, or a shape with empty kernels, level by level
    Recording(recording::RecordingBench),
    /// Time to open a device, and to run nothing on it
    Start(start::StartBench),
    /// Tasks per second of real time that a run in virtual time gets through
    Virtual(virtual_time::VirtualTimeBench),
}

impl BenchCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            BenchCommand::Dump(dump) => dump.run(),
            BenchCommand::Graph(graph) => graph.run(),
            BenchCommand::Mailbox(mailbox) => mailbox.run(),
            BenchCommand::Read(read) => read.run(),
            BenchCommand::Recorder(recorder) => recorder.run(),
            BenchCommand::Recording(recording) => recording.run(),
            BenchCommand::Start(start) => start.run(),
            BenchCommand::Virtual(bench) => bench.run(),
        }
    }
}

/// Processor time of this process so far, in nanoseconds.
fn cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

/// Processor time of the process once its other threads have gone to sleep: the system counts what a thread has used only
/// when the thread is switched out. So this rests for a moment, too short for the caches to lose what they hold.
fn cpu_at_rest() -> u64 {
    std::thread::sleep(std::time::Duration::from_micros(300));
    cpu_ns()
}

/// Processor time of this thread so far, in nanoseconds.
fn thread_cpu_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The most memory this process has had resident so far.
fn peak_rss_bytes() -> u64 {
    peak_rss_of(None)
}

/// The most memory that process `pid`, or this one, has had resident so far; 0 if it is gone.
fn peak_rss_of(pid: Option<u32>) -> u64 {
    let who = pid.map_or("self".to_owned(), |pid| pid.to_string());
    let status = std::fs::read_to_string(format!("/proc/{who}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) * 1024
}
