//! Captured arguments: the reference's samples, and dumps of our own making.

use crate::samples_dir::samples;
use plimsoll_abi::TaskId;
use plimsoll_abi::record::Truncation;
use plimsoll_analyze::{ArgsDifference, ElementStats, FirstNan, NanSearch, arg_row, args_diff, first_nan};
use plimsoll_trace::{ArgRole, ArgStage, ArgsDump, ArgsDumpWriter, DumpTotals, DumpedArg, Error};
use serde_json::Value;
use std::path::Path;

fn arg(task: u32, role: ArgRole, stage: ArgStage, index: u32) -> DumpedArg {
    DumpedArg {
        task: TaskId::new(1, task),
        round: 0,
        kernel: format!("k{task}"),
        kernel_ids: vec![i64::from(task)],
        blocks: 1,
        index,
        role,
        stage,
        is_scalar: false,
        dtype: "f32".into(),
        shape: vec![2, 2],
        strides: vec![2, 1],
        start_offset: None,
        truncation: None,
        overwritten: false,
        value: None,
        payload: (0, 0),
    }
}

/// A chain of tasks, each of which reads what the one before it made.
fn chain(dir: &Path, values: &[[f32; 4]]) -> ArgsDump {
    let mut writer = ArgsDumpWriter::create(dir, 2).expect("created");
    for (task, pair) in values.windows(2).enumerate() {
        let bytes = |values: [f32; 4]| values.map(f32::to_le_bytes).concat();
        let read = arg(task as u32, ArgRole::Input, ArgStage::BeforeDispatch, 0);
        writer.add(&read, "FLOAT32", &bytes(pair[0])).expect("written");
        let made = arg(task as u32, ArgRole::Output, ArgStage::AfterCompletion, 1);
        writer.add(&made, "FLOAT32", &bytes(pair[1])).expect("written");
    }
    writer.finish(DumpTotals::default()).expect("finished");
    ArgsDump::open(dir).expect("read")
}

fn nan(dump: &ArgsDump, inf: bool) -> Option<FirstNan> {
    first_nan(dump, inf).expect("read").0
}

const FINE: [[f32; 4]; 4] = [[1.0; 4], [2.0; 4], [3.0; 4], [4.0; 4]];

#[test]
fn the_first_task_that_makes_a_nan_is_found_and_those_that_pass_it_on_are_not() {
    let (fine, spoilt) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let fine = chain(fine.path(), &FINE);
    assert_eq!(nan(&fine, true), None);
    let mut values = FINE;
    values[2][3] = f32::INFINITY;
    values[3] = [4.0, 4.0, f32::NAN, f32::NAN];
    let spoilt = chain(spoilt.path(), &values);
    let found = nan(&spoilt, false).expect("a NaN");
    assert_eq!((found.task.as_str(), found.at.as_slice(), found.count, found.what), ("r1t2", &[1, 0][..], 2, "nan"));
    let found = nan(&spoilt, true).expect("an Inf");
    assert_eq!((found.task.as_str(), found.at.as_slice(), found.what), ("r1t1", &[1, 1][..], "inf"));
}

/// A plain value is an input: a task that was given a NaN by value did not make the first one.
#[test]
fn a_nan_or_inf_given_by_value_was_not_made_by_the_task() {
    for (value, dtype, name, shown, is_nan) in [
        (Value::Null, "f32", "FLOAT32", "NaN", true),
        ("-$Inf".into(), "f64", "FLOAT64", "-Inf", false),
        (0x7e00.into(), "f16", "FLOAT16", "NaN", true),
        (0x7f80.into(), "bf16", "BFLOAT16", "Inf", false),
    ] {
        let dir = tempfile::tempdir().expect("dir");
        let mut writer = ArgsDumpWriter::create(dir.path(), 2).expect("created");
        let mut factor = arg(0, ArgRole::Input, ArgStage::BeforeDispatch, 0);
        (factor.is_scalar, factor.value, factor.dtype) = (true, Some(value), dtype.into());
        (factor.shape, factor.strides) = (Vec::new(), Vec::new());
        writer.add(&factor, name, &[]).expect("written");
        let bad = if is_nan { f32::NAN } else { f32::INFINITY };
        let made = arg(0, ArgRole::Output, ArgStage::AfterCompletion, 1);
        writer.add(&made, "FLOAT32", &[bad; 4].map(f32::to_le_bytes).concat()).expect("written");
        writer.finish(DumpTotals::default()).expect("finished");
        let dump = ArgsDump::open(dir.path()).expect("read");
        assert_eq!((nan(&dump, true), nan(&dump, false)), (None, None), "{dtype}");
        assert_eq!(arg_row(&dump, &dump.args[0], true, 1).expect("a row").value, Some(shown.into()), "{dtype}");
        assert!(dump.args[0].scalar_bits().is_some(), "{dtype}: it can be run again");
    }
}

