//! `critical-path`, `sched`, `deps` and `diff`: what they answer about runs and about the reference's files.

use crate::harness::{Place, samples};
use serde_json::Value;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

#[test]
fn the_parts_of_the_critical_path_tile_the_makespan_on_every_engine_and_level() {
    let place = Place::new();
    for line in
        ["cholesky --profile", "wavefront", "vector --arch a2a3 --profile", "decode-layer --swimlane=2 --dep-gen"]
    {
        let run = place.good(&format!("run {line} --json")).json();
        let path = place.good("critical-path --json").json();
        assert_eq!(path["makespan_ns"], run["makespan_ns"], "{line}");
        let parts = path["parts"].as_object().expect("parts");
        assert_eq!(parts.len(), 8, "{parts:?}");
        let sum: u64 = parts.values().filter_map(Value::as_u64).sum();
        assert_eq!(sum, number(&path["makespan_ns"]), "{line}: {parts:?}");
        let folded: Vec<&Value> = path["folded"].as_array().expect("a list").iter().map(|f| &f["part"]).collect();
        for (name, part) in parts {
            assert_eq!(part.is_null(), folded.contains(&&name.as_str().into()), "{line}: {name}");
        }
        assert!(number(&path["static_ns"]) <= number(&path["bound_ns"]), "{line}");
        assert!(number(&path["bound_ns"]) <= number(&path["makespan_ns"]), "{line}: {path}");
        let hop = path["path"].as_array().and_then(|path| path.last()).expect("a step");
        for field in ["task", "func", "cores", "start_ns", "end_ns", "kernel_ns", "wait_ns", "kind", "pred"] {
            assert!(hop.get(field).is_some(), "{field}: {hop}");
        }
        let task = hop["task"].as_str().expect("a name");
        let why = place.good(&format!("critical-path --task {task} --json")).json();
        let causes: Vec<&str> =
            why["causes"].as_array().expect("causes").iter().filter_map(|c| c["cause"].as_str()).collect();
        assert_eq!(causes, ["data", "core", "scheduler", "submit", "ring", "recorder"]);
        assert!(place.good(&format!("critical-path --task {task}")).out.contains(task));
    }
    assert_eq!(place.run("critical-path --task nine").code, Some(2));
    assert_eq!(place.run("critical-path --task r3t999999").code, Some(1));
}

/// A full ring and a busy recorder have their own names, and a window that is large enough has no wait for a ring.
#[test]
fn waiting_for_a_ring_is_told_apart_from_submitting() {
    let place = Place::new();
    let program = "run vector --set n=2000 --set block=8 --arch a2a3 --engine virtual --profile";
    let parts = |window: u32, dir: &str| {
        place.good(&format!("{program} --ring-task-window {window} --out {dir}"));
        place.good(&format!("critical-path {dir} --json")).json()
    };
    let tight = parts(4, "tight");
    assert!(number(&tight["parts"]["ring_wait"]) > 0 && tight["parts"]["recorder_wait"] == 0, "{}", tight["parts"]);
    let sum: u64 = tight["parts"].as_object().expect("parts").values().map(number).sum();
    assert_eq!((sum, tight["folded"].as_array().map(Vec::len)), (number(&tight["makespan_ns"]), Some(0)));
    let path = tight["path"].as_array().expect("a path");
    let hop = path.iter().max_by_key(|hop| number(&hop["parts"]["ring_wait"])).expect("a step");
    let task = hop["task"].as_str().expect("a name");
    let why = place.good(&format!("critical-path tight --task {task} --json")).json();
    let ring = why["causes"].as_array().expect("causes").iter().find(|cause| cause["cause"] == "ring").expect("a ring");
    assert_eq!(ring["ns"], hop["parts"]["ring_wait"]);
    assert!(ring["who"].as_str().is_some_and(|who| who.starts_with("ring ")), "{ring}");
    let sched = place.good("sched tight --json").json();
    assert_eq!(sched["verdict"], "ring", "{}", tight["parts"]);
    assert!(place.good("sched tight").out.contains("bound by a ring ("), "the text has an article");
    assert_eq!(parts(1024, "roomy")["parts"]["ring_wait"], 0);
    assert_ne!(place.good("sched roomy --json").json()["verdict"], "ring");
}

