//! The page of a run: it repeats, stays text whatever names it is given, and its figures are those of the commands.

use plimsoll_abi::record::Kind;
use plimsoll_analyze::{scopes, stats};
use plimsoll_report::page::{Answers, Subject, Written, write_comparison, write_page};
use plimsoll_trace::synthetic::Synthetic;
use plimsoll_trace::{
    EndClass, Explanation, Liveness, PoolCount, SchedPhaseRow, Source, Status, Trace, TraceParts, open, open_with,
};

fn page(trace: &Trace) -> (String, Written) {
    let mut bytes = Vec::new();
    let answers = Answers::of(trace);
    let written = write_page(Subject { trace, answers: &answers }, &mut bytes).expect("written");
    assert_eq!(written.bytes, bytes.len() as u64);
    (String::from_utf8(bytes).expect("UTF-8"), written)
}

fn synthetic() -> Trace {
    let dir = tempfile::tempdir().expect("temporary directory");
    Synthetic::default().write(dir.path()).expect("written");
    open(dir.path()).expect("readable")
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let trace = synthetic();
    assert_eq!(page(&trace), page(&trace));
}

#[test]
fn a_small_run_has_a_small_page() {
    let (text, written) = page(&synthetic());
    assert!(text.len() < 250_000, "{} bytes", text.len());
    assert!(written.left_out.is_empty() && written.slices >= 100, "{written:?}");
}

#[test]
fn figures_are_those_of_the_commands() {
    let trace = synthetic();
    let (text, _) = page(&trace);
    let stats = stats(&trace);
    let makespan = stats.makespan_ns.expect("kernels ran");
    assert!(text.contains(&format!("id=makespan data-v=\"{makespan}\"")));
    assert!(text.contains(&format!("id=tasks data-v=\"{}\"", stats.tasks)));
    for function in &stats.functions {
        assert!(text.contains(&format!("data-v=\"{}\"", function.exec_total_ns)), "{}", function.name);
    }
}

#[test]
fn shares_of_scopes_and_the_end_of_the_axis_do_not_depend_on_schedulers_that_sleep_on() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Synthetic::default().write(dir.path()).expect("written");
    let parts = TraceParts { scopes: true, ..TraceParts::TASKS };
    let of_command = scopes(&open_with(dir.path(), parts).expect("readable")).scopes;
    let mut trace = open(dir.path()).expect("readable");
    let (_, end) = trace.extent().expect("kernels ran");
    let agent = trace.sched_phases.agents - 1;
    let name = trace.sched_phases.names.intern("park");
    trace.sched_phases.push(agent, SchedPhaseRow { start: end, end: 9 * end, name, ..SchedPhaseRow::default() });
    let (text, _) = page(&trace);
    let table = shown(&text).split("<table id=scope-table>").nth(1).and_then(|rest| rest.split("</table>").next());
    for scope in &of_command {
        let (time, share) = (scope.duration_ns.expect("samples have times"), scope.share.expect("samples have times"));
        assert!(share > 0.0 && share <= scope.entered as f64);
        let cells = [time as f64, share].map(|value| format!("<td class=n data-v=\"{value}\">"));
        let row = table.and_then(|table| table.split("<tr").find(|row| cells.iter().all(|cell| row.contains(cell))));
        assert!(row.is_some_and(|row| row.contains(&scope.site)), "{scope:?} in {table:?}");
    }
    assert_eq!(meta(&text)["end_ns"], trace.clock.ns_at(end), "the axis ends with the run");
}

#[test]
fn names_that_look_like_markup_stay_text() {
    let mut trace = synthetic();
    let evil = "<img src=x onerror=alert(1)></script><!--";
    trace.facts.program = evil.to_string();
    for name in trace.kernels.values_mut() {
        *name = evil.to_string();
    }
    trace.scopes.sites.iter_mut().for_each(|site| *site = format!("{evil}:1"));
    let (text, _) = page(&trace);
    assert!(!text.contains("<img") && text.contains("&lt;img"));
    let (mut opened, mut closed) = (0, 0);
    for at in text.match_indices("script") {
        opened += usize::from(text[..at.0].ends_with('<'));
        closed += usize::from(text[..at.0].ends_with("</"));
    }
    // The last words of the page's own script hold none, so every element that opens is closed by its own end.
    assert_eq!(opened, closed);
}

