//! What a person reads first: what the run was, the verdict, how a dead run died, the ledger.

use std::collections::BTreeSet;
use std::fmt::Write;

use plimsoll_analyze::PathSummary;
use plimsoll_trace::{FindingKind, Liveness, Status, Trace};

use super::super::{Answers, html};
use super::{hang, recording, resource_name, ring_prefix, scope_of};
use crate::text::{duration, fullness, percent, share_of_time, unrecorded_parts};

const LOGO: &str = "<svg width=22 height=22 viewBox=\"0 0 22 22\" aria-hidden=true><circle cx=11 cy=11 r=7.5 fill=none stroke=currentColor stroke-width=2 /><path d=\"M1 11h20\" stroke=currentColor stroke-width=2 /></svg>";

/// What the run is, always in sight.
pub(in super::super) fn header(trace: &Trace, answers: &Answers, is_compared: bool) -> String {
    let program = if trace.facts.program.is_empty() { "run" } else { &trace.facts.program };
    let chips: String = chips(trace, answers)
        .into_iter()
        .map(|(class, words)| format!("<span class=\"chip {class}\">{}</span>", html::text(&words)))
        .collect();
    let changes = is_compared.then_some(("changes", "What changed"));
    let links = [
        ("timeline", "Timeline"),
        ("functions", "Functions"),
        ("scopes", "Scopes"),
        ("dependencies", "Dependencies"),
        ("ledger", "Ledger"),
    ];
    let links: String =
        changes.iter().chain(&links).map(|(id, name)| format!("<a href=\"#{id}\">{name}</a>")).collect();
    format!(
        "<header><span class=logo>{LOGO}Plimsoll</span><h1>{}</h1>{chips}<nav>{links}<button id=theme type=button aria-label=\"Light or dark\">◐</button><button id=keys type=button aria-label=Keys>?</button></nav></header>\n",
        html::name(program)
    )
}

fn chips(trace: &Trace, answers: &Answers) -> Vec<(&'static str, String)> {
    let facts = &trace.facts;
    let mut chips = Vec::new();
    let arch = [Some(facts.arch.clone()).filter(|arch| !arch.is_empty()), cores(trace)];
    let arch = arch.into_iter().flatten().collect::<Vec<_>>().join(", ");
    match (facts.virtual_time, facts.emulated) {
        (true, _) => chips.push(("v", format!("virtual time · {arch}"))),
        (false, true) => chips.push(("v", format!("emulated · {arch}"))),
        (false, false) if arch.is_empty() => {}
        (false, false) => chips.push(("", arch)),
    }
    if let Some(manifest) = &trace.manifest {
        match (manifest.status, &manifest.error) {
            (Status::Ok, _) => {}
            (status, Some(error)) => chips.push(("b", format!("{}: {}", status.name(), error.name))),
            (Status::Running, None) => chips.push(unended(trace, answers)),
            (status, None) => chips.push(("b", status.name().to_string())),
        }
        match manifest.verified {
            Some(true) => chips.push(("g", "verified".to_string())),
            Some(false) => chips.push(("b", "result wrong".to_string())),
            None => {}
        }
    } else {
        chips.push(("", "files of the reference".to_string()));
    }
    if answers.check.reconcile.is_some() {
        chips.push(if answers.check.sound {
            ("g", "nothing lost".to_string())
        } else {
            ("b", "records are missing".to_string())
        });
    }
    // Files without a ledger may still say what they have lost.
    let lost = answers.check.findings.iter().any(|finding| finding.kind == FindingKind::ReportedLoss);
    if lost && answers.check.reconcile.is_none() {
        chips.push(("b", "the files report losses".to_string()));
    }
    if answers.check.needs_recovery {
        chips.push(("b", "not recovered yet".to_string()));
    }
    chips
}

/// How many cores there were; none of files that do not tell.
fn cores(trace: &Trace) -> Option<String> {
    let noun = if trace.has_workers() { "workers" } else { "cores" };
    (!trace.cores.is_empty()).then(|| format!("{} {noun}", html::count(trace.cores.len() as u64)))
}

/// A run whose manifest says that it runs does so, or has died before it could write another.
fn unended(trace: &Trace, answers: &Answers) -> (&'static str, String) {
    match &answers.explanation {
        Some(of) if trace.liveness != Liveness::Alive => ("b", of.class.name().to_string()),
        _ => ("v", "still running".to_string()),
    }
}

