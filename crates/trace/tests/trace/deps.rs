//! Dependencies inferred from submits: each kind of edge, and the file they are written to.

use plimsoll_abi::record::{ArgMode, SubmitRecord, SubmitTag};
use plimsoll_abi::{Dtype, TaskId};
use plimsoll_trace::deps::{Dependencies, Edge, EdgeSource, Submits, write_deps_json};
use plimsoll_trace::{FindingKind, MachineMark, Quality, open};

/// A program as its submits, built up call by call.
#[derive(Default)]
struct Program {
    records: Vec<SubmitRecord>,
    tasks: u32,
}

/// Rows `from..to` of a buffer of eight rows of eight.
fn rows(tag: SubmitTag, id: u64, from: u64, to: u32) -> SubmitRecord {
    let mut record = SubmitRecord { tag: tag as u8, id, dtype: Dtype::F32 as u8, ndim: 2, ..SubmitRecord::default() };
    record.offset = from * 8;
    record.shape = [to - from as u32, 8, 1, 1, 1];
    record.strides = [8, 1, 0, 0, 0];
    record
}

impl Program {
    fn buffer(&mut self, id: u64) {
        self.records.push(rows(SubmitTag::Buffer, id, 0, 8));
    }

    fn task(&mut self, manual: bool, args: &[(ArgMode, u64, u64, u32)], deps: &[u32]) {
        let mut head = SubmitRecord { tag: SubmitTag::Task as u8, mode: u8::from(manual), ..SubmitRecord::default() };
        head.id = TaskId::new(1, self.tasks).raw();
        head.aux = deps.len() as u32;
        head.shape = [0, 1, 0, 1, args.len() as u32];
        self.tasks += 1;
        self.records.push(head);
        for (idx, (mode, buffer, from, to)) in args.iter().enumerate() {
            let mut arg = rows(SubmitTag::Arg, *buffer, *from, *to);
            (arg.mode, arg.aux) = (*mode as u8, idx as u32);
            self.records.push(arg);
        }
        for dep in deps {
            let id = TaskId::new(1, *dep).raw();
            self.records.push(SubmitRecord { tag: SubmitTag::Dep as u8, id, ..SubmitRecord::default() });
        }
    }

    fn infer(&self) -> (Dependencies, Quality) {
        let mut quality = Quality::default();
        let mut submits = Submits::default();
        self.records.iter().for_each(|record| submits.push(record, &mut quality));
        let deps = submits.infer(&mut quality).expect("there are submits");
        (deps, quality)
    }
}

fn edges(deps: &Dependencies) -> Vec<(u32, u32, i16, EdgeSource)> {
    let mut edges: Vec<_> = deps.edges.iter().map(|e| (e.pred, e.succ, e.arg, e.source)).collect();
    edges.sort();
    edges
}

/// One edge of every kind.
fn program() -> Program {
    use ArgMode::{Inout, Input, NoDep, Output, OutputExisting};
    let mut program = Program::default();
    program.buffer(7);
    program.task(false, &[(Input, 7, 0, 8), (Output, 100, 0, 8)], &[]);
    program.task(false, &[(Input, 100, 0, 4), (Inout, 7, 0, 4)], &[]);
    program.task(false, &[(Input, 7, 4, 8)], &[]);
    program.task(false, &[(Input, 7, 2, 6)], &[]);
    program.task(false, &[(OutputExisting, 7, 6, 8)], &[]);
    program.task(true, &[(Inout, 7, 0, 8)], &[4]);
    program.task(false, &[(NoDep, 7, 0, 8)], &[]);
    program
}

#[test]
fn every_kind_of_edge_is_found_and_tiles_that_do_not_touch_make_none() {
    let (deps, quality) = program().infer();
    assert!(quality.is_sound(), "{quality:?}");
    let expected = [
        (0, 1, 0, EdgeSource::Creator),
        (0, 1, 1, EdgeSource::Reader),
        (0, 4, 0, EdgeSource::Reader),
        (1, 3, 0, EdgeSource::Tensormap),
        (2, 4, 0, EdgeSource::Reader),
        (4, 5, -1, EdgeSource::Explicit),
    ];
    assert_eq!(edges(&deps), expected);
}

