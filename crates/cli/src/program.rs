//! What PROGRAM on the command line stands for: a built-in program, or one of a plug-in.

use crate::exit::{refused, wrong};
use plimsoll::{Device, Error, Orchestrator, Result, RunOptions};
use plimsoll_capi::plugin::{self, PluginInstance, PluginProgram, PluginSetting};
use plimsoll_programs::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A program that can be run.
#[derive(Clone, Copy)]
pub(crate) struct NamedProgram {
    /// The spelling on the command line.
    pub(crate) spelled: &'static str,
    /// Its own name, after which the directories of its runs are named.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) params: &'static [ProgramSetting],
    source: Source,
}

/// What was allocated for a plug-in. It is never freed, because the plug-in is never unloaded.
#[expect(dead_code, reason = "it is only kept")]
struct Loaded(&'static [PluginProgram], &'static [ProgramSetting], &'static str);

// SAFETY: nobody reads what is kept.
unsafe impl Send for Loaded {}

/// Everything that was allocated for plug-ins: reachable, so that no leak checker complains.
static LOADED: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());

#[derive(Clone, Copy)]
enum Source {
    BuiltIn(&'static Program),
    Plugin(&'static PluginProgram),
}

impl NamedProgram {
    /// The program that is meant.
    pub(crate) fn find(spelled: &str) -> anyhow::Result<Self> {
        if let Some(file) = python_file(spelled) {
            return Err(wrong(format!(
                "{} is a program in Python. Only `plimsoll run` hands those to Python. Record a run of it, and read that.",
                file.display()
            )));
        }
        match object_file(spelled) {
            Some((file, name)) => Self::of_plugin(spelled, &file, name),
            None => Self::built_in(spelled),
        }
    }

    fn built_in(name: &str) -> anyhow::Result<Self> {
        let program = plimsoll_programs::find(name).ok_or_else(|| {
            wrong(format!("There is no program {name:?}. `plimsoll list` shows those there are. Check the spelling."))
        })?;
        let Program { name, about, params, .. } = *program;
        Ok(Self { spelled: name, name, about, params, source: Source::BuiltIn(program) })
    }

    /// What is made here lives as long as the plug-in, which is never unloaded.
    fn of_plugin(spelled: &str, file: &Path, name: Option<&str>) -> anyhow::Result<Self> {
        // SAFETY: whoever runs the command has named the file to have its code run.
        let programs: &'static [PluginProgram] = unsafe { plugin::load(file) }.map_err(refused)?.leak();
        let names = || programs.iter().map(|program| program.name).collect::<Vec<_>>().join(", ");
        let program = match (name, programs) {
            (None, [only]) => only,
            (None, _) => {
                return Err(wrong(format!(
                    "{} has several programs: {}. One of them is run. Name it, such as {0}:{}.",
                    file.display(),
                    names(),
                    programs[0].name
                )));
            }
            (Some(name), _) => programs.iter().find(|program| program.name == name).ok_or_else(|| {
                wrong(format!("{} has no program {name:?}. It has {}. Name one of them.", file.display(), names()))
            })?,
        };
        let params: &'static [ProgramSetting] = program.settings.iter().map(param).collect::<Vec<_>>().leak();
        let spelled: &'static str = spelled.to_owned().leak();
        if let Ok(mut loaded) = LOADED.lock() {
            loaded.push(Loaded(programs, params, spelled));
        }
        Ok(Self { spelled, name: program.name, about: program.about, params, source: Source::Plugin(program) })
    }

    /// Its settings, as `--set` changes them.
    pub(crate) fn settings(&self, sets: &[String]) -> anyhow::Result<Settings> {
        Settings::new(self.params, sets.iter().map(String::as_str)).map_err(wrong)
    }

    /// Registers its kernels and makes its input.
    pub(crate) fn build(&self, device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
        match self.source {
            Source::BuiltIn(program) => (program.build)(device, settings),
            Source::Plugin(program) => {
                let values: Vec<u64> = self.params.iter().map(|param| settings.get(param.key) as u64).collect();
                Ok(Box::new(Plugged(program.build(device, &values)?)))
            }
        }
    }

    /// Refuses a device in a process of its own, if the program cannot go there.
    pub(crate) fn check_isolation(&self, isolated: bool) -> anyhow::Result<()> {
        match self.source {
            Source::Plugin(_) if isolated => Err(wrong(isolation(self.spelled, "a plug-in"))),
            _ => Ok(()),
        }
    }
}

/// Why a program that is not built in cannot run in a process of its own.
pub(crate) fn isolation(spelled: &str, what: &str) -> String {
    format!(
        "--isolate cannot be used with {spelled}. A device in a process of its own builds programs that the command knows by name, and this is {what}. Leave --isolate out."
    )
}

fn param(setting: &'static PluginSetting) -> ProgramSetting {
    let PluginSetting { key, about, words, default, min, max } = setting;
    ProgramSetting { key, default: *default, about, min: *min, max: *max, words }
}

/// The file of a program in Python, `FILE.py` or `FILE.py:PROGRAM`.
pub(crate) fn python_file(spelled: &str) -> Option<PathBuf> {
    let file = spelled.rsplit_once(':').map_or(spelled, |(file, _)| file);
    file.ends_with(".py").then(|| file.into())
}

/// The file of a plug-in and which program of it is meant, `FILE` or `FILE:PROGRAM`. A file has a slash in it or ends
/// as shared objects do; names of built-in programs do neither.
fn object_file(spelled: &str) -> Option<(PathBuf, Option<&str>)> {
    let is_object = |text: &str| text.contains('/') || text.ends_with(".so");
    match spelled.rsplit_once(':') {
        Some((file, name)) if is_object(file) && !Path::new(spelled).is_file() => Some((file.into(), Some(name))),
        _ => is_object(spelled).then(|| (spelled.into(), None)),
    }
}

/// The file that a program is in, if it is not built in.
pub(crate) fn file_of(spelled: &str) -> Option<PathBuf> {
    python_file(spelled).or_else(|| object_file(spelled).map(|(file, _)| file))
}

/// A plug-in's program as the command runs it.
struct Plugged(PluginInstance);

impl Instance for Plugged {
    fn options(&self) -> RunOptions {
        RunOptions { site: self.0.site(), ..RunOptions::default() }
    }

    fn buffers(&self) -> Buffers<'_> {
        Vec::new()
    }

    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        self.0.orchestrate(o)
    }

    fn reset(&self) -> Result<()> {
        self.0.reset()
    }

    fn is_verifiable(&self) -> bool {
        self.0.is_verifiable()
    }

    fn verify(&self) -> Result<Verdict> {
        let (verified, detail) = self.0.verify()?;
        Ok(Verdict { verified, detail })
    }

    fn spoil(&self) -> Result<()> {
        Err(Error::invalid(
            "The result of a plug-in cannot be spoilt. Only the plug-in knows where it is. Spoil it there.",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_from_names() {
        let object = |text: &'static str| object_file(text).map(|(file, name)| (file.display().to_string(), name));
        assert_eq!(object("vector"), None);
        assert_eq!(object("a:b"), None);
        assert_eq!(object("libmine.so"), Some(("libmine.so".into(), None)));
        assert_eq!(object("./mine"), Some(("./mine".into(), None)));
        assert_eq!(object("lib/libmine.so.1:sum"), Some(("lib/libmine.so.1".into(), Some("sum"))));
        assert_eq!(python_file("mine.py:program"), Some("mine.py".into()));
        assert_eq!(python_file("dir/mine.py"), Some("dir/mine.py".into()));
        assert_eq!(python_file("vector"), None);
    }
}
