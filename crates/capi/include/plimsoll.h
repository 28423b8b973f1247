// Plimsoll for C: a dataflow task runtime for tensors with a lossless flight recorder.
//
//   plimsoll_device *device;
//   plimsoll_error *error = plimsoll_device_open(NULL, &device);
//
// Calls that can fail return NULL or an error, which belongs to the caller: print plimsoll_error_text(error) and free it.
// A refused call of a program on its orchestrator fails the run, also if the program looks away.
//
// Threads: a device is used by one thread at a time; an orchestrator only inside the program that was called with it, by the
// thread that it was called on; tokens by any. Kernels are called on any thread of the device, several at once.
//
// A shared object that does not link with the library defines PLIMSOLL_PLUGIN before it includes this file. Whoever loads it
// hands its plimsoll_register a table of functions, through which every call goes.
#ifndef PLIMSOLL_H
#define PLIMSOLL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLIMSOLL_ABI_VERSION 1u
#define PLIMSOLL_MAX_DIMS 5

typedef struct plimsoll_device plimsoll_device;
typedef struct plimsoll_orchestrator plimsoll_orchestrator;
typedef struct plimsoll_graph plimsoll_graph;
typedef struct plimsoll_cancel plimsoll_cancel;
typedef struct plimsoll_error plimsoll_error;

/* What a tensor's elements are. Dtype PLIMSOLL_USER is any type of the given size; otherwise size and alignment may be 0. */
typedef struct plimsoll_element {
    uint32_t dtype;
    uint32_t bytes;
    uint32_t align;
} plimsoll_element;

/* A tensor, or a view of one. It may be copied; its scope must be open where it is used. */
typedef struct plimsoll_tensor {
    uint64_t mark;
    uint64_t body[19];
} plimsoll_tensor;

/* A kernel of a device. */
typedef struct plimsoll_kernel {
    uint64_t words[2];
} plimsoll_kernel;

/* A submitted task. The first word is its id. */
typedef struct plimsoll_task {
    uint64_t words[3];
} plimsoll_task;

/* How a task uses an argument. */
typedef enum plimsoll_use {
    PLIMSOLL_INPUT = 0,           /* reads the tensor */
    PLIMSOLL_INOUT = 1,           /* reads and writes the tensor */
    PLIMSOLL_OUTPUT_EXISTING = 2, /* overwrites the tensor without reading it */
    PLIMSOLL_OUTPUT = 3,          /* makes a tensor: element, ndim, shape */
    PLIMSOLL_SCALAR = 4,          /* a plain value: element.dtype, bits */
    PLIMSOLL_INPUT_LIST = 5,      /* reads several tensors: tensor, count */
    PLIMSOLL_NO_DEP = 6,          /* reads the tensor; the caller makes sure that nobody writes it meanwhile */
    PLIMSOLL_NO_DEP_INOUT = 7     /* reads and writes it; the caller makes sure that nobody uses it meanwhile */
} plimsoll_use;

/* An argument of a submit. */
typedef struct plimsoll_arg {
    uint32_t use;
    uint32_t ndim;
    const plimsoll_tensor *tensor;
    size_t count;
    plimsoll_element element;
    uint32_t marked; /* 1: a run that captures marked arguments captures this one */
    uint64_t bits;
    size_t shape[PLIMSOLL_MAX_DIMS];
} plimsoll_arg;

/* An argument as a kernel sees it. Strides are in elements. */
typedef struct plimsoll_view {
    void *data;    /* NULL for a plain value */
    uint64_t bits; /* of a plain value: those of a float, an integer widened with its sign */
    uint32_t shape[PLIMSOLL_MAX_DIMS];
    int32_t strides[PLIMSOLL_MAX_DIMS];
    uint8_t ndim;
    uint8_t dtype;
    uint8_t is_scalar;
    uint8_t is_written;
    uint32_t reserved;
} plimsoll_view;

/* What a kernel is called with. A list of tensors is its length as a plain value, and then each tensor. What views point to
 * is valid until the kernel returns. call->fail(call, "why") says why it fails; the text is copied. */