#[test]
fn what_cost_most_is_said_before_a_task_is_selected() {
    let mut trace = synthetic();
    let (text, _) = page(&trace);
    let found = plimsoll_analyze::costliest(&trace);
    assert!(!found.is_empty() && text.matches("of the makespan: ").count() >= found.len(), "{found:?}");
    for name in trace.kernels.values_mut() {
        *name = "k".repeat(10_000);
    }
    let told = plimsoll_analyze::costliest(&trace);
    assert!(told.iter().all(|costly| costly.what.len() < 200), "{told:?}");
    trace.manifest.as_mut().expect("a run of ours").status = plimsoll_trace::Status::Failed;
    assert!(!page(&trace).0.contains("id=costliest"), "of a run that failed its end is told");
}

#[test]
fn the_page_asks_for_nothing() {
    let (text, _) = page(&synthetic());
    assert!(text.contains("default-src 'none'; script-src 'sha256-"));
    for word in ["src=\"", "href=\"http", "url(http", "@import", "fetch(", "XMLHttpRequest", "style=\""] {
        assert!(!text.contains(word), "{word}");
    }
}

#[test]
fn a_trace_of_nothing_has_a_page() {
    let trace = Trace::empty(plimsoll_trace::Source::Reference(Vec::new()));
    assert!(page(&trace).0.contains("No kernel ran"));
}

#[test]
fn two_runs_are_compared_on_one_page() {
    let (before, after) = (synthetic(), synthetic());
    let (of_before, of_after) = (Answers::of(&before), Answers::of(&after));
    let mut bytes = Vec::new();
    let subjects = [(&before, &of_before), (&after, &of_after)].map(|(trace, answers)| Subject { trace, answers });
    write_comparison(subjects[0], subjects[1], &mut bytes).expect("written");
    let text = String::from_utf8(bytes).expect("UTF-8");
    assert!(text.contains("No change beyond the noise"), "two runs that are the same");
    assert!(text.contains("id=\"before.core.gap\"") && text.contains("id=\"core.gap\""));
}

#[test]
fn waits_for_the_recorder_are_gaps_of_their_lanes() {
    let mut trace = synthetic();
    assert!(!page(&trace).0.contains("id=\"gap.gap\""));
    let wait = trace.sched_phases.names.intern("recorder_wait");
    trace.sched_phases.name[3] = wait;
    let (text, written) = page(&trace);
    assert!(text.contains("id=\"gap.gap\"") && text.contains("\"gaps\":1"), "{written:?}");
}

#[test]
fn scopes_are_shown_nested_with_their_floors() {
    let trace = synthetic();
    let (text, _) = page(&trace);
    let tree = plimsoll_analyze::scope_tree(&trace);
    assert!(!tree.nodes.is_empty());
    for at in 0..tree.nodes.len() {
        assert!(text.contains(&format!("<tr data-node={at}>")), "node {at}");
    }
}

#[test]
fn a_bound_beyond_its_capacity_is_called_one() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let head = r#"{"version":6,"fatal":false,"dropped":0,"total":2,"task_window_max":[9,9,9,9],"heap_max":[0,0,0,0],"dep_pool_max":[9,9,9,9],"tensormap_max":9}"#;
    let sample = |phase: &str, tail: u64, head: u64| {
        format!(
            r#"{{"site":"a.cpp:1","phase":"{phase}","depth":0,"ring":0,"task_window_start":{tail},"task_window_end":{head}}}"#
        )
    };
    let file = format!("{head}\n{}\n{}\n", sample("begin", 0, 2), sample("end", 7, 10));
    std::fs::write(dir.path().join("scope_stats.jsonl"), file).expect("written");
    let (text, _) = page(&open(dir.path()).expect("readable"));
    let shown = text.split("<main>").nth(1).and_then(|rest| rest.split("</main>").next()).expect("the page's body");
    assert_eq!(shown.matches("≥ capacity, from boundary samples").count(), 3, "verdict, load line and table: {shown}");
    assert!(!shown.contains("111"), "{shown}");
    assert!(!shown.contains("No kernel ran"), "nothing is known of kernels: {shown}");
}

