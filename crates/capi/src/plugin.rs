//! Programs as plug-ins: shared objects that `plimsoll_plugin.h` describes, as a command loads and runs them.
//!
//! An object exports one function, `plimsoll_register`. It is handed the table of all functions ([`HOST`]), so that it links
//! with nothing, and gives a description of its programs. What either side allocates, it frees itself: errors are made and
//! freed by the table's functions, everything else is the plug-in's own. An object is never unloaded, so its code, and the
//! description, stay where they are.

mod description;

use crate::device::CDevice;
use crate::entries::{HOST, HostTable};
use crate::entry::invalid;
use crate::error::CError;
pub use description::{CPlugin, CPluginProgram, CSetting, PluginSetting, programs_of};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use plimsoll::run::{ErrorCode, Site};
use plimsoll::untyped;
use plimsoll::{Device, Error, Orchestrator, Result};
use std::error::Error as _;
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

/// The function that an object exports.
pub type RegisterFn = unsafe extern "C" fn(host: *const HostTable) -> *const CPlugin;
/// Registers a program's kernels with a device and makes its data.
pub type BuildFn =
    unsafe extern "C" fn(device: *mut CDevice, settings: *const u64, instance: *mut *mut c_void) -> *mut CError;
/// Puts the data back to what it was before the first run.
pub type ResetFn = unsafe extern "C" fn(instance: *mut c_void) -> *mut CError;
/// Checks the result: 0 if it is right. Says in one line how it was compared.
pub type VerifyFn = unsafe extern "C" fn(instance: *mut c_void, detail: *mut c_char, room: usize) -> i32;

/// Room for what a plug-in says of its result.
const DETAIL_ROOM: usize = 1024;

/// A program of a plug-in.
#[derive(Debug)]
pub struct PluginProgram {
    /// Its name.
    pub name: &'static str,
    /// What it computes, in one line.
    pub about: &'static str,
    /// What can be set.
    pub settings: Vec<PluginSetting>,
    /// Where it is written.
    site: Option<Site>,
    functions: CPluginProgram,
}

/// Loads a plug-in and gives its programs. It stays loaded for the life of the process.
///
/// # Errors
/// [`InvalidArgs`](ErrorCode::InvalidArgs) if the file cannot be loaded, exports no `plimsoll_register`, does not take this
/// version of the interface, or describes something that makes no sense.
///
/// # Safety
/// The object's code can be run: it is what its author says it is.
pub unsafe fn load(path: &Path) -> Result<Vec<PluginProgram>> {
    let shown = path.display();
    // A bare name would be searched for where the system keeps its libraries.
    let file = std::path::absolute(path).ok().filter(|file| file.is_file());
    let Some(file) = file else {
        return Err(invalid(format!("There is no file {shown}. A plug-in is a shared object. Check the path.")));
    };
    // SAFETY: the caller's promise, which covers what the object does when it is loaded.
    let library = unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
        invalid(format!(
            "{shown} cannot be loaded. {} Build it as a shared object for this machine, with -shared -fPIC and the libraries that it uses.",
            // The system's own words are the cause of the library's.
            sentence(&error.source().map_or_else(|| error.to_string(), ToString::to_string))
        ))
        .caused_by(error)
    })?;
    // SAFETY: whoever exports a function of this name has written it for this purpose.
    let register = unsafe { library.get::<RegisterFn>(b"plimsoll_register\0") }.map(|symbol| *symbol);
    // Code of it may be running, or be called again, until the process ends.
    std::mem::forget(library);
    let register = register.map_err(|_| {
        invalid(format!(
            "{shown} is no plug-in. It exports no function plimsoll_register. Write one as plimsoll_plugin.h says, and export it."
        ))
    })?;
    // SAFETY: as above; the table is static.
    let described = unsafe { register(&raw const HOST) };
    // SAFETY: null or a description, which is never freed.
    unsafe { programs_of(described) }.map_err(|why| invalid(format!("{shown} cannot be used. {why}")))
}

/// A text of the system's as one sentence.
fn sentence(text: &str) -> String {
    format!("The system says: {}.", text.trim_end_matches(['.', '\n']))
}

