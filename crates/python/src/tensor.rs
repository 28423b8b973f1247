//! Tensors and their views in Python.

use crate::arguments::type_name;
use crate::element::ArrayElement;
use crate::error::{invalid, raise};
use plimsoll::untyped;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PySlice, PyTuple};

/// A tensor of a run, or a view of one: `t[a:b, c:d]`, `.tile`, `.T`, `.reshape`, `.permute` cut views and copy nothing.
///
/// An index drops its dimension, `...` stands for the dimensions that are left out, and None is one more of one element:
///
/// >>> import numpy as np, plimsoll
/// >>> from plimsoll import InOut
/// >>> array = np.zeros((3, 4))
/// >>> with plimsoll.Device(workers=2) as d:
/// ...     @d.kernel
/// ...     def bump(x):
/// ...         x += 1
/// ...     def program(o):
/// ...         t = o.tensor(array)
/// ...         o.submit(bump, InOut(t[1:, 1:3]))
/// ...         o.submit(bump, InOut(t[..., 0]))
/// ...         return t[0], t.T, t.tile((0, 1), (3, 2)), t.reshape(-1), t[None, 2]
/// ...     d.run(program)
/// (<plimsoll.Tensor f64[4]>, <plimsoll.Tensor f64[4, 3]>, <plimsoll.Tensor f64[3, 2]>, <plimsoll.Tensor f64[12]>, <plimsoll.Tensor f64[1, 4]>)
/// >>> array
/// array([[1., 0., 0., 0.],
///        [1., 1., 1., 0.],
///        [1., 1., 1., 0.]])
#[pyclass(name = "Tensor", module = "plimsoll", frozen)]
pub(crate) struct PyTensor {
    pub(crate) tensor: untyped::Tensor,
    pub(crate) element: ArrayElement,
}

impl PyTensor {
    pub(crate) fn new(tensor: untyped::Tensor, element: ArrayElement) -> Self {
        Self { tensor, element }
    }

    fn cut(&self, py: Python<'_>, view: plimsoll::Result<untyped::Tensor>) -> PyResult<Self> {
        let tensor = view.map_err(|error| raise(py, &error))?;
        Ok(Self { tensor, element: self.element.clone_ref(py) })
    }
}

