//! What killed runs have left is found, told once, and recovered.

use crate::harness::{Place, Ran, balance};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Starts a long run in `outputs` and kills it while it records; the name of its directory.
fn killed_run(place: &Place, more: &str) -> String {
    let words = format!("run paged-attention --set tokens=16384 --set block=2 --set batch=8 {more}");
    let mut command = place.command(words.split_whitespace());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts");
    let latest = place.path().join("outputs/latest");
    let begun = Instant::now();
    while !latest.join("run.json").is_file() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the run did not start");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    std::fs::read_link(&latest).expect("a link").display().to_string()
}

/// The row of `recover --list` for a run in this place.
fn row(place: &Place, run: &str) -> Option<serde_json::Value> {
    let listed = place.good("recover --list --json").json();
    let rows = listed["orphans"].as_array().expect("rows").clone();
    let dir = std::fs::canonicalize(place.path()).expect("a place").join("outputs").join(run);
    rows.into_iter().find(|row| row["run"].as_str().is_some_and(|named| Path::new(named) == dir))
}

/// Whether somebody was told of this row's region. Runs of other tests tell of it, too, since it is found from anywhere.
fn is_mentioned(row: &serde_json::Value) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let region = row["region"].as_str().expect("a path");
    std::fs::metadata(region).is_ok_and(|data| data.permissions().mode() & 0o777 == 0o400)
}

/// Its region and its directory are where nobody looks, and its list is asked for from elsewhere.
#[test]
fn a_killed_run_in_a_place_of_its_own_is_found_from_anywhere() {
    let (place, elsewhere) = (Place::new(), Place::new());
    std::fs::create_dir(place.path().join("rg")).expect("made");
    let words = "run paged-attention --set tokens=16384 --set block=2 --set batch=8 --region-dir rg --out zz";
    let mut command = place.command(words.split_whitespace());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts");
    let begun = Instant::now();
    // Made once there is a region.
    while !place.path().join("zz/records").is_dir() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the run did not start");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    let told = elsewhere.good(&format!("explain --pid {} --json", child.id())).json();
    assert_eq!(told["class"], "killed", "{told}");
    let dir = std::fs::canonicalize(place.path()).expect("a place").join("zz");
    let listed = elsewhere.good("recover --list --json").json();
    let rows = listed["orphans"].as_array().expect("rows").clone();
    assert!(rows.iter().any(|row| row["run"].as_str().is_some_and(|run| Path::new(run) == dir)), "{rows:?}");
    place.good("recover zz");
    assert!(!elsewhere.good("recover --list").out.contains(&dir.display().to_string()));
}

/// The caller's own thread does not come back, so the command ends from its watchdog.
#[test]
fn a_run_that_cannot_return_mentions_them_too() {
    let place = Place::new();
    let run = killed_run(&place, "--region-dir .");
    let listed = row(&place, &run).expect("it is listed");
    let ran = place.run("run fault-orchestrator --orch-timeout 200ms --no-record");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(is_mentioned(&listed), "{}", ran.err);
    place.good(&format!("recover outputs/{run}"));
}

#[test]
fn a_killed_run_is_listed_mentioned_once_and_recovered() {
    let place = Place::new();
    let run = killed_run(&place, "--region-dir .");
    let listed = row(&place, &run).expect("it is listed");
    assert!(listed["bytes"].as_u64() > Some(0) && listed["age_s"].is_u64() && listed["pid"].is_u64(), "{listed}");
    let text = place.good("recover --list").out;
    assert!(text.contains("age") && text.contains("size") && text.contains(&run), "{text}");
    let next = place.good("run vector --no-record");
    assert!(next.err.contains("recover --list") || is_mentioned(&listed), "{}", next.err);
    let after = place.good("run vector --no-record");
    assert!(!after.err.contains(&run), "told once: {}", after.err);
    assert!(row(&place, &run).is_some(), "still listed");
    let recovered = place.good(&format!("recover outputs/{run} --json")).json();
    balance(&recovered["reconcile"]);
    assert!(row(&place, &run).is_none(), "no orphan any more");
}

