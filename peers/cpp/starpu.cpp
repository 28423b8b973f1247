// StarPU: dependencies inferred from data handles. The scheduler is chosen by STARPU_SCHED.
#include <starpu.h>
#include <unistd.h>

#include "bench.hpp"

static void run_body(void**, void* task) { body(uint32_t(reinterpret_cast<uintptr_t>(task))); }

static starpu_codelet codelet_of(const char* name, int buffers) {
  starpu_codelet codelet;
  starpu_codelet_init(&codelet);
  codelet.cpu_funcs[0] = run_body;
  codelet.nbuffers = buffers;
  codelet.name = name;
  return codelet;
}

// Beyond STARPU_NMAXBUFS accesses StarPU wants arrays of the task's own, which it frees with the task.
static void name_data(starpu_task* task, uint32_t t, const std::vector<starpu_data_handle_t>& handles) {
  const uint32_t count = bench.program.access_count(t), reads = bench.program.reads[t];
  starpu_data_handle_t* handle = task->handles;
  starpu_data_access_mode* mode = task->modes;
  if (count > STARPU_NMAXBUFS) {
    handle = task->dyn_handles = static_cast<starpu_data_handle_t*>(malloc(count * sizeof *handle));
    mode = task->dyn_modes = static_cast<starpu_data_access_mode*>(malloc(count * sizeof *mode));
  }
  for (uint32_t k = 0; k < count; k++) {
    handle[k] = handles[bench.program.of(t)[k]];
    mode[k] = k < reads ? STARPU_R : STARPU_RW;
  }
  task->nbuffers = int(count);
}

int main(int argc, char** argv) {
  prepare(argc, argv);
  setenv("STARPU_NCPU", std::to_string(bench.workers).c_str(), 1);
  setenv("STARPU_NCUDA", "0", 1);
  setenv("STARPU_NOPENCL", "0", 1);
  setenv("STARPU_SILENT", "1", 1);
  if (starpu_init(nullptr) != 0) fail("starpu_init failed");
  static starpu_codelet with_data = codelet_of("with_data", STARPU_VARIABLE_NBUFFERS);
  static starpu_codelet without_data = codelet_of("without_data", 0);

  Marks marks;
  const uint64_t registering = now_ns();
  std::vector<uint64_t> data(bench.program.data);
  std::vector<starpu_data_handle_t> handles(bench.program.data);
  if (!bench.program.accesses.empty())
    for (uint32_t d = 0; d < bench.program.data; d++)
      starpu_variable_data_register(&handles[d], STARPU_MAIN_RAM, reinterpret_cast<uintptr_t>(&data[d]), sizeof data[d]);
  marks.setup_ns = now_ns() - registering;

  marks.start();
  for (uint32_t t = 0; t < bench.tasks; t++) {
    starpu_task* task = starpu_task_create();
    task->cl = bench.program.access_count(t) ? &with_data : &without_data;
    task->cl_arg = reinterpret_cast<void*>(uintptr_t(t));
    task->cl_arg_free = 0;
    name_data(task, t, handles);
    if (starpu_task_submit(task) != 0) fail("starpu_task_submit failed");
  }
  marks.graph_is_built();
  starpu_task_wait_for_all();
  marks.stop();
  report(marks);
  _exit(0);  // shutting StarPU down takes longer than the measurement
}
