//! NumPy arrays over memory of a run, made with NumPy's own C interface, whose places in its table are stable.

use crate::element::ArrayElement;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ffi::{c_int, c_void};

/// Places in NumPy's table of functions.
const ARRAY_TYPE: usize = 2;
const NEW: usize = 93;
const NEW_FROM_DESCR: usize = 94;
const SET_BASE_OBJECT: usize = 282;

const WRITEABLE: c_int = 0x0400;
const ALIGNED: c_int = 0x0100;

type New = unsafe extern "C" fn(
    *mut ffi::PyTypeObject,
    c_int,
    *const isize,
    c_int,
    *const isize,
    *mut c_void,
    c_int,
    c_int,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;
type NewFromDescr = unsafe extern "C" fn(
    *mut ffi::PyTypeObject,
    *mut ffi::PyObject,
    c_int,
    *const isize,
    *const isize,
    *mut c_void,
    c_int,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;
type SetBaseObject = unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject) -> c_int;

/// What is used of NumPy's table.
struct Table {
    array_type: *mut ffi::PyTypeObject,
    new: New,
    new_from_descr: NewFromDescr,
    set_base_object: SetBaseObject,
}

// SAFETY: functions and a type that live as long as the process.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

static TABLE: PyOnceLock<Table> = PyOnceLock::new();

fn table(py: Python<'_>) -> PyResult<&'static Table> {
    TABLE.get_or_try_init(py, || {
        // NumPy 2 has it in `_core`, NumPy 1 in `core`.
        let module =
            py.import("numpy._core._multiarray_umath").or_else(|_| py.import("numpy.core._multiarray_umath"))?;
        let capsule = module.getattr("_ARRAY_API")?;
        // SAFETY: the capsule has no name, and holds a table of pointers that is never freed.
        let entries = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), std::ptr::null()) }.cast::<*mut c_void>();
        if entries.is_null() {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: the places are those of NumPy's stable interface, and have these types.
        unsafe {
            Ok(Table {
                array_type: (*entries.add(ARRAY_TYPE)).cast(),
                new: std::mem::transmute::<*mut c_void, New>(*entries.add(NEW)),
                new_from_descr: std::mem::transmute::<*mut c_void, NewFromDescr>(*entries.add(NEW_FROM_DESCR)),
                set_base_object: std::mem::transmute::<*mut c_void, SetBaseObject>(*entries.add(SET_BASE_OBJECT)),
            })
        }
    })
}

/// A view of memory as an array.
pub(crate) struct ArraySpec<'a> {
    pub(crate) data: *mut u8,
    pub(crate) shape: &'a [u32],
    /// In elements.
    pub(crate) strides: &'a [i32],
    pub(crate) writable: bool,
}

/// An array over memory that stays valid while `base` lives, which the array and every view of it hold.
///
/// # Safety
/// The memory has these elements, and nobody else writes it while `base` is referred to.
pub(crate) unsafe fn view<'py>(
    py: Python<'py>,
    spec: &ArraySpec<'_>,
    element: &ArrayElement,
    base: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let table = table(py)?;
    let bytes = element.spec.bytes as isize;
    let (mut dims, mut steps) = ([1isize; plimsoll::abi::MAX_DIMS], [0isize; plimsoll::abi::MAX_DIMS]);
    for (place, extent) in dims.iter_mut().zip(spec.shape) {
        *place = *extent as isize;
    }
    for (place, step) in steps.iter_mut().zip(spec.strides) {
        *place = *step as isize * bytes;
    }
    let flags = ALIGNED | if spec.writable { WRITEABLE } else { 0 };
    let (ndim, data) = (spec.shape.len() as c_int, spec.data.cast::<c_void>());
    let none = std::ptr::null_mut();
    // SAFETY: the table's functions take these, and the caller promises the memory. A descriptor's reference is taken over.
    let made = unsafe {
        match &element.descr {
            Some(descr) => (table.new_from_descr)(
                table.array_type,
                descr.clone_ref(py).into_ptr(),
                ndim,
                dims.as_ptr(),
                steps.as_ptr(),
                data,
                flags,
                none,
            ),
            None => {
                let kind = element.number();
                (table.new)(table.array_type, ndim, dims.as_ptr(), kind, steps.as_ptr(), data, 0, flags, none)
            }
        }
    };
    // SAFETY: a new reference, or null with an exception set.
    let array = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
    // SAFETY: the reference to the base is taken over.
    match unsafe { (table.set_base_object)(array.as_ptr(), base.clone().into_ptr()) } {
        0 => Ok(array),
        _ => Err(PyErr::fetch(py)),
    }
}

/// Where the first element of an array is.
pub(crate) fn address(array: &Bound<'_, PyAny>) -> PyResult<usize> {
    array.getattr("__array_interface__")?.get_item("data")?.get_item(0)?.extract()
}
