//! Run directories made up for tests and benchmarks: of any size, and the same every time.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use plimsoll_abi::record::{
    AicoreTask, AicpuTask, ArgMode, OrchPhase, Record, SchedPhase, SchedPhaseKind, ScopePhase, ScopeRecord,
    ScopeRingsRecord, SubmitRecord, SubmitTag,
};
use plimsoll_abi::segment::{FRAME_MAGIC, FileHeader, FrameHeader, Origin, packing};
use plimsoll_abi::{Dtype, Flags, Level, RingUse, TaskId, Usage};

use crate::{
    AgentFacts, ClockFacts, CoreFacts, KernelFacts, Ledger, Manifest, PoolLedger, RingCapacity, SiteFacts, Status,
};

/// The bytes of a segment file, frame by frame.
#[derive(Clone, Debug)]
pub struct SegmentBytes {
    bytes: Vec<u8>,
    ledger: Vec<PoolLedger>,
}

impl Default for SegmentBytes {
    fn default() -> Self {
        Self { bytes: FileHeader::new().to_bytes().to_vec(), ledger: Vec::new() }
    }
}

impl SegmentBytes {
    /// Adds a frame.
    pub fn frame<R: Record>(&mut self, instance: u16, sequence: u64, origin: Origin, records: &[R]) {
        let mut packed = vec![0; packing::room(R::KIND, records.len())];
        let bytes = packing::pack(R::KIND, bytemuck::cast_slice(records), &mut packed);
        packed.truncate(bytes);
        let header = FrameHeader {
            magic: FRAME_MAGIC,
            kind: R::KIND as u16,
            instance,
            sequence,
            count: records.len() as u32,
            bytes: bytes as u32,
            record_bytes: size_of::<R>() as u16,
            origin: origin as u16,
            crc: crc32c::crc32c(&packed),
        };
        self.bytes.extend_from_slice(&header.to_bytes());
        self.bytes.extend_from_slice(&packed);
    }

    /// Adds a pool's records, so many to a frame, and its row of the ledger.
    pub fn pool<R: Record>(&mut self, instance: u16, records: &[R], per_frame: usize) {
        for (sequence, chunk) in records.chunks(per_frame.max(1)).enumerate() {
            self.frame(instance, sequence as u64, Origin::Collected, chunk);
        }
        let total = records.len() as u64;
        let kind = R::KIND.name().to_string();
        self.ledger.push(PoolLedger { kind, instance, total, collected: total, ..PoolLedger::default() });
    }

    /// The file's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The ledger of the pools that were added.
    pub fn ledger(&self) -> Ledger {
        Ledger::of(self.ledger.clone())
    }
}

/// A made-up run in scopes of eight tasks. Tasks take turns on the cores, and each reads what the task before on its own core
/// and the one before on the next core made: two edges per task, which its times respect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synthetic {
    /// Tasks.
    pub tasks: u32,
    /// Cores, all workers.
    pub cores: u16,
    /// The swimlane level.
    pub level: u8,
    /// Whether submits were recorded.
    pub deps: bool,
    /// Whether scopes were sampled.
    pub scopes: bool,
    /// Records of a frame.
    pub per_frame: usize,
}

impl Default for Synthetic {
    fn default() -> Self {
        Self { tasks: 100, cores: 3, level: 4, deps: true, scopes: true, per_frame: 16 }
    }
}

const KERNELS: [&str; 4] = ["QK", "SF", "PV", "UP"];
const TASKS_PER_SCOPE: u32 = 8;
/// Virtual ticks between submits.
const SUBMIT: u64 = 40;
const ORIGIN: u64 = 1_000_000;

