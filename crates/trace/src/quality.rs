//! The ledger of what is wrong with the input: losses and contradictions, counted by cause.

use std::path::Path;

use serde::Serialize;

/// What can be wrong with input that is readable nevertheless.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A segment file ended inside a frame.
    CutOff,
    /// Bytes between frames that are no frame; skipped up to the next one.
    NotAFrame,
    /// A frame whose records do not have the checksum they were written with.
    BadChecksum,
    /// A segment file of an unknown form.
    NotASegment,
    /// The same buffer twice; one copy was used.
    DuplicateFrame,
    /// A buffer is missing between two others of its pool.
    SequenceGap,
    /// A record with a field that makes no sense.
    BadRecord,
    /// A scheduler's record that no core's record answers.
    DispatchWithoutExecution,
    /// A core's record that no scheduler's record answers.
    ExecutionWithoutDispatch,
    /// The same dispatch token twice on one core.
    DuplicateToken,
    /// An end before its start.
    EndBeforeStart,
    /// A task with more executions than its submit asked for, as stale slots of recycled buffers make them.
    MoreRowsThanDispatches,
    /// A task ran that has no kernels according to its submit, or that was never submitted.
    TaskNotInDeps,
    /// An edge that names a task which is not there.
    EdgeWithoutTask,
    /// A scope that was opened and never closed, or closed and never opened.
    UnpairedScope,
    /// A scope sample whose record of what all rings held is missing.
    MissingRings,
    /// A value of a name that this build does not know.
    UnknownName,
    /// A file that belongs to the capture could not be read and was left out.
    FileLeftOut,
    /// The producer itself said that it lost records.
    ReportedLoss,
    /// A submit that is incomplete because the capture ends in it.
    CutSubmit,
    /// A task that was still running when the capture ended.
    StillRunning,
    /// A time on another clock that cannot be converted to this one.
    Unplaced,
    /// An execution that begins on its core before another one there has ended.
    OverlapOnCore,
    /// A dispatch after the start of what it dispatched.
    DispatchAfterStart,
    /// A finish before the end of what finished.
    FinishBeforeEnd,
    /// An execution on a core that the file says is not there.
    CoreBeyondCount,
    /// Ticks without a rate.
    NoClockRate,
    /// A task on several cores, where neither dispatches nor dependencies say how many it asked for.
    SeveralCores,
    /// A task that dependencies describe twice.
    DuplicateTask,
    /// An edge from a task to itself.
    SelfEdge,
    /// An edge that closes a cycle.
    DependencyCycle,
    /// A file of a version that this build does not know.
    UnknownVersion,
    /// A head or tail that is behind where it was, or a tail ahead of its head.
    WentBack,
    /// A submit that began after its task had ended.
    SubmitAfterEnd,
    /// A task that was submitted twice.
    SubmittedTwice,
    /// A number of cores and a list of their types that differ.
    CoreTypesDiffer,
    /// Records and dependencies of two runtimes, which make ids in different ways.
    RuntimesDiffer,
    /// A scheduler phase that begins before another one of its scheduler has ended.
    PhaseOverlap,
    /// A count in a file that its records do not bear out.
    WrongCount,
    /// An execution on a core that its task has no kernel for.
    NoKernelForCore,
    /// A row of an epoch that has no number left.
    EpochBeyondRounds,
    /// A start without an end.
    StartWithoutEnd,
}

