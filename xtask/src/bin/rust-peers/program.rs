//! Task graphs as programs: tasks in submission order, each with the data it reads and the data it reads and writes.
//!
//! The C++ twin is `peers/cpp/program.hpp`; [`PeerProgram::fingerprint`] proves that both generate the same.

/// Tiles of a plate along a side.
const SIDE: u32 = 16;
/// Chunks of a ring, and how many of them a window touches.
const CHUNKS: u32 = 16;
const WINDOW: u32 = 4;

pub(crate) struct PeerProgram {
    /// Accesses name data `0..data`.
    pub(crate) data: u32,
    /// Of all tasks; a task's reads stand before its writes.
    pub(crate) accesses: Vec<u32>,
    /// Task `t`'s accesses are `begin[t]..begin[t + 1]`.
    pub(crate) begin: Vec<u32>,
    /// How many of them are reads.
    pub(crate) reads: Vec<u32>,
}

impl PeerProgram {
    /// The program of `shape` with at most `tasks` tasks; none if there is no such shape.
    pub(crate) fn generate(shape: &str, tasks: u32) -> Option<PeerProgram> {
        let mut p = PeerProgram { data: 1, accesses: Vec::new(), begin: vec![0], reads: Vec::new() };
        match shape {
            "independent" => (0..tasks).for_each(|_| p.task(&[], &[])),
            "own-datum" => {
                p.data = tasks;
                (0..tasks).for_each(|i| p.task(&[], &[i]));
            }
            "chain" => (0..tasks).for_each(|_| p.task(&[], &[0])),
            "fork-join" => p.fork_join(tasks / 65),
            "wavefront" => p.wavefront(tasks.isqrt()),
            "cholesky" => p.cholesky(cholesky_columns(tasks)),
            "paged-attention" => p.paged_attention(tasks / 256),
            "stencil" => p.stencil(tasks / (SIDE * SIDE), false),
            "stencil-9" => p.stencil(tasks / (SIDE * SIDE), true),
            "lu" => p.lu(lu_columns(tasks)),
            "sliding" => p.sliding(tasks / (CHUNKS + CHUNKS + 1 - WINDOW)),
            _ => return None,
        }
        Some(p)
    }

    pub(crate) fn tasks(&self) -> u32 {
        self.reads.len() as u32
    }

