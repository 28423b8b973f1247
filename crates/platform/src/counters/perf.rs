//! A group of perf events of the calling thread, read with one call.

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter, Group, ReadFormat};
use plimsoll_abi::CounterGroup;
use plimsoll_shm::{CounterValues, ThreadCounters};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, IntoRawFd};

/// Words that the kernel gives before the counters of a group: how many counters there are, how long they were enabled, and
/// how long they did count.
const HEAD: usize = 3;
/// Words that the kernel gives for each counter: its count and its id.
const EACH: usize = 2;

/// Perf events of one thread that count together.
pub(super) struct PerfGroup {
    /// The first event, through which all are read.
    leader: File,
    /// The others: they count as long as they are open.
    _members: Vec<Counter>,
    events: usize,
}

impl PerfGroup {
    /// Opens a group for the calling thread, on whatever CPU that runs, and lets it count.
    pub(super) fn open(group: CounterGroup) -> io::Result<Self> {
        let builders: Vec<Builder<'static>> = match group {
            CounterGroup::Cycles => hardware(&[]),
            CounterGroup::Cache => hardware(&[Hardware::CACHE_REFERENCES, Hardware::CACHE_MISSES]),
            CounterGroup::Branches => hardware(&[Hardware::BRANCH_INSTRUCTIONS, Hardware::BRANCH_MISSES]),
            CounterGroup::Software => software(),
            CounterGroup::Rusage | CounterGroup::Virtual => Vec::new(),
        };
        let mut builders = builders.into_iter();
        let mut first = builders.next().ok_or(io::ErrorKind::Unsupported)?;
        first.read_format(ReadFormat::GROUP | ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
        let mut leader: Group = first.build_group()?;
        // The leader alone holds them back. Members that are off until the group is enabled count on some kernels (6.18) from the
        // next context switch on only.
        let members =
            builders.map(|mut builder| leader.add(builder.enabled(true))).collect::<io::Result<Vec<Counter>>>()?;
        leader.enable()?;
        // SAFETY: the descriptor is given up by its owner here, so the file is its only owner.
        let file = unsafe { File::from_raw_fd(leader.into_counter().into_raw_fd()) };
        let mut opened = Self { leader: file, events: 1 + members.len(), _members: members };
        opened.values()?;
        Ok(opened)
    }

    fn values(&mut self) -> io::Result<CounterValues> {
        let mut words = [0u64; HEAD + EACH * CounterGroup::MOST];
        let wanted = (HEAD + EACH * self.events) * 8;
        let read = self.leader.read(bytemuck::bytes_of_mut(&mut words))?;
        if read < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut counts = [0; CounterGroup::MOST];
        for (count, event) in counts.iter_mut().zip(words[HEAD..].chunks_exact(EACH)).take(self.events) {
            *count = event[0];
        }
        Ok(CounterValues { counts, wanted_ns: words[1], counted_ns: words[2] })
    }
}

/// Cycles and instructions, and these. In user mode: any user may count that, and the kernel is not what is asked about.
fn hardware(more: &[Hardware]) -> Vec<Builder<'static>> {
    let both = [Hardware::CPU_CYCLES, Hardware::INSTRUCTIONS];
    both.iter().chain(more).map(|&event| Builder::new(event)).collect()
}

/// What the kernel counts of a thread. Context switches happen in the kernel, so it is counted, too.
fn software() -> Vec<Builder<'static>> {
    let events = [Software::TASK_CLOCK, Software::PAGE_FAULTS, Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS];
    let builder = |event| {
        let mut builder = Builder::new(event);
        builder.include_kernel();
        builder
    };
    events.into_iter().map(builder).collect()
}

impl ThreadCounters for PerfGroup {
    fn read(&mut self) -> Option<CounterValues> {
        self.values().ok()
    }
}
