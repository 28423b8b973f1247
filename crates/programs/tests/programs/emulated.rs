//! Every program computes what it should on cores behind mailboxes: on this machine's arch and on chips, streamed in
//! several rounds and prebuilt.

#![allow(clippy::unwrap_used)]

use plimsoll_programs::{ALL, Settings};
use plimsoll_runtime::{ArchSpec, Device, EmulatedOptions, RunOptions};

fn archs() -> Vec<(String, Device)> {
    let open = |arch: &ArchSpec, workers: Option<usize>| {
        let builder = Device::builder().engine(EmulatedOptions::new(arch));
        workers.map_or(builder.clone(), |workers| builder.workers(workers)).open().unwrap()
    };
    let small = ArchSpec { clusters: 2, sched_threads: 2, ..ArchSpec::A5 };
    let joining = |arch: &ArchSpec, workers: Option<usize>| {
        let options = EmulatedOptions { orch_to_sched: true, ..EmulatedOptions::new(arch) };
        let builder = Device::builder().engine(options);
        workers.map_or(builder.clone(), |workers| builder.workers(workers)).open().unwrap()
    };
    vec![
        ("host, 1 core, joining".to_owned(), joining(&ArchSpec::HOST, Some(1))),
        ("host, 4 cores, joining".to_owned(), joining(&ArchSpec::HOST, Some(4))),
        ("a2a3, joining".to_owned(), joining(&ArchSpec::A2A3, None)),
        ("a5, joining".to_owned(), joining(&ArchSpec::A5, None)),
        ("host, 1 core".to_owned(), open(&ArchSpec::HOST, Some(1))),
        ("host, 3 cores".to_owned(), open(&ArchSpec::HOST, Some(3))),
        ("a2a3".to_owned(), open(&ArchSpec::A2A3, None)),
        // 108 cores and 5 threads of the device, on however many CPUs there are.
        ("a5".to_owned(), open(&ArchSpec::A5, None)),
        ("a5, 2 clusters".to_owned(), open(&small, None)),
    ]
}

#[test]
fn every_program_is_right_on_every_arch() {
    for program in ALL.iter().filter(|program| !program.name.starts_with("fault-")) {
        for (name, mut device) in archs() {
            let settings = Settings::new(program.params, []).unwrap();
            let instance = (program.build)(&mut device, &settings).unwrap();
            for round in 0..2 {
                if round > 0 {
                    instance.reset().unwrap();
                }
                let ran = device.run_with(&instance.options(), |o| instance.orchestrate(o));
                ran.unwrap_or_else(|error| panic!("{} on {name}: {error}", program.name));
                let verdict = instance.verify().unwrap();
                assert!(verdict.verified, "{} on {name}, round {round}: {}", program.name, verdict.detail);
                let report = device.report();
                if !["spmd", "mixed"].contains(&program.name) {
                    assert_eq!(report.tasks, report.dispatches, "{} on {name}", program.name);
                }
            }
        }
    }
}

#[test]
fn prebuilt_graphs_run_on_cores_behind_mailboxes() {
    for (name, mut device) in archs() {
        let program = plimsoll_programs::find("cholesky").unwrap();
        let instance = (program.build)(&mut device, &Settings::new(program.params, []).unwrap()).unwrap();
        let mut graph = device.prebuild(|o| instance.orchestrate(o)).unwrap();
        device.launch_rounds(&mut graph, 3, &RunOptions::default(), |_| instance.reset()).unwrap();
        let verdict = instance.verify().unwrap();
        assert!(verdict.verified, "on {name}: {}", verdict.detail);
    }
}
