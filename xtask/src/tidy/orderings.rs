//! The rules about memory orderings: one that is not `Relaxed` names its partner by `pairs(name)` in a comment, and a name
//! has both sides.

use std::collections::BTreeMap;

use super::Finding;
use super::source::{FileKind, SourceFile};

/// How far above an ordering the comment that names its partner may stand, and how far down a comment reaches.
const REACH: usize = 8;

/// What a use of a name can be the partner of.
#[derive(Clone, Copy, Default)]
struct Sides {
    acquires: bool,
    releases: bool,
}

/// Every ordering has a name beside it.
pub(super) fn unpaired(source: &SourceFile) -> Vec<Finding> {
    let lines = source.without_tests();
    let what = "an ordering without `pairs(name)` in a comment above it: name the store or load it works with";
    let bare = (0..lines.len()).filter(|&at| {
        is_rust(source)
            && sides(lines[at]).is_some()
            && !lines[at.saturating_sub(REACH)..=at].iter().any(|line| names(line).next().is_some())
    });
    bare.map(|at| source.refuse(at + 1, what)).collect()
}

/// Every name stands beside something that acquires and something that releases.
pub(super) fn one_sided(sources: &[SourceFile]) -> Vec<Finding> {
    let mut uses: BTreeMap<&str, (Sides, &SourceFile, usize)> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_rust(source)) {
        let lines = source.without_tests();
        for (at, line) in lines.iter().enumerate() {
            for name in names(line) {
                let found = beside(&lines[at..]);
                let (known, ..) = uses.entry(name).or_insert((Sides::default(), source, at + 1));
                known.acquires |= found.acquires;
                known.releases |= found.releases;
            }
        }
    }
    let lonely = uses.into_iter().filter(|(_, (sides, ..))| !(sides.acquires && sides.releases));
    lonely
        .map(|(name, (sides, source, line))| {
            let missing = if sides.acquires { "releases" } else { "acquires" };
            source.refuse(line, format!("nothing that {missing} has `pairs({name})` beside it: name both sides"))
        })
        .collect()
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

/// The sides of what a comment on the first of these lines speaks of. A barrier, or a file that is read, orders by other
/// means and may be either side.
fn beside(lines: &[&str]) -> Sides {
    let mut all = Sides::default();
    let mut seen = false;
    for (at, line) in lines.iter().take(REACH + 1).enumerate() {
        if seen && at > 0 && names(line).next().is_some() {
            break;
        }
        if let Some(sides) = sides(line) {
            all = Sides { acquires: all.acquires || sides.acquires, releases: all.releases || sides.releases };
            seen = true;
        }
    }
    if seen { all } else { Sides { acquires: true, releases: true } }
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
        assert_eq!(lines(&format!("{STORE}{}head.load(Ordering::Acquire);\n", "\n".repeat(REACH))), [REACH + 3]);
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
        assert_eq!(refused(&[STORE, "// pairs(ring.head): the file of a dead producer.\nread(file);\n"]), 0);
    }
}
