//! How a dead run died: the explanation first, and who waited for whom, drawn.

use plimsoll_trace::{ErrorReport, Trace};

use super::super::html;
use super::{resource_name, ring_prefix};

/// The explanation in the place of a good run's verdict, and the chain below it; none for a run that ended well.
pub(super) fn explained(trace: &Trace) -> Option<(String, String)> {
    let error = trace.manifest.as_ref()?.error.as_ref()?;
    let sentences = error.explanation.split_inclusive(". ");
    // What to do about it is what comes last, and stands apart.
    let (why, what): (Vec<&str>, Vec<&str>) = sentences.partition(|sentence| !is_advice(sentence));
    let advice = if what.is_empty() {
        String::new()
    } else {
        format!("<p class=try><b>Try:</b> {}</p>", html::text(&what.concat()))
    };
    let said = format!(
        "<h2>The run ended with {}.</h2><p>{}</p>{advice}",
        html::text(&error.name),
        html::text(&capitalised(&why.concat()))
    );
    Some((said, chain(trace, error)))
}

fn is_advice(sentence: &str) -> bool {
    ["To its end", "Use ", "Enlarge", "If the scope repeats", "Mend ", "Give ", "Choose", "Allow"]
        .iter()
        .any(|start| sentence.trim_start().starts_with(start))
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// Who waited for whom.
fn chain(trace: &Trace, error: &ErrorReport) -> String {
    let links = if error.resource.is_some() { for_room(error) } else { around_the_task(trace, error) };
    if links.is_empty() {
        return String::new();
    }
    let items: String = links.iter().map(|(how, what)| format!("<li><span>{how}</span><b>{what}</b></li>")).collect();
    format!("<div class=waited><h3>What waited for what</h3><ol class=chain id=hang>{items}</ol></div>")
}

/// A full resource: the orchestrator waits for room that only it can make.
fn for_room(error: &ErrorReport) -> Vec<(&'static str, String)> {
    let Some(resource) = &error.resource else { return Vec::new() };
    let figures = match (error.used, error.capacity) {
        (Some(used), Some(capacity)) => {
            format!("{} of {} in use", html::amount(used, resource), html::amount(capacity, resource))
        }
        _ => "in use".to_string(),
    };
    let mut links = vec![
        ("the orchestrator", "waits in submit".to_string()),
        ("for room", format!("{}{}: {figures}", ring_prefix(error.ring), resource_name(resource))),
    ];
    if let Some(site) = &error.site {
        links.push(("held by the open scope", format!("<code>{}</code>", html::name(site))));
    }
    links.push(("which only", "the orchestrator can close".to_string()));
    links
}

/// A task that failed or does not end, and where.
fn around_the_task(trace: &Trace, error: &ErrorReport) -> Vec<(&'static str, String)> {
    let mut links = Vec::new();
    if let Some(task) = &error.task {
        let kernel = error.kernel.as_deref().map_or(String::new(), |kernel| format!(" · {}", html::name(kernel)));
        links.push((
            "the task",
            format!("<button type=button class=link data-task=\"{0}\">{0}</button>{kernel}", html::text(task)),
        ));
    }
    if let Some(core) = error.core {
        links.push(("on", html::text(&trace.core_name(core))));
    }
    if let Some(site) = &error.site {
        links.push(("in the scope", format!("<code>{}</code>", html::name(site))));
    }
    links
}