    /// FNV-1a over the number of reads and the accesses of every task, word by word.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mix = |hash: u64, word: u32| (hash ^ u64::from(word)).wrapping_mul(0x100_0000_01b3);
        self.begin.windows(2).zip(&self.reads).fold(0xcbf2_9ce4_8422_2325, |hash, (ends, &reads)| {
            let accesses = &self.accesses[ends[0] as usize..ends[1] as usize];
            accesses.iter().fold(mix(hash, reads), |hash, &datum| mix(hash, datum))
        })
    }

    fn task(&mut self, read: &[u32], written: &[u32]) {
        self.accesses.extend_from_slice(read);
        self.accesses.extend_from_slice(written);
        self.reads.push(read.len() as u32);
        self.begin.push(self.accesses.len() as u32);
    }

    /// 1 → 64 → 1, repeated: the join of one round is the fork of the next.
    fn fork_join(&mut self, rounds: u32) {
        let branches: Vec<u32> = (1..=64).collect();
        self.data = 65;
        for _ in 0..rounds {
            self.task(&branches, &[0]);
            branches.iter().for_each(|&j| self.task(&[0], &[j]));
        }
    }

    fn wavefront(&mut self, side: u32) {
        self.data = 2 * side;
        for i in 0..side {
            (0..side).for_each(|j| self.task(&[], &[i, side + j]));
        }
    }

    fn cholesky(&mut self, nt: u32) {
        let tile = |row: u32, column: u32| row * nt + column;
        self.data = nt * nt;
        for k in 0..nt {
            self.task(&[], &[tile(k, k)]);
            (k + 1..nt).for_each(|i| self.task(&[tile(k, k)], &[tile(i, k)]));
            for i in k + 1..nt {
                (k + 1..i).for_each(|j| self.task(&[tile(i, k), tile(j, k)], &[tile(i, j)]));
                self.task(&[tile(i, k)], &[tile(i, i)]);
            }
        }
    }

    /// Two plates of 16 × 16 tiles in turns: a tile of one from its like and its neighbours in the other.
    fn stencil(&mut self, steps: u32, corners: bool) {
        self.data = 2 * SIDE * SIDE;
        for step in 0..steps {
            let (from, to) = (step % 2 * SIDE * SIDE, (step + 1) % 2 * SIDE * SIDE);
            for row in 0..SIDE {
                for column in 0..SIDE {
                    let mut read = Vec::new();
                    for i in row.saturating_sub(1)..(row + 2).min(SIDE) {
                        for j in column.saturating_sub(1)..(column + 2).min(SIDE) {
                            if corners || i == row || j == column {
                                read.push(from + i * SIDE + j);
                            }
                        }
                    }
                    self.task(&read, &[to + row * SIDE + column]);
                }
            }
        }
    }

    /// LU by panels: a column panel, the row panel to the right of it, and what is left tile by tile.
    fn lu(&mut self, nt: u32) {
        let tile = |row: u32, column: u32| row * nt + column;
        self.data = nt * nt;
        for k in 0..nt {
            let column: Vec<u32> = (k..nt).map(|i| tile(i, k)).collect();
            self.task(&[], &column);
            if k + 1 < nt {
                let row: Vec<u32> = (k + 1..nt).map(|j| tile(k, j)).collect();
                self.task(&[tile(k, k)], &row);
            }
            for i in k + 1..nt {
                (k + 1..nt).for_each(|j| self.task(&[tile(i, k), tile(k, j)], &[tile(i, j)]));
            }
        }
    }

    /// A ring of chunks: each is overwritten in turn, then a window that ends with it is read, unless it would wrap.
    fn sliding(&mut self, laps: u32) {
        let sums = CHUNKS + 1 - WINDOW;
        self.data = CHUNKS + laps * sums;
        for lap in 0..laps {
            for chunk in 0..CHUNKS {
                self.task(&[], &[chunk]);
                if chunk + 1 >= WINDOW {
                    let window: Vec<u32> = (chunk + 1 - WINDOW..=chunk).collect();
                    self.task(&window, &[CHUNKS + lap * sums + chunk + 1 - WINDOW]);
                }
            }
        }
    }

    /// 8 sequences × 8 heads. The heads of a sequence share its keys and values; every block has temporaries of its
    /// own; the accumulator of a head is updated by its blocks in turn.
    fn paged_attention(&mut self, blocks: u32) {
        const SEQUENCES: u32 = 8;
        const HEADS: u32 = 8;
        const ROWS: u32 = SEQUENCES * HEADS;
        let (query, key) = (0, ROWS);
        let value = key + SEQUENCES * blocks;
        let accumulator = value + SEQUENCES * blocks;
        let temporary = accumulator + ROWS;
        self.data = temporary + 3 * ROWS * blocks;
        for row in 0..ROWS {
            for k in 0..blocks {
                let block = row / HEADS * blocks + k;
                let t = temporary + 3 * (row * blocks + k);
                self.task(&[query + row, key + block], &[t]);
                self.task(&[t], &[t + 1]);
                self.task(&[t + 1, value + block], &[t + 2]);
                self.task(&[t + 2], &[accumulator + row]);
            }
        }
    }
}

/// The largest number of tile columns whose factorisation has at most `tasks` tasks: nt(nt+1)(nt+2)/6 of them.
fn cholesky_columns(tasks: u32) -> u32 {
    let tasks_of = |nt: u64| nt * (nt + 1) * (nt + 2) / 6;
    (1..).find(|&nt| tasks_of(u64::from(nt) + 1) > u64::from(tasks)).unwrap_or(1)
}

/// The largest number of tile columns whose factorisation by panels has at most `tasks` tasks.
fn lu_columns(tasks: u32) -> u32 {
    let tasks_of = |nt: u64| (nt - 1) * nt * (2 * nt - 1) / 6 + 2 * nt - 1;
    (1..).find(|&nt| tasks_of(u64::from(nt) + 1) > u64::from(tasks)).unwrap_or(1)
}
