//! `fault-deadline`: a run that has less time than its tasks take. They form a chain, so that more workers do not help.

use super::tally::Tally;
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{
    CancelToken, Device, InOut, Kernel, Orchestrator, Result, RunOptions, SharedBuffer, Tensor, inout, scalar,
};
use plimsoll_runtime::{ReadWrite, Value};
use std::time::Duration;

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-deadline",
    about: "code 23: the run is still going at its deadline",
    params: &[
        ProgramSetting::new("tasks", 100, 1, 10_000, "tasks, one after the other"),
        ProgramSetting::new("nap-ms", 5, 0, 10_000, "time that each takes"),
        ProgramSetting::new(
            "deadline-ms",
            100,
            0,
            3_600_000,
            "time that the run has; 0 is no limit, and then it passes",
        ),
        ProgramSetting::new("cancel-at", 0, 0, 10_000, "the task, from 1, that cancels the run (code 22); 0 is none"),
        ProgramSetting::new(
            "interrupt-at",
            0,
            0,
            10_000,
            "the task, from 1, that ends it as a signal does (code 114); 0 is none",
        ),
    ],
    fault: true,
    build,
};

/// A chain of tasks that do nothing but take time, and count.
pub(super) struct Naps {
    tasks: usize,
    ms: usize,
    nap: Kernel<(Value<i64>, ReadWrite<i64>)>,
    pub(super) count: SharedBuffer<i64>,
}

impl Naps {
    /// With `end`, the task with that number, from 1, ends the run in that way by that token.
    pub(super) fn new(
        device: &mut Device,
        settings: &Settings,
        end: Option<(usize, fn(&CancelToken), CancelToken)>,
    ) -> Self {
        let tally = Tally::from_env();
        let nap = device.kernel("nap", move |ms: i64, mut count: InOut<i64>| {
            std::thread::sleep(Duration::from_millis(ms as u64));
            count[[0]] += 1;
            if let Some((_, end, token)) = end.as_ref().filter(|(at, ..)| count[[0]] == *at as i64) {
                end(token);
            }
            tally.count();
        });
        Self { tasks: settings.get("tasks"), ms: settings.get("nap-ms"), nap, count: SharedBuffer::new(vec![0]) }
    }

    pub(super) fn share<'s>(&self, o: &mut Orchestrator<'s, '_>) -> Result<Tensor<'s, i64>> {
        o.share(&self.count, [1])
    }

    pub(super) fn submit(&self, o: &mut Orchestrator<'_, '_>, count: &Tensor<'_, i64>) -> Result<()> {
        for _ in 0..self.tasks {
            o.submit(&self.nap, (scalar(self.ms as i64), inout(count)))?;
        }
        Ok(())
    }

    pub(super) fn reset(&self) -> Result<()> {
        self.count.with(|count| count[0] = 0)
    }

    pub(super) fn verify(&self) -> Result<Verdict> {
        Ok(Verdict::equal(&self.count.to_vec()?, &[self.tasks as i64]))
    }

    pub(super) fn spoil(&self) -> Result<()> {
        self.count.with(|count| count[0] += 1)
    }
}

struct Deadline {
    deadline: Option<Duration>,
    cancel: Option<CancelToken>,
    naps: Naps,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let deadline = settings.get("deadline-ms") as u64;
    let deadline = (deadline > 0).then(|| Duration::from_millis(deadline));
    let ways: [(&str, fn(&CancelToken)); 2] =
        [("cancel-at", CancelToken::cancel), ("interrupt-at", CancelToken::interrupt)];
    let way = ways.into_iter().map(|(name, end)| (settings.get(name), end)).find(|(at, _)| *at > 0);
    let end = way.map(|(at, end)| (at, end, CancelToken::new()));
    let cancel = end.as_ref().map(|(.., token)| token.clone());
    let naps = Naps::new(device, settings, end);
    Ok(Box::new(Deadline { deadline, cancel, naps }))
}

impl Instance for Deadline {
    fn options(&self) -> RunOptions {
        RunOptions { deadline: self.deadline, cancel: self.cancel.clone(), ..RunOptions::default() }
    }

    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let count = self.naps.share(o)?;
        o.scope(|o| self.naps.submit(o, &count))
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.naps.count]
    }

    fn reset(&self) -> Result<()> {
        self.naps.reset()
    }

    fn verify(&self) -> Result<Verdict> {
        self.naps.verify()
    }

    fn spoil(&self) -> Result<()> {
        self.naps.spoil()
    }
}
