// Task graphs as programs: tasks in submission order, each with the data it reads and the data it reads and writes.
// The Rust twin is xtask/src/bin/rust-peers/program.rs; `fingerprint` proves that both generate the same.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

struct Program {
  uint32_t data = 1;                    // accesses name data 0..data
  std::vector<uint32_t> accesses;       // of all tasks; a task's reads stand before its writes
  std::vector<uint32_t> begin = {0};    // task t's accesses are begin[t]..begin[t + 1]
  std::vector<uint32_t> reads;          // how many of them are reads

  uint32_t tasks() const { return static_cast<uint32_t>(reads.size()); }
  const uint32_t* of(uint32_t task) const { return accesses.data() + begin[task]; }
  uint32_t access_count(uint32_t task) const { return begin[task + 1] - begin[task]; }

  template <class Reads, class Writes>
  void task(const Reads& read, const Writes& written) {
    accesses.insert(accesses.end(), read.begin(), read.end());
    accesses.insert(accesses.end(), written.begin(), written.end());
    reads.push_back(static_cast<uint32_t>(read.size()));
    begin.push_back(static_cast<uint32_t>(accesses.size()));
  }
  void task(std::initializer_list<uint32_t> read, std::initializer_list<uint32_t> written) {
    task<>(read, written);
  }
};

// The largest number of tile columns whose factorisation has at most `tasks` tasks: nt(nt+1)(nt+2)/6 of them.
inline uint32_t cholesky_columns(uint32_t tasks) {
  uint64_t nt = 1;
  while ((nt + 1) * (nt + 2) * (nt + 3) / 6 <= tasks) nt++;
  return static_cast<uint32_t>(nt);
}

inline void cholesky(Program& p, uint32_t nt) {
  auto tile = [nt](uint32_t row, uint32_t column) { return row * nt + column; };
  p.data = nt * nt;
  for (uint32_t k = 0; k < nt; k++) {
    p.task({}, {tile(k, k)});
    for (uint32_t i = k + 1; i < nt; i++) p.task({tile(k, k)}, {tile(i, k)});
    for (uint32_t i = k + 1; i < nt; i++) {
      for (uint32_t j = k + 1; j < i; j++) p.task({tile(i, k), tile(j, k)}, {tile(i, j)});
      p.task({tile(i, k)}, {tile(i, i)});
    }
  }
}

// 8 sequences x 8 heads. The heads of a sequence share its keys and values; every block has temporaries of its own;
// the accumulator of a head is updated by its blocks in turn.
inline void paged_attention(Program& p, uint32_t blocks) {
  const uint32_t sequences = 8, heads = 8, rows = sequences * heads;
  const uint32_t query = 0, key = query + rows, value = key + sequences * blocks;
  const uint32_t accumulator = value + sequences * blocks, temporary = accumulator + rows;
  p.data = temporary + 3 * rows * blocks;
  for (uint32_t row = 0; row < rows; row++) {
    for (uint32_t k = 0; k < blocks; k++) {
      const uint32_t block = row / heads * blocks + k, t = temporary + 3 * (row * blocks + k);
      p.task({query + row, key + block}, {t});
      p.task({t}, {t + 1});
      p.task({t + 1, value + block}, {t + 2});
      p.task({t + 2}, {accumulator + row});
    }
  }
}

// 1 -> 64 -> 1, repeated: the join of one round is the fork of the next.
inline void fork_join(Program& p, uint32_t rounds) {
  std::vector<uint32_t> branches;
  for (uint32_t j = 1; j <= 64; j++) branches.push_back(j);
  p.data = 65;
  for (uint32_t round = 0; round < rounds; round++) {
    p.task(branches, std::vector<uint32_t>{0});
    for (uint32_t j : branches) p.task({0}, {j});
  }
}

inline void wavefront(Program& p, uint32_t tasks) {
  uint32_t side = 1;
  while (uint64_t(side + 1) * (side + 1) <= tasks) side++;
  p.data = 2 * side;
  for (uint32_t i = 0; i < side; i++)
    for (uint32_t j = 0; j < side; j++) p.task({}, {i, side + j});
}

