//! How a run went, for people and for programs.

use super::junit::{CaseVerdict, TestCase};
use super::machine::MachineFacts;
use crate::read::run_argument;
use crate::wording::in_flags;
use plimsoll::Error;
use plimsoll::abi::Resource;
use plimsoll::report::text::{duration, percent};
use plimsoll::run::{Load, RunReport};
use plimsoll::trace::manifest::{CounterFacts, Ledger, TransportFacts};
use plimsoll::trace::{self, Manifest, Status};
use plimsoll_programs::Verdict;
use std::path::Path;

/// How a run went.
pub(super) struct RunOutcome {
    program: &'static str,
    machine: MachineFacts,
    report: RunReport,
    error: Option<Error>,
    verdict: Option<Verdict>,
    /// Files that were left out because the run is large.
    without_forms: bool,
    /// The account of its records, from its manifest.
    reconcile: Option<Ledger>,
    /// How its records were reached, and what was moved for that.
    transport: Option<TransportFacts>,
    /// What was counted while its tasks ran.
    counters: Option<CounterFacts>,
    /// Why the files for viewers could not be written.
    unwritten: Option<anyhow::Error>,
    /// When its kernels ran.
    times: KernelTimes,
}

/// When the kernels of a run ran, as its records say; nothing if it was not recorded or nothing ran.
#[derive(Clone, Copy, Default)]
struct KernelTimes {
    makespan_ns: Option<u64>,
    utilisation: Option<f64>,
}

impl KernelTimes {
    fn of(dir: &Path) -> anyhow::Result<Self> {
        let (time, cores, clock) = trace::kernel_time(dir)?;
        Ok(Self { makespan_ns: time.makespan_ns(&clock), utilisation: time.utilisation(cores) })
    }
}

impl RunOutcome {
    pub(super) fn new(
        program: &'static str,
        machine: MachineFacts,
        report: &RunReport,
        error: Option<Error>,
        verdict: Option<Verdict>,
    ) -> Self {
        let report = report.clone();
        Self {
            program,
            machine,
            report,
            error,
            verdict,
            without_forms: false,
            reconcile: None,
            transport: None,
            counters: None,
            unwritten: None,
            times: KernelTimes::default(),
        }
    }

    /// Whether the command should exit with 0.
    pub(super) fn good(&self, require_lossless: bool) -> bool {
        let verified = self.verdict.as_ref().is_none_or(|verdict| verdict.verified);
        let lossless = self.reconcile.as_ref().is_none_or(|ledger| ledger.lossless && ledger.balanced);
        self.error.is_none() && self.unwritten.is_none() && verified && (lossless || !require_lossless)
    }

