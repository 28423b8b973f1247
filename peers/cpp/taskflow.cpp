// Taskflow. `taskflow`: the graph is built, then run. `taskflow-async`: dependent asynchronous tasks, submitted in order.
#include <taskflow/taskflow.hpp>

#include "bench.hpp"

static void built_first(tf::Executor& executor, Marks& marks) {
  const Rows& before = bench.graph.predecessors;
  uint64_t done = 0;
  marks.start();
  {
    tf::Taskflow flow;
    std::vector<tf::Task> tasks;
    tasks.reserve(bench.tasks);
    for (uint32_t t = 0; t < bench.tasks; t++) tasks.push_back(flow.emplace([t] { body(t); }));
    for (uint32_t t = 0; t < bench.tasks; t++)
      for (uint32_t k = before.begin[t]; k < before.begin[t + 1]; k++) tasks[before.list[k]].precede(tasks[t]);
    marks.graph_is_built();
    executor.run(flow).wait();
    marks.stop();
    done = now_ns();
  }
  marks.setup_ns = now_ns() - done;  // tearing the graph down
}

static void submitted(tf::Executor& executor, Marks& marks) {
  const Rows& before = bench.graph.predecessors;
  std::vector<tf::AsyncTask> tasks(bench.tasks), awaited;
  marks.start();
  for (uint32_t t = 0; t < bench.tasks; t++) {
    awaited.clear();
    for (uint32_t k = before.begin[t]; k < before.begin[t + 1]; k++) awaited.push_back(tasks[before.list[k]]);
    tasks[t] = executor.silent_dependent_async([t] { body(t); }, awaited.begin(), awaited.end());
  }
  marks.graph_is_built();
  executor.wait_for_all();
  marks.stop();
}

int main(int argc, char** argv) {
  prepare(argc, argv);
  tf::Executor executor(bench.workers);
  {
    tf::Taskflow warm;  // the workers are started before the clock
    for (int i = 0; i < 64; i++) warm.emplace([] { kernel(1000); });
    executor.run(warm).wait();
  }
  Marks marks;
  if (bench.peer == "taskflow") built_first(executor, marks);
  else if (bench.peer == "taskflow-async") submitted(executor, marks);
  else fail("no such peer: " + bench.peer);
  report(marks);
}
