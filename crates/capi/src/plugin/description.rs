//! What a plug-in says of its programs, as `plimsoll_plugin.h` has it, and how it is read.

use super::{BuildFn, PluginProgram, ResetFn, VerifyFn};
use crate::types::{ABI_VERSION, ProgramFn, ReleaseFn};
use plimsoll::run::Site;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};

/// One thing that can be set: `plimsoll_setting`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CSetting {
    /// Its key.
    pub key: *const c_char,
    /// What it is, in a few words.
    pub about: *const c_char,
    /// The words that its values are, with commas between them; null if they are numbers.
    pub words: *const c_char,
    /// Its value if nothing is said.
    pub usual: u64,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
}

/// A program: `plimsoll_plugin_program`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CPluginProgram {
    /// Its name.
    pub name: *const c_char,
    /// What it computes, in one line.
    pub about: *const c_char,
    /// The source file that it is in.
    pub file: *const c_char,
    /// The line in that file.
    pub line: u32,
    /// Number of settings.
    pub setting_count: u32,
    /// Its settings.
    pub settings: *const CSetting,
    /// Registers its kernels and makes its data; may be null.
    pub build: Option<BuildFn>,
    /// Submits its tasks.
    pub orchestrate: Option<ProgramFn>,
    /// Puts its data back; null if a run starts from any data.
    pub reset: Option<ResetFn>,
    /// Checks its result; may be null.
    pub verify: Option<VerifyFn>,
    /// Lets go of its data; may be null.
    pub release: Option<ReleaseFn>,
}

/// What a plug-in has: `plimsoll_plugin`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CPlugin {
    /// [`ABI_VERSION`] of the header that the plug-in was compiled with.
    pub abi_version: u32,
    /// Size of this structure there.
    pub size: u32,
    /// Size of a program's description there.
    pub program_size: u32,
    /// Number of programs.
    pub program_count: u32,
    /// The programs.
    pub programs: *const CPluginProgram,
}

/// One thing that can be set.
#[derive(Debug)]
pub struct PluginSetting {
    /// Its key.
    pub key: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// The words that its values are; none if they are numbers.
    pub words: Vec<&'static str>,
    /// Its value if nothing is said.
    pub default: u64,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
}

/// More of anything is a description that is garbage.
const MOST: u32 = 1024;

/// Reads what a plug-in describes.
///
/// # Errors
/// What is wrong with the description.
///
/// # Safety
/// Null, or a description that stays as it is for the life of the process.
pub unsafe fn programs_of(plugin: *const CPlugin) -> Result<Vec<PluginProgram>, String> {
    // SAFETY: the caller's promise.
    let Some(head) = (unsafe { plugin.cast::<[u32; 2]>().as_ref() }) else {
        return Err(format!(
            "Its plimsoll_register refused the command, whose interface is version {ABI_VERSION} of {} functions. Compile the plug-in with the header of this version.",
            crate::entries::PROTOTYPES.len()
        ));
    };
    let [version, size] = *head;
    if version != ABI_VERSION || (size as usize) < size_of::<CPlugin>() {
        return Err(format!(
            "It was made for version {version} of the interface, and describes itself in {size} bytes. The command has version {ABI_VERSION} and reads {}. Compile the plug-in with the header of this version.",
            size_of::<CPlugin>()
        ));
    }
    // SAFETY: the caller's promise; its size is one that this version has.
    let plugin = unsafe { &*plugin };
    if plugin.program_count == 0 || plugin.program_count > MOST || plugin.programs.is_null() {
        return Err(format!(
            "It describes {} programs, at {:p}. There must be one at least, and {MOST} at most. Fill in programs and program_count.",
            plugin.program_count, plugin.programs
        ));
    }
    let smallest = std::mem::offset_of!(CPluginProgram, reset) as u32;
    if plugin.program_size < smallest || plugin.program_size as usize > size_of::<CPluginProgram>() {
        return Err(format!(
            "A description of its programs has {} bytes. This version reads from {smallest} to {} bytes. Set program_size to sizeof(plimsoll_plugin_program).",
            plugin.program_size,
            size_of::<CPluginProgram>()
        ));
    }
    let mut names = BTreeSet::new();
    let mut programs = Vec::new();
    for index in 0..plugin.program_count {
        // SAFETY: there are that many descriptions, each of that size.
        let program = unsafe { read_program(plugin, index as usize) }?;
        if !names.insert(program.name) {
            return Err(format!(
                "Two of its programs are called {:?}. Names tell them apart. Rename one.",
                program.name
            ));
        }
        programs.push(program);
    }
    Ok(programs)
}

