//! `plimsoll bench`: that it measures and what it prints; never how fast.

mod harness;

use harness::Place;
use serde_json::Value;

#[test]
fn the_recorders_cost_is_told_in_numbers_and_nothing_stays() {
    let place = Place::new();
    let cost = place.good("bench recorder --records 200000 --json").json();
    for field in ["floor_ns", "on_ns", "off_ns", "records_per_s"] {
        assert!(cost[field].as_f64().is_some_and(|value| value >= 0.0), "{field}: {cost}");
    }
    assert_eq!(cost["lossless"], true);
    assert!(place.files(".").is_empty(), "{:?}", place.files("."));
    let refused = place.run("bench recorder --dir absent");
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("absent") && refused.err.contains("--dir"), "{}", refused.err);
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
            for field in ["cpu_ns", "makespan_ns"] {
                let part = |name: &str| row[field][name].as_f64().unwrap_or_else(|| panic!("{field}.{name}: {row}"));
                assert!(part("min") <= part("median") && part("median") <= part("max"), "{row}");
            }
            assert!(row["cpu_ns_per_task_added"].is_f64() && row["fixed_cpu_ns"].is_f64(), "{row}");
        }
        assert_eq!(rows[0]["cpu_ns_per_task_added"], Value::from(0.0));
    }
    assert!(place.files(".").is_empty(), "{:?}", place.files("."));
    assert_eq!(place.run("bench recording nothing").code, Some(2));
}
