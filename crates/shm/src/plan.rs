//! Where everything lies in a new region: computed once from what a run records, then only read.

use crate::error::Error;
use crate::lane::Policy;
use plimsoll_abi::Flags;
use plimsoll_abi::board::board_bytes;
use plimsoll_abi::record::{Instances, Kind};
use plimsoll_abi::region::{
    BUFFER_LIMIT, BufferHeader, CLOCK_SLOTS, ClockPair, ClockSource, Control, INSTANCE_SLOTS, KERNEL_SLOTS, KIND_SLOTS,
    KernelNameEntry, KindLayout, LINE, MAGIC, PRODUCER, PoolEntry, QueueHead, ReadyEntry, RegionHeader, SCHEMA,
    SITE_SLOTS, STRING_BYTES, SiteEntry, StringRef, TableHead, pool_index,
};

const PAGE: u64 = 4096;

/// What an agent may do, and so which pools it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Role {
    /// Whether the agent may schedule.
    pub schedules: bool,
    /// Whether the agent may orchestrate.
    pub orchestrates: bool,
}

impl Role {
    /// An agent that does both.
    pub const BOTH: Role = Role { schedules: true, orchestrates: true };
    /// An agent that only schedules.
    pub const SCHEDULER: Role = Role { schedules: true, orchestrates: false };
    /// An agent that only orchestrates.
    pub const ORCHESTRATOR: Role = Role { schedules: false, orchestrates: true };
}

/// The sizes of a pool. What is not given is chosen from the number of pools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BufferSizes {
    /// Buffers per pool, at least one.
    pub buffers: Option<u32>,
    /// Records per buffer, at least one.
    pub records: Option<u32>,
}

impl BufferSizes {
    /// Bytes of a buffer if the number of records is not given.
    const BYTES: u32 = 64 << 10;
    /// Bytes that all pools together aim at.
    const BUDGET: u32 = 64 << 20;
    /// The most bytes of a buffer. The collector packs a batch of buffers at a time into memory of its own, and a
    /// frame of the segment file counts its bytes in 32 bits.
    pub const BYTES_LIMIT: u64 = 64 << 20;

    fn buffers_for(&self, pools: u32) -> u32 {
        self.buffers.unwrap_or_else(|| (Self::BUDGET / Self::BYTES / pools.max(1)).clamp(4, 16))
    }

    fn records_for(&self, kind: Kind) -> u32 {
        let fit = (Self::BYTES - size_of::<BufferHeader>() as u32) / kind.record_bytes() as u32;
        self.records.unwrap_or(fit)
    }
}

/// What a region is made for.
#[derive(Clone, Debug)]
pub struct RegionSpec {
    /// What is recorded.
    pub flags: Flags,
    /// Cores of the run.
    pub cores: u16,
    /// Agents of the run, by id.
    pub agents: Vec<Role>,
    /// What a producer does that finds no buffer.
    pub policy: Policy,
    /// How long a blocked producer waits before it takes the host for gone.
    pub host_gone_ns: u64,
    /// How long a producer with policy drop waits.
    pub drop_wait_ns: u64,
    /// The clock's ticks per second.
    pub clock_hz: u64,
    /// What the clock is.
    pub clock_source: ClockSource,
    /// The sizes of its pools.
    pub sizes: BufferSizes,
    /// Bytes of the names of all kernels of the run.
    pub kernel_name_bytes: u64,
}

/// Where everything lies.
#[derive(Clone, Debug)]
pub struct RegionPlan {
    /// The header, complete but for the run directory, the tag and the checksum.
    pub(crate) header: RegionHeader,
    /// The layouts of kinds, by kind number.
    pub(crate) kinds: [KindLayout; KIND_SLOTS],
    /// The pools, by directory index.
    pub(crate) pools: Vec<PoolEntry>,
    /// The ready queues, by agent.
    pub(crate) ready: Vec<ReadyEntry>,
}

