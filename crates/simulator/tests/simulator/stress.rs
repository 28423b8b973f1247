//! Cores behind mailboxes in real threads, with rings and recorder buffers that hardly hold anything: results equal the serial
//! ones, and every execution leaves exactly one record.
//!
//! The short form runs with the unit tests; `PLIMSOLL_STRESS_RUNS=5000 cargo test --release -p plimsoll-simulator --test simulator stress`
//! goes on for longer. A failure names its run.

#![allow(clippy::unwrap_used)]

use plimsoll_abi::record::Kind;
use plimsoll_abi::{CoreId, Flags};
use plimsoll_runtime::{
    ArchSpec, BufferSizes, Capacities, Device, EmulatedOptions, Random, RecordOptions, RunOptions, WrongStamp,
};
use plimsoll_simulator::play::{PlayKernels, play, play_prebuilt};
use plimsoll_simulator::program::{self, ProgramSize, SimulatedProgram};
use plimsoll_simulator::{model, oracle, records};

/// A device of 1 to 12 cores: of every class on arch host, or clusters of a chip.
fn draw_device(random: &mut Random, capacities: Capacities, wrong_stamp: Option<WrongStamp>) -> Device {
    let on_host = random.once_in(3);
    let arch = if on_host {
        ArchSpec::HOST
    } else {
        let base = if random.once_in(2) { ArchSpec::A2A3 } else { ArchSpec::A5 };
        ArchSpec { clusters: random.between(1, 4) as u32, sched_threads: random.between(1, 3) as u32, ..base }
    };
    let workers = on_host.then(|| random.between(1, 12) as usize);
    let orch_to_sched = random.once_in(2);
    let options = EmulatedOptions { wrong_stamp, orch_to_sched, ..EmulatedOptions::new(&arch) };
    let builder = Device::builder().engine(options).capacities(capacities);
    workers.map_or(builder.clone(), |workers| builder.workers(workers)).open().unwrap()
}

/// Rings in which this program fits, but not much more does.
fn tight_rings(random: &mut Random, program: &SimulatedProgram) -> Capacities {
    let mut capacities = Capacities { tensormap: 512, ..Capacities::default() };
    for ring in &mut capacities.rings {
        (ring.window, ring.heap, ring.dep_pool) = (1 << random.between(2, 6), 64 * random.between(16, 128), 512);
    }
    while model::deadlock(program, &capacities).is_some() {
        for ring in &mut capacities.rings {
            (ring.window, ring.heap) = (ring.window * 2, ring.heap * 2);
        }
        capacities.tensormap *= 2;
    }
    capacities
}

fn tiny_buffers(random: &mut Random) -> BufferSizes {
    BufferSizes { buffers: Some(random.between(1, 4) as u32), records: Some(random.between(1, 6) as u32) }
}

fn recorded(dir: &std::path::Path, flags: Flags, sizes: BufferSizes) -> RunOptions {
    let record = RecordOptions { sizes, ..RecordOptions::new(dir, flags) };
    RunOptions { record: Some(record), ..RunOptions::default() }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let size = ProgramSize { tasks: random.between(1, 120) as usize, depth: random.below(4) as usize };
    let program = program::draw(&mut random, size);
    let capacities = tight_rings(&mut random, &program);
    let mut device = draw_device(&mut random, capacities, None);
    let kernels = PlayKernels::on_threads(&mut device);
    let everything =
        Flags::NONE.with(Flags::ORCH_PHASES).with(Flags::SCOPE_STATS).with(Flags::DEP_GEN).with(Flags::PMU);
    let flags = if random.once_in(2) { Flags::CORE_TIMING } else { everything };
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let options = recorded(dir.path(), flags, tiny_buffers(&mut random));
    let expected = oracle::run(&program);
    if random.once_in(3) {
        let hosts = play_prebuilt(&mut device, &kernels, &program, 2, &options).unwrap();
        assert_eq!(hosts, oracle::run_from(&program, expected.hosts).hosts, "run {seed}: two launches");
    } else {
        let results = play(&mut device, &kernels, &program, &options).unwrap();
        assert_eq!(results, expected, "run {seed}: the serial result");
    }
    let (report, found) = (device.report(), records::read(dir.path()).unwrap());
    let ledger = report.ledger.as_ref().unwrap();
    assert!(ledger.lossless, "run {seed}: {ledger:?}");
    found.check_ledger(ledger, false).unwrap_or_else(|what| panic!("run {seed}: {what}"));
    let rows: usize = found.aicore.values().map(Vec::len).sum();
    assert_eq!(rows as u64, report.dispatches, "run {seed}: a row for every dispatch");
    if flags == everything {
        found.check_cores(true, false).unwrap_or_else(|what| panic!("run {seed}: {what}"));
        found.check_readings().unwrap_or_else(|what| panic!("run {seed}: {what}"));
    }
}

#[test]
fn every_execution_leaves_one_record_and_the_serial_result() {
    let runs = std::env::var("PLIMSOLL_STRESS_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(300);
    (0..runs).for_each(run);
}

/// A core that stamps a record, or stages what it counted, with another token than it was sent: a defect of the device. The ledger tells it, and the
/// record is in no file.
#[test]
fn a_wrong_stamp_ends_in_the_mismatch_bucket_and_not_in_the_data() {
    for sizes in [BufferSizes::default(), BufferSizes { buffers: Some(2), records: Some(3) }] {
        let mut random = Random::new(1);
        let program = program::draw(&mut random, ProgramSize { tasks: 60, depth: 2 });
        let wrong = WrongStamp { core: CoreId(0), token: 2 };
        let options = EmulatedOptions { wrong_stamp: Some(wrong), ..EmulatedOptions::new(&ArchSpec::HOST) };
        let mut device = Device::builder().engine(options).workers(1).open().unwrap();
        let kernels = PlayKernels::register(&mut device);
        let dir = tempfile::tempdir().unwrap();
        let options = recorded(dir.path(), Flags::CORE_TIMING.with(Flags::PMU), sizes);
        assert_eq!(play(&mut device, &kernels, &program, &options).unwrap(), oracle::run(&program));
        let ledger = device.report().ledger.as_ref().unwrap();
        let pools = [Kind::AicoreTask, Kind::CounterReading].map(|kind| ledger.pool(kind, 0).unwrap());
        for pool in pools {
            assert_eq!((pool.mismatch, pool.dropped, pool.recovered), (1, 0, 0), "{pool:?}");
            assert_eq!(pool.total, device.report().dispatches);
        }
        assert!(ledger.balanced && !ledger.lossless);
        let found = records::read(dir.path()).unwrap();
        let tokens: Vec<u32> = found.aicore[&0].iter().map(|record| record.token).collect();
        let expected: Vec<u32> = (1..=pools[0].total as u32).filter(|token| *token != wrong.token).collect();
        assert_eq!(tokens, expected, "all but the one");
        found.check_readings().unwrap();
    }
}
