//! How a task uses its arguments: `In`, `Out`, `InOut` and plain numbers.

use crate::context::{DeviceContext, PlanPart};
use crate::element::ArrayElement;
use crate::error::invalid;
use crate::tensor::{PyTensor, extents};
use plimsoll::abi::Dtype;
use plimsoll::untyped::{self, Arg};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyTuple};

/// The task reads the tensor; or several, if a list of tensors is given.
///
/// >>> import numpy as np, plimsoll
/// >>> from plimsoll import In, Out
/// >>> with plimsoll.Device(workers=2) as d:
/// ...     @d.kernel
/// ...     def total(parts, to):
/// ...         to[0] = sum(part.sum() for part in parts)
/// ...     def program(o):
/// ...         t = o.tensor(np.arange(6.0))
/// ...         return o.read(o.submit(total, In([t[:2], t[4:]]), Out(1, "f64")))
/// ...     d.run(program)
/// array([10.])
#[pyclass(name = "In", module = "plimsoll", frozen)]
pub(crate) struct PyIn {
    tensor: Option<Py<PyTensor>>,
    list: Vec<Py<PyTensor>>,
}

#[pymethods]
impl PyIn {
    #[new]
    fn new(tensor: &Bound<'_, PyAny>) -> PyResult<Self> {
        match tensor.cast::<PyTensor>() {
            Ok(tensor) => Ok(Self { tensor: Some(tensor.clone().unbind()), list: Vec::new() }),
            Err(_) => match tensor.extract() {
                Ok(list) => Ok(Self { tensor: None, list }),
                Err(_) => Err(invalid(
                    tensor.py(),
                    format!(
                        "A {} cannot be an input. It is neither a tensor nor a list of tensors. Enter arrays with `o.tensor`.",
                        type_name(tensor)
                    ),
                )),
            },
        }
    }
}

/// The tensor that is meant.
pub(crate) fn tensor_of<'a, 'py>(given: &'a Bound<'py, PyAny>, what: &str) -> PyResult<&'a Bound<'py, PyTensor>> {
    given.cast::<PyTensor>().map_err(|_| {
        invalid(
            given.py(),
            format!("A {} cannot be {what}. It is no tensor. Enter arrays with `o.tensor`.", type_name(given)),
        )
    })
}

/// The task reads and writes the tensor.
///
/// >>> import numpy as np, plimsoll
/// >>> from plimsoll import InOut
/// >>> array = np.zeros(3)
/// >>> with plimsoll.Device(workers=2) as d:
/// ...     @d.kernel
/// ...     def bump(x):
/// ...         x += 1
/// ...     d.run(lambda o: o.submit(bump, InOut(o.tensor(array))))
/// >>> array
/// array([1., 1., 1.])
#[pyclass(name = "InOut", module = "plimsoll", frozen)]
pub(crate) struct PyInOut(Py<PyTensor>);

#[pymethods]
impl PyInOut {
    #[new]
    fn new(tensor: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(tensor_of(tensor, "read and written")?.clone().unbind()))
    }
}

/// The task makes a tensor of a shape and a dtype, or overwrites one that there is.
///
/// >>> import numpy as np, plimsoll
/// >>> from plimsoll import Out
/// >>> array = np.zeros(3)
/// >>> with plimsoll.Device(workers=2) as d:
/// ...     @d.kernel
/// ...     def ones(x):
/// ...         x[:] = 1
/// ...     def program(o):
/// ...         o.submit(ones, Out(o.tensor(array)))
/// ...         return o.read(o.submit(ones, Out((2, 2), "f32")))
/// ...     d.run(program)
/// array([[1., 1.],
///        [1., 1.]], dtype=float32)
/// >>> array
/// array([1., 1., 1.])
#[pyclass(name = "Out", module = "plimsoll", frozen)]
pub(crate) struct PyOut {
    kind: OutKind,
    marked: bool,
}

enum OutKind {
    Allocated(Vec<usize>, ArrayElement),
    Existing(Py<PyTensor>),
}

#[pymethods]
impl PyOut {
    #[new]
    #[pyo3(signature = (tensor_or_shape, dtype=None, *, marked=false))]
    fn new(tensor_or_shape: &Bound<'_, PyAny>, dtype: Option<&Bound<'_, PyAny>>, marked: bool) -> PyResult<Self> {
        match (tensor_or_shape.cast::<PyTensor>(), dtype) {
            (Ok(tensor), None) => Ok(Self { kind: OutKind::Existing(tensor.clone().unbind()), marked }),
            (Err(_), Some(dtype)) => {
                let kind = OutKind::Allocated(extents(tensor_or_shape)?, ArrayElement::from_any(dtype)?);
                Ok(Self { kind, marked })
            }
            _ => Err(invalid(
                tensor_or_shape.py(),
                "An output is a tensor that is overwritten, or a shape and a dtype. Its elements must be known. Write `Out(tensor)` or `Out((64,), \"f32\")`.",
            )),
        }
    }
}

