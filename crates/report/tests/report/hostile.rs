//! Nothing behind the readers panics on what they let through.

use plimsoll_abi::record::{
    AicoreTask, AicpuTask, OrchPhase, Record, SchedPhase, ScopeRecord, ScopeRingsRecord, SubmitRecord,
};
use plimsoll_analyze::{check, scopes, stats};
use plimsoll_report::page::{Answers, Subject, write_page};
use plimsoll_report::{Flows, chrome::write_chrome, perfetto::write_perfetto, simpler::write_simpler, text};
use plimsoll_trace::synthetic::{SegmentBytes, Synthetic};
use plimsoll_trace::{Trace, open};
use proptest::prelude::*;

fn everything(trace: &Trace, dir: &std::path::Path) {
    let all = stats(trace);
    serde_json::to_string(&all).expect("serialisable");
    let table = scopes(trace);
    serde_json::to_string(&table).expect("serialisable");
    let verdict = check(&trace.into());
    serde_json::to_string(&verdict).expect("serialisable");
    let _ = (text::stats(&all), text::scopes(&table), text::check(&verdict));
    write_perfetto(trace, Flows::All, std::io::sink()).expect("written");
    let mut json = Vec::new();
    write_chrome(trace, Flows::All, &mut json).expect("written");
    serde_json::from_slice::<serde_json::Value>(&json).expect("valid JSON");
    let answers = Answers::of(trace);
    write_page(Subject { trace, answers: &answers }, &mut std::io::sink()).expect("written");
    if let Ok(written) = write_simpler(trace, &dir.join("out")) {
        assert!(written.iter().all(|p| p.is_file()));
        open(&dir.join("out")).expect("readable by ourselves");
    }
}

fn records<R: Record>(words: &[u64]) -> Vec<R> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.chunks_exact(size_of::<R>()).map(bytemuck::pod_read_unaligned).collect()
}

#[test]
fn the_last_core_and_the_last_scheduler_that_have_numbers_are_counted() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let record = |start: u64| {
        format!(
            r#"{{"start_cycles":{start},"end_cycles":{},"run_epoch":0,"loop_iter":1,"kind":"dispatch","tasks_processed":1}}"#,
            start + 5
        )
    };
    let records = format!(
        r#"{{"chip_swimlane_level":3,"metadata":{{"clock_freq_hz":1000000000,"num_cores":65536}},
        "aicore_tasks":[[65535,1,1,100,200,3,0],[65535,2,2,300,400,3,0]],
        "scheduler_tasks":{{"producer":"aicpu","records":[[65535,1,90,210,0],[65535,2,290,410,0]]}},
        "scheduler_records":{{"streams":[{{"scheduler_id":65535,"records":[{},{}]}}]}}}}"#,
        record(80),
        record(280)
    );
    std::fs::write(dir.path().join("chip_swimlane_records.json"), records).expect("written");
    let deps = r#"{"tasks":[{"task_id":1},{"task_id":2}],"tensors":[],"edges":[{"pred":1,"succ":2}]}"#;
    std::fs::write(dir.path().join("deps.json"), deps).expect("written");
    let trace = open(dir.path()).expect("readable");
    let sched = plimsoll_analyze::sched(&trace).expect("kernels ran");
    assert_eq!(sched.loops.map(|loops| loops.schedulers.len()), Some(1));
    let overhead = sched.overhead.reference.expect("dispatches were recorded");
    assert!(overhead.has > 0.0, "the core idled while the second task was ready: {overhead:?}");
    everything(&trace, dir.path());
}

#[test]
fn a_sound_run_passes_through_everything() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Synthetic::default().write(dir.path()).expect("written");
    let trace = open(dir.path()).expect("readable");
    everything(&trace, dir.path());
    let verdict = check(&(&trace).into());
    assert!(verdict.sound, "{:?}", verdict.complaints());
    let ledger = verdict.reconcile.expect("a ledger");
    assert!(ledger.balanced && ledger.lossless && ledger.files_agree);
}

#[test]
fn a_ledger_that_the_files_contradict_is_not_sound() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let run = Synthetic::default();
    run.write(dir.path()).expect("written");
    let fewer = Synthetic { tasks: 99, ..run }.segment();
    std::fs::write(dir.path().join("records/records.seg"), fewer.bytes()).expect("written");
    let verdict = check(&(&open(dir.path()).expect("readable")).into());
    assert!(!verdict.sound);
    let complaints = verdict.complaints().join("\n");
    assert!(complaints.contains("aicore_task 0: the ledger says 34 records, the segments hold 33."), "{complaints}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn records_of_any_content_are_survived(
        words in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..200, Just(u64::MAX), Just(0)], 32..600),
    ) {
        let dir = tempfile::tempdir().expect("temporary directory");
        Synthetic::default().write(dir.path()).expect("written");
        let mut segment = SegmentBytes::default();
        segment.pool(0, &records::<AicoreTask>(&words), 4);
        segment.pool(0, &records::<AicpuTask>(&words), 4);
        segment.pool(0, &records::<SchedPhase>(&words), 4);
        segment.pool(0, &records::<OrchPhase>(&words), 4);
        segment.pool(0, &records::<ScopeRecord>(&words), 4);
        segment.pool(0, &records::<ScopeRingsRecord>(&words), 4);
        segment.pool(0, &records::<SubmitRecord>(&words), 4);
        std::fs::write(dir.path().join("records/records.seg"), segment.bytes()).expect("written");
        everything(&open(dir.path()).expect("readable"), dir.path());
    }
}
