//! `plimsoll bench`: that it measures and what it prints; never how fast.

use crate::harness::Place;
use serde_json::Value;

#[test]
fn the_recorders_cost_is_told_in_numbers_and_nothing_stays() {
    let place = Place::new();
    let cost = place.good("bench recorder --records 200000 --json").json();
    for field in ["floor_ns", "on_ns", "off_ns", "records_per_s"] {
        assert!(cost[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {cost}");
    }
    assert_eq!(cost["lossless"], true);
    assert!(place.files(".").is_empty(), "{:?}", place.files("."));
    let refused = place.run("bench recorder --dir absent");
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("absent") && refused.err.contains("--dir"), "{}", refused.err);
}

#[test]
fn a_round_trip_through_a_mailbox_is_told_beside_its_floor() {
    let place = Place::new();
    let figures = place.good("bench mailbox --blocks 2 --trips 100 --json").json();
    for field in ["floor_ns", "round_trip_ns", "ratio"] {
        assert!(figures[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {figures}");
    }
    assert!(place.good("bench mailbox --blocks 1 --trips 10").out.contains("ping-pong"));
    assert_eq!(place.run("bench mailbox --blocks 0").code, Some(2));
}

#[test]
fn reading_is_measured_step_by_step_and_nothing_stays() {
    let place = Place::new();
    let figures = place.good("bench read --tasks 3000 --json").json();
    let steps = figures["steps"].as_array().expect("steps");
    assert!(steps.len() >= 8 && figures["edges"].as_u64() > Some(0), "{figures}");
    for step in steps {
        assert!(step["step"].is_string() && step["wall_s"].as_f64() > Some(0.0), "{step}");
        assert!(step["peak_rss_bytes"].as_u64() > Some(0), "{step}");
    }
    assert!(place.files(".").is_empty(), "{:?}", place.files("."));
}

#[test]
fn recording_is_measured_level_by_level_for_programs_and_shapes() {
    let place = Place::new();
    for (line, tasks) in [
        ("bench recording chain --tasks 2000 --reps 2 --json", 2000),
        ("bench recording cholesky --tasks 500 --reps 1 --workers 1 --json", 455),
        ("bench recording vector --set n=1024 --set block=64 --reps 1 --json", 80),
    ] {
        let figures = place.good(line).json();
        assert_eq!(figures["tasks"], tasks, "{line}");
        let rows = figures["rows"].as_array().expect("rows");
        let names: Vec<&str> = rows.iter().map(|row| row["recording"].as_str().expect("a name")).collect();
        let levels = ["off", "level 1", "level 2", "level 3", "level 4", "level 4 + dep_gen", "scope stats"];
        assert_eq!(names, levels, "{line}");
        for row in rows {
            for field in ["cpu_ns", "elapsed_ns"] {
                let part = |name: &str| row[field][name].as_f64().unwrap_or_else(|| panic!("{field}.{name}: {row}"));
                assert!(part("min") <= part("median") && part("median") <= part("max"), "{row}");
            }
            assert!(row["cpu_ns_per_task_added"].is_f64() && row["fixed_cpu_ns"].is_f64(), "{row}");
        }
        assert_eq!(rows[0]["cpu_ns_per_task_added"], Value::from(0.0));
        for part in ["submitter", "cpu"] {
            for field in [format!("{part}_ns_per_scope_added"), format!("{part}_ns_per_scope_added_least")] {
                for scope in ["scope", "scope_of_one_task"] {
                    assert!(figures[scope][&field].is_f64(), "{field}: {figures}");
                }
            }
        }
        for scope in ["scope", "scope_of_one_task"] {
            let bytes = figures[scope]["bytes_per_scope"].as_f64().expect("bytes");
            // Two records of 64 bytes, packed.
            assert!(bytes > 5.0 && bytes < 64.0, "{scope}: {bytes}");
        }
    }
    assert!(place.files(".").is_empty(), "{:?}", place.files("."));
    let figures = place.good("bench recording chain --tasks 200 --reps 1 --levels 4,1 --json").json();
    let rows = figures["rows"].as_array().expect("rows");
    assert!(rows.iter().map(|row| &row["recording"]).eq(["off", "level 1", "level 4"]), "{rows:?}");
    assert_eq!(place.run("bench recording chain --levels 5").code, Some(2));
    assert_eq!(place.run("bench recording nothing").code, Some(2));
}

/// A recording of counters is compared with kernels that read the counters themselves, for programs and shapes.
#[test]
fn what_recording_adds_beside_the_reads_of_counters_is_told_apart_from_them() {
    let place = Place::new();
    for subject in ["chain --tasks 500", "vector --set n=1024 --set block=64", "chain --tasks 500 --engine emulated"] {
        let line = format!("bench recording {subject} --workers 1 --reps 2 --levels 4 --pmu=rusage");
        let figures = place.good(&format!("{line} --json")).json();
        let rows = figures["rows"].as_array().expect("rows");
        let names = rows.iter().map(|row| &row["recording"]);
        assert!(names.eq(["off", "level 4", "off + reads", "level 4 + counters"]), "{rows:?}");
        let counted = &rows[3];
        for field in [
            "counter_reads_ns_per_task",
            "counter_reads_in_place_ns_per_task",
            "cpu_ns_per_task_added_beside_reads",
            "cpu_ns_per_task_added_beside_reads_least",
        ] {
            assert!(counted[field].is_f64(), "{field}: {counted}");
            assert!(rows[2].get(field).is_none(), "only a recording of counters has it: {}", rows[2]);
        }
        let text = place.good(&line).out;
        assert!(text.contains("beside the reads, against off + reads in pairs"), "{text}");
    }
}

#[test]
fn graphs_are_measured_streamed_and_prebuilt() {
    let place = Place::new();
    for prebuilt in [false, true] {
        let flag = if prebuilt { "--prebuilt" } else { "" };
        let figures = place.good(&format!("bench graph --shape chain --tasks 3000 --reps 2 {flag} --json")).json();
        let said = (&figures["shape"], &figures["prebuilt"], &figures["tasks"]);
        assert_eq!(said, (&"chain".into(), &prebuilt.into(), &3000.into()));
        let times = ["ns_per_task", "ns_per_task_median", "submit_ns_per_task", "cpu_ns_per_task"];
        for field in times {
            assert!(figures[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {figures}");
        }
        assert!(figures["ns_per_task"].as_f64() <= figures["ns_per_task_median"].as_f64(), "{figures}");
        assert!(figures["peak_rss_bytes"].as_u64() > Some(0), "{figures}");
    }
}

/// A stencil whose steps share a scope runs in the rings that were found for it, however many steps it has.
#[test]
fn flat_stencils_are_measured_by_steps() {
    let place = Place::new();
    for (shape, steps) in [("stencil", 3), ("stencil-9", 20)] {
        let line = format!("bench graph --shape {shape} --flat --steps {steps} --reps 1 --json");
        assert_eq!(place.good(&line).json()["tasks"], 64 * steps);
    }
    assert_eq!(place.run("bench graph --shape stencil --steps 3").code, Some(2));
}

#[test]
fn virtual_time_is_measured_on_every_arch() {
    let place = Place::new();
    for (arch, cores) in [("host", 4), ("a2a3", 72), ("a5", 108)] {
        let figures = place.good(&format!("bench virtual --arch {arch} --tasks 3000 --reps 2 --json")).json();
        let said = (&figures["virtual"], &figures["arch"], &figures["cores"], &figures["tasks"], &figures["level"]);
        assert_eq!(said, (&true.into(), &arch.into(), &cores.into(), &3000.into(), &4.into()));
        assert_eq!(figures["lossless"], true);
        assert!(figures["tasks_per_s"].as_f64() > Some(0.0) && figures["tasks_per_cpu_s"].as_f64() > Some(0.0));
    }
    assert_eq!(place.run("bench virtual --arch a7").code, Some(2));
    assert_eq!(place.run("bench virtual --level 9").code, Some(2));
    assert!(place.files(".").is_empty(), "{:?}", place.files("."));
}

#[test]
fn the_start_of_a_device_is_measured() {
    let place = Place::new();
    let figures = place.good("bench start --workers 2 --reps 3 --json").json();
    assert_eq!((&figures["workers"], &figures["reps"]), (&2.into(), &3.into()));
    for field in [
        "first_open_us",
        "open_us",
        "open_us_median",
        "first_run_us",
        "device_first_run_us",
        "empty_run_us",
        "empty_run_us_median",
    ] {
        assert!(figures[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {figures}");
    }
    assert_eq!(place.run("bench start --reps 0").code, Some(2));
}
