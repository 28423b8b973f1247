//! The page as a whole: head, policy, sections in order, data, script.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

use super::Subject;
use super::columns::{PackedColumns, base64};
use super::data::Meta;
use super::{html, sections};

const STYLE: &str = include_str!("../../page/page.css");

/// The scripts in the order in which they build on each other.
const SCRIPTS: [&str; 21] = [
    include_str!("../../page/columns.js"),
    include_str!("../../page/format.js"),
    include_str!("../../page/tree.js"),
    include_str!("../../page/run.js"),
    include_str!("../../page/graph.js"),
    include_str!("../../page/arguments.js"),
    include_str!("../../page/captured.js"),
    include_str!("../../page/counters.js"),
    include_str!("../../page/scopes.js"),
    include_str!("../../page/window.js"),
    include_str!("../../page/layout.js"),
    include_str!("../../page/box.js"),
    include_str!("../../page/paint.js"),
    include_str!("../../page/overlay.js"),
    include_str!("../../page/panel.js"),
    include_str!("../../page/near.js"),
    include_str!("../../page/search.js"),
    include_str!("../../page/filter.js"),
    include_str!("../../page/save.js"),
    include_str!("../../page/input.js"),
    include_str!("../../page/main.js"),
];

pub(super) fn write(
    run: Subject<'_>,
    before: Option<Subject<'_>>,
    metas: &[Meta],
    packed: &PackedColumns,
    out: &mut impl Write,
) -> io::Result<()> {
    let Subject { trace, answers } = run;
    let script = joined();
    let title = if trace.facts.program.is_empty() { "run" } else { &trace.facts.program };
    write!(
        out,
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n\
         <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=viewport content=\"width=device-width\"><title>{} · Plimsoll</title>\n<style>{STYLE}</style></head><body>\n",
        hash(&script),
        hash(STYLE),
        html::name(title),
    )?;
    out.write_all(sections::header(trace, answers, before.is_some()).as_bytes())?;
    out.write_all(b"<main>\n")?;
    for section in sections::all(run, before, packed, metas.iter().map(Meta::rows_height).max().unwrap_or(0)) {
        out.write_all(section.as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.write_all(b"</main>\n")?;
    writeln!(out, "<script type=\"application/json\" id=meta>{}</script>", html::json_inside_script(&metas)?)?;
    for (name, text) in &packed.blocks {
        writeln!(out, "<script type=\"text/plain\" id=\"{name}\">{text}</script>")?;
    }
    writeln!(out, "<script>{script}</script></body></html>")
}

/// All scripts as one, in a scope of their own.
fn joined() -> String {
    let mut script = String::from("(() => {\n\"use strict\";\n");
    SCRIPTS.iter().for_each(|part| script.push_str(part));
    script.push_str("})();\n");
    script
}

/// How a policy names the one text that it allows.
fn hash(text: &str) -> String {
    format!("sha256-{}", base64(&Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_can_stand_inside_a_script_element() {
        let script = joined().to_lowercase();
        assert!(!script.contains("</script") && !script.contains("<!--"), "a script would end its element");
        assert!(!STYLE.to_lowercase().contains("</style"));
    }

    #[test]
    fn a_hash_is_the_one_browsers_compute() {
        // From the policy's specification: the script `alert('Hello, world.');`.
        assert_eq!(hash("alert('Hello, world.');"), "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=");
    }
}
