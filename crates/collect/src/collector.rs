//! The drain: moves sealed buffers into the segment file and keeps the host's own counts.
//!
//! Work is proportional to sealed buffers (and to the number of agents, each of which has one queue), never to the number
//! of pools. A buffer goes back to its pool only after its frame was written. When a frame cannot be written the
//! recording ends: producers stop waiting and count what they drop, and the records of buffers that were sealed
//! already are counted as dropped here, at this hop.

use crate::error::Error;
use crate::segment::{FrameToWrite, SegmentWriter};
use plimsoll_abi::record::Kind;
use plimsoll_abi::region::INSTANCE_SLOTS;
use plimsoll_abi::segment::Origin;
use plimsoll_shm::{Counters, Drainer, Sweep, Taken, Transport, Unsealed};
use plimsoll_trace::{Ledger, PoolLedger};
use std::io;

/// Buffers that are written with one call: half of those that a pool has if nothing else is said, so that its producer fills
/// the others meanwhile.
const BATCH: usize = 8;
/// How often a pool whose producer is still at work is asked again before it is left alone.
const SWEEPS: u32 = 1000;

/// Why the recording ended early.
#[derive(Debug)]
enum EarlyEnd {
    Write(io::Error),
    Damaged(plimsoll_shm::Error),
}

/// What the host counts of one pool.
#[derive(Clone, Copy, Debug, Default)]
struct HostCounts {
    collected: u64,
    recovered: u64,
    dropped: u64,
    /// Whether the pool's account is closed. From then on buffers that a hanging agent still seals are not taken, and none
    /// are given back.
    closed: bool,
}

/// The drain of one region.
#[derive(Debug)]
pub(crate) struct Collector {
    drainer: Drainer,
    segments: SegmentWriter,
    /// The counts of each pool, by its directory index.
    counts: Vec<HostCounts>,
    failure: Option<EarlyEnd>,
}

impl Collector {
    pub(crate) fn new(host: &Transport, segments: SegmentWriter) -> Result<Self, Error> {
        let (region, pools) = (host.region(), host.region().directory_len());
        let drainer = Drainer::stock(host, region.agents().into(), pools)?;
        Ok(Self { drainer, segments, counts: vec![HostCounts::default(); pools], failure: None })
    }

    /// Drains what is ready; returns the number of buffers.
    pub(crate) fn drain(&mut self, host: &Transport) -> usize {
        let mut drained = 0;
        // A pool that changed its owner may have sealed buffers in two agents' queues, and the newer ones are postponed until the
        // older ones are drained. So another pass follows, unless the last one drained nothing.
        loop {
            let agents = 0..usize::from(host.region().agents());
            let pass: usize = agents.map(|agent| self.drain_agent(host, agent)).sum();
            drained += pass;
            if !self.drainer.has_postponed() || pass == 0 {
                return drained;
            }
        }
    }

    /// Drains the queue of an agent; returns the number of buffers.
    fn drain_agent(&mut self, host: &Transport, agent: usize) -> usize {
        let mut drained = 0;
        loop {
            let batch = self.take_batch(host, agent);
            if batch.is_empty() {
                return drained;
            }
            drained += batch.len();
            self.write_batch(host, batch);
        }
    }

