//! Counters of a thread: Linux perf events, or `getrusage` where they are refused.
//!
//! What a run counts is chosen once, before it starts, on the calling thread ([`CounterChoice::make`]); every thread that executes
//! tasks then opens the chosen group for itself ([`open`]). So all readings of a run are of one group.

#[cfg(feature = "perf")]
mod perf;
mod rusage;

use plimsoll_abi::CounterGroup;
use plimsoll_shm::ThreadCounters;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::io;

/// What a run counts, and why that is not what was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterChoice {
    /// The group that was asked for.
    pub asked: CounterGroup,
    /// The group that is counted.
    pub group: CounterGroup,
    /// Why another group is counted, in whole sentences.
    pub note: Option<String>,
}

impl CounterChoice {
    /// Chooses `asked` if this thread can open it, else the software group, else `getrusage`; this also where so many threads may not
    /// open as many files as they need.
    pub fn make(asked: CounterGroup, threads: usize) -> Self {
        Self::by(asked, |group| open_perf(group).map(drop)).within(threads, files_left())
    }

    /// The choice in virtual time: always the virtual group, because no thread executes anything that it could count.
    pub fn in_virtual_time(asked: CounterGroup) -> Self {
        let note = (asked != CounterGroup::Virtual).then(|| {
            let named = asked.name();
            format!("Virtual time has no `{named}` counters. What its cost table charges by is counted instead: elements and bytes of the arguments.")
        });
        Self { asked, group: CounterGroup::Virtual, note }
    }

    /// The same choice, if `threads` that open a file for each counter get along with `left`.
    fn within(self, threads: usize, left: u64) -> Self {
        // Every thread holds what it opens until the run ends.
        let needed = threads as u64 * self.group.counters().len() as u64;
        if self.group == CounterGroup::Rusage || needed <= left {
            return self;
        }
        let note = format!(
            "{threads} threads would open {needed} files for the group `{}`, and this process may open {left} more. The group `rusage` \
             is counted instead: what getrusage says of a thread. Allow the process more open files (`ulimit -n`).",
            self.group.name()
        );
        Self { group: CounterGroup::Rusage, note: Some(note), ..self }
    }

    fn by(asked: CounterGroup, try_perf: impl Fn(CounterGroup) -> io::Result<()>) -> Self {
        if asked == CounterGroup::Rusage {
            return Self { asked, group: asked, note: None };
        }
        let Err(error) = try_perf(asked) else { return Self { asked, group: asked, note: None } };
        let named = asked.name();
        if asked != CounterGroup::Software && try_perf(CounterGroup::Software).is_ok() {
            let why = if is_missing(&error) { "This machine has no" } else { "The system refuses" };
            let note = format!(
                "{why} hardware counters for the group `{named}` ({error}). The group `software` is counted instead."
            );
            return Self { asked, group: CounterGroup::Software, note: Some(note) };
        }
        let note = format!(
            "The system refuses perf events for the group `{named}` ({error}). The group `rusage` is counted instead: what getrusage \
             says of a thread. kernel.perf_event_paranoid at 1 or less, or the capability CAP_PERFMON, would allow them."
        );
        Self { asked, group: CounterGroup::Rusage, note: Some(note) }
    }
}

/// How many files this process may still open, with some for what it opens besides.
fn files_left() -> u64 {
    const BESIDES: u64 = 64;
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).saturating_sub(open + BESIDES)
}

/// Whether an error says that there is no such counter, rather than that nobody may use it.
fn is_missing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP | Errno::INVAL))
}

/// Opens a group for the calling thread; none if the system does not give it.
pub fn open(group: CounterGroup) -> Option<Box<dyn ThreadCounters>> {
    match group {
        CounterGroup::Virtual => None,
        CounterGroup::Rusage => Some(Box::new(rusage::RusageCounters)),
        _ => open_perf(group).ok(),
    }
}

/// What the two readings around an execution cost this thread, in nanoseconds of CPU time: the least of many turns. None if the
/// group cannot be read.
pub fn reading_cost_ns(group: CounterGroup) -> Option<f64> {
    const PAIRS: u32 = 200;
    let mut counters = open(group)?;
    let cpu_ns = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    let mut turn = || {
        let before = cpu_ns();
        for _ in 0..2 * PAIRS {
            std::hint::black_box(counters.read());
        }
        (cpu_ns() - before) / f64::from(PAIRS)
    };
    Some((0..40).map(|_| turn()).fold(f64::INFINITY, f64::min))
}

