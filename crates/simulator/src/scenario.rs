//! What a seed decides: the program, the device, its rings, what goes wrong.

use crate::program::{self, ProgramSize, SimulatedProgram};
use plimsoll_abi::{Flags, RINGS};
use plimsoll_runtime::{
    ArchSpec, BufferSizes, Capacities, Costs, Faults, Hang, KernelCost, Pause, Policy, Random, VirtualOptions, Who,
};
use std::time::Duration;

/// One seed's run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The program.
    pub program: SimulatedProgram,
    /// The device.
    pub device: VirtualOptions,
    /// Workers, on arch host.
    pub workers: Option<usize>,
    /// Its rings.
    pub capacities: Capacities,
    /// Whether dependency entries may run out, which the model does not tell.
    pub tight_deps: bool,
    /// What is recorded.
    pub flags: Flags,
    /// Sizes of the recorder's pools.
    pub sizes: BufferSizes,
    /// What a producer does that finds no buffer.
    pub policy: Policy,
    /// The end of the run in virtual time, if it has one.
    pub deadline: Option<Duration>,
}

impl Scenario {
    /// The run of this seed.
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let random = &mut random;
        let size = ProgramSize { tasks: random.between(1, 90) as usize, depth: random.below(7) as usize };
        let mut program = program::draw(random, size);
        if random.once_in(5) && program.tasks > 0 {
            let task = random.below(program.tasks as u64) as usize;
            program.fail(task);
        }
        let (mut device, workers) = draw_device(random, seed);
        let agents = workers.unwrap_or(1 + device.arch.sched_threads as usize);
        let cores = workers.unwrap_or(device.arch.cores() as usize);
        device.faults = draw_faults(random, agents, cores);
        let (capacities, tight_deps) = draw_capacities(random);
        let everything = Flags::NONE.with(Flags::ORCH_PHASES).with(Flags::SCOPE_STATS).with(Flags::DEP_GEN);
        let one_buffer = random.once_in(3);
        let sizes = BufferSizes {
            buffers: Some(if one_buffer { 1 } else { random.between(2, 5) as u32 }),
            records: Some(random.between(1, 12) as u32),
        };
        let policy = if random.once_in(6) { Policy::Drop } else { Policy::Block };
        let deadline = random.once_in(12).then(|| Duration::from_nanos(random.between(1, 200_000)));
        device.orch_to_sched = workers.is_none() && random.once_in(2);
        Self { program, device, workers, capacities, tight_deps, flags: everything, sizes, policy, deadline }
    }
}

pub(crate) fn draw_device(random: &mut Random, seed: u64) -> (VirtualOptions, Option<usize>) {
    let costs = Costs {
        submit_ns: random.between(0, 800),
        dispatch_ns: random.between(0, 400),
        complete_ns: random.between(0, 400),
        handover_ns: random.between(0, 800),
        wake_ns: random.between(0, 300),
        collect_ns: random.between(0, 20_000),
        kernel_ns: random.between(0, 3_000),
        element_ps: random.between(0, 20_000),
    };
    let on_host = random.once_in(2);
    let arch = if on_host {
        ArchSpec { costs, ..ArchSpec::HOST }
    } else {
        let clusters = random.between(1, 4) as u32;
        let sched_threads = random.between(1, 3) as u32;
        let base = if random.once_in(2) { ArchSpec::A2A3 } else { ArchSpec::A5 };
        ArchSpec { clusters, sched_threads, costs, ..base }
    };
    let mut options = VirtualOptions::new(&arch, seed);
    if random.once_in(2) {
        let cost = match random.below(2) {
            0 => KernelCost::Uniform { low_ns: 0, high_ns: random.between(1, 20_000) },
            _ => KernelCost::Normal { mean_ns: random.between(0, 5_000), deviation_ns: random.between(0, 2_000) },
        };
        options.costs.set_default(cost);
    }
    (options, on_host.then(|| random.between(1, 5) as usize))
}

fn draw_faults(random: &mut Random, agents: usize, cores: usize) -> Faults {
    let mut faults = Faults { poison: true, ..Faults::default() };
    if random.once_in(2) {
        faults.jitter_percent = random.between(1, 80);
    }
    if random.once_in(2) {
        faults.preempt_ns = random.between(1, 3_000);
    }
    for _ in 0..random.below(3) {
        let who = match random.below(3) {
            0 => Who::Collector,
            _ => Who::Agent(random.below(agents as u64) as u16),
        };
        let from_ns = random.below(60_000);
        faults.pauses.push(Pause { who, from_ns, to_ns: from_ns + random.between(1, 400_000) });
    }
    if random.once_in(10) {
        faults.hang = Some(Hang { core: random.below(cores as u64) as u16, execution: random.between(1, 20) as u32 });
    }
    faults
}

/// Rings that are roomy, small or tiny, and whether dependency pools are too.
fn draw_capacities(random: &mut Random) -> (Capacities, bool) {
    let mut capacities = Capacities::default();
    let kind = random.below(3);
    for ring in 0..RINGS {
        let ring = &mut capacities.rings[ring];
        let (window, lines) = match kind {
            0 => (7, 2048),
            1 => (random.between(3, 6), random.between(8, 256)),
            _ => (random.below(5), random.between(1, 64)),
        };
        ring.window = 1 << window;
        ring.heap = 64 * lines;
        ring.dep_pool = 4096;
    }
    capacities.tensormap = 4096;
    if random.once_in(3) {
        capacities.tensormap = random.between(1, 120) as u32;
    }
    let tight_deps = random.once_in(6);
    if tight_deps {
        for ring in &mut capacities.rings {
            ring.dep_pool = random.between(1, 40) as u32;
        }
    }
    (capacities, tight_deps)
}
