//! `plimsoll bench mailbox`: a round trip from a scheduler to a core and back, beside the least that two threads can do.
//!
//! The round trip is that of a device: one scheduler, one core, and a prebuilt chain of tasks without arguments. So there is one task
//! to hand over at any time, and the next one is handed over when the scheduler has seen the one before completed. The first and
//! the last task of the chain take the time; what a launch costs is not in it. The orchestrating thread sleeps meanwhile.

use crate::exit::{refused, wrong};
use clap::Args;
use plimsoll::machine::ping_pong_ns;
use plimsoll::{ArchSpec, Device, EmulatedOptions, Orchestrator, RunOptions};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

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
        let (floor_ns, round_trip_ns) = least(blocks, trips)?;
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
                "a round trip from an emulated scheduler to its core and back takes {round_trip_ns:.1} ns, {:.2} × a bare ping-pong over one cache line ({floor_ns:.1} ns)",
                figures.ratio
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The least of all blocks, of both kinds in turns: a ping-pong, and a round trip.
fn least(blocks: u32, trips: u32) -> anyhow::Result<(f64, f64)> {
    let options = EmulatedOptions::new(&ArchSpec::HOST);
    let mut device = Device::builder().engine(options).workers(1).open().map_err(refused)?;
    let clock = Instant::now();
    let took = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let [first, last] = [0, 1].map(|end| {
        let took = Arc::clone(&took);
        let name = if end == 0 { "first" } else { "last" };
        device.kernel(name, move || took[end].store(clock.elapsed().as_nanos() as u64, Ordering::Relaxed))
    });
    let empty = device.kernel("empty", || {});
    let chain = |o: &mut Orchestrator<'_, '_>| {
        // A round trip lies between each task and the next one.
        for at in 0..=trips {
            let kernel = match at {
                0 => &first,
                _ if at == trips => &last,
                _ => &empty,
            };
            let before = o.last();
            o.submit_after(before.as_slice(), kernel, ())?;
        }
        Ok(())
    };
    let most = trips as usize + 1;
    let mut graph = device.prebuild_within(most, chain).map_err(refused)?;
    let (mut floor_ns, mut round_trip_ns) = (f64::MAX, f64::MAX);
    for _ in 0..blocks {
        floor_ns = floor_ns.min(ping_pong_ns(trips));
        device.launch(&mut graph, 1, &RunOptions::default())?;
        let [began, ended] = [0, 1].map(|end| took[end].load(Ordering::Relaxed));
        round_trip_ns = round_trip_ns.min((ended - began) as f64 / f64::from(trips));
    }
    Ok((floor_ns, round_trip_ns))
}
