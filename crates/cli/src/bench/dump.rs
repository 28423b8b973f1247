//! `plimsoll bench dump`: how fast the tensors that tasks see get into files, beside a bare loop of writes of as many bytes.
//!
//! Both go to the same file system, in turns, and the best turn of each counts. The loop writes blocks of a recorder's buffer.
//! A run's time is from its first submit to its end; neither is made durable within it.

use super::recorder::temporary;
use crate::exit::{refused, wrong};
use clap::Args;
use plimsoll::abi::Flags;
use plimsoll::{Device, In, RecordOptions, RunOptions, input};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Options of `bench dump`.
#[derive(Args)]
pub(crate) struct DumpBench {
    /// Bytes of elements that are captured in each turn, in tasks that read 1 MiB each
    #[arg(long, default_value = "256M", value_parser = plimsoll::run::parse_bytes)]
    bytes: u64,
    /// Turns
    #[arg(long, default_value_t = 5)]
    reps: usize,
    /// Measure on this directory's file system; the current directory if left out
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Bytes of a recorder's buffer.
const BLOCK: usize = 64 << 10;
/// Bytes of a task's tensor.
const TENSOR: usize = 1 << 20;

#[derive(Serialize)]
struct DumpFigures {
    bytes: u64,
    write_bytes_per_s: f64,
    dump_bytes_per_s: f64,
    /// Bytes per second of the capture over those of the bare loop.
    ratio: f64,
    lossless: bool,
}

impl DumpBench {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.reps == 0 || self.bytes < TENSOR as u64 {
            return Err(wrong(
                "There is nothing to measure. A turn captures 1 MiB or more. Give --bytes and --reps more.",
            ));
        }
        let tasks = self.bytes / TENSOR as u64;
        let dir = temporary(self.dir.as_deref())?;
        let bytes = tasks * TENSOR as u64;
        let mut figures =
            DumpFigures { bytes, write_bytes_per_s: 0.0, dump_bytes_per_s: 0.0, ratio: 0.0, lossless: true };
        // Numbers that no packing could shorten.
        let tensor: Vec<u64> = (0..TENSOR as u64 / 8).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let tensor: Vec<i64> = tensor.into_iter().map(|word| (word ^ word >> 29) as i64).collect();
        for turn in 0..self.reps {
            let seconds = write_blocks(&dir.path().join("blocks"), bytes, &tensor)?;
            figures.write_bytes_per_s = figures.write_bytes_per_s.max(bytes as f64 / seconds);
            let (seconds, lossless) = capture(&dir.path().join(format!("run-{turn}")), tasks, &tensor)?;
            figures.dump_bytes_per_s = figures.dump_bytes_per_s.max(bytes as f64 / seconds);
            figures.lossless &= lossless;
        }
        figures.ratio = figures.dump_bytes_per_s / figures.write_bytes_per_s;
        figures.print(self.json)?;
        Ok(if figures.lossless { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl DumpFigures {
    fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        println!(
            "{:.2} of a bare loop of writes: {:.0} MB/s of elements captured, {:.0} MB/s written, {} bytes in each turn, {}",
            self.ratio,
            self.dump_bytes_per_s / 1e6,
            self.write_bytes_per_s / 1e6,
            self.bytes,
            if self.lossless { "nothing lost" } else { "RECORDS LOST" }
        );
        Ok(())
    }
}

/// Seconds that a bare loop takes.
fn write_blocks(path: &Path, bytes: u64, tensor: &[i64]) -> anyhow::Result<f64> {
    let text: Vec<u8> = tensor.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut file = File::create(path)?;
    let began = Instant::now();
    for at in (0..bytes as usize).step_by(BLOCK) {
        file.write_all(&text[at % TENSOR..][..BLOCK])?;
    }
    let seconds = began.elapsed().as_secs_f64();
    drop(file);
    std::fs::remove_file(path)?;
    Ok(seconds)
}

/// Seconds that a run takes whose tasks' inputs are captured, and whether all of them were.
fn capture(dir: &Path, tasks: u64, tensor: &[i64]) -> anyhow::Result<(f64, bool)> {
    let mut device = Device::builder().workers(1).open().map_err(refused)?;
    let look = device.kernel("look", |_: In<i64>| {});
    let record = RecordOptions::new(dir, Flags::TENSOR_DUMP);
    let options = RunOptions { record: Some(record), ..RunOptions::default() };
    device.run_with(&options, |o| {
        let whole = o.own(tensor.to_vec(), [tensor.len()])?;
        for _ in 0..tasks {
            o.scope(|o| o.submit(&look, (input(&whole),)).map(drop))?;
        }
        Ok(())
    })?;
    let report = device.report();
    let lossless = report.ledger.as_ref().is_some_and(|ledger| ledger.lossless);
    let seconds = report.elapsed_ns as f64 / 1e9;
    std::fs::remove_dir_all(dir)?;
    Ok((seconds, lossless))
}
