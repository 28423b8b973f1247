//! Readers and answers survive damaged files: every file of a capture is mutated at random, read, and asked everything.
//!
//! A short run by default; `PLIMSOLL_FUZZ_SECONDS=3600 cargo test -p plimsoll-report --test report --release fuzz_readers` is a long
//! one. A failure prints the seed that shows it again (`PLIMSOLL_FUZZ_SEED`); with both, a long run begins there. The corpus is a run of ours, the files we write
//! of it in both forms, small files of every older and newer form of the reference, and the reference's samples where
//! they lie beside the repository; so every reader has something to read.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_report::page::{Answers, Subject, write_page};
use plimsoll_report::{Flows, perfetto, simpler, text};
use plimsoll_trace::synthetic::Synthetic;
use plimsoll_trace::{ArgsDump, Trace, audit, open};

/// Mutations of a short run.
const SHORT: u64 = 400;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

/// Everything that can be asked of a trace.
fn ask(trace: &Trace) {
    let stats = plimsoll_analyze::stats(trace);
    let table = plimsoll_analyze::scopes(trace);
    let _ = (text::stats(&stats), text::scopes(&table));
    if let Some(path) = plimsoll_analyze::critical_path(trace) {
        let p = &path.summary.parts;
        let told = [p.data_wait, p.scheduling, p.submit, p.ring_wait, p.recorder_wait, p.gil_wait]
            .into_iter()
            .flatten()
            .sum::<u64>();
        assert_eq!(p.kernel + p.core_wait + p.front_gap + told, path.summary.makespan_ns, "parts tile");
        let _ = text::critical_path(&path);
        if let Some(hop) = path.path.first() {
            let word = Trace::task_word(&hop.task);
            let _ = word.and_then(|word| plimsoll_analyze::why(trace, word)).map(|why| text::why(&why));
        }
    }
    let _ = plimsoll_analyze::sched(trace).map(|sched| text::sched(&sched));
    let _ = plimsoll_analyze::graph(trace, true).map(|graph| (text::graph(&graph), text::dot(&graph)));
    let _ = text::diff(&plimsoll_analyze::diff(trace, trace));
    let _ = plimsoll_analyze::costliest(trace);
    let _ = text::explanation(&plimsoll_analyze::explain(trace, None, None));
    let _ = perfetto::write_perfetto(trace, Flows::Critical, std::io::sink());
    let answers = Answers::of(trace);
    write_page(Subject { trace, answers: &answers }, &mut std::io::sink()).expect("a sink takes everything");
}

fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..1 + dice.roll(4) {
        if bytes.is_empty() {
            return;
        }
        let at = dice.roll(bytes.len());
        match dice.roll(6) {
            0 => bytes[at] ^= 1 << dice.roll(8),
            1 => bytes.truncate(at),
            2 => {
                let to = (at + dice.roll(64)).min(bytes.len());
                let piece = bytes[at..to].to_vec();
                let place = dice.roll(bytes.len());
                bytes.splice(place..place, piece);
            }
            3 => {
                let to = (at + dice.roll(64)).min(bytes.len());
                bytes.drain(at..to);
            }
            4 => {
                let words: [&[u8]; 8] =
                    [b"0", b"-1", b"18446744073709551615", b"1e308", b"null", b"[]", b"{}", b"\"\xff\""];
                let word = words[dice.roll(words.len())];
                let digits = bytes[at..].iter().position(|b| b.is_ascii_digit()).map_or(at, |ahead| at + ahead);
                let end = digits + bytes[digits..].iter().take_while(|b| b.is_ascii_digit()).count();
                bytes.splice(digits..end, word.iter().copied());
            }
            _ => bytes[at] = dice.roll(256) as u8,
        }
    }
}

fn files(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        // Files past this make a turn slow; what they hold the smaller ones hold too.
        if path.is_dir() {
            files(&path, all);
        } else if path.metadata().is_ok_and(|m| m.len() < 200_000) {
            all.push(path);
        }
    }
    all.sort();
}

/// Copies a capture with one of its files mutated.
fn spoil(from: &Path, to: &Path, dice: &mut Dice) {
    let mut all = Vec::new();
    files(from, &mut all);
    let chosen = dice.roll(all.len());
    for (at, file) in all.iter().enumerate() {
        let place = to.join(file.strip_prefix(from).expect("inside"));
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        let mut bytes = std::fs::read(file).expect("readable");
        if at == chosen {
            mutate(&mut bytes, dice);
        }
        std::fs::write(place, bytes).expect("written");
    }
}

fn corpus(home: &Path) -> Vec<PathBuf> {
    let own = home.join("own");
    Synthetic { tasks: 60, ..Synthetic::default() }.write(&own).expect("written");
    let forms = home.join("forms");
    simpler::write_simpler(&open(&own).expect("readable"), &forms).expect("written");
    let newest = home.join("newest");
    simpler::write_simpler_newest(&open(&own).expect("readable"), &newest).expect("written");
    let mut all = vec![own, forms, newest];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    folders_of_files(&root.join("../trace/tests/fixtures"), &mut all);
    for run in ["vector_example-a2a3sim", "vector_example-a5sim", "paged_attention-a2a3sim", "mixed_example-a2a3sim"] {
        for part in ["all", "pmu2", "dump_args2", "scope_stats", "swimlane_l1"] {
            all.extend(Some(root.join("../../../shared/samples").join(run).join(part)).filter(|dir| dir.is_dir()));
        }
    }
    all
}

/// The folders that hold files themselves, the folder itself included.
fn folders_of_files(dir: &Path, all: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir).expect("listed").flatten().map(|e| e.path()).collect();
    entries.sort();
    if entries.iter().any(|path| path.is_file()) {
        all.push(dir.to_path_buf());
    }
    entries.iter().filter(|path| path.is_dir()).for_each(|path| folders_of_files(path, all));
}

#[test]
fn mutated_files_are_read_or_refused_and_never_panic() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seconds = number("PLIMSOLL_FUZZ_SECONDS").map(Duration::from_secs);
    let first = number("PLIMSOLL_FUZZ_SEED");
    let home = tempfile::tempdir().expect("a temporary directory");
    let corpus = corpus(home.path());
    let start = Instant::now();
    let mut seed = first.unwrap_or(1);
    loop {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let from = &corpus[dice.roll(corpus.len())];
        let to = home.path().join("spoilt");
        let _ = std::fs::remove_dir_all(&to);
        spoil(from, &to, &mut dice);
        let outcome = std::panic::catch_unwind(|| {
            if let Ok(trace) = open(&to) {
                ask(&trace);
            }
            if let Ok(dump) = ArgsDump::open(&to) {
                dump.args.iter().for_each(|arg| drop(plimsoll_analyze::arg_row(&dump, arg, true, 8)));
            }
            if to.join("run.json").is_file()
                && let Ok(account) = audit(&to, &mut |_, _| {})
            {
                let _ = text::check(&plimsoll_analyze::check(&account));
            }
        });
        assert!(outcome.is_ok(), "PLIMSOLL_FUZZ_SEED={seed} shows it again");
        seed += 1;
        let over = seconds.map_or(seed > SHORT, |seconds| start.elapsed() > seconds);
        if over || first.is_some() && seconds.is_none() {
            break;
        }
    }
}