#[test]
fn the_schedulers_cost_is_told_in_shares_of_the_makespan() {
    let place = Place::new();
    for (line, classes) in
        [("cholesky --profile", vec!["any"]), ("paged-attention --arch a2a3 --profile", vec!["aic", "aiv"])]
    {
        place.good(&format!("run {line}"));
        let sched = place.good("sched --json").json();
        for kind in ["reference", "own"] {
            let overhead = &sched["overhead"][kind];
            let named: Vec<&String> = overhead["by_class"].as_object().expect("classes").keys().collect();
            assert_eq!(named, classes, "{line}");
            let shares = overhead["by_class"].as_object().expect("classes").values();
            for share in shares.chain([&overhead["all"], &overhead["has"]]) {
                assert!(share.as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)), "{line}: {overhead}");
            }
        }
        for field in ["p10", "p50", "p90", "p99", "max", "mean", "total"] {
            assert!(sched["head_ns"][field].is_number() && sched["tail_ns"][field].is_number(), "{field}: {sched}");
        }
        assert!(sched["loop"]["ns_per_loop"].as_f64() > Some(0.0), "{sched}");
        let verdict = sched["verdict"].as_str().expect("a verdict");
        let words = ["submitting", "ring", "scheduling", "recording", "dependencies", "cores", "kernels"];
        assert!(words.contains(&verdict), "{verdict}");
        assert!(sched["verdict_share"].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)), "{sched}");
        let budget = &sched["loop"];
        let phases = budget["phases"].as_object().expect("phases").values();
        assert!(phases.into_iter().all(|ns| number(ns) <= number(&budget["total_ns"])), "{line}: {budget}");
        assert!(place.good("overhead").out.contains("bound by"), "an alias leads here");
    }
}

#[test]
fn what_was_not_recorded_is_said_beside_what_it_counts_as() {
    let place = Place::new();
    place.good("run paged-attention --arch a2a3 --engine virtual --swimlane=2 --dep-gen");
    assert_eq!(place.good("sched --json").json()["verdict_folds"], serde_json::json!(["submit"]));
    let sched = place.good("sched").out;
    assert!(sched.contains("bound by scheduling, with submitting, which was not recorded ("), "{sched}");
    let costly = place.good("explain").out;
    assert!(costly.contains("records of submits, level 4, tell why"), "{costly}");
}

#[test]
fn a_bound_above_the_makespan_has_no_percentage() {
    let place = Place::new();
    let rows = r#"{"chip_swimlane_level": 1, "metadata": {"clock_freq_hz": 1000000000},
        "aicore_tasks": [[0,1,1,0,100,0], [1,2,2,50,150,0]]}"#;
    let deps = r#"{"tasks": [{"task_id": 1}, {"task_id": 2}], "edges": [{"pred": 1, "succ": 2}]}"#;
    std::fs::write(place.path().join("chip_swimlane_records.json"), rows).expect("written");
    std::fs::write(place.path().join("deps.json"), deps).expect("written");
    let told = place.good("critical-path chip_swimlane_records.json").out;
    assert_eq!(told.matches("200 ns (more than the makespan: the file contradicts itself)").count(), 2, "{told}");
}