typedef struct plimsoll_call {
    uint32_t size;
    uint32_t count;
    const plimsoll_view *args;
    void *context;
    void (*fail)(const struct plimsoll_call *call, const char *text);
    void *state;
    uint32_t block;  /* which of its task's blocks the call is, from 0 */
    uint32_t blocks; /* how many there are */
    uint32_t part;   /* which part of a mixed task; 0 is the one on the matrix core */
    uint32_t parts;  /* how many there are */
    /* Gives the bits of a value to part `to` of the same block, or takes the next one that part `from` gave. Waits as long as it
     * must; other than 0 if that will never be, which the kernel returns, too. */
    int32_t (*push)(const struct plimsoll_call *call, uint32_t to, uint64_t bits);
    int32_t (*pop)(const struct plimsoll_call *call, uint32_t from, uint64_t *bits);
} plimsoll_call;

/* 0 is fine; anything else fails the run. It stays inside its views, writes only those that its task writes, and lets no
 * C++ exception out (plimsoll.hpp catches them). */
typedef int32_t (*plimsoll_kernel_fn)(const plimsoll_call *call);
/* Submits tasks. Returns NULL or an error, which the caller frees. */
typedef plimsoll_error *(*plimsoll_program_fn)(plimsoll_orchestrator *o, void *context);
/* Hears of a run that was given up and cannot return: the calling thread hangs, or a kernel that does may use borrowed memory. Its
 * records are safe. The error is the library's; a program may end the process here. Called on any thread. */
typedef void (*plimsoll_hung_fn)(const plimsoll_error *error, void *context);
/* Lets go of a context, from any thread. */
typedef void (*plimsoll_release_fn)(void *context);

/* What a kernel does with a parameter. */
typedef enum plimsoll_access {
    PLIMSOLL_READ = 0,
    PLIMSOLL_WRITE = 1,
    PLIMSOLL_READ_WRITE = 2,
    PLIMSOLL_READ_LIST = 3,
    PLIMSOLL_VALUE = 4
} plimsoll_access;

/* Which rows of a parameter, along its first dimension, a block of a task writes. All blocks are given the whole parameter; the
 * submit checks that its rows can be divided among them, as many for each. */
typedef enum plimsoll_share {
    PLIMSOLL_SHARE_ALL = 0,   /* says nothing */
    PLIMSOLL_SHARE_ROWS = 1,  /* rows of its own */
    PLIMSOLL_SHARE_PART0 = 2, /* rows of its own, and of the parts of a mixed task only part 0 */
    PLIMSOLL_SHARE_PART1 = 3,
    PLIMSOLL_SHARE_PART2 = 4
} plimsoll_share;

typedef struct plimsoll_param {
    uint32_t access;
    plimsoll_element element;
    uint32_t share;
} plimsoll_param;

/* Start from PLIMSOLL_KERNEL_OPTIONS. Without params, the kernel is called with whatever its tasks have. */
typedef struct plimsoll_kernel_options {
    uint32_t abi_version;
    uint32_t size;
    const char *name;
    plimsoll_kernel_fn body;
    void *context;
    plimsoll_release_fn release; /* may be NULL; called once, also if the kernel is refused, unless for its options' version */
    const char *core_class;      /* "any", "aic", "aiv"; NULL is "any" */
    const plimsoll_param *params;
    size_t param_count;
    uint32_t in_blocks; /* 1: tasks may execute it in blocks or as a part; no two of them touch what one writes */
    uint32_t reserved;
} plimsoll_kernel_options;

/* Start from PLIMSOLL_SUBMIT_OPTIONS: executed once, after what its arguments say. */
typedef struct plimsoll_submit_options {
    uint32_t abi_version;
    uint32_t size;
    const plimsoll_task *after; /* tasks to wait for besides */
    size_t after_count;
    uint32_t blocks; /* executions, which know their number; 0 is 1 */
    uint32_t dummy;  /* 1: executes nothing, but waits and is waited for; the kernel is not looked at */
    /* A mixed task: its kernel runs on a matrix core (aic), these at the same time on vector cores (aiv) of the same cluster, with
     * the same arguments. */
    const plimsoll_kernel *parts;
    size_t part_count;              /* up to 2 */
    const plimsoll_tensor *only_if; /* executed only if the one element is not zero when the task is ready; may be NULL */
    const plimsoll_tensor *unless;  /* executed only if it is zero; may be NULL */
    uint32_t sync_start; /* 1: its blocks run at the same time and may wait for each other (not in virtual time), or it is refused */
    uint32_t reserved;
} plimsoll_submit_options;

