//! Who made the first NaN.

use plimsoll_trace::{ArgsDump, DumpedArg, ElementForm, Error};

use super::{FirstNan, Held, NanSearch, Use, coordinates, dumped_tasks, left_out, may_lack_inputs};

/// The first task that made a NaN, or with `inf` a NaN or Inf, out of inputs in which none was seen; and how much was searched.
///
/// # Errors
/// If elements cannot be read.
pub fn first_nan(dump: &ArgsDump, inf: bool) -> Result<(Option<FirstNan>, NanSearch), Error> {
    let mut search = NanSearch::default();
    for ((round, task), args) in dumped_tasks(dump) {
        let outputs = OutputSearch::of(dump, &args, inf)?;
        outputs.count(&mut search);
        let Some(mut found) = outputs.found else { continue };
        let mut spoilt = false;
        for place in Use::Read.places(&args) {
            let Some(input) = Use::Read.find(&args, place) else {
                found.inputs_unknown += 1;
                continue;
            };
            if input.is_scalar {
                spoilt |= input.scalar_float().is_some_and(|number| is_bad(number, inf));
                found.inputs_unknown += u64::from(input.value.is_none());
                continue;
            }
            let (bytes, whole) = match Held::of(dump, input)? {
                Held::Whole(bytes) => (bytes, true),
                Held::Part(bytes) => (bytes, false),
                Held::Nothing => (Vec::new(), false),
            };
            let form = input.form();
            spoilt |= form.is_some_and(|form| first_bad(form, &bytes, inf).is_some());
            found.inputs_unknown += u64::from(!whole || form.is_none());
        }
        if !spoilt {
            (found.task, found.round) = (task.to_string(), round);
            found.inputs_unknown += left_out(&args);
            found.may_lack_inputs = may_lack_inputs(dump, &args);
            return Ok((Some(found), search));
        }
    }
    Ok((None, search))
}

/// What the outputs of one task show.
#[derive(Default)]
struct OutputSearch {
    found: Option<FirstNan>,
    /// Outputs that were searched as a whole.
    whole: u64,
    /// Outputs of which the first elements were searched.
    part: u64,
    /// Outputs that were not searched.
    nothing: u64,
}

impl OutputSearch {
    fn of(dump: &ArgsDump, args: &[&DumpedArg], inf: bool) -> Result<Self, Error> {
        let mut outputs = Self::default();
        for place in Use::Written.places(args) {
            // A type that is not known may be one of floats.
            let found = Use::Written.find(args, place);
            let Some((arg, form)) = found.and_then(|arg| Some((arg, arg.form()?))) else {
                outputs.nothing += 1;
                continue;
            };
            if !form.is_float() {
                outputs.whole += 1;
                continue;
            }
            let bytes = match Held::of(dump, arg)? {
                Held::Whole(bytes) => {
                    outputs.whole += 1;
                    bytes
                }
                Held::Part(bytes) => {
                    outputs.part += 1;
                    bytes
                }
                Held::Nothing => {
                    outputs.nothing += 1;
                    continue;
                }
            };
            if outputs.found.is_none() {
                outputs.found = bad_output(arg, form, &bytes, inf);
            }
        }
        Ok(outputs)
    }

    fn count(&self, search: &mut NanSearch) {
        if self.whole > 0 && self.part + self.nothing == 0 {
            search.searched_tasks += 1;
        } else {
            search.not_searched += 1;
            search.nothing_searched += u64::from(self.whole + self.part == 0);
        }
    }
}

fn bad_output(arg: &DumpedArg, form: ElementForm, bytes: &[u8], inf: bool) -> Option<FirstNan> {
    let (place, number) = first_bad(form, bytes, inf)?;
    Some(FirstNan {
        task: String::new(),
        round: 0,
        kernel: arg.kernel.clone(),
        index: arg.index,
        what: if number.is_nan() { "nan" } else { "inf" },
        at: coordinates(place, &arg.shape),
        count: form.numbers(bytes).filter(|number| is_bad(*number, inf)).count() as u64,
        inputs_unknown: 0,
        may_lack_inputs: false,
    })
}

fn is_bad(number: f64, inf: bool) -> bool {
    number.is_nan() || inf && number.is_infinite()
}

fn first_bad(form: ElementForm, bytes: &[u8], inf: bool) -> Option<(u64, f64)> {
    let mut numbers = form.numbers(bytes).enumerate();
    numbers.find(|(_, number)| is_bad(*number, inf)).map(|(at, number)| (at as u64, number))
}
