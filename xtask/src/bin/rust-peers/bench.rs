//! What every Rust peer shares: arguments, the task body and the JSON line. See `peers/README.md` for the contract.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use serde_json::json;

use crate::edges::NeighbourGraph;
use crate::kernel::kernel;
use crate::marks::PeerTimes;
use crate::program::PeerProgram;

pub(crate) struct PeerBench {
    pub(crate) peer: String,
    pub(crate) workers: usize,
    pub(crate) program: PeerProgram,
    pub(crate) graph: NeighbourGraph,
    shape: String,
    iterations: u32,
    infer_ns: u64,
    rss_before_bytes: u64,
    /// With `--check`: one per task. Empty otherwise.
    ran: Vec<AtomicBool>,
    violations: AtomicU64,
}

impl PeerBench {
    pub(crate) fn prepare(mut arguments: impl Iterator<Item = String>) -> Result<PeerBench, String> {
        let (mut peer, mut shape) = (String::new(), "independent".to_string());
        let (mut tasks, mut iterations, mut workers, mut check) = (100_000, 0, 2, false);
        while let Some(flag) = arguments.next() {
            if flag == "--check" {
                check = true;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("no value after {flag}"))?;
            let number = || value.parse::<u32>().map_err(|e| format!("{flag} {value}: {e}"));
            match flag.as_str() {
                "--tasks" => tasks = number()?,
                "--iterations" => iterations = number()?,
                "--workers" => workers = number()? as usize,
                "--peer" => peer = value,
                "--shape" => shape = value,
                _ => return Err(format!("no such argument: {flag}")),
            }
        }
        let program = PeerProgram::generate(&shape, tasks).ok_or_else(|| format!("no such shape: {shape}"))?;
        let begin = Instant::now();
        let graph = NeighbourGraph::derive(&program);
        let infer_ns = begin.elapsed().as_nanos() as u64;
        let ran = (0..if check { program.tasks() } else { 0 }).map(|_| AtomicBool::new(false)).collect();
        let (violations, rss_before_bytes) = (AtomicU64::new(0), status_bytes("VmRSS:"));
        Ok(PeerBench { peer, workers, program, graph, shape, iterations, infer_ns, rss_before_bytes, ran, violations })
    }

    /// The body of every task. `verify` comes after the kernel, where a missing dependency shows most often.
    #[inline]
    pub(crate) fn body(&self, task: u32) {
        kernel(self.iterations);
        if !self.ran.is_empty() {
            self.verify(task);
        }
    }

    pub(crate) fn roots(&self) -> impl Iterator<Item = u32> {
        (0..self.program.tasks()).filter(|&t| self.graph.indegree(t) == 0)
    }

    /// For every task, how many predecessors it still waits for.
    pub(crate) fn awaited(&self) -> Vec<AtomicU32> {
        (0..self.program.tasks()).map(|t| AtomicU32::new(self.graph.indegree(t))).collect()
    }

    pub(crate) fn report(&self, marks: &PeerTimes) {
        let never_ran = self.ran.iter().filter(|ran| !ran.load(Ordering::Relaxed)).count() as u64;
        let line = json!({
            "peer": self.peer, "shape": self.shape, "workers": self.workers, "iterations": self.iterations,
            "tasks": self.program.tasks(), "edges": self.graph.predecessors.edges(),
            "fingerprint": format!("{:016x}", self.program.fingerprint()),
            "build_ns": marks.build_ns, "total_ns": marks.total_ns, "cpu_ns": marks.cpu_ns, "setup_ns": 0,
            "infer_ns": self.infer_ns,
            "rss_before_bytes": self.rss_before_bytes, "peak_rss_bytes": status_bytes("VmHWM:"),
            "violations": self.violations.load(Ordering::Relaxed) + never_ran,
        });
        println!("{line}");
    }

    #[cold]
    fn verify(&self, task: u32) {
        // Acquire pairs(peer.ran).
        let missing = |p: &&u32| !self.ran[**p as usize].load(Ordering::Acquire);
        let early = self.graph.predecessors.of(task).iter().filter(missing).count() as u64;
        // AcqRel pairs(peer.ran).
        let twice = self.ran[task as usize].swap(true, Ordering::AcqRel);
        self.violations.fetch_add(early + u64::from(twice), Ordering::Relaxed);
    }
}

/// A line of /proc/self/status, in bytes; 0 where there is none.
fn status_bytes(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}