/* Start from PLIMSOLL_DEVICE_OPTIONS. */
typedef struct plimsoll_device_options {
    uint32_t abi_version;
    uint32_t size;
    uint32_t workers; /* threads in all; 0 for one per CPU */
    uint32_t no_lend; /* 1: the calling thread executes no tasks */
    const char *engine; /* "host", "emulated", "virtual"; NULL for what the arch implies */
    const char *arch;   /* NULL is "host" */
    uint64_t seed;      /* of virtual time; 0 for the default */
    const char *costs;  /* of virtual time: a JSON file, or the JSON itself */
    /* Sizes as the command's flags have them, such as "4096" or "64m,-,-,-"; NULL for the environment's or the defaults. */
    const char *ring_task_window;
    const char *ring_heap;
    const char *ring_dep_pool;
    const char *tensormap;
    const char *arch_set;         /* changes numbers of the arch: KEY=VALUE, with commas between them */
} plimsoll_device_options;

/* Start from PLIMSOLL_RUN_OPTIONS, which fills in file and line. */
typedef struct plimsoll_run_options {
    uint32_t abi_version;
    uint32_t size;
    uint32_t rounds; /* 0 is 1 */
    uint32_t line;
    const char *file;
    uint64_t deadline_ns;     /* 0 for none */
    uint64_t read_timeout_ns; /* 0 for none */
    const plimsoll_cancel *cancel;
    const char *record;  /* "0" to "4", "profile"; NULL for what PLIMSOLL_RECORD says */
    const char *out;     /* the run's directory; NULL for one of its own under outputs */
    const char *program; /* its name in the recording; NULL for the binary's */
    uint64_t op_timeout_ns;    /* how long one kernel may take; 0 for any time */
    uint64_t stall_timeout_ns; /* how long nothing may move; 0 for any time */
    uint64_t orch_timeout_ns;  /* how long the program may be in its own code; 0 for any time */
    plimsoll_hung_fn on_hung;  /* NULL: with one of these three times, standard error is told */
    void *on_hung_context;
    const char *transport;  /* "mapped", "shadow"; NULL for as the arch has it */
    const char *region_dir; /* where the shared region goes; NULL for where there is room */
    const char *on_full;    /* "block", "drop": what a recorder does that finds no buffer; NULL is "block" */
    uint32_t dump_args;     /* captures arguments: 1 marked ones, 2 all, 3 shapes of all and marked ones; 0 none */
    uint32_t dep_gen;       /* 1: records submits, from which dependencies are told */
    const char *dump_tasks; /* of which tasks, by kernel or as r2t17, with commas; NULL for all */
    uint64_t dump_bytes;    /* at most so many bytes of an argument; 0 for the default */
    const char *pmu;        /* the group of counters that is read around every kernel, such as "cycles"; NULL for none */
} plimsoll_run_options;

typedef struct plimsoll_report {
    uint64_t tasks;
    uint64_t elapsed_ns;
    uint64_t records;
    uint32_t lossless; /* 1: the run was recorded and nothing was lost */
    uint32_t workers;
} plimsoll_report;

static inline plimsoll_device_options plimsoll_device_options_init(void) {
    plimsoll_device_options options;
    memset(&options, 0, sizeof options);
    options.abi_version = PLIMSOLL_ABI_VERSION;
    options.size = (uint32_t)sizeof options;
    return options;
}

static inline plimsoll_kernel_options plimsoll_kernel_options_init(void) {
    plimsoll_kernel_options options;
    memset(&options, 0, sizeof options);
    options.abi_version = PLIMSOLL_ABI_VERSION;
    options.size = (uint32_t)sizeof options;
    return options;
}

static inline plimsoll_run_options plimsoll_run_options_init(const char *file, uint32_t line) {
    plimsoll_run_options options;
    memset(&options, 0, sizeof options);
    options.abi_version = PLIMSOLL_ABI_VERSION;
    options.size = (uint32_t)sizeof options;
    options.file = file;
    options.line = line;
    return options;
}

static inline plimsoll_submit_options plimsoll_submit_options_init(void) {
    plimsoll_submit_options options;
    memset(&options, 0, sizeof options);
    options.abi_version = PLIMSOLL_ABI_VERSION;
    options.size = (uint32_t)sizeof options;
    return options;
}

#define PLIMSOLL_SUBMIT_OPTIONS plimsoll_submit_options_init()
#define PLIMSOLL_DEVICE_OPTIONS plimsoll_device_options_init()
#define PLIMSOLL_KERNEL_OPTIONS plimsoll_kernel_options_init()
#define PLIMSOLL_RUN_OPTIONS plimsoll_run_options_init(__FILE__, __LINE__)

