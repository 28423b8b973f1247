//! What hardware counters counted, by function, as `plimsoll stats` adds it up.

use plimsoll_analyze::CounterStats;

use super::super::Answers;
use super::super::html::{self, HtmlTable, TableCell};
use super::section;
use super::tables::number;

/// The section; nothing where no counter was read.
pub(super) fn counters(answers: &Answers) -> String {
    let Some(counters) = &answers.stats.counters else { return String::new() };
    let cycles = counters.has_cycles.then_some("cycles");
    let names: Vec<&str> = cycles.into_iter().chain(counters.names.iter().map(String::as_str)).collect();
    let ratios = counters.ratio_names.iter().map(|name| html::name(&name.replace('_', " ")));
    let heads: Vec<String> = ["function".to_string(), "#readings".to_string()]
        .into_iter()
        .chain(names.iter().map(|name| format!("#{}", html::name(&name.replace('_', " ")))))
        .chain(ratios.map(|name| format!("#{name}")))
        .collect();
    let mut table = HtmlTable::new("counter-table", &heads.iter().map(String::as_str).collect::<Vec<_>>());
    for function in &counters.functions {
        let each = cycles.map(|_| function.total_cycles_per_call).into_iter();
        let each = each.chain(function.counts_per_call.iter().copied());
        let mut cells = vec![TableCell::Text(html::name(&function.name)), number(function.count)];
        cells.extend(each.map(|count| TableCell::Number(per_call(count), count)));
        cells.extend(
            function
                .ratios
                .iter()
                .map(|ratio| ratio.map_or(TableCell::None, |ratio| TableCell::Number(format!("{ratio:.3}"), ratio))),
        );
        table.row("", &cells);
    }
    section(
        "counters",
        "Counters",
        &format!("{}<p class=soft>Counts are those of one call, on average.{}</p>", table.finish(), remarks(counters)),
    )
}

/// A count of one call: of rare events a call has a part of one.
fn per_call(count: f64) -> String {
    if count >= 100.0 || count.fract() == 0.0 { html::count(count.round() as u64) } else { format!("{count:.2}") }
}

/// What a reader should know of the counts.
fn remarks(counters: &CounterStats) -> String {
    let all_zero = counters.functions.iter().all(|f| f.total_cycles == 0 && f.counts.iter().all(|count| *count == 0));
    let mut words = String::new();
    if all_zero {
        words += " All are 0: a simulator has no counters.";
    }
    if counters.virtual_counts {
        words += " They are virtual: elements and bytes as the cost table has them, not a machine's counters.";
    }
    if counters.estimated > 0 {
        words += &format!(
            " {} readings are estimated in part: other processes used the counters, too.",
            html::count(counters.estimated)
        );
    }
    if counters.not_counted > 0 {
        words += &format!(" {} executions could not be counted.", html::count(counters.not_counted));
    }
    if let Some(note) = counters.note.as_ref().filter(|_| !counters.virtual_counts) {
        words += &format!(" {}", html::with_code(note));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_events_are_not_rounded_away() {
        assert_eq!([0.0, 0.01, 3.0, 99.5, 1234.4].map(per_call), ["0", "0.01", "3", "99.50", "1,234"]);
    }
}
