//! Three things to try, with calls of the library; the command knows the flags that stand for them.
//!
//! Whatever stands in backticks can be pasted: it names this run's directory, does not repeat what the run was given, and is nothing
//! that its engine refuses.

use plimsoll_abi::{ErrorCode, Flags, TaskId};
use plimsoll_trace::{EndClass, Explanation, Liveness, Source, for_shell};

use super::Case;

/// How many things are told.
const THREE: usize = 3;

impl Case<'_> {
    pub(super) fn advice(&self, told: &Explanation) -> Vec<String> {
        let mut advice = match self.class {
            _ if self.is_stopped() => self.of_a_stopped_run(),
            EndClass::Ok => self.of_a_good_run(),
            EndClass::Running => self.of_a_live_run(),
            EndClass::RunningStalled => self.of_a_kernel(told),
            EndClass::ReadyButIdle => self.of_ready_tasks(),
            EndClass::DependencyDeadlock => {
                let mut advice =
                    vec![format!("Look at what the blocker waits for with `plimsoll deps {}`.", self.dir())];
                advice.extend(self.of_a_standstill());
                advice
            }
            EndClass::OrchestratorStarved => self.of_the_orchestration(),
            EndClass::CapacityDeadlock => self.of_a_shortage(told),
            EndClass::Failed => self.of_an_error(told),
            EndClass::Interrupted => self.of_an_interrupted_run(told),
            EndClass::Killed => self.of_a_killed_run(),
            EndClass::Lost => self.of_a_lost_device(told),
            EndClass::Unknown => {
                let mut advice = vec!["Look again in a while.".to_string()];
                advice.extend(self.of_a_standstill());
                advice
            }
        };
        let lacking = self.flags_lacking();
        let matters = self.is_about_waiting() && !matches!(self.class, EndClass::Interrupted | EndClass::Lost);
        if self.unfinished.is_none() && matters && !lacking.is_empty() {
            let name = |flag: &Flags| if *flag == Flags::DEP_GEN { "`Flags::DEP_GEN`" } else { "`Flags::CORE_TIMING`" };
            let wanted: Vec<&str> = lacking.iter().map(name).collect();
            advice.truncate(THREE - 1);
            advice.push(format!("Record who waits for whom: {}.", wanted.join(" ")));
        }
        let command = |advice: &str| advice.split('`').nth(1).map(str::to_owned);
        for more in self.of_any_run() {
            let is_told = advice.iter().any(|told| command(told) == command(&more));
            if advice.len() < THREE && !is_told {
                advice.push(more);
            }
        }
        advice.truncate(THREE);
        advice
    }

    /// What helps with every run, best first: it fills up where less is known.
    fn of_any_run(&self) -> Vec<String> {
        let dir = self.dir();
        let code = self.manifest.error.as_ref().map(|error| error.code);
        let meaning = code.map(|code| format!("Read what the code means: `plimsoll explain --code {code}`."));
        let looks = [
            format!("See how far it came with `plimsoll stats {dir}`."),
            format!("See what ran when on a page: `plimsoll report {dir}`."),
            format!("See whether records are missing: `plimsoll check {dir}`."),
        ];
        meaning.into_iter().chain(looks).collect()
    }

    fn of_a_good_run(&self) -> Vec<String> {
        let found = crate::findings::costliest(self.trace);
        let commands = found.iter().map(|costly| format!("`{} {}`: {}.", costly.command, self.dir(), costly.what));
        commands.collect()
    }

    fn of_a_stopped_run(&self) -> Vec<String> {
        let stopped = self.outside.into_iter().flat_map(super::Outside::stopped_pids);
        let pids: Vec<String> = stopped.map(|pid| pid.to_string()).collect();
        vec![format!("Let it go on: `kill -CONT {}`.", pids.join(" ")), self.look_again()]
    }

    fn look_again(&self) -> String {
        let again = "Look again: what has not changed meanwhile is what takes the time";
        format!("{again}, `plimsoll explain --live {}`.", self.dir())
    }

    fn of_a_live_run(&self) -> Vec<String> {
        let mut advice = vec![self.look_again()];
        if !self.manifest.virtual_time {
            advice.push(
                "Give one kernel a budget, so that a run that hangs ends by itself: `RunOptions::op_timeout = Some(parse_duration(\"10s\")?)`."
                    .to_string(),
            );
        }
        advice
    }

    fn of_a_kernel(&self, told: &Explanation) -> Vec<String> {
        let kernel = told.blocker.kernel.as_deref().unwrap_or("that does not end");
        let run = self.board.into_iter().flat_map(|board| &board.running);
        let thread = run.into_iter().find(|of| Some(of.core) == told.blocker.core).map_or(0, |of| of.thread);
        let mut advice = Vec::new();
        if self.manifest.virtual_time && self.manifest.error.is_some() {
            advice
                .push(format!("Give kernel {kernel} a cost that ends: in virtual time nothing else keeps it running."));
        } else if self.manifest.virtual_time {
            // A cost that never ends is found at once, so it is the kernel's own code that does not return.
            advice.push(self.stack_of(thread, &format!("kernel {kernel}")));
        } else {
            advice.push(self.stack_of(thread, &format!("kernel {kernel}")));
            let budget = "Give one kernel a budget, so that the run ends by itself";
            advice.extend(self.budget(budget, "op_timeout", "--op-timeout"));
        }
        advice.extend(told.blocker.task.as_deref().map(|task| self.capture(task)));
        advice
    }

    fn of_the_orchestration(&self) -> Vec<String> {
        let mut advice = Vec::new();
        if !self.manifest.virtual_time {
            let thread = self.board.map_or(0, |board| board.orchestrator.thread);
            advice.push(self.stack_of(thread, "the orchestrating thread"));
            let budget = "Give the orchestration a budget, so that the run ends by itself";
            advice.extend(self.budget(budget, "orch_timeout", "--orch-timeout"));
        }
        advice.push("Move what the orchestration computes into a kernel, so that it can submit meanwhile.".to_string());
        advice
    }

    fn of_ready_tasks(&self) -> Vec<String> {
        let between = self.board.and_then(|board| board.between).filter(|_| !self.manifest.virtual_time);
        let mut advice: Vec<String> =
            between.iter().map(|of| self.stack_of(of.thread, &self.trace.agent_name(of.agent))).collect();
        advice.extend(self.of_a_standstill());
        advice.push(
            "Tasks that nobody takes are a defect of the runtime: keep the run's directory and report it.".to_string(),
        );
        advice
    }

    /// A budget for runs in which nothing moves; nothing in virtual time, where that is found at once.
    fn of_a_standstill(&self) -> Option<String> {
        let budget = "End the run by itself when nothing moves";
        if self.manifest.virtual_time { None } else { self.budget(budget, "stall_timeout", "--stall-timeout") }
    }

    fn of_a_shortage(&self, told: &Explanation) -> Vec<String> {
        let mut advice = Vec::new();
        let words = self.manifest.error.as_ref().map_or("", |error| error.explanation.as_str());
        if let Some(call) = words.split('`').find(|part| part.starts_with("Capacities::")) {
            advice.push(format!("Enlarge it: `{call}`."));
        } else if let Some(at) = words.find("use --") {
            let flags: Vec<&str> = words[at + 4..].split(' ').take(2).collect();
            advice.push(format!("Enlarge it: {}.", flags.join(" ").trim_end_matches([',', '.'])));
        }
        let site = told.blocker.site.as_deref().unwrap_or("that holds it");
        advice.push(format!(
            "Split the scope opened at {site}, or open one per iteration: what it holds comes back when it ends."
        ));
        advice.push(format!("See what each scope holds with `plimsoll scopes {}`.", self.dir()));
        advice
    }

    fn of_an_error(&self, told: &Explanation) -> Vec<String> {
        let code = self.code();
        let mut advice = Vec::new();
        match code {
            Some(ErrorCode::HostGone) => {
                advice.push(
                    "Look at what stopped the collector: a thread of the command that drains the records; the device is well."
                        .to_string(),
                );
                advice.push(
                    "Give the collector longer before the run goes on without it: `RecordOptions::host_gone = parse_duration(\"60s\")?`."
                        .to_string(),
                );
                advice.push(format!("See which records are missing: `plimsoll check {}`.", self.dir()));
            }
            Some(ErrorCode::DiskFull) => {
                advice.push(format!(
                    "Free some space on the file system of {}, or record to a directory on another one.",
                    self.dir()
                ));
                advice.push(format!("See which records are missing: `plimsoll check {}`.", self.dir()));
            }
            _ => {
                advice.extend(
                    code.map(|code| format!("Read what the code means: `plimsoll explain --code {}`.", code.number())),
                );
                advice.extend(told.blocker.task.as_deref().map(|task| self.capture(task)));
            }
        }
        advice
    }

    fn of_an_interrupted_run(&self, told: &Explanation) -> Vec<String> {
        let mut advice = vec!["Run again to get a result.".to_string()];
        if let Some(task) = told.blocker.task.as_deref().filter(|_| self.manifest.left_behind > 0) {
            advice.push(self.capture(task));
        }
        advice.push(format!("If it was too slow, see what took the time until then: `plimsoll stats {}`.", self.dir()));
        advice
    }

    fn of_a_killed_run(&self) -> Vec<String> {
        let mut advice = vec![
            self.of_its_last_records(),
            "If nobody killed it, the system may have: look for its out-of-memory killer with `dmesg`.".to_string(),
        ];
        let isolated = self.manifest.device_pid.is_some() || self.manifest.virtual_time;
        // Nor does a region know whether its device had a process of its own.
        if !self.is_of_region() && !isolated {
            let engine = if self.manifest.emulated { "" } else { "`EngineKind::Emulated` " };
            advice.push(format!(
                "Keep kernels that crash in a process of their own: {engine}`EmulatedOptions::isolated`."
            ));
        }
        advice
    }

    fn of_a_lost_device(&self, told: &Explanation) -> Vec<String> {
        if self.code() != Some(ErrorCode::DeviceLost) {
            return vec![
                "Look for regions that were left: `plimsoll recover --list`.".to_string(),
                format!("See how far it came with `plimsoll stats {}`.", self.dir()),
            ];
        }
        let mut advice: Vec<String> = told.blocker.task.as_deref().map(|task| self.capture(task)).into_iter().collect();
        advice.push("Run it again: a device that is lost runs nothing any more, and another one works.".to_string());
        advice
    }

    /// What to do with the last records of a killed run: get them, or look at what ran at the end.
    fn of_its_last_records(&self) -> String {
        if self.never_began() {
            return "It was killed while it started, before anything ran: start it again.".to_string();
        }
        if self.trace.liveness == Liveness::NeedsRecovery {
            return format!("Get the last records out of the region: `plimsoll recover {}`.", self.dir());
        }
        match self.board.and_then(|board| self.suspect(board)) {
            Some(last) => format!(
                "If a kernel crashed, begin with {}, which ran last. {}",
                self.kernel_name(last.kernel),
                self.capture(&TaskId::from_raw(last.task).to_string())
            ),
            None => format!("See how far it came with `plimsoll stats {}`; no kernel ran when it died.", self.dir()),
        }
    }

    /// How to see what a task was given: look at what was captured, or capture it.
    fn capture(&self, task: &str) -> String {
        let flags = Flags::from_bits(self.manifest.flags);
        if flags.is_some_and(|flags| flags.has(Flags::TENSOR_DUMP)) {
            return format!("Look at what the kernel was given: `plimsoll args {} --task {task}`.", self.dir());
        }
        format!(
            "Capture what the kernel is given: `DumpRules::ALL` `RecordOptions::dump_tasks = vec![\"{task}\".into()]`."
        )
    }

    /// More of the budget that has ended the run. For a run that goes on: this budget if it has none, else more of it.
    fn budget(&self, why: &str, call: &str, flag: &str) -> Option<String> {
        let longer = |call: &str, more: String| {
            format!("If it only needs longer, allow for it: `RunOptions::{call} = Some(parse_duration(\"{more}\")?)`.")
        };
        if let Some(error) = &self.manifest.error {
            let used = error.budget.as_ref()?;
            let ms = used.ms.saturating_mul(10);
            return Some(longer(
                &used.option,
                if ms % 1000 == 0 { format!("{}s", ms / 1000) } else { format!("{ms}ms") },
            ));
        }
        let given = self.manifest.command.iter().position(|word| word == flag);
        let given = given.and_then(|at| self.manifest.command.get(at + 1));
        match given.or(self.given_with_equals(flag).as_ref()).and_then(|given| ten_times(given)) {
            Some(more) => Some(longer(call, more)),
            None => Some(format!("{why}: `RunOptions::{call} = Some(parse_duration(\"10s\")?)`.")),
        }
    }

    /// The value of a flag that was written as one word.
    fn given_with_equals(&self, flag: &str) -> Option<String> {
        let mut words = self.manifest.command.iter();
        words.find_map(|word| word.strip_prefix(flag)?.strip_prefix('=').map(str::to_owned))
    }

    fn code(&self) -> Option<ErrorCode> {
        ErrorCode::from_number(self.manifest.error.as_ref()?.code)
    }

    /// The run's directory, as commands take it.
    pub(super) fn dir(&self) -> String {
        match &self.trace.source {
            Source::Run(dir) => for_shell(dir),
            Source::Reference(files) => files.first().map_or(String::new(), for_shell),
        }
    }

    /// How to see where a thread stands: now if it lives, else next time.
    fn stack_of(&self, thread: u32, whose: &str) -> String {
        match self.outside {
            Some(outside) if thread > 0 => {
                format!(
                    "See where {whose} stands: `gdb -p {} -batch -ex 'thread apply all backtrace'` (thread {thread}).",
                    outside.worker().0
                )
            }
            _ => format!(
                "Look at what {whose} waits for; while a run hangs, `plimsoll explain --live {}` names its thread.",
                self.dir()
            ),
        }
    }
}

/// A time like `500ms`, ten times as long; none of what is no time, such as `off`.
fn ten_times(time: &str) -> Option<String> {
    let unit = time.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = time.split_at(unit);
    Some(format!("{}{unit}", number.parse::<u64>().ok()?.checked_mul(10)?))
}
