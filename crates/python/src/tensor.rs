//! Tensors and their views in Python.

use crate::element::ArrayElement;
use crate::error::{invalid, raise};
use plimsoll::untyped;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice, PyTuple};

/// A tensor of a run, or a view of one: `t[a:b, c:d]`, `.tile`, `.T`, `.reshape`, `.permute` cut views and copy nothing.
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
        let known = asked.iter().filter(|extent| **extent >= 0);
        let known = known.fold(1usize, |known, extent| known.saturating_mul(*extent as usize));
        let left = self.tensor.len().checked_div(known).unwrap_or(0);
        if asked.iter().filter(|extent| **extent < 0).count() > 1 {
            return Err(invalid(py, "A shape has one extent of -1 at most. The others must be told. Give them."));
        }
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
        let several = at.cast::<PyTuple>().ok();
        let count = several.map_or(1, |tuple| tuple.len());
        let mut out = Self { tensor: self.tensor, element: self.element.clone_ref(py) };
        let mut dropped = Vec::new();
        for dim in 0..count {
            let one = several.map_or_else(|| Ok(at.clone()), |tuple| tuple.get_item(dim))?;
            let Some(&extent) = self.tensor.shape().get(dim) else {
                return Err(PyIndexError::new_err(format!(
                    "a tensor of {} dimensions was given {count} indices",
                    self.tensor.shape().len()
                )));
            };
            if let Ok(slice) = one.cast::<PySlice>() {
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
                let (start, stop) = (range.start as usize, range.stop.max(range.start) as usize);
                out = out.cut(py, out.tensor.slice(dim, start..stop))?;
            } else {
                let index: isize = one.extract()?;
                let place = if index < 0 { index + extent as isize } else { index };
                if !(0..extent as isize).contains(&place) {
                    return Err(PyIndexError::new_err(format!("index {index} is outside of extent {extent}")));
                }
                out = out.cut(py, out.tensor.slice(dim, place as usize..place as usize + 1))?;
                dropped.push(dim);
            }
        }
        if dropped.is_empty() {
            return Ok(out);
        }
        let rest = out.tensor.shape().iter().enumerate().filter(|(dim, _)| !dropped.contains(dim));
        let shape: Vec<usize> = rest.map(|(_, extent)| *extent as usize).collect();
        out.cut(py, out.tensor.reshape(&shape))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shape: Vec<String> = self.tensor.shape().iter().map(u32::to_string).collect();
        Ok(format!("<plimsoll.Tensor {}[{}]>", self.element.name(py)?, shape.join(", ")))
    }
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
