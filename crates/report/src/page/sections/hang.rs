//! How a dead run died: the explanation first, then who waited for whom, drawn. All of it reads without scripts.

use plimsoll_trace::{ChainLink, EndClass, Explanation, Trace, WaitGroup};

use super::super::{Answers, html};

/// The most groups of waiting tasks that are shown.
const GROUPS: usize = 6;

/// The explanation in the place of a good run's verdict, and the chain below it; none for a run that ended well or goes on.
pub(super) fn explained(trace: &Trace, answers: &Answers) -> Option<(String, String)> {
    let of = answers.explanation.as_ref()?;
    let error = trace.manifest.as_ref().and_then(|manifest| manifest.error.as_ref());
    let (heading, words) = match error {
        Some(error) => (format!("The run ended with {}.", html::text(&error.name)), after_the_code(&of.verdict)),
        None if of.class == EndClass::Killed => ("The run was killed.".to_string(), after_the_kill(&of.verdict)),
        None => (format!("The run did not end well: {}.", of.class.name()), of.verdict.as_str()),
    };
    let words = html::with_code(&capitalised(words));
    let said = format!("<h2>{heading}</h2><p>{words}</p>{}{}", certainty(of), advice(of));
    Some((said, drawn(of)))
}

/// A verdict without the words that a killed run's heading has. Its manifest still says that it runs, which would confuse here.
fn after_the_kill(verdict: &str) -> &str {
    verdict.split_once("it was killed. ").map_or(verdict, |(_, words)| words)
}

/// A verdict without the name and the number of the error, which the heading has.
fn after_the_code(verdict: &str) -> &str {
    verdict.split_once("): ").map_or(verdict, |(_, words)| words)
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn certainty(of: &Explanation) -> String {
    if of.certain {
        return String::new();
    }
    format!("<p class=soft id=unsure>Not certain: {}</p>", html::text(&of.unsure.join(" ")))
}

fn advice(of: &Explanation) -> String {
    let items: String = of.advice.iter().map(|what| format!("<li>{}</li>", html::with_code(what))).collect();
    if items.is_empty() { items } else { format!("<div class=try><b>Try:</b><ol>{items}</ol></div>") }
}

/// Who waited for whom, link by link, and how many waited behind it.
fn drawn(of: &Explanation) -> String {
    if of.chain.is_empty() {
        return String::new();
    }
    let last = of.chain.len() - 1;
    let items: String = of.chain.iter().enumerate().map(|(at, link)| item(link, at == last, of)).collect();
    let how = if of.closed { " · a closed chain: nothing outside of it can end the wait" } else { "" };
    format!(
        "<div class=waited><h3>What waited for what{how}</h3><ol class=chain id=hang>{items}</ol>{}{}</div>",
        behind(of),
        clocks(of)
    )
}

fn item(link: &ChainLink, is_last: bool, of: &Explanation) -> String {
    let name = match &link.task {
        Some(task) => html::text(&link.name).replacen(html::text(task).as_str(), &html::task(task), 1),
        None => html::text(&link.name),
    };
    let mut facts = String::new();
    if is_last && !of.closed {
        facts.extend(of.blocker.site.iter().map(|site| format!("<code>{}</code>", html::name(site))));
        facts.extend(of.blocker.arguments.iter().map(|arg| format!("<code>{}</code>", html::text(arg))));
    }
    let class = match (is_last, of.closed) {
        (true, false) => " class=blocker",
        (true, true) => " class=back",
        _ => "",
    };
    format!("<li{class}><b>{name}</b><span>{}</span>{facts}</li>", html::text(&link.does))
}

/// Says which times are meant where two clocks tell how long the blocker ran: that of the verdict stopped when it was given up.
fn clocks(of: &Explanation) -> String {
    let link = of.chain.last().filter(|_| !of.closed).map_or("", |link| link.does.as_str());
    match link.rsplit_once(" for ") {
        Some((_, age)) if of.verdict.contains("has not returned for ") => format!(
            "<p class=soft id=clocks>The verdict's time is how long it had run when it was given up; {} is how long when the run was left.</p>",
            html::text(age)
        ),
        _ => String::new(),
    }
}

/// The tasks that waited, by kernel and scope.
fn behind(of: &Explanation) -> String {
    let row = |group: &WaitGroup| {
        let kernel = group.kernel.as_deref().unwrap_or("without a kernel");
        let site = group.site.as_ref().map_or(String::new(), |site| format!(" in <code>{}</code>", html::name(site)));
        format!("{} × {}{site} from {} on", html::count(group.tasks), html::name(kernel), html::text(&group.first))
    };
    let rows: Vec<String> = of.groups.iter().take(GROUPS).map(row).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("<p class=soft id=behind>Behind it: {}.</p>", rows.join("; ")),
    }
}
