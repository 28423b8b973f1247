//! The dependencies a program implies: read after write, write after read, write after write.
//!
//! Peers are given them for nothing. The time to derive them is reported as `infer_ns`: with dense tables and both
//! directions written, it is the floor for a runtime that infers.

use crate::program::PeerProgram;

const NONE: u32 = u32::MAX;

/// The neighbours of every task in compressed rows.
pub(crate) struct Rows {
    begin: Vec<u32>,
    list: Vec<u32>,
}

impl Rows {
    #[inline]
    pub(crate) fn of(&self, task: u32) -> &[u32] {
        &self.list[self.begin[task as usize] as usize..self.begin[task as usize + 1] as usize]
    }

    pub(crate) fn edges(&self) -> usize {
        self.list.len()
    }

    fn inverted(&self) -> Rows {
        let tasks = self.begin.len() - 1;
        let mut begin = vec![0u32; tasks + 1];
        self.list.iter().for_each(|&p| begin[p as usize + 1] += 1);
        (0..tasks).for_each(|t| begin[t + 1] += begin[t]);
        let mut list = vec![0; self.list.len()];
        let mut next = begin.clone();
        for task in 0..tasks as u32 {
            for &p in self.of(task) {
                list[next[p as usize] as usize] = task;
                next[p as usize] += 1;
            }
        }
        Rows { begin, list }
    }
}

pub(crate) struct NeighbourGraph {
    pub(crate) predecessors: Rows,
    pub(crate) successors: Rows,
}

impl NeighbourGraph {
    pub(crate) fn derive(program: &PeerProgram) -> NeighbourGraph {
        let tasks = program.tasks() as usize;
        let mut out = Rows { begin: Vec::with_capacity(tasks + 1), list: Vec::new() };
        out.begin.push(0);
        let mut last_writer = vec![NONE; program.data as usize];
        let mut readers: Vec<Vec<u32>> = vec![Vec::new(); program.data as usize]; // since the last write
        let mut seen_by = vec![NONE; tasks]; // keeps an edge from being listed twice
        for task in 0..tasks {
            let now = task as u32;
            let mut depend_on = |earlier: u32| {
                if earlier != NONE && earlier != now && seen_by[earlier as usize] != now {
                    seen_by[earlier as usize] = now;
                    out.list.push(earlier);
                }
            };
            let (first, end) = (program.begin[task] as usize, program.begin[task + 1] as usize);
            let (reads, writes) = program.accesses[first..end].split_at(program.reads[task] as usize);
            for &datum in reads {
                depend_on(last_writer[datum as usize]);
                readers[datum as usize].push(now);
            }
            for &datum in writes {
                let readers = &mut readers[datum as usize];
                // Readers already follow the last writer, so only without them does the write follow it directly.
                if readers.is_empty() {
                    depend_on(last_writer[datum as usize]);
                }
                readers.drain(..).for_each(&mut depend_on);
                last_writer[datum as usize] = now;
            }
            out.begin.push(out.list.len() as u32);
        }
        let successors = out.inverted();
        NeighbourGraph { predecessors: out, successors }
    }

    pub(crate) fn indegree(&self, task: u32) -> u32 {
        self.predecessors.of(task).len() as u32
    }
}
