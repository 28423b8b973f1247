//! Words that the hands of the reference's users know, in one table. They are not in the help.

use std::ffi::OsString;

/// Flags: what is typed, and what it stands for.
const FLAGS: [(&str, &[&str]); 9] = [
    ("--enable-chip-swimlane", &["--swimlane"]),
    ("--enable-l2-swimlane", &["--swimlane"]),
    ("--chip-swimlane", &["--swimlane"]),
    ("--enable-profiling", &["--swimlane"]),
    ("--enable-scope-stats", &["--scope-stats"]),
    ("--enable-dep-gen", &["--dep-gen"]),
    ("--enable-pmu", &["--pmu"]),
    ("--dump-tensor", &["--dump-args"]),
    ("-p", &["--arch"]),
];

/// Values of `-p`: simulated platforms of the reference.
const PLATFORMS: [(&str, &str); 2] = [("a2a3sim", "a2a3"), ("a5sim", "a5")];

/// Commands.
const COMMANDS: [(&str, &str); 3] = [("trace", "export"), ("overhead", "sched"), ("dump", "args")];

/// The command line with every alias replaced.
pub(crate) fn translate(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::new();
    for (at, word) in words.into_iter().enumerate() {
        let Some(text) = word.to_str() else {
            out.push(word);
            continue;
        };
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let command = COMMANDS.iter().find(|(alias, _)| at == 1 && *alias == text);
        let flag = FLAGS.iter().find(|(alias, _)| *alias == name);
        let after_platform = out.last().is_some_and(|last| last == "--arch");
        let platform = PLATFORMS.iter().find(|(alias, _)| after_platform && *alias == text);
        match (command, flag, platform) {
            (Some((_, command)), ..) => out.push((*command).into()),
            (_, _, Some((_, arch))) => out.push((*arch).into()),
            (_, Some((_, stands_for)), _) => {
                for (k, word) in stands_for.iter().enumerate() {
                    let value = value.filter(|_| k + 1 == stands_for.len());
                    out.push(value.map_or_else(|| (*word).to_owned(), |value| format!("{word}={value}")).into());
                }
            }
            _ => out.push(word),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> String {
        let words = translate(line.split(' ').map(OsString::from));
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn aliases_stand_for_what_they_are_said_to() {
        assert_eq!(translated("plimsoll trace x"), "plimsoll export x");
        assert_eq!(translated("plimsoll run vector -p a2a3sim"), "plimsoll run vector --arch a2a3");
        assert_eq!(translated("plimsoll run v --enable-l2-swimlane=3"), "plimsoll run v --swimlane=3");
        assert_eq!(translated("plimsoll stats trace"), "plimsoll stats trace");
    }
}
