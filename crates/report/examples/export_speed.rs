//! How long reading and exporting a large run takes, and how much memory.
//!
//!     export_speed make DIR [TASKS] [LEVEL]    writes a made-up run
//!     export_speed perfetto DIR                reads it and writes a Perfetto trace
//!     export_speed stats DIR                   reads it and computes statistics
//!     export_speed page DIR [FILE] [BEFORE]    writes the page of a run, or of two that are compared
//!     export_speed simpler DIR                 writes it as the reference's files, into DIR/simpler

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Instant;

use plimsoll_report::page::{self, Answers, Subject};
use plimsoll_report::{Flows, perfetto, simpler};
use plimsoll_trace::synthetic::Synthetic;
use plimsoll_trace::{TraceParts, open, open_with};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, dir, rest @ ..] = words.as_slice() else { return Err("give a command and a directory".into()) };
    let dir = Path::new(dir);
    let start = Instant::now();
    match what.as_str() {
        "make" => {
            let number = |at: usize, otherwise: u32| rest.get(at).map_or(Ok(otherwise), |n| n.parse());
            let (tasks, level) = (number(0, 1_000_000)?, number(1, 2)? as u8);
            let full = level > 2;
            let run = Synthetic { tasks, cores: 24, level, deps: full, scopes: full, per_frame: 2048 };
            run.write(dir)?;
        }
        "perfetto" => {
            let trace = open_with(dir, TraceParts { deps: false, ..TraceParts::ALL })?;
            println!("load      {:>8.1} ms, {} executions", ms(start), trace.executions.len());
            let path = dir.join("trace.pftrace");
            let out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
            let drawn = perfetto::write_perfetto(&trace, Flows::None, out)?;
            println!("wrote     {drawn:?}, {} bytes", std::fs::metadata(&path)?.len());
        }
        "stats" => {
            let trace = open_with(dir, TraceParts::TASKS)?;
            println!("load      {:>8.1} ms, {} executions", ms(start), trace.executions.len());
            let stats = plimsoll_analyze::stats(&trace);
            println!("stats     makespan {:?} ns, {} functions", stats.makespan_ns, stats.functions.len());
        }
        "page" => {
            let trace = open(dir)?;
            println!("load      {:>8.1} ms, {} executions", ms(start), trace.executions.len());
            let before = rest.get(1).map(|before| open(Path::new(before))).transpose()?;
            let answers = Answers::of(&trace);
            let file = rest.first().map_or(dir.join("report.html"), |file| Path::new(file).to_owned());
            let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
            let run = Subject { trace: &trace, answers: &answers };
            let written = match &before {
                Some(before) => {
                    let answers = Answers::of(before);
                    page::write_comparison(Subject { trace: before, answers: &answers }, run, &mut out)?
                }
                None => page::write_page(run, &mut out)?,
            };
            println!("wrote     {written:?}");
        }
        "simpler" => {
            let written = simpler::write_simpler(&open(dir)?, &dir.join("simpler"))?;
            println!("wrote     {written:?}");
        }
        other => return Err(format!("there is no command {other}").into()),
    }
    println!("total     {:>8.1} ms, {} of memory at most", ms(start), peak_memory());
    Ok(())
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.map_or("unknown amount".to_string(), |l| l.trim().to_string())
}
