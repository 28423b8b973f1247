//! What host and device process tell each other, and how it is put on the socket.
//!
//! A message is two lengths, as many bytes of JSON, and as many bytes of buffers; a descriptor may travel with the lengths. Both
//! ends are the same executable, so there are no versions.

use crate::engine::EngineFacts;
use crate::error::ErrorParts;
use crate::options::Capacities;
use crate::report::{Load, RunReport, WorkerReport};
use plimsoll_abi::region::ClockSource;
use plimsoll_abi::{KernelId, Resource, TaskId};
use plimsoll_collect::Role;
use plimsoll_platform::{ArchSpec, CoreClass};
use plimsoll_probe::{DumpPlan, DumpRules};
use plimsoll_sched::ring::Capacity;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// What the host says.
#[derive(Serialize, Deserialize)]
pub(super) enum HostOrder {
    Open {
        arch: String,
        numbers: Vec<(String, u64)>,
        workers: Option<usize>,
        orch_to_sched: bool,
        rings: Vec<(u32, u64, u32)>,
        tensormap: u32,
    },
    Build {
        program: String,
        settings: Vec<String>,
    },
    Run(RunOrder),
    Stop {
        code: u32,
    },
    Close,
}

/// A run. The bytes that follow are the buffers', one behind the other; the descriptor is the region's.
#[derive(Serialize, Deserialize)]
pub(super) struct RunOrder {
    pub(super) rounds: u32,
    pub(super) prebuilt: Option<usize>,
    pub(super) deadline_ns: Option<u64>,
    pub(super) read_timeout_ns: Option<u64>,
    /// The time-outs of one kernel, of a stall, and of the orchestration's own code.
    pub(super) budgets_ns: [Option<u64>; 3],
    pub(super) stall_spares_kernels: bool,
    /// After how long the host wants to know that nothing begins or ends.
    pub(super) notice_ns: Option<u64>,
    /// Where the region of a run that records is.
    pub(super) region: Option<std::path::PathBuf>,
    /// The number of the group of counters, if the run records counters.
    pub(super) counters: u16,
    /// Which arguments are captured, and of which kernels and tasks.
    pub(super) dump: DumpOrder,
    /// File and line of the call that runs the program: the site of its outermost scope.
    pub(super) site: Option<(String, u32)>,
}

/// [`DumpPlan`], as an order carries it.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct DumpOrder {
    level: u8,
    bytes: u64,
    kernels: Vec<u32>,
    tasks: Vec<u64>,
    in_rounds: Vec<u64>,
}

impl DumpOrder {
    pub(super) fn new(plan: &DumpPlan) -> Self {
        Self {
            level: plan.rules.level,
            bytes: plan.rules.bytes,
            kernels: plan.kernels.iter().map(|kernel| kernel.0).collect(),
            tasks: plan.tasks.iter().map(|task| task.raw()).collect(),
            in_rounds: plan.in_rounds.clone(),
        }
    }

    pub(super) fn plan(&self) -> DumpPlan {
        DumpPlan {
            rules: DumpRules { level: self.level, bytes: self.bytes },
            kernels: self.kernels.iter().map(|kernel| KernelId(*kernel)).collect(),
            tasks: self.tasks.iter().map(|task| TaskId::from_raw(*task)).collect(),
            in_rounds: self.in_rounds.clone(),
        }
    }
}

/// What the device says.
#[derive(Serialize, Deserialize)]
pub(super) enum Answer {
    Opened(DeviceFacts),
    Built {
        kernels: Vec<(String, u8)>,
        buffers: Vec<usize>,
    },
    /// A run has begun to record: where its region begins in the device's memory. The end of the run is still to come.
    Attached {
        base: u64,
    },
    /// Nothing begins or ends: what runs. The end of the run is still to come.
    Still {
        state: String,
    },
    /// The bytes that follow are the buffers'; none if threads were lost.
    Ended {
        report: Report,
        error: Option<ErrorParts>,
        lost: bool,
        /// What the status board said when the run was given up, if it was: [`BoardLook`](plimsoll_shm::BoardLook) as bytes. The board
        /// itself goes on, and those that are well leave it before the host reads it.
        last_look: Option<Vec<u8>>,
    },
    Failed(ErrorParts),
}

/// [`EngineFacts`], but for what the host knows itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DeviceFacts {
    agents: Vec<(String, bool, bool)>,
    cores: Vec<(u8, u16)>,
    clock_hz: u64,
    clock_source: u32,
}

impl DeviceFacts {
    pub(super) fn new(facts: &EngineFacts) -> Self {
        Self {
            agents: facts.agents.iter().map(|(name, role)| (name.clone(), role.schedules, role.orchestrates)).collect(),
            cores: facts.cores.iter().map(|&(class, owner)| (class as u8, owner)).collect(),
            clock_hz: facts.clock_hz,
            clock_source: facts.clock_source as u32,
        }
    }

    pub(super) fn engine(&self, arch: &ArchSpec) -> EngineFacts {
        let role = |&(ref name, schedules, orchestrates): &(String, bool, bool)| {
            (name.clone(), Role { schedules, orchestrates })
        };
        EngineFacts {
            engine: "emulated",
            arch: arch.name,
            virtual_time: false,
            emulated: true,
            agents: self.agents.iter().map(role).collect(),
            cores: self.cores.iter().map(|&(class, owner)| (class_of(class), owner)).collect(),
            clock_hz: self.clock_hz,
            host_mapped: arch.host_mapped,
            clock_source: ClockSource::from_number(self.clock_source),
        }
    }
}