#[test]
fn two_runs_part_where_the_same_inputs_gave_something_else() {
    let (one, two) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let one = chain(one.path(), &FINE);
    assert_eq!(args_diff(&one, &one).expect("read").first, None);
    let mut values = FINE;
    values[2][1] = 3.5;
    values[3] = [9.0; 4];
    let two = chain(two.path(), &values);
    let diff = args_diff(&one, &two).expect("read");
    let first = diff.first.expect("they differ");
    assert_eq!((first.task.as_str(), first.elements, first.of, first.at.as_slice()), ("r1t1", 1, 4, &[0, 1][..]));
    assert_eq!((first.values, first.max_abs), (Some([3.0, 3.5]), Some(0.5)));
    let mut values = FINE;
    values[2][1] = f32::NAN;
    let three = tempfile::tempdir().expect("dir");
    let first = args_diff(&one, &chain(three.path(), &values)).expect("read").first.expect("they differ");
    assert_eq!((first.elements, first.max_abs), (1, None), "a NaN is at no distance");
}

/// A dump of one task, of which a test changes an argument.
fn changed(dir: &Path, change: fn(&mut DumpedArg)) -> ArgsDump {
    let mut writer = ArgsDumpWriter::create(dir, 2).expect("created");
    for (role, stage, index) in
        [(ArgRole::Input, ArgStage::BeforeDispatch, 0), (ArgRole::Output, ArgStage::AfterCompletion, 1)]
    {
        let mut arg = arg(0, role, stage, index);
        change(&mut arg);
        writer.add(&arg, &arg.dtype, &[0; 16]).expect("written");
    }
    writer.finish(DumpTotals::default()).expect("finished");
    ArgsDump::open(dir).expect("read")
}

/// The reference gives one number to arguments that it cannot tell apart: all of them are searched and compared.
#[test]
fn arguments_that_share_a_number_are_all_looked_at() {
    let dump = |dir: &Path, inputs: [f32; 2], outputs: [f32; 2]| {
        let mut writer = ArgsDumpWriter::create(dir, 2).expect("created");
        let mut add = |role, stage, index, value: f32| {
            writer
                .add(&arg(0, role, stage, index), "FLOAT32", &[value; 4].map(f32::to_le_bytes).concat())
                .expect("added");
        };
        inputs.into_iter().for_each(|value| add(ArgRole::Input, ArgStage::BeforeDispatch, 0, value));
        outputs.into_iter().for_each(|value| add(ArgRole::Output, ArgStage::AfterCompletion, 1, value));
        writer.finish(DumpTotals::default()).expect("finished");
        ArgsDump::open(dir).expect("read")
    };
    let dirs = [(); 4].map(|()| tempfile::tempdir().expect("dir"));
    let fine = dump(dirs[0].path(), [1.0, 2.0], [3.0, 4.0]);
    assert_eq!(nan(&fine, false), None);
    let made = dump(dirs[1].path(), [1.0, 2.0], [3.0, f32::NAN]);
    assert_eq!(nan(&made, false).expect("the second output").index, 1);
    assert_eq!(args_diff(&fine, &made).expect("read").first.expect("the second output").index, 1);
    let given = dump(dirs[2].path(), [1.0, f32::NAN], [3.0, f32::NAN]);
    assert_eq!(nan(&given, false), None, "its second input has it");
    assert_eq!(args_diff(&made, &given).expect("read").other_inputs, 1);
    let mut one = dump(dirs[3].path(), [1.0, 2.0], [3.0, 4.0]);
    one.args.pop();
    let missing = args_diff(&fine, &one).expect("read");
    assert_eq!((missing.compared_tasks, missing.not_compared), (0, 1), "one run has one output less");
}

