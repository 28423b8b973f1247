//! Rules about words: history in comments, flags of the command in the library, and what belongs to one machine or one network.

use super::StyleFinding;
use super::source::{FileKind, SourceFile};

/// A comment says why the present code must be so, never how it came to be.
const HISTORY: [(&str, &str); 7] = [
    ("no longer", "say what holds now: \"not\", \"only\", \"after X it is …\""),
    ("used to", "say what holds now; for a purpose write \"for\" or \"serves to\""),
    ("previously", "say what holds now, or \"earlier in this run\""),
    ("formerly", "say what holds now"),
    ("was renamed", "use the present name alone"),
    ("legacy", "name the format or the version"),
    ("for historical reasons", "say which constraint holds today"),
];

pub(super) fn history(source: &SourceFile) -> Vec<StyleFinding> {
    let mut findings = Vec::new();
    for (line, comment) in source.comments() {
        let text = comment.to_lowercase();
        for (phrase, instead) in HISTORY {
            if let Some(at) = find_phrase(&text, phrase)
                && !(phrase == "used to" && is_purpose(&text[..at]))
            {
                findings.push(source.refuse(line, format!("\"{phrase}\" tells history: {instead}")));
            }
        }
    }
    findings
}

/// "is used to", "are used to": what something is for.
fn is_purpose(before: &str) -> bool {
    let last = before.trim_end().rsplit(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    ["is", "are", "be", "being", "was", "were", "not", "only", "never"].contains(&last)
}

fn find_phrase(text: &str, phrase: &str) -> Option<usize> {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let whole =
        |&at: &usize| !is_word(text[..at].chars().next_back()) && !is_word(text[at + phrase.len()..].chars().next());
    text.match_indices(phrase).map(|(at, _)| at).find(whole)
}

/// Crates that whoever writes a program uses without the command. `analyze` and `report` are not among them: they answer whoever
/// reads runs with the command, and may name it.
const LIBRARY: [&str; 11] =
    ["abi", "shm", "graph", "platform", "probe", "sched", "collect", "trace", "runtime", "plimsoll", "capi"];

/// The library advises in its own calls; `cli/src/wording.rs` turns those into flags.
pub(super) fn flags_of_the_command(source: &SourceFile) -> Vec<StyleFinding> {
    let is_library = LIBRARY.iter().any(|name| {
        source
            .path
            .strip_prefix("crates/")
            .and_then(|path| path.strip_prefix(name))
            .is_some_and(|path| path.starts_with("/src/"))
    });
    let names_flag = |line: &str| {
        line.match_indices("--").any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + 2..].chars().next();
            before.is_some_and(|c| " \"`(".contains(c)) && after.is_some_and(|c| c.is_ascii_lowercase())
        })
    };
    let code = source.without_tests().iter().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let lines = code.filter(|(_, line)| is_library && source.kind == FileKind::Rust && names_flag(line));
    let what = "a flag of the command: name the call in backticks, and its flag in cli/src/wording.rs";
    lines.map(|(k, _)| source.refuse(k + 1, what)).collect()
}

/// Samples and captures may hold paths of the machine they were taken on; what we write may not.
pub(super) fn machine_paths(source: &SourceFile) -> Vec<StyleFinding> {
    let roots = [concat!("/", "work"), concat!("/", "root"), concat!("/", "home")];
    let names_root = |line: &str| {
        roots.iter().any(|root| {
            line.match_indices(root).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                let after = line[at + root.len()..].chars().next();
                !before.is_some_and(|c| c.is_alphanumeric() || "_-.~/}*".contains(c))
                    && matches!(after, None | Some('/' | '"' | ' '))
            })
        })
    };
    let lines = source.lines.iter().enumerate().filter(|(_, line)| source.kind != FileKind::Data && names_root(line));
    let what = "a path of one machine: take it from the workspace, the environment or a temporary directory";
    lines.map(|(k, _)| source.refuse(k + 1, what)).collect()
}

/// Which mirror serves packages is the machine's own affair.
pub(super) fn registry_hosts(source: &SourceFile) -> Vec<StyleFinding> {
    let marks = [
        concat!("index", "-url"),
        concat!("sparse", "+http"),
        concat!("arti", "factory"),
        concat!("replace", "-with"),
        concat!("trusted", "-host"),
    ];
    let names_mirror = |line: &str| line.starts_with("[source.") || marks.iter().any(|mark| line.contains(mark));
    let lines = source.lines.iter().enumerate().filter(|(_, line)| source.kind != FileKind::Data && names_mirror(line));
    let what = "names a package registry: leave mirrors to the configuration of the machine";
    lines.map(|(k, _)| source.refuse(k + 1, what)).collect()
}

pub(super) fn lockfile_sources(source: &SourceFile) -> Vec<StyleFinding> {
    const PUBLIC: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    let foreign = |line: &&str| line.starts_with("source = ") && **line != *PUBLIC;
    let lines = source.lines.iter().enumerate().filter(|(_, line)| source.kind == FileKind::Lockfile && foreign(line));
    lines
        .map(|(k, _)| source.refuse(k + 1, "locked to something else than crates.io: build without the mirror's name"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str, rule: fn(&SourceFile) -> Vec<StyleFinding>) -> Vec<usize> {
        rule(&SourceFile::new(path, text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn comments_tell_no_history() {
        let text = "let a = 1; // no longer than b\nlet b = \"no longer\";\n/// It used to be a list.\n/// It is used to wait.\n";
        assert_eq!(lines("a.rs", text, history), [1, 3]);
        assert_eq!(lines("a.sh", "# Previously a list\n", history), [1]);
        assert!(lines("a.md", "It used to rain.\n", history).is_empty());
    }

    #[test]
    fn the_library_names_no_flags() {
        let text = "//! See --profile.\nlet a = \"use --profile\";\nlet b = 1 - -c;\n#[cfg(test)]\nlet d = \"--e\";\n";
        assert_eq!(lines("crates/runtime/src/a.rs", text, flags_of_the_command), [2]);
        assert!(lines("crates/cli/src/a.rs", text, flags_of_the_command).is_empty());
        assert!(lines("crates/runtime/tests/a.rs", text, flags_of_the_command).is_empty());
    }

    #[test]
    fn paths_of_a_machine_are_refused() {
        let root = concat!("/", "root");
        assert_eq!(lines("a.sh", &format!("ls {root}/x\nls \"{root}\"\n"), machine_paths), [1, 2]);
        assert!(lines("a.sh", &format!("ls a{root}/x\nls {root}ed\n"), machine_paths).is_empty());
    }

    #[test]
    fn the_lock_names_only_the_public_index() {
        assert_eq!(lines("Cargo.lock", "source = \"registry+https://mirror.example/index\"\n", lockfile_sources), [1]);
        let public = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
        assert!(lines("Cargo.lock", public, lockfile_sources).is_empty());
    }
}
