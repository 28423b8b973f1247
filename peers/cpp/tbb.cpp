// oneTBB. `tbb-flow`: a flow graph of continue nodes, built, then run. `tbb-group-inline`: a task group over counters of
// our own, where the first successor that becomes ready runs on the same thread and the others are spawned.
#include <oneapi/tbb.h>

#include <deque>
#include <memory>

#include "bench.hpp"

namespace tbb_ = oneapi::tbb;

static void flow_graph(Marks& marks) {
  using Node = tbb_::flow::continue_node<tbb_::flow::continue_msg>;
  const Rows& before = bench.graph.predecessors;
  uint64_t done = 0;
  marks.start();
  {
    tbb_::flow::graph graph;
    std::deque<Node> nodes;  // a node cannot be moved
    for (uint32_t t = 0; t < bench.tasks; t++)
      nodes.emplace_back(graph, [t](const tbb_::flow::continue_msg&) { body(t); });
    for (uint32_t t = 0; t < bench.tasks; t++)
      for (uint32_t k = before.begin[t]; k < before.begin[t + 1]; k++)
        tbb_::flow::make_edge(nodes[before.list[k]], nodes[t]);
    marks.graph_is_built();
    for (uint32_t t = 0; t < bench.tasks; t++)
      if (!bench.graph.indegree(t)) nodes[t].try_put(tbb_::flow::continue_msg());
    graph.wait_for_all();
    marks.stop();
    done = now_ns();
  }
  marks.setup_ns = now_ns() - done;  // tearing the graph down
}

struct Group {
  tbb_::task_group group;
  std::unique_ptr<std::atomic<uint32_t>[]> awaited;

  void run(uint32_t task) {
    const Rows& after = bench.graph.successors;
    constexpr uint32_t none = UINT32_MAX;
    while (task != none) {
      body(task);
      uint32_t next = none;
      for (uint32_t k = after.begin[task]; k < after.begin[task + 1]; k++) {
        const uint32_t s = after.list[k];
        if (awaited[s].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
        if (next == none) next = s;
        else group.run([this, s] { run(s); });
      }
      task = next;
    }
  }
};

static void task_group(Marks& marks) {
  Group g;
  marks.start();
  g.awaited.reset(new std::atomic<uint32_t>[bench.tasks]);
  for (uint32_t t = 0; t < bench.tasks; t++) g.awaited[t].store(bench.graph.indegree(t), std::memory_order_relaxed);
  marks.graph_is_built();
  for (uint32_t t = 0; t < bench.tasks; t++)
    if (!bench.graph.indegree(t)) g.group.run([&g, t] { g.run(t); });
  g.group.wait();
  marks.stop();
}

int main(int argc, char** argv) {
  prepare(argc, argv);
  tbb_::global_control limit(tbb_::global_control::max_allowed_parallelism, bench.workers);
  tbb_::task_arena arena(int(bench.workers));
  Marks marks;
  arena.execute([&] {
    tbb_::parallel_for(0, 64, [](int) { kernel(1000); });  // the workers are started before the clock
    if (bench.peer == "tbb-flow") flow_graph(marks);
    else if (bench.peer == "tbb-group-inline") task_group(marks);
    else fail("no such peer: " + bench.peer);
  });
  report(marks);
}