/// The same bytes are not the same if they are of another kernel, type or shape.
#[test]
fn two_runs_differ_in_kernels_types_and_shapes() {
    let dirs: Vec<tempfile::TempDir> = (0..7).map(|_| tempfile::tempdir().expect("dir")).collect();
    let one = changed(dirs[0].path(), |_| ());
    let diff = |at: usize, change| args_diff(&one, &changed(dirs[at].path(), change)).expect("read");
    assert_eq!(diff(1, |_| ()), ArgsDifference { compared_tasks: 1, ..ArgsDifference::default() });
    let other = diff(2, |arg| arg.kernel = "k9".into());
    assert_eq!((other.other_kernels, other.compared_tasks, other.first), (1, 0, None));
    let unnamed = diff(3, |arg| arg.kernel = "func_0".into());
    assert_eq!((unnamed.other_kernels, unnamed.compared_tasks), (0, 1), "the number is the same");
    let first = |diff: ArgsDifference| diff.first.expect("they differ").forms.expect("in form");
    let made_i32 = diff(4, |arg| arg.dtype = if arg.index == 1 { "i32" } else { "f32" }.into());
    assert_eq!(first(made_i32), ["f32 [2, 2]", "i32 [2, 2]"]);
    let made_row = diff(5, |arg| arg.shape = if arg.index == 1 { vec![4] } else { vec![2, 2] });
    assert_eq!(first(made_row), ["f32 [2, 2]", "f32 [4]"]);
    let read_row = diff(6, |arg| arg.shape = if arg.index == 0 { vec![4] } else { vec![2, 2] });
    assert_eq!((read_row.other_inputs, read_row.first), (1, None));
}

/// A chain of three tasks of which a test says how many bytes of each argument were captured.
fn cut(dir: &Path, level: u64, values: &[[f32; 4]], input_bytes: usize, output_bytes: usize) -> ArgsDump {
    let mut writer = ArgsDumpWriter::create(dir, level).expect("created");
    for (task, pair) in values.windows(2).enumerate() {
        let bytes = |values: [f32; 4]| values.map(f32::to_le_bytes).concat();
        for (role, stage, index, values, kept) in [
            (ArgRole::Input, ArgStage::BeforeDispatch, 0, pair[0], input_bytes),
            (ArgRole::Output, ArgStage::AfterCompletion, 1, pair[1], output_bytes),
        ] {
            let mut arg = arg(task as u32, role, stage, index);
            arg.truncation = (kept > 0 && kept < 16).then_some(Truncation::Limit);
            writer.add(&arg, "FLOAT32", &bytes(values)[..kept]).expect("written");
        }
    }
    writer.finish(DumpTotals::default()).expect("finished");
    ArgsDump::open(dir).expect("read")
}

/// What was not captured is neither equal nor finite.
#[test]
fn what_was_not_captured_is_counted_and_never_taken_for_equal_or_finite() {
    let dirs: Vec<tempfile::TempDir> = (0..6).map(|_| tempfile::tempdir().expect("dir")).collect();
    let mut values = FINE;
    values[2] = [3.0, 3.0, 3.0, f32::NAN];
    let whole = cut(dirs[0].path(), 2, &FINE, 16, 16);
    let nothing = cut(dirs[1].path(), 3, &values, 0, 0);
    let part = cut(dirs[2].path(), 2, &values, 8, 8);
    for (dump, nothing_there) in [(&nothing, 3), (&part, 0)] {
        let diff = args_diff(&whole, dump).expect("read");
        assert_eq!((diff.compared_tasks, diff.not_compared, diff.nothing_compared), (0, 3, nothing_there), "{diff:?}");
        assert_eq!((diff.other_inputs, diff.unknown_inputs, &diff.first), (0, 3, &None), "{diff:?}");
        assert_eq!(args_diff(dump, &whole).expect("read"), diff, "either way round");
        let search = NanSearch { searched_tasks: 0, not_searched: 3, nothing_searched: nothing_there };
        assert_eq!(first_nan(dump, true).expect("read"), (None, search));
    }
    let no_inputs = cut(dirs[3].path(), 3, &values, 0, 16);
    let found = nan(&no_inputs, false).expect("a NaN");
    assert_eq!((found.task.as_str(), found.inputs_unknown), ("r1t1", 1));
    let diff = args_diff(&whole, &no_inputs).expect("read");
    assert_eq!((diff.first.expect("it differs").task.as_str(), diff.first_inputs_unknown), ("r1t1", 1));
    let mut other = FINE;
    other[0][1] = 7.0;
    let other = cut(dirs[4].path(), 2, &other, 8, 8);
    assert_eq!(args_diff(&whole, &other).expect("read").other_inputs, 1, "the part that is there differs");
    let mut writer = ArgsDumpWriter::create(dirs[5].path(), 1).expect("created");
    let made = arg(0, ArgRole::Output, ArgStage::AfterCompletion, 0);
    writer.add(&made, "FLOAT32", &[f32::NAN; 4].map(f32::to_le_bytes).concat()).expect("written");
    writer.finish(DumpTotals::default()).expect("finished");
    let marked = ArgsDump::open(dirs[5].path()).expect("read");
    assert!(nan(&marked, false).expect("a NaN").may_lack_inputs, "only marked arguments were captured");
}

