//! `serial-kahn`: one thread, counters and a stack of ready tasks. The floor for anything that respects edges.

use crate::bench::PeerBench;
use crate::marks::{PeerTimes, Running};

pub(crate) fn run(bench: &PeerBench) -> PeerTimes {
    let running = Running::start();
    let mut awaited: Vec<u32> = (0..bench.program.tasks()).map(|t| bench.graph.indegree(t)).collect();
    let mut ready: Vec<u32> = bench.roots().collect();
    ready.reverse(); // the stack then gives the roots in submission order
    let built = running.graph_is_built();
    while let Some(task) = ready.pop() {
        bench.body(task);
        for &successor in bench.graph.successors.of(task) {
            awaited[successor as usize] -= 1;
            if awaited[successor as usize] == 0 {
                ready.push(successor);
            }
        }
    }
    built.stop()
}
