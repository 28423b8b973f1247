//! Sizes and flags that cannot be: each is refused in words, before anything is allocated, run or recorded.
#![allow(clippy::unwrap_used)]

use plimsoll_runtime::abi::{CounterGroup, ErrorCode, Flags, TaskId};
use plimsoll_runtime::*;

#[track_caller]
fn refused<R>(outcome: Result<R>, parts: &[&str]) {
    let Err(error) = outcome else { panic!("accepted, though it should say {parts:?}") };
    assert_eq!(error.code(), ErrorCode::InvalidArgs, "{error}");
    for part in parts {
        assert!(error.explanation().contains(part), "{part:?} is not in: {error}");
    }
}

/// 2^61 elements of 8 bytes are 2^64 bytes, which is 0 in a word.
#[test]
fn an_output_whose_bytes_cannot_be_counted_is_refused() {
    let mut device = Device::builder().workers(1).open().unwrap();
    let fill = device.kernel("fill", |mut x: Out<i64>| x[[0, 0]] = 1);
    let huge = [1 << 31, 1 << 30];
    refused(device.run(|o| o.submit(&fill, (output(huge),)).map(drop)), &["2147483648", "bytes", "Ask for less"]);
    refused(device.prebuild(|o| o.submit(&fill, (output(huge),)).map(drop)).map(drop), &["bytes", "Ask for less"]);
    let much = [1 << 10, 1 << 27];
    let graph = device.prebuild(|o| (0..64).try_for_each(|_| o.submit(&fill, (output(much),)).map(drop)));
    refused(graph.map(drop), &["more memory than can be mapped"]);
}

#[test]
fn more_rounds_than_records_can_tell_apart_are_refused() {
    let mut device = Device::builder().workers(1).open().unwrap();
    let said = ["16777217 rounds", "16777216", "several runs"];
    let mut called = 0;
    let program = |_: u32, _: &mut Orchestrator<'_, '_>| {
        called += 1;
        Ok(())
    };
    refused(device.run_rounds(&RunOptions::default(), TaskId::ROUNDS + 1, program), &said);
    let mut graph = device.prebuild(|_| Ok(())).unwrap();
    refused(device.launch(&mut graph, u32::MAX, &RunOptions::default()), &["4294967295 rounds"]);
    assert_eq!(called, 0, "refused before the first");
}

#[test]
fn costs_and_numbers_of_an_arch_that_no_clock_has_room_for_are_refused() {
    type Change = fn(&mut VirtualOptions);
    let cases: [(Change, &[&str]); 8] = [
        (
            |o| o.arch.costs.submit_ns = u64::MAX,
            &["arch host", "submit_ns cannot be 18446744073709551615", "from 0 to"],
        ),
        (|o| o.arch.costs.element_ps = u64::MAX, &["element_ps"]),
        (|o| o.arch.counter_hz = u64::MAX, &["counter_hz"]),
        (
            |o| (o.arch.clusters, o.arch.aic_per_cluster) = (1 << 16, 1 << 16),
            &["4294967295 cores", "at most 512 cores and 511 schedulers"],
        ),
        (|o| o.arch.clusters = u32::MAX, &["clusters cannot be 4294967295"]),
        (|o| o.costs.set("add", KernelCost::Fixed { ns: u64::MAX }), &["kernel add", "18446744073709551615"]),
        (|o| o.costs.set_default(KernelCost::Uniform { low_ns: 2, high_ns: 1 }), &["by default", "from 2 to 1"]),
        (|o| o.faults.jitter_percent = u64::MAX, &["jitter"]),
    ];
    for (change, said) in cases {
        let mut options = VirtualOptions::new(&ArchSpec::HOST, 1);
        change(&mut options);
        refused(Device::builder().engine(options).open(), said);
    }
}