/// What the page shows, without style, data and scripts.
fn shown(text: &str) -> &str {
    text.split("</main>").next().and_then(|head| head.split("<header>").nth(1)).expect("the page's body")
}

/// The page of a trace that its command has something to say about.
fn told(trace: &Trace, answers: &Answers) -> String {
    let mut bytes = Vec::new();
    write_page(Subject { trace, answers }, &mut bytes).expect("written");
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn a_killed_run_is_called_so_with_the_explanation_that_the_command_gives() {
    let mut trace = synthetic();
    trace.manifest.as_mut().expect("a run of ours").status = Status::Running;
    trace.liveness = Liveness::NeedsRecovery;
    let explanation = Explanation {
        class: EndClass::Killed,
        verdict: "The run's status is running; it was killed. A kernel ran.".into(),
        advice: vec!["Use `a call`.".into()],
        ..Explanation::default()
    };
    let answers = Answers::in_words(&trace, |text| text.replace('`', "|"), |_| explanation);
    let text = told(&trace, &answers);
    let shown = shown(&text);
    assert!(shown.contains("<h2>The run was killed.</h2><p>A kernel ran.</p>"), "{shown}");
    assert!(shown.contains("<span class=\"chip b\">killed</span>") && !shown.contains("\">running</span>"), "{shown}");
    assert!(shown.contains("killed: its last word was that it was running"), "{shown}");
}

#[test]
fn what_was_not_recorded_is_said_in_the_words_of_who_ran_it() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Synthetic { deps: false, scopes: false, ..Synthetic::default() }.write(dir.path()).expect("written");
    let trace = open(dir.path()).expect("readable");
    let (text, _) = page(&trace);
    assert!(shown(&text).contains("Dependencies were not recorded. Record them with <code>Flags::DEP_GEN</code>"));
    assert!(shown(&text).contains("There are no scope samples. Record them with <code>Flags::SCOPE_STATS</code>"));
    assert!(!shown(&text).contains("Select a task to see whom"));
    let flags = Answers::in_words(&trace, |text| text.replace("`Flags::DEP_GEN`", "--dep-gen"), |_| unreachable!());
    let text = told(&trace, &flags);
    assert!(shown(&text).contains("Record them with --dep-gen or"));
    assert!(
        text.contains("\"no_dependencies\":\"Dependencies were not recorded. Record them with --dep-gen or RecordOp")
    );
}

#[test]
fn files_that_report_losses_say_so_in_the_header() {
    let mut trace = Trace::empty(plimsoll_trace::Source::Reference(Vec::new()));
    assert!(!page(&trace).0.contains("the files report losses"));
    trace.quality.note(plimsoll_trace::FindingKind::ReportedLoss, None, || "records".to_string());
    assert!(page(&trace).0.contains("<span class=\"chip b\">the files report losses</span>"));
}

#[test]
fn samples_without_times_have_no_columns_of_times() {
    let mut trace = synthetic();
    assert!(shown(&page(&trace).0).contains("<th scope=col class=n>time</th>"));
    trace.scopes.timed = false;
    let (text, _) = page(&trace);
    assert!(shown(&text).contains("These samples carry no times."));
    let scopes = shown(&text).split("<section id=scopes").nth(1).and_then(|rest| rest.split("</section>").next());
    assert!(scopes.is_some_and(|scopes| !scopes.contains(">time</th>") && !scopes.contains("PeakForm")), "{scopes:?}");
}

