//! The rule about documents: a source file that ARCHITECTURE.md, CONTRIBUTING.md or a page of `docs/` names is there.

use super::StyleFinding;
use super::source::{FileKind, SourceFile};

/// Refuses names of source files, in backticks, that no file of the repository ends with.
pub(super) fn named_files(sources: &[SourceFile]) -> Vec<StyleFinding> {
    let is_there = |name: &str| {
        let tail = format!("/{name}");
        sources.iter().any(|source| source.path == name || source.path.ends_with(&tail))
    };
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| source.kind == FileKind::Markdown && source.path != "CHANGELOG.md") {
        for (k, line) in source.lines.iter().enumerate() {
            // What stands in backticks are the odd parts.
            let quoted = line.split('`').skip(1).step_by(2);
            let missing = quoted.filter(|name| name.ends_with(".rs") && !name.contains([' ', '{']) && !is_there(name));
            findings.extend(missing.map(|name| {
                source.refuse(k + 1, format!("there is no file `{name}`: name the one that holds it now"))
            }));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_name_files_that_are_there() {
        let text = "Rings: `sched/src/ring.rs`, beside it `slot.rs`.\nGone: `sched/src/ledger.rs`. A list: `x.rs y.rs`, `{x,y}.rs`.\n";
        let files = [("A.md", text), ("crates/sched/src/ring.rs", ""), ("crates/sched/src/slot.rs", "")];
        let sources: Vec<SourceFile> = files.iter().map(|(path, text)| SourceFile::new(path, text)).collect();
        let lines: Vec<usize> = named_files(&sources).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2]);
    }
}
