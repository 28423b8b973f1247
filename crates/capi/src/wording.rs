//! The library's advice in the words of other languages: which setting of theirs stands for which call of the library's.
//!
//! The library explains errors to whoever writes Rust, and names its calls in backticks. Whoever writes C or Python has fields and
//! keyword arguments instead.

use plimsoll::run::parse_duration;

/// A language other than Rust.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// C and C++: fields of structures, as in the header.
    #[default]
    C,
    /// Keyword arguments.
    Python,
}

impl Language {
    const ALL: [Self; 2] = [Self::C, Self::Python];

    /// As manifests name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Python => "python",
        }
    }

    /// The language of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.name() == name)
    }

    /// [`worded`] for it.
    pub fn wording(self) -> fn(&str) -> String {
        match self {
            Self::C => |text| worded(text, Self::C),
            Self::Python => |text| worded(text, Self::Python),
        }
    }

    /// Sizes of rings, as flags of the command and their values, as code that opens a device with them.
    pub fn device_with(self, flags: &str) -> String {
        let words: Vec<&str> = flags.split(' ').collect();
        let sizes = words.chunks_exact(2).map(|pair| {
            let setting = pair[0].trim_start_matches('-').replace('-', "_");
            match self {
                Self::C => format!("options.{setting} = \"{}\";", pair[1]),
                Self::Python => format!("{setting}=\"{}\"", pair[1]),
            }
        });
        let sizes: Vec<String> = sizes.collect();
        match self {
            Self::C => sizes.join(" "),
            Self::Python => format!("plimsoll.Device({})", sizes.join(", ")),
        }
    }
}

/// What a call or a field of the library is in C, and in Python. A value that the call is given is set to the name; what has a value
/// already stays as it is, with the call's in place of `{}`.
const CALLS: [(&str, &str, &str); 21] = [
    ("Capacities::set_task_window", "ring_task_window", "ring_task_window"),
    ("Capacities::set_heap", "ring_heap", "ring_heap"),
    ("Capacities::set_dep_pool", "ring_dep_pool", "ring_dep_pool"),
    ("Capacities::set_tensormap", "tensormap", "tensormap"),
    ("RecordOptions::place", "out", "out"),
    ("RecordOptions::profile", "record = \"profile\"", "record=\"profile\""),
    ("RecordOptions::flags", "record", "record"),
    ("RecordOptions::dump_tasks", "dump_tasks", "record=\"1+dump_args=2+dump_tasks={}\""),
    ("DumpRules::ALL", "dump_args = 2", "record=\"1+dump_args=2\""),
    ("DumpRules::bytes", "dump_bytes", "record=\"1+dump_args=2+dump_bytes=N\""),
    ("Flags::CORE_TIMING", "record = \"1\"", "record=\"1\""),
    ("Flags::SCOPE_STATS", "record = \"1\"", "record=\"1\""),
    ("Flags::DEP_GEN", "dep_gen = 1", "record=\"1+dep_gen\""),
    ("Flags::TENSOR_DUMP", "dump_args = 2", "record=\"1+dump_args=2\""),
    ("RunOptions::op_timeout", "op_timeout_ns", "op_timeout"),
    ("RunOptions::stall_timeout", "stall_timeout_ns", "stall_timeout"),
    ("RunOptions::orch_timeout", "orch_timeout_ns", "orch_timeout"),
    ("EngineKind::Virtual", "engine = \"virtual\"", "engine=\"virtual\""),
    ("ArgsDump::args", "plimsoll args", "plimsoll args"),
    ("collect::orphans", "plimsoll recover", "plimsoll recover"),
    ("Orphan::recover", "plimsoll recover", "plimsoll recover"),
];

/// Advice that names a call which is another thing altogether there.
const PHRASES: [(&str, &str, &str); 9] = [
    // They have no such setting.
    (", or allow more with `RecordOptions::host_gone`, and run again", ", and run again", ", and run again"),
    (
        "Give the collector longer before the run goes on without it: `RecordOptions::host_gone = parse_duration(\"60s\")?`.",
        "",
        "",
    ),
    ("Keep kernels that crash in a process of their own: `EngineKind::Emulated` `EmulatedOptions::isolated`.", "", ""),
    ("Keep kernels that crash in a process of their own: `EmulatedOptions::isolated`.", "", ""),
    // One setting stands for both.
    ("`Flags::DEP_GEN` `Flags::CORE_TIMING`", "`Flags::DEP_GEN`", "`Flags::DEP_GEN`"),
    (
        "`DumpRules::ALL` `RecordOptions::dump_tasks",
        "`DumpRules::ALL` `RecordOptions::dump_tasks",
        "`RecordOptions::dump_tasks",
    ),
    ("Register it with `block_kernel`.", "Register it with `in_blocks`.", "Register it with `in_blocks=True`."),
    (
        "Register it with `block_kernel_on`.",
        "Register it with `in_blocks` and a `core_class`.",
        "Register it with `in_blocks=True` and a `core`.",
    ),
    (
        "A borrowed slice cannot be written. It was entered with `borrow`. Enter it with `borrow_mut` or own it.",
        "Borrowed memory cannot be written. It was entered to be read only. Borrow it as writable, or own it.",
        "A read-only array cannot be written. It was entered to be read. Enter one that may be written.",
    ),
];