#[test]
fn unknown_types_and_missing_elements_are_read_and_said() {
    let dir = tempfile::tempdir().expect("dir");
    assert!(matches!(ArgsDump::open(dir.path()), Err(Error::NoArgs { .. })));
    let mut writer = ArgsDumpWriter::create(dir.path(), 3).expect("created");
    let odd = arg(0, ArgRole::Input, ArgStage::BeforeDispatch, 0);
    writer.add(&odd, "COMPLEX64", &[1, 2, 3]).expect("written");
    writer.finish(DumpTotals { dropped: 2, lost_lines: 0 }).expect("finished");
    let dump = ArgsDump::open(dir.path()).expect("read");
    assert!(dump.notes.iter().any(|note| note.contains("COMPLEX64")), "{:?}", dump.notes);
    assert!(dump.notes.iter().any(|note| note.contains("2 captured arguments were lost")), "{:?}", dump.notes);
    assert_eq!(dump.bytes(&dump.args[0]).expect("read"), Some(vec![1, 2, 3]));
    std::fs::remove_file(dir.path().join(ArgsDump::DIR).join(ArgsDump::ELEMENTS)).expect("removed");
    let dump = ArgsDump::open(dir.path()).expect("read");
    assert!(!arg_row(&dump, &dump.args[0], true, 4).expect("a row").captured);
    assert!(dump.notes.iter().any(|note| note.contains("elements are not")), "{:?}", dump.notes);
}

#[test]
fn a_note_tells_why_elements_that_were_asked_for_are_missing() {
    let dir = tempfile::tempdir().expect("dir");
    let mut writer = ArgsDumpWriter::create(dir.path(), 2).expect("created");
    let mut odd = arg(0, ArgRole::Input, ArgStage::BeforeDispatch, 0);
    odd.dtype = "user".into();
    for why in Truncation::ALL {
        odd.truncation = Some(why);
        writer.add(&odd, "USER", if why == Truncation::Limit { &[1, 2, 3] } else { &[] }).expect("written");
    }
    writer.finish(DumpTotals::default()).expect("finished");
    let notes = ArgsDump::open(dir.path()).expect("read").notes;
    let told = ["\"USER\". Their bytes are kept", "only a part was", "its size is not known", "(no_dep)"];
    assert!(notes.len() == 4 && notes.iter().zip(told).all(|(note, told)| note.contains(told)), "{notes:?}");
    let list = dir.path().join(ArgsDump::DIR).join(ArgsDump::FILE);
    let mut text: Value = serde_json::from_slice(&std::fs::read(&list).expect("there")).expect("JSON");
    assert_eq!(text["truncated_args"], 3);
    // The reference gives no cause, and nothing was kept of this one.
    text["args"] = Value::Array(vec![text["args"][1].clone()]);
    text["args"][0].as_object_mut().expect("an argument").remove("truncation");
    std::fs::write(&list, text.to_string()).expect("written");
    let dump = ArgsDump::open(dir.path()).expect("read");
    assert_eq!(dump.args[0].truncation, Some(Truncation::Limit));
    assert!(!dump.notes.iter().any(|note| note.contains("kept")), "{:?}", dump.notes);
}

#[test]
fn the_references_dumps_are_read() {
    let Some(samples) = samples() else { return };
    for (run, args) in [("vector_example-a2a3sim", 18), ("vector_example-a5sim", 18), ("paged_attention-a2a3sim", 384)]
    {
        let dump = ArgsDump::open(&samples.join(run).join("dump_args2")).expect("read");
        assert_eq!((dump.args.len(), dump.notes.len()), (args, 0), "{run}: {:?}", dump.notes);
        assert_eq!(nan(&dump, true), None);
    }
    let dump = ArgsDump::open(&samples.join("vector_example-a2a3sim/dump_args2")).expect("read");
    let last = dump.args.last().expect("some");
    let bytes = dump.bytes(last).expect("read").expect("captured");
    let stats = ElementStats::of(last.form().expect("known"), &bytes);
    assert_eq!((stats.count, stats.min, stats.max, stats.mean), (16384, Some(47.0), Some(47.0), Some(47.0)));
}