    fn take_batch(&mut self, host: &Transport, agent: usize) -> Vec<Taken> {
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            match self.drainer.take(host, agent) {
                Ok(Some(taken)) => batch.push(taken),
                Ok(None) => break,
                Err(error) => {
                    self.fail(host, EarlyEnd::Damaged(error));
                    break;
                }
            }
        }
        batch
    }

    fn write_batch(&mut self, host: &Transport, batch: Vec<Taken>) {
        let records = |taken: &Taken| {
            // SAFETY: the buffer is taken and not given back while the records live.
            unsafe { host.good_records(taken.pool, taken.buffer, taken.count, taken.void) }
        };
        let written = match self.failure {
            Some(_) => false,
            None => {
                let open = batch.iter().filter(|taken| !self.counts[taken.pool as usize].closed);
                let open: Vec<_> = open.map(|taken| (taken, records(taken))).collect();
                let frames =
                    open.iter().map(|(taken, good)| frame(taken.pool, taken.sequence, Origin::Collected, good));
                let frames: Vec<FrameToWrite<'_>> = frames.collect();
                match self.segments.append(&frames) {
                    Ok(()) => true,
                    Err(error) => {
                        self.fail(host, EarlyEnd::Write(error));
                        false
                    }
                }
            }
        };
        for taken in batch {
            let counts = &mut self.counts[taken.pool as usize];
            if counts.closed {
                continue;
            }
            let good = u64::from(taken.count - taken.void);
            if written {
                counts.collected += good;
                if let Err(error) = self.drainer.give_back(host, taken) {
                    self.fail(host, EarlyEnd::Damaged(error));
                }
            } else {
                counts.dropped += good;
            }
        }
    }

    fn fail(&mut self, host: &Transport, failure: EarlyEnd) {
        host.region().end_recording();
        self.failure.get_or_insert(failure);
    }

    /// Drains to the end, reads out what was never sealed, closes the segment file and makes up the account. After this
    /// nothing is drained.
    pub(crate) fn finish(&mut self, host: &Transport) -> Result<Ledger, Error> {
        host.region().end_recording();
        self.drain(host);
        let pools: Vec<_> = host.region().pools().collect();
        let mut accounts = Vec::with_capacity(pools.len());
        for (kind, instance, pool) in pools {
            let counters = self.sweep(host, pool);
            let counted = self.counts[pool as usize];
            accounts.push(PoolLedger {
                kind: kind.name().to_owned(),
                instance,
                total: counters.total(),
                collected: counted.collected,
                recovered: counted.recovered,
                dropped: counters.dropped + counted.dropped,
                mismatch: counters.mismatch,
                wait_ns: host.region().nanos(counters.wait_ticks).0,
            });
        }
        if let Err(error) = self.segments.close() {
            self.fail(host, EarlyEnd::Write(error));
        }
        let ledger = Ledger::of(accounts);
        match self.failure.take() {
            None => Ok(ledger),
            Some(EarlyEnd::Write(source)) => {
                Err(Error::Write { path: self.segments.path().to_path_buf(), source, ledger: Box::new(ledger) })
            }
            Some(EarlyEnd::Damaged(source)) => Err(Error::Damaged { source, ledger: Box::new(ledger) }),
        }
    }

    /// Puts the segment file back if it was removed.
    pub(crate) fn restore_segments(&mut self) -> io::Result<()> {
        self.segments.restore()
    }

    /// Takes a sealed buffer of agent 0, if there is one, and does nothing with it: a defect, for tests that must see it noticed.
    #[cfg(test)]
    pub(crate) fn forget_one(&mut self, host: &Transport) -> bool {
        self.drainer.take(host, 0).is_ok_and(|taken| taken.is_some())
    }

    /// Reads out the published part of a pool's unfinished buffer (its agent ended without a flush, or hangs) and closes
    /// the pool's account.
    fn sweep(&mut self, host: &Transport, pool: u32) -> Counters {
        let mut counters = Counters::default();
        for _ in 0..SWEEPS {
            match self.drainer.unsealed(host, pool) {
                Ok(Sweep::Settled(unsealed, now)) => {
                    if let Some(unsealed) = unsealed {
                        self.write_unsealed(host, pool, &unsealed, now.mismatch);
                    }
                    counters = now;
                    break;
                }
                Ok(Sweep::Busy(now)) => {
                    // The producer is still at work. It will soon run out of work or of buffers.
                    counters = now;
                    self.drain(host);
                    std::thread::yield_now();
                }
                Err(error) => {
                    self.fail(host, EarlyEnd::Damaged(error));
                    break;
                }
            }
        }
        self.counts[pool as usize].closed = true;
        counters
    }

    /// Writes the published records of an unfinished buffer. Some may be void, if the pool has void records.
    fn write_unsealed(&mut self, host: &Transport, pool: u32, unsealed: &Unsealed, mismatch: u64) {
        let void = u32::from(mismatch > 0);
        // SAFETY: the records are published, and the buffer is never given back: its pool's account is closed before
        // anything else is drained.
        let records = unsafe { host.good_records(pool, unsealed.buffer, unsealed.count, void) };
        let frame = frame(pool, unsealed.sequence, Origin::Recovered, &records);
        let written = match self.failure {
            Some(_) => false,
            None => self.segments.append(&[frame]).map_err(|error| self.fail(host, EarlyEnd::Write(error))).is_ok(),
        };
        let good = (records.len() / frame.kind.record_bytes()) as u64;
        let counts = &mut self.counts[pool as usize];
        let part = if written { &mut counts.recovered } else { &mut counts.dropped };
        *part += good;
    }
}

/// The frame of a pool's buffer.
fn frame(pool: u32, sequence: u64, origin: Origin, records: &[u8]) -> FrameToWrite<'_> {
    let kind = Kind::from_number((pool as usize / INSTANCE_SLOTS) as u16).expect("a pool of the region has a kind");
    FrameToWrite { kind, instance: (pool as usize % INSTANCE_SLOTS) as u16, sequence, origin, records }
}