/// A text of the library as whoever writes `language` understands it.
pub fn worded(text: &str, language: Language) -> String {
    let of = |c: &'static str, python: &'static str| if language == Language::C { c } else { python };
    let mut told = text.to_owned();
    for (said, c, python) in PHRASES {
        told = told.replace(said, of(c, python));
    }
    for (call, c, python) in CALLS {
        let opening = format!("`{call}");
        while let Some(at) = told.find(&opening) {
            let Some(length) = told[at + 1..].find('`') else { break };
            let (end, argument) = (at + 1 + length, &told[at + opening.len()..at + 1 + length]);
            told.replace_range(at + 1..end, &setting(of(c, python), argument, language));
        }
    }
    told
}

/// A setting with the value that a call is given: `("64m")`, ` = Some(parse_duration("10s")?)`.
fn setting(name: &str, argument: &str, language: Language) -> String {
    let Some(text) = argument.split('"').nth(1) else { return name.to_owned() };
    if name.contains('=') {
        return name.replace("{}", text);
    }
    let time = parse_duration(text).ok().flatten().filter(|_| argument.contains("parse_duration("));
    match (language, time) {
        (Language::C, Some(time)) => format!("{name} = {}", time.as_nanos()),
        (Language::C, None) => format!("{name} = \"{text}\""),
        (Language::Python, Some(time)) => format!("{name}={}", time.as_secs_f64()),
        (Language::Python, None) => format!("{name}=\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_become_settings() {
        let said =
            "To its end the scope needs 8: use `Capacities::set_task_window(\"-,8,-,-\")` (or PLIMSOLL_X), see `x`.";
        let c = "To its end the scope needs 8: use `ring_task_window = \"-,8,-,-\"` (or PLIMSOLL_X), see `x`.";
        let python = "To its end the scope needs 8: use `ring_task_window=\"-,8,-,-\"` (or PLIMSOLL_X), see `x`.";
        assert_eq!(worded(said, Language::C), c);
        assert_eq!(worded(said, Language::Python), python);
        let said = "Allow more with `RunOptions::op_timeout`. Register it with `block_kernel_on`.";
        assert_eq!(
            worded(said, Language::C),
            "Allow more with `op_timeout_ns`. Register it with `in_blocks` and a `core_class`."
        );
        let said = "Capture it: `DumpRules::ALL` `RecordOptions::dump_tasks = vec![\"r0t3\".into()]`.";
        assert_eq!(worded(said, Language::C), "Capture it: `dump_args = 2` `dump_tasks = \"r0t3\"`.");
        assert_eq!(worded(said, Language::Python), "Capture it: `record=\"1+dump_args=2+dump_tasks=r0t3\"`.");
        let said = "End it: `RunOptions::op_timeout = Some(parse_duration(\"1500ms\")?)`.";
        assert_eq!(worded(said, Language::C), "End it: `op_timeout_ns = 1500000000`.");
        assert_eq!(worded(said, Language::Python), "End it: `op_timeout=1.5`.");
        assert_eq!(worded("An open `Capacities::set_heap", Language::C), "An open `Capacities::set_heap");
    }

    #[test]
    fn sizes_become_code_that_opens_a_device() {
        let flags = "--ring-heap 64m,1g,- --tensormap 128";
        let c = "options.ring_heap = \"64m,1g,-\"; options.tensormap = \"128\";";
        assert_eq!(Language::C.device_with(flags), c);
        let python = "plimsoll.Device(ring_heap=\"64m,1g,-\", tensormap=\"128\")";
        assert_eq!(Language::Python.device_with(flags), python);
        assert_eq!(Language::ALL.map(|one| Language::named(one.name())), Language::ALL.map(Some));
    }
}
