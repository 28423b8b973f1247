//! Tables in Arrow's form, handed over by its C data interface in PyCapsules.

use crate::error::invalid;
use crate::gil;
use plimsoll::report::parquet::{self, PlainColumn};
use plimsoll::trace::{TraceParts, open_with};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowStream)>,
    private_data: *mut c_void,
}

const NULLABLE: i64 = 2;

/// A column as Arrow lays it out: which cells are there, and up to two buffers of what they hold.
struct Laid {
    name: CString,
    format: &'static std::ffi::CStr,
    nulls: i64,
    buffers: Vec<Vec<u8>>,
}

/// A table as Arrow lays it out.
struct LaidTable {
    rows: usize,
    columns: Vec<Laid>,
}

fn bits(flags: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, flag) in flags.enumerate() {
        if at % 8 == 0 {
            out.push(0);
        }
        out[at / 8] |= u8::from(flag) << (at % 8);
    }
    out
}

impl Laid {
    fn new(name: &str, column: &PlainColumn) -> Self {
        fn cells<T: Copy + Default, const N: usize>(cells: &[Option<T>], bytes: fn(T) -> [u8; N]) -> [Vec<u8>; 2] {
            let there = bits(cells.iter().map(Option::is_some));
            [there, cells.iter().flat_map(|cell| bytes(cell.unwrap_or_default())).collect()]
        }
        let nulls = match column {
            PlainColumn::Int(cells) => cells.iter().filter(|cell| cell.is_none()).count(),
            PlainColumn::Real(cells) => cells.iter().filter(|cell| cell.is_none()).count(),
            PlainColumn::Flag(cells) => cells.iter().filter(|cell| cell.is_none()).count(),
            PlainColumn::Text(cells) => cells.iter().filter(|cell| cell.is_none()).count(),
        };
        let (format, buffers) = match column {
            PlainColumn::Int(column) => (c"l", cells(column, i64::to_ne_bytes).to_vec()),
            PlainColumn::Real(column) => (c"g", cells(column, f64::to_ne_bytes).to_vec()),
            PlainColumn::Flag(column) => (
                c"b",
                vec![bits(column.iter().map(Option::is_some)), bits(column.iter().map(|cell| *cell == Some(true)))],
            ),
            PlainColumn::Text(column) => {
                let (mut ends, mut text) = (0i64.to_ne_bytes().to_vec(), Vec::new());
                for cell in column {
                    text.extend(cell.iter().flat_map(|cell| cell.bytes()));
                    ends.extend((text.len() as i64).to_ne_bytes());
                }
                (c"U", vec![bits(column.iter().map(Option::is_some)), ends, text])
            }
        };
        Self { name: CString::new(name).unwrap_or_default(), format, nulls: nulls as i64, buffers }
    }
}

/// A table of a run. `pyarrow.table(t)`, pandas, polars and DuckDB take it as it is.
#[pyclass(name = "Table", module = "plimsoll", frozen)]
pub(crate) struct PyTable(Arc<LaidTable>);

#[pymethods]
impl PyTable {
    /// Number of rows.
    #[getter]
    fn rows(&self) -> usize {
        self.0.rows
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.columns.iter().map(|column| column.name.to_string_lossy().into_owned()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.rows
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // What the reader would rather have is a wish, which the interface allows to ignore.
        let _ = requested_schema;
        let stream = Box::into_raw(Box::new(ArrowStream {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(get_last_error),
            release: Some(release_stream),
            private_data: Box::into_raw(Box::new((Arc::clone(&self.0), false))).cast(),
        }));
        // SAFETY: the name is static; the capsule owns the stream, and its destructor takes it back.
        unsafe {
            let capsule = ffi::PyCapsule_New(stream.cast(), STREAM.as_ptr(), Some(drop_capsule));
            Bound::from_owned_ptr_or_err(py, capsule)
        }
    }
}

const STREAM: &std::ffi::CStr = c"arrow_array_stream";

unsafe extern "C" fn drop_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule is the one made above; a reader that took the stream over has cleared its `release`.
    unsafe {
        let stream = ffi::PyCapsule_GetPointer(capsule, STREAM.as_ptr()).cast::<ArrowStream>();
        if let Some(release) = (*stream).release {
            release(stream);
        }
        drop(Box::from_raw(stream));
    }
}

