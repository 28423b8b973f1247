//! The rule about names of types: one that is used beyond its file means one thing in the whole workspace.
//!
//! A private type is used beyond its file if a file of a module inside names it through `super::`.

use std::collections::{BTreeMap, BTreeSet};

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
    let rust = || sources.iter().filter(|source| source.kind == FileKind::Rust);
    let from_inside: BTreeSet<(&str, String)> = rust().flat_map(named_of_parents).collect();
    for source in rust() {
        let is_used_inside = |name: &str| from_inside.contains(&(module(source.path), name.to_owned()));
        for (k, line) in source.without_tests().iter().enumerate() {
            if let Some((name, visible)) = declaration(line)
                && (visible || is_used_inside(name))
            {
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

/// The type that a line declares at the top of its file or for more than its file, and whether the latter.
fn declaration(line: &str) -> Option<(&str, bool)> {
    let (rest, visible) = match line.trim_start().strip_prefix("pub") {
        Some(rest) => match rest.strip_prefix('(') {
            Some(scope) => (scope.split_once(") ")?.1, true),
            None => (rest.strip_prefix(' ')?, true),
        },
        None => (line, false),
    };
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (keyword, rest) = rest.split_once(' ')?;
    let name = leading_word(rest);
    ["struct", "enum", "union", "trait", "type"].contains(&keyword).then_some((name, visible))
}

/// The path of a file's module: its own without the ending, or the folder whose root it is.
fn module(path: &str) -> &str {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    ["/lib", "/main", "/mod"].into_iter().find_map(|root| path.strip_suffix(root)).unwrap_or(path)
}

/// The types that a file names through `super::`, each with the path of the module that it takes it from.
fn named_of_parents<'a>(source: &SourceFile<'a>) -> Vec<(&'a str, String)> {
    let is_code = |line: &&&str| !line.trim_start().starts_with("//");
    let code = source.without_tests().iter().filter(is_code).copied().collect::<Vec<_>>().join("\n");
    let mut named = Vec::new();
    let mut rest = &code[..];
    while let Some(at) = rest.find("super::") {
        rest = &rest[at..];
        let mut parent = Some(module(source.path));
        while let Some(behind) = rest.strip_prefix("super::") {
            parent = parent.and_then(|module| module.rsplit_once('/')).map(|(parent, _)| parent);
            rest = behind;
        }
        let Some(parent) = parent else { continue };
        let types = leading_names(rest).into_iter().filter(|name| name.starts_with(char::is_uppercase));
        named.extend(types.map(|name| (parent, name.to_owned())));
    }
    named
}

/// What a path names next: one name, or all that stand in its braces, without those in braces inside.
fn leading_names(path: &str) -> Vec<&str> {
    let Some(list) = path.strip_prefix('{') else { return vec![leading_word(path)] };
    let (mut depth, mut names) = (0, vec![leading_word(list.trim_start())]);
    for (at, mark) in list.match_indices(['{', '}', ',']) {
        match mark {
            "{" => depth += 1,
            "}" if depth == 0 => break,
            "}" => depth -= 1,
            _ if depth == 0 => names.push(leading_word(list[at + 1..].trim_start())),
            _ => {}
        }
    }
    names
}

fn leading_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
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
        assert!(
            refused(&[
                ("a.rs", "pub enum Part {}\n"),
                ("b.rs", "struct Part;\npub fn Part() {}\n"),
                ("b/c.rs", "use super::Other;\n")
            ])
            .is_empty()
        );
        let twins = "#[cfg(loom)]\npub struct Part;\n#[cfg(not(loom))]\npub struct Part;\n";
        assert!(refused(&[("a.rs", twins)]).is_empty(), "two forms of one type in one file");
    }

    #[test]
    fn a_private_type_that_files_inside_name_is_compared() {
        let twin = ("crates/x/src/twin.rs", "pub(super) struct Part;\n");
        let refused_if = |path: &str, text: &str| {
            let parent = ("crates/x/src/page.rs", "//! Pages.\nstruct Part;\n");
            !refused(&[parent, (path, text), twin]).is_empty()
        };
        assert!(refused_if("crates/x/src/page/inside.rs", "use super::{other::{Part2}, Part};\n"));
        assert!(refused_if("crates/x/src/page/inside.rs", "fn own(part: &super::Part) {}\n"));
        assert!(refused_if("crates/x/src/page/inside/deep.rs", "use super::super::{\n    Part,\n};\n"));
        assert!(!refused_if("crates/x/src/page/inside.rs", "use super::{twin::{Part}, part};\n// super::Part\n"));
        assert!(!refused_if("crates/x/src/page/inside/deep.rs", "use super::Part;\n"), "of `inside`");
        assert!(!refused_if("crates/x/src/other.rs", "use super::Part;\n"), "of the crate's root");
        let roots = [("crates/x/src/lib.rs", "struct Part;\n"), ("crates/x/src/other.rs", "use super::Part;\n"), twin];
        assert_eq!(refused(&roots).len(), 2);
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