/// One sentence with its figure, and what to do about it.
pub(super) fn verdict(trace: &Trace, answers: &Answers) -> String {
    let dead = hang::explained(trace, answers);
    let class = if dead.is_some() { "verdict dead" } else { "verdict" };
    let (said, chain) = dead
        .unwrap_or_else(|| (format!("<h2>{}</h2><p>{}</p>", headline(trace, answers), advice(answers)), String::new()));
    let stats = &answers.stats;
    let fact = |id: &str, shown: String, exact: f64, what: &str| {
        format!("<div><dt>{what}</dt><dd class=num id={id} data-v=\"{exact}\">{shown}</dd></div>")
    };
    let mut facts = String::new();
    if let Some(ns) = stats.makespan_ns {
        facts += &fact("makespan", duration(ns as f64), ns as f64, "makespan");
    }
    // Files without times say nothing about how many ran.
    if trace.manifest.is_some() || !trace.executions.is_empty() {
        facts += &fact("tasks", html::count(stats.tasks), stats.tasks as f64, "tasks");
    }
    if let Some(share) = stats.utilisation {
        let what = if trace.has_workers() { "workers in kernels" } else { "cores in kernels" };
        facts += &fact("utilisation", share_of_time(share), share, what);
    }
    if let Some(cost) = recording::cost(trace, answers) {
        facts += &fact("recorder", cost.shown(), cost.waited_ns as f64, "waited for the recorder");
    }
    format!(
        "<section id=overview class=\"{class}\"><div>{said}</div><dl class=facts>{facts}</dl>{chain}{}{}</section>",
        answers.path.as_ref().filter(|path| path.parts.front_gap < path.makespan_ns).map_or(String::new(), tile),
        run_line(trace)
    )
}

