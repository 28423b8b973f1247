//! How a task uses its arguments: `In`, `Out`, `InOut` and plain numbers.

use crate::device::{DeviceContext, PlanPart};
use crate::element::ArrayElement;
use crate::error::invalid;
use crate::kernel::PyKernel;
use crate::tensor::{PyTensor, extents};
use plimsoll::abi::Dtype;
use plimsoll::untyped::{self, Arg};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyTuple};

/// The task reads the tensor; or several, if a list of tensors is given.
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
            Err(_) => Ok(Self { tensor: None, list: tensor.extract()? }),
        }
    }
}

/// The task reads and writes the tensor.
#[pyclass(name = "InOut", module = "plimsoll", frozen)]
pub(crate) struct PyInOut(Py<PyTensor>);

#[pymethods]
impl PyInOut {
    #[new]
    fn new(tensor: Py<PyTensor>) -> Self {
        Self(tensor)
    }
}

/// The task makes a tensor of a shape and a dtype, or overwrites one that there is.
#[pyclass(name = "Out", module = "plimsoll", frozen)]
pub(crate) struct PyOut(OutKind);

enum OutKind {
    Made(Vec<usize>, ArrayElement),
    Existing(Py<PyTensor>),
}

#[pymethods]
impl PyOut {
    #[new]
    #[pyo3(signature = (tensor_or_shape, dtype=None))]
    fn new(tensor_or_shape: &Bound<'_, PyAny>, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        match (tensor_or_shape.cast::<PyTensor>(), dtype) {
            (Ok(tensor), None) => Ok(Self(OutKind::Existing(tensor.clone().unbind()))),
            (Err(_), Some(dtype)) => Ok(Self(OutKind::Made(extents(tensor_or_shape)?, ArrayElement::from_any(dtype)?))),
            _ => Err(invalid(
                tensor_or_shape.py(),
                "An output is a tensor that is overwritten, or a shape and a dtype. Its elements must be known. Write `Out(tensor)` or `Out((64,), \"f32\")`.",
            )),
        }
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyIn>()?;
    module.add_class::<PyInOut>()?;
    module.add_class::<PyOut>()
}

/// The arguments of one submit, as the runtime takes them.
pub(crate) struct TaskArguments<'a> {
    pub(crate) args: Vec<Arg<'a>>,
    /// The elements of what the task makes, in order.
    pub(crate) outputs: Vec<&'a ArrayElement>,
    plan: Vec<(Option<&'a ArrayElement>, bool)>,
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
    kernel: &PyKernel,
    shared: &DeviceContext,
) -> PyResult<TaskArguments<'a>> {
    let mut taken = TaskArguments {
        args: Vec::with_capacity(args.len() + 1),
        outputs: Vec::new(),
        plan: Vec::new(),
        needs_plan: false,
    };
    let mut lists = lists.iter();
    for arg in args.iter_borrowed() {
        taken.take(arg, &mut lists)?;
    }
    if kernel.is_python && taken.needs_plan {
        let parts = taken.plan.iter().map(|(element, is_list)| PlanPart {
            element: element.map_or_else(|| ArrayElement::of(Dtype::U8), |element| element.clone_ref(args.py())),
            is_list: *is_list,
        });
        let number = shared.plan_number(args.py(), parts.collect());
        taken.args.push(Arg::scalar_bits(Dtype::I16, number));
    }
    Ok(taken)
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
                    let element = input.list.first().map(|tensor| &tensor.get().element);
                    self.plan.push((element, true));
                    self.args.push(Arg::input_list(lists.next().map_or(&[], |list| &list[..])));
                }
            }
        } else if let Ok(output) = arg.cast::<PyOut>() {
            match &output.get().0 {
                OutKind::Existing(tensor) => self.tensor(tensor, Arg::output_existing),
                OutKind::Made(shape, element) => {
                    self.note(element);
                    self.outputs.push(element);
                    self.args.push(Arg::output(element.spec, shape));
                }
            }
        } else if let Ok(inout) = arg.cast::<PyInOut>() {
            self.tensor(&inout.get().0, Arg::inout);
        } else {
            self.plan.push((None, false));
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
        self.plan.push((Some(element), false));
    }
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
        return Ok(Arg::scalar(given.extract::<i64>()?));
    }
    let py = given.py();
    let refused = |_| {
        let what = given.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
        invalid(
            py,
            format!(
                "An argument of a task cannot be a {what}. It is how a tensor is used, or a number. Wrap tensors in In, Out or InOut."
            ),
        )
    };
    let element = given.getattr("dtype").and_then(|descr| ArrayElement::from_descr(&descr)).map_err(refused)?;
    let number = |given: &Bound<'_, PyAny>| given.extract::<f64>().map_err(refused);
    Ok(match element.spec.dtype {
        Dtype::F64 => Arg::scalar(number(given)?),
        Dtype::F32 => Arg::scalar(number(given)? as f32),
        Dtype::I64 => Arg::scalar(given.extract::<i64>()?),
        Dtype::I32 => Arg::scalar(given.extract::<i32>()?),
        Dtype::Bool => Arg::scalar_bits(Dtype::Bool, u64::from(given.is_truthy()?)),
        Dtype::U8 => Arg::scalar_bits(Dtype::U8, given.extract::<u64>()?),
        Dtype::I8 => Arg::scalar_bits(Dtype::I8, given.extract::<i64>()? as u64),
        other => {
            return Err(invalid(
                py,
                format!(
                    "A number cannot be passed as {}. Plain values are f64, f32, i64, i32, i8, u8 and bool. Convert it.",
                    other.name()
                ),
            ));
        }
    })
}
