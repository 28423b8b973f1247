//! Where two runs of one program part.

use std::collections::HashMap;

use plimsoll_trace::{ArgsDump, DumpedArg, ElementForm, Error};

use super::{
    ArgsDifference, FirstDifference, Held, TaskKey, Use, coordinates, dumped_tasks, left_out, may_lack_inputs,
};

/// Where two runs of one program part: the first task, in the order of submits, whose outputs differ though its inputs are
/// the same as far as they were captured.
///
/// # Errors
/// If elements cannot be read.
pub fn args_diff(here: &ArgsDump, there: &ArgsDump) -> Result<ArgsDifference, Error> {
    let others: HashMap<TaskKey, Vec<&DumpedArg>> = dumped_tasks(there).into_iter().collect();
    let tasks = dumped_tasks(here);
    let matched = tasks.iter().filter(|(key, _)| others.contains_key(key)).count() as u64;
    let unmatched_tasks = tasks.len() as u64 + others.len() as u64 - 2 * matched;
    let mut answer = ArgsDifference { unmatched_tasks, ..ArgsDifference::default() };
    for (key, args) in &tasks {
        let Some(other) = others.get(key) else { continue };
        if ran_other_kernels(args[0], other[0]) {
            answer.other_kernels += 1;
            continue;
        }
        let pair = TaskPair { here: (here, args), there: (there, other) };
        let made = pair.compare(Use::Written)?;
        if made.whole > 0 && made.part + made.nothing == 0 {
            answer.compared_tasks += 1;
        } else {
            answer.not_compared += 1;
            answer.nothing_compared += u64::from(made.whole + made.part == 0);
        }
        let read = pair.compare(Use::Read)?;
        let unknown = read.part + read.nothing + left_out(args).max(left_out(other));
        let lacks = may_lack_inputs(here, args) || may_lack_inputs(there, other);
        if read.first.is_some() || read.other_value {
            answer.other_inputs += 1;
        } else if made.first.is_some() {
            answer.first = made.first;
            (answer.first_inputs_unknown, answer.first_may_lack_inputs) = (unknown, lacks);
            break;
        } else {
            answer.unknown_inputs += u64::from(unknown > 0 || lacks);
        }
    }
    Ok(answer)
}

/// Whether a task ran other kernels in another run, by their names; by their numbers if a dump has no names.
fn ran_other_kernels(a: &DumpedArg, b: &DumpedArg) -> bool {
    let named = |arg: &DumpedArg| !arg.kernel.starts_with("func_");
    if named(a) == named(b) { a.kernel != b.kernel } else { a.kernel_ids != b.kernel_ids }
}

/// A task in two runs.
struct TaskPair<'d> {
    here: (&'d ArgsDump, &'d [&'d DumpedArg]),
    there: (&'d ArgsDump, &'d [&'d DumpedArg]),
}

/// How arguments of a task in two runs compare.
#[derive(Default)]
struct Comparison {
    /// Arguments that were compared as a whole.
    whole: u64,
    /// Arguments of which the first elements were compared.
    part: u64,
    /// Arguments that were not captured in both runs.
    nothing: u64,
    /// Whether a plain value differs.
    other_value: bool,
    /// The first tensor that differs.
    first: Option<FirstDifference>,
}

impl TaskPair<'_> {
    /// Compares the arguments that the task uses like that.
    fn compare(&self, used: Use) -> Result<Comparison, Error> {
        let mut compared = Comparison::default();
        for place in used.places(self.here.1).union(&used.places(self.there.1)) {
            match (used.find(self.here.1, *place), used.find(self.there.1, *place)) {
                (Some(mine), Some(theirs)) => compared.add(self.here.0, mine, self.there.0, theirs)?,
                _ => compared.nothing += 1,
            }
        }
        Ok(compared)
    }
}

impl Comparison {
    fn add(&mut self, here: &ArgsDump, a: &DumpedArg, there: &ArgsDump, b: &DumpedArg) -> Result<(), Error> {
        self.other_value |= a.value != b.value;
        if form_of(a) != form_of(b) {
            // Elements of another type or shape do not correspond to each other.
            self.whole += 1;
            self.first.get_or_insert_with(|| other_form(a, b));
            return Ok(());
        }
        let (mine, theirs, whole) = match (Held::of(here, a)?, Held::of(there, b)?) {
            (Held::Nothing, _) | (_, Held::Nothing) => {
                self.nothing += 1;
                return Ok(());
            }
            (Held::Whole(mine), Held::Whole(theirs)) => (mine, theirs, true),
            (Held::Whole(mine) | Held::Part(mine), Held::Whole(theirs) | Held::Part(theirs)) => (mine, theirs, false),
        };
        *(if whole { &mut self.whole } else { &mut self.part }) += 1;
        // What was cut off on one side is not known to differ.
        let size = a.form().map_or(1, ElementForm::bytes);
        let common = mine.len().min(theirs.len()) / size * size;
        let (mine, theirs) = if whole { (&mine[..], &theirs[..]) } else { (&mine[..common], &theirs[..common]) };
        if self.first.is_none() {
            self.first = difference(a, mine, theirs);
        }
        Ok(())
    }
}

/// The type and the shape of an argument, in words.
fn form_of(arg: &DumpedArg) -> String {
    if arg.is_scalar { format!("{} by value", arg.dtype) } else { format!("{} {:?}", arg.dtype, arg.shape) }
}

/// An argument that has another type or shape in another run.
fn other_form(mine: &DumpedArg, theirs: &DumpedArg) -> FirstDifference {
    FirstDifference {
        task: mine.task.to_string(),
        round: mine.round,
        kernel: mine.kernel.clone(),
        index: mine.index,
        elements: 0,
        of: 0,
        forms: Some([form_of(mine), form_of(theirs)]),
        at: Vec::new(),
        values: None,
        max_abs: None,
    }
}

/// How the elements of an argument differ from others of the same shape; nothing if they do not.
pub fn difference(arg: &DumpedArg, mine: &[u8], theirs: &[u8]) -> Option<FirstDifference> {
    if mine == theirs {
        return None;
    }
    let size = arg.form().map_or(1, ElementForm::bytes);
    let unequal = |(a, b): &(&[u8], &[u8])| a != b;
    let chunks = || mine.chunks_exact(size).zip(theirs.chunks_exact(size));
    let length = mine.len().abs_diff(theirs.len()) / size;
    let elements = chunks().filter(unequal).count() as u64 + length as u64;
    let place = chunks().position(|pair| unequal(&pair)).unwrap_or(mine.len().min(theirs.len()) / size) as u64;
    let numbers = arg.form().map(|form| (form.numbers(mine), form.numbers(theirs)));
    let (values, max_abs) = numbers.map_or((None, None), |(a, b)| {
        let pairs: Vec<(f64, f64)> = a.zip(b).collect();
        let differing = pairs.iter().filter(|(a, b)| a != b);
        let finite = differing.map(|(a, b)| (a - b).abs()).filter(|distance| distance.is_finite());
        (pairs.get(place as usize).map(|(a, b)| [*a, *b]), finite.reduce(f64::max))
    });
    Some(FirstDifference {
        task: arg.task.to_string(),
        round: arg.round,
        kernel: arg.kernel.clone(),
        index: arg.index,
        elements,
        of: (mine.len().max(theirs.len()) / size) as u64,
        forms: None,
        at: if arg.form().is_some() { coordinates(place, &arg.shape) } else { vec![place] },
        values,
        max_abs,
    })
}