#[test]
fn dependencies_are_shown_reduced_searched_and_drawn() {
    let place = Place::new();
    place.good("run cholesky --profile");
    let whole = place.good("deps --json").json();
    let reduced = place.good("deps --reduced --json").json();
    let edges = |graph: &Value| graph["edges"].as_array().map_or(0, Vec::len) as u64;
    assert_eq!(edges(&whole), number(&whole["pairs"]));
    assert_eq!(edges(&reduced), number(&whole["reduced_pairs"]));
    let dot = place.good("deps --dot").out;
    assert!(dot.starts_with("digraph") && dot.matches(" -> ").count() as u64 == edges(&whole), "{dot}");
    let task = place.good("deps --task r1t1 --json").json();
    assert!(task["nodes"].as_array().is_some_and(|nodes| nodes.len() == 1), "{task}");
    assert!(place.good("deps --task r1t1").out.contains("← r1t0"));
    place.good("run cholesky --out bare");
    assert!(place.run("deps bare").err.contains("--dep-gen"));
    place.good("run spmd --arch a2a3 --engine virtual --profile --out steps");
    let dot = place.good("deps steps --dot").out;
    assert!(dot.contains("(dummy)") && !dot.contains("(unknown)") && dot.contains("Time is virtual"), "{dot}");
}

/// What a file cannot tell is absent, and the reason is said.
#[test]
fn without_dependencies_nobody_can_tell_whether_cores_idled_beside_ready_tasks() {
    let place = Place::new();
    place.good("run decode-layer --swimlane --out bare");
    let ran = place.run("sched bare --json");
    let overhead = &ran.json()["overhead"];
    assert!(overhead["own"].is_null() && overhead["reference"].is_null(), "{overhead}");
    assert!(ran.err.contains("no dependencies were recorded") && ran.err.contains("--dep-gen"), "{}", ran.err);
    assert!(!place.good("explain bare").out.contains("idle while ready"));
}

/// Between rounds nobody submits, and nothing bounds the run.
#[test]
fn the_gap_between_rounds_is_not_called_submitting() {
    let place = Place::new();
    place.good("run spmd --arch a2a3 --engine virtual --rounds 2 --profile --out run");
    let path = place.good("critical-path run --json").json();
    let sum: u64 = path["parts"].as_object().expect("parts").values().map(number).sum();
    assert_eq!(sum, number(&path["makespan_ns"]));
    assert!(number(&path["parts"]["submit"]) < number(&path["parts"]["front_gap"]), "{}", path["parts"]);
    assert_eq!(place.good("sched run --json").json()["verdict"], "kernels");
    assert!(!place.good("critical-path run").out.contains("gil_wait"), "no kernel of this run is an interpreter's");
}

/// A run whose records are gone is not one in which nothing happened.
#[test]
fn a_run_without_its_records_is_refused_in_words() {
    let place = Place::new();
    place.good("run vector --profile --out run");
    std::fs::remove_dir_all(place.path().join("run/records")).expect("removed");
    for command in ["stats", "sched", "critical-path"] {
        assert_eq!(place.run(&format!("{command} run")).code, Some(1), "{command}");
    }
    assert!(place.run("stats run").err.contains("holds no records"));
}

#[test]
fn buffers_that_are_used_again_are_told_as_false_dependencies() {
    let place = Place::new();
    place.good("run sliding --profile");
    let graph = place.good("deps --json").json();
    let kinds: Vec<&str> =
        graph["false_dependencies"].as_array().expect("a list").iter().filter_map(|f| f["kind"].as_str()).collect();
    assert!(!kinds.is_empty(), "{graph}");
    assert!(kinds.iter().all(|kind| kind.starts_with("write_after") || *kind == "no_shared_byte"), "{kinds:?}");
    assert_eq!(graph["untold_pairs"], 0, "a run of ours records all that tells it");
}

#[test]
fn a_good_run_is_explained_by_what_cost_most() {
    let place = Place::new();
    place.good("run cholesky --profile");
    let told = place.good("explain --json").json();
    let findings = told["findings"].as_array().expect("a list");
    assert!((1..=3).contains(&findings.len()), "{told}");
    let costs: Vec<u64> = findings.iter().map(|finding| number(&finding["cost_ns"])).collect();
    assert!(costs.is_sorted_by(|a, b| a >= b), "{costs:?}");
    for finding in findings {
        let command = finding["command"].as_str().expect("a command");
        let line = command.strip_prefix("plimsoll ").expect("one of ours");
        place.good(line);
        assert!(place.good("explain").out.contains(command), "{command}");
    }
    assert!(place.run("explain").out.contains("The run ended well."));
    place.run("run fault-kernel-error");
    assert_eq!(place.good("explain --json").json()["findings"], Value::Array(Vec::new()));
}

