//! What ended a run or holds it up, as `plimsoll explain` says it and `run.json` of a run that did not end well carries it.

use serde::{Deserialize, Serialize};

/// The class of a run's end, or of its present state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndClass {
    /// A kernel does not end, and nothing else moves.
    RunningStalled,
    /// Tasks are ready and nobody takes them.
    ReadyButIdle,
    /// Tasks wait, and nothing that could release them runs or is ready.
    DependencyDeadlock,
    /// The orchestration does not go on, and there is nothing else to do.
    OrchestratorStarved,
    /// What holds the run up cannot be told.
    #[default]
    Unknown,
    /// It ended well.
    Ok,
    /// It goes on.
    Running,
    /// Open scopes hold what the next submit needs.
    CapacityDeadlock,
    /// It ended with an error.
    Failed,
    /// A signal ended it.
    Interrupted,
    /// It was killed.
    Killed,
    /// Its device, or what recorded it, was lost.
    Lost,
}

impl EndClass {
    /// All of them.
    pub const ALL: [EndClass; 12] = [
        EndClass::RunningStalled,
        EndClass::ReadyButIdle,
        EndClass::DependencyDeadlock,
        EndClass::OrchestratorStarved,
        EndClass::Unknown,
        EndClass::Ok,
        EndClass::Running,
        EndClass::CapacityDeadlock,
        EndClass::Failed,
        EndClass::Interrupted,
        EndClass::Killed,
        EndClass::Lost,
    ];

    /// As files and people spell it.
    pub const fn name(self) -> &'static str {
        match self {
            EndClass::RunningStalled => "running-stalled",
            EndClass::ReadyButIdle => "ready-but-idle",
            EndClass::DependencyDeadlock => "dependency-deadlock",
            EndClass::OrchestratorStarved => "orchestrator-starved",
            EndClass::Unknown => "unknown",
            EndClass::Ok => "ok",
            EndClass::Running => "running",
            EndClass::CapacityDeadlock => "capacity-deadlock",
            EndClass::Failed => "failed",
            EndClass::Interrupted => "interrupted",
            EndClass::Killed => "killed",
            EndClass::Lost => "lost",
        }
    }

    /// Whether it is one of the five classes of a run in which nothing moves.
    pub const fn is_stall(self) -> bool {
        matches!(
            self,
            EndClass::RunningStalled
                | EndClass::ReadyButIdle
                | EndClass::DependencyDeadlock
                | EndClass::OrchestratorStarved
                | EndClass::Unknown
        )
    }
}

/// An explanation: what happened, who waits for whom, what to try.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Explanation {
    /// What ended the run or what it is doing, in words.
    pub verdict: String,
    /// The class of that end or state.
    pub class: EndClass,
    /// The one thing that everything waits for in the end.
    pub blocker: Blocker,
    /// From whoever waits to the blocker.
    pub chain: Vec<ChainLink>,
    /// Whether the chain leads back to where it begins: nothing outside of it can end the wait.
    pub closed: bool,
    /// Tasks that wait for others, as far as that is known.
    pub waiting: Option<u64>,
    /// Tasks that others wait for, and that wait for none themselves.
    pub roots: Option<u64>,
    /// Tasks that wait for none and do not run, as far as that is known.
    pub ready: Option<u64>,
    /// The tasks that wait, by kernel and scope, the largest group first.
    pub groups: Vec<WaitGroup>,
    /// Whether all of this is certain.
    pub certain: bool,
    /// What is not certain, a sentence each.
    pub unsure: Vec<String>,
    /// What to try, with flags or calls.
    #[serde(rename = "try")]
    pub advice: Vec<String>,
}

impl Explanation {
    /// Puts every text through `wording`, which has other names for calls of the library.
    pub fn reword(&mut self, wording: impl Fn(&str) -> String) {
        let texts = self.unsure.iter_mut().chain(&mut self.advice).chain(std::iter::once(&mut self.verdict));
        texts.for_each(|text| *text = wording(text));
        // Advice that has no words there is none.
        self.advice.retain(|advice| !advice.is_empty());
    }
}

/// What everything waits for in the end. Absent: unknown, or there is none.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Blocker {
    /// The task, as `r2t17`.
    pub task: Option<String>,
    /// Its kernel.
    pub kernel: Option<String>,
    /// The core that it is on.
    pub core: Option<u16>,
    /// The scope's source site, as `file:line`.
    pub site: Option<String>,
    /// The ring.
    pub ring: Option<u8>,
    /// The resource.
    pub resource: Option<String>,
    /// For how long it has been as it is, in nanoseconds.
    pub since_ns: Option<u64>,
    /// The task's arguments, one text each.
    pub arguments: Vec<String>,
}

/// One link of a chain: somebody, and what it waits for or why the others wait for it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ChainLink {
    /// Who or what: `orchestrator`, `task`, `ring`, `scope`, or `more` for links that are left out.
    pub what: String,
    /// How it is called: `task r1t501 (add)`.
    pub name: String,
    /// What it does: `waits for`, `runs on worker 1`.
    pub does: String,
    /// The task, if it is one.
    pub task: Option<String>,
    /// How many links are left out here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
}

/// Tasks of one kernel and scope that wait.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitGroup {
    /// The kernel; none for tasks without one.
    pub kernel: Option<String>,
    /// The scope's source site; none if scopes were not recorded.
    pub site: Option<String>,
    /// How many tasks of the group wait.
    pub tasks: u64,
    /// The first of them.
    pub first: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_spelled_in_files_as_they_are_named() {
        for class in EndClass::ALL {
            assert_eq!(serde_json::to_value(class).expect("a text"), class.name());
        }
    }

    #[test]
    fn an_explanation_has_its_fields_by_name() {
        let object = serde_json::to_value(Explanation::default()).expect("an object");
        for field in ["verdict", "class", "blocker", "chain", "groups", "certain", "try"] {
            assert!(object.get(field).is_some(), "{field}");
        }
        for field in ["task", "kernel", "core", "site", "ring", "resource"] {
            assert!(object["blocker"].get(field).is_some_and(serde_json::Value::is_null), "{field}");
        }
    }

    #[test]
    fn advice_without_words_is_dropped() {
        let advice = ["Call `x`.", "Set `y`."].map(str::to_owned).to_vec();
        let mut explanation = Explanation { advice, ..Explanation::default() };
        explanation.reword(|text| if text.contains("`x`") { String::new() } else { text.replace("`y`", "--y") });
        assert_eq!(explanation.advice, ["Set --y."]);
    }
}
