//! `cargo xtask tidy`: the style that compilers and clippy do not keep. Also a test, so that `cargo test` keeps it.
//!
//! A rule looks at one tracked file and says, for each line it refuses, what to write instead. What cannot be judged by a
//! machine stays with the reviewer; a rule that would often be wrong only warns.

mod documents;
mod inlines;
mod layout;
mod names;
mod orderings;
mod source;
mod words;

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::workspace::{Workspace, output};
use source::SourceFile;

/// One refused line.
#[derive(Debug, PartialEq)]
struct StyleFinding {
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

type Rule = fn(&SourceFile) -> Vec<StyleFinding>;

const RULES: [Rule; 12] = [
    inlines::cold,
    layout::file_name,
    layout::file_length,
    layout::function_length,
    layout::header,
    layout::safety_comment,
    orderings::unpaired,
    words::history,
    words::flags_of_the_command,
    words::machine_paths,
    words::registry_hosts,
    words::lockfile_sources,
];

/// Rules that hold files against each other.
const RULES_OF_ALL: [fn(&[SourceFile]) -> Vec<StyleFinding>; 4] =
    [inlines::unexplained, documents::named_files, names::duplicates, orderings::one_sided];

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

fn inspect(root: &Path) -> Result<Vec<StyleFinding>> {
    // Not there: deleted and not yet committed. Not UTF-8: data.
    let read = |path: String| std::fs::read_to_string(root.join(&path)).ok().map(|text| (path, text));
    let files: Vec<(String, String)> = tracked(root)?.into_iter().filter_map(read).collect();
    let sources = files.iter().map(|(path, text)| SourceFile::new(path, text));
    let sources: Vec<SourceFile> = sources.filter(|source| !source.is_generated()).collect();
    let mut findings: Vec<StyleFinding> =
        sources.iter().flat_map(|source| RULES.iter().flat_map(|rule| rule(source))).collect();
    findings.extend(RULES_OF_ALL.iter().flat_map(|rule| rule(&sources)));
    Ok(findings)
}

fn tracked(root: &Path) -> Result<Vec<String>> {
    let listed = output(Command::new("git").current_dir(root).args(["ls-files", "-z"]))?;
    Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_string).collect())
}

impl std::fmt::Display for StyleFinding {
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
