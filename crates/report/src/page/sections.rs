//! The sections of the page, top to bottom.

mod compare;
mod counted;
mod hang;
mod hull;
mod nested;
mod overview;
mod recording;
mod tables;

use plimsoll_abi::CoreClass;
use plimsoll_analyze::{Costly, ScopeRow, diff};
use plimsoll_trace::{FindingKind, Trace};

use super::columns::PackedColumns;
use super::html;
use super::{Answers, Subject};
use crate::text::percent;

pub(super) use overview::header;

/// All sections in the order of reading.
pub(super) fn all(
    run: Subject<'_>,
    before: Option<Subject<'_>>,
    packed: &PackedColumns,
    rows_height: usize,
) -> Vec<String> {
    let Subject { trace, answers } = run;
    let compared = before.map(|before| (before, diff(before.trace, trace)));
    let changes = compared.as_ref().map_or(String::new(), |(_, diff)| compare::changes(diff));
    let first = compared.as_ref().map_or(String::new(), |(before, diff)| compare::verdict(*before, run, diff));
    let overview = overview::verdict(trace, answers);
    // Two runs are there to be seen beside each other: what bounds the present one can wait, unless it is dead.
    let is_later = compared.is_some() && answers.explanation.is_none();
    let (above, below) = if is_later { (String::new(), overview) } else { (overview, String::new()) };
    vec![
        first,
        above,
        format!(
            "<div class=left>\n{}\n{}\n{}\n</div>",
            timeline(run, before, packed, rows_height),
            tables::functions(trace, answers),
            tables::path(answers)
        ),
        format!(
            "<aside>\n{}\n{}\n{}\n</aside>",
            selected(trace, answers),
            hull::load_line(answers),
            recording::ledger_and_cost(trace, answers)
        ),
        changes,
        below,
        nested::scopes(trace, answers),
        tables::dependencies(trace, answers),
        tables::cores(answers),
        counted::counters(answers),
        tables::pools(answers),
        tables::facts(trace, answers),
    ]
}

/// The swimlane's frame. Its height is fixed, so nothing moves when the picture is drawn.
fn timeline(run: Subject<'_>, before: Option<Subject<'_>>, packed: &PackedColumns, rows_height: usize) -> String {
    let Subject { trace, answers } = run;
    // In a high window rows are up to twice as high as they need be; more room would stay empty.
    let size = match rows_height {
        // Nothing has a time: there is room for the sentence that says so.
        0..=50 => " class=empty",
        51..300 => " class=low",
        300..500 => " class=middling",
        _ => "",
    };
    let left: Vec<&str> = packed.left_out.iter().map(|part| part.name()).collect();
    let left = if left.is_empty() {
        String::new()
    } else {
        format!("<p class=note>To keep the page small it is without {}. The commands have them.</p>", left.join(", "))
    };
    let counters = if trace.counters.is_empty() || trace.executions.is_empty() {
        ""
    } else {
        "<select id=by-counter aria-label=\"Counters under the axis\"><option value=\"\">no counters</option></select>"
    };
    let is_folded = folds(trace) || before.is_some_and(|before| folds(before.trace));
    let fold =
        if is_folded { "<button id=fold type=button aria-pressed=true>cores folded by class</button>" } else { "" };
    // The state that the scripts set later stands here from the start: a button that changes its width moves those beside it.
    let path = if answers.path_tasks.is_empty() { "aria-pressed=false disabled" } else { "aria-pressed=true" };
    format!(
        "<section id=timeline aria-label=Timeline><div class=bar>\
         <input id=find type=search placeholder=\"Find task, kernel, scope …\" aria-label=\"Find task, kernel, scope\" autocomplete=off>\
         <button id=path type=button {path}>critical path</button>\
         {fold}\
         <button id=chrome type=button>save window</button><button id=png type=button>save picture</button></div>\
         <div class=\"bar filters\"><span class=soft>Only</span>\
         <select id=by-function aria-label=\"Only this function\"><option value=\"\">all functions</option></select>\
         <select id=by-scope aria-label=\"Only this scope\"><option value=\"\">all scopes</option></select>\
         <select id=by-ring aria-label=\"Only this ring\"><option value=\"\">all rings</option></select>\
         {counters}\
         <button id=show-all type=button>show all</button><span id=found class=soft aria-live=polite></span></div>\
         <div id=status class=soft aria-live=polite><span><kbd>W</kbd> <kbd>S</kbd> zoom · <kbd>A</kbd> <kbd>D</kbd> pan · <kbd>Shift</kbd> and drag sums up a box · <kbd>M</kbd> measures · <kbd>?</kbd> all keys</span></div>\
         <div id=stage{size} tabindex=0 role=application aria-label=\"Swimlane: W and S zoom, A and D pan, question mark shows all keys\">\
         <canvas id=lanes></canvas><canvas id=over></canvas><div id=tip hidden></div></div>{left}\
         <noscript><p class=note>The swimlane is drawn by the page's own script. Everything else on this page reads without it.</p></noscript></section>"
    )
}

