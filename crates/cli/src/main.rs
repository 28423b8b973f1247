//! The `plimsoll` command: runs programs, measures, and answers questions about runs.

mod bench;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A dataflow task runtime for tensors that proves it lost no record.
#[derive(Parser)]
#[command(name = "plimsoll", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the runtime or the recorder on this machine
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Bench(bench) => bench.run(),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("plimsoll: {error:#}");
            ExitCode::FAILURE
        }
    }
}
