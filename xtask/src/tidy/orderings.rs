//! The rules about memory orderings: one that is not `Relaxed` names its partner by `pairs(name)` in a comment of its own, and a
//! name has both sides.

use std::collections::BTreeMap;

use super::StyleFinding;
use super::source::{FileKind, SourceFile};

/// How far above an ordering the comment that names its partner may stand, and how far down a comment reaches.
const REACH: usize = 8;

/// Calls that read and write at once.
const READS_AND_WRITES: [&str; 3] = [".fetch_", ".swap(", ".compare_exchange"];

/// What a use of a name can be the partner of.
#[derive(Clone, Copy, Default)]
struct Sides {
    acquires: bool,
    releases: bool,
}

/// The uses of a name in all files.
#[derive(Default)]
struct Uses {
    sides: Sides,
    /// Comments that have it.
    places: usize,
    /// Whether one of them stands at a read-modify-write, which meets itself on another thread.
    meets_itself: bool,
}

/// Every ordering has a name in a comment of its own.
pub(super) fn unpaired(source: &SourceFile) -> Vec<StyleFinding> {
    let lines = source.without_tests();
    let what = "an ordering without `pairs(name)` in a comment above it: name the store or load it works with";
    let bare = (0..lines.len()).filter(|&at| is_rust(source) && sides(lines[at]).is_some() && !is_named(lines, at));
    bare.map(|at| source.refuse(at + 1, what)).collect()
}

/// Whether the comment that the ordering on line `at` belongs to has a name: the comment on the line itself, or the nearest block of
/// comments above it. What stands above a blank line or the head of a function belongs to something else.
fn is_named(lines: &[&str], at: usize) -> bool {
    let has_name = |line: &str| names(line).next().is_some();
    let mut in_comment = false;
    for line in lines[at.saturating_sub(REACH)..=at].iter().rev() {
        let code = line.trim_start();
        let is_comment = code.starts_with("//");
        if has_name(line) {
            return true;
        }
        if code.is_empty() || (in_comment && !is_comment) || (!is_comment && is_function_head(code)) {
            return false;
        }
        in_comment = is_comment;
    }
    false
}

fn is_function_head(code: &str) -> bool {
    code.split_once("fn ").is_some_and(|(before, _)| before.is_empty() || before.ends_with(' '))
}

/// Every name stands at two places: beside something that acquires and something that releases, or beside a read-modify-write that
/// other threads make, too.
pub(super) fn one_sided(sources: &[SourceFile]) -> Vec<StyleFinding> {
    let mut uses: BTreeMap<&str, (Uses, &SourceFile, usize)> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_rust(source)) {
        let lines = source.without_tests();
        for (at, line) in lines.iter().enumerate() {
            for name in names(line) {
                let (found, meets_itself) = beside(&lines[at..]);
                let (known, ..) = uses.entry(name).or_insert((Uses::default(), source, at + 1));
                known.sides.acquires |= found.acquires;
                known.sides.releases |= found.releases;
                known.places += 1;
                known.meets_itself |= meets_itself;
            }
        }
    }
    let wrong = uses.into_iter().filter_map(|(name, (uses, source, line))| {
        let what = match uses.sides {
            Sides { acquires: true, releases: true } if uses.places > 1 || uses.meets_itself => return None,
            Sides { acquires: true, releases: true } => {
                format!("`pairs({name})` stands at one place only: name its partner, too")
            }
            Sides { acquires, .. } => {
                let missing = if acquires { "releases" } else { "acquires" };
                format!("nothing that {missing} has `pairs({name})` beside it: name both sides")
            }
        };
        Some(source.refuse(line, what))
    });
    wrong.collect()
}

fn is_rust(source: &SourceFile) -> bool {
    source.kind == FileKind::Rust
}

/// What a line orders. None: nothing but `Relaxed`, if at all.
fn sides(line: &str) -> Option<Sides> {
    let code = line.split("//").next().unwrap_or_default();
    let has = |ordering: &str| code.contains(&format!("Ordering::{ordering}"));
    let both = has("AcqRel") || has("SeqCst");
    let sides = Sides { acquires: both || has("Acquire"), releases: both || has("Release") };
    (sides.acquires || sides.releases).then_some(sides)
}