#[pymethods]
impl PyTensor {
    /// Extents, one per dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.shape())
    }

    /// Number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor.shape().len()
    }

    /// Number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.tensor.len()
    }

    /// NumPy's dtype of the elements.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.element.dtype(py)
    }

    /// The same tensor, marked: runs that capture marked arguments (`record="1+dump_args=1"`) capture it.
    fn marked(&self, py: Python<'_>) -> Self {
        Self { tensor: self.tensor.marked(), element: self.element.clone_ref(py) }
    }

    /// The dimensions in reverse order.
    #[getter(T)]
    fn transposed(&self, py: Python<'_>) -> Self {
        Self { tensor: self.tensor.transpose(), element: self.element.clone_ref(py) }
    }

    /// The same elements under another shape. One extent may be -1.
    #[pyo3(signature = (*shape))]
    fn reshape(&self, py: Python<'_>, shape: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let asked: Vec<isize> = match shape.len() {
            1 => shape.get_item(0)?.extract().or_else(|_| shape.extract())?,
            _ => shape.extract()?,
        };
        if asked.iter().any(|extent| *extent < -1) || asked.iter().filter(|extent| **extent == -1).count() > 1 {
            return Err(invalid(
                py,
                format!(
                    "{asked:?} is no shape. One extent may be -1, which stands for what is left, and none may be less. Give the others."
                ),
            ));
        }
        let known = asked.iter().filter(|extent| **extent >= 0);
        let known = known.fold(1usize, |known, extent| known.saturating_mul(*extent as usize));
        let left = self.tensor.len().checked_div(known).unwrap_or(0);
        let shape: Vec<usize> = asked.iter().map(|extent| usize::try_from(*extent).unwrap_or(left)).collect();
        self.cut(py, self.tensor.reshape(&shape))
    }

    /// The dimensions in another order.
    #[pyo3(signature = (*order))]
    fn permute(&self, py: Python<'_>, order: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let order: Vec<usize> = match order.len() {
            1 => order.get_item(0)?.extract().or_else(|_| order.extract())?,
            _ => order.extract()?,
        };
        self.cut(py, self.tensor.permute(&order))
    }

    /// Tile number `index` when every dimension is cut into tiles of extents `tile`.
    fn tile(&self, py: Python<'_>, index: &Bound<'_, PyAny>, tile: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.cut(py, self.tensor.tile(&extents(index)?, &extents(tile)?))
    }

    /// NumPy would take a tensor for an object.
    #[pyo3(signature = (*_args, **_options))]
    fn __array__(
        &self,
        py: Python<'_>,
        _args: &Bound<'_, PyTuple>,
        _options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        Err(invalid(py, "A tensor is no array. Tasks that write it may not have run yet. Read it with `o.read`."))
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.tensor.shape().first();
        first
            .map(|extent| *extent as usize)
            .ok_or_else(|| PyTypeError::new_err("a tensor of one element has no length"))
    }

    fn __getitem__(&self, py: Python<'_>, at: &Bound<'_, PyAny>) -> PyResult<Self> {
        let indices: Vec<Bound<'_, PyAny>> = match at.cast::<PyTuple>() {
            Ok(several) => several.iter().collect(),
            Err(_) => vec![at.clone()],
        };
        let ndim = self.ndim();
        let used = indices.iter().filter(|one| !one.is_none() && !is_ellipsis(one)).count();
        if used > ndim || indices.iter().filter(|one| is_ellipsis(one)).count() > 1 {
            return Err(PyIndexError::new_err(format!(
                "a tensor of {ndim} dimensions was given {used} indices; it takes one for each at most, and one ..."
            )));
        }
        let (mut tensor, mut shape) = (self.tensor, Vec::new());
        let mut dim = 0;
        let rest = |shape: &mut Vec<usize>, dim: &mut usize, count: usize| {
            shape.extend(self.tensor.shape()[*dim..*dim + count].iter().map(|extent| *extent as usize));
            *dim += count;
        };
        for one in &indices {
            if one.is_none() {
                shape.push(1);
            } else if is_ellipsis(one) {
                rest(&mut shape, &mut dim, ndim - used);
            } else {
                let (range, is_kept) = indexed(one, self.tensor.shape()[dim])?;
                shape.extend(is_kept.then_some(range.len()));
                tensor = tensor.slice(dim, range).map_err(|error| raise(py, &error))?;
                dim += 1;
            }
        }
        let left = ndim - dim;
        rest(&mut shape, &mut dim, left);
        let is_same = shape.iter().copied().eq(tensor.shape().iter().map(|extent| *extent as usize));
        self.cut(py, if is_same { Ok(tensor) } else { tensor.with_ones(&shape) })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shape: Vec<String> = self.tensor.shape().iter().map(u32::to_string).collect();
        Ok(format!("<plimsoll.Tensor {}[{}]>", self.element.name(py)?, shape.join(", ")))
    }
}

fn is_ellipsis(index: &Bound<'_, PyAny>) -> bool {
    index.is(index.py().Ellipsis())
}

/// The elements that an index takes of a dimension of this extent, and whether the dimension stays.
fn indexed(index: &Bound<'_, PyAny>, extent: u32) -> PyResult<(std::ops::Range<usize>, bool)> {
    let py = index.py();
    if let Ok(slice) = index.cast::<PySlice>() {
        let range = slice.indices(extent as isize)?;
        if range.step != 1 {
            return Err(invalid(
                py,
                format!(
                    "A view cannot have step {}. Views are boxes of their tensor. Slice with step 1, or reshape first.",
                    range.step
                ),
            ));
        }
        return Ok((range.start as usize..range.stop.max(range.start) as usize, true));
    }
    let is_flag = index.is_instance_of::<PyBool>() || type_name(index).starts_with("bool");
    let number = if is_flag { None } else { index.extract::<isize>().ok() };
    let Some(number) = number else {
        return Err(PyIndexError::new_err(format!(
            "a tensor cannot be indexed with a {}; it takes whole numbers, slices, ... and None, because a view is a box of its tensor",
            type_name(index)
        )));
    };
    let place = if number < 0 { number + extent as isize } else { number };
    if !(0..extent as isize).contains(&place) {
        return Err(PyIndexError::new_err(format!("index {number} is outside of extent {extent}")));
    }
    Ok((place as usize..place as usize + 1, false))
}

/// One extent, or several.
pub(crate) fn extents(given: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let several = given.extract::<usize>().map(|one| vec![one]).or_else(|_| given.extract());
    several.map_err(|_| {
        invalid(
            given.py(),
            format!(
                "{given} is no shape. A shape is a whole number from 0 on, or several. Write it like 64 or (8, 8)."
            ),
        )
    })
}
