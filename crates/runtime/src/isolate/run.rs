//! Running a program by name: on this process's device, or on one in a process of its own.

use super::link::Link;
use super::message::{Answer, DumpOrder, HostOrder, RunOrder, class_of};
use super::program::{DeviceProgram, ProgramCall};
use super::watch;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::options::{RunOptions, check_rounds};
use crate::report::RunReport;
use plimsoll_abi::ErrorCode;
use plimsoll_collect::{Drive, Session};
use plimsoll_platform::CoreClass;
use plimsoll_sched::site::Site;
use plimsoll_shm::BoardLook;

impl Device {
    /// Runs a program by name: `program` itself, or, on a device in a process of its own, the one that is registered there by
    /// this name and built with the same settings. The content of the buffers that `program` declares goes there and comes
    /// back.
    ///
    /// # Errors
    /// Those of the program and of its tasks; [`InvalidArgs`](ErrorCode::InvalidArgs) if the device's process knows no such
    /// program, or builds it with other buffers; [`DeviceLost`](ErrorCode::DeviceLost) if that process ends.
    #[track_caller]
    pub fn run_program(
        &mut self,
        call: &ProgramCall<'_>,
        program: &dyn DeviceProgram,
        options: &RunOptions,
    ) -> Result<()> {
        // Not in a closure, whose caller would be the standard library.
        let caller = Site::caller();
        let site = options.site.unwrap_or(caller);
        if self.is_isolated() {
            return self.run_elsewhere(call, program, &RunOptions { site: Some(site), ..options.clone() });
        }
        if let Some(most) = call.prebuilt {
            let mut graph = match self.prebuild_at(site, most, options, |o| program.orchestrate(o)) {
                Ok(graph) => graph,
                // A graph that cannot be built is a run that failed, and leaves its directory like any other.
                Err(error) => return self.run_with(options, |_| Err(error)),
            };
            // Each round starts from the same data, so that the last one can be checked.
            return self.launch_rounds(&mut graph, call.rounds, options, |_| program.reset());
        }
        self.run_rounds(options, call.rounds, |round, o| {
            if round > 0 {
                program.reset()?;
            }
            program.orchestrate(o)
        })
    }

    fn run_elsewhere(
        &mut self,
        call: &ProgramCall<'_>,
        program: &dyn DeviceProgram,
        options: &RunOptions,
    ) -> Result<()> {
        check_rounds(call.rounds)?;
        self.set_report(RunReport::default());
        let kernels = self.build_elsewhere(call, program)?;
        self.count_run();
        let Some(record) = self.recording_of(options) else {
            let (outcome, lost) = self.order(call, program, options, None);
            self.end_if(lost);
            return outcome;
        };
        let mut recorder = self.start_recording(&record, Drive::Thread, Some(kernels))?;
        recorder.session().device_apart();
        let (tick, ns) = self.clock_pair(recorder.elapsed_ns());
        recorder.clock_pair(tick, ns);
        let (outcome, lost) = self.order(call, program, options, Some(recorder.session()));
        if lost {
            // Whoever was left behind may be in the middle of a record.
            recorder.session().device_lost();
        }
        let (tick, ns) = self.clock_pair(recorder.elapsed_ns());
        recorder.clock_pair(tick, ns);
        let outcome = self.conclude(recorder, Ok(outcome));
        self.end_if(lost);
        outcome
    }

    /// Ends the device's process if it has lost threads: they would go on there, and hold it up.
    fn end_if(&self, lost: bool) {
        if let Some(link) = self.link().ok().filter(|_| lost) {
            link.end();
        }
    }

    /// Has the program built in the device's process, and returns its kernels there.
    fn build_elsewhere(&self, call: &ProgramCall<'_>, program: &dyn DeviceProgram) -> Result<Vec<(String, CoreClass)>> {
        let link = self.link()?;
        link.check_alive()?;
        let order = HostOrder::Build { program: call.name.to_owned(), settings: call.settings.to_vec() };
        let (answer, _) = link.ask(&order, &[], None)?;
        let Answer::Built { kernels, buffers } = answer else { return Err(link.lost("it answered out of turn")) };
        let ours: Vec<usize> = program.buffers().iter().map(|buffer| buffer.len_bytes()).collect();
        if ours != buffers {
            return Err(Error::invalid(format!(
                "Program {} has buffers of {ours:?} bytes here and of {buffers:?} bytes in the device's process. They are copied from one to the other, so both must be alike. Build it with the same settings, and declare the same buffers.",
                call.name
            )));
        }
        Ok(kernels.into_iter().map(|(name, class)| (name, class_of(class))).collect())
    }