/// The class of this number.
pub(super) fn class_of(number: u8) -> CoreClass {
    CoreClass::ALL.get(usize::from(number)).copied().unwrap_or_default()
}

/// Sizes as an order carries them.
pub(super) fn ring_sizes(capacities: &Capacities) -> Vec<(u32, u64, u32)> {
    capacities.rings.iter().map(|ring| (ring.window, ring.heap, ring.dep_pool)).collect()
}

/// Sizes from an order.
pub(super) fn capacities(rings: &[(u32, u64, u32)], tensormap: u32) -> Capacities {
    let mut out = Capacities { tensormap, ..Capacities::default() };
    for (ring, &(window, heap, dep_pool)) in out.rings.iter_mut().zip(rings) {
        *ring = Capacity { window, heap, dep_pool };
    }
    out
}

/// [`RunReport`], but for its ledger and directory, which are the host's.
#[derive(Serialize, Deserialize)]
pub(super) struct Report {
    rounds: u32,
    tasks: u64,
    dispatches: u64,
    left_behind: u32,
    elapsed_ns: u64,
    workers: Vec<(u64, u64)>,
    load: Vec<(u8, Option<u8>, u64, u64, u64, Option<String>)>,
    conservative_overlaps: u64,
    conservative_sites: Vec<(String, u64)>,
}

impl Report {
    pub(super) fn new(report: &RunReport) -> Self {
        let load =
            |load: &Load| (load.resource as u8, load.ring, load.peak, load.floor, load.capacity, load.site.clone());
        Self {
            rounds: report.rounds,
            tasks: report.tasks,
            dispatches: report.dispatches,
            left_behind: report.left_behind,
            elapsed_ns: report.elapsed_ns,
            workers: report.workers.iter().map(|worker| (worker.tasks, worker.busy_ns)).collect(),
            load: report.load.iter().map(load).collect(),
            conservative_overlaps: report.conservative_overlaps,
            conservative_sites: report.conservative_sites.clone(),
        }
    }

    pub(super) fn run(self) -> RunReport {
        let resource = |number: u8| Resource::ALL.get(usize::from(number)).copied();
        let load = |(number, ring, peak, floor, capacity, site): (u8, _, _, _, _, _)| {
            Some(Load { resource: resource(number)?, ring, peak, floor, capacity, site })
        };
        RunReport {
            rounds: self.rounds,
            tasks: self.tasks,
            dispatches: self.dispatches,
            left_behind: self.left_behind,
            elapsed_ns: self.elapsed_ns,
            workers: self.workers.into_iter().map(|(tasks, busy_ns)| WorkerReport { tasks, busy_ns }).collect(),
            load: self.load.into_iter().filter_map(load).collect(),
            conservative_overlaps: self.conservative_overlaps,
            conservative_sites: self.conservative_sites,
            ..RunReport::default()
        }
    }
}

/// The most bytes of JSON in a message: far more than any has.
const MOST_TEXT: u64 = 64 << 20;

/// Puts a message on the socket, with a descriptor if there is one.
pub(super) fn send(
    mut socket: &UnixStream,
    message: &impl Serialize,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut lengths = [0; 16];
    lengths[..8].copy_from_slice(&(text.len() as u64).to_le_bytes());
    lengths[8..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut room);
    if let Some(descriptors) = &descriptors {
        beside.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let sent = loop {
        match rustix::net::sendmsg(socket, &[IoSlice::new(&lengths)], &mut beside, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            sent => break sent?,
        }
    };
    socket.write_all(&lengths[sent..])?;
    socket.write_all(&text)?;
    socket.write_all(bytes)
}

/// A message as it came.
pub(super) struct Received<M> {
    pub(super) message: M,
    pub(super) bytes: Vec<u8>,
    pub(super) descriptor: Option<OwnedFd>,
}

/// Takes the next message off the socket. An error if the other end is gone.
pub(super) fn receive<M: DeserializeOwned>(mut socket: &UnixStream) -> io::Result<Received<M>> {
    let mut lengths = [0; 16];
    let (mut have, mut descriptor) = (0, None);
    while have < lengths.len() {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut room);
        let part = &mut [IoSliceMut::new(&mut lengths[have..])];
        let got = match rustix::net::recvmsg(socket, part, &mut beside, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => continue,
            got => got?.bytes,
        };
        for found in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(mut found) = found {
                descriptor = found.next().or(descriptor);
            }
        }
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        have += got;
    }
    let length = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| lengths[at + byte]));
    let (text_len, bytes_len) = (length(0), length(8));
    if text_len > MOST_TEXT {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message of impossible length"));
    }
    let text = read_bytes(&mut socket, text_len)?;
    let message = serde_json::from_slice(&text)?;
    let bytes = read_bytes(&mut socket, bytes_len)?;
    Ok(Received { message, bytes, descriptor })
}

/// Reads `len` bytes. Room for them is made as they arrive, so that a wrong length takes no memory.
fn read_bytes(socket: &mut &UnixStream, len: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    socket.take(len).read_to_end(&mut out)?;
    if out.len() as u64 == len { Ok(out) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