/* Opens a scope here. */
#define PLIMSOLL_SCOPE(o) plimsoll_scope_open((o), __FILE__, __LINE__)
/* Returns from a program with the error of a call, if it gave one. */
#define PLIMSOLL_TRY(call)                      \
    do {                                        \
        plimsoll_error *plimsoll_tried_ = (call); \
        if (plimsoll_tried_) return plimsoll_tried_; \
    } while (0)

/* generated: begin (PLIMSOLL_BLESS=1 cargo test -p plimsoll-capi --test header) */
/* The type of a tensor's elements. */
typedef enum plimsoll_dtype {
    PLIMSOLL_USER = 0,
    PLIMSOLL_F64 = 1,
    PLIMSOLL_F32 = 2,
    PLIMSOLL_F16 = 3,
    PLIMSOLL_BF16 = 4,
    PLIMSOLL_I64 = 5,
    PLIMSOLL_I32 = 6,
    PLIMSOLL_I16 = 7,
    PLIMSOLL_I8 = 8,
    PLIMSOLL_U8 = 9,
    PLIMSOLL_BOOL = 10
} plimsoll_dtype;

/* Why a call or a run failed. */
typedef enum plimsoll_code {
    PLIMSOLL_SCOPE_DEADLOCK = 1,
    PLIMSOLL_HEAP_RING_DEADLOCK = 2,
    PLIMSOLL_FLOW_CONTROL_DEADLOCK = 3,
    PLIMSOLL_DEP_POOL_OVERFLOW = 4,
    PLIMSOLL_INVALID_ARGS = 5,
    PLIMSOLL_INVALID_SYNC_START = 7,
    PLIMSOLL_TENSOR_WAIT_TIMEOUT = 8,
    PLIMSOLL_EXPLICIT_FATAL = 9,
    PLIMSOLL_SCOPE_TASKS_OVERFLOW = 10,
    PLIMSOLL_TENSORMAP_OVERFLOW = 11,
    PLIMSOLL_KERNEL_FAILED = 20,
    PLIMSOLL_KERNEL_PANICKED = 21,
    PLIMSOLL_CANCELLED = 22,
    PLIMSOLL_DEADLINE_EXCEEDED = 23,
    PLIMSOLL_RECORDING_FAILED = 24,
    PLIMSOLL_ORCHESTRATION_PANICKED = 25,
    PLIMSOLL_SYSTEM_REFUSED = 26,
    PLIMSOLL_DEFECT = 27,
    PLIMSOLL_SCHEDULER_TIMEOUT = 100,
    PLIMSOLL_OP_TIMEOUT = 110,
    PLIMSOLL_DEVICE_LOST = 111,
    PLIMSOLL_HOST_GONE = 112,
    PLIMSOLL_DISK_FULL = 113,
    PLIMSOLL_INTERRUPTED = 114
} plimsoll_code;

