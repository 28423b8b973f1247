//! Types of elements: names, NumPy's dtypes, and the runtime's.

use crate::error::invalid;
use plimsoll::abi::Dtype;
use plimsoll::untyped::ElementSpec;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// What a tensor's elements are, for the runtime and for NumPy.
#[derive(Debug)]
pub(crate) struct ArrayElement {
    pub(crate) spec: ElementSpec,
    /// NumPy's dtype, if it is none of those that the runtime has itself.
    pub(crate) descr: Option<Py<PyAny>>,
}

/// The runtime's dtypes: its own, NumPy's kind and size, NumPy's number.
const KNOWN: [(Dtype, &str, i32); 10] = [
    (Dtype::F64, "f8", 12),
    (Dtype::F32, "f4", 11),
    (Dtype::F16, "f2", 23),
    // NumPy has no bfloat16 of its own: kernels see its bits.
    (Dtype::Bf16, "u2", 4),
    (Dtype::I64, "i8", 7),
    (Dtype::I32, "i4", 5),
    (Dtype::I16, "i2", 3),
    (Dtype::I8, "i1", 1),
    (Dtype::U8, "u1", 2),
    (Dtype::Bool, "b1", 0),
];

impl ArrayElement {
    pub(crate) fn of(dtype: Dtype) -> Self {
        Self { spec: ElementSpec::of(dtype), descr: None }
    }

    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { spec: self.spec, descr: self.descr.as_ref().map(|descr| descr.clone_ref(py)) }
    }

    /// NumPy's number of the type; bytes for what NumPy is told by its dtype.
    pub(crate) fn number(&self) -> i32 {
        KNOWN.iter().find(|(dtype, ..)| *dtype == self.spec.dtype).map_or(2, |(_, _, number)| *number)
    }

    /// As `np.dtype` takes it.
    pub(crate) fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(descr) = &self.descr {
            return Ok(descr.bind(py).clone());
        }
        let name = KNOWN.iter().find(|(dtype, ..)| *dtype == self.spec.dtype).map_or("u1", |(_, name, _)| name);
        py.import("numpy")?.getattr("dtype")?.call1((name,))
    }

    /// The name that people write.
    pub(crate) fn name(&self, py: Python<'_>) -> PyResult<String> {
        match &self.descr {
            Some(descr) => descr.bind(py).str()?.extract(),
            None => Ok(self.spec.dtype.name().to_owned()),
        }
    }

    /// From what a person gives as a dtype: one of the runtime's names, or whatever NumPy takes.
    pub(crate) fn from_any(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = given.cast::<PyString>() {
            let text = text.to_cow()?;
            if let Some(dtype) = Dtype::ALL.into_iter().skip(1).find(|dtype| dtype.name() == text) {
                return Ok(Self::of(dtype));
            }
        }
        let py = given.py();
        let descr = py.import("numpy")?.getattr("dtype")?.call1((given,))?;
        Self::from_descr(&descr)
    }

    /// From a dtype of NumPy's.
    pub(crate) fn from_descr(descr: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !descr.getattr("isnative")?.extract::<bool>()? {
            return Err(invalid(
                descr.py(),
                "Elements of a foreign byte order cannot be used. Kernels read them as this machine's. Convert them with `array.astype(array.dtype.newbyteorder('='))`.",
            ));
        }
        if descr.getattr("hasobject")?.extract::<bool>()? {
            return Err(invalid(
                descr.py(),
                "Python objects cannot be elements of a tensor. Kernels would use them without the GIL. Convert them to numbers.",
            ));
        }
        let text: String = descr.getattr("str")?.extract()?;
        let plain = text.trim_start_matches(['<', '>', '=', '|']);
        if plain != "u2"
            && let Some((dtype, ..)) = KNOWN.iter().find(|(_, name, _)| *name == plain)
        {
            return Ok(Self::of(*dtype));
        }
        let (bytes, align): (u32, u32) =
            (descr.getattr("itemsize")?.extract()?, descr.getattr("alignment")?.extract()?);
        let align = if align.is_power_of_two() && bytes.is_multiple_of(align) { align } else { 1 };
        Ok(Self { spec: ElementSpec::opaque(bytes, align), descr: Some(descr.clone().unbind()) })
    }
}