impl FindingKind {
    /// As a person reads it, for `count` of them.
    pub const fn words(self) -> &'static str {
        match self {
            FindingKind::CutOff => "frame cut off at the end of its file",
            FindingKind::NotAFrame => "stretch of bytes that is no frame, skipped",
            FindingKind::BadChecksum => "frame with a wrong checksum, left out",
            FindingKind::NotASegment => "file that is no segment of a known schema, left out",
            FindingKind::DuplicateFrame => "buffer present twice, one copy used",
            FindingKind::SequenceGap => "buffer missing in the sequence of its pool",
            FindingKind::BadRecord => "record with an impossible field, left out",
            FindingKind::DispatchWithoutExecution => "dispatch that no execution answers",
            FindingKind::ExecutionWithoutDispatch => "execution that no dispatch answers",
            FindingKind::DuplicateToken => "dispatch token used twice on one core",
            FindingKind::EndBeforeStart => "end before its start, counted as zero time",
            FindingKind::MoreRowsThanDispatches => "task with more rows than dispatches, likely stale slots",
            FindingKind::TaskNotInDeps => "execution of a task that deps.json does not have",
            FindingKind::EdgeWithoutTask => "edge to or from a task that is not there, left out",
            FindingKind::UnpairedScope => "scope sample without its other half",
            FindingKind::MissingRings => "scope sample without the record of what all rings held",
            FindingKind::UnknownName => "name unknown to this build, kept as it is",
            FindingKind::FileLeftOut => "file that could not be read, left out",
            FindingKind::ReportedLoss => "record that the producer says it lost",
            FindingKind::CutSubmit => "submit cut short",
            FindingKind::StillRunning => "task still running when the capture ended",
            FindingKind::Unplaced => "time of the host's clock that cannot be placed, left out",
            FindingKind::OverlapOnCore => "execution that begins before another one on its core has ended",
            FindingKind::DispatchAfterStart => "dispatch after the start of its kernel, head counted as zero",
            FindingKind::FinishBeforeEnd => "finish before the end of its kernel, tail counted as zero",
            FindingKind::CoreBeyondCount => "execution on a core that the file says is not there",
            FindingKind::NoClockRate => "clock without a rate, ticks taken for nanoseconds",
            FindingKind::SeveralCores => "task on several cores, which dispatches or deps.json would have to bear out",
            FindingKind::DuplicateTask => "task described twice, the first description used",
            FindingKind::SelfEdge => "edge from a task to itself, left out",
            FindingKind::DependencyCycle => "edge that closes a cycle, left out",
            FindingKind::UnknownVersion => "version unknown to this build, read as the nearest known",
            FindingKind::WentBack => "scope sample whose ring's head or tail cannot be",
            FindingKind::SubmitAfterEnd => "submit that began after its task had ended",
            FindingKind::SubmittedTwice => "task submitted twice, the later end counts",
            FindingKind::CoreTypesDiffer => "number of cores and list of their types that differ, the list used",
            FindingKind::RuntimesDiffer => {
                "runtime that deps.json names and the records do not, ids read as the records say"
            }
            FindingKind::PhaseOverlap => {
                "scheduler phase that begins before another one has ended, their times count twice"
            }
            FindingKind::WrongCount => "count in the file that its records do not bear out",
            FindingKind::NoKernelForCore => "execution on a core that its task has no kernel for",
            FindingKind::EpochBeyondRounds => "row of an epoch beyond those that can be told apart, left out",
            FindingKind::StartWithoutEnd => "start without an end, left out",
        }
    }

    /// Whether the picture is still complete and consistent in spite of it.
    pub const fn is_harmless(self) -> bool {
        matches!(
            self,
            FindingKind::DuplicateFrame
                | FindingKind::UnknownName
                | FindingKind::StillRunning
                | FindingKind::Unplaced
                | FindingKind::SeveralCores
        )
    }
}

/// One cause, how often it was met, and the first place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The cause.
    pub kind: FindingKind,
    /// How often.
    pub count: u64,
    /// The file it was met in, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The first of them in words: position, ids, reason.
    pub first: String,
}

/// Everything that is wrong with a trace's input.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Quality {
    findings: Vec<Finding>,
}

impl Quality {
    /// Counts `count` more of a kind; `first` is only asked for the first of its kind in its file.
    pub fn note_many(&mut self, kind: FindingKind, file: Option<&Path>, count: u64, first: impl FnOnce() -> String) {
        if count == 0 {
            return;
        }
        let name = file.map(file_name);
        match self.findings.iter_mut().find(|f| f.kind == kind && f.file == name) {
            // A frame's own header carries no sum, so a bent sequence number can make a gap of any size.
            Some(finding) => finding.count = finding.count.saturating_add(count),
            None => self.findings.push(Finding { kind, count, file: name, first: first() }),
        }
    }

    /// Counts one more of a kind.
    pub fn note(&mut self, kind: FindingKind, file: Option<&Path>, first: impl FnOnce() -> String) {
        self.note_many(kind, file, 1, first);
    }

    /// Takes in what was found in a file.
    pub(crate) fn take_in(&mut self, found: &Quality, file: &Path) {
        for finding in &found.findings {
            self.note_many(finding.kind, Some(file), finding.count, || finding.first.clone());
        }
    }

    /// All findings, in the order they were first met.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How many of a kind there are, over all files.
    pub fn count(&self, kind: FindingKind) -> u64 {
        self.findings.iter().filter(|f| f.kind == kind).fold(0, |sum, f| sum.saturating_add(f.count))
    }

    /// Whether nothing is missing and nothing contradicts itself.
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|f| f.kind.is_harmless())
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} × {}", self.count, self.kind.words())?;
        if let Some(file) = &self.file {
            write!(f, " in {file}")?;
        }
        if !self.first.is_empty() {
            write!(f, " (first: {})", self.first)?;
        }
        Ok(())
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
