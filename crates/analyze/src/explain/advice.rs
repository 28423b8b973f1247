//! Three things to try, with calls of the library; the command knows the flags that stand for them.

use plimsoll_abi::TaskId;
use plimsoll_trace::{EndClass, Explanation, Liveness};

use super::Case;

impl Case<'_> {
    pub(super) fn advice(&self, told: &Explanation) -> Vec<String> {
        let mut advice = match self.class {
            EndClass::Ok => self.of_a_good_run(),
            EndClass::Running => self.of_a_live_run(),
            EndClass::RunningStalled => self.of_a_kernel(told),
            EndClass::ReadyButIdle => self.of_ready_tasks(),
            EndClass::DependencyDeadlock => vec![
                "Look at what the blocker waits for with `plimsoll deps`.".to_string(),
                "End the run by itself when nothing moves: `RunOptions::stall_timeout = Some(Duration::from_secs(5))`.".to_string(),
            ],
            EndClass::OrchestratorStarved => vec![
                self.stack_of(self.board.map_or(0, |board| board.orchestrator.thread), "the orchestrating thread"),
                "Give the orchestration a budget, so that the run ends by itself: `RunOptions::orch_timeout = Some(Duration::from_secs(10))`."
                    .to_string(),
                "Move what the orchestration computes into a kernel, so that it can submit meanwhile.".to_string(),
            ],
            EndClass::CapacityDeadlock => self.of_a_shortage(told),
            EndClass::Failed => self.of_an_error(),
            EndClass::Interrupted => vec![
                "Run again to get a result.".to_string(),
                "If it was too slow, `plimsoll explain` of a run that ended well says what cost most.".to_string(),
            ],
            EndClass::Killed => vec![
                self.of_its_last_records(),
                "If nobody killed it, the system may have: look for its out-of-memory killer with `dmesg`.".to_string(),
                "Keep kernels that crash in a process of their own: `EmulatedOptions::isolated`.".to_string(),
            ],
            EndClass::Lost => vec![
                "Open another device: nothing runs on this one any more.".to_string(),
                "Look at what was running, above, under a debugger.".to_string(),
                "Look for regions that were left: `plimsoll recover --list`.".to_string(),
            ],
            EndClass::Unknown => vec![
                "Look again in a while.".to_string(),
                "End the run by itself when nothing moves: `RunOptions::stall_timeout = Some(Duration::from_secs(5))`.".to_string(),
            ],
        };
        let missing = self.unfinished.is_none() && self.is_about_waiting();
        if missing && !matches!(self.class, EndClass::Interrupted | EndClass::Lost) {
            let wanted =
                if self.trace.facts.level == 0 { "`Flags::DEP_GEN` `Flags::CORE_TIMING`" } else { "`Flags::DEP_GEN`" };
            advice.truncate(2);
            advice.push(format!("Record who waits for whom: {wanted}."));
        }
        advice.truncate(3);
        advice
    }

    fn of_a_good_run(&self) -> Vec<String> {
        let found = crate::findings::costliest(self.trace);
        let commands = found.iter().map(|costly| format!("`{}`: {}.", costly.command, costly.what));
        commands.collect()
    }

    fn of_a_live_run(&self) -> Vec<String> {
        vec![
            "Look again: what has not changed meanwhile is what takes the time.".to_string(),
            "Give one kernel a budget, so that a run that hangs ends by itself: `RunOptions::op_timeout = Some(Duration::from_secs(10))`."
                .to_string(),
        ]
    }

    fn of_a_kernel(&self, told: &Explanation) -> Vec<String> {
        let kernel = told.blocker.kernel.as_deref().unwrap_or("that does not end");
        let run = self.board.into_iter().flat_map(|board| &board.running);
        let thread = run.into_iter().find(|of| Some(of.core) == told.blocker.core).map_or(0, |of| of.thread);
        let task = told.blocker.task.as_deref().unwrap_or_default();
        vec![
            self.stack_of(thread, &format!("kernel {kernel}")),
            "Give one kernel a budget, so that the run ends by itself: `RunOptions::op_timeout = Some(Duration::from_secs(10))`.".to_string(),
            format!("Capture what the kernel is given: `Flags::TENSOR_DUMP` `RecordOptions::dump_tasks = vec![\"{task}\".into()]`."),
        ]
    }

    fn of_ready_tasks(&self) -> Vec<String> {
        let between = self.board.and_then(|board| board.between);
        let mut advice: Vec<String> =
            between.iter().map(|of| self.stack_of(of.thread, &self.trace.agent_name(of.agent))).collect();
        advice.push(
            "End the run by itself when nothing moves: `RunOptions::stall_timeout = Some(Duration::from_secs(5))`."
                .to_string(),
        );
        advice.push(
            "Tasks that nobody takes are a defect of the runtime: keep the run's directory and report it.".to_string(),
        );
        advice
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
        advice.push("See what each scope holds with `plimsoll scopes`.".to_string());
        advice
    }

    fn of_an_error(&self) -> Vec<String> {
        let code = self.manifest.error.as_ref().map_or(0, |error| error.code);
        let mut advice = vec![format!("Read what the code means: `plimsoll explain --code {code}`.")];
        if let Some(task) = self.manifest.error.as_ref().and_then(|error| error.task.as_ref()) {
            advice.push(format!(
                "Capture what the kernel is given: `Flags::TENSOR_DUMP` `RecordOptions::dump_tasks = vec![\"{task}\".into()]`."
            ));
        }
        advice.push("See how far it came with `plimsoll stats`.".to_string());
        advice
    }

    /// What to do with the last records of a killed run: get them, or look at what ran at the end.
    fn of_its_last_records(&self) -> String {
        if self.trace.liveness == Liveness::NeedsRecovery {
            return "Get the last records out of the region: `plimsoll recover`.".to_string();
        }
        match self.board.and_then(|board| board.running.first()) {
            Some(last) => format!(
                "If a kernel crashed, begin with {}, which ran last: capture what it is given, `Flags::TENSOR_DUMP` `RecordOptions::dump_tasks = vec![\"{}\".into()]`.",
                self.kernel_name(last.kernel),
                TaskId::from_raw(last.task)
            ),
            None => "See how far it came with `plimsoll stats`; no kernel ran when it died.".to_string(),
        }
    }

    /// How to see where a thread stands: now if it lives, else next time.
    fn stack_of(&self, thread: u32, whose: &str) -> String {
        match self.outside {
            Some(outside) if thread > 0 => {
                format!(
                    "See where {whose} stands: `gdb -p {} -batch -ex 'thread apply all backtrace'` (thread {thread}).",
                    outside.pid
                )
            }
            _ => format!(
                "Look at what {whose} waits for; of a run that hangs, `plimsoll explain --pid` names its thread."
            ),
        }
    }
}