    /// Has the program run in the device's process, and takes over its report and its buffers. The second value says whether
    /// the process has lost threads.
    fn order(
        &mut self,
        call: &ProgramCall<'_>,
        program: &dyn DeviceProgram,
        options: &RunOptions,
        session: Option<&Session>,
    ) -> (Result<()>, bool) {
        let mut lost = false;
        (self.order_and_wait(call, program, options, session, &mut lost), lost)
    }

    fn order_and_wait(
        &mut self,
        call: &ProgramCall<'_>,
        program: &dyn DeviceProgram,
        options: &RunOptions,
        session: Option<&Session>,
        lost: &mut bool,
    ) -> Result<()> {
        let (mut bytes, buffers) = (Vec::new(), program.buffers());
        buffers.iter().try_for_each(|buffer| buffer.append_to(&mut bytes))?;
        let ns =
            |time: Option<std::time::Duration>| time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let order = HostOrder::Run(RunOrder {
            rounds: call.rounds,
            prebuilt: call.prebuilt,
            deadline_ns: ns(options.deadline),
            read_timeout_ns: ns(options.read_timeout),
            budgets_ns: [options.op_timeout, options.stall_timeout, options.orch_timeout].map(ns),
            stall_spares_kernels: options.stall_spares_kernels,
            notice_ns: options.notice.as_ref().and_then(|notice| ns(Some(notice.after))),
            region: session.map(|session| session.region_path().to_path_buf()),
            counters: session.and_then(Session::counters).unwrap_or_default().number(),
            dump: session.map(|session| DumpOrder::new(session.dump_plan())).unwrap_or_default(),
            site: options.site.map(|site| (site.file().to_owned(), site.line())),
        });
        let link = self.link()?;
        let voice = link.voice();
        let _word = options.cancel.as_ref().map(|token| {
            token.subscribe(move |failure, _| {
                // If the order cannot be sent, the process is gone, and whoever waits for an answer is told so.
                drop(voice.say(&HostOrder::Stop { code: failure.code.number() }, &[], None));
            })
        });
        let answered = watch::beside(link, options, || {
            let asked = link.ask(&order, &bytes, session.map(|session| session.region().descriptor()));
            last_answer(link, asked, options, session)
        });
        let (answer, bytes) = answered.inspect_err(|error| {
            if let Some(session) = session.filter(|_| error.code() == ErrorCode::DeviceLost || link.is_given_up()) {
                session.device_lost();
            }
        })?;
        let Answer::Ended { report, error, lost: left_behind, last_look } = answer else {
            return Err(link.lost("it answered out of turn"));
        };
        *lost = left_behind;
        let look = last_look.and_then(|bytes| BoardLook::from_bytes(&bytes));
        if let (Some(session), Some(look)) = (session, look) {
            session.board().keep(look);
        }
        if !left_behind {
            let mut rest = bytes.as_slice();
            for buffer in buffers {
                let (content, behind) = rest.split_at_checked(buffer.len_bytes()).unwrap_or_default();
                buffer.fill_from(content)?;
                rest = behind;
            }
        }
        self.set_report(report.run());
        error.map_or(Ok(()), |parts| Err(Error::from_parts(parts)))
    }
}

/// The answer that ends a run, after those that come while it goes on.
fn last_answer(
    link: &Link,
    mut answered: Result<(Answer, Vec<u8>)>,
    options: &RunOptions,
    session: Option<&Session>,
) -> Result<(Answer, Vec<u8>)> {
    loop {
        match &answered {
            Ok((Answer::Attached { base }, _)) => {
                if let Some(session) = session {
                    session.device_memory(link.pid(), *base);
                }
            }
            Ok((Answer::Still { state }, _)) => {
                if let Some(notice) = &options.notice {
                    (notice.tell)(state);
                }
            }
            _ => return answered,
        }
        answered = link.answer();
    }
}