#[test]
fn counters_of_a_cost_table_are_refused_where_there_is_none() {
    let mut device = Device::builder().workers(1).open().unwrap();
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let record = RecordOptions::new(&dir, Flags::CORE_TIMING).count(CounterGroup::Virtual);
    let options = RunOptions { record: Some(record), ..RunOptions::default() };
    refused(device.run_with(&options, |_| Ok(())), &["`virtual`", "engine host", "Choose another group"]);
    assert!(!dir.exists(), "nothing was recorded");
}

#[test]
fn kernels_past_the_last_that_a_device_has_room_for_are_refused_when_they_are_submitted() {
    let mut device = Device::builder().workers(1).open().unwrap();
    let kernels: Vec<_> =
        (0..=Device::MOST_KERNELS).map(|k| device.kernel("add", move |mut x: InOut<i64>| x[[0]] += k as i64)).collect();
    let mut run = |at: usize| {
        device.run(|o| {
            let x = o.own(vec![0i64], [1])?;
            o.submit(&kernels[at], (inout(&x),))?;
            o.read(&x)
        })
    };
    assert_eq!(run(Device::MOST_KERNELS - 1).unwrap(), [4095]);
    refused(run(Device::MOST_KERNELS), &["4096 already", "room for no more"]);
    assert_eq!(run(7).unwrap(), [7], "the others are as they were");
}

/// A device that opens can be recorded: its limits are those of the recorder's directory.
#[test]
fn more_workers_cores_or_schedulers_than_a_recording_has_room_for_are_refused() {
    let chip = |clusters: u32, sched_threads: u32| {
        EmulatedOptions::new(&ArchSpec { clusters, sched_threads, ..ArchSpec::A5.clone() })
    };
    refused(Device::builder().workers(513).open(), &["513 workers", "at most 512", "recording"]);
    let host = EmulatedOptions::new(&ArchSpec::HOST);
    refused(Device::builder().engine(host).workers(513).open(), &["513 cores", "at most 512", "recording"]);
    refused(Device::builder().engine(chip(200, 4)).open(), &["600 cores", "at most 512 cores", "recording"]);
    refused(Device::builder().engine(chip(2, 512)).open(), &["512 scheduler threads", "511 schedulers", "recording"]);
    let options = VirtualOptions::new(&ArchSpec { clusters: 170, sched_threads: 511, ..ArchSpec::A5.clone() }, 1);
    let mut device = Device::builder().engine(options).open().unwrap();
    let place = tempfile::tempdir().unwrap();
    let record = RecordOptions::new(place.path().join("run"), Flags::CORE_TIMING);
    device.run_with(&RunOptions { record: Some(record), ..RunOptions::default() }, |_| Ok(())).unwrap();
}

/// On threads the clock is the machine's and work costs what it costs: whoever sets such a number is told.
#[test]
fn numbers_of_an_arch_that_say_nothing_on_threads_are_refused_there() {
    for number in ArchSpec::NUMBERS.iter().filter(|number| number.only_virtual) {
        let mut arch = ArchSpec { clusters: 1, sched_threads: 1, ..ArchSpec::A5.clone() };
        Device::builder().engine(EmulatedOptions::new(&arch)).open().unwrap();
        number.change(&mut arch, number.of(&ArchSpec::A5) + 1).unwrap();
        refused(Device::builder().engine(EmulatedOptions::new(&arch)).open(), &[number.key, "needs virtual time"]);
        Device::builder().engine(VirtualOptions::new(&arch, 1)).open().unwrap();
    }
    let arch = ArchSpec { aic_per_cluster: 2, ..ArchSpec::HOST.clone() };
    refused(Device::builder().engine(EmulatedOptions::new(&arch)).open(), &["no clusters", "workers instead"]);
    refused(Device::builder().engine(VirtualOptions::new(&arch, 1)).open(), &["no clusters", "workers instead"]);
}

/// What `fn main() -> Result<()>` prints.
#[test]
fn an_error_reads_the_same_in_both_of_its_forms() {
    let error = Device::builder().workers(0).open().unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(format!("{error:?}").starts_with("InvalidArgs (5): A device cannot have 0 workers."), "{error:?}");
}
