// A kernel that does not return, and how a program hears of it: the run has a deadline.
//
//   hang      ends with code 23 and an explanation
#include <plimsoll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int may_return;

static int32_t stuck(const plimsoll_call *call) {
    while (!atomic_load(&may_return)) {
    }
    *(int32_t *)call->args[0].data = 1;
    return 0;
}

static plimsoll_error *program(plimsoll_orchestrator *o, void *context) {
    plimsoll_arg args[] = {plimsoll_output(plimsoll_dtype_element(PLIMSOLL_I32), 1, 1, 0)};
    plimsoll_tensor made;
    PLIMSOLL_TRY(plimsoll_submit(o, *(plimsoll_kernel *)context, args, 1, &made, 1));
    int32_t value;
    plimsoll_error *error = plimsoll_read(o, &made, &value, sizeof value);
    /* So that the example ends: a run returns when its kernels have. */
    atomic_store(&may_return, 1);
    return error;
}

int main(void) {
    plimsoll_device_options how = PLIMSOLL_DEVICE_OPTIONS;
    how.workers = 2;
    how.no_lend = 1; /* else this thread would be the one that is stuck */
    plimsoll_device *device;
    plimsoll_error *error = plimsoll_device_open(&how, &device);
    plimsoll_kernel_options options = PLIMSOLL_KERNEL_OPTIONS;
    options.name = "stuck";
    options.body = stuck;
    plimsoll_kernel kernel;
    if (!error) error = plimsoll_kernel_register(device, &options, &kernel);
    plimsoll_run_options run = PLIMSOLL_RUN_OPTIONS;
    run.deadline_ns = 50 * 1000 * 1000;
    run.program = "hang";
    if (!error) error = plimsoll_run(device, &run, program, &kernel);
    if (!error || plimsoll_error_code(error) != PLIMSOLL_DEADLINE_EXCEEDED) {
        fprintf(stderr, "expected the deadline: %s\n", error ? plimsoll_error_text(error) : "nothing");
        return 1;
    }
    printf("hang: %s (%u)\n", plimsoll_error_name(error), plimsoll_error_code(error));
    plimsoll_error_free(error);
    plimsoll_device_close(device);
    return 0;
}
