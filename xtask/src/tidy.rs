//! `cargo xtask tidy`: the style that compilers and clippy do not keep. Also a test, so that `cargo test` keeps it.
//!
//! A rule looks at one tracked file and says, for each line it refuses, what to write instead. What cannot be judged by a
//! machine stays with the reviewer; a rule that would often be wrong only warns.

mod layout;
mod source;
mod words;

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::workspace::{Workspace, output};
use source::Source;

/// One refused line.
#[derive(Debug, PartialEq)]
struct Finding {
    path: String,
    /// From 1; 0 for the file as a whole.
    line: usize,
    what: String,
    severity: Severity,
}

#[derive(Debug, PartialEq)]
enum Severity {
    Error,
    Warning,
}

type Rule = fn(&Source) -> Vec<Finding>;

const RULES: [Rule; 9] = [
    layout::file_name,
    layout::file_length,
    layout::function_length,
    layout::header,
    layout::safety_comment,
    words::history,
    words::machine_paths,
    words::registry_hosts,
    words::lockfile_sources,
];

pub(crate) fn run() -> Result<()> {
    let findings = inspect(&Workspace::find()?.root)?;
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|f| f.severity == Severity::Error).count();
    println!("tidy: {errors} refused, {} warnings", findings.len() - errors);
    if errors > 0 {
        bail!("the style is not kept");
    }
    Ok(())
}

fn inspect(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in tracked(root)? {
        // Not there: deleted and not yet committed. Not UTF-8: data.
        let Ok(text) = std::fs::read_to_string(root.join(&path)) else { continue };
        let source = Source::new(&path, &text);
        if !source.is_generated() {
            findings.extend(RULES.iter().flat_map(|rule| rule(&source)));
        }
    }
    Ok(findings)
}

fn tracked(root: &Path) -> Result<Vec<String>> {
    let listed = output(Command::new("git").current_dir(root).args(["ls-files", "-z"]))?;
    Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_string).collect())
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let severity = if self.severity == Severity::Error { "refused" } else { "warning" };
        write!(f, "{}:{}: {severity}: {}", self.path, self.line.max(1), self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() -> Result<()> {
        let findings = inspect(&Workspace::find()?.root)?;
        let refused: Vec<String> =
            findings.iter().filter(|f| f.severity == Severity::Error).map(ToString::to_string).collect();
        assert!(refused.is_empty(), "\n{}\n", refused.join("\n"));
        Ok(())
    }
}
