//! The rule about names of types: one that is visible beyond its file means one thing in the whole workspace.

use std::collections::BTreeMap;

use super::StyleFinding;
use super::source::{FileKind, SourceFile};

/// Names that several files may declare, and why a reader is not misled by them.
const MIRRORS: [(&str, &[&str], &str); 12] = [
    ("ActiveHead", &["crates/abi/src/region.rs", "crates/shm/src/words.rs"], WORD),
    ("BufferHeader", &["crates/abi/src/region.rs", "crates/shm/src/words.rs"], WORD),
    ("Control", &["crates/abi/src/region.rs", "crates/shm/src/words.rs"], WORD),
    ("QueueHead", &["crates/abi/src/region.rs", "crates/shm/src/words.rs"], WORD),
    ("ClockPair", &["crates/abi/src/region.rs", "crates/trace/src/manifest/facts.rs"], "its form in `run.json`"),
    ("Mapped", &["crates/shm/src/mapped.rs", "crates/sched/src/sync/memory.rs"], LOOM),
    ("Wheel", &["crates/shm/src/mapped.rs", "crates/sched/src/sync/memory.rs"], LOOM),
    ("Kernel", &["crates/runtime/src/kernel.rs", "crates/runtime/src/untyped.rs"], UNTYPED),
    ("Orchestrator", &["crates/runtime/src/orchestrator.rs", "crates/runtime/src/untyped/orchestrator.rs"], UNTYPED),
    ("Param", &["crates/runtime/src/kernel.rs", "crates/sched/src/signature.rs"], UNTYPED),
    ("Tensor", &["crates/runtime/src/tensor.rs", "crates/runtime/src/untyped/tensor.rs"], UNTYPED),
    ("Error", &ERRORS, "each crate has one"),
];

const WORD: &str = "a shared word and its image";
const LOOM: &str = "the same under loom";
const UNTYPED: &str = "the same in the untyped tier, which is always named with its module";
const ERRORS: [&str; 5] = [
    "crates/collect/src/error.rs",
    "crates/report/src/error.rs",
    "crates/runtime/src/error.rs",
    "crates/shm/src/error.rs",
    "crates/trace/src/error.rs",
];

/// Refuses every declaration of a name that another file declares, too.
pub(super) fn duplicates(sources: &[SourceFile]) -> Vec<StyleFinding> {
    let mut declared: BTreeMap<&str, Vec<(&SourceFile, usize)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.kind == FileKind::Rust) {
        for (k, line) in source.without_tests().iter().enumerate() {
            if let Some(name) = declaration(line) {
                declared.entry(name).or_default().push((source, k + 1));
            }
        }
    }
    let mut findings = Vec::new();
    for (name, places) in declared {
        let Some((elsewhere, _)) = places.iter().find(|(source, _)| source.path != places[0].0.path) else { continue };
        let mirrors = MIRRORS.iter().find(|(mirrored, ..)| *mirrored == name).map_or(&[][..], |(_, files, _)| files);
        for (source, line) in places.iter().filter(|(source, _)| !mirrors.contains(&source.path)) {
            let other = if source.path == elsewhere.path { places[0].0.path } else { elsewhere.path };
            findings.push(source.refuse(
                *line,
                format!("{other} declares a type `{name}`, too: give one of them a name that says what is different"),
            ));
        }
    }
    findings
}

/// The type that a line declares for more than its file.
fn declaration(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(") ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (keyword, rest) = rest.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    ["struct", "enum", "union", "trait", "type"].contains(&keyword).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let sources: Vec<SourceFile> = files.iter().map(|(path, text)| SourceFile::new(path, text)).collect();
        duplicates(&sources).into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    #[test]
    fn a_name_is_declared_by_one_file() {
        let files = [("a.rs", "pub(crate) struct Part<'a> {}\n"), ("b.rs", "\npub unsafe trait Part: Send {}\n")];
        assert_eq!(refused(&files), [("a.rs".to_string(), 1), ("b.rs".to_string(), 2)]);
    }

    #[test]
    fn what_only_its_file_sees_is_not_compared() {
        assert!(refused(&[("a.rs", "pub enum Part {}\n"), ("b.rs", "struct Part;\npub fn Part() {}\n")]).is_empty());
        let twins = "#[cfg(loom)]\npub struct Part;\n#[cfg(not(loom))]\npub struct Part;\n";
        assert!(refused(&[("a.rs", twins)]).is_empty(), "two forms of one type in one file");
    }

    #[test]
    fn a_mirror_is_excepted_where_it_is_listed_only() {
        let [(name, files, _), ..] = MIRRORS;
        let text = format!("pub struct {name};\n");
        let mut listed: Vec<(&str, &str)> = files.iter().map(|path| (*path, text.as_str())).collect();
        assert!(refused(&listed).is_empty());
        listed.push(("crates/x/src/lib.rs", &text));
        assert_eq!(refused(&listed), [("crates/x/src/lib.rs".to_string(), 1)]);
    }
}