#[test]
fn two_runs_are_compared_and_a_slower_one_can_fail() {
    let place = Place::new();
    place.good("run vector --engine virtual --arch a2a3 --profile --out a");
    place.good("run vector --engine virtual --arch a2a3 --profile --out same");
    place.good("run vector --engine virtual --arch a2a3 --arch-set dispatch_ns=40000 --profile --out slow");
    let same = place.good("diff a same --fail-over 0 --json").json();
    assert_eq!((&same["verdict"], &same["makespan"]["change_ns"]), (&"same".into(), &0.into()), "{same}");
    let ran = place.run("diff a slow --fail-over 5 --json");
    assert_eq!((ran.code, &ran.json()["verdict"]), (Some(1), &"slower".into()));
    let text = place.good("diff a slow").out;
    assert!(text.starts_with("slower: makespan") && text.contains("scheduling"), "{text}");
    assert_eq!(place.good("diff slow a --json").json()["verdict"], "faster");
    assert!(same["cautions"].as_array().is_some_and(Vec::is_empty), "{same}");
}

#[test]
fn what_does_not_compare_well_is_said() {
    let place = Place::new();
    place.good("run vector --engine virtual --arch a2a3 --profile --out once");
    place.good("run vector --profile --rounds 2 --out twice");
    let told = place.good("diff once twice").out;
    assert!(told.contains("The runs have 1 and 2 rounds"), "{told}");
    assert!(told.contains("Times before are virtual, times after measured."), "{told}");
    place.good("run vector --engine virtual --arch a2a3 --swimlane=2 --dep-gen --out plain");
    let told = place.good("diff once plain").out;
    let submit = told.lines().find(|line| line.starts_with("submit")).expect("one of them tells it");
    let cells: Vec<&str> = submit.split_whitespace().collect();
    assert!(cells.ends_with(&["–", "–", "–"]), "a run without submits saved none: {told}");
    // A run that died early is no faster one.
    assert_eq!(
        place.run("run vector --engine virtual --arch a2a3 --profile --costs {\"default\":\"never\"} --out dead").code,
        Some(1)
    );
    let ran = place.run("diff once dead --fail-over 5");
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    assert!(ran.out.starts_with("incomparable: ") && !ran.out.contains("faster"), "{}", ran.out);
    for line in ["diff once dead --json", "diff dead once --json"] {
        assert_eq!(place.good(line).json()["verdict"], "incomparable", "{line}");
    }
    assert!(place.run("check dead").out.contains("did not end well: hung"), "check says how the run ended");
    assert!(
        ran.out.contains("The run after did not end well (hung)") && ran.out.contains("FAILED: dead"),
        "{}",
        ran.out
    );
}

#[test]
fn files_that_lie_elsewhere_are_named() {
    let Some(samples) = samples() else { return };
    let place = Place::new();
    let run = samples.join("paged_attention-a2a3sim");
    let records = run.join("swimlane_l4/chip_swimlane_records.json");
    let alone = place.run(&format!("critical-path {} --json", records.display()));
    assert!(alone.json()["edges"].is_null() && alone.err.contains("--deps"), "{}", alone.err);
    let deps = run.join("dep_gen/deps.json");
    let names = run.join("dep_gen/name_map_TestPagedAttention_CaseVarSeq4.json");
    let line =
        format!("critical-path {} --deps {} --names {} --json", records.display(), deps.display(), names.display());
    let told = place.good(&line).json();
    assert_eq!(told["edges"], 76);
    assert!(told["functions"].as_array().expect("rows").iter().any(|f| f["func"] == "QK"), "{told}");
    let missing = place.run(&format!("critical-path {} --deps absent.json", records.display()));
    assert!(missing.code == Some(1) && missing.err.contains("absent.json"), "{}", missing.err);
}