impl Synthetic {
    /// Writes the run directory.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir.join("records"))?;
        let segment = self.segment();
        fs::File::create(dir.join("records/records.seg"))?.write_all(segment.bytes())?;
        let manifest = self.manifest(segment.ledger());
        manifest.write(dir).map_err(io::Error::other)
    }

    /// The segment file.
    pub fn segment(&self) -> SegmentBytes {
        let mut segment = SegmentBytes::default();
        for core in 0..self.cores {
            let tasks: Vec<u32> = (0..self.tasks).filter(|t| self.core(*t) == core).collect();
            let ran: Vec<AicoreTask> = tasks.iter().enumerate().map(|(n, t)| self.aicore(n, *t)).collect();
            if self.level >= 1 {
                segment.pool(core, &ran, self.per_frame);
            }
            if self.level >= 2 {
                let seen: Vec<AicpuTask> = ran.iter().map(aicpu).collect();
                segment.pool(core, &seen, self.per_frame);
            }
            if self.level >= 3 {
                let phases: Vec<SchedPhase> = ran.iter().flat_map(sched_phases).collect();
                segment.pool(core, &phases, self.per_frame);
            }
        }
        if self.level >= 4 {
            let submits: Vec<OrchPhase> = (0..self.tasks).map(|t| self.orch(t)).collect();
            segment.pool(0, &submits, self.per_frame);
        }
        if self.scopes {
            let (samples, rings) = self.scope_records();
            segment.pool(0, &samples, self.per_frame);
            segment.pool(0, &rings, self.per_frame);
        }
        if self.deps {
            segment.pool(0, &self.submits(), self.per_frame);
        }
        segment
    }

    fn core(&self, task: u32) -> u16 {
        (task % u32::from(self.cores.max(1))) as u16
    }

    fn word(&self, task: u32) -> u64 {
        TaskId::new(1, task).with_round(0)
    }

    fn aicore(&self, nth: usize, task: u32) -> AicoreTask {
        let slot = 3 * SUBMIT * u64::from(self.cores.max(1));
        let start = ORIGIN + SUBMIT * u64::from(task % u32::from(self.cores.max(1))) + nth as u64 * slot + 100;
        // A spread of durations that leaves every task time to finish before the next on its core and on the one before.
        let length = 20 + u64::from(task.wrapping_mul(2_654_435_761) >> 16) % (slot - 60 - SUBMIT);
        AicoreTask {
            start,
            end: start + length,
            task: self.word(task),
            token: nth as u32 + 1,
            receive_and_kernel: AicoreTask::pack(u64::from(task % 7), task % KERNELS.len() as u32),
        }
    }

    fn orch(&self, task: u32) -> OrchPhase {
        let start = ORIGIN + u64::from(task) * SUBMIT;
        OrchPhase { start, end: start + SUBMIT - 5, task: self.word(task), submit_idx: task, pad: 0 }
    }

    /// The samples of all scopes, and what the rings held where scopes ended.
    fn scope_records(&self) -> (Vec<ScopeRecord>, Vec<ScopeRingsRecord>) {
        let mut samples = vec![self.scope_sample(0, ScopePhase::Begin, 0, 0)];
        let scopes = self.tasks.div_ceil(TASKS_PER_SCOPE);
        for scope in 0..scopes {
            let first = scope * TASKS_PER_SCOPE;
            let after = (first + TASKS_PER_SCOPE).min(self.tasks);
            samples.push(self.scope_sample(scope + 1, ScopePhase::Begin, 1, first));
            samples.push(self.scope_sample(scope + 1, ScopePhase::End, 1, after));
        }
        samples.push(self.scope_sample(0, ScopePhase::End, 0, self.tasks));
        let ends = samples.iter().filter(|sample| sample.has(ScopeRecord::ENDS));
        let rings = ends.map(|end| {
            let mut used = Usage::NONE;
            used.set_ring(usize::from(end.depth), end.own_use());
            let mut most = Usage { tensormap: TASKS_PER_SCOPE * 2, ..used };
            let ring = RingUse {
                window: TASKS_PER_SCOPE,
                dep_pool: TASKS_PER_SCOPE * 2,
                heap: u64::from(TASKS_PER_SCOPE) * 1024,
            };
            most.set_ring(1, ring);
            ScopeRingsRecord::of(end.at, end.scope, &used, &most)
        });
        let rings = rings.collect();
        (samples, rings)
    }

    fn scope_sample(&self, scope: u32, phase: ScopePhase, depth: u16, submitted: u32) -> ScopeRecord {
        let ends = phase == ScopePhase::End;
        let held = if depth == 1 && ends { submitted % 5 + 4 } else { 0 };
        let head = u64::from(submitted) * u64::from(depth);
        ScopeRecord {
            at: ORIGIN + u64::from(submitted) * SUBMIT - u64::from(ends) * 2,
            window_head: head,
            heap_head: head * 1024,
            heap: u64::from(held) * 1024,
            window: held,
            tensormap: held * 2,
            scope,
            peak_fanin: if ends { 2 } else { 0 },
            depth,
            site_and_bits: depth | if ends { ScopeRecord::ENDS | ScopeRecord::HAS_RINGS } else { 0 },
            ..ScopeRecord::default()
        }
    }

    /// Each task reads what two earlier ones made and makes a buffer of its own; the first ones of all cores read nothing.
    fn submits(&self) -> Vec<SubmitRecord> {
        let cores = u32::from(self.cores.max(1));
        let mut records = Vec::with_capacity(self.tasks as usize * 4);
        for task in 0..self.tasks {
            let (before, core) = (task.checked_sub(cores), task % cores);
            // Without a second core the second input is that of the task two before.
            let neighbour =
                if cores > 1 { before.map(|own| own - core + (core + 1) % cores) } else { task.checked_sub(2) };
            let inputs = before.into_iter().chain(neighbour);
            let mut head = SubmitRecord { tag: SubmitTag::Task as u8, id: self.word(task), ..SubmitRecord::default() };
            head.shape = [task % KERNELS.len() as u32 + 1, 0, 0, 1, inputs.clone().count() as u32 + 1];
            records.push(head);
            let uses = inputs.map(|made_by| (made_by, ArgMode::Input)).chain([(task, ArgMode::Output)]);
            for (index, (made_by, mode)) in uses.enumerate() {
                let mut arg = dense(SubmitTag::Arg, u64::from(made_by));
                (arg.mode, arg.aux) = (mode as u8, index as u32);
                records.push(arg);
            }
        }
        records
    }

    fn manifest(&self, reconcile: Ledger) -> Manifest {
        let mut manifest = Manifest::new("synthetic");
        manifest.engine = "virtual".to_string();
        manifest.arch = "host".to_string();
        manifest.virtual_time = true;
        for core in 0..self.cores {
            let name = format!("worker {core}");
            manifest.topology.agents.push(AgentFacts { name, orchestrates: core == 0, schedules: true });
            manifest.topology.cores.push(CoreFacts { agent: Some(core), ..CoreFacts::default() });
        }
        manifest.capacities.rings = [RingCapacity { task_window: 16_384, heap: 64 << 20, dep_pool: 16_384 }; 4];
        manifest.capacities.tensormap = 65_536;
        manifest.clock = ClockFacts { hz: 1e9, source: "virtual".to_string(), pairs: Vec::new() };
        manifest.level = self.level;
        let mut flags = Level::new(u64::from(self.level)).map_or(Flags::NONE, Level::flags);
        flags = if self.deps { flags.with(Flags::DEP_GEN) } else { flags };
        manifest.flags = if self.scopes { flags.with(Flags::SCOPE_STATS) } else { flags }.bits();
        manifest.status = Status::Ok;
        let kernels = KERNELS.iter().enumerate();
        manifest.kernels = kernels
            .map(|(id, name)| KernelFacts { id: id as u32, name: name.to_string(), ..KernelFacts::default() })
            .collect();
        let site = |id: u32, line: u32| SiteFacts { id, file: "synthetic.rs".to_string(), line };
        manifest.sites = vec![site(0, 1), site(1, 7)];
        manifest.rounds = 1;
        manifest.tasks = u64::from(self.tasks);
        manifest.dispatches = u64::from(self.tasks);
        manifest.reconcile = Some(reconcile);
        manifest
    }
}

