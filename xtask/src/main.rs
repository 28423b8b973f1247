//! Chores of the repository: `cargo xtask test`, `cargo xtask tidy`, `cargo xtask simulate`,
//! `cargo xtask fuzz-programs`, `cargo xtask kill`, `cargo xtask board-cost`, `cargo xtask peers`.

mod board_cost;
mod c_library;
mod counts;
mod fuzz_programs;
mod kill;
mod languages;
mod page;
mod peers;
mod python;
mod simulate;
mod stages;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the repository")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Format, lints, tests, loom, AddressSanitizer, instruction counts: what has to pass before a change is in.
    Test(stages::TestOptions),
    /// Keeps the style that compilers and clippy do not.
    Tidy,
    /// Searches many seeds for defects, after a planted one was found.
    Simulate(simulate::SimulateOptions),
    /// Runs random programs of the whole API on every engine against serial execution.
    FuzzPrograms(fuzz_programs::FuzzOptions),
    /// Kills runs at random moments and counts what comes out of them.
    Kill(kill::KillOptions),
    /// Counts the instructions that the status board takes, per execution, per submit and beside them.
    BoardCost,
    /// Takes pictures of the report's main views, from real runs.
    Screenshots(page::PageOptions),
    /// Installs the library for C and C++, with its headers and its pkg-config and CMake files.
    CLibrary(c_library::CLibraryOptions),
    /// Measures other task runtimes beside ours.
    Peers(peers::PeerOptions),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Test(options) => stages::run(&options),
        Chore::Tidy => tidy::run(),
        Chore::Simulate(options) => simulate::run(&options),
        Chore::FuzzPrograms(options) => fuzz_programs::run(&options),
        Chore::Kill(options) => kill::run(&options),
        Chore::BoardCost => board_cost::run(),
        Chore::Screenshots(options) => page::screenshots(&options),
        Chore::CLibrary(options) => c_library::run(&options),
        Chore::Peers(options) => peers::run(&options),
    };
    // Not returned from `main`: that would print a backtrace where RUST_BACKTRACE is set for the tests.
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why:#}");
            ExitCode::FAILURE
        }
    }
}
