//! Error objects: an error of the runtime with its texts as C reads them.

use crate::wording::{Language, worded};
use plimsoll::run::ErrorCode;
use std::ffi::{CString, c_char};

/// What a call that failed returns. It belongs to the caller, who frees it.
#[derive(Debug)]
pub struct CError {
    error: plimsoll::Error,
    text: CString,
    explanation: CString,
    name: CString,
    site: Option<CString>,
    kernel: Option<CString>,
}

/// Text for C. Zeros in it, which would end it early, are left out.
pub(crate) fn c_text(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

impl CError {
    pub(crate) fn boxed(error: plimsoll::Error) -> *mut Self {
        let worded = |text: &str| c_text(&worded(text, Language::C));
        let (text, explanation) = (worded(&error.to_string()), worded(error.explanation()));
        let name = c_text(error.code().name());
        let (site, kernel) = (error.site().map(c_text), error.kernel().map(c_text));
        Box::into_raw(Box::new(Self { error, text, explanation, name, site, kernel }))
    }

    /// Takes it back from C.
    ///
    /// # Safety
    /// Null, or an error that was not freed yet.
    pub(crate) unsafe fn take(error: *mut Self) -> Option<plimsoll::Error> {
        // SAFETY: the caller's promise; it came from a box.
        (!error.is_null()).then(|| unsafe { Box::from_raw(error) }.error)
    }

    /// What went wrong.
    pub fn inner(&self) -> &plimsoll::Error {
        &self.error
    }
}

/// An error of the caller's own.
pub(crate) fn new(code: u32, text: *const c_char) -> *mut CError {
    let code = ErrorCode::from_number(code).unwrap_or(ErrorCode::ExplicitFatal);
    // SAFETY: the header asks for a string.
    let text = unsafe { crate::entry::text(text, "text of an error") };
    CError::boxed(match text {
        Ok(text) => plimsoll::Error::new(code, text.unwrap_or("No reason was given.")),
        Err(error) => error,
    })
}

pub(crate) fn code(error: *const CError) -> u32 {
    // SAFETY: the header asks for an error or null.
    unsafe { error.as_ref() }.map_or(0, |error| error.error.code().number())
}

pub(crate) fn needed(error: *const CError) -> u64 {
    // SAFETY: as above.
    unsafe { error.as_ref() }.and_then(|error| error.error.needed()).unwrap_or(0)
}

fn part(error: *const CError, part: impl FnOnce(&CError) -> Option<&CString>) -> *const c_char {
    // SAFETY: as above.
    unsafe { error.as_ref() }.and_then(part).map_or(std::ptr::null(), |text| text.as_ptr())
}

pub(crate) fn name(error: *const CError) -> *const c_char {
    part(error, |error| Some(&error.name))
}

pub(crate) fn text(error: *const CError) -> *const c_char {
    part(error, |error| Some(&error.text))
}

pub(crate) fn explanation(error: *const CError) -> *const c_char {
    part(error, |error| Some(&error.explanation))
}

pub(crate) fn site(error: *const CError) -> *const c_char {
    part(error, |error| error.site.as_ref())
}

pub(crate) fn kernel(error: *const CError) -> *const c_char {
    part(error, |error| error.kernel.as_ref())
}

pub(crate) fn free(error: *mut CError) {
    // SAFETY: the header asks for null or an error that was not freed yet.
    drop(unsafe { CError::take(error) });
}