/// The task uses the tensor, and inference does not look at it: whoever writes this sees to it that no task that writes the
/// same elements runs at the same time; and no task that reads them, if this one `writes`.
///
/// >>> import numpy as np, plimsoll
/// >>> from plimsoll import In, NoDep
/// >>> counts = np.zeros(2)
/// >>> with plimsoll.Device(workers=2) as d:
/// ...     @d.kernel
/// ...     def count(at, counts):
/// ...         counts[at] += 1
/// ...     def program(o):
/// ...         t = o.tensor(counts)
/// ...         for at in range(2):
/// ...             o.submit(count, at, NoDep(t, writes=True))
/// ...     d.run(program)
/// >>> counts
/// array([1., 1.])
#[pyclass(name = "NoDep", module = "plimsoll", frozen)]
pub(crate) struct PyNoDep {
    tensor: Py<PyTensor>,
    writes: bool,
}

#[pymethods]
impl PyNoDep {
    #[new]
    #[pyo3(signature = (tensor, *, writes=false))]
    fn new(py: Python<'_>, tensor: &Bound<'_, PyAny>, writes: bool) -> PyResult<Self> {
        let tensor = tensor_of(tensor, "an argument")?.clone().unbind();
        if writes && !tensor.get().tensor.is_writable() {
            return Err(invalid(
                py,
                "A read-only array cannot be written. It was entered to be read. Enter one that may be written.",
            ));
        }
        Ok(Self { tensor, writes })
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyIn>()?;
    module.add_class::<PyInOut>()?;
    module.add_class::<PyNoDep>()?;
    module.add_class::<PyOut>()
}

/// The arguments of one submit, as the runtime takes them.
pub(crate) struct TaskArguments<'a> {
    pub(crate) args: Vec<Arg<'a>>,
    /// The elements of what the task makes, in order.
    pub(crate) outputs: Vec<&'a ArrayElement>,
    /// Whether a Python kernel could not tell by itself what the arguments are.
    needs_plan: bool,
}

/// The tensors of lists among the arguments: they stand side by side before arguments refer to them.
pub(crate) fn lists(args: &Bound<'_, PyTuple>) -> Vec<Vec<untyped::Tensor>> {
    let inputs =
        args.iter_borrowed().filter_map(|arg| arg.cast::<PyIn>().ok().filter(|arg| arg.get().tensor.is_none()));
    inputs.map(|input| input.get().list.iter().map(|tensor| tensor.get().tensor).collect()).collect()
}

/// Reads the arguments of a submit.
pub(crate) fn take<'a>(
    args: &'a Bound<'_, PyTuple>,
    lists: &'a [Vec<untyped::Tensor>],
    is_python: bool,
    shared: &DeviceContext,
) -> PyResult<TaskArguments<'a>> {
    let mut taken = TaskArguments { args: Vec::with_capacity(args.len() + 1), outputs: Vec::new(), needs_plan: false };
    let mut lists = lists.iter();
    for arg in args.iter_borrowed() {
        taken.take(arg, &mut lists)?;
    }
    if is_python && taken.needs_plan {
        let number = shared.plan_number(args.py(), args.iter_borrowed().map(|arg| planned(&arg)).collect());
        taken.args.push(Arg::note(number));
    }
    Ok(taken)
}

/// What a Python kernel is told of an argument.
fn planned(arg: &Bound<'_, PyAny>) -> PlanPart {
    let py = arg.py();
    let mut part = PlanPart { elements: Vec::new(), is_list: false, writes: false };
    let of = |tensor: &Py<PyTensor>| tensor.get().element.clone_ref(py);
    if let Ok(input) = arg.cast::<PyIn>() {
        let input = input.get();
        part.is_list = input.tensor.is_none();
        part.elements = input.tensor.iter().chain(&input.list).map(of).collect();
    } else if let Ok(output) = arg.cast::<PyOut>() {
        part.elements.push(match &output.get().kind {
            OutKind::Existing(tensor) => of(tensor),
            OutKind::Allocated(_, element) => element.clone_ref(py),
        });
    } else if let Ok(inout) = arg.cast::<PyInOut>() {
        part.elements.push(of(&inout.get().0));
    } else if let Ok(untracked) = arg.cast::<PyNoDep>() {
        part.elements.push(of(&untracked.get().tensor));
        part.writes = untracked.get().writes;
    }
    if part.elements.iter().all(|element| element.descr.is_none()) {
        part.elements.clear();
    }
    part
}