#[test]
fn the_file_is_read_back_and_the_same_program_gives_the_same_bytes() {
    let bytes = || {
        let mut out = Vec::new();
        write_deps_json(&program().infer().0, &MachineMark::default(), &mut out).expect("written");
        out
    };
    assert_eq!(bytes(), bytes());
    let dir = tempfile::tempdir().expect("temporary directory");
    std::fs::write(dir.path().join("deps.json"), bytes()).expect("written");
    let trace = open(&dir.path().join("deps.json")).expect("readable alone");
    let (before, after) = (program().infer().0, trace.deps.expect("dependencies"));
    assert_eq!(edges(&before), edges(&after));
    assert_eq!((&before.tasks, &before.tensors), (&after.tasks, &after.tensors));
    assert_eq!(before.args, after.args);
    let text = String::from_utf8(bytes()).expect("text");
    assert!(text.contains(r#""source":"reader","flags":["wait"],"overlap":"covered""#), "{text}");
    assert!(text.contains(r#""scope":"manual""#) && text.contains(r#""producer_shape":[4,8]"#), "{text}");
    assert!(
        text.contains(r#"{"pred":"4294967300","succ":"4294967301","arg":-1,"source":"explicit","flags":["wait"]}"#)
    );
}

#[test]
fn rounds_that_use_ids_again_depend_on_their_own_tasks() {
    let mut program = program();
    let once = program.records.clone();
    let in_round_1 = |record: &SubmitRecord| {
        let names_a_task = [SubmitTag::Task as u8, SubmitTag::Dep as u8].contains(&record.tag);
        let id = if names_a_task { TaskId::from_raw(record.id).with_round(1) } else { record.id };
        SubmitRecord { id, ..*record }
    };
    program.records.extend(once.iter().map(in_round_1));
    let (deps, quality) = program.infer();
    assert_eq!(quality.count(FindingKind::EdgeWithoutTask), 0);
    assert_eq!(deps.tasks.len(), 14);
    assert!(deps.tasks.iter().enumerate().all(|(at, task)| task.word >> 40 == u64::from(at >= 7)));
    let (first, second): (Vec<_>, Vec<_>) = deps.edges.iter().partition(|edge| edge.succ < 7);
    let later = |edge: &&Edge| Edge { pred: edge.pred + 7, succ: edge.succ + 7, ..**edge };
    assert_eq!(first.iter().map(later).collect::<Vec<_>>(), second.into_iter().copied().collect::<Vec<_>>());
    let creators = deps.edges.iter().filter(|e| e.source == EdgeSource::Creator).map(|e| (e.pred, e.succ));
    assert_eq!(creators.collect::<Vec<_>>(), [(0, 1), (7, 8)]);
}

#[test]
fn submits_that_make_no_sense_are_counted() {
    let mut program = program();
    program.task(false, &[(ArgMode::Input, 999, 0, 8)], &[]);
    program.task(false, &[(ArgMode::Input, 7, 4, 40)], &[55]);
    program.records.push(rows(SubmitTag::Arg, 7, 0, 8));
    program.records.push(SubmitRecord { tag: 9, ..SubmitRecord::default() });
    let mut cut = SubmitRecord { tag: SubmitTag::Task as u8, id: 77, ..SubmitRecord::default() };
    cut.shape[4] = 3;
    program.records.push(cut);
    let (deps, quality) = program.infer();
    assert_eq!(deps.tasks.len(), 10);
    assert_eq!(quality.count(FindingKind::BadRecord), 4, "{quality:?}");
    assert_eq!(quality.count(FindingKind::CutSubmit), 1, "{quality:?}");
    assert_eq!(quality.count(FindingKind::EdgeWithoutTask), 1);
}

/// Other readers find a name on either type of core; one of ours counts one execution.
#[test]
fn a_kernel_for_cores_of_both_types_stands_in_both_slots_and_counts_once() {
    let mut text = r#"{"tasks": [{"task_id": 1, "kernel_ids": [3, 3, -1], "core_class": "any", "block_num": 2},
        {"task_id": 2, "kernel_ids": [3, 3, -1]}], "edges": []}"#
        .to_string();
    for _ in 0..2 {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::write(dir.path().join("deps.json"), &text).expect("written");
        let deps = open(dir.path()).expect("readable").deps.expect("dependencies");
        assert_eq!(deps.tasks.iter().map(|task| task.executions()).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(deps.tasks.iter().map(|task| task.any_core).collect::<Vec<_>>(), [true, false]);
        let mut again = Vec::new();
        write_deps_json(&deps, &MachineMark::default(), &mut again).expect("written");
        text = String::from_utf8(again).expect("text");
        assert!(text.contains(r#""kernel_ids":[3,3,-1],"core_class":"any","#), "{text}");
    }
}

/// Two edges of one argument between two tasks that list no arguments: the edges alone tell what is used.
#[test]
fn views_of_several_edges_between_two_tasks_are_told_apart() {
    let edge = |offset: u64| {
        format!(
            r#"{{"pred": 1, "succ": 2, "arg": 0, "source": "tensormap", "overlap": "other",
                "consumer_shape": [4], "consumer_start_offset": 0, "consumer_strides": [1],
                "producer_shape": [4], "producer_start_offset": {offset}, "producer_strides": [1]}}"#
        )
    };
    let mut text = format!(
        r#"{{"tasks": [{{"task_id": 1}}, {{"task_id": 2}}], "tensors": [], "edges": [{}, {}]}}"#,
        edge(0),
        edge(32)
    );
    for _ in 0..2 {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::write(dir.path().join("deps.json"), &text).expect("written");
        let deps = open(dir.path()).expect("readable").deps.expect("dependencies");
        let offsets: Vec<_> = deps.edges.iter().map(|edge| deps.views_of(edge).map(|views| views.0.offset)).collect();
        assert_eq!(offsets, [Some(0), Some(32)]);
        let mut again = Vec::new();
        write_deps_json(&deps, &MachineMark::default(), &mut again).expect("written");
        text = String::from_utf8(again).expect("text");
    }
}