/// # Safety
/// As for [`programs_of`].
unsafe fn read_program(plugin: &CPlugin, index: usize) -> Result<PluginProgram, String> {
    let size = plugin.program_size as usize;
    // SAFETY: it is pointers and numbers, which may be zero.
    let mut own: CPluginProgram = unsafe { std::mem::zeroed() };
    // SAFETY: there are that many bytes, and ours has room for them.
    unsafe {
        let from = plugin.programs.cast::<u8>().add(index * size);
        std::ptr::copy_nonoverlapping(from, (&raw mut own).cast::<u8>(), size);
    }
    // SAFETY: the header asks for texts or null.
    let (name, about, file) = unsafe { (words_of(own.name)?, words_of(own.about)?, words_of(own.file)?) };
    let name = name.filter(|name| is_name(name)).ok_or_else(|| {
        format!(
            "Program {index} of it has no proper name. A name is letters, digits, dashes and underscores. Give it one."
        )
    })?;
    if own.orchestrate.is_none() {
        return Err(format!("Its program {name} has no orchestrate. Nothing would be submitted. Fill it in."));
    }
    if own.setting_count > MOST || (own.settings.is_null() && own.setting_count > 0) {
        return Err(format!(
            "Its program {name} has {} settings, at {:p}. There are at most {MOST}. Fill in settings and setting_count.",
            own.setting_count, own.settings
        ));
    }
    let mut settings: Vec<PluginSetting> = Vec::new();
    for at in 0..own.setting_count as usize {
        // SAFETY: there are that many.
        let setting = unsafe { read_setting(&*own.settings.add(at)) }
            .map_err(|why| format!("Setting {at} of its program {name} makes no sense. {why}"))?;
        if settings.iter().any(|other| other.key == setting.key) {
            return Err(format!(
                "Two settings of its program {name} are called {:?}. Keys tell them apart. Rename one.",
                setting.key
            ));
        }
        settings.push(setting);
    }
    let site = file.map(|file| Site::foreign(file, own.line));
    Ok(PluginProgram { name, about: about.unwrap_or(""), settings, site, functions: own })
}

/// # Safety
/// As for [`programs_of`].
unsafe fn read_setting(setting: &CSetting) -> Result<PluginSetting, String> {
    // SAFETY: the header asks for texts or null.
    let (key, about, words) = unsafe { (words_of(setting.key)?, words_of(setting.about)?, words_of(setting.words)?) };
    let key = key
        .filter(|key| is_name(key))
        .ok_or("It has no proper key. A key is letters, digits, dashes and underscores. Give it one.")?;
    let words: Vec<&'static str> = words.map_or_else(Vec::new, |words| words.split(',').map(str::trim).collect());
    let CSetting { usual, mut min, mut max, .. } = *setting;
    if !words.is_empty() {
        (min, max) = (0, words.len() as u64 - 1);
    }
    if min > usual || usual > max {
        return Err(format!("{key} is {usual} if nothing is said, and goes from {min} to {max}. Correct one of them."));
    }
    Ok(PluginSetting { key, about: about.unwrap_or(""), words, default: usual, min, max })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
}

/// # Safety
/// Null, or a text that stays for the life of the process.
unsafe fn words_of(text: *const c_char) -> Result<Option<&'static str>, String> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map(Some).map_err(|_| "One of its texts is not valid UTF-8. Write it in UTF-8.".to_owned())
}
