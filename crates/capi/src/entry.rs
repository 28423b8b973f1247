//! What every entry from C has in common: panics end here, and results become what C returns.

use crate::error::CError;
use crate::types::ABI_VERSION;
use plimsoll::run::ErrorCode;
use std::any::Any;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A value that an entry can return to C.
pub(crate) trait Returned {
    /// What is returned after a panic.
    fn after_panic(text: &str) -> Self;
}

impl Returned for *mut CError {
    fn after_panic(text: &str) -> Self {
        CError::boxed(plimsoll::Error::new(
            ErrorCode::Defect,
            format!(
                "The library panicked: {text}. That is a defect of the runtime, not of the program; please report it."
            ),
        ))
    }
}

macro_rules! plain {
    ($($type:ty => $value:expr),*) => {
        $(impl Returned for $type {
            fn after_panic(_: &str) -> Self {
                $value
            }
        })*
    };
}

plain!(() => (), u32 => 0, u64 => 0, *const c_char => std::ptr::null());
plain!(*mut crate::device::CCancel => std::ptr::null_mut());

/// The result of an entry's body, and how it becomes the value that C gets.
pub(crate) trait Gives<R> {
    fn give(self) -> R;
}

impl<R: Returned> Gives<R> for R {
    fn give(self) -> R {
        self
    }
}

impl Gives<*mut CError> for plimsoll::Result<()> {
    fn give(self) -> *mut CError {
        self.err().map_or(std::ptr::null_mut(), CError::boxed)
    }
}

/// Runs the body of an entry.
#[inline]
pub(crate) fn enter<R: Returned, G: Gives<R>>(body: impl FnOnce() -> G) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(given) => given.give(),
        Err(panic) => after_panic(panic.as_ref()),
    }
}

#[cold]
fn after_panic<R: Returned>(panic: &(dyn Any + Send)) -> R {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    R::after_panic(text.unwrap_or("without a message"))
}

/// An error of wrong arguments.
pub(crate) fn invalid(text: impl Into<String>) -> plimsoll::Error {
    plimsoll::Error::invalid(text)
}

/// The text that C gave, if it gave one.
///
/// # Safety
/// Null, or a string that ends with a zero and lives for `'a`.
pub(crate) unsafe fn text<'a>(given: *const c_char, what: &str) -> plimsoll::Result<Option<&'a str>> {
    if given.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { std::ffi::CStr::from_ptr(given) };
    let text = text.to_str();
    text.map(Some).map_err(|_| invalid(format!("The {what} is not text. It is not valid UTF-8. Give it in UTF-8.")))
}

/// What a pointer from C points to.
///
/// # Safety
/// Null, or valid for `'a`.
#[inline]
pub(crate) unsafe fn given<'a, T>(pointer: *const T, what: &str) -> plimsoll::Result<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// As [`given`], to be changed.
///
/// # Safety
/// Null, or valid and nobody else's for `'a`.
#[inline]
pub(crate) unsafe fn given_mut<'a, T>(pointer: *mut T, what: &str) -> plimsoll::Result<&'a mut T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(what))
}

/// Several values from C.
///
/// # Safety
/// Null if `count` is 0, else that many values that live for `'a`.
#[inline]
pub(crate) unsafe fn several<'a, T>(first: *const T, count: usize, what: &str) -> plimsoll::Result<&'a [T]> {
    match count {
        0 => Ok(&[]),
        _ if first.is_null() => Err(null(what)),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}

/// Options as this library has them: those that an older header does not have are zero.
///
/// # Safety
/// Null, or options that begin with the version and the size.
pub(crate) unsafe fn options<T: Copy>(given: *const T, what: &str) -> plimsoll::Result<T> {
    // SAFETY: all options are numbers and pointers, which may be zero.
    let mut own: T = unsafe { std::mem::zeroed() };
    if given.is_null() {
        return Ok(own);
    }
    // SAFETY: the caller's promise.
    let [version, size] = unsafe { given.cast::<[u32; 2]>().read() };
    if version != ABI_VERSION || size as usize > size_of::<T>() || size < 8 {
        return Err(invalid(format!(
            "The {what} were made for another version of the library: version {version} with {size} bytes. This is version {ABI_VERSION} with up to {} bytes. Compile the program with the header of this library, and start from its initialiser.",
            size_of::<T>()
        )));
    }
    // SAFETY: the caller has that many bytes, and ours has room for them.
    unsafe { std::ptr::copy_nonoverlapping(given.cast::<u8>(), (&raw mut own).cast(), size as usize) };
    Ok(own)
}

#[cold]
fn null(what: &str) -> plimsoll::Error {
    invalid(format!("The {what} is a null pointer. The call needs one. Pass what an earlier call gave."))
}
