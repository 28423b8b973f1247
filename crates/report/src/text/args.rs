//! Captured arguments for a terminal.

use std::fmt::Write;

use plimsoll_analyze::{ArgRow, ArgsAnswer, ArgsDifference, FirstDifference, FirstNan, NanSearch};

use super::{Table, duration};

/// What a command asked of captured arguments.
pub fn args(answer: &ArgsAnswer) -> String {
    let mut out = String::new();
    if !answer.args.is_empty() {
        out.push_str(&table(&answer.args));
    }
    for row in answer.args.iter().filter(|row| row.values.is_some()) {
        let values: Vec<String> = row.values.iter().flatten().map(|value| value.to_string().replace('"', "")).collect();
        let _ = writeln!(out, "{} arg {} {}: {}", row.task, row.index, row.stage.name(), values.join(" "));
    }
    for note in &answer.notes {
        let _ = writeln!(out, "{note}");
    }
    out
}

fn table(rows: &[ArgRow]) -> String {
    let with_stats = rows.iter().any(|row| row.stats.is_some());
    let mut head = vec!["task", "kernel", "arg", "role", "stage", "dtype", "shape"];
    if with_stats {
        head.extend(["min", "max", "mean", "nan", "inf"]);
    }
    let mut table = Table::new(&head);
    for row in rows {
        let offset = row.start_offset.filter(|at| *at > 0).map_or(String::new(), |at| format!(" at element {at}"));
        let shape = match &row.value {
            Some(value) => format!("= {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
            None if !row.captured => format!("{:?}{offset} no elements", row.shape),
            None if row.truncated => format!("{:?}{offset} truncated", row.shape),
            None => format!("{:?}{offset}", row.shape),
        };
        let round = if row.round > 0 { format!(" round {}", row.round) } else { String::new() };
        let mut cells = vec![
            format!("{}{round}", row.task),
            row.kernel.clone(),
            row.index.to_string(),
            row.role.name().to_owned(),
            row.stage.name().to_owned(),
            row.dtype.clone(),
            shape,
        ];
        if let Some(stats) = &row.stats {
            let number = |value: Option<f64>| value.map_or("-".to_owned(), short);
            cells.extend([stats.min, stats.max, stats.mean].map(number));
            cells.extend([stats.nan, stats.inf].map(|count| count.to_string()));
        }
        table.rows.push(cells);
    }
    table.to_string()
}

/// A number with as many digits as a column has room for.
fn short(value: f64) -> String {
    let plain = value == 0.0 || (1e-4..1e7).contains(&value.abs());
    if plain { format!("{value:.6}") } else { format!("{value:.4e}") }
}

/// Who made the first NaN, as sentences.
pub fn first_nan(answer: &ArgsAnswer, inf: bool) -> String {
    let what = if inf { "NaN or Inf" } else { "NaN" };
    let search = answer.nan_search.unwrap_or_default();
    let mut text = match &answer.first_nan {
        Some(found) => found_nan(found),
        None if search.searched_tasks + search.not_searched == search.nothing_searched => {
            format!("Whether a task made a {what} is not known: no elements of outputs were captured.\n")
        }
        None if search.not_searched > 0 => {
            format!("No {what} was found that a task made out of finite inputs, in what was captured.\n")
        }
        None => format!("No captured task made a {what} out of finite inputs.\n"),
    };
    let NanSearch { searched_tasks, not_searched, nothing_searched } = search;
    if not_searched > 0 && searched_tasks + not_searched > nothing_searched {
        let before = if answer.first_nan.is_some() { " up to that one" } else { "" };
        let _ = writeln!(
            text,
            "Outputs of {searched_tasks} of {} tasks{before} were searched as a whole; of {} only a part was captured, of {nothing_searched} nothing.",
            searched_tasks + not_searched,
            not_searched - nothing_searched
        );
    }
    text
}

fn found_nan(found: &FirstNan) -> String {
    let mut text = format!(
        "{} ({}, round {}) made the first {}: argument {} has {} of them, the first at {:?}.\n",
        found.task,
        found.kernel,
        found.round,
        if found.what == "nan" { "NaN" } else { "Inf" },
        found.index,
        found.count,
        found.at
    );
    text += &unknown_inputs(found.inputs_unknown, found.may_lack_inputs, "finite");
    text
}

/// What is not known of the inputs of a task; nothing if all is.
fn unknown_inputs(unknown: u64, may_lack: bool, like: &str) -> String {
    let mut text = String::new();
    if unknown > 0 {
        let inputs = if unknown == 1 { "1 of its inputs was".into() } else { format!("{unknown} of its inputs were") };
        let _ = writeln!(text, "{inputs} not captured as a whole: whether they were {like} is not known.");
    }
    if may_lack {
        let _ =
            writeln!(text, "Only marked arguments were captured: whether its other inputs were {like} is not known.");
    }
    text
}

/// Where two runs part, as sentences.
pub fn args_diff(answer: &ArgsAnswer) -> String {
    let Some(diff) = &answer.diff else { return String::new() };
    let (whole, partly) = (diff.compared_tasks, diff.not_compared - diff.nothing_compared);
    let both = whole + diff.not_compared;
    let mut text = match &diff.first {
        Some(first) => parting(first, diff),
        None if both == 0 && diff.other_kernels > 0 => {
            "Nothing was compared: no task ran the same kernel in both.\n".to_string()
        }
        None if both == 0 => "Nothing was compared: no task is in both.\n".to_string(),
        None if whole + partly == 0 => {
            format!("Nothing was compared: of none of {both} tasks an output was captured in both.\n")
        }
        None if diff.other_inputs > 0 => format!(
            "No task made something else of the same inputs. {} tasks had other inputs to begin with.\n",
            diff.other_inputs
        ),
        None if diff.not_compared > 0 => "No difference was found in what was captured in both.\n".to_string(),
        None if diff.other_kernels > 0 => format!("{whole} tasks made the same.\n"),
        None => format!("All {whole} tasks made the same.\n"),
    };
    if diff.not_compared > 0 && whole + partly > 0 {
        let before = if diff.first.is_some() { " up to that one" } else { "" };
        let _ = writeln!(
            text,
            "Outputs of {whole} of {both} tasks{before} were compared as a whole; of {partly} only a part was captured in both, of {} nothing.",
            diff.nothing_compared
        );
    }
    if diff.other_kernels > 0 {
        let _ =
            writeln!(text, "{} tasks ran another kernel in the other run, and are not compared.", diff.other_kernels);
    }
    if diff.unmatched_tasks > 0 {
        let _ = writeln!(text, "{} tasks are in one of the two only.", diff.unmatched_tasks);
    }
    text
}

/// The first difference, and how much is known of the inputs that it was made of.
fn parting(first: &FirstDifference, diff: &ArgsDifference) -> String {
    let unknown = unknown_inputs(diff.first_inputs_unknown, diff.first_may_lack_inputs, "the same");
    let inputs = if unknown.is_empty() { " though its inputs are the same" } else { "" };
    format!("{} is the first task whose outputs differ{inputs}: {}\n{unknown}", first.task, extent(first))
}

fn extent(first: &FirstDifference) -> String {
    if let Some([here, there]) = &first.forms {
        let FirstDifference { index, kernel, round, .. } = first;
        return format!("argument {index} of {kernel} (round {round}) is {here} here and {there} there.");
    }
    let mut text = format!(
        "argument {} of {} (round {}) differs in {} of {} elements, the first at {:?}",
        first.index, first.kernel, first.round, first.elements, first.of, first.at
    );
    if let Some([here, there]) = first.values {
        let _ = write!(text, " ({here} here, {there} there)");
    }
    if let Some(distance) = first.max_abs {
        let _ = write!(text, ", by {distance:.3e} at most");
    }
    text + "."
}

/// What came of running a task again, as sentences.
pub fn args_replay(answer: &ArgsAnswer) -> String {
    let Some(replay) = &answer.replay else { return String::new() };
    let mut text = match &replay.first {
        None if replay.not_compared > 0 => format!(
            "{} ({}) ended well this time. It had not completed when it was captured, so {} of its results are not compared.\n",
            replay.task, replay.kernel, replay.not_compared
        ),
        None => format!("{} ({}) made the same again, bit by bit.\n", replay.task, replay.kernel),
        Some(first) => {
            format!("{} ({}) made something else this time: {}\n", replay.task, replay.kernel, extent(first))
        }
    };
    if replay.unwritten > 0 {
        let _ = writeln!(
            text,
            "{} elements of its outputs are left as they were by the kernel, and not compared.",
            replay.unwritten
        );
    }
    if let (Some(min), Some(median)) = (replay.min_ns, replay.median_ns) {
        let (min, median) = (duration(min as f64), duration(median as f64));
        let _ = match replay.times {
            1 => writeln!(text, "Its kernel took {min} on one worker; --times N measures it."),
            times => writeln!(text, "{times} times on one worker: least {min}, median {median}."),
        };
    }
    text
}
