//! Aliases for users of the reference: its spellings of commands, flags and platforms, in tables. They are not in the help.
//!
//! An alias may lead to a command or a flag that this build does not have yet; the parser's own list says so.

use crate::exit::wrong;
use std::ffi::OsString;

/// Flags: what is typed, and what it stands for.
const FLAGS: [(&str, &str); 9] = [
    ("--enable-chip-swimlane", "--swimlane"),
    ("--enable-l2-swimlane", "--swimlane"),
    ("--chip-swimlane", "--swimlane"),
    ("--enable-profiling", "--swimlane"),
    ("--enable-scope-stats", "--scope-stats"),
    ("--enable-dep-gen", "--dep-gen"),
    ("--enable-pmu", "--pmu"),
    ("--dump-tensor", "--dump-args"),
    ("-p", "--arch"),
];

/// Values of `-p`: simulated platforms of the reference.
const PLATFORMS: [(&str, &str); 2] = [("a2a3sim", "a2a3"), ("a5sim", "a5")];

/// Commands.
const COMMANDS: [(&str, &str); 3] = [("trace", "export"), ("overhead", "sched"), ("dump", "args")];

/// The command line with every alias replaced; an error if one stands for what `parser` does not have.
pub(crate) fn translate(
    words: impl IntoIterator<Item = OsString>,
    parser: &clap::Command,
) -> anyhow::Result<Vec<OsString>> {
    let mut out: Vec<OsString> = Vec::new();
    let mut words = words.into_iter().enumerate();
    while let Some((at, word)) = words.next() {
        let Some(text) = word.to_str() else {
            out.push(word);
            continue;
        };
        // What follows belongs to a program that is started, not to us.
        if text == "--" {
            out.push(word);
            out.extend(words.map(|(_, word)| word));
            break;
        }
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let command = COMMANDS.iter().find(|(alias, _)| at == 1 && *alias == text);
        let flag = FLAGS.iter().find(|(alias, _)| *alias == name);
        let after_platform = out.last().is_some_and(|last| last == "--arch");
        let platform = PLATFORMS.iter().find(|(alias, _)| after_platform && *alias == text);
        match (command, flag, platform) {
            (Some((alias, command)), ..) => {
                if parser.find_subcommand(command).is_none() {
                    return Err(not_yet(alias, command, "command"));
                }
                out.push((*command).into());
            }
            (_, _, Some((_, arch))) => out.push((*arch).into()),
            (_, Some((alias, flag)), _) => {
                if !has_flag(parser, out.get(1), flag) {
                    return Err(not_yet(alias, flag, "flag"));
                }
                out.push(value.map_or_else(|| (*flag).to_owned(), |value| format!("{flag}={value}")).into());
            }
            _ => out.push(word),
        }
    }
    Ok(out)
}

/// Whether the command that was typed has a flag; an unknown command is left to the parser to complain about.
fn has_flag(parser: &clap::Command, command: Option<&OsString>, flag: &str) -> bool {
    let command = command.and_then(|word| word.to_str()).and_then(|name| parser.find_subcommand(name));
    command.is_none_or(|command| command.get_arguments().any(|arg| arg.get_long() == flag.strip_prefix("--")))
}

fn not_yet(alias: &str, stands_for: &str, what: &str) -> anyhow::Error {
    wrong(format!(
        "Not yet: {alias} stands for {stands_for}. This build has no such {what} here. Leave it out, or see `plimsoll --help` for what there is."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command};

    fn parser() -> Command {
        let run = Command::new("run").args(["arch", "swimlane"].map(|name| Arg::new(name).long(name)));
        Command::new("plimsoll").subcommands([run, Command::new("export"), Command::new("stats")])
    }

    fn translated(line: &str) -> Result<String, String> {
        let words = translate(line.split(' ').map(OsString::from), &parser()).map_err(|error| error.to_string())?;
        Ok(words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn aliases_stand_for_what_they_are_said_to() {
        for (typed, meant) in [
            ("plimsoll trace x", "plimsoll export x"),
            ("plimsoll run vector -p a2a3sim", "plimsoll run vector --arch a2a3"),
            ("plimsoll run v --enable-l2-swimlane=3", "plimsoll run v --swimlane=3"),
            ("plimsoll stats trace", "plimsoll stats trace"),
            ("plimsoll record -- app -p 80", "plimsoll record -- app -p 80"),
        ] {
            assert_eq!(translated(typed).as_deref(), Ok(meant));
        }
    }

    #[test]
    fn what_is_not_there_yet_is_said_to_be_so() {
        for (typed, stands_for) in [
            ("plimsoll dump x", "args"),
            ("plimsoll run v --dump-tensor=2", "--dump-args"),
            ("plimsoll stats -p a2a3sim", "--arch"),
        ] {
            let said = translated(typed).expect_err("it is not there");
            assert!(said.starts_with("Not yet: ") && said.contains(&format!("stands for {stands_for}.")), "{said}");
        }
    }
}
