//! An explanation as one page of plain words.

use plimsoll_trace::{EndClass, Explanation};
use std::fmt::Write;

/// The most groups of waiting tasks that are told.
const GROUPS: usize = 8;

/// What ended a run or holds it up, who waits for whom, what is certain, what to try.
pub fn explanation(of: &Explanation) -> String {
    let mut text = format!("{}\n", of.verdict);
    if of.class == EndClass::Ok {
        return text;
    }
    // Writing into a string cannot fail.
    let _ =
        write_chain(&mut text, of).and_then(|()| write_groups(&mut text, of)).and_then(|()| write_rest(&mut text, of));
    text
}

fn write_chain(text: &mut String, of: &Explanation) -> std::fmt::Result {
    if of.chain.is_empty() {
        return Ok(());
    }
    let how = if of.closed { "a closed chain: nothing outside of it can end the wait" } else { "an open chain" };
    writeln!(text, "\nwho waits for whom ({how}):")?;
    let width = of.chain.iter().map(|link| link.name.chars().count()).max().unwrap_or(0);
    for (at, link) in of.chain.iter().enumerate() {
        let arrow = if at == 0 { " " } else { "→" };
        writeln!(text, "  {arrow} {:width$}  {}", link.name, link.does)?;
    }
    let blocker = &of.blocker;
    let Some(task) = &blocker.task else { return Ok(()) };
    let mut facts = Vec::new();
    facts.extend(blocker.site.as_ref().map(|site| format!("scope opened at {site}")));
    facts.extend((!blocker.arguments.is_empty()).then(|| format!("arguments {}", blocker.arguments.join(", "))));
    if !facts.is_empty() {
        writeln!(text, "  {task}: {}", facts.join("; "))?;
    }
    Ok(())
}

fn write_groups(text: &mut String, of: &Explanation) -> std::fmt::Result {
    for group in of.groups.iter().take(GROUPS) {
        let kernel = group.kernel.as_deref().unwrap_or("without a kernel");
        let site = group.site.as_ref().map_or(String::new(), |site| format!(" in the scope opened at {site}"));
        writeln!(text, "  {:>8} × {kernel}{site}, from {} on", group.tasks, group.first)?;
    }
    if of.groups.len() > GROUPS {
        writeln!(text, "  and {} more kinds", of.groups.len() - GROUPS)?;
    }
    Ok(())
}

fn write_rest(text: &mut String, of: &Explanation) -> std::fmt::Result {
    if of.certain {
        writeln!(text, "\nAll of this is certain.")?;
    } else {
        writeln!(text, "\nnot certain:")?;
        of.unsure.iter().try_for_each(|what| writeln!(text, "  {what}"))?;
    }
    if !of.advice.is_empty() {
        writeln!(text, "try:")?;
        let numbered = of.advice.iter().enumerate();
        numbered.into_iter().try_for_each(|(at, what)| writeln!(text, "  {}. {what}", at + 1))?;
    }
    Ok(())
}
