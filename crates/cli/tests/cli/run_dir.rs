//! A run's directory belongs to that run: others do not change it, and a start that fails leaves nothing.

use crate::harness::Place;
use std::path::Path;

/// Every file under a directory with its contents, in order.
fn everything(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(everything(&path));
        } else {
            found.push((path.display().to_string(), std::fs::read(&path).expect("readable")));
        }
    }
    found.sort();
    found
}

#[test]
fn a_run_into_another_runs_directory_changes_nothing_there() {
    let place = Place::new();
    place.good("run vector --out a");
    let before = everything(&place.path().join("a"));
    for line in ["run wavefront --out a --json", "size wavefront --out a --json"] {
        let ran = place.run(line);
        assert_eq!(ran.code, Some(1), "{line}: {}{}", ran.out, ran.err);
        assert_eq!(everything(&place.path().join("a")), before, "{line}");
    }
    let object = place.run("run wavefront --out a --json").json();
    assert_eq!((&object["error"]["code"], &object["out"]), (&24.into(), &serde_json::Value::Null), "{object}");
    assert_eq!((&object["reconcile"], &object["tasks"]), (&serde_json::Value::Null, &0.into()), "{object}");
    let text = object["error"]["explanation"].as_str().expect("text");
    assert!(text.contains("a holds a run already"), "{text}");
    assert_eq!(place.manifest("a")["verified"], true);
}

#[test]
fn a_start_that_fails_leaves_no_region() {
    let place = Place::new();
    std::fs::create_dir_all(place.path().join("out/run.json")).expect("a directory");
    std::fs::create_dir(place.path().join("regions")).expect("a directory");
    let ran = place.run("run vector --out out --region-dir regions");
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert_eq!((place.files("regions"), place.files("out")), (vec![], vec!["run.json".to_owned()]));
}

#[test]
fn an_export_that_fails_names_the_file_and_leaves_none() {
    let place = Place::new();
    place.good("run vector --out a");
    let before = everything(&place.path().join("a"));
    let ran = place.run("export a --output /dev/full");
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("/dev/full") && ran.err.contains("No space"), "{}", ran.err);
    let ran = place.run("export a --format simpler --output a/run.json/x");
    assert!(ran.code == Some(1) && ran.err.contains("a/run.json/x"), "{}", ran.err);
    assert_eq!(everything(&place.path().join("a")), before);
}
