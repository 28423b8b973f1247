// OpenMP tasks with `depend`: dependencies inferred from addresses. Built with gcc (libgomp) and clang (libomp).
#include <omp.h>

#include "bench.hpp"

// One task per iteration. The common numbers of reads and writes have clauses of their own, as a person would write
// them; iterators cost more at run time and serve the rest.
static void submit(uint32_t t, uint64_t* datum) {
  const uint32_t* a = bench.program.of(t);
  const int reads = int(bench.program.reads[t]);
  const int writes = int(bench.program.access_count(t)) - reads;
  if (reads == 0 && writes == 0) {
#pragma omp task firstprivate(t)
    body(t);
  } else if (reads == 0 && writes == 1) {
#pragma omp task firstprivate(t) depend(inout : datum[a[0]])
    body(t);
  } else if (reads == 0 && writes == 2) {
#pragma omp task firstprivate(t) depend(inout : datum[a[0]], datum[a[1]])
    body(t);
  } else if (reads == 1 && writes == 1) {
#pragma omp task firstprivate(t) depend(in : datum[a[0]]) depend(inout : datum[a[1]])
    body(t);
  } else if (reads == 2 && writes == 1) {
#pragma omp task firstprivate(t) depend(in : datum[a[0]], datum[a[1]]) depend(inout : datum[a[2]])
    body(t);
  } else {
#pragma omp task firstprivate(t) depend(iterator(int k = 0 : reads), in : datum[a[k]]) \
    depend(iterator(int k = 0 : writes), inout : datum[a[reads + k]])
    body(t);
  }
}

int main(int argc, char** argv) {
  prepare(argc, argv);
  omp_set_dynamic(0);
  std::vector<uint64_t> data(bench.program.data);
  Marks marks;
#pragma omp parallel num_threads(bench.workers)
  kernel(1000);  // the team is started before the clock

#pragma omp parallel num_threads(bench.workers)
#pragma omp single
  {
    marks.start();
    for (uint32_t t = 0; t < bench.tasks; t++) submit(t, data.data());
    marks.graph_is_built();
#pragma omp taskwait
    marks.stop();
  }
  report(marks);
}