/// The names in the comment of a line.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let comment = line.split_once("//").map_or("", |(_, comment)| comment);
    let named = comment.split("pairs(").skip(1).filter_map(|rest| rest.split_once(')')).map(|(name, _)| name);
    named.filter(|name| name.contains('.') && name.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c)))
}

/// The sides of what a comment on the first of these lines speaks of, and whether that is a read-modify-write. A barrier, or a
/// file that is read, orders by other means and may be either side.
fn beside(lines: &[&str]) -> (Sides, bool) {
    let mut all = Sides::default();
    let (mut seen, mut meets_itself) = (false, false);
    for (at, line) in lines.iter().take(REACH + 1).enumerate() {
        if seen && at > 0 && names(line).next().is_some() {
            break;
        }
        if let Some(sides) = sides(line) {
            all = Sides { acquires: all.acquires || sides.acquires, releases: all.releases || sides.releases };
            seen = true;
            meets_itself |= sides.acquires && sides.releases && READS_AND_WRITES.iter().any(|call| line.contains(call));
        }
    }
    (if seen { all } else { Sides { acquires: true, releases: true } }, meets_itself)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &str = "// Release pairs(ring.head).\nhead.store(1, Ordering::Release);\n";
    const LOAD: &str = "// Acquire pairs(ring.head).\nhead.load(Ordering::Acquire);\n";

    #[test]
    fn orderings_name_their_partner() {
        let lines = |text: &str| -> Vec<usize> {
            unpaired(&SourceFile::new("a.rs", text)).iter().map(|finding| finding.line).collect()
        };
        assert_eq!(lines("head.load(Ordering::Relaxed);\nhead.load(Ordering::Acquire);\n"), [2]);
        assert_eq!(lines("fence(Ordering::SeqCst); // before the look\n"), [1]);
        assert!(lines(STORE).is_empty());
        let far = "work();\n".repeat(REACH);
        assert_eq!(lines(&format!("{STORE}{far}head.load(Ordering::Acquire);\n")), [REACH + 3]);
        assert_eq!(lines(&format!("{STORE}\nhead.load(Ordering::Acquire);\n")), [4], "behind a blank line");
        assert_eq!(lines(&format!("{STORE}}}\nfn f() {{\nhead.load(Ordering::Acquire);\n")), [5], "another function's");
        assert_eq!(
            lines(&format!("{STORE}// Taken back.\nhead.swap(0, Ordering::Acquire);\n")),
            [4],
            "its own comment"
        );
        assert!(lines(&format!("{STORE}tail.store(1, Ordering::Release);\n")).is_empty(), "one comment for both");
        assert!(
            lines("// Acquire pairs(ring.head).\n// SAFETY: it lives.\nhead.load(Ordering::Acquire);\n").is_empty()
        );
    }

    #[test]
    fn a_name_has_two_sides() {
        let refused = |files: &[&str]| -> usize {
            let sources: Vec<SourceFile> = files.iter().map(|text| SourceFile::new("a.rs", text)).collect();
            one_sided(&sources).len()
        };
        assert_eq!(refused(&[STORE]), 1);
        assert_eq!(refused(&[LOAD, LOAD]), 1);
        assert_eq!(refused(&[STORE, LOAD]), 0);
        assert_eq!(refused(&["// AcqRel pairs(slot.left).\nleft.fetch_sub(1, Ordering::AcqRel);\n"]), 0);
        assert_eq!(refused(&["// SeqCst pairs(ring.head).\nfence(Ordering::SeqCst);\n"]), 1);
        assert_eq!(refused(&["// SeqCst pairs(ring.head).\nhead.store(1, Ordering::SeqCst);\n"]), 1);
        assert_eq!(refused(&[STORE, "// pairs(ring.head): the file of a dead producer.\nread(file);\n"]), 0);
    }
}
