//! What the scheduler cost, in the reference's definitions, is what its own tool prints of the same files.

use crate::samples_dir::{RUNS, samples};
use plimsoll_analyze::{Distribution, Sched, sched};

/// The words after a label in the text.
fn after<'t>(text: &'t str, label: &str) -> Vec<&'t str> {
    let line = text.lines().find(|line| line.trim_start().starts_with(label)).unwrap_or_else(|| panic!("{label}"));
    line.trim_start()[label.len()..].split_whitespace().collect()
}

fn number(word: &str) -> f64 {
    let digits: String = word.chars().filter(|c| c.is_ascii_digit() || *c == '.' || *c == '-').collect();
    digits.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

#[track_caller]
fn same(ours: f64, theirs: f64, places: i32, what: &str) {
    // One more than half of the last place: the reference divides rounded figures by each other.
    assert!((ours - theirs).abs() <= 0.5 * 10f64.powi(-places) + 1e-6, "{what}: ours {ours}, theirs {theirs}");
}

fn percentages(text: &str, label: &str) -> Vec<f64> {
    let line = text.lines().find(|line| line.contains(label)).unwrap_or_else(|| panic!("{label}"));
    line.split_whitespace().filter(|word| word.ends_with('%')).map(number).collect()
}

fn distribution(text: &str, title: &str, ours: &Distribution, run: &str) {
    let part = text.split(title).nth(1).expect("its part");
    for (label, ns) in [("P10", ours.p10), ("P50", ours.p50), ("P90", ours.p90), ("P99", ours.p99), ("Max:", ours.max)]
    {
        same(ns as f64 / 1e3, number(after(part, label)[0]), 2, &format!("{run}: {title} {label}"));
    }
    let mean = after(part, "Mean:");
    same(ours.mean / 1e3, number(mean[0]), 2, &format!("{run}: {title} mean"));
    same(ours.total as f64 / 1e3, number(mean[3]), 1, &format!("{run}: {title} total"));
    assert!(part.starts_with(&format!("{})", ours.count)), "{run}: {title}");
}

fn check_loops(text: &str, ours: &Sched, run: &str) {
    let budget = ours.loops.as_ref().expect("level 4");
    let sum = after(text, "SUM");
    assert_eq!(number(sum[0]) as u64, budget.loops, "{run}");
    assert_eq!(number(sum[1]) as u64, budget.schedulers.iter().map(|s| s.tasks).sum::<u64>(), "{run}");
    same(budget.ns_per_loop, number(sum[2]), 0, &format!("{run}: ns per loop"));
    same(budget.total_ns as f64 / 1e3, number(sum[3]), 1, &format!("{run}: loop time"));
    let phase = |name: &str| budget.phases.get(name).copied().unwrap_or(0) as f64 / 1e3;
    for (label, name) in [
        ("Complete (poll handshake, resolve deps)", "complete"),
        ("Dispatch (pop queue, build payload, flush)", "dispatch"),
    ] {
        same(phase(name), number(after(text, label)[0]), 1, &format!("{run}: {name}"));
    }
    // Fold: the reference calls idle what is neither of three phases; ours is what no phase covers.
    let idle = budget.total_ns as f64 / 1e3 - phase("complete") - phase("dispatch") - phase("async_poll");
    same(idle, number(after(text, "Idle (spinning, no progress — reconstructed from gaps)")[0]), 1, run);
    assert!(phase("idle") <= idle + 1e-3, "{run}");
    let pop = after(text, "Pop:");
    assert_eq!((number(pop[0]) as u64, number(pop[1]) as u64), (budget.pop_hit, budget.pop_miss), "{run}");
    same(budget.pop_hit_rate * 100.0, number(pop[2]), 1, run);
}

#[test]
fn the_schedulers_cost_is_the_references() {
    let Some(samples) = samples() else { return };
    for run in RUNS {
        let dir = samples.join(run);
        let text = std::fs::read_to_string(dir.join("sched_overhead_analysis.txt")).expect("the tool's report");
        let mut request = plimsoll_trace::Request::new(dir.join("swimlane_l4/chip_swimlane_records.json"));
        request.deps = Some(dir.join("dep_gen/deps.json"));
        let trace = plimsoll_trace::open_request(&request).expect("readable");
        let ours = sched(&trace).expect("tasks ran");
        assert_eq!(number(after(&text, "Total tasks:")[0]) as u64, ours.executions, "{run}");
        same(ours.makespan_ns as f64 / 1e3, number(after(&text, "Total tasks:")[2]), 1, run);
        let overhead = ours.overhead.reference.as_ref().expect("level 4");
        let classes: Vec<f64> = overhead.by_class.values().map(|share| share * 100.0).collect();
        let theirs = percentages(&text, "Per-engine overhead:");
        assert_eq!(classes.len(), theirs.len(), "{run}: {theirs:?}");
        for (ours, theirs) in classes.iter().zip(theirs) {
            same(*ours, theirs, 1, &format!("{run}: overhead of a class"));
        }
        let system = percentages(&text, "System: all_overhead");
        same(overhead.all * 100.0, system[0], 1, &format!("{run}: all"));
        same(overhead.has * 100.0, system[1], 1, &format!("{run}: has"));
        for (label, class) in [("C (AIC)    ", "aic"), ("V (AIV)    ", "aiv")] {
            let Some(ours) = ours.switch.by_class.get(class) else { continue };
            let words = after(&text, label);
            assert_eq!((number(words[0]) as u64, number(words[4]) as u64), (ours.cores, ours.count), "{run}: {class}");
            same(ours.min_ns as f64 / 1e3, number(words[1]), 1, run);
            same(ours.mean_ns / 1e3, number(words[2]), 1, run);
            same(ours.max_ns as f64 / 1e3, number(words[3]), 1, run);
            same(ours.gap_ns / 1e3, number(words[5]), 2, run);
        }
        distribution(&text, "Head OH distribution (N=", ours.head_ns.as_ref().expect("level 4"), run);
        distribution(&text, "Tail OH distribution (N=", ours.tail_ns.as_ref().expect("level 4"), run);
        check_loops(&text, &ours, run);
    }
}
