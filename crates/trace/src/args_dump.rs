//! Captured arguments: what tasks saw and made, in the reference's form `args_dump/`.
//!
//! `args_dump.json` lists the arguments, `args.bin` beside it has their elements, dense and in row-major order. Ours says
//! kernel and round besides; a file without them reads as one of the first round whose kernels are known by number.

mod elements;
mod export;
mod read;
mod write;

pub use elements::ElementForm;
pub use export::{ArgsExport, export_args};
pub use write::{ArgsDumpWriter, DumpTotals};

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use plimsoll_abi::TaskId;
use plimsoll_abi::record::{ArgMode, Truncation};
use serde::{Deserialize, Serialize};

use crate::Error;

/// When an argument was captured.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgStage {
    /// Before the task ran.
    BeforeDispatch,
    /// After it.
    AfterCompletion,
}

impl ArgStage {
    /// As the reference's files write it.
    pub const fn name(self) -> &'static str {
        match self {
            ArgStage::BeforeDispatch => "before_dispatch",
            ArgStage::AfterCompletion => "after_completion",
        }
    }
}

/// How a task used an argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgRole {
    /// It was read.
    Input,
    /// It was written.
    Output,
    /// It was read and written.
    Inout,
}

impl ArgRole {
    /// As the reference's files write it.
    pub const fn name(self) -> &'static str {
        match self {
            ArgRole::Input => "input",
            ArgRole::Output => "output",
            ArgRole::Inout => "inout",
        }
    }

    /// The role of an argument of this mode.
    pub const fn of(mode: ArgMode) -> Self {
        match (mode.may_read(), mode.may_write()) {
            (true, false) => ArgRole::Input,
            (false, _) => ArgRole::Output,
            (true, true) => ArgRole::Inout,
        }
    }

    /// Whether the task read what was there before.
    pub const fn reads(self) -> bool {
        !matches!(self, ArgRole::Output)
    }

    /// Whether the task wrote it.
    pub const fn writes(self) -> bool {
        !matches!(self, ArgRole::Input)
    }
}

/// One captured argument, at one of its two stages.
#[derive(Clone, PartialEq, Debug)]
pub struct DumpedArg {
    /// The task, without its round.
    pub task: TaskId,
    /// Its round.
    pub round: u32,
    /// The names of its kernels, or their numbers where the file has no names.
    pub kernel: String,
    /// The numbers of its kernels: of an ordinary task one, of a mixed one that of each part.
    pub kernel_ids: Vec<i64>,
    /// Blocks that the task is executed in; 0 where the file does not say.
    pub blocks: u32,
    /// Which of the task's arguments it is.
    pub index: u32,
    /// How the task used it.
    pub role: ArgRole,
    /// When it was captured.
    pub stage: ArgStage,
    /// Whether it is a plain value and no tensor.
    pub is_scalar: bool,
    /// The type of its elements, as people write it; that of the file where nobody knows it.
    pub dtype: String,
    /// Extents.
    pub shape: Vec<u64>,
    /// Strides of the tensor that was captured, in elements.
    pub strides: Vec<i64>,
    /// Where it began in its buffer, in elements; nothing of a plain value, nor where submits were not recorded.
    pub start_offset: Option<u64>,
    /// Why fewer elements were captured than it has, though they were asked for; nothing if none is missing for such a reason.
    pub truncation: Option<Truncation>,
    /// Whether what was captured was lost again before it was written.
    pub overwritten: bool,
    /// A plain value as the file has it: `null` is a NaN, `"$Inf"` and `"-$Inf"` are infinities.
    pub value: Option<serde_json::Value>,
    /// Where its elements are in `args.bin`, and how many bytes they are.
    pub payload: (u64, u64),
}

impl DumpedArg {
    /// How its elements are stored; nothing if the type is not known.
    pub fn form(&self) -> Option<ElementForm> {
        ElementForm::of(&self.dtype)
    }