#[cfg(feature = "perf")]
fn open_perf(group: CounterGroup) -> io::Result<Box<dyn ThreadCounters>> {
    Ok(Box::new(perf::PerfGroup::open(group)?))
}

#[cfg(not(feature = "perf"))]
fn open_perf(_: CounterGroup) -> io::Result<Box<dyn ThreadCounters>> {
    Err(io::Error::other("this build of the library was made without the feature `perf`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusing(kind: i32, software: bool) -> impl Fn(CounterGroup) -> io::Result<()> {
        move |group| match group {
            CounterGroup::Software if software => Ok(()),
            _ => Err(io::Error::from_raw_os_error(kind)),
        }
    }

    #[test]
    fn a_machine_without_hardware_counters_counts_the_software_group_and_says_so() {
        for asked in [CounterGroup::Cycles, CounterGroup::Cache, CounterGroup::Branches] {
            let choice = CounterChoice::by(asked, refusing(libc::ENOENT, true));
            let note = choice.note.expect("it says so");
            assert_eq!((choice.asked, choice.group), (asked, CounterGroup::Software));
            assert!(note.starts_with("This machine has no hardware counters") && note.contains(asked.name()), "{note}");
        }
    }

    #[test]
    fn where_perf_events_are_refused_getrusage_is_read_and_that_is_said() {
        for asked in [CounterGroup::Cycles, CounterGroup::Software] {
            let choice = CounterChoice::by(asked, refusing(libc::EACCES, false));
            let note = choice.note.expect("it says so");
            assert_eq!(choice.group, CounterGroup::Rusage);
            assert!(note.contains("getrusage") && note.contains("perf_event_paranoid"), "{note}");
        }
        let asked = CounterChoice::by(CounterGroup::Rusage, refusing(libc::EACCES, false));
        assert_eq!((asked.group, asked.note), (CounterGroup::Rusage, None), "what is asked for needs no note");
    }

    #[test]
    fn what_is_given_is_counted_without_a_note() {
        for asked in [CounterGroup::Cycles, CounterGroup::Software] {
            let choice = CounterChoice::by(asked, |_| Ok(()));
            assert_eq!((choice.group, choice.note), (asked, None));
        }
    }

    #[test]
    fn threads_that_may_not_open_enough_files_read_getrusage_and_that_is_said() {
        let choice = |asked| CounterChoice::by(asked, |_| Ok(()));
        let each = CounterGroup::Software.counters().len() as u64;
        assert_eq!(choice(CounterGroup::Software).within(100, 100 * each).note, None);
        let fewer = choice(CounterGroup::Software).within(100, 100 * each - 1);
        let note = fewer.note.expect("it says so");
        assert_eq!((fewer.asked, fewer.group), (CounterGroup::Software, CounterGroup::Rusage));
        assert!(note.contains(&format!("open {} files", 100 * each)) && note.contains("ulimit -n"), "{note}");
        assert_eq!(choice(CounterGroup::Rusage).within(100, 0).note, None);
    }

    /// Burns CPU time of this thread, and touches pages that nobody has touched.
    fn work() -> u64 {
        let mut pages = plimsoll_shm::mapped::Mapped::<u64>::zeroed(1 << 19).expect("four megabytes");
        pages.iter_mut().for_each(|word| *word = std::hint::black_box(1));
        pages.iter().sum()
    }

    #[test]
    fn counters_of_a_thread_count_up() {
        for asked in CounterGroup::ALL {
            let choice = CounterChoice::make(asked, 1);
            if asked == CounterGroup::Virtual {
                continue;
            }
            let mut counters = open(choice.group).expect("what was chosen can be opened");
            let before = counters.read().expect("readable");
            std::hint::black_box(work());
            let after = counters.read().expect("readable");
            assert!(after.counts[0] > before.counts[0], "{asked:?}: cycles or CPU time: {before:?} {after:?}");
            let unused = choice.group.counters().len()..CounterGroup::MOST;
            assert!(after.counts[unused].iter().all(|count| *count == 0));
        }
    }

    #[test]
    fn the_pages_that_a_thread_touches_first_are_faults() {
        for group in [CounterChoice::make(CounterGroup::Software, 1).group, CounterGroup::Rusage] {
            let mut counters = open(group).expect("what was chosen can be opened");
            let before = counters.read().expect("readable");
            std::hint::black_box(work());
            let after = counters.read().expect("readable");
            assert!(after.counts[1] > before.counts[1], "{group:?}: {before:?} {after:?}");
        }
    }
}