/// A record of a whole buffer of 16 × 16.
fn dense(tag: SubmitTag, id: u64) -> SubmitRecord {
    SubmitRecord {
        tag: tag as u8,
        id,
        dtype: Dtype::F32 as u8,
        ndim: 2,
        shape: [16, 16, 0, 0, 0],
        strides: [16, 1, 0, 0, 0],
        ..SubmitRecord::default()
    }
}

fn aicpu(ran: &AicoreTask) -> AicpuTask {
    let (dispatch, finish) = (ran.start - 15, ran.end + 10);
    AicpuTask { dispatch, finish, task: ran.task, token: ran.token, kernel: ran.kernel() }
}

fn sched_phases(ran: &AicoreTask) -> [SchedPhase; 3] {
    let phase = |kind: SchedPhaseKind, start: u64, end: u64| SchedPhase {
        start,
        end,
        loop_iter: ran.token,
        kind: kind as u32,
        tasks_processed: 1,
        pop_hit: u32::from(kind == SchedPhaseKind::Dispatch),
        pop_miss: 0,
        pad: 0,
    };
    [
        phase(SchedPhaseKind::Dispatch, ran.start - 18, ran.start - 2),
        // An inner phase is recorded when it ends, before the one around it.
        phase(SchedPhaseKind::Resolve, ran.end + 5, ran.end + 9),
        phase(SchedPhaseKind::Complete, ran.end + 2, ran.end + 12),
    ]
}
