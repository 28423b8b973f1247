//! The verdict of a run as one test case, in the XML that JUnit made common and CI systems read.

use anyhow::Context;
use plimsoll::report::write_whole;
use std::fmt::Write;
use std::io::Write as _;
use std::path::Path;

/// One test case.
pub(super) struct TestCase {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) elapsed_ns: u64,
    pub(super) properties: Vec<(&'static str, String)>,
    pub(super) verdict: CaseVerdict,
}

/// How a test case ended.
pub(super) enum CaseVerdict {
    Passed,
    /// The run ended, and its result is not what it should be.
    Failed {
        kind: String,
        text: String,
    },
    /// The run did not end well.
    Error {
        kind: String,
        text: String,
    },
}

/// Writes the file.
pub(super) fn write(file: &Path, case: &TestCase) -> anyhow::Result<()> {
    write_whole(file, |out| out.write_all(xml(case).as_bytes())).with_context(|| {
        format!(
            "The test case could not be written to {}. The run itself is not concerned. Check that the place exists and can be written, or choose another with --junit.",
            file.display()
        )
    })
}

fn xml(case: &TestCase) -> String {
    let (failures, errors, tag) = match case.verdict {
        CaseVerdict::Passed => (0, 0, ""),
        CaseVerdict::Failed { .. } => (1, 0, "failure"),
        CaseVerdict::Error { .. } => (0, 1, "error"),
    };
    let seconds = format!("{:.6}", case.elapsed_ns as f64 / 1e9);
    let counts = format!("tests=\"1\" failures=\"{failures}\" errors=\"{errors}\" time=\"{seconds}\"");
    let (name, class) = (escaped(&case.name), escaped(&case.class));
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"plimsoll\" skipped=\"0\" {counts}>\n    <testcase name=\"{name}\" classname=\"{class}\" time=\"{seconds}\">\n      <properties>\n"
    );
    for (key, value) in &case.properties {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "        <property name=\"{}\" value=\"{}\"/>", escaped(key), escaped(value));
    }
    out += "      </properties>\n";
    if let CaseVerdict::Failed { kind, text } | CaseVerdict::Error { kind, text } = &case.verdict {
        let first = text.split_inclusive(". ").next().unwrap_or_default().trim_end();
        let (kind, first, text) = (escaped(kind), escaped(first), escaped(text));
        let _ = writeln!(out, "      <{tag} type=\"{kind}\" message=\"{first}\">{text}</{tag}>");
    }
    out + "    </testcase>\n  </testsuite>\n</testsuites>\n"
}

/// The text as XML has it, also in attributes. What no XML may hold becomes a mark in its place.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&apos;",
            '\n' | '\t' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(verdict: CaseVerdict) -> TestCase {
        let properties = vec![("status", "failed".to_owned())];
        TestCase {
            name: "a --set b=\"<&>'\u{1}".into(),
            class: "plimsoll.host".into(),
            elapsed_ns: 1_500_000_000,
            properties,
            verdict,
        }
    }

    #[test]
    fn names_and_texts_are_escaped() {
        let text = xml(&case(CaseVerdict::Error { kind: "OpTimeout".into(), text: "It <hangs>. And\nmore.".into() }));
        assert!(text.contains("name=\"a --set b=&quot;&lt;&amp;&gt;&apos;\u{fffd}\""), "{text}");
        assert!(
            text.contains(
                "<error type=\"OpTimeout\" message=\"It &lt;hangs&gt;.\">It &lt;hangs&gt;. And&#10;more.</error>"
            ),
            "{text}"
        );
        assert!(text.contains("tests=\"1\" failures=\"0\" errors=\"1\" time=\"1.500000\""), "{text}");
    }

    #[test]
    fn a_case_that_passed_has_neither_failure_nor_error() {
        let text = xml(&case(CaseVerdict::Passed));
        assert!(text.contains("failures=\"0\" errors=\"0\"") && !text.contains("<error") && !text.contains("<failure"));
        let text = xml(&case(CaseVerdict::Failed { kind: "WrongResult".into(), text: "No.".into() }));
        assert!(
            text.contains("failures=\"1\" errors=\"0\"") && text.contains("<failure type=\"WrongResult\""),
            "{text}"
        );
    }
}
