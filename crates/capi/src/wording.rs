//! The library's advice in the words of other languages: which setting of theirs stands for which call of the library's.
//!
//! The library explains errors to whoever writes Rust, and names its calls in backticks. Whoever writes C or Python has fields and
//! keyword arguments instead.

/// A language other than Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C and C++: fields of structures, as in the header.
    C,
    /// Keyword arguments.
    Python,
}

/// What a call or a field of the library is in C, and in Python.
const CALLS: [(&str, &str, &str); 10] = [
    ("Capacities::set_task_window", "ring_task_window", "ring_task_window"),
    ("Capacities::set_heap", "ring_heap", "ring_heap"),
    ("Capacities::set_dep_pool", "ring_dep_pool", "ring_dep_pool"),
    ("Capacities::set_tensormap", "tensormap", "tensormap"),
    ("RecordOptions::place", "out", "out"),
    ("RunOptions::op_timeout", "op_timeout_ns", "op_timeout"),
    ("RunOptions::stall_timeout", "stall_timeout_ns", "stall_timeout"),
    ("RunOptions::orch_timeout", "orch_timeout_ns", "orch_timeout"),
    ("collect::orphans", "plimsoll recover", "plimsoll recover"),
    ("Orphan::recover", "plimsoll recover", "plimsoll recover"),
];

/// Advice that names a call which is another thing altogether there.
const PHRASES: [(&str, &str, &str); 4] = [
    // They have no such setting.
    (", or allow more with `RecordOptions::host_gone`, and run again", ", and run again", ", and run again"),
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
            let value = value_of(argument, language);
            told.replace_range(at + 1..end, &format!("{}{value}", of(c, python)));
        }
    }
    told
}

/// What a call is given as a value of the setting: `("64m")`; empty without one.
fn value_of(argument: &str, language: Language) -> String {
    let equals = if language == Language::C { " = " } else { "=" };
    match argument.split('"').nth(1) {
        Some(text) => format!("{equals}\"{text}\""),
        None => String::new(),
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
        assert_eq!(worded("An open `Capacities::set_heap", Language::C), "An open `Capacities::set_heap");
    }
}
