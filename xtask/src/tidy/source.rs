//! A tracked file as the rules see it: its kind, and for every line what of it is comment.

use super::{Severity, StyleFinding};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FileKind {
    Rust,
    Cpp,
    /// Comments begin with `#`.
    Script,
    Markdown,
    Lockfile,
    /// Samples, captures, licences: not ours to style.
    Data,
}

pub(super) struct SourceFile<'a> {
    pub(super) path: &'a str,
    pub(super) kind: FileKind,
    pub(super) lines: Vec<&'a str>,
}

impl<'a> SourceFile<'a> {
    pub(super) fn new(path: &'a str, text: &'a str) -> SourceFile<'a> {
        let kind = match path.rsplit(['/', '.']).next().unwrap_or_default() {
            "rs" => FileKind::Rust,
            "cpp" | "hpp" | "c" | "h" => FileKind::Cpp,
            "toml" | "sh" | "py" | "yml" | "yaml" | "gitignore" => FileKind::Script,
            "md" => FileKind::Markdown,
            _ if path == "Cargo.lock" => FileKind::Lockfile,
            _ if text.starts_with("#!/bin/") || text.starts_with("#!/usr/bin/") => FileKind::Script,
            _ => FileKind::Data,
        };
        SourceFile { path, kind, lines: text.lines().collect() }
    }

    /// Cargo writes the same mark at the top of its lock file, which has a rule of its own.
    pub(super) fn is_generated(&self) -> bool {
        self.kind != FileKind::Lockfile
            && self.lines.iter().take(5).any(|line| line.contains(concat!("@", "generated")))
    }

    /// The lines before the file's unit tests, which stand last.
    pub(super) fn without_tests(&self) -> &[&'a str] {
        let is_test =
            self.path.starts_with("tests/") || self.path.contains("/tests/") || self.path.ends_with("tests.rs");
        let tests =
            self.lines.iter().position(|line| line.trim_end() == "#[cfg(test)]" || line.starts_with("#[cfg(all(test"));
        &self.lines[..if is_test { 0 } else { tests.unwrap_or(self.lines.len()) }]
    }

    /// Every comment, with the number of its line.
    pub(super) fn comments(&self) -> impl Iterator<Item = (usize, &'a str)> {
        self.lines.iter().enumerate().filter_map(|(k, line)| comment(self.kind, line).map(|text| (k + 1, text)))
    }

    pub(super) fn refuse(&self, line: usize, what: impl Into<String>) -> StyleFinding {
        StyleFinding { path: self.path.to_string(), line, what: what.into(), severity: Severity::Error }
    }

    pub(super) fn warn(&self, line: usize, what: impl Into<String>) -> StyleFinding {
        StyleFinding { severity: Severity::Warning, ..self.refuse(line, what) }
    }
}

/// A mark inside a string counts as code when an odd number of quotes stands before it.
fn comment(kind: FileKind, line: &str) -> Option<&str> {
    let mark = match kind {
        FileKind::Rust | FileKind::Cpp => "//",
        FileKind::Script => "#",
        FileKind::Markdown | FileKind::Lockfile | FileKind::Data => return None,
    };
    let (begin, _) = line.match_indices(mark).find(|(at, _)| line[..*at].matches('"').count().is_multiple_of(2))?;
    Some(&line[begin..])
}