/* Every function, for plug-ins. */
typedef struct plimsoll_host {
    uint32_t abi_version;
    uint32_t size;
    uint32_t (*plimsoll_abi_version)(void);
    const char *(*plimsoll_version)(void);
    plimsoll_error *(*plimsoll_error_new)(uint32_t code, const char *text);
    uint32_t (*plimsoll_error_code)(const plimsoll_error *error);
    const char *(*plimsoll_error_name)(const plimsoll_error *error);
    const char *(*plimsoll_error_text)(const plimsoll_error *error);
    const char *(*plimsoll_error_explanation)(const plimsoll_error *error);
    const char *(*plimsoll_error_site)(const plimsoll_error *error);
    const char *(*plimsoll_error_kernel)(const plimsoll_error *error);
    uint64_t (*plimsoll_error_needed)(const plimsoll_error *error);
    void (*plimsoll_error_free)(plimsoll_error *error);
    plimsoll_error *(*plimsoll_device_open)(const plimsoll_device_options *options, plimsoll_device **out);
    void (*plimsoll_device_close)(plimsoll_device *device);
    uint32_t (*plimsoll_device_workers)(const plimsoll_device *device);
    plimsoll_error *(*plimsoll_kernel_register)(plimsoll_device *device, const plimsoll_kernel_options *options, plimsoll_kernel *out);
    plimsoll_error *(*plimsoll_kernel_named)(const plimsoll_device *device, const char *name, plimsoll_kernel *out);
    plimsoll_error *(*plimsoll_run)(plimsoll_device *device, const plimsoll_run_options *options, plimsoll_program_fn program, void *context);
    plimsoll_error *(*plimsoll_graph_build)(plimsoll_device *device, const plimsoll_run_options *options, plimsoll_program_fn program, void *context, plimsoll_graph **out);
    plimsoll_error *(*plimsoll_graph_launch)(plimsoll_device *device, plimsoll_graph *graph, const plimsoll_run_options *options);
    void (*plimsoll_graph_free)(plimsoll_graph *graph);
    plimsoll_error *(*plimsoll_device_report)(const plimsoll_device *device, plimsoll_report *out);
    const char *(*plimsoll_device_run_dir)(plimsoll_device *device);
    plimsoll_cancel *(*plimsoll_cancel_new)(void);
    void (*plimsoll_cancel_use)(const plimsoll_cancel *cancel);
    void (*plimsoll_cancel_interrupt)(const plimsoll_cancel *cancel);
    void (*plimsoll_cancel_free)(plimsoll_cancel *cancel);
    plimsoll_error *(*plimsoll_scope_open)(plimsoll_orchestrator *o, const char *file, uint32_t line);
    plimsoll_error *(*plimsoll_manual_scope_open)(plimsoll_orchestrator *o, const char *file, uint32_t line);
    plimsoll_error *(*plimsoll_scope_close)(plimsoll_orchestrator *o);
    plimsoll_error *(*plimsoll_own)(plimsoll_orchestrator *o, const void *data, size_t bytes, plimsoll_element element, const size_t *shape, size_t ndim, plimsoll_tensor *out);
    plimsoll_error *(*plimsoll_borrow)(plimsoll_orchestrator *o, void *data, size_t bytes, plimsoll_element element, const size_t *shape, size_t ndim, uint32_t writable, plimsoll_tensor *out);
    plimsoll_error *(*plimsoll_submit)(plimsoll_orchestrator *o, plimsoll_kernel kernel, const plimsoll_arg *args, size_t arg_count, plimsoll_tensor *made, size_t made_room);
    plimsoll_error *(*plimsoll_submit_with)(plimsoll_orchestrator *o, const plimsoll_submit_options *options, plimsoll_kernel kernel, const plimsoll_arg *args, size_t arg_count, plimsoll_tensor *made, size_t made_room, plimsoll_task *task);
    plimsoll_error *(*plimsoll_read)(plimsoll_orchestrator *o, const plimsoll_tensor *tensor, void *out, size_t bytes);
    plimsoll_error *(*plimsoll_write)(plimsoll_orchestrator *o, const plimsoll_tensor *tensor, const void *data, size_t bytes);
    plimsoll_error *(*plimsoll_fatal)(plimsoll_orchestrator *o, const char *message);
    plimsoll_error *(*plimsoll_slice)(const plimsoll_tensor *tensor, size_t dim, size_t begin, size_t end, plimsoll_tensor *out);
    plimsoll_error *(*plimsoll_tile)(const plimsoll_tensor *tensor, const size_t *index, const size_t *extents, size_t ndim, plimsoll_tensor *out);
    plimsoll_error *(*plimsoll_reshape)(const plimsoll_tensor *tensor, const size_t *shape, size_t ndim, plimsoll_tensor *out);
    plimsoll_error *(*plimsoll_permute)(const plimsoll_tensor *tensor, const size_t *order, size_t ndim, plimsoll_tensor *out);
    plimsoll_error *(*plimsoll_transpose)(const plimsoll_tensor *tensor, plimsoll_tensor *out);
    uint32_t (*plimsoll_tensor_shape)(const plimsoll_tensor *tensor, size_t *out);
} plimsoll_host;

