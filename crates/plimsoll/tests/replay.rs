//! A captured task is run again only on all the arguments that it had.

use plimsoll::abi::record::Truncation;
use plimsoll::abi::{Dtype, Flags};
use plimsoll::replay::{ReplayError, ReplayRequest, replay};
use plimsoll::trace::{ArgStage, ArgsDump, DumpedArg};
use plimsoll::untyped::{Arg, ElementSpec, Kernel, Task};
use plimsoll::{CoreClass, Device, RecordOptions, RunOptions};
use std::path::Path;

/// A device with a kernel that declares no parameters and reads three arguments, as a kernel in C does.
fn device() -> (Device, Kernel) {
    let mut device = Device::builder().workers(1).open().expect("a device");
    let body = |call: &plimsoll::untyped::Call<'_>| match call.args().count() {
        3 => Ok(()),
        count => Err(format!("the kernel reads three arguments and has {count}").into()),
    };
    // SAFETY: the body looks at no elements.
    let kernel = unsafe { device.kernel_untyped(CoreClass::Any, "three", None, body) };
    (device, kernel.expect("registered"))
}

/// A dump of one task with all its arguments: an input, an output and a plain value.
fn captured(dir: &Path) -> ArgsDump {
    let (mut device, kernel) = device();
    let record = RecordOptions::new(dir, Flags::TENSOR_DUMP);
    let options = RunOptions { record: Some(record), ..RunOptions::default() };
    let run = device.run_untyped(&options, |o| {
        let element = ElementSpec::of(Dtype::F32);
        let (x, y) = (o.own([0; 16], element, &[4])?, o.own([0; 16], element, &[4])?);
        let args = [Arg::input(&x), Arg::output_existing(&y), Arg::scalar(2.0f32)];
        o.submit(&Task::new(kernel, &args), &mut Vec::new())
    });
    run.expect("the run ends well");
    ArgsDump::open(dir).expect("a dump")
}

#[test]
fn a_kernel_without_parameters_is_never_given_fewer_arguments_than_its_task_had() {
    let damage: [(fn(&mut ArgsDump), &str); 7] = [
        (|dump| dump.args.retain(|arg| arg.index != 0), "of argument 0 nothing was captured"),
        (|dump| dump.args.retain(|arg| arg.index != 1), "nothing was captured of what the task made"),
        (|dump| dump.args.retain(|arg| arg.stage == ArgStage::AfterCompletion), "of argument 0 nothing was captured"),
        (|dump| dump.level = 1, "only marked arguments were captured"),
        (|dump| dump.level = 0, "does not say whether all arguments were captured"),
        (|dump| dump.args.push(dump.args[0].clone()), "several of its captured arguments have the number 0"),
        (|dump| dump.dropped = 1, "captured arguments were lost"),
    ];
    let place = tempfile::tempdir().expect("dir");
    let options = RunOptions::default();
    let run_again = |dump: &ArgsDump, scratch: &str| {
        let scratch = place.path().join(scratch);
        let task = dump.args[0].task;
        replay(&mut device().0, dump, &ReplayRequest { task, round: 0, times: 1, scratch: &scratch, options: &options })
    };
    let whole = captured(&place.path().join("run"));
    assert!(run_again(&whole, "whole").expect("it has all arguments").same);
    for (at, (spoil, why)) in damage.into_iter().enumerate() {
        let mut dump = ArgsDump::open(&place.path().join("run")).expect("a dump");
        spoil(&mut dump);
        match run_again(&dump, &at.to_string()) {
            Err(ReplayError::NotPossible(said)) => assert!(said.contains(why), "{said}"),
            other => panic!("{why}: {other:?}"),
        }
    }
}

/// Everything was asked for, so nobody is told to ask for everything.
#[test]
fn of_elements_that_are_not_there_the_cause_is_told() {
    let causes: [(fn(&mut DumpedArg), &str); 5] = [
        (|arg| arg.truncation = Some(Truncation::NoDep), "inference does not look at it (no_dep)"),
        (|arg| arg.truncation = Some(Truncation::ElementSize), "the size of one is not known"),
        (|arg| arg.overwritten = true, "the elements were lost"),
        (|arg| arg.payload = (1 << 40, 16), "the elements are not where the list has them"),
        (|_| {}, "the elements were not captured. Capture it again."),
    ];
    let place = tempfile::tempdir().expect("dir");
    drop(captured(&place.path().join("run")));
    for (at, (spoil, why)) in causes.into_iter().enumerate() {
        let mut dump = ArgsDump::open(&place.path().join("run")).expect("a dump");
        let task = dump.args[0].task;
        dump.args[0].payload = (0, 0);
        spoil(&mut dump.args[0]);
        let (scratch, options) = (place.path().join(at.to_string()), RunOptions::default());
        let request = ReplayRequest { task, round: 0, times: 1, scratch: &scratch, options: &options };
        match replay(&mut device().0, &dump, &request) {
            Err(ReplayError::NotPossible(said)) => assert!(said.contains(why) && !said.contains("ALL"), "{said}"),
            other => panic!("{why}: {other:?}"),
        }
    }
}
