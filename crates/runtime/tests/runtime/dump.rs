//! Captured arguments of a run, on every engine, are what the tasks saw and made.

use plimsoll_abi::record::Truncation;
use plimsoll_abi::{Dtype, Flags, Level};
use plimsoll_runtime::untyped::{Arg, ElementSpec, Task};
use plimsoll_runtime::{ArchSpec, CoreClass, Device};
use plimsoll_runtime::{
    DumpRules, EmulatedOptions, EngineKind, In, InOut, Out, RecordOptions, RunOptions, VirtualOptions, inout, input,
    output, scalar,
};
use plimsoll_trace::{ArgRole, ArgStage, ArgsDump, DumpedArg};

fn engines() -> [EngineKind; 3] {
    let chip = ArchSpec { clusters: 1, ..ArchSpec::A2A3 };
    [EngineKind::Host, EmulatedOptions::new(&chip).into(), VirtualOptions::new(&ArchSpec::HOST, 1).into()]
}

/// Runs `y = 2 x` on a transposed half of a matrix, then adds one to `y` in place, with this captured.
fn dump(engine: EngineKind, rules: DumpRules, tasks: &[&str]) -> ArgsDump {
    let dir = tempfile::tempdir().expect("dir");
    let mut device = Device::builder().engine(engine).open().expect("a device");
    let double = device.kernel("double", |factor: f32, x: In<f32>, mut y: Out<f32>| {
        let (rows, columns) = (x.shape()[0] as usize, x.shape()[1] as usize);
        (0..rows).for_each(|i| (0..columns).for_each(|j| y[[i, j]] = factor * x[[i, j]]));
    });
    let add = device.kernel("add", |mut y: InOut<f32>| y[[0, 0]] += 1.0);
    let mut record = RecordOptions::new(dir.path().join("run"), Flags::TENSOR_DUMP.with(Flags::DEP_GEN));
    (record.dump, record.dump_tasks) = (rules, tasks.iter().map(|&task| task.to_owned()).collect());
    let options = RunOptions { record: Some(record), ..RunOptions::default() };
    let run = device.run_with(&options, |o| {
        let x = o.own((0..1200).map(|i| i as f32).collect(), [40, 30])?;
        let half = x.slice(0, 20..40)?.transpose();
        let (.., y) = o.submit(&double, (scalar(2.0f32), input(&half), output([30, 20]).mark()))?;
        o.submit(&add, (inout(&y),))?;
        Ok(())
    });
    run.expect("the run ends well");
    ArgsDump::open(&dir.path().join("run")).expect("a dump")
}

fn numbers(dump: &ArgsDump, arg: &DumpedArg) -> Vec<f64> {
    let bytes = dump.bytes(arg).expect("read").expect("captured");
    arg.form().expect("known").numbers(&bytes).collect()
}

#[test]
fn every_engine_captures_what_tasks_saw_and_made() {
    for engine in engines() {
        let name = format!("{engine:?}");
        let dump = dump(engine, DumpRules::default(), &[]);
        let seen: Vec<(&str, u32, ArgRole, ArgStage)> =
            dump.args.iter().map(|arg| (arg.kernel.as_str(), arg.index, arg.role, arg.stage)).collect();
        let (before, after) = (ArgStage::BeforeDispatch, ArgStage::AfterCompletion);
        let expected = [
            ("double", 0, ArgRole::Input, before),
            ("double", 1, ArgRole::Input, before),
            ("double", 2, ArgRole::Output, after),
            ("add", 0, ArgRole::Inout, before),
            ("add", 0, ArgRole::Inout, after),
        ];
        assert_eq!(seen, expected, "{name}");
        assert_eq!(dump.args[0].value, Some(2.0.into()), "{name}");
        let x: Vec<f64> = (0..30).flat_map(|j| (20..40).map(move |i| f64::from(i * 30 + j))).collect();
        assert_eq!(numbers(&dump, &dump.args[1]), x, "{name}: strided views are gathered");
        let mut y: Vec<f64> = x.iter().map(|x| 2.0 * x).collect();
        assert_eq!(numbers(&dump, &dump.args[2]), y, "{name}");
        assert_eq!(numbers(&dump, &dump.args[3]), y, "{name}");
        y[0] += 1.0;
        assert_eq!(numbers(&dump, &dump.args[4]), y, "{name}");
        assert!(dump.notes.is_empty(), "{name}: {:?}", dump.notes);
    }
}