#ifdef PLIMSOLL_PLUGIN
/* Set this in plimsoll_register. */
static const plimsoll_host *plimsoll_functions;
#define plimsoll_abi_version (plimsoll_functions->plimsoll_abi_version)
#define plimsoll_version (plimsoll_functions->plimsoll_version)
#define plimsoll_error_new (plimsoll_functions->plimsoll_error_new)
#define plimsoll_error_code (plimsoll_functions->plimsoll_error_code)
#define plimsoll_error_name (plimsoll_functions->plimsoll_error_name)
#define plimsoll_error_text (plimsoll_functions->plimsoll_error_text)
#define plimsoll_error_explanation (plimsoll_functions->plimsoll_error_explanation)
#define plimsoll_error_site (plimsoll_functions->plimsoll_error_site)
#define plimsoll_error_kernel (plimsoll_functions->plimsoll_error_kernel)
#define plimsoll_error_needed (plimsoll_functions->plimsoll_error_needed)
#define plimsoll_error_free (plimsoll_functions->plimsoll_error_free)
#define plimsoll_device_open (plimsoll_functions->plimsoll_device_open)
#define plimsoll_device_close (plimsoll_functions->plimsoll_device_close)
#define plimsoll_device_workers (plimsoll_functions->plimsoll_device_workers)
#define plimsoll_kernel_register (plimsoll_functions->plimsoll_kernel_register)
#define plimsoll_kernel_named (plimsoll_functions->plimsoll_kernel_named)
#define plimsoll_run (plimsoll_functions->plimsoll_run)
#define plimsoll_graph_build (plimsoll_functions->plimsoll_graph_build)
#define plimsoll_graph_launch (plimsoll_functions->plimsoll_graph_launch)
#define plimsoll_graph_free (plimsoll_functions->plimsoll_graph_free)
#define plimsoll_device_report (plimsoll_functions->plimsoll_device_report)
#define plimsoll_device_run_dir (plimsoll_functions->plimsoll_device_run_dir)
#define plimsoll_cancel_new (plimsoll_functions->plimsoll_cancel_new)
#define plimsoll_cancel_use (plimsoll_functions->plimsoll_cancel_use)
#define plimsoll_cancel_interrupt (plimsoll_functions->plimsoll_cancel_interrupt)
#define plimsoll_cancel_free (plimsoll_functions->plimsoll_cancel_free)
#define plimsoll_scope_open (plimsoll_functions->plimsoll_scope_open)
#define plimsoll_manual_scope_open (plimsoll_functions->plimsoll_manual_scope_open)
#define plimsoll_scope_close (plimsoll_functions->plimsoll_scope_close)
#define plimsoll_own (plimsoll_functions->plimsoll_own)
#define plimsoll_borrow (plimsoll_functions->plimsoll_borrow)
#define plimsoll_submit (plimsoll_functions->plimsoll_submit)
#define plimsoll_submit_with (plimsoll_functions->plimsoll_submit_with)
#define plimsoll_read (plimsoll_functions->plimsoll_read)
#define plimsoll_write (plimsoll_functions->plimsoll_write)
#define plimsoll_fatal (plimsoll_functions->plimsoll_fatal)
#define plimsoll_slice (plimsoll_functions->plimsoll_slice)
#define plimsoll_tile (plimsoll_functions->plimsoll_tile)
#define plimsoll_reshape (plimsoll_functions->plimsoll_reshape)
#define plimsoll_permute (plimsoll_functions->plimsoll_permute)
#define plimsoll_transpose (plimsoll_functions->plimsoll_transpose)
#define plimsoll_tensor_shape (plimsoll_functions->plimsoll_tensor_shape)
#else
/* The version of the interface that this library has; PLIMSOLL_ABI_VERSION is the one that a program was compiled with. */
uint32_t plimsoll_abi_version(void);
/* The version of the library, such as "0.1.0". */
const char *plimsoll_version(void);
/* An error of the caller's own, for programs to return. An unknown code becomes PLIMSOLL_EXPLICIT_FATAL. */
plimsoll_error *plimsoll_error_new(uint32_t code, const char *text);
/* The stable code of an error: a plimsoll_code. */
uint32_t plimsoll_error_code(const plimsoll_error *error);
/* The code's name. */
const char *plimsoll_error_name(const plimsoll_error *error);
/* Code and explanation, to be printed. */
const char *plimsoll_error_text(const plimsoll_error *error);
/* What happened, why, and what to do. */
const char *plimsoll_error_explanation(const plimsoll_error *error);
/* Where the scope was opened that it happened in, as file:line; NULL if that is not known. */
const char *plimsoll_error_site(const plimsoll_error *error);
/* The kernel it happened in; NULL if it was in none. */
const char *plimsoll_error_kernel(const plimsoll_error *error);
/* The capacity that gets the program past this point; 0 if nothing ran out. */
uint64_t plimsoll_error_needed(const plimsoll_error *error);
/* Frees an error and its texts. NULL is fine. */
void plimsoll_error_free(plimsoll_error *error);
/* Opens a device. NULL options are the defaults. */
plimsoll_error *plimsoll_device_open(const plimsoll_device_options *options, plimsoll_device **out);
/* Closes a device and ends its workers. One that runs a program stays open, and standard error says so. NULL is fine. */
void plimsoll_device_close(plimsoll_device *device);
/* What executes tasks: threads, or the cores of a chip. */
uint32_t plimsoll_device_workers(const plimsoll_device *device);
/* Registers a kernel. */
plimsoll_error *plimsoll_kernel_register(plimsoll_device *device, const plimsoll_kernel_options *options, plimsoll_kernel *out);
/* The kernel of this name. */
plimsoll_error *plimsoll_kernel_named(const plimsoll_device *device, const char *name, plimsoll_kernel *out);
/* Runs a program and returns when every task has completed. NULL options are the defaults. */
plimsoll_error *plimsoll_run(plimsoll_device *device, const plimsoll_run_options *options, plimsoll_program_fn program, void *context);
/* Builds a graph without running it. What the program borrows must outlive the graph. Of the options, those count that say where the program is and how long building may take: deadline, stall and orch_timeout, and on_hung. NULL options are the defaults. */
plimsoll_error *plimsoll_graph_build(plimsoll_device *device, const plimsoll_run_options *options, plimsoll_program_fn program, void *context, plimsoll_graph **out);
/* Launches a graph as often as the options say, and returns when every task has completed. */
plimsoll_error *plimsoll_graph_launch(plimsoll_device *device, plimsoll_graph *graph, const plimsoll_run_options *options);
/* Frees a graph. NULL is fine. */
void plimsoll_graph_free(plimsoll_graph *graph);
/* What the last run did. */
plimsoll_error *plimsoll_device_report(const plimsoll_device *device, plimsoll_report *out);
/* The directory that the last run was recorded into, until the next call on this device; NULL if it was not, or while the device runs a program. */
const char *plimsoll_device_run_dir(plimsoll_device *device);
/* A token that ends the runs that are given it, from any thread. */
plimsoll_cancel *plimsoll_cancel_new(void);
/* Ends the token's runs with PLIMSOLL_CANCELLED. */
void plimsoll_cancel_use(const plimsoll_cancel *cancel);
/* Ends the token's runs with PLIMSOLL_INTERRUPTED. Not for signal handlers: it takes a lock. */
void plimsoll_cancel_interrupt(const plimsoll_cancel *cancel);
/* Frees a token. NULL is fine. */
void plimsoll_cancel_free(plimsoll_cancel *cancel);
/* Opens a scope: what is made in it is held until it is closed. PLIMSOLL_SCOPE(o) fills in file and line. */
plimsoll_error *plimsoll_scope_open(plimsoll_orchestrator *o, const char *file, uint32_t line);
/* Opens a scope in which nothing is inferred: tasks wait for explicit dependencies only, and the caller makes sure that no two that run at the same time use the same elements unless both only read. */
plimsoll_error *plimsoll_manual_scope_open(plimsoll_orchestrator *o, const char *file, uint32_t line);
/* Closes the scope that was opened last. */
plimsoll_error *plimsoll_scope_close(plimsoll_orchestrator *o);
/* Enters a copy of the data as a buffer that the run owns. */
plimsoll_error *plimsoll_own(plimsoll_orchestrator *o, const void *data, size_t bytes, plimsoll_element element, const size_t *shape, size_t ndim, plimsoll_tensor *out);
/* Enters memory that stays where it is. Until the run has returned nobody else writes it, and if it is writable nobody else reads it; it overlaps no other buffer of the run. */
plimsoll_error *plimsoll_borrow(plimsoll_orchestrator *o, void *data, size_t bytes, plimsoll_element element, const size_t *shape, size_t ndim, uint32_t writable, plimsoll_tensor *out);
/* Submits a task. What it makes is written to `made`, one tensor for each output. */
plimsoll_error *plimsoll_submit(plimsoll_orchestrator *o, plimsoll_kernel kernel, const plimsoll_arg *args, size_t arg_count, plimsoll_tensor *made, size_t made_room);
/* As plimsoll_submit, with what the options say: blocks, parts, a predicate, tasks to wait for besides, or nothing to execute. `task`, if it is not NULL, is what later tasks can wait for. */
plimsoll_error *plimsoll_submit_with(plimsoll_orchestrator *o, const plimsoll_submit_options *options, plimsoll_kernel kernel, const plimsoll_arg *args, size_t arg_count, plimsoll_tensor *made, size_t made_room, plimsoll_task *task);
/* Waits for the tasks that write the tensor and copies its elements, in row-major order. */
plimsoll_error *plimsoll_read(plimsoll_orchestrator *o, const plimsoll_tensor *tensor, void *out, size_t bytes);
/* Waits for the tasks that use the tensor and overwrites its elements, in row-major order. */
plimsoll_error *plimsoll_write(plimsoll_orchestrator *o, const plimsoll_tensor *tensor, const void *data, size_t bytes);
/* Gives up: ends the run with PLIMSOLL_EXPLICIT_FATAL and this message. The error is for the program to return. */
plimsoll_error *plimsoll_fatal(plimsoll_orchestrator *o, const char *message);
/* Elements from `begin` up to `end` of one dimension. */
plimsoll_error *plimsoll_slice(const plimsoll_tensor *tensor, size_t dim, size_t begin, size_t end, plimsoll_tensor *out);
/* Tile number `index` when every dimension is cut into tiles of these extents. */
plimsoll_error *plimsoll_tile(const plimsoll_tensor *tensor, const size_t *index, const size_t *extents, size_t ndim, plimsoll_tensor *out);
/* The same elements under another shape. */
plimsoll_error *plimsoll_reshape(const plimsoll_tensor *tensor, const size_t *shape, size_t ndim, plimsoll_tensor *out);
/* The dimensions in another order. */
plimsoll_error *plimsoll_permute(const plimsoll_tensor *tensor, const size_t *order, size_t ndim, plimsoll_tensor *out);
/* The dimensions in reverse order. */
plimsoll_error *plimsoll_transpose(const plimsoll_tensor *tensor, plimsoll_tensor *out);
/* Writes the extents to `out`, which has room for PLIMSOLL_MAX_DIMS or is NULL, and gives how many there are. */
uint32_t plimsoll_tensor_shape(const plimsoll_tensor *tensor, size_t *out);
#endif
/* generated: end */

