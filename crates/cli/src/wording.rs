//! The library's advice in the command's words, and the other way round: the one place that knows which flag of the command
//! stands for which call of the library.
//!
//! The library explains errors to whoever writes a program, and names calls in backticks. Whoever runs a program by the
//! command has flags instead; and `size` reads runs of both.

use crate::size::is_of_the_command;
use plimsoll::trace::Manifest;
use plimsoll_capi::wording::Language;

/// A call or a field of the library, and the flag or the command that does the same. If the call has an argument, or the field
/// is given a value, so is the flag.
const CALLS: [(&str, &str); 25] = [
    ("Capacities::set_task_window", "--ring-task-window"),
    ("Capacities::set_heap", "--ring-heap"),
    ("Capacities::set_dep_pool", "--ring-dep-pool"),
    ("Capacities::set_tensormap", "--tensormap"),
    ("RecordOptions::place", "--out"),
    ("RecordOptions::profile", "--profile"),
    ("RecordOptions::region_dir", "--region-dir"),
    ("RecordOptions::host_gone", "--host-gone-timeout"),
    ("RunOptions::op_timeout", "--op-timeout"),
    ("RunOptions::stall_timeout", "--stall-timeout"),
    ("RunOptions::orch_timeout", "--orch-timeout"),
    ("Request::rank", "--rank"),
    ("Flags::CORE_TIMING", "--swimlane"),
    ("Flags::DEP_GEN", "--dep-gen"),
    ("Flags::TENSOR_DUMP", "--dump-args"),
    ("RecordOptions::dump_tasks", "--dump-tasks"),
    ("DumpRules::ALL", "--dump-args=2"),
    ("DumpRules::bytes", "--dump-bytes"),
    ("collect::orphans", "`plimsoll recover --list`"),
    ("Orphan::recover", "`plimsoll recover --all`"),
    ("ArgsDump::args", "`plimsoll args`"),
    ("EmulatedOptions::isolated", "--isolate"),
    ("EngineKind::Emulated", "--engine emulated"),
    ("EngineKind::Virtual", "--engine virtual"),
    ("Flags::SCOPE_STATS", "--scope-stats"),
];

/// How advice on a run is worded: in flags if the command ran it, in the settings or calls of its language if a program of the user's own
/// did.
pub(crate) fn wording_of(manifest: Option<&Manifest>) -> fn(&str) -> String {
    match manifest {
        Some(manifest) if !is_of_the_command(manifest) => {
            Language::named(&manifest.language).map_or(str::to_owned, Language::wording)
        }
        _ => in_flags,
    }
}

/// An error about reading a run, worded for whoever ran it: errors are printed in flags unless they say otherwise.
pub(crate) fn reworded(
    error: impl std::error::Error + Send + Sync + 'static,
    manifest: Option<&Manifest>,
) -> anyhow::Error {
    match manifest {
        Some(run) if !is_of_the_command(run) => crate::exit::in_calls(wording_of(manifest)(&error.to_string())),
        _ => error.into(),
    }
}

/// A text of the library in which calls that have a flag are given as flags.
pub(crate) fn in_flags(text: &str) -> String {
    let mut told = text.to_owned();
    for (call, flag) in CALLS {
        let opening = format!("`{call}");
        while let Some(at) = told.find(&opening) {
            let Some(length) = told[at + 1..].find('`') else { break };
            let (end, argument) = (at + length + 2, &told[at + opening.len()..at + length + 1]);
            let value = value_of(argument);
            let flag = if value.is_empty() { flag.to_owned() } else { format!("{flag} {value}") };
            told.replace_range(at..end, &flag);
        }
    }
    told
}

/// What a call is given, or a field is set to, as a flag takes it: `("64m")`, ` = vec!["r0t0".into()]`,
/// ` = Some(Duration::from_secs(10))`.
fn value_of(argument: &str) -> String {
    if let Some(text) = argument.split('"').nth(1) {
        return text.to_owned();
    }
    let digits: String = argument.chars().filter(char::is_ascii_digit).collect();
    if digits.is_empty() { digits } else { digits + "s" }
}

/// Sizes of rings, as flags and their values, as code that opens a device with them in the language of the run's program.
pub(crate) fn device_with(manifest: &Manifest, flags: &str) -> String {
    if let Some(language) = Language::named(&manifest.language) {
        return language.device_with(flags);
    }
    let words: Vec<&str> = flags.split(' ').collect();
    let calls = words.chunks_exact(2).filter_map(|pair| {
        let (call, _) = CALLS.iter().find(|(_, flag)| *flag == pair[0])?;
        let (_, setter) = call.split_once("::")?;
        Some(format!("capacities.{setter}({:?})?; ", pair[1]))
    });
    let calls: String = calls.collect();
    format!("let mut capacities = Capacities::default(); {calls}Device::builder().capacities(capacities)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_advised_in_flags() {
        let said =
            "It needs 32: use `Capacities::set_task_window(\"-,32,-,-\")` (or PLIMSOLL_RING_TASK_WINDOW). See `x`.";
        let told = "It needs 32: use --ring-task-window -,32,-,- (or PLIMSOLL_RING_TASK_WINDOW). See `x`.";
        assert_eq!(in_flags(said), told);
        assert_eq!(in_flags("Record `Flags::DEP_GEN` or `Flags::SCOPE_STATS`."), "Record --dep-gen or --scope-stats.");
        assert_eq!(
            in_flags("Use `DumpRules::ALL`; `collect::orphans` lists."),
            "Use --dump-args=2; `plimsoll recover --list` lists."
        );
        assert_eq!(in_flags("Set `RunOptions::op_timeout = Some(Duration::from_secs(10))`."), "Set --op-timeout 10s.");
        assert_eq!(in_flags("`RecordOptions::dump_tasks = vec![\"r0t0\".into()]`"), "--dump-tasks r0t0");
        assert_eq!(in_flags("An open `Capacities::set_heap"), "An open `Capacities::set_heap");
    }

    #[test]
    fn advice_follows_who_ran_the_program() {
        let said = "Record `Flags::SCOPE_STATS` or `RecordOptions::profile`.";
        let by_command = Manifest { command: vec!["plimsoll".into()], ..Manifest::default() };
        assert_eq!(wording_of(Some(&by_command))(said), "Record --scope-stats or --profile.");
        assert_eq!(wording_of(Some(&Manifest::default()))(said), said);
        let by_python = Manifest { language: "python".into(), ..Manifest::default() };
        assert_eq!(wording_of(Some(&by_python))(said), "Record `record=\"1\"` or `record=\"profile\"`.");
    }

    #[test]
    fn a_program_of_the_users_own_is_advised_in_calls() {
        let told = device_with(&Manifest::default(), "--ring-heap 64m,1g,- --tensormap 128");
        assert!(told.contains("capacities.set_heap(\"64m,1g,-\")?; capacities.set_tensormap(\"128\")?;"), "{told}");
        let by_c = Manifest { language: "c".into(), ..Manifest::default() };
        assert_eq!(device_with(&by_c, "--tensormap 128"), "options.tensormap = \"128\";");
    }
}