    /// Elements that it has.
    pub fn len(&self) -> u64 {
        // Saturates, because a damaged file may hold any number.
        self.shape.iter().fold(1, |len: u64, &extent| len.saturating_mul(extent))
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Captured arguments of one run.
#[derive(Debug)]
pub struct ArgsDump {
    /// The folder.
    pub dir: PathBuf,
    /// What was asked for: 1 marked arguments, 2 everything, 3 everything with the elements of marked ones.
    pub level: u64,
    /// In the order in which the tasks were submitted, as far as the file knows it.
    pub args: Vec<DumpedArg>,
    /// Arguments that were to be captured and are known to be lost; at least so many if lines were lost.
    pub dropped: u64,
    /// Lines of arguments (records) that the run's ledger counts as lost.
    pub lost_lines: u64,
    /// What is missing, or not understood.
    pub notes: Vec<String>,
    elements: Option<(File, u64)>,
}

impl ArgsDump {
    /// The folder's name in a run's directory.
    pub const DIR: &str = "args_dump";
    /// The list of arguments in it.
    pub const FILE: &str = "args_dump.json";
    /// Their elements, beside it.
    pub const ELEMENTS: &str = "args.bin";

    /// Reads a dump: its list, its folder, or a directory that has that folder.
    ///
    /// # Errors
    /// If there is none, or the list cannot be read. What is only missing or not understood is a note.
    pub fn open(path: &Path) -> Result<Self, Error> {
        read::open(path)
    }

    /// What was lost, as a sentence; nothing if nothing was. Lines of an argument that were all lost at the end name no argument,
    /// so that the number of arguments is a lower bound then.
    pub fn loss(&self) -> Option<String> {
        match (self.dropped, self.lost_lines) {
            (0, 0) => None,
            (dropped, 0) => Some(format!("{dropped} captured arguments were lost.")),
            (dropped, lines) => Some(format!(
                "At least {} captured arguments were lost: the ledger counts {lines} lost lines, and many lines make one argument.",
                dropped.max(1)
            )),
        }
    }

    /// What was asked for and not captured, as a sentence for each cause. That is no loss.
    pub fn truncations(&self) -> Vec<String> {
        let count = |why: &Truncation| self.args.iter().filter(|arg| arg.truncation == Some(*why)).count();
        let counted = Truncation::ALL.iter().map(|why| (why, count(why))).filter(|(_, count)| *count > 0);
        let sentence = |(why, count): (&Truncation, usize)| {
            let missing = match why {
                Truncation::Limit => "only a part was captured: more bytes of each were not asked for.",
                Truncation::ElementSize => {
                    "no element was captured: its size is not known. Use elements of a type that has a name, or declare the kernel's parameters."
                }
                Truncation::NoDep => {
                    "no element was captured: inference does not look at it (no_dep), so another task may write it while it would be copied."
                }
            };
            format!("Captured tensors cut short: {count}. Of each, {missing}")
        };
        counted.map(sentence).collect()
    }

    /// Whether the elements of an argument are there.
    pub fn has_elements(&self, arg: &DumpedArg) -> bool {
        let (offset, bytes) = arg.payload;
        let Some((_, len)) = &self.elements else { return false };
        bytes > 0 && offset.checked_add(bytes).is_some_and(|end| end <= *len)
    }

    /// The bytes of a captured tensor; nothing if they are not there.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn bytes(&self, arg: &DumpedArg) -> Result<Option<Vec<u8>>, Error> {
        let Some((file, _)) = self.elements.as_ref().filter(|_| self.has_elements(arg)) else { return Ok(None) };
        let mut bytes = vec![0; arg.payload.1 as usize];
        let read = file.read_exact_at(&mut bytes, arg.payload.0);
        read.map_err(Error::io("read", &self.dir.join(Self::ELEMENTS)))?;
        Ok(Some(bytes))
    }
}