static inline plimsoll_arg plimsoll_use_(plimsoll_use use, const plimsoll_tensor *tensor) {
    plimsoll_arg arg;
    memset(&arg, 0, sizeof arg);
    arg.use = (uint32_t)use;
    arg.tensor = tensor;
    return arg;
}

/* The same argument, marked: runs that capture marked arguments capture it. */
static inline plimsoll_arg plimsoll_mark(plimsoll_arg arg) {
    arg.marked = 1;
    return arg;
}

static inline plimsoll_arg plimsoll_input(const plimsoll_tensor *tensor) { return plimsoll_use_(PLIMSOLL_INPUT, tensor); }
static inline plimsoll_arg plimsoll_inout(const plimsoll_tensor *tensor) { return plimsoll_use_(PLIMSOLL_INOUT, tensor); }
static inline plimsoll_arg plimsoll_output_existing(const plimsoll_tensor *tensor) {
    return plimsoll_use_(PLIMSOLL_OUTPUT_EXISTING, tensor);
}

static inline plimsoll_arg plimsoll_input_list(const plimsoll_tensor *tensors, size_t count) {
    plimsoll_arg arg = plimsoll_use_(PLIMSOLL_INPUT_LIST, tensors);
    arg.count = count;
    return arg;
}

static inline plimsoll_element plimsoll_dtype_element(uint32_t dtype) {
    plimsoll_element element = {0, 0, 0};
    element.dtype = dtype;
    return element;
}