/// What the run was, in a sentence; the section Run has the rest.
fn run_line(trace: &Trace) -> String {
    let facts = &trace.facts;
    let mut words = Vec::new();
    if facts.virtual_time {
        words
            .push(format!("Times are virtual: {} is a model here, and nothing was measured.", html::text(&facts.arch)));
    } else if facts.emulated {
        words.push(format!("{} is emulated: times are those of this machine's threads.", html::text(&facts.arch)));
    }
    let rounds = trace.manifest.as_ref().map_or(0, |manifest| manifest.rounds);
    let run: Vec<String> = [
        (!facts.engine.is_empty()).then(|| format!("engine {}", html::text(&facts.engine))),
        cores(trace),
        has_level(trace).then(|| format!("swimlane level {}", facts.level)),
        (rounds > 1).then(|| format!("{rounds} rounds")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !run.is_empty() {
        words.push(format!("Run: {}.", run.join(", ")));
    }
    if words.is_empty() {
        return String::new();
    }
    format!("<p class=soft id=run-line>{}</p>", words.join(" "))
}

/// Whether the swimlane's level is known: files of the reference without a swimlane do not tell it.
pub(super) fn has_level(trace: &Trace) -> bool {
    trace.manifest.is_some() || trace.facts.level > 0
}

/// How the makespan tiles: every part has a colour, and a row of the key with its share and its time.
fn tile(path: &PathSummary) -> String {
    let parts = &path.parts;
    let all = [
        ("kernel", Some(parts.kernel)),
        ("data wait", parts.data_wait),
        ("core wait", Some(parts.core_wait)),
        ("scheduling", parts.scheduling),
        ("submit", parts.submit),
        ("ring wait", parts.ring_wait),
        ("recorder wait", parts.recorder_wait),
        ("GIL wait", parts.gil_wait),
        ("front gap", Some(parts.front_gap)),
    ];
    let whole = path.makespan_ns.max(1) as f64;
    let (mut bars, mut key, mut x) = (String::new(), String::new(), 0.0);
    for (at, (name, ns)) in all.into_iter().enumerate() {
        let Some(ns) = ns.filter(|ns| *ns > 0) else { continue };
        let share = ns as f64 / whole;
        let words = format!("{name} {}", percent(share));
        let _ = write!(
            bars,
            "<rect class=p{at} x=\"{x:.2}\" width=\"{:.2}\" height=26><title>{words}</title></rect>",
            share * 1000.0
        );
        let _ = write!(
            key,
            "<li data-v=\"{ns}\"><svg viewBox=\"0 0 9 9\" aria-hidden=true><rect class=p{at} width=9 height=9 rx=2 /></svg>{words} · {}</li>",
            duration(ns as f64)
        );
        x += share * 1000.0;
    }
    format!(
        "<svg class=tile viewBox=\"0 0 1000 26\" preserveAspectRatio=none role=img aria-label=\"What the makespan is made of; the list below has the figures\">{bars}</svg><ul class=key id=parts>{key}</ul>"
    )
}

fn headline(trace: &Trace, answers: &Answers) -> String {
    if let Some(sched) = &answers.sched {
        let folded = unrecorded_parts(&sched.verdict_folds);
        let folded = folded.map_or(String::new(), |parts| format!(" This takes in {parts}."));
        return bound_by(sched.verdict, sched.verdict_share) + &folded;
    }
    let stats = &answers.stats;
    match (stats.makespan_ns, stats.utilisation) {
        (Some(ns), Some(share)) => format!(
            "{} tasks took {}; cores were in kernels for {} of it.",
            html::count(stats.tasks),
            duration(ns as f64),
            percent(share)
        ),
        (Some(ns), None) => format!("{} tasks took {}.", html::count(stats.tasks), duration(ns as f64)),
        // Files of the reference may hold dependencies or counters and nothing else.
        _ if trace.manifest.is_none() && trace.deps.is_some() => {
            let deps = trace.deps.as_ref();
            format!(
                "These files hold no times, but the dependencies of {} tasks.",
                html::count(deps.map_or(0, |deps| deps.tasks.len()) as u64)
            )
        }
        _ if trace.manifest.is_none() && !trace.counters.is_empty() => format!(
            "These files hold no times, but {} readings of counters.",
            html::count(trace.counters.rows.len() as u64)
        ),
        _ if trace.manifest.is_none() && answers.dump.is_some() => {
            let args = answers.dump.iter().flat_map(|dump| &dump.args);
            let tasks: BTreeSet<u64> = args.map(|arg| arg.task.with_round(arg.round)).collect();
            format!("These files hold no times, but captured arguments of {} tasks.", html::count(tasks.len() as u64))
        }
        _ if trace.manifest.is_none() && !trace.scopes.is_empty() => {
            "These files hold scope samples, and nothing about kernels or other tasks.".to_string()
        }
        _ => "No kernel ran, or no times of kernels were recorded.".to_string(),
    }
}

/// What bounds the run, in a sentence with the share of the makespan that decided.
fn bound_by(verdict: &str, share: f64) -> String {
    let share = percent(share);
    let what = match verdict {
        "ring" => "a ring: for {} of the makespan the next task of the critical path waited for room in a ring",
        "submitting" => "submitting: for {} of the makespan the next task of the critical path had not been submitted",
        "dependencies" => "dependencies: the longest chain of tasks alone takes {} of the makespan",
        "cores" => "cores: kernels alone take {} of the makespan on these cores",
        "kernels" => "kernels: for {} of the makespan the critical path is inside them",
        "scheduling" => "scheduling: for {} of the makespan the critical path waited for a scheduler, a core or data",
        "recording" => "recording: for {} of the makespan the critical path waited for the recorder",
        other => return format!("Bound by {}.", html::text(&other.replace('_', " "))),
    };
    format!("Bound by {}.", what.replace("{}", &share))
}

fn advice(answers: &Answers) -> String {
    let bound = answers.path.as_ref().map_or(String::new(), |path| {
        let longest = match path.edges {
            Some(1..) => "the longest chain of dependencies takes",
            Some(0) => "the longest task takes",
            None => "dependencies were not recorded, and the longest task takes",
        };
        if path.contradicts_itself() {
            let bound = duration(path.bound_ns as f64);
            return format!(
                "These files contradict themselves: by their {} the run takes {bound} at least. ",
                path.bound_by
            );
        }
        format!(
            "No schedule on these cores is shorter than {}; {longest} {}. ",
            duration(path.bound_ns as f64),
            duration(path.static_ns as f64)
        )
    });
    bound + &fullest(answers)
}

fn fullest(answers: &Answers) -> String {
    let Some(scope) = answers.scopes.scopes.first() else { return String::new() };
    let Some(fullest) = scope.resources.first().filter(|fullest| fullest.capacity > 0) else { return String::new() };
    let site = scope_of(answers, fullest.ring, fullest.resource, fullest.peak).map_or(&scope.site, |scope| &scope.site);
    let full = match fullness(fullest.peak, fullest.capacity) {
        share if fullest.beyond_capacity => share,
        share => format!("{share} of its capacity"),
    };
    format!(
        "The fullest of all rings and pools was the {}{}: {full}, in the scope at <code>{}</code>.",
        ring_prefix(fullest.ring),
        resource_name(fullest.resource),
        html::name(site)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_has_the_share_that_decided() {
        let words = bound_by("ring", 0.697);
        assert!(words.starts_with("Bound by a ring: for 69.7 % of the makespan"), "{words}");
        let words = bound_by("recording", 0.867);
        assert!(words.ends_with("for 86.7 % of the makespan the critical path waited for the recorder."), "{words}");
    }

    #[test]
    fn a_verdict_without_a_sentence_of_its_own_is_still_said() {
        assert_eq!(bound_by("some_thing<new>", 0.5), "Bound by some thing&lt;new&gt;.");
    }
}
