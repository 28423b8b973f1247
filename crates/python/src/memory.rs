//! Memory of Python's that a run is given without a copy: arrays, DLPack, buffers.
//!
//! Inference knows memory by its buffer, so memory that overlaps must be one buffer. An array that lies in memory which was
//! entered before is a view of that buffer where it can be, and is refused where it cannot.

use crate::element::ArrayElement;
use crate::error::invalid;
use crate::orchestrator::{PyOrchestrator, locked};
use crate::tensor::PyTensor;
use plimsoll::abi::MAX_DIMS;
use plimsoll::untyped::Tensor;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, Weak};

/// Memory that a run was given.
#[derive(Clone)]
pub(crate) struct Entered {
    begin: usize,
    end: usize,
    bytes: u32,
    /// All of it, in the shape of the array that was entered: overlap is exact for boxes of that. Of the scope in which it was
    /// entered last.
    whole: Tensor,
    /// Gone when no task can touch the memory any more.
    kept: Weak<EnteredArray>,
}

/// An array that is kept for the tasks that use it. Whoever drops it need not hold the GIL.
pub(crate) struct EnteredArray(Option<Py<PyAny>>);

/// Arrays that nobody keeps any more, and that are still to be let go of with the GIL.
static LEFT: Mutex<Vec<Py<PyAny>>> = Mutex::new(Vec::new());

impl Drop for EnteredArray {
    fn drop(&mut self) {
        locked(&LEFT).extend(self.0.take());
    }
}

/// Lets go of arrays that nobody keeps any more.
pub(crate) fn drop_left(_: Python<'_>) {
    // That may run any Python: no lock is held then.
    let left = std::mem::take(&mut *locked(&LEFT));
    drop(left);
}

/// An array as NumPy describes it.
struct Described {
    at: usize,
    read_only: bool,
    shape: Vec<usize>,
    /// In bytes; dense if there are none.
    strides: Vec<isize>,
}

impl Described {
    fn of(array: &Bound<'_, PyAny>, bytes: usize) -> PyResult<Self> {
        let said = array.getattr("__array_interface__")?.cast_into::<PyDict>()?;
        let part = |name: &str| -> PyResult<Bound<'_, PyAny>> { said.as_any().get_item(name) };
        let (at, read_only) = part("data")?.extract()?;
        let shape: Vec<usize> = part("shape")?.extract()?;
        let strides = part("strides")?.extract::<Option<Vec<isize>>>()?.unwrap_or_else(|| dense(&shape, bytes));
        Ok(Self { at, read_only, shape, strides })
    }

    /// The same elements by descending step, without dimensions of one element, whose step says nothing; and where each of the
    /// others stands then.
    fn sorted(&self) -> (Self, Vec<usize>) {
        let kept: Vec<usize> = (0..self.shape.len()).filter(|dim| self.shape[*dim] != 1).collect();
        let mut order: Vec<usize> = (0..kept.len()).collect();
        order.sort_by_key(|place| std::cmp::Reverse(self.strides[kept[*place]]));
        let mut back = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, from)| back[*from] = place);
        let shape = order.iter().map(|from| self.shape[kept[*from]]).collect();
        let strides = order.iter().map(|from| self.strides[kept[*from]]).collect();
        (Self { shape, strides, ..*self }, back)
    }

    fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the elements lie side by side in this order of dimensions. The step of a dimension of one element says nothing.
    fn is_dense(&self, bytes: usize) -> bool {
        let wanted = dense(&self.shape, bytes);
        let mut steps = self.shape.iter().zip(self.strides.iter().zip(&wanted));
        steps.all(|(extent, (step, wanted))| *extent == 1 || step == wanted)
    }
}

fn dense(shape: &[usize], bytes: usize) -> Vec<isize> {
    let mut steps = vec![bytes as isize; shape.len()];
    for dim in (1..shape.len()).rev() {
        steps[dim - 1] = steps[dim] * shape[dim] as isize;
    }
    steps
}

/// Enters what a person calls an array.
pub(crate) fn enter(o: &PyOrchestrator, given: &Bound<'_, PyAny>, writable: Option<bool>) -> PyResult<PyTensor> {
    let py = given.py();
    let array = as_array(given)?;
    let element = ArrayElement::from_descr(&array.getattr("dtype")?)?;
    let bytes = element.spec.bytes as usize;
    let described = Described::of(&array, bytes)?;
    if described.len() == 0 || described.shape.len() > MAX_DIMS {
        return Err(invalid(
            py,
            format!(
                "An array of shape {:?} cannot be a tensor. A tensor has 1 to {MAX_DIMS} dimensions, none of them empty. Reshape the array.",
                described.shape
            ),
        ));
    }
    if described.shape.iter().zip(&described.strides).any(|(extent, step)| *step < 0 && *extent > 1) {
        return Err(invalid(
            py,
            "An array with negative strides cannot be a tensor. Views go forward through memory. Copy it with `numpy.ascontiguousarray`.",
        ));
    }
    if writable == Some(true) && described.read_only {
        return Err(invalid(
            py,
            "A read-only array cannot be written. Its owner allows to read it only. Leave `writable` out, or copy the array.",
        ));
    }
    let writable = writable.unwrap_or(true) && !described.read_only;
    let tensor = place(o, &array, &element, &described)?;
    drop_left(py);
    // SAFETY: the array says that it may be written; that nobody else uses it meanwhile is asked of the caller.
    let tensor = if writable { unsafe { tensor.writable() } } else { tensor.read_only() };
    Ok(PyTensor::new(tensor, element))
}