#[test]
fn a_comparison_names_its_runs_and_does_not_praise_one_that_was_cut_short() {
    let (before, mut after) = (synthetic(), synthetic());
    after.manifest.as_mut().expect("a run of ours").status = Status::Failed;
    let (of_before, of_after) = (Answers::of(&before), Answers::of(&after));
    let mut bytes = Vec::new();
    let subjects = [(&before, &of_before), (&after, &of_after)].map(|(trace, answers)| Subject { trace, answers });
    write_comparison(subjects[0], subjects[1], &mut bytes).expect("written");
    let text = String::from_utf8(bytes).expect("UTF-8");
    let headline = text.split("<h2 id=verdict-diff").nth(1).and_then(|rest| rest.split("</h2>").next());
    assert!(headline.is_some_and(|words| words.contains("do not compare")), "{headline:?}");
    for trace in [&before, &after] {
        let Source::Run(dir) = &trace.source else { panic!("a run of ours") };
        assert!(shown(&text).contains(&format!("<code>{}</code>", dir.display())));
    }
    assert!(shown(&text).contains("<table id=diff-parts>") && !shown(&text).contains("What changed</summary>"));
}

/// The meta block of a page as JSON.
fn meta(text: &str) -> serde_json::Value {
    let block = text.split("id=meta>").nth(1).and_then(|rest| rest.split("</script>").next()).expect("a meta block");
    serde_json::from_str::<serde_json::Value>(block).expect("JSON")[0].take()
}

#[test]
fn an_orchestrators_waits_for_the_recorder_are_gaps_of_its_own_lane() {
    let mut trace = synthetic();
    let agent = *trace.orch_phases.agent.first().expect("submits were recorded");
    let at = trace.sched_phases.of_agent(agent).next().expect("it scheduled, too");
    trace.agents.resize(trace.agents.len().max(usize::from(agent) + 1), String::new());
    trace.agents[usize::from(agent)] = "orchestrator".to_string();
    let wait = trace.sched_phases.names.intern("recorder_wait");
    trace.sched_phases.name[at] = wait;
    let agents = meta(&page(&trace).0)["agents"].take();
    let lane = agents.as_array().expect("lanes").iter().find(|lane| lane["kind"] == "orchestrator").cloned();
    assert_eq!(lane.expect("an orchestrator")["gaps"], 1);
}

#[test]
fn a_run_of_many_small_tasks_keeps_all_of_its_parts() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Synthetic { tasks: 14_400, ..Synthetic::default() }.write(dir.path()).expect("written");
    let (text, written) = page(&open(dir.path()).expect("readable"));
    assert!(written.left_out.is_empty() && text.len() < 6_500_000, "{written:?}");
}

#[test]
fn curves_are_labelled_with_the_peak_of_the_load_line() {
    let trace = synthetic();
    let (text, _) = page(&trace);
    let meta = meta(&text);
    let curves = meta["curves"].as_array().expect("curves");
    assert!(!curves.is_empty());
    for curve in curves {
        let (peak, capacity) =
            (curve["peak"].as_u64().expect("a peak"), curve["capacity"].as_u64().expect("a capacity"));
        let hull = format!("<figure data-peak={peak} data-capacity={capacity}>");
        assert!(peak > 0 && text.contains(&hull), "{curve}");
    }
}

#[test]
fn dependencies_without_times_have_tasks_to_select() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let deps = r#"{"tasks": [{"task_id": 1}, {"task_id": 2}], "edges": [{"pred": 1, "succ": 2}]}"#;
    std::fs::write(dir.path().join("deps.json"), deps).expect("written");
    let (text, _) = page(&open(dir.path()).expect("readable"));
    let meta = meta(&text);
    let tasks: u64 =
        meta["groups"].as_array().expect("groups").iter().filter_map(|group| group["count"].as_u64()).sum();
    assert_eq!((tasks, meta["nodes"].as_u64(), meta["edges"].as_u64()), (2, Some(2), Some(1)));
    assert!(shown(&text).contains("No times of tasks were recorded.</p></section>"), "no empty table of cores");
    assert!(shown(&text).contains("class=empty") && shown(&text).contains("the dependencies of 2 tasks"));
    assert!(!shown(&text).contains("0 cores") && !shown(&text).contains("swimlane level"), "nothing tells of either");
    assert!(shown(&text).contains("Search for a task such as") && !shown(&text).contains("Click a slice"));
}

