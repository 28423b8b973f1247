//! `plimsoll bench mailbox`: a round trip through a core's mailbox, beside the least that two threads can do.
//!
//! The round trip is dispatch, core, completion seen: an order without arguments through the line of a core that has nothing to compute.
//! Beside it stands what a whole task takes on a device of one scheduler and one core, in a prebuilt chain: the next one
//! is handed over when the scheduler has completed the one before, so releasing, choosing and fetching the task are in it, too. The first
//! and the last task of the chain take the time; what a launch costs is not in it. The orchestrating thread sleeps meanwhile.

use crate::exit::{refused, wrong};
use clap::Args;
use plimsoll::machine::mailbox_round_trips;
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
    /// A whole task of a chain, through the scheduler.
    task_ns: f64,
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
            task_ns: chained_task_ns(blocks, trips)?,
        };
        if json {
            println!("{}", serde_json::to_string(&figures)?);
        } else {
            println!(
                "a round trip through a mailbox of an emulated core takes {round_trip_ns:.1} ns, {:.2} × a bare ping-pong over one cache line ({floor_ns:.1} ns); a whole task of a chain takes {:.1} ns",
                figures.ratio, figures.task_ns
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What a task of a chain takes on a device of one scheduler and one core: the least of all blocks.
fn chained_task_ns(blocks: u32, trips: u32) -> anyhow::Result<f64> {
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
    let mut least_ns = f64::MAX;
    for _ in 0..blocks {
        device.launch(&mut graph, 1, &RunOptions::default())?;
        let [began, ended] = [0, 1].map(|end| took[end].load(Ordering::Relaxed));
        least_ns = least_ns.min((ended - began) as f64 / f64::from(trips));
    }
    Ok(least_ns)
}
