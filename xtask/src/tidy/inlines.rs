//! Why functions are inlined by force.

use super::StyleFinding;
use super::source::{FileKind, SourceFile};

/// What the line that gives the reason begins with.
const REASON: &str = "// Forced inline:";
const FORCED: &str = concat!("#[inline", "(always)]");

/// Where functions are forced inline, a line says what that saves: in the file, or for all of a crate in its `lib.rs`.
pub(super) fn unexplained(sources: &[SourceFile]) -> Vec<StyleFinding> {
    let explains = |source: &SourceFile| source.lines.iter().any(|line| line.trim_start().starts_with(REASON));
    let crate_of = |source: &SourceFile| source.path.split_once("/src/").map(|(of, _)| of.to_string());
    let roots = sources.iter().filter(|source| source.path.ends_with("/src/lib.rs") && explains(source));
    let explained: Vec<_> = roots.filter_map(crate_of).collect();
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| source.kind == FileKind::Rust) {
        let forced = source.lines.iter().position(|line| line.trim() == FORCED);
        let Some(at) = forced.filter(|_| !explains(source)) else { continue };
        if !crate_of(source).is_some_and(|of| explained.contains(&of)) {
            findings.push(source.refuse(
                at + 1,
                format!("{FORCED} without a reason: write #[inline], or say once in the file what instruction counts save: `{REASON} …`"),
            ));
        }
    }
    findings
}

/// What is called seldom is not inlined by force.
pub(super) fn cold(source: &SourceFile) -> Vec<StyleFinding> {
    let is_attribute = |line: &&&str| line.trim_start().starts_with("#[");
    let mut findings = Vec::new();
    for (at, _) in source.lines.iter().enumerate().filter(|(_, line)| line.trim() == FORCED) {
        let before = source.lines[..at].iter().rev().take_while(is_attribute);
        let after = source.lines[at + 1..].iter().take_while(is_attribute);
        if before.chain(after).any(|line| line.trim() == "#[cold]") {
            findings.push(source.refuse(at + 1, format!("{FORCED} of a cold function: leave #[cold] alone")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &str, text: &str) -> usize {
        let source = SourceFile::new(path, text);
        cold(&source).len() + unexplained(&[source]).len()
    }

    #[test]
    fn a_forced_function_needs_a_reason_and_must_not_be_cold() {
        let forced = format!("{FORCED}\nfn f() {{}}\n");
        assert_eq!(refused("crates/a/src/b.rs", &forced), 1);
        assert_eq!(refused("crates/a/src/b.rs", &format!("{REASON} it saves 3.\n{forced}")), 0);
        assert_eq!(refused("crates/a/src/b.rs", &format!("{REASON} it saves 3.\n#[cold]\n{forced}")), 1);
    }

    #[test]
    fn a_crate_may_give_one_reason_for_all_of_it() {
        let (root, forced) = (format!("{REASON} as a whole, 70.\n"), format!("{FORCED}\nfn f() {{}}\n"));
        let sources = |of| [SourceFile::new("crates/a/src/lib.rs", &root), SourceFile::new(of, &forced)];
        assert!(unexplained(&sources("crates/a/src/b/c.rs")).is_empty());
        assert_eq!(unexplained(&sources("crates/b/src/c.rs")).len(), 1);
    }
}