// Two plates of 16 x 16 tiles in turns: a tile of one from its like and its neighbours in the other.
inline void stencil(Program& p, uint32_t steps, bool corners) {
  const uint32_t side = 16, plate = side * side;
  p.data = 2 * plate;
  for (uint32_t step = 0; step < steps; step++) {
    const uint32_t from = step % 2 * plate, to = (step + 1) % 2 * plate;
    for (uint32_t row = 0; row < side; row++)
      for (uint32_t column = 0; column < side; column++) {
        std::vector<uint32_t> read;
        for (uint32_t i = row ? row - 1 : 0; i < side && i < row + 2; i++)
          for (uint32_t j = column ? column - 1 : 0; j < side && j < column + 2; j++)
            if (corners || i == row || j == column) read.push_back(from + i * side + j);
        p.task(read, std::vector<uint32_t>{to + row * side + column});
      }
  }
}

// The largest number of tile columns whose factorisation by panels has at most `tasks` tasks.
inline uint32_t lu_columns(uint32_t tasks) {
  auto tasks_of = [](uint64_t nt) { return (nt - 1) * nt * (2 * nt - 1) / 6 + 2 * nt - 1; };
  uint64_t nt = 1;
  while (tasks_of(nt + 1) <= tasks) nt++;
  return static_cast<uint32_t>(nt);
}

// LU by panels: a column panel, the row panel to the right of it, and what is left tile by tile.
inline void lu(Program& p, uint32_t nt) {
  auto tile = [nt](uint32_t row, uint32_t column) { return row * nt + column; };
  p.data = nt * nt;
  for (uint32_t k = 0; k < nt; k++) {
    std::vector<uint32_t> none, column, row;
    for (uint32_t i = k; i < nt; i++) column.push_back(tile(i, k));
    p.task(none, column);
    for (uint32_t j = k + 1; j < nt; j++) row.push_back(tile(k, j));
    if (k + 1 < nt) p.task(std::vector<uint32_t>{tile(k, k)}, row);
    for (uint32_t i = k + 1; i < nt; i++)
      for (uint32_t j = k + 1; j < nt; j++) p.task({tile(i, k), tile(k, j)}, {tile(i, j)});
  }
}

// A ring of chunks: each is overwritten in turn, then a window that ends with it is read, unless it would wrap.
inline void sliding(Program& p, uint32_t laps) {
  const uint32_t chunks = 16, window = 4, sums = chunks + 1 - window;
  p.data = chunks + laps * sums;
  for (uint32_t lap = 0; lap < laps; lap++)
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
      p.task({}, {chunk});
      if (chunk + 1 < window) continue;
      std::vector<uint32_t> read;
      for (uint32_t at = chunk + 1 - window; at <= chunk; at++) read.push_back(at);
      p.task(read, std::vector<uint32_t>{chunks + lap * sums + chunk + 1 - window});
    }
}

// Returns false when there is no such shape.
inline bool generate(Program& p, const std::string& shape, uint32_t tasks) {
  if (shape == "independent") {
    for (uint32_t i = 0; i < tasks; i++) p.task({}, {});
  } else if (shape == "own-datum") {
    p.data = tasks;
    for (uint32_t i = 0; i < tasks; i++) p.task({}, {i});
  } else if (shape == "chain") {
    for (uint32_t i = 0; i < tasks; i++) p.task({}, {0});
  } else if (shape == "fork-join") {
    fork_join(p, tasks / 65);
  } else if (shape == "wavefront") {
    wavefront(p, tasks);
  } else if (shape == "cholesky") {
    cholesky(p, cholesky_columns(tasks));
  } else if (shape == "paged-attention") {
    paged_attention(p, tasks / 256);
  } else if (shape == "stencil" || shape == "stencil-9") {
    stencil(p, tasks / 256, shape == "stencil-9");
  } else if (shape == "lu") {
    lu(p, lu_columns(tasks));
  } else if (shape == "sliding") {
    sliding(p, tasks / 29);
  } else {
    return false;
  }
  return true;
}

// FNV-1a over the number of reads and the accesses of every task, word by word.
inline uint64_t fingerprint(const Program& p) {
  uint64_t hash = 0xcbf29ce484222325ull;
  auto mix = [&hash](uint32_t word) { hash = (hash ^ word) * 0x100000001b3ull; };
  for (uint32_t t = 0; t < p.tasks(); t++) {
    mix(p.reads[t]);
    for (uint32_t k = p.begin[t]; k < p.begin[t + 1]; k++) mix(p.accesses[k]);
  }
  return hash;
}
