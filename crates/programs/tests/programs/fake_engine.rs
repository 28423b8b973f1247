//! An engine is a seam: one that is made up here, in one file, runs every program, streamed and prebuilt, recorded and not.
//!
//! It has one agent, which is the caller, and no thread.
#![allow(clippy::unwrap_used)]

use plimsoll_collect::Drive;
use plimsoll_platform::{CoreClass, Host};
use plimsoll_probe::{Off, Probe};
use plimsoll_programs::{ALL, Settings};
use plimsoll_runtime::abi::region::ClockSource;
use plimsoll_runtime::abi::{AgentId, Flags, RINGS};
use plimsoll_runtime::engine::{Engine, EngineFacts, EngineOrder, Lead, Round, RoundOutcome};
use plimsoll_runtime::{Device, RecordOptions, Result, RunOptions, WorkerReport};
use plimsoll_sched::ring::Capacity;
use plimsoll_sched::{Agent, Books, Shared};
use plimsoll_trace::{Manifest, Status};
use std::sync::Arc;

const ALONE: AgentId = AgentId(0);

struct Alone {
    shared: Arc<Shared>,
    platform: Host,
    books: Option<Books>,
}

impl Alone {
    fn open(order: &EngineOrder) -> Result<Box<dyn Engine>> {
        let shared = Arc::new(Shared::new(1, order.capacities.rings).unwrap());
        Ok(Box::new(Self { shared, platform: Host::new(1), books: None }))
    }

    fn round<B: Probe>(&mut self, probe: &B, round: &Round<'_>, lead: Lead<'_>) -> Result<RoundOutcome> {
        let shared = Arc::clone(lead.open(&self.shared));
        let lane = round.count.lane(probe, ALONE);
        let mut agent = Agent::new(&shared, &self.platform, round.kernels, round.board, lane, ALONE);
        agent.resume_tokens(round.count.last_token(ALONE.index()));
        let led = lead.run(agent, round, &mut self.books, |_| (), |_, _| ())?;
        round.count.keep_token(ALONE.index(), led.token);
        let worker = WorkerReport { tasks: shared.done.total(), busy_ns: led.busy_ticks };
        Ok(RoundOutcome::new(led, vec![worker], shared.done.total(), |ticks| ticks))
    }
}

// SAFETY: there is no thread but the caller's, and `round` returns when the lead has.
unsafe impl Engine for Alone {
    fn facts(&self) -> EngineFacts {
        EngineFacts {
            engine: "alone",
            arch: "none",
            virtual_time: false,
            emulated: false,
            agents: EngineFacts::agents(1, "nobody"),
            cores: vec![(CoreClass::Any, 0)],
            clock_hz: self.platform.clock().hz(),
            host_mapped: true,
            clock_source: ClockSource::CpuCounter,
        }
    }

    fn workers(&self) -> usize {
        1
    }

    fn share(&self, rings: [Capacity; RINGS]) -> std::io::Result<Shared> {
        Shared::new(1, rings)
    }

    fn drive(&self) -> Drive {
        Drive::Thread
    }

    fn clock_pair(&self, elapsed_ns: u64) -> (u64, u64) {
        (self.platform.clock().ticks(), elapsed_ns)
    }

    fn run(&mut self, round: &Round<'_>, lead: Lead<'_>) -> Result<RoundOutcome> {
        match round.session {
            Some(session) => {
                self.round(&session.probe(plimsoll_platform::Platform::world(&self.platform, ALONE)), round, lead)
            }
            None => self.round(&Off, round, lead),
        }
    }
}

#[test]
fn an_engine_that_is_made_up_runs_every_program() {
    for program in ALL.iter().filter(|program| !program.fault) {
        let name = program.name;
        let settings = Settings::new(program.params, std::iter::empty()).unwrap();
        let mut device = Device::builder().open_on(Alone::open).unwrap();
        let instance = (program.build)(&mut device, &settings).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let record = RecordOptions::new(dir.path().join(name), Flags::CORE_TIMING);
        let recorded = RunOptions { record: Some(record), ..RunOptions::default() };
        for options in [RunOptions::default(), recorded] {
            device.run_rounds(&options, 2, |_, o| instance.reset().and_then(|()| instance.orchestrate(o))).unwrap();
            let verdict = instance.verify().unwrap();
            assert!(verdict.verified, "{name}: {}", verdict.detail);
        }
        let tasks = device.report().tasks;
        let manifest = Manifest::read(&dir.path().join(name)).unwrap();
        assert_eq!((manifest.engine.as_str(), manifest.status, manifest.rounds), ("alone", Status::Ok, 2), "{name}");
        assert!(manifest.reconcile.unwrap().lossless, "{name}");
        instance.reset().unwrap();
        let mut graph = device.prebuild(|o| instance.orchestrate(o)).unwrap();
        device.launch(&mut graph, 1, &RunOptions::default()).unwrap();
        let verdict = instance.verify().unwrap();
        assert!(verdict.verified && 2 * device.report().tasks == tasks, "{name}, prebuilt: {}", verdict.detail);
    }
}