impl<'a> TaskArguments<'a> {
    fn take(
        &mut self,
        arg: Borrowed<'a, '_, PyAny>,
        lists: &mut impl Iterator<Item = &'a Vec<untyped::Tensor>>,
    ) -> PyResult<()> {
        if let Ok(input) = arg.cast::<PyIn>() {
            let input = input.get();
            match &input.tensor {
                Some(tensor) => self.tensor(tensor, Arg::input),
                None => {
                    self.needs_plan = true;
                    self.args.push(Arg::input_list(lists.next().map_or(&[], |list| &list[..])));
                }
            }
        } else if let Ok(output) = arg.cast::<PyOut>() {
            let PyOut { kind, marked } = output.get();
            match kind {
                OutKind::Existing(tensor) => self.tensor(tensor, Arg::output_existing),
                OutKind::Allocated(shape, element) => {
                    self.note(element);
                    self.outputs.push(element);
                    self.args.push(match marked {
                        false => Arg::output(element.spec, shape),
                        true => Arg::marked_output(element.spec, shape),
                    });
                }
            }
        } else if let Ok(inout) = arg.cast::<PyInOut>() {
            self.tensor(&inout.get().0, Arg::inout);
        } else if let Ok(untracked) = arg.cast::<PyNoDep>() {
            let PyNoDep { tensor, writes } = untracked.get();
            self.needs_plan |= *writes;
            // SAFETY: whoever writes it so promises what its documentation asks for.
            self.tensor(tensor, |tensor| unsafe {
                if *writes { Arg::no_dep_inout(tensor) } else { Arg::no_dep(tensor) }
            });
        } else {
            self.args.push(scalar(&arg)?);
        }
        Ok(())
    }

    fn tensor(&mut self, tensor: &'a Py<PyTensor>, arg: impl FnOnce(&'a untyped::Tensor) -> Arg<'a>) {
        let tensor = tensor.get();
        self.note(&tensor.element);
        self.args.push(arg(&tensor.tensor));
    }

    fn note(&mut self, element: &'a ArrayElement) {
        self.needs_plan |= element.descr.is_some();
    }
}

pub(crate) fn type_name(given: &Bound<'_, PyAny>) -> String {
    given.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string())
}

/// A plain number. Python's own are i64, f64 and bool; NumPy's scalars say what they are.
fn scalar(given: &Bound<'_, PyAny>) -> PyResult<Arg<'static>> {
    if given.is_instance_of::<PyBool>() {
        return Ok(Arg::scalar_bits(Dtype::Bool, u64::from(given.is_truthy()?)));
    }
    if given.is_exact_instance_of::<PyFloat>() {
        return Ok(Arg::scalar(given.extract::<f64>()?));
    }
    if given.is_exact_instance_of::<PyInt>() {
        return match given.extract::<i64>() {
            Ok(number) => Ok(Arg::scalar(number)),
            Err(_) => Err(invalid(
                given.py(),
                format!(
                    "{given} cannot be an argument of a task. Whole numbers are passed as i64. Pass a float, or an array."
                ),
            )),
        };
    }
    let py = given.py();
    let refused = || {
        let what = type_name(given);
        invalid(
            py,
            format!(
                "An argument of a task cannot be a {what}. It is how a tensor is used, or a number. Wrap tensors in In, Out or InOut."
            ),
        )
    };
    // Both have the attributes of a number, and would pass as one of their elements.
    let is_array = given.getattr("ndim").and_then(|ndim| ndim.extract::<usize>()).is_ok_and(|ndim| ndim > 0);
    if is_array || given.cast::<PyTensor>().is_ok() {
        return Err(refused());
    }
    let element = given.getattr("dtype").and_then(|descr| ArrayElement::from_descr(&descr)).map_err(|_| refused())?;
    let number = |given: &Bound<'_, PyAny>| given.extract::<f64>().map_err(|_| refused());
    Ok(match element.spec.dtype {
        Dtype::F64 => Arg::scalar(number(given)?),
        Dtype::F32 => Arg::scalar(number(given)? as f32),
        Dtype::I64 => Arg::scalar(given.extract::<i64>()?),
        Dtype::I32 => Arg::scalar(given.extract::<i32>()?),
        Dtype::Bool => Arg::scalar_bits(Dtype::Bool, u64::from(given.is_truthy()?)),
        Dtype::U8 => Arg::scalar_bits(Dtype::U8, given.extract::<u64>()?),
        Dtype::I8 => Arg::scalar_bits(Dtype::I8, given.extract::<i64>()? as u64),
        _ => {
            return Err(invalid(
                py,
                format!(
                    "A number cannot be passed as {}. Plain values are f64, f32, i64, i32, i8, u8 and bool. Convert it.",
                    element.name(py)?
                ),
            ));
        }
    })
}
