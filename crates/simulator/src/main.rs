//! The simulator by hand: many seeds, one seed again, or how fast it is.

use clap::Parser;
use plimsoll_runtime::ArchSpec;
use plimsoll_simulator::scenario::Scenario;
use plimsoll_simulator::{SimulationTally, fuzz, hangs, simulate, speed};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs random programs on random devices in virtual time, and checks everything
#[derive(Parser)]
#[command(name = "plimsoll-simulator", max_term_width = 110)]
struct Arguments {
    /// Run this one seed and show what it is
    #[arg(long)]
    seed: Option<u64>,
    /// Run this many seeds
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,
    /// Run random programs of the whole API on every engine for this many minutes instead
    #[arg(long, value_name = "N")]
    program_minutes: Option<f64>,
    /// Run the random program of this one seed instead
    #[arg(long, value_name = "SEED")]
    program: Option<u64>,
    /// Plant this many hangs with a known cause and run as many healthy seeds instead
    #[arg(long, value_name = "N")]
    hangs: Option<u64>,
    /// Measure tasks per second of real time instead
    #[arg(long)]
    speed: bool,
    /// Tasks of the measurement
    #[arg(long, default_value_t = 300_000)]
    tasks: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.program_minutes.is_some() || arguments.program.is_some() {
        return fuzz(&arguments);
    }
    if let Some(count) = arguments.hangs {
        return hang(arguments.first..arguments.first + count, arguments.keep_going);
    }
    if arguments.speed {
        return measure(arguments.tasks);
    }
    let seeds = match arguments.seed {
        Some(seed) => {
            println!("{:#?}", Scenario::draw(seed));
            seed..seed + 1
        }
        None => arguments.first..arguments.first + arguments.seeds,
    };
    let mut tally = SimulationTally::default();
    let mut failures = 0;
    for seed in seeds {
        match simulate(seed) {
            Ok(one) => tally.add(&one),
            Err(what) => {
                eprintln!("{what}");
                failures += 1;
                if !arguments.keep_going {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    println!("{tally:?}");
    if failures > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Plants hangs, and runs the same seeds without any.
fn hang(seeds: std::ops::Range<u64>, keep_going: bool) -> ExitCode {
    let (mut struck, mut failures, count) = (0, 0, seeds.end - seeds.start);
    for seed in seeds {
        let outcome = hangs::hang(seed).and_then(|cause| hangs::healthy(seed).map(|()| cause));
        match outcome {
            Ok(cause) => struck += u64::from(cause.is_some()),
            Err(what) => {
                eprintln!("{what}");
                failures += 1;
                if !keep_going {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    println!("{count} seeds: {struck} hangs struck, {failures} were told wrong, or a healthy one was told of");
    if failures > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs random programs: one, or as many as the time allows.
fn fuzz(arguments: &Arguments) -> ExitCode {
    fuzz::quiet_planned_panics();
    let end =
        arguments.program_minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(minutes.max(0.0) * 60.0));
    let first = arguments.program.unwrap_or(arguments.first);
    let enough = |seed: u64| match end {
        Some(end) => Instant::now() >= end,
        None => seed > first,
    };
    match fuzz::Fuzzer::new().search(first, enough) {
        Ok(tally) => {
            println!("{tally:?}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn measure(tasks: u64) -> ExitCode {
    for arch in ArchSpec::ALL {
        for bare in [false, true] {
            match speed::measure(arch, tasks, bare) {
                Ok(speed) => println!("{:<5} {} {speed}", arch.name, if bare { "unrecorded" } else { "level 4   " }),
                Err(error) => {
                    eprintln!("{error}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}