impl RegionPlan {
    /// Lays a region out.
    ///
    /// # Errors
    /// [`Error::TooMany`], [`Error::BufferTooLarge`] or [`Error::NamesTooLong`] if the run asks for more than a region has room for;
    /// [`Error::NoneAtAll`] if it asks for pools without buffers, or buffers without records.
    pub fn new(spec: &RegionSpec) -> Result<Self, Error> {
        let too_many = |what, value| Error::TooMany { what, value, limit: INSTANCE_SLOTS };
        if usize::from(spec.cores) > INSTANCE_SLOTS {
            return Err(too_many("the number of cores", spec.cores.into()));
        }
        if spec.agents.len() > INSTANCE_SLOTS {
            return Err(too_many("the number of agents", spec.agents.len()));
        }
        let sizes = [("buffers per pool", spec.sizes.buffers), ("records per buffer", spec.sizes.records)];
        if let Some((what, _)) = sizes.into_iter().find(|(_, given)| *given == Some(0)) {
            return Err(Error::NoneAtAll { what });
        }
        let buffers = spec.sizes.buffers.unwrap_or(0);
        if buffers > BUFFER_LIMIT {
            let (what, value, limit) = ("the number of buffers per pool", buffers as usize, BUFFER_LIMIT as usize);
            return Err(Error::TooMany { what, value, limit });
        }
        let string_bytes = string_bytes(spec)?;
        let kinds = Self::kinds(spec)?;
        let mut end = Cursor(size_of::<RegionHeader>() as u64);
        let mut header = Self::header(spec, string_bytes, &mut end);
        let ready = Self::ready(spec, &kinds, &mut end);
        let mut pools = vec![PoolEntry::default(); KIND_SLOTS * INSTANCE_SLOTS];
        for kind in Kind::ALL {
            let layout = kinds[kind as usize];
            for instance in instances(spec, kind) {
                pools[pool_index(kind, instance)] = PoolEntry {
                    head_offset: end.take(LINE as u64, LINE as u64),
                    free_offset: end.take(queue_bytes(layout.free_slots), LINE as u64),
                    buffers_offset: end.take(u64::from(layout.buffers) * u64::from(layout.buffer_stride), PAGE),
                    present: 1,
                };
            }
        }
        header.region_bytes = end.0.next_multiple_of(PAGE);
        Ok(Self { header, kinds, pools, ready })
    }

    /// Bytes of the region.
    pub fn bytes(&self) -> u64 {
        self.header.region_bytes
    }

    fn header(spec: &RegionSpec, string_bytes: u32, end: &mut Cursor) -> RegionHeader {
        let mut producer = [0; 32];
        producer[..PRODUCER.len()].copy_from_slice(PRODUCER.as_bytes());
        let line = LINE as u64;
        let mut table =
            |entries: usize, bytes: usize| end.take((size_of::<TableHead>() + entries * bytes) as u64, line);
        RegionHeader {
            magic: MAGIC,
            schema: SCHEMA,
            header_bytes: size_of::<RegionHeader>() as u32,
            producer,
            region_bytes: 0,
            flags: spec.flags.bits(),
            policy: spec.policy as u32,
            pid: std::process::id(),
            host_gone_ns: spec.host_gone_ns,
            drop_wait_ns: spec.drop_wait_ns,
            cores: spec.cores.into(),
            agents: spec.agents.len() as u32,
            clock_offset: table(CLOCK_SLOTS, size_of::<ClockPair>()),
            kernels_offset: table(KERNEL_SLOTS, size_of::<KernelNameEntry>()),
            sites_offset: table(SITE_SLOTS, size_of::<SiteEntry>()),
            strings_offset: table(string_bytes as usize, 1),
            kinds_offset: end.take((KIND_SLOTS * size_of::<KindLayout>()) as u64, line),
            pools_offset: end.take((KIND_SLOTS * INSTANCE_SLOTS * size_of::<PoolEntry>()) as u64, line),
            ready_offset: end.take((INSTANCE_SLOTS * size_of::<ReadyEntry>()) as u64, line),
            control_offset: end.take(size_of::<Control>() as u64, line),
            kind_slots: KIND_SLOTS as u32,
            instance_slots: INSTANCE_SLOTS as u32,
            clock_slots: CLOCK_SLOTS as u32,
            kernel_slots: KERNEL_SLOTS as u32,
            site_slots: SITE_SLOTS as u32,
            string_bytes,
            run_dir: StringRef::default(),
            clock_hz: spec.clock_hz.max(1),
            clock_source: spec.clock_source as u32,
            run_tag: 0,
            board_offset: end.take(board_bytes(spec.agents.len(), spec.cores.into()) as u64, line),
            checksum: 0,
            pad: 0,
        }
    }

