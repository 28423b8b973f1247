//! `plimsoll bench mailbox`: a round trip from a scheduler to a core and back, beside the least that two threads can do.

use crate::exit::wrong;
use clap::Args;
use plimsoll::machine::mailbox_round_trips;
use serde::Serialize;
use std::process::ExitCode;

/// Options of `bench mailbox`.
#[derive(Args)]
pub(crate) struct MailboxBench {
    /// Blocks of each kind, in turns; the least of them is reported
    #[arg(long, default_value_t = 20)]
    blocks: u32,
    /// Round trips of a block
    #[arg(long, default_value_t = 10_000)]
    trips: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct MailboxFigures {
    /// The only engine whose cores have mailboxes.
    engine: &'static str,
    blocks: u32,
    trips: u32,
    /// Two threads that answer each other over one cache line.
    floor_ns: f64,
    /// Dispatch, core, completion seen.
    round_trip_ns: f64,
    ratio: f64,
}

impl MailboxBench {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Self { blocks, trips, json } = self;
        if blocks == 0 || trips == 0 {
            return Err(wrong(
                "There is nothing to measure. A bench takes one block of one trip or more. Give --blocks and --trips.",
            ));
        }
        let least = mailbox_round_trips(blocks, trips);
        let (floor_ns, round_trip_ns) = (least.floor_ns, least.mailbox_ns);
        let figures = MailboxFigures {
            engine: "emulated",
            blocks,
            trips,
            floor_ns,
            round_trip_ns,
            ratio: round_trip_ns / floor_ns,
        };
        if json {
            println!("{}", serde_json::to_string(&figures)?);
        } else {
            println!(
                "a round trip through a mailbox of an emulated core takes {round_trip_ns:.1} ns, {:.2} × a bare ping-pong over one cache line ({floor_ns:.1} ns)",
                figures.ratio
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}