/// The array itself, or one over the same memory.
fn as_array<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = given.py();
    let numpy = py.import("numpy")?;
    if given.is_instance(&numpy.getattr("ndarray")?)? {
        refuse_masked(given)?;
        return Ok(given.clone());
    }
    if given.hasattr("__dlpack__")? {
        let device: (i32, i32) = given.call_method0("__dlpack_device__")?.extract()?;
        if device.0 != 1 {
            return Err(invalid(
                py,
                format!(
                    "Memory of another device cannot be a tensor: its DLPack device is {}. Kernels run on this machine's CPUs. Move it to the CPU.",
                    device.0
                ),
            ));
        }
        return numpy.call_method1("from_dlpack", (given,));
    }
    let buffer = py.import("builtins")?.call_method1("memoryview", (given,)).map_err(|_| {
        let what = crate::arguments::type_name(given);
        invalid(
            py,
            format!("A {what} cannot be a tensor. It is no array, has no `__dlpack__` and is no buffer. Make it an array with `numpy.asarray`."),
        )
    })?;
    numpy.call_method1("asarray", (buffer,))
}

/// Refuses an array whose mask would be lost.
pub(crate) fn refuse_masked(given: &Bound<'_, PyAny>) -> PyResult<()> {
    if !given.hasattr("mask")? || !given.hasattr("filled")? {
        return Ok(());
    }
    Err(invalid(
        given.py(),
        "A masked array cannot be used. Its elements would be, without the mask. Give `array.filled(value)`, and the mask as an array of its own.",
    ))
}

/// The tensor of an array: of its own memory, of the array that it is a view of, or of memory that was entered before.
fn place(
    o: &PyOrchestrator,
    array: &Bound<'_, PyAny>,
    element: &ArrayElement,
    described: &Described,
) -> PyResult<Tensor> {
    let bytes = element.spec.bytes as usize;
    if described.is_dense(bytes) {
        return place_dense(o, array, element, described);
    }
    let py = array.py();
    let cut = |tensor: plimsoll::Result<Tensor>| tensor.map_err(|error| crate::error::raise(py, &error));
    // Another order of dimensions: by descending step they may be dense.
    let (mut sorted, mut back) = described.sorted();
    if sorted.is_dense(bytes) {
        let tensor = place_dense(o, array, element, &sorted)?.permute(&back);
        return cut(tensor.and_then(|tensor| tensor.with_ones(&described.shape)));
    }
    // Elements that lie apart are the first, or another one, of each row.
    if sorted.strides.last() != Some(&(bytes as isize)) {
        back.push(sorted.shape.len());
        sorted.shape.push(1);
        sorted.strides.push(bytes as isize);
    }
    // A box of the array that it is a view of.
    let base = array.getattr("base")?;
    if base.is_instance(&py.import("numpy")?.getattr("ndarray")?)?
        && base.getattr("dtype")?.eq(array.getattr("dtype")?)?
    {
        let (outer, _) = Described::of(&base, bytes)?.sorted();
        if outer.is_dense(bytes)
            && let Some((parent, mut rest)) = parent_of(&sorted, &outer, bytes)
        {
            let mut tensor = place_dense(o, &base, element, &outer)?;
            if parent != outer.shape {
                tensor = cut(tensor.reshape(&parent))?;
            }
            for (dim, step) in dense(&parent, 1).into_iter().enumerate() {
                let begin = rest / step as usize;
                rest %= step as usize;
                tensor = cut(tensor.slice(dim, begin..begin + sorted.shape[dim]))?;
            }
            return cut(tensor.permute(&back).and_then(|tensor| tensor.with_ones(&described.shape)));
        }
    }
    Err(invalid(
        py,
        format!(
            "An array with strides {:?} cannot be a tensor. It is neither dense nor a box of a dense array. Copy it with `numpy.ascontiguousarray`.",
            described.strides
        ),
    ))
}

