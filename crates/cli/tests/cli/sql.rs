//! `export --format parquet`, and the questions of `docs/sql.md` in DuckDB: where Python has the package, in `target/venv`
//! (which `.ci/setup` makes) or by itself; elsewhere the test says so and passes.

#![cfg(feature = "parquet")]

use crate::harness::Place;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const TABLES: [&str; 7] = ["runs", "tasks", "executions", "phases", "scopes", "edges", "counters"];

/// Runs every statement of standard input's list and prints the rows of each.
const ASK: &str = "import duckdb, json, sys
rows = []
for statement in json.load(sys.stdin):
    asked = duckdb.sql(statement)
    rows.append([dict(zip(asked.columns, row)) for row in asked.fetchall()])
print(json.dumps(rows, default=str))";

/// A Python that has DuckDB.
fn python() -> Option<PathBuf> {
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv/bin/python");
    let candidates = [venv, PathBuf::from("python3")];
    let found = candidates.into_iter().find(|python| {
        Command::new(python).args(["-c", "import duckdb"]).output().is_ok_and(|ran| ran.status.success())
    });
    if found.is_none() {
        println!("skipped: there is no Python with the package duckdb; .ci/setup makes one in target/venv");
    }
    found
}

fn ask(python: &Path, place: &Place, statements: &[String]) -> Vec<Vec<Value>> {
    let input = place.path().join("statements.json");
    std::fs::write(&input, serde_json::to_vec(statements).expect("JSON")).expect("written");
    let stdin = std::fs::File::open(&input).expect("readable");
    let ran = Command::new(python).args(["-c", ASK]).current_dir(place.path()).stdin(stdin).output().expect("runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).expect("rows")
}

/// The statements of the document, in order.
fn questions() -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql.md")).expect("there");
    let blocks = text.split("```sql\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default().trim().to_string()).collect()
}

fn files(place: &Place, line: &str) -> Vec<String> {
    let written = place.good(line).json();
    let written = written["files"].as_array().expect("files").iter();
    written.map(|file| file.as_str().expect("a path").to_string()).collect()
}

#[test]
fn every_table_is_written_and_begins_and_ends_as_parquet_does() {
    let place = Place::new();
    place.good("run cholesky --swimlane=1 --out run");
    let written = files(&place, "export run --format parquet --json");
    assert_eq!(written.len(), TABLES.len());
    for (file, table) in written.iter().zip(TABLES) {
        assert!(file.ends_with(&format!("run/parquet/{table}.parquet")), "{file}");
        let bytes = std::fs::read(place.path().join(file)).expect("readable");
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{file}");
    }
    assert_eq!(files(&place, "export run --format parquet --output elsewhere --json").len(), TABLES.len());
    assert!(place.path().join("elsewhere/tasks.parquet").is_file());
}

#[test]
fn the_questions_of_the_document_have_answers_over_one_run_and_over_many() {
    let Some(python) = python() else { return };
    let place = Place::new();
    for program in ["cholesky", "vector --set n=4096", "cholesky"] {
        place.good(&format!("run {program} --profile"));
        place.good("export --format parquet");
    }
    let questions = questions();
    assert_eq!(questions.len(), 10);
    let answers = ask(&python, &place, &questions);
    for (question, rows) in questions.iter().zip(&answers) {
        assert!(!rows.is_empty(), "{question}");
    }
    assert_eq!(answers[7].len(), 3, "a row per run: {:?}", answers[7]);
    let stats = place.good("stats --json").json();
    let total: u64 = answers[0].iter().filter_map(|row| row["executions"].as_u64()).sum();
    assert_eq!(Some(total), stats["executions"].as_u64());
    let path = place.good("critical-path --json").json();
    let on_path: u64 = answers[3].iter().filter_map(|row| row["tasks"].as_u64()).sum();
    assert_eq!(Some(on_path), path["path"].as_array().map(|path| path.len() as u64));
    let kernel = |rows: &[Value]| rows.iter().filter_map(|row| row["kernel_ns"].as_u64()).sum::<u64>();
    let clipped: u64 =
        path["path"].as_array().expect("a path").iter().filter_map(|hop| hop["kernel_ns"].as_u64()).sum();
    assert_eq!(kernel(&answers[3]), clipped, "kernel time on the path is what its tasks have of it");
    let runs = "SELECT sum(makespan_ns)::BIGINT AS makespan_ns FROM 'outputs/*_*/parquet/runs.parquet'";
    let whole = ask(&python, &place, &[runs.to_string()])[0][0]["makespan_ns"].as_u64().expect("a sum");
    let parts: u64 =
        answers[9].iter().flat_map(|row| row.as_object().expect("a row").values()).filter_map(Value::as_u64).sum();
    assert!(parts.abs_diff(whole) <= whole / 1000, "kernels and waits add up to the makespans: {parts} of {whole}");
    let counts = "SELECT makespan_ns, (SELECT count(*) FROM 'outputs/latest/parquet/counters.parquet') AS readings FROM 'outputs/latest/parquet/runs.parquet'";
    let run = &ask(&python, &place, &[counts.to_string()])[0][0];
    assert_eq!((&run["makespan_ns"], &run["readings"]), (&path["makespan_ns"], &0.into()));
}

#[test]
fn counters_of_the_references_files_are_a_table() {
    let Some(python) = python() else { return };
    let place = Place::new();
    let table = "thread_id,core_id,task_id,func_id,core_type,pmu_total_cycles,vec_busy,event_type\n0,0,0x1,3,0,100,40,2\n1,9,0x2,-1,1,50,20,2\n";
    std::fs::write(place.path().join("pmu.csv"), table).expect("written");
    place.good("export pmu.csv --format parquet --output out");
    let sums = "SELECT counter, sum(value)::BIGINT AS value, count(kernel) AS named FROM 'out/counters.parquet' GROUP BY counter ORDER BY counter";
    let rows = &ask(&python, &place, &[sums.to_string()])[0];
    let rows: Vec<String> =
        rows.iter().map(|row| format!("{} {} {}", row["counter"], row["value"], row["named"])).collect();
    assert_eq!(rows, ["\"total_cycles\" 150 1", "\"vec_busy\" 60 1"]);
}

#[test]
fn captures_of_the_reference_in_folders_of_one_name_are_told_apart() {
    let Some(python) = python() else { return };
    let place = Place::new();
    for sample in ["one", "two"] {
        let dir = place.path().join(sample).join("all");
        std::fs::create_dir_all(&dir).expect("made");
        let table = "thread_id,core_id,task_id,func_id,core_type,pmu_total_cycles,event_type\n0,0,0x1,3,0,100,2\n";
        std::fs::write(dir.join("pmu.csv"), table).expect("written");
        place.good(&format!("export {sample}/all --format parquet"));
    }
    let runs = "SELECT DISTINCT run FROM '*/all/parquet/runs.parquet' ORDER BY run";
    let rows = &ask(&python, &place, &[runs.to_string()])[0];
    assert_eq!(rows.iter().filter_map(|row| row["run"].as_str()).collect::<Vec<_>>(), ["one/all", "two/all"]);
}
