// Programs as plug-ins: a shared object that `plimsoll run ./libmine.so` runs, with every flag of the command.
//
//   cc -shared -fPIC -o libmine.so mine.c -I<prefix>/include
//   plimsoll run ./libmine.so --set n=512 --profile       with several programs in it: ./libmine.so:NAME
//
// The object links with nothing of ours. It exports plimsoll_register, which is handed a table of all functions of plimsoll.h
// and gives a description of the programs:
//
//   static const plimsoll_plugin_program PROGRAMS[] = {{
//       .name = "sum", .about = "adds vectors", .file = __FILE__, .line = __LINE__,
//       .settings = SETTINGS, .setting_count = 1,
//       .build = build, .orchestrate = orchestrate, .verify = verify, .release = free,
//   }};
//   PLIMSOLL_EXPORT const plimsoll_plugin *plimsoll_register(const plimsoll_host *host) {
//       static const plimsoll_plugin PLUGIN = PLIMSOLL_PLUGIN_OF(PROGRAMS);
//       return plimsoll_use_host(host) ? &PLUGIN : NULL;
//   }
//
// Rules. The description and its texts stay as they are; the object is never unloaded. Memory is freed by the side that
// allocated it: errors by the host (make them with plimsoll_error_new), an instance by its release. No C++ exception leaves a
// function. A plug-in of several files calls plimsoll_use_host in each of them that uses the functions.
// Include this file before plimsoll.h and plimsoll.hpp.
#ifndef PLIMSOLL_PLUGIN_H
#define PLIMSOLL_PLUGIN_H

#if defined(PLIMSOLL_H) && !defined(PLIMSOLL_PLUGIN)
#error "include plimsoll_plugin.h before plimsoll.h: a plug-in calls the functions through the table that it is handed"
#endif
#ifndef PLIMSOLL_PLUGIN
#define PLIMSOLL_PLUGIN
#endif
#include "plimsoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What `--set KEY=VALUE` can change. */
typedef struct plimsoll_setting {
    const char *key;
    const char *about; /* in a few words */
    const char *words; /* "small,large": the values are words, and the program gets the number of one; NULL for numbers */
    uint64_t usual;    /* the value if nothing is said */
    uint64_t min;
    uint64_t max;
} plimsoll_setting;

/* A program. Calls come one after the other: build; then for each run orchestrate, and reset between rounds; verify after a
 * run that ended well; release. A sizing run builds several instances. */
typedef struct plimsoll_plugin_program {
    const char *name;
    const char *about; /* in one line */
    const char *file;  /* where it is written: __FILE__, __LINE__ */
    uint32_t line;
    uint32_t setting_count;
    const plimsoll_setting *settings;
    /* Registers kernels with the device, which is lent for this call, and makes the data. `settings` has one value for each
     * setting, in their order. `*instance` is handed to the other functions. May be NULL. */
    plimsoll_error *(*build)(plimsoll_device *device, const uint64_t *settings, void **instance);
    /* Submits the tasks. With --prebuilt it is called once, and its graph launched for each round. */
    plimsoll_error *(*orchestrate)(plimsoll_orchestrator *o, void *instance);
    /* Puts the data back to what it was before the first run. May be NULL. */
    plimsoll_error *(*reset)(void *instance);
    /* 0 if the result is right. Writes one line of how that was found, of at most `room` bytes with its zero. May be NULL. */
    int32_t (*verify)(void *instance, char *detail, size_t room);
    /* May be NULL, and is not called where a kernel that never returned may still use the instance. */
    plimsoll_release_fn release;
} plimsoll_plugin_program;

/* What plimsoll_register gives. */
typedef struct plimsoll_plugin {
    uint32_t abi_version;
    uint32_t size;
    uint32_t program_size;
    uint32_t program_count;
    const plimsoll_plugin_program *programs;
} plimsoll_plugin;

/* The description of an array of programs. */
#define PLIMSOLL_PLUGIN_OF(programs)                                                                   \
    {PLIMSOLL_ABI_VERSION, (uint32_t)sizeof(plimsoll_plugin), (uint32_t)sizeof(plimsoll_plugin_program), \
     (uint32_t)(sizeof(programs) / sizeof((programs)[0])), (programs)}

#define PLIMSOLL_EXPORT __attribute__((visibility("default")))

/* Takes over the table of functions. 0 if the command's version is another one: then return NULL. */
static inline int plimsoll_use_host(const plimsoll_host *host) {
    if (!host || host->abi_version != PLIMSOLL_ABI_VERSION || host->size < sizeof *host) return 0;
    plimsoll_functions = host;
    return 1;
}

/* What the object exports. The command refuses one that gives NULL. */
PLIMSOLL_EXPORT const plimsoll_plugin *plimsoll_register(const plimsoll_host *host);

#ifdef __cplusplus
}
#endif

#endif