/// Whether a class has so many cores that their rows are folded; `page/layout.js` has the same number.
fn folds(trace: &Trace) -> bool {
    let of = |class| trace.cores.iter().filter(|core| core.core_type == class).count();
    [CoreClass::Aic, CoreClass::Aiv, CoreClass::Any].into_iter().any(|class| of(class) > 8)
}

/// The place for the selected task. Until there is one it says where to begin: with what cost most.
fn selected(trace: &Trace, answers: &Answers) -> String {
    let row = |costly: &Costly| {
        let task = costly
            .task
            .as_ref()
            .map_or(String::new(), |task| format!(" <span class=whole>See {}.</span>", html::task(task)));
        format!("<li><b>{}</b> of the makespan: {}.{task}</li>", percent(costly.share), html::text(&costly.what))
    };
    let rows: String = answers.costliest.iter().map(row).collect();
    let costs =
        if rows.is_empty() { rows } else { format!("<h3>What cost most</h3><ol id=costliest class=costs>{rows}</ol>") };
    // Files of dependencies, counters or captured arguments alone have tasks without slices, files of scopes alone have no tasks.
    let names_tasks = trace.deps.is_some() || !trace.counters.is_empty() || answers.dump.is_some();
    let how = match (trace.executions.is_empty(), names_tasks) {
        (false, _) => "Click a slice, or search for a task such as <code>r2t17</code>.",
        (true, true) => "Search for a task such as <code>r2t17</code>.",
        (true, false) => "Nothing here tells of single tasks.",
    };
    format!(
        "<section id=selected aria-live=polite><h3>Selected task</h3><div id=task><p class=\"soft scripted\">{how}</p><noscript><p class=soft>A task is selected in the swimlane, which needs scripts.</p></noscript>{costs}</div></section>"
    )
}

/// The scope that a peak is of: of nested scopes that saw the same peak, the innermost.
fn scope_of<'a>(answers: &'a Answers, ring: Option<u8>, resource: &str, peak: u64) -> Option<&'a ScopeRow> {
    let has =
        |scope: &&ScopeRow| scope.resources.iter().any(|r| (r.ring, r.resource, r.peak) == (ring, resource, peak));
    answers.scopes.scopes.iter().filter(has).max_by_key(|scope| scope.depth)
}

/// Below this much of a resource the run deadlocks; absent where it is not known.
fn floor_of(answers: &Answers, ring: Option<u8>, resource: &str) -> Option<u64> {
    let rows = &answers.sizing.as_ref()?.rings;
    rows.iter().find(|row| (row.ring, row.resource) == (ring, resource)).map(|row| row.floor)
}

/// Says how to record what is missing, with a space before it: in the words of whoever ran the program. Files of the reference
/// are as their own tools made them.
fn how_to_record(trace: &Trace, answers: &Answers, advice: &str) -> String {
    match trace.manifest {
        Some(_) => format!(" {}", (answers.wording)(advice)),
        None => String::new(),
    }
}

/// Whether records of the run are missing, by its ledger or by what its files say of themselves.
pub(super) fn misses_records(answers: &Answers) -> bool {
    let reported = answers.check.findings.iter().any(|finding| finding.kind == FindingKind::ReportedLoss);
    reported || (answers.check.reconcile.is_some() && !answers.check.sound)
}

/// Why there are no dependencies, and how to record them, in plain text.
pub(super) fn no_dependencies(trace: &Trace, answers: &Answers) -> String {
    tables::unrecorded(trace, answers).replace('`', "")
}

/// A resource of a ring as plain text.
pub(super) fn ring_and_resource(ring: Option<u8>, resource: &str) -> String {
    format!("{}{}", ring_prefix(ring), resource_name(resource))
}

/// The most of a resource that was ever in use, as the load line shows it.
pub(super) fn peak_of(answers: &Answers, ring: Option<u8>, resource: &str) -> Option<u64> {
    hull::gauges(answers)
        .into_iter()
        .find(|gauge| (gauge.ring, gauge.resource) == (ring, resource))
        .map(|gauge| gauge.peak)
}

/// A section with a heading.
fn section(id: &str, heading: &str, body: &str) -> String {
    format!("<section id={id} class=wide><h3>{heading}</h3>{body}</section>")
}

/// What people call a resource.
fn resource_name(resource: &str) -> String {
    html::text(&match resource {
        "dep_pool" => "dependency pool".to_string(),
        other => other.replace('_', " "),
    })
}

/// A ring as a prefix, where there is one.
fn ring_prefix(ring: Option<u8>) -> String {
    ring.map_or(String::new(), |ring| format!("r{ring} "))
}
