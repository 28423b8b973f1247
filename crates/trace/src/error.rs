//! What makes input unreadable as a whole. Anything less is a finding in the trace's quality.

use std::path::{Path, PathBuf};

/// Input that cannot be read, or a file that cannot be written. Nothing is left behind by a failed read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error(
        "Cannot {action} {}. The system says: {source}. Check that the path exists and that you may use it.",
        path.display()
    )]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A JSON file is not what its name promises.
    #[error(
        "{} cannot be read as {what}. Line {line}, column {column}: {reason}. Take the file from the run again, or \
         leave it out.",
        path.display()
    )]
    Json {
        /// What was expected.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Where it goes wrong, from 1.
        line: usize,
        /// Where in the line, from 1.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A directory without captured arguments.
    #[error(
        "{} holds no captured arguments. They were not recorded, or are elsewhere. Record the run with `DumpRules::ALL`, or \
         give the folder with args_dump.json.",
        path.display()
    )]
    NoArgs {
        /// Where they were looked for.
        path: PathBuf,
    },
    /// A run that was killed while it captured arguments.
    #[error(
        "The captured arguments of {} are not readable yet. The run was killed: they are in its records and its region. Get them \
         out with `plimsoll recover {}`.",
        path.display(),
        crate::for_shell(path)
    )]
    ArgsNotRecovered {
        /// The run's directory.
        path: PathBuf,
    },
    /// A run that is still capturing arguments.
    #[error(
        "The captured arguments of {} are not readable yet. The run goes on, and makes them readable when it ends. Ask again then.",
        path.display()
    )]
    ArgsOfLiveRun {
        /// The run's directory.
        path: PathBuf,
    },
    /// A run that has ended and captured arguments, which nobody has made `args_dump/` of.
    #[error(
        "The captured arguments of {} are in its records only. The run could not write them a second time, or the folder args_dump \
         was removed. Make it with `trace::export_args`.",
        path.display()
    )]
    ArgsNotExported {
        /// The run's directory.
        path: PathBuf,
    },
    /// A table in text is not what its name promises.
    #[error(
        "{} cannot be read as {what}. Line {line}: {reason}. Take the file from the run again, or leave it out.",
        path.display()
    )]
    Table {
        /// What was expected.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Where it goes wrong, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A file of our own form, but of a schema that this build does not know.
    #[error(
        "{} has schema {found} of {format}. This build reads schemas up to {known}. Use a newer plimsoll to read it.",
        path.display()
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// The format it names.
        format: String,
        /// The schema it names.
        found: u32,
        /// The newest schema that can be read.
        known: u32,
    },
    /// Records of another version's form.
    #[error(
        "{} holds records of schema {found}. This build reads schema {known}. Read the run with the version that recorded it: run.json \
         names it as the producer.",
        path.display()
    )]
    SegmentSchema {
        /// The segment file.
        path: PathBuf,
        /// The schema it names.
        found: u32,
        /// The schema that can be read.
        known: u32,
    },
    /// Neither a run directory nor a file that any reader knows.
    #[error(
        "{} holds nothing that can be read. It has no run.json, no swimlane records, no deps.json, no scope \
         statistics, no pmu.csv, no host phases and no args_dump. Give a run directory, or a file of one of these kinds.",
        path.display()
    )]
    NotACapture {
        /// What was given.
        path: PathBuf,
    },
    /// Not one run: several ranks, none, or another than was asked for.
    #[error("No single run can be chosen in {}. It holds {held}. {todo}.", path.display())]
    Rank {
        /// What was given.
        path: PathBuf,
        /// The ranks that are there.
        held: String,
        /// What to ask for instead.
        todo: &'static str,
    },
    /// A file of another kind than it was named as.
    #[error("{} cannot be read as {what}. It has no {keys}. Name another file, or leave it out.", path.display())]
    OtherKind {
        /// What was expected.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The keys of which such a file has at least one.
        keys: &'static str,
    },
    /// There is no run to default to.
    #[error(
        "There is no run in {}. No directory there has a run.json. Make one with `plimsoll run PROGRAM`, or name a \
         directory.",
        path.display()
    )]
    NoRuns {
        /// Where was looked.
        path: PathBuf,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Io { action, path: path.to_path_buf(), source }
    }

    pub(crate) fn other_kind(what: &'static str, path: &Path, keys: &'static str) -> Error {
        Error::OtherKind { what, path: path.to_path_buf(), keys }
    }

    pub(crate) fn json(what: &'static str, path: &Path) -> impl FnOnce(serde_json::Error) -> Error {
        move |error| Error::Json {
            what,
            path: path.to_path_buf(),
            line: error.line(),
            column: error.column(),
            reason: reason_of(&error),
        }
    }
}

/// The message without the position, which the caller prints in its own way.
pub(crate) fn reason_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_string(),
        None => text,
    }
}