    fn kinds(spec: &RegionSpec) -> Result<[KindLayout; KIND_SLOTS], Error> {
        let pools: usize = Kind::ALL.iter().map(|&kind| instances(spec, kind).len()).sum();
        let buffers = spec.sizes.buffers_for(pools as u32);
        let mut kinds = [KindLayout::default(); KIND_SLOTS];
        for kind in Kind::ALL {
            let instances = instances(spec, kind).len() as u32;
            if instances > 0 {
                let records = spec.sizes.records_for(kind);
                let bytes = size_of::<BufferHeader>() as u64 + u64::from(records) * kind.record_bytes() as u64;
                if bytes > BufferSizes::BYTES_LIMIT {
                    let (kind, limit) = (kind.name(), BufferSizes::BYTES_LIMIT);
                    return Err(Error::BufferTooLarge { kind, records, bytes, limit });
                }
                kinds[kind as usize] = KindLayout {
                    record_bytes: kind.record_bytes() as u32,
                    instances,
                    buffers,
                    records,
                    buffer_stride: bytes.next_multiple_of(LINE as u64) as u32,
                    free_slots: buffers.next_power_of_two(),
                    pad: 0,
                };
            }
        }
        Ok(kinds)
    }

    /// One queue per agent with room for every buffer that can reach it: those of its own pools and, since any agent may
    /// own any core, those of all cores.
    fn ready(spec: &RegionSpec, kinds: &[KindLayout; KIND_SLOTS], end: &mut Cursor) -> Vec<ReadyEntry> {
        let slots = |role: &Role| -> u32 {
            let buffers = Kind::ALL.iter().map(|&kind| {
                let layout = kinds[kind as usize];
                layout.buffers
                    * match kind.instances() {
                        Instances::Cores => layout.instances,
                        Instances::Schedulers => u32::from(role.schedules),
                        Instances::Orchestrators => u32::from(role.orchestrates),
                    }
            });
            buffers.sum::<u32>().max(1).next_power_of_two()
        };
        let entry = |role| {
            let slots = slots(role);
            ReadyEntry { offset: end.take(queue_bytes(slots), LINE as u64), slots: slots.into() }
        };
        spec.agents.iter().map(entry).collect()
    }
}

/// The instances that have a pool of `kind`: none if its flag is clear.
fn instances(spec: &RegionSpec, kind: Kind) -> Vec<u16> {
    if !spec.flags.has(kind.flag()) {
        return Vec::new();
    }
    let agents = |has: fn(&Role) -> bool| {
        spec.agents.iter().enumerate().filter(|(_, role)| has(role)).map(|(agent, _)| agent as u16).collect()
    };
    match kind.instances() {
        Instances::Cores => (0..spec.cores).collect(),
        Instances::Schedulers => agents(|role| role.schedules),
        Instances::Orchestrators => agents(|role| role.orchestrates),
    }
}

/// Bytes of the string table: the kernels' names, and a fixed part for source sites and the run's directory.
fn string_bytes(spec: &RegionSpec) -> Result<u32, Error> {
    let bytes = spec.kernel_name_bytes.saturating_add(STRING_BYTES as u64);
    u32::try_from(bytes).map_err(|_| Error::NamesTooLong {
        bytes: spec.kernel_name_bytes,
        limit: u64::from(u32::MAX) - STRING_BYTES as u64,
    })
}

fn queue_bytes(slots: u32) -> u64 {
    (size_of::<QueueHead>() + slots as usize * 8) as u64
}

/// The checksum of a header with these bytes of its directory's kinds and pools.
pub(crate) fn checksum(header: &RegionHeader, kinds: &[u8], pools: &[u8]) -> u32 {
    let header = RegionHeader { checksum: 0, ..*header };
    let of_header = crc32c::crc32c(bytemuck::bytes_of(&header));
    crc32c::crc32c_append(crc32c::crc32c_append(of_header, kinds), pools)
}

/// The end of what has been placed.
struct Cursor(u64);

impl Cursor {
    /// Places `bytes` at the next multiple of `align`.
    fn take(&mut self, bytes: u64, align: u64) -> u64 {
        let at = self.0.next_multiple_of(align);
        self.0 = at + bytes;
        at
    }
}

const _: () = assert!(PRODUCER.len() <= 32);