impl PluginProgram {
    /// Registers its kernels and makes its data. `values` are those of its settings, in their order.
    ///
    /// # Errors
    /// The plug-in's own.
    pub fn build(&self, device: &mut Device, values: &[u64]) -> Result<PluginInstance> {
        if values.len() != self.settings.len() {
            return Err(invalid(format!(
                "{} has {} settings, and {} values were given. Give one for each.",
                self.name,
                self.settings.len(),
                values.len()
            )));
        }
        let mut handle = Box::new(CDevice::lent(device));
        let mut instance = std::ptr::null_mut();
        let error = match self.functions.build {
            // SAFETY: the description's promise; the handle is valid, and refuses to be used after it was returned.
            Some(build) => unsafe { build(&raw mut *handle, values.as_ptr(), &raw mut instance) },
            None => std::ptr::null_mut(),
        };
        handle.give_back();
        let built = PluginInstance { instance, functions: self.functions, site: self.site, _handle: handle };
        // SAFETY: null, or an error that the plug-in does not use any more.
        unsafe { CError::take(error) }.map_or(Ok(built), Err)
    }
}

/// A program of a plug-in, with its kernels and data, ready to run any number of times.
#[derive(Debug)]
pub struct PluginInstance {
    instance: *mut c_void,
    functions: CPluginProgram,
    site: Option<Site>,
    /// The plug-in may have kept a pointer to it.
    _handle: Box<CDevice>,
}

impl Drop for PluginInstance {
    fn drop(&mut self) {
        if let Some(release) = self.functions.release.filter(|_| !self.instance.is_null()) {
            // SAFETY: the description's promise; it is the last call with this instance.
            unsafe { release(self.instance) };
        }
    }
}

impl PluginInstance {
    /// Where it is written.
    pub fn site(&self) -> Option<Site> {
        self.site
    }

    /// Submits its tasks.
    ///
    /// # Errors
    /// The plug-in's own, and those of its tasks.
    pub fn orchestrate(&self, o: &mut Orchestrator<'_, '_>) -> Result<()> {
        let orchestrate = self.functions.orchestrate.ok_or_else(|| Error::invalid("The plug-in submits nothing."))?;
        untyped::Orchestrator::drive(o, |o| {
            // SAFETY: the description's promise.
            unsafe { crate::device::call_program(orchestrate, self.instance, o) }
        })
    }

    /// Puts its data back to what it was before the first run. Nothing to do, if it does not say how.
    ///
    /// # Errors
    /// The plug-in's own.
    pub fn reset(&self) -> Result<()> {
        let Some(reset) = self.functions.reset else { return Ok(()) };
        // SAFETY: the description's promise; the error is null or not used by the plug-in any more.
        unsafe { CError::take(reset(self.instance)) }.map_or(Ok(()), Err)
    }

    /// Whether it can check its result.
    pub fn is_verifiable(&self) -> bool {
        self.functions.verify.is_some()
    }

    /// Whether the result is right, and what the plug-in says of it.
    ///
    /// # Errors
    /// [`InvalidArgs`](ErrorCode::InvalidArgs) if it cannot check its result.
    pub fn verify(&self) -> Result<(bool, String)> {
        let verify = self.functions.verify;
        let verify = verify.ok_or_else(|| Error::new(ErrorCode::InvalidArgs, "The plug-in has no verify."))?;
        let mut detail = [0u8; DETAIL_ROOM];
        // SAFETY: the description's promise: it writes at most that many bytes.
        let wrong = unsafe { verify(self.instance, detail.as_mut_ptr().cast(), DETAIL_ROOM) };
        let text = CStr::from_bytes_until_nul(&detail)
            .map_or_else(|_| String::from_utf8_lossy(&detail).into_owned(), |text| text.to_string_lossy().into_owned());
        let without = if wrong == 0 { "as the plug-in says" } else { "the plug-in does not say why" };
        Ok((wrong == 0, if text.is_empty() { without.to_owned() } else { text }))
    }
}