/// The table of a stream, and whether it was given.
unsafe fn inside<'a>(stream: *mut ArrowStream) -> &'a mut (Arc<LaidTable>, bool) {
    // SAFETY: a stream made above that was not released.
    unsafe { &mut *(*stream).private_data.cast() }
}

unsafe extern "C" fn get_schema(stream: *mut ArrowStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the interface asks the reader for a stream that is live, and a place.
    unsafe {
        let (table, _) = inside(stream);
        let children = table
            .columns
            .iter()
            .map(|column| Box::into_raw(Box::new(schema(column.format, &column.name, NULLABLE, Vec::new()))));
        out.write(schema(c"+s", c"", 0, children.collect()));
    }
    0
}

/// A schema that owns its name and its children.
fn schema(
    format: &'static std::ffi::CStr,
    name: &std::ffi::CStr,
    flags: i64,
    children: Vec<*mut ArrowSchema>,
) -> ArrowSchema {
    let mut kept = Box::new((name.to_owned(), children));
    let (name, n_children, children) = (kept.0.as_ptr(), kept.1.len() as i64, kept.1.as_mut_ptr());
    ArrowSchema {
        format: format.as_ptr(),
        name,
        metadata: std::ptr::null(),
        flags,
        n_children,
        children,
        dictionary: std::ptr::null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(kept).cast(),
    }
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: a schema made above, released once; a child that was moved out has no `release`.
    unsafe {
        let kept = Box::from_raw((*schema).private_data.cast::<(CString, Vec<*mut ArrowSchema>)>());
        for child in kept.1 {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*schema).release = None;
    }
}

unsafe extern "C" fn get_next(stream: *mut ArrowStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as for `get_schema`.
    unsafe {
        let (table, given) = inside(stream);
        if std::mem::replace(given, true) {
            // The end is an array without `release`.
            out.write(std::mem::zeroed());
            return 0;
        }
        let rows = table.rows as i64;
        let children = table.columns.iter().map(|column| {
            let buffers = column.buffers.iter().map(|buffer| buffer.as_ptr().cast()).collect();
            Box::into_raw(Box::new(array(table, rows, column.nulls, buffers, Vec::new())))
        });
        out.write(array(table, rows, 0, vec![std::ptr::null()], children.collect()));
    }
    0
}

type KeptArray = (Arc<LaidTable>, Vec<*const c_void>, Vec<*mut ArrowArray>);

/// An array over buffers of the table, which it keeps.
fn array(
    table: &Arc<LaidTable>,
    length: i64,
    null_count: i64,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
) -> ArrowArray {
    let mut kept: Box<KeptArray> = Box::new((Arc::clone(table), buffers, children));
    let (n_buffers, buffers) = (kept.1.len() as i64, kept.1.as_mut_ptr());
    let (n_children, children) = (kept.2.len() as i64, kept.2.as_mut_ptr());
    ArrowArray {
        length,
        null_count,
        offset: 0,
        n_buffers,
        n_children,
        buffers,
        children,
        dictionary: std::ptr::null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(kept).cast(),
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: an array made above, released once; a child that was moved out has no `release`.
    unsafe {
        let kept = Box::from_raw((*array).private_data.cast::<KeptArray>());
        for child in kept.2 {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*array).release = None;
    }
}

unsafe extern "C" fn get_last_error(_: *mut ArrowStream) -> *const c_char {
    std::ptr::null()
}

unsafe extern "C" fn release_stream(stream: *mut ArrowStream) {
    // SAFETY: a stream made above, released once.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<(Arc<LaidTable>, bool)>()));
        (*stream).release = None;
    }
}

/// A table of the run in a directory.
#[pyfunction]
pub(crate) fn _table(py: Python<'_>, dir: PathBuf, name: &str) -> PyResult<PyTable> {
    let read = gil::released(py, || {
        let trace = open_with(&dir, TraceParts::ALL).map_err(|error| error.to_string())?;
        let run = dir.canonicalize().unwrap_or_else(|_| dir.clone());
        let run = run.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let table = parquet::table(&trace, &run, name).ok_or_else(|| {
            format!("There is no table {name:?}. There are {}. Choose one.", parquet::TABLES.join(", "))
        })?;
        let columns = table.columns.iter().map(|(name, column)| Laid::new(name, column)).collect();
        Ok(LaidTable { rows: table.rows, columns })
    });
    read.map(|table| PyTable(Arc::new(table))).map_err(|text: String| invalid(py, text))
}