    fn status(&self) -> &'static str {
        Status::of(self.error.as_ref().map(Error::code)).name()
    }

    /// The run as a test case of this name.
    pub(super) fn case(&self, name: &str, require_lossless: bool) -> TestCase {
        let wrong = self.verdict.as_ref().filter(|verdict| !verdict.verified);
        let lost = self.reconcile.as_ref().is_some_and(|ledger| !ledger.lossless || !ledger.balanced);
        let failed = |kind: &str, text: String| CaseVerdict::Failed { kind: kind.to_owned(), text };
        let verdict = match (&self.error, wrong) {
            (Some(error), _) => {
                CaseVerdict::Error { kind: error.code().name().to_owned(), text: in_flags(&error.to_string()) }
            }
            (None, Some(verdict)) => failed("WrongResult", verdict.detail.clone()),
            (None, None) if lost && require_lossless => {
                failed("RecordsLost", "Records were lost. `plimsoll check` tells which.".to_owned())
            }
            (None, None) => CaseVerdict::Passed,
        };
        let out = self.report.dir.as_ref().map(|dir| dir.display().to_string());
        TestCase {
            name: name.to_owned(),
            class: format!("plimsoll.{}", self.machine.engine),
            elapsed_ns: self.report.elapsed_ns,
            properties: vec![("status", self.status().to_owned()), ("out", out.unwrap_or_default())],
            verdict,
        }
    }

    /// Whether a signal, or what stands for one, ended the run.
    pub(super) fn interrupted(&self) -> bool {
        self.status() == Status::Interrupted.name()
    }

    /// Notes the verdict in the manifest and writes the files for viewers. The records are safe by now: what cannot be
    /// written here can be written later, from elsewhere.
    pub(super) fn export(&mut self) {
        let Some(out) = self.report.dir.clone() else { return };
        if let Err(error) = self.read(&out) {
            return self.not_written(error);
        }
        match plimsoll::record::export_run(&out, self.verdict.as_ref().map(|verdict| verdict.verified)) {
            Ok(written) => self.without_forms = !written,
            Err(error) => self.not_written(error.into()),
        }
    }

    /// The run's directory, if it was recorded.
    pub(super) fn dir(&self) -> Option<&Path> {
        self.report.dir.as_deref()
    }

    /// Takes from the run's directory what only its records tell.
    fn read(&mut self, out: &Path) -> anyhow::Result<()> {
        let manifest = Manifest::read(out)?;
        self.reconcile = manifest.reconcile;
        self.transport = manifest.transport;
        self.counters = manifest.counters;
        self.times = KernelTimes::of(out)?;
        Ok(())
    }

    fn not_written(&mut self, error: anyhow::Error) {
        eprintln!("plimsoll: The files for viewers could not all be written. {error} `plimsoll export` tries again.");
        self.unwritten = Some(error);
    }

    /// Whether the result is right; nothing if the program cannot tell.
    fn verified(&self) -> Option<bool> {
        let checked = self.verdict.as_ref().map(|verdict| verdict.verified);
        if self.error.is_some() { Some(false) } else { checked }
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let error = self.error.as_ref().map(|error| {
            serde_json::json!({
                "code": error.code().number(),
                "name": error.code().name(),
                "explanation": in_flags(error.explanation()),
                "resource": error.resource().map(Resource::name),
                "ring": error.ring(),
                "site": error.site(),
                "used": error.used(),
                "capacity": error.capacity(),
                "needed": error.needed(),
                "needed_is_bound": error.needed_is_bound(),
                "task": error.task().map(|task| task.to_string()),
                "kernel": error.kernel(),
                "class": error.stall_class().map(|class| class.name()),
            })
        });
        serde_json::json!({
            "status": self.status(),
            "error": error,
            "program": self.program,
            "engine": self.machine.engine,
            "arch": self.machine.arch,
            "virtual": self.machine.virtual_time,
            "emulated": self.machine.emulated,
            "isolated": self.machine.isolated,
            "tasks": self.report.tasks,
            "dispatches": self.report.dispatches,
            "left_behind": self.report.left_behind,
            "makespan_ns": self.times.makespan_ns,
            "elapsed_ns": self.report.elapsed_ns,
            "utilisation": self.times.utilisation,
            "verified": self.verified(),
            "detail": self.verdict.as_ref().map(|verdict| &verdict.detail),
            "out": self.report.dir,
            "reconcile": self.reconcile,
            "transport": self.transport,
            "counters": self.counters,
            "conservative_overlaps": self.report.conservative_overlaps,
            "conservative_sites": self.report.conservative_sites.iter()
                .map(|(site, count)| serde_json::json!({ "site": site, "count": count }))
                .collect::<Vec<_>>(),
            "load": self.report.load.iter().map(load_json).collect::<Vec<_>>(),
        })
    }

    pub(super) fn print(&self) {
        match (&self.error, &self.verdict) {
            (Some(error), _) => eprintln!("{}: {}\n{}", self.program, self.status(), in_flags(&error.to_string())),
            (None, Some(verdict)) => {
                let word = if verdict.verified { "verified" } else { "NOT verified" };
                println!("{}: {word} ({})", self.program, verdict.detail);
            }
            (None, None) => println!("{}: done", self.program),
        }
        if !self.report.workers.is_empty() {
            self.print_times();
            self.print_load();
            self.print_guesses();
        }
        self.print_records();
        if self.report.left_behind > 0 {
            let (count, s) = (self.report.left_behind, if self.report.left_behind == 1 { "" } else { "s" });
            println!(
                "  {count} thread{s} did not come back and {} left behind",
                if count == 1 { "was" } else { "were" }
            );
        }
        println!("next: {}", self.next());
    }

    /// What to do next, as lines to paste: those that read the run name it unless they find it by themselves.
    fn next(&self) -> String {
        let code = self.error.as_ref().map(|error| format!("plimsoll explain --code {}", error.code().number()));
        match (code, &self.report.dir) {
            (Some(code), Some(dir)) => {
                let dir = trace::for_shell(dir);
                format!("plimsoll explain {dir} · {code} · plimsoll report {dir} --open")
            }
            (Some(code), None) => code,
            (None, Some(dir)) => {
                let run = run_argument(dir);
                format!(
                    "plimsoll stats{run} · plimsoll report{run} --open · plimsoll scopes{run} · plimsoll check{run}"
                )
            }
            (None, None) => format!("plimsoll run {} --profile", trace::for_shell(self.program)),
        }
    }

    fn print_times(&self) {
        let r = &self.report;
        let elapsed = duration(r.elapsed_ns as f64);
        let done = if self.error.is_some() {
            // Not all tasks ran, so a rate per task would mean nothing. A task in blocks has many dispatches.
            format!("{} dispatches of {} tasks in {elapsed}", grouped(r.dispatches), grouped(r.tasks))
        } else {
            // In virtual time a run may be shorter than a tick.
            let rate = (r.elapsed_ns > 0).then(|| r.tasks as f64 / (r.elapsed_ns as f64 / 1e9));
            let rate = rate.map_or(String::new(), |rate| format!(", {} tasks/s", grouped(rate as u64)));
            format!("{} tasks in {elapsed}{rate}", grouped(r.tasks))
        };
        let makespan = self.times.makespan_ns.map_or(String::new(), |ns| format!(", makespan {}", duration(ns as f64)));
        let used = self.times.utilisation.map_or(String::new(), |share| format!(", {} in kernels", percent(share)));
        println!(
            "  {}{done}{makespan}; {} {}{used}",
            self.machine.title(),
            r.workers.len(),
            if self.machine.has_cores { "cores" } else { "workers" },
        );
    }

    fn print_load(&self) {
        let used: Vec<&Load> = self.report.load.iter().filter(|load| load.peak > 0).collect();
        let Some(fullest) = used.iter().max_by(|a, b| a.share().total_cmp(&b.share())) else { return };
        let rows: Vec<String> = used
            .iter()
            .map(|load| {
                let mark = if std::ptr::eq(*load, *fullest) { "*" } else { "" };
                format!("{}{mark} {}", place(load), amount(load))
            })
            .collect();
        println!("  load: {}", rows.join(" · "));
        let site = fullest.site.as_deref().unwrap_or("an unknown scope");
        println!("  * fullest: {} of {}, in the scope at {site}", percent(fullest.share()), place(fullest));
    }

    /// Views that are no boxes of their buffer, and writes that stand for many uses of different parts, make tasks wait for others
    /// that they may not need.
    fn print_guesses(&self) {
        let sites = &self.report.conservative_sites;
        if self.report.conservative_overlaps > 0 {
            let text = |(site, count): &(String, u64)| format!("{} in the scope at {site}", grouped(*count));
            println!(
                "  {} overlaps may be false, of views that are no boxes or of many parts of one buffer: {}",
                grouped(self.report.conservative_overlaps),
                sites.iter().map(text).collect::<Vec<_>>().join(", ")
            );
        }
    }

    fn print_records(&self) {
        let (Some(out), Some(ledger)) = (&self.report.dir, &self.reconcile) else { return };
        let total: u64 = ledger.pools.iter().map(|pool| pool.total).sum();
        let word = if ledger.lossless { "nothing lost" } else { "RECORDS LOST: see plimsoll check" };
        println!("  {} records, {word}: {}", grouped(total), out.display());
        if let Some(transport) = self.transport.as_ref().filter(|transport| transport.bytes_read > 0) {
            let (read, written) = (bytes(transport.bytes_read), bytes(transport.bytes_written));
            let note = transport.note.as_ref().map_or_else(String::new, |note| format!("; {note}"));
            println!("  {} transport by {}: {read} read, {written} written back{note}", transport.kind, transport.way);
        }
        if let Some(counters) = &self.counters {
            let (group, asked) = (&counters.group, &counters.asked);
            let marked = if counters.virtual_counts { " (virtual)" } else { "" };
            let instead = if group == asked { String::new() } else { format!(" instead of {asked}") };
            println!("  counters: {group}{marked}{instead}; `plimsoll stats` shows them by function");
            if let Some(note) = &counters.note {
                println!("    {note}");
            }
        }
        if self.without_forms {
            println!(
                "  more than {} tasks: `plimsoll export` writes the files for viewers",
                grouped(plimsoll::record::EXPORT_LIMIT)
            );
        }
    }
}

fn place(load: &Load) -> String {
    match load.ring {
        Some(ring) => format!("r{ring} {}", load.resource),
        None => load.resource.to_string(),
    }
}

fn amount(load: &Load) -> String {
    let show = |value| if load.resource == Resource::Heap { bytes(value) } else { grouped(value) };
    format!("{}/{}", show(load.peak), show(load.capacity))
}

fn load_json(load: &Load) -> serde_json::Value {
    serde_json::json!({
        "resource": load.resource.name(), "ring": load.ring, "peak": load.peak, "capacity": load.capacity, "site": load.site,
    })
}

/// A number with its thousands apart.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn bytes(value: u64) -> String {
    match value {
        0..1024 => format!("{value} B"),
        1024..1_048_576 => format!("{:.1} KiB", value as f64 / 1024.0),
        _ => format!("{:.1} MiB", value as f64 / 1_048_576.0),
    }
}
