//! Rules about files and functions: names, sizes, headers, safety comments.

use super::StyleFinding;
use super::source::{FileKind, SourceFile};

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
/// How far above its block a safety comment may begin.
const SAFETY_LINES: usize = 12;
const EMPTY_NAMES: [&str; 8] = ["util", "utils", "common", "helper", "helpers", "misc", "manager", "base"];

pub(super) fn file_name(source: &SourceFile) -> Vec<StyleFinding> {
    let is_code = matches!(source.kind, FileKind::Rust | FileKind::Cpp | FileKind::Script);
    let empty = source.path.split('/').map(|part| part.split('.').next().unwrap_or_default());
    let empty = empty.filter(|name| EMPTY_NAMES.contains(name) && is_code);
    empty
        .map(|name| source.refuse(0, format!("`{name}` says nothing: name it for the type or protocol it holds")))
        .collect()
}

pub(super) fn file_length(source: &SourceFile) -> Vec<StyleFinding> {
    let lines = source.without_tests().len();
    if !matches!(source.kind, FileKind::Rust | FileKind::Cpp) || lines <= FILE_LINES {
        return Vec::new();
    }
    vec![
        source.refuse(
            0,
            format!("{lines} lines without tests, at most {FILE_LINES}: move one concern to a file of its own"),
        ),
    ]
}

/// Only a warning: tables and matches may be long and still read at a glance.
pub(super) fn function_length(source: &SourceFile) -> Vec<StyleFinding> {
    let functions = if source.kind == FileKind::Rust { functions(source.without_tests()) } else { Vec::new() };
    let long = functions.into_iter().filter(|&(_, lines)| lines > FUNCTION_LINES);
    long.map(|(at, lines)| {
        source.warn(at, format!("a function of {lines} lines, at most {FUNCTION_LINES}: give its leaves names"))
    })
    .collect()
}

pub(super) fn header(source: &SourceFile) -> Vec<StyleFinding> {
    let mark = match source.kind {
        FileKind::Rust => "//!",
        FileKind::Cpp => "//",
        _ => return Vec::new(),
    };
    let first = source.lines.iter().find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    if first.is_some_and(|line| line.starts_with(mark)) {
        return Vec::new();
    }
    vec![source.refuse(1, format!("no `{mark}` header: say in a line what the file holds and why it is there"))]
}

pub(super) fn safety_comment(source: &SourceFile) -> Vec<StyleFinding> {
    let block = concat!("unsafe", " {");
    let is_block = |line: &str| {
        line.split("//").next().is_some_and(|code| code.contains(block) && !code.contains(concat!("\"", "unsafe")))
    };
    let lines = source.lines.iter().enumerate().filter(|(_, line)| source.kind == FileKind::Rust && is_block(line));
    let undocumented =
        lines.filter(|&(k, _)| !source.lines[k.saturating_sub(SAFETY_LINES)..=k].iter().any(|l| l.contains("SAFETY:")));
    let what = "an unsafe block without `// SAFETY:` above it: list what the callee needs and why it holds";
    undocumented.map(|(k, _)| source.refuse(k + 1, what)).collect()
}

/// The line and the length of every function. In formatted code a body ends at the first `}` as deep as its `fn`.
fn functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let begins = |line: &str| {
        let before_name = line.trim_start().split("fn ").next().unwrap_or_default();
        let qualifier = |word: &str| {
            ["pub", "const", "async", "unsafe", "extern", "\"C\""].contains(&word)
                || word.starts_with("pub(")
                || word.ends_with(')')
        };
        line.contains("fn ") && before_name.split_whitespace().all(qualifier)
    };
    let mut found = Vec::new();
    for (k, line) in lines.iter().enumerate().filter(|(_, line)| begins(line)) {
        let is_end = |l: &&str| indent(l) == indent(line) && l.trim_end().ends_with(['}', ';']);
        if let Some(length) = lines[k..].iter().position(is_end) {
            found.push((k + 1, length + 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, text: &str, rule: fn(&SourceFile) -> Vec<StyleFinding>) -> Vec<usize> {
        rule(&SourceFile::new(path, text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn names_that_say_nothing_are_refused() {
        assert_eq!(of("crates/x/src/utils.rs", "", file_name), [0]);
        assert_eq!(of("crates/x/src/common/ring.rs", "", file_name), [0]);
        assert!(of("crates/x/src/database.rs", "", file_name).is_empty());
    }

    #[test]
    fn tests_do_not_count_as_length() {
        let body = "x\n".repeat(FILE_LINES);
        assert!(of("a.rs", &format!("{body}#[cfg(test)]\nmod tests {{}}\n{body}"), file_length).is_empty());
        assert_eq!(of("a.rs", &format!("{body}x\n"), file_length), [0]);
    }

    #[test]
    fn functions_end_at_their_own_brace() {
        let lines =
            ["    pub(crate) fn a(", "        x: u8,", "    ) {", "        if x {", "        }", "    }", "fn b() {}"];
        assert_eq!(functions(&lines), [(1, 6), (7, 1)]);
    }

    #[test]
    fn a_header_may_follow_attributes() {
        assert!(of("a.rs", "#![no_std]\n//! Rings.\n", header).is_empty());
        assert_eq!(of("a.rs", "use x;\n", header), [1]);
    }

    #[test]
    fn unsafe_blocks_say_why() {
        let block = concat!("let a = unsafe", " { b() };\n");
        assert_eq!(of("a.rs", block, safety_comment), [1]);
        assert!(of("a.rs", &format!("// SAFETY: b needs nothing.\n{block}"), safety_comment).is_empty());
    }
}