/// Copying is not scheduling: it is recorded as waiting for the recorder, on the lane of whoever copied, outside of kernels.
#[test]
fn copying_what_tasks_see_counts_as_waiting_for_the_recorder() {
    let chip = ArchSpec { clusters: 1, ..ArchSpec::A2A3 };
    for engine in [EngineKind::Host, EmulatedOptions::new(&chip).into()] {
        let (name, dir) = (format!("{engine:?}"), tempfile::tempdir().expect("dir"));
        let builder = Device::builder();
        let builder = if name == "Host" { builder.workers(1) } else { builder.engine(engine) };
        let mut device = builder.open().expect("a device");
        let copy = device.kernel("copy", |x: In<f32>, mut y: Out<f32>| y.row_mut(0).copy_from_slice(x.row(0)));
        for captured in [false, true] {
            let flags = Level::new(4).expect("a level").flags();
            let flags = if captured { flags.with(Flags::TENSOR_DUMP) } else { flags };
            let path = dir.path().join(captured.to_string());
            let options = RunOptions { record: Some(RecordOptions::new(&path, flags)), ..RunOptions::default() };
            let run = device.run_with(&options, |o| {
                let x = o.own(vec![1.0f32; 1 << 16], [1 << 16])?;
                (0..4).try_for_each(|_| o.submit(&copy, (input(&x), output([1 << 16]))).map(drop))
            });
            run.expect("the run ends well");
            let trace = plimsoll_trace::open(&path).expect("a trace");
            let phases = &trace.sched_phases;
            let waits = || (0..phases.len()).filter(|&at| phases.name_of(at) == "recorder_wait");
            assert_eq!(waits().count(), if captured { 8 } else { 0 }, "{name}: before and after each task");
            assert!(waits().all(|at| phases.start[at] < phases.end[at]), "{name}");
            if name == "Host" {
                // There is one worker, so that nobody copies while another one's kernel runs.
                let rows = &trace.executions;
                let is_apart = |at: usize| {
                    (0..rows.len()).all(|row| {
                        phases.end[at] <= rows.start(row) || rows.end(row).is_some_and(|end| end <= phases.start[at])
                    })
                };
                assert!(waits().all(is_apart), "{name}");
            }
        }
    }
}

#[test]
fn where_a_view_begins_is_captured_if_submits_are() {
    let whole = dump(EngineKind::Host, DumpRules::default(), &[]);
    let offsets: Vec<Option<u64>> = whole.args.iter().map(|arg| arg.start_offset).collect();
    // Columns of rows 20 to 39 of 30 elements each; the scalar is no tensor.
    assert_eq!(offsets, [None, Some(600), Some(0), Some(0), Some(0)]);
    assert_eq!(whole.args[1].strides, [1, 30]);
    let dir = tempfile::tempdir().expect("dir");
    let mut device = Device::builder().workers(1).open().expect("a device");
    let look = device.kernel("look", |_: In<i64>| {});
    let record = RecordOptions::new(dir.path().join("run"), Flags::TENSOR_DUMP);
    let options = RunOptions { record: Some(record), ..RunOptions::default() };
    let run = device.run_with(&options, |o| {
        let x = o.own(vec![0i64; 8], [8])?;
        o.submit(&look, (input(&x.slice(0, 2..4)?),))
    });
    run.expect("the run ends well");
    let dump = ArgsDump::open(&dir.path().join("run")).expect("a dump");
    assert_eq!(dump.args[0].start_offset, None, "nobody knows without the submits");
}

#[test]
fn a_task_is_captured_in_the_round_that_is_named() {
    let dir = tempfile::tempdir().expect("dir");
    let mut device = Device::builder().workers(1).open().expect("a device");
    let look = device.kernel("look", |_: In<i64>| {});
    let graph = device.prebuild(|o| {
        let x = o.own(vec![0i64; 8], [8])?;
        (0..2).try_for_each(|_| o.submit(&look, (input(&x),)).map(drop))
    });
    let mut graph = graph.expect("a graph");
    let mut record = RecordOptions::new(dir.path().join("run"), Flags::TENSOR_DUMP);
    record.dump_tasks = vec!["r0t1@2".into(), "r0t0@0".into()];
    let options = RunOptions { record: Some(record), ..RunOptions::default() };
    device.launch(&mut graph, 4, &options).expect("the launch ends well");
    let dump = ArgsDump::open(&dir.path().join("run")).expect("a dump");
    let named: Vec<String> = dump.args.iter().map(|arg| format!("{}@{}", arg.task, arg.round)).collect();
    assert_eq!(named, ["r0t0@0", "r0t1@2"]);
}