#[test]
fn ranks_are_read_one_at_a_time() {
    let Some(samples) = samples() else { return };
    let place = Place::new();
    for (rank, run) in [("rank0/d0", "vector_example-a2a3sim"), ("node1/rank1/d3", "paged_attention-a2a3sim")] {
        let dir = place.path().join("many").join(rank);
        std::fs::create_dir_all(&dir).expect("made");
        let file = "chip_swimlane_records.json";
        std::fs::copy(samples.join(run).join("all").join(file), dir.join(file)).expect("copied");
    }
    assert_eq!(place.good("stats many --rank 0 --json").json()["tasks"], 5);
    assert_eq!(place.good("stats many --rank 1 --json").json()["tasks"], 64);
    let refused = place.run("stats many");
    assert!(
        refused.code == Some(1) && refused.err.contains("0, 1") && refused.err.contains("--rank"),
        "{}",
        refused.err
    );
    // Every command that refuses to choose lets itself be told, and what is written lies with the rank that it is of.
    assert!(place.run("check many").err.contains("--rank"));
    place.good("check many --rank 1");
    assert!(place.run("args many --rank 0").err.contains("rank0/d0 holds no captured arguments"));
    let written = |rank: u32| place.good(&format!("export many --rank {rank} --json")).json()["files"][0].clone();
    assert_eq!(written(0), "many/rank0/d0/trace.pftrace");
    assert_eq!(written(1), "many/node1/rank1/d3/trace.pftrace");
    let told = place.good("stats many --rank 0").out;
    assert!(told.contains("next: plimsoll export many/rank0/d0 · plimsoll scopes many/rank0/d0"), "{told}");
}

#[test]
fn what_to_do_next_names_the_run_and_the_files_that_lie_elsewhere() {
    let place = Place::new();
    place.good("run vector --profile --out here");
    place.good("export here --format simpler");
    let told = place.good("sched here").out;
    assert!(told.contains("next: plimsoll critical-path here · plimsoll stats here\n"), "{told}");
    let told = place.good("stats here --deps here/deps.json").out;
    let next = "plimsoll scopes here --deps here/deps.json · plimsoll check here\n";
    assert!(told.contains(next), "{told}");
    place.good("run vector --profile");
    assert!(place.good("sched").out.contains("next: plimsoll critical-path · plimsoll stats\n"));
}

#[test]
fn a_task_of_a_later_round_is_found_in_a_graph_that_is_told_once() {
    let place = Place::new();
    place.good("run sliding --rounds 2 --profile --out run");
    place.good("export run --format simpler-newest --output newest");
    let task = |name: &str| place.good(&format!("deps newest --task {name} --json")).json()["nodes"][0].clone();
    let name = place.good("deps newest --json").json()["nodes"][0]["task"].as_str().expect("a name").to_owned();
    assert_eq!(task(&format!("{name}@1")), task(&name));
    assert_eq!(place.run("deps newest --task r3t99999@1").code, Some(1));
    assert_eq!(place.run(&format!("deps run --task {name}@7")).code, Some(1), "a graph with every round has no other");
}

#[test]
fn runs_are_compared_rank_by_rank_and_by_a_share_that_is_a_number() {
    let place = Place::new();
    place.good("run cholesky --profile --out run");
    for rank in ["rank0/d0", "rank1/d0"] {
        place.good(&format!("export run --format simpler --output both/{rank}"));
    }
    let refused = place.run("diff both run");
    assert!(refused.err.contains("--rank"), "{}", refused.err);
    assert_eq!(place.good("diff both both --rank 1 --json").json()["verdict"], "same");
    assert!(place.good("diff both both --rank 1").out.contains("next: plimsoll critical-path both/rank1/d0 ·"));
    for share in ["nan", "-1", "inf", "much"] {
        assert_eq!(place.run(&format!("diff run run --fail-over={share}")).code, Some(2), "{share}");
    }
    place.good("diff run run --fail-over 5");
}