#[test]
fn a_run_whose_directory_was_removed_comes_out_of_its_region() {
    let place = Place::new();
    let run = killed_run(&place, "--swimlane=0 --dep-gen");
    std::fs::remove_dir_all(place.path().join("outputs").join(&run)).expect("removed");
    let orphan = row(&place, &run).expect("the region knows its run");
    let dir = format!("outputs/{run}");
    for reader in ["check", "stats", "deps"] {
        let ran = place.run(&format!("{reader} {dir}"));
        assert!(ran.code == Some(1) && ran.err.contains(&format!("`plimsoll recover {dir}`")), "{reader}: {}", ran.err);
    }
    let told = place.good(&format!("explain {dir} --json")).json();
    let verdict = told["verdict"].as_str().expect("words");
    assert!(verdict.contains("or it came to its end after the run's directory had been removed"), "{verdict}");
    let before = orphan["region"].as_str().expect("a path").to_owned();
    // Not `--all`: other tests have orphans of their own. `--all` does the same for each.
    let orphans = plimsoll::collect::orphans(Path::new("none"));
    let orphan = orphans.iter().find(|orphan| orphan.region == Path::new(&before)).expect("listed");
    let (dir, recovered) = orphan.recover().expect("recovered").expect("a run");
    assert!(dir.ends_with(&run) && recovered.changed);
    let manifest = place.manifest(&format!("outputs/{run}"));
    assert_eq!((&manifest["status"], &manifest["region"]), (&"killed".into(), &serde_json::Value::Null));
    assert!(!Path::new(&before).exists());
    assert!(row(&place, &run).is_none());
}

#[test]
fn a_region_that_was_never_finished_is_removed() {
    let place = Place::new();
    let region = Path::new("/dev/shm").join(format!("plimsoll-{}-77.region", std::process::id()));
    std::fs::write(&region, [0; 4096]).expect("written");
    let orphans = plimsoll::collect::orphans(place.path());
    let orphan = orphans.iter().find(|orphan| orphan.region == region).expect("listed");
    assert!(orphan.dir.is_none() && orphan.recover().expect("removed").is_none());
    assert!(!region.exists());
}

/// Nothing is known of such a region's run, but that it was not killed while it started.
#[test]
fn a_region_of_another_schema_is_listed_with_the_reason() {
    let place = Place::new();
    let region = Path::new("/dev/shm").join(format!("plimsoll-{}-78.region", std::process::id()));
    let mut bytes = vec![0; 4096];
    bytes[..8].copy_from_slice(&plimsoll::abi::region::MAGIC);
    bytes[8] = 6;
    std::fs::write(&region, bytes).expect("written");
    let listed = place.good("recover --list").out;
    let rows = place.good("recover --list --json").json();
    let orphan = plimsoll::collect::orphans(place.path()).into_iter().find(|orphan| orphan.region == region);
    let refused = orphan.expect("listed").recover();
    std::fs::remove_file(&region).expect("it is still there");
    let (_, behind) = listed.split_once(&region.display().to_string()).expect("listed");
    let told: String = behind.lines().take(2).collect();
    assert!(told.contains("its schema is 6") && !told.contains("killed while it started"), "{told}");
    let is_its = |row: &&serde_json::Value| row["region"].as_str().is_some_and(|path| Path::new(path) == region);
    let row = rows["orphans"].as_array().expect("rows").iter().find(is_its).expect("listed");
    assert!(row["unreadable"].as_str().is_some_and(|why| why.contains("its schema is 6")), "{row}");
    assert!(refused.is_err_and(|error| error.to_string().contains("its schema is 6")));
}

/// The run's directory may be read by everybody, its region by its owner alone.
#[test]
fn a_region_that_may_not_be_read_is_not_called_gone() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    let place = Place::new();
    let run = killed_run(&place, "--region-dir .");
    let region = place.manifest(&format!("outputs/{run}"))["region"].as_str().expect("a path").to_owned();
    let allow = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("changed");
    };
    let mut command = place.command(["explain", &format!("outputs/{run}")]);
    allow(Path::new(&region), 0);
    if std::fs::File::open(&region).is_ok() {
        // Root may read everything, so it asks as nobody.
        allow(place.path(), 0o755);
        command.uid(65534);
    }
    // Nobody may be kept from the command itself.
    if let Ok(output) = command.output() {
        let ran = Ran::of(output);
        assert!(ran.code == Some(1) && ran.err.contains("ermission denied"), "{}{}", ran.out, ran.err);
    }
    allow(Path::new(&region), 0o600);
    place.good(&format!("recover outputs/{run}"));
}
