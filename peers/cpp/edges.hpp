// The dependencies a program implies: read after write, write after read, write after write.
// Derived before the clock starts; systems that do not infer are given them, and `--check` verifies against them.
#pragma once
#include <cstdint>
#include <vector>

#include "program.hpp"

// Both directions in compressed rows: the neighbours of t are list[begin[t]]..list[begin[t + 1]].
struct Rows {
  std::vector<uint32_t> begin = {0};
  std::vector<uint32_t> list;
};

struct Graph {
  Rows predecessors, successors;

  uint32_t indegree(uint32_t task) const { return predecessors.begin[task + 1] - predecessors.begin[task]; }
};

inline Rows invert(const Rows& rows, uint32_t tasks) {
  Rows inverse;
  inverse.begin.assign(tasks + 1, 0);
  for (uint32_t p : rows.list) inverse.begin[p + 1]++;
  for (uint32_t t = 0; t < tasks; t++) inverse.begin[t + 1] += inverse.begin[t];
  inverse.list.resize(rows.list.size());
  std::vector<uint32_t> next(inverse.begin.begin(), inverse.begin.end() - 1);
  for (uint32_t t = 0; t < tasks; t++)
    for (uint32_t k = rows.begin[t]; k < rows.begin[t + 1]; k++) inverse.list[next[rows.list[k]]++] = t;
  return inverse;
}

inline Graph derive(const Program& p) {
  constexpr uint32_t none = UINT32_MAX;
  Graph graph;
  Rows& out = graph.predecessors;
  std::vector<uint32_t> last_writer(p.data, none);
  std::vector<std::vector<uint32_t>> readers(p.data);  // since the last write
  std::vector<uint32_t> seen_by(p.tasks(), none);      // keeps an edge from being listed twice

  for (uint32_t t = 0; t < p.tasks(); t++) {
    auto depend_on = [&](uint32_t earlier) {
      if (earlier == none || earlier == t || seen_by[earlier] == t) return;
      seen_by[earlier] = t;
      out.list.push_back(earlier);
    };
    const uint32_t first_write = p.begin[t] + p.reads[t];
    for (uint32_t k = p.begin[t]; k < first_write; k++) {
      depend_on(last_writer[p.accesses[k]]);
      readers[p.accesses[k]].push_back(t);
    }
    for (uint32_t k = first_write; k < p.begin[t + 1]; k++) {
      const uint32_t datum = p.accesses[k];
      // Readers already follow the last writer, so only without them does the write follow it directly.
      if (readers[datum].empty()) depend_on(last_writer[datum]);
      for (uint32_t reader : readers[datum]) depend_on(reader);
      readers[datum].clear();
      last_writer[datum] = t;
    }
    out.begin.push_back(static_cast<uint32_t>(out.list.size()));
  }
  graph.successors = invert(out, p.tasks());
  return graph;
}
