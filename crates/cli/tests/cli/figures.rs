//! Every figure has one definition: commands that give the same figure of a run give the same number, and none gives a
//! number of what did not happen.

use crate::harness::{Place, samples};

#[test]
fn makespan_and_utilisation_are_the_same_in_every_command() {
    let place = Place::new();
    for line in [
        "run wavefront",
        "run vector --arch a2a3",
        "run cholesky --swimlane=4",
        "run vector --prebuilt --rounds 3",
        "run wavefront --rounds 10",
        "run wavefront --engine virtual --rounds 10",
    ] {
        let run = place.good(&format!("{line} --json")).json();
        let stats = place.good("stats --json").json();
        for field in ["makespan_ns", "utilisation"] {
            assert!(run[field].is_number(), "{line}: {field}: {run}");
            assert_eq!(run[field], stats[field], "{line}: {field}");
        }
        // The run lasts from before the first kernel until after the last one, also over several rounds; its two figures come from
        // readings of one clock that are converted apart.
        let [elapsed, makespan] = ["elapsed_ns", "makespan_ns"].map(|field| run[field].as_f64().expect("a number"));
        assert!(elapsed * 1.01 + 1e4 >= makespan, "{line}: {elapsed} ns elapsed, a makespan of {makespan} ns");
        let busy: u64 = stats["cores"].as_array().expect("cores").iter().filter_map(|c| c["busy_ns"].as_u64()).sum();
        let cores = stats["cores"].as_array().map_or(0, Vec::len) as f64;
        let share = busy as f64 / (cores * stats["makespan_ns"].as_f64().expect("a number"));
        assert!((share - stats["utilisation"].as_f64().expect("a share")).abs() < 1e-3, "{line}: {share} {stats}");
    }
}

#[test]
fn without_records_there_is_no_makespan_to_tell() {
    let place = Place::new();
    let run = place.good("run vector --no-record --json").json();
    assert!(run["makespan_ns"].is_null() && run["elapsed_ns"].as_u64() > Some(0), "{run}");
    let text = place.good("run vector --no-record").out;
    assert!(text.contains("tasks/s") && !text.contains("makespan"), "{text}");
}

#[test]
fn a_failed_run_is_called_so_and_has_no_rate() {
    let place = Place::new();
    let ran = place.run("run fault-kernel-error");
    assert!(!ran.out.contains("tasks/s") && ran.out.contains("dispatches of"), "{}", ran.out);
    // A task in blocks has more dispatches than it is tasks.
    let ran = place.run("run fault-sync-start --engine virtual --arch a5 --out blocks");
    assert!(ran.out.contains("dispatches of 10 tasks"), "{}", ran.out);
    for command in ["stats", "scopes", "export"] {
        let text = place.good(command).out;
        assert!(text.contains("did not end well: failed (KernelFailed)"), "{command}: {text}");
        let object = place.good(&format!("{command} --json")).json();
        assert_eq!((&object["status"], &object["error"]), (&"failed".into(), &"KernelFailed".into()), "{command}");
    }
}

#[test]
fn a_folder_without_times_has_no_statistics() {
    let place = Place::new();
    place.good("run vector --no-record");
    place.good("run vector --scope-stats --swimlane=0 --out bare");
    let mut folders = vec![place.path().join("bare")];
    folders.extend(samples().map(|samples| samples.join("paged_attention-a2a3sim/dep_gen")));
    for folder in folders {
        let ran = place.run(&format!("stats {}", folder.display()));
        assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
        assert!(ran.out.is_empty() && ran.err.contains("holds no times of tasks"), "{}{}", ran.out, ran.err);
    }
}