/// The shape of the whole of `outer`, which is dense, in which the view, whose dimensions go by descending step, is a box; and the number of the
/// element where the box begins.
fn parent_of(view: &Described, outer: &Described, bytes: usize) -> Option<(Vec<usize>, usize)> {
    let steps: Vec<usize> = view.strides.iter().map(|step| *step as usize / bytes).collect();
    let first = view.at.checked_sub(outer.at)?;
    if view.strides.iter().any(|step| *step == 0 || !(*step as usize).is_multiple_of(bytes))
        || steps.last() != Some(&1)
        || !first.is_multiple_of(bytes)
        || !outer.len().is_multiple_of(steps[0])
    {
        return None;
    }
    let mut parent = vec![outer.len() / steps[0]];
    for pair in steps.windows(2) {
        if !pair[0].is_multiple_of(pair[1]) {
            return None;
        }
        parent.push(pair[0] / pair[1]);
    }
    // Every dimension stays inside of its own: else a row would go on in the next one.
    let mut rest = first / bytes;
    for (dim, step) in steps.iter().enumerate() {
        if rest / step + view.shape[dim] > parent[dim] {
            return None;
        }
        rest %= step;
    }
    Some((parent, first / bytes))
}

fn place_dense(
    o: &PyOrchestrator,
    array: &Bound<'_, PyAny>,
    element: &ArrayElement,
    described: &Described,
) -> PyResult<Tensor> {
    let py = array.py();
    let cut = |tensor: plimsoll::Result<Tensor>| tensor.map_err(|error| crate::error::raise(py, &error));
    let (begin, bytes) = (described.at, element.spec.bytes);
    let end = begin + described.len() * bytes as usize;
    while let Some((known, kept)) = known_part(o, begin, end) {
        let inside = known.begin <= begin && end <= known.end && (begin - known.begin).is_multiple_of(bytes as usize);
        if !inside || known.bytes != bytes || known.whole.element().dtype != element.spec.dtype {
            if o.with(py, |o| o.is_open(&known.whole))? {
                return Err(invalid(
                    py,
                    "An array overlaps another that was entered before. Which tasks must wait for which could not be told. Enter the larger array first and slice its tensor.",
                ));
            }
            o.attempt(py, |o| o.wait_out(&known.whole))?;
            locked(&o.entered).retain(|one| !Weak::ptr_eq(&one.kept, &known.kept));
            continue;
        }
        let whole = whole_of(o, py, &known, kept)?;
        let first = (begin - known.begin) / bytes as usize;
        if (begin, end) == (known.begin, known.end)
            && whole.shape().iter().map(|&extent| extent as usize).eq(described.shape.iter().copied())
        {
            return Ok(whole);
        }
        let flat = cut(whole.reshape(&[(known.end - known.begin) / bytes as usize]))?;
        let part = cut(flat.slice(0, first..first + described.len()))?;
        return cut(part.reshape(&described.shape));
    }
    let kept = Arc::new(EnteredArray(Some(array.clone().unbind())));
    o.shared.keep(&kept);
    let (at, spec) = (begin as *mut u8, element.spec);
    let shape = if described.shape.is_empty() { &[1] } else { &described.shape[..] };
    let weak = Arc::downgrade(&kept);
    // SAFETY: the array is kept until no task can touch it, and overlaps nothing that was entered and is in use. That nobody
    // else writes it meanwhile is asked of the caller. Whether tasks may write it every tensor of it says itself.
    let whole = o.attempt(py, |o| unsafe { o.borrow(at, end - begin, spec, shape, false, Some(Box::new(kept))) })?;
    locked(&o.entered).push(Entered { begin, end, bytes, whole, kept: weak });
    if described.shape.is_empty() { cut(whole.reshape(&[])) } else { Ok(whole) }
}

/// Memory that was entered, is in use, and overlaps this.
fn known_part(o: &PyOrchestrator, begin: usize, end: usize) -> Option<(Entered, Arc<EnteredArray>)> {
    let mut entered = locked(&o.entered);
    entered.retain(|one| one.kept.strong_count() > 0);
    let known = entered.iter().filter(|known| begin < known.end && known.begin < end);
    let mut known = known.filter_map(|known| Some((known.clone(), known.kept.upgrade()?)));
    known.next()
}

/// All of known memory as a tensor of a scope that is open: of the innermost one, if that in which it was entered has closed.
fn whole_of(o: &PyOrchestrator, py: Python<'_>, known: &Entered, kept: Arc<EnteredArray>) -> PyResult<Tensor> {
    if o.with(py, |o| o.is_open(&known.whole))? {
        return Ok(known.whole);
    }
    // SAFETY: the memory was entered, and is kept for this scope, too.
    let whole = o.attempt(py, |o| unsafe { o.borrow_again(&known.whole, Some(Box::new(kept))) })?;
    for one in locked(&o.entered).iter_mut().filter(|one| Weak::ptr_eq(&one.kept, &known.kept)) {
        one.whole = whole;
    }
    Ok(whole)
}