#[test]
fn tasks_that_did_not_run_are_among_the_neighbours_of_others() {
    let mut trace = synthetic();
    let tasks = |trace: &Trace| {
        let meta = meta(&page(trace).0);
        let groups = meta["groups"].as_array().expect("groups");
        groups.iter().filter_map(|group| group["count"].as_u64()).sum::<u64>()
    };
    let ran = tasks(&trace);
    let deps = trace.deps.as_mut().expect("dependencies were recorded");
    let mut node = *deps.tasks.last().expect("tasks");
    (node.word, node.kernels) = (node.word + 1, [7, -1, -1]);
    deps.tasks.push(node);
    trace.kernels.insert(7, "never started".to_string());
    assert_eq!(tasks(&trace), ran + 1);
    let (text, _) = page(&trace);
    assert!(text.contains("id=\"task.name\"") && text.contains("never started"), "what it would have run is told");
    assert_eq!(meta(&text)["waits"], meta(&page(&synthetic()).0)["waits"], "the causes of waits do not hang on it");
}

#[test]
fn captured_arguments_alone_have_tasks_to_select() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let arg = r#"{"task_id": "0x0000000200000007", "role": "input", "stage": "before_dispatch", "arg_index": 0, "func_id": [3], "kind": "scalar", "dtype": "int32", "value": 5}"#;
    let dump = format!(r#"{{"dump_args_level": 2, "total_args": 1, "args": [{arg}]}}"#);
    std::fs::create_dir(dir.path().join("args_dump")).expect("made");
    std::fs::write(dir.path().join("args_dump/args_dump.json"), dump).expect("written");
    let (text, _) = page(&open(dir.path()).expect("readable"));
    assert!(shown(&text).contains("These files hold no times, but captured arguments of 1 tasks."));
    assert!(shown(&text).contains("Search for a task such as"));
    let meta = meta(&text);
    assert_eq!((&meta["captured"], &meta["groups"][0]["count"]), (&1.into(), &1.into()), "{meta}");
}

#[test]
fn two_runs_without_times_are_not_called_the_same() {
    let dir = tempfile::tempdir().expect("temporary directory");
    std::fs::write(dir.path().join("deps.json"), r#"{"tasks": [{"task_id": 1}], "edges": []}"#).expect("written");
    let (untimed, timed) = (open(dir.path()).expect("readable"), synthetic());
    let compared = |before: &Trace, after: &Trace| {
        let (of_before, of_after) = (Answers::of(before), Answers::of(after));
        let mut bytes = Vec::new();
        let before = Subject { trace: before, answers: &of_before };
        write_comparison(before, Subject { trace: after, answers: &of_after }, &mut bytes).expect("written");
        shown(&String::from_utf8(bytes).expect("UTF-8")).to_string()
    };
    let text = compared(&untimed, &untimed);
    assert!(text.contains("Neither run holds times") && !text.contains("No change beyond"), "{text}");
    assert!(text.contains("id=stage class=empty"), "no room is kept for a picture of nothing");
    assert!(compared(&timed, &untimed).contains("Only the run before holds times"));
    assert!(compared(&untimed, &timed).contains("Only the run now holds times"));
}

#[test]
fn a_core_has_no_more_recovered_slices_than_slices() {
    let mut trace = synthetic();
    let core = 0;
    let of_core = trace.executions.of_core(core).len() as u64;
    let pool = |recovered| PoolCount { kind: Kind::AicoreTask, instance: core, collected: 0, recovered };
    let tail = |trace: &Trace| meta(&page(trace).0)["cores"][usize::from(core)]["recovered"].clone();
    trace.pools = vec![pool(2)];
    assert_eq!(tail(&trace), 2);
    trace.pools = vec![pool(of_core + 7)];
    assert_eq!(tail(&trace), of_core);
}