#[test]
fn marks_tasks_and_bytes_say_what_is_captured() {
    let marked = dump(EngineKind::Host, DumpRules { level: DumpRules::MARKED, ..DumpRules::default() }, &[]);
    assert_eq!(marked.args.iter().map(|arg| arg.index).collect::<Vec<_>>(), [2], "the marked output");
    let shapes = dump(EngineKind::Host, DumpRules { level: DumpRules::SHAPES, ..DumpRules::default() }, &[]);
    let captured: Vec<bool> = shapes.args.iter().map(|arg| shapes.has_elements(arg)).collect();
    assert_eq!(captured, [false, false, true, false, false]);
    let add = dump(EngineKind::Host, DumpRules::default(), &["add"]);
    assert_eq!(add.args.len(), 2);
    let short = dump(EngineKind::Host, DumpRules { bytes: 10, ..DumpRules::default() }, &["double"]);
    assert!(short.args[1].truncation == Some(Truncation::Limit) && numbers(&short, &short.args[1]).len() == 2);
    assert_eq!(short.dropped, 0, "truncation is no loss");
}

/// Elements that were asked for and cannot be copied are counted, and never silently short.
#[test]
fn elements_that_cannot_be_copied_are_said_to_be_missing() {
    for (level, wanted) in [(DumpRules::ALL, true), (DumpRules::SHAPES, false)] {
        let dir = tempfile::tempdir().expect("dir");
        let mut device = Device::builder().workers(1).open().expect("a device");
        let add = device.kernel("add", |x: In<i64>, mut y: InOut<i64>| y[[0]] += x[[0]]);
        // SAFETY: the body touches nothing.
        let look = unsafe { device.kernel_untyped(CoreClass::Any, "look", None, |_| Ok(())) }.expect("a kernel");
        let mut record = RecordOptions::new(dir.path().join("run"), Flags::TENSOR_DUMP.with(Flags::DEP_GEN));
        record.dump = DumpRules { level, ..DumpRules::default() };
        let options = RunOptions { record: Some(record), ..RunOptions::default() };
        let run = device.run_untyped(&options, |o| {
            let (numbers, own) = (ElementSpec::of(Dtype::I64), ElementSpec { dtype: Dtype::User, bytes: 3, align: 1 });
            let [x, y] = [o.own(vec![0; 16], numbers, &[2])?, o.own(vec![0; 16], numbers, &[2])?];
            // SAFETY: no other task uses the tensors.
            let untracked = unsafe { [Arg::no_dep(&x), Arg::no_dep_inout(&y)] };
            o.submit(&Task::new(add.untyped(), &untracked), &mut Vec::new())?;
            let opaque = o.own(vec![0; 48], own, &[16])?;
            o.submit(&Task::new(look, &[Arg::input(&opaque)]), &mut Vec::new())
        });
        run.expect("the run ends well");
        let dump = ArgsDump::open(&dir.path().join("run")).expect("a dump");
        let seen: Vec<_> =
            dump.args.iter().map(|arg| (arg.kernel.as_str(), arg.index, arg.role, arg.stage, arg.truncation)).collect();
        let (before, after) = (ArgStage::BeforeDispatch, ArgStage::AfterCompletion);
        let because = |why| Some(why).filter(|_| wanted);
        let expected = [
            ("add", 0, ArgRole::Input, before, because(Truncation::NoDep)),
            ("add", 1, ArgRole::Inout, before, because(Truncation::NoDep)),
            ("add", 1, ArgRole::Inout, after, because(Truncation::NoDep)),
            ("look", 0, ArgRole::Input, before, because(Truncation::ElementSize)),
        ];
        assert_eq!(seen, expected);
        assert_eq!((dump.args.iter().any(|arg| dump.has_elements(arg)), dump.dropped), (false, 0));
    }
}
