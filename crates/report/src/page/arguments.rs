//! What tasks were given, for the scripts: every argument's form, its buffer, and which part of that it is.

use std::collections::HashMap;

use plimsoll_abi::record::ArgMode;
use plimsoll_trace::Trace;
use plimsoll_trace::deps::{NO_TENSOR, RecordedArg, RecordedView};
use serde::Serialize;

use super::columns::{Column, ColumnPart, Packing};

/// What many arguments have in common.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct ArgumentForm {
    mode: &'static str,
    dtype: &'static str,
    shape: Vec<u32>,
    /// Absent where elements lie one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    strides: Option<Vec<i32>>,
}

/// The most forms that are told apart: more are those of a broken file.
const MOST_FORMS: usize = 4096;

/// Adds the columns of all arguments, in the order of the graph's tasks, and gives their forms.
pub(super) fn put(trace: &Trace, columns: &mut Packing) -> Vec<ArgumentForm> {
    let Some(deps) = trace.deps.as_ref().filter(|deps| !deps.args.is_empty()) else { return Vec::new() };
    let column = |name| Column::new(name, ColumnPart::Arguments);
    let (mut count, mut form, mut tensor, mut offset) =
        (column("arg.count"), column("arg.form"), column("arg.tensor"), column("arg.offset"));
    let mut forms = vec![ArgumentForm { mode: "?", dtype: "?", shape: Vec::new(), strides: None }];
    let mut known: HashMap<(u8, u8, u32), u64> = HashMap::new();
    for node in &deps.tasks {
        let args = deps.args_of(node);
        count.put(args.len() as u64);
        for arg in args {
            let key = (arg.mode as u8, arg.dtype as u8, arg.form);
            let number = match known.get(&key) {
                Some(number) => *number,
                None if forms.len() < MOST_FORMS => {
                    forms.push(ArgumentForm::of(arg, &deps.view(arg)));
                    known.insert(key, forms.len() as u64 - 1);
                    forms.len() as u64 - 1
                }
                None => 0,
            };
            form.put(number);
            tensor.put_delta(if arg.tensor == NO_TENSOR { 0 } else { u64::from(arg.tensor) + 1 });
            offset.put_delta(arg.offset.min(1 << 52));
        }
    }
    let (mut buffer, mut version) = (column("tensor.buffer"), column("tensor.version"));
    // Files tell buffers apart by addresses or long numbers: people count them.
    let mut numbers: HashMap<u64, u64> = HashMap::new();
    for tensor in &deps.tensors {
        let next = numbers.len() as u64;
        buffer.put_delta(*numbers.entry(tensor.buffer).or_insert(next));
        version.put(u64::from(tensor.version));
    }
    columns.extend([count, form, tensor, offset, buffer, version]);
    forms
}

impl ArgumentForm {
    fn of(arg: &RecordedArg, view: &RecordedView) -> Self {
        let dims = view.ndim as usize;
        let (shape, strides) = (&view.shape[..dims], &view.strides[..dims]);
        let mut dense = 1i64;
        let is_dense = shape.iter().zip(strides).rev().all(|(extent, stride)| {
            let fits = *extent <= 1 || i64::from(*stride) == dense;
            dense = dense.saturating_mul(i64::from(*extent));
            fits
        });
        // What a task allocates is dense, and records leave its strides out.
        let told = !is_dense && arg.mode != ArgMode::Output && strides.iter().any(|stride| *stride != 0);
        Self {
            mode: mode_name(arg.mode),
            dtype: arg.dtype.name(),
            shape: shape.to_vec(),
            strides: told.then(|| strides.to_vec()),
        }
    }
}

/// As the glossary spells it.
fn mode_name(mode: ArgMode) -> &'static str {
    match mode {
        ArgMode::Input => "input",
        ArgMode::Output => "output",
        ArgMode::Inout => "inout",
        ArgMode::OutputExisting => "output_existing",
        ArgMode::NoDep => "no_dep",
        ArgMode::NoDepInout => "no_dep_inout",
        ArgMode::Scalar => "scalar",
    }
}
