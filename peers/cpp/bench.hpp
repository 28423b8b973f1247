// What every C++ peer shares: arguments, the task body, the clock and the JSON line. See ../README.md for the contract.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "edges.hpp"
#include "kernel.hpp"
#include "program.hpp"

struct Bench {
  std::string peer, shape = "independent";
  uint32_t tasks = 0, iterations = 0, workers = 2;
  bool check = false;
  Program program;
  Graph graph;
  std::vector<unsigned char> ran;  // with `check`: one per task, reached by atomic built-ins
  std::atomic<uint64_t> violations{0};
  long rss_before_kib = 0;
};

// One process is one measurement: a global lets a task carry nothing but its number.
inline Bench bench;

inline void verify(uint32_t task) {
  const Rows& before = bench.graph.predecessors;
  for (uint32_t k = before.begin[task]; k < before.begin[task + 1]; k++)
    if (!__atomic_load_n(&bench.ran[before.list[k]], __ATOMIC_ACQUIRE)) bench.violations++;
  if (__atomic_exchange_n(&bench.ran[task], 1, __ATOMIC_ACQ_REL)) bench.violations++;
}

// The body of every task. `verify` comes after the kernel, where a missing dependency shows most often.
inline void body(uint32_t task) {
  kernel(bench.iterations);
  if (__builtin_expect(bench.check, 0)) verify(task);
}

inline uint64_t clock_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return uint64_t(t.tv_sec) * 1000000000ull + uint64_t(t.tv_nsec);
}
inline uint64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

// The marks of a measurement, in the order they are passed.
struct Marks {
  uint64_t begin = 0, cpu_begin = 0, built = 0, end = 0, cpu_end = 0, setup_ns = 0;

  void start() { cpu_begin = clock_ns(CLOCK_PROCESS_CPUTIME_ID), begin = now_ns(); }
  void graph_is_built() { built = now_ns(); }
  void stop() { end = now_ns(), cpu_end = clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
};

// A line of /proc/self/status, in KiB; 0 where there is none.
inline long status_kib(const char* key) {
  FILE* file = fopen("/proc/self/status", "r");
  if (!file) return 0;
  char line[256];
  long value = 0;
  while (fgets(line, sizeof line, file))
    if (!strncmp(line, key, strlen(key))) value = atol(line + strlen(key));
  fclose(file);
  return value;
}

[[noreturn]] inline void fail(const std::string& why) {
  fprintf(stderr, "%s\n", why.c_str());
  exit(2);
}

inline void prepare(int argc, char** argv) {
  uint32_t tasks = 100000;
  for (int i = 1; i < argc; i++) {
    const std::string flag = argv[i];
    if (flag == "--check") {
      bench.check = true;
      continue;
    }
    if (++i == argc) fail("no value after " + flag);
    const std::string value = argv[i];
    if (flag == "--peer") bench.peer = value;
    else if (flag == "--shape") bench.shape = value;
    else if (flag == "--tasks") tasks = uint32_t(std::stoul(value));
    else if (flag == "--iterations") bench.iterations = uint32_t(std::stoul(value));
    else if (flag == "--workers") bench.workers = uint32_t(std::stoul(value));
    else fail("no such argument: " + flag);
  }
  if (!generate(bench.program, bench.shape, tasks)) fail("no such shape: " + bench.shape);
  bench.tasks = bench.program.tasks();
  bench.graph = derive(bench.program);
  if (bench.check) bench.ran.assign(bench.tasks, 0);
  bench.rss_before_kib = status_kib("VmRSS:");
}

inline void report(const Marks& m) {
  uint64_t violations = bench.violations;
  for (unsigned char ran : bench.ran) violations += !ran;
  printf("{\"peer\":\"%s\",\"shape\":\"%s\",\"workers\":%u,\"iterations\":%u,\"tasks\":%u,\"edges\":%zu,",
         bench.peer.c_str(), bench.shape.c_str(), bench.workers, bench.iterations, bench.tasks,
         bench.graph.predecessors.list.size());
  printf("\"fingerprint\":\"%016llx\",", static_cast<unsigned long long>(fingerprint(bench.program)));
  auto number = [](const char* key, uint64_t value, const char* after) {
    printf("\"%s\":%llu%s", key, static_cast<unsigned long long>(value), after);
  };
  number("build_ns", m.built - m.begin, ",");
  number("total_ns", m.end - m.begin, ",");
  number("cpu_ns", m.cpu_end - m.cpu_begin, ",");
  number("setup_ns", m.setup_ns, ",");
  number("infer_ns", 0, ",");
  number("rss_before_bytes", uint64_t(bench.rss_before_kib) * 1024, ",");
  number("peak_rss_bytes", uint64_t(status_kib("VmHWM:")) * 1024, ",");
  number("violations", violations, "}\n");
  fflush(stdout);
}
