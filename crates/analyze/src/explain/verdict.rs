//! What ended a run or what it is doing, in a sentence or two.

use plimsoll_abi::TaskId;
use plimsoll_trace::{BoardFacts, EndClass, Explanation, Liveness, Status};

use super::Case;
use super::chain::seconds;

impl Case<'_> {
    pub(super) fn verdict(&self, told: &Explanation) -> String {
        let mut text = match &self.manifest.error {
            Some(error) => format!("{} ({}): {}", error.name, error.code, error.explanation),
            None => self.without_error(told),
        };
        if let (Some(waiting @ 1..), Some(roots)) = (told.waiting, told.roots) {
            let tasks = if waiting == 1 { "1 task waits".to_string() } else { format!("{waiting} tasks wait") };
            let roots = if roots == 1 { "1 root".to_string() } else { format!("{roots} roots") };
            text += &format!(" {tasks}, {roots}.");
            if let Some(ready @ 1..) = told.ready {
                text += &format!(" {ready} more could run.");
            }
        }
        text
    }

    fn without_error(&self, told: &Explanation) -> String {
        match self.class {
            EndClass::Ok => "The run ended well.".to_string(),
            EndClass::Killed => self.killed(),
            EndClass::Lost => format!(
                "The run's status is {}, and its region is gone: what its segments hold is all there is.",
                self.manifest.status.name()
            ),
            EndClass::Running => self.goes_on(),
            class if class.is_stall() || class == EndClass::CapacityDeadlock => self.stands(told),
            _ => format!("The run's status is {}.", self.manifest.status.name()),
        }
    }

    fn killed(&self) -> String {
        let or = match self.is_of_region() {
            _ if self.never_began() => " while it started",
            true => ", or it came to its end after the run's directory had been removed",
            false => "",
        };
        let how = match (self.manifest.status, self.trace.liveness) {
            (Status::Running, Liveness::NeedsRecovery) => {
                let (dir, gets) =
                    (self.dir(), if self.never_began() { "clears it away" } else { "gets its last records" });
                format!("The run's status is running; it was killed{or}. `plimsoll recover {dir}` {gets}.")
            }
            (status, _) => format!("The run's status is {}: its process was killed{or}.", status.name()),
        };
        let when = if self.is_of_region() { "At its end" } else { "When it died" };
        match self.board {
            Some(board) => format!("{how} {when}, {}.", self.scene(board)),
            None => how,
        }
    }

    fn goes_on(&self) -> String {
        let Some(board) = self.board else {
            return format!("{}The run is just starting: it has recorded nothing yet.", self.stopped());
        };
        let scene = self.scene(board);
        let stopped = self.stopped();
        match self.outside {
            _ if board.recorder_waits > 0 => format!("{stopped}The run waits for the recorder; {scene}."),
            Some(outside) if outside.worker().1 => format!("{stopped}Until then the run went on; {scene}."),
            Some(outside) if outside.moved => format!("{stopped}The run goes on; {scene}."),
            Some(_) => format!("{stopped}The run goes on, and nothing has begun or ended just now; {scene}."),
            None => format!("The run goes on; {scene}."),
        }
    }

    /// The verdict on a run that has not ended and does not move.
    fn stands(&self, told: &Explanation) -> String {
        let process = self.stopped();
        let since = self.still_ns().map_or(String::new(), |ns| format!(" for {}", seconds(ns)));
        let last = told.chain.last().map_or_else(
            || self.board.map_or("what holds it up is not known".into(), |board| self.scene(board)),
            |link| format!("{} {}", link.name, link.does),
        );
        format!("{process}Nothing has moved{since} ({}): {last}.", self.class.name())
    }

    /// Which processes are stopped, a sentence each.
    fn stopped(&self) -> String {
        let mut process = String::new();
        if let Some(outside) = self.outside.filter(|outside| outside.stopped) {
            process += &format!("Process {} is stopped. ", outside.pid);
        }
        if let Some(device) = self.outside.filter(|outside| outside.device_stopped).and_then(|of| of.device_pid) {
            process += &format!("Process {device}, the device's, is stopped. ");
        }
        process
    }

    /// What runs, and what the orchestrator does.
    fn scene(&self, board: &BoardFacts) -> String {
        let running = match &board.running[..] {
            [] => "no task runs".to_string(),
            [one] => self.one(one),
            [first, others @ ..] => {
                let first = self.suspect(board).unwrap_or(first);
                let more = if others.len() == 1 {
                    "1 other task".to_string()
                } else {
                    format!("{} other tasks", others.len())
                };
                format!("{}, beside {more}", self.one(first))
            }
        };
        let past = self.trace.liveness != Liveness::Alive;
        let running = if past { running.replace(" runs", " ran") } else { running };
        format!("{running}; the orchestrator {}", board.activity().words())
    }

    fn one(&self, of: &plimsoll_trace::RunningFacts) -> String {
        let (name, core) = (self.kernel_name(of.kernel), self.trace.core_name(of.core));
        let age = self.age_ns(of).map_or(String::new(), |ns| format!(" for {}", seconds(ns)));
        format!("kernel {name} of task {} runs on {core}{age}", TaskId::from_raw(of.task))
    }
}