/* A tensor of up to two dimensions; for more, change ndim and shape. */
static inline plimsoll_arg plimsoll_output(plimsoll_element element, uint32_t ndim, size_t rows, size_t columns) {
    plimsoll_arg arg = plimsoll_use_(PLIMSOLL_OUTPUT, NULL);
    arg.element = element;
    arg.ndim = ndim;
    arg.shape[0] = rows;
    arg.shape[1] = columns;
    return arg;
}

static inline plimsoll_arg plimsoll_scalar_bits(uint32_t dtype, uint64_t bits) {
    plimsoll_arg arg = plimsoll_use_(PLIMSOLL_SCALAR, NULL);
    arg.element = plimsoll_dtype_element(dtype);
    arg.bits = bits;
    return arg;
}

static inline plimsoll_arg plimsoll_i64(int64_t value) { return plimsoll_scalar_bits(PLIMSOLL_I64, (uint64_t)value); }

static inline plimsoll_arg plimsoll_f64(double value) {
    union { double value; uint64_t bits; } word;
    word.value = value;
    return plimsoll_scalar_bits(PLIMSOLL_F64, word.bits);
}

static inline plimsoll_arg plimsoll_f32(float value) {
    union { float value; uint32_t bits; } word;
    word.value = value;
    return plimsoll_scalar_bits(PLIMSOLL_F32, word.bits);
}

#ifdef __cplusplus
}
#endif

#endif
