// Tasks of other shapes: executed in blocks, by parts that pass values to each other, only if a number says so, or not at all.
//
//   shapes [ENGINE]       PLIMSOLL_RECORD=profile records it
#include <plimsoll.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 64, BLOCKS = 8 };

/* Every block fills rows of its own with its number. */
static int32_t number(const plimsoll_call *call) {
    const plimsoll_view *to = &call->args[0];
    uint32_t rows = to->shape[0] / call->blocks;
    for (uint32_t i = call->block * rows; i < (call->block + 1) * rows; ++i) ((float *)to->data)[i] = (float)call->block;
    return 0;
}

static float float_of(uint64_t bits) {
    union { uint32_t bits; float value; } word = {(uint32_t)bits};
    return word.value;
}

/* The part on the matrix core squares, and gives each square to part 1. */
static int32_t squares(const plimsoll_call *call) {
    const plimsoll_view *from = &call->args[0];
    for (uint32_t i = 0; i < from->shape[0]; ++i) {
        float x = ((const float *)from->data)[i];
        if (call->push(call, 1, plimsoll_f32(x * x).bits)) return 1;
    }
    return 0;
}

/* The part on the vector core adds them up. */
static int32_t sum(const plimsoll_call *call) {
    float total = 0;
    for (uint32_t i = 0; i < call->args[0].shape[0]; ++i) {
        uint64_t bits;
        if (call->pop(call, 0, &bits)) return 1;
        total += float_of(bits);
    }
    *(float *)call->args[1].data = total;
    return 0;
}

static int32_t negate(const plimsoll_call *call) {
    *(float *)call->args[0].data *= -1;
    return 0;
}

typedef struct shapes {
    plimsoll_kernel number, squares, sum, negate;
    float total;
} shapes;

static plimsoll_error *program(plimsoll_orchestrator *o, void *context) {
    shapes *s = context;
    plimsoll_element f32 = plimsoll_dtype_element(PLIMSOLL_F32);
    plimsoll_tensor x, total, yes, no;
    float one = 1, zero = 0;
    size_t shape[1] = {1};
    PLIMSOLL_TRY(plimsoll_own(o, &one, sizeof one, f32, shape, 1, &yes));
    PLIMSOLL_TRY(plimsoll_own(o, &zero, sizeof zero, f32, shape, 1, &no));

    plimsoll_submit_options in_blocks = PLIMSOLL_SUBMIT_OPTIONS;
    in_blocks.blocks = BLOCKS;
    plimsoll_arg numbered[] = {plimsoll_output(f32, 1, N, 0)};
    PLIMSOLL_TRY(plimsoll_submit_with(o, &in_blocks, s->number, numbered, 1, &x, 1, NULL));

    plimsoll_submit_options mixed = PLIMSOLL_SUBMIT_OPTIONS;
    mixed.parts = &s->sum;
    mixed.part_count = 1;
    plimsoll_arg summed[] = {plimsoll_input(&x), plimsoll_mark(plimsoll_output(f32, 1, 1, 0))};
    PLIMSOLL_TRY(plimsoll_submit_with(o, &mixed, s->squares, summed, 2, &total, 1, NULL));

    /* Of the first two only one is executed, so that the sign changes once; the third waits and does nothing. */
    plimsoll_arg changed[] = {plimsoll_mark(plimsoll_inout(&total))};
    plimsoll_submit_options only_if = PLIMSOLL_SUBMIT_OPTIONS, unless = PLIMSOLL_SUBMIT_OPTIONS, dummy = PLIMSOLL_SUBMIT_OPTIONS;
    only_if.only_if = &yes;
    PLIMSOLL_TRY(plimsoll_submit_with(o, &only_if, s->negate, changed, 1, NULL, 0, NULL));
    unless.unless = &yes;
    PLIMSOLL_TRY(plimsoll_submit_with(o, &unless, s->negate, changed, 1, NULL, 0, NULL));
    only_if.only_if = &no;
    PLIMSOLL_TRY(plimsoll_submit_with(o, &only_if, s->negate, changed, 1, NULL, 0, NULL));
    plimsoll_task waited;
    dummy.dummy = 1;
    PLIMSOLL_TRY(plimsoll_submit_with(o, &dummy, s->negate, changed, 1, NULL, 0, &waited));
    dummy.after = &waited;
    dummy.after_count = 1;
    PLIMSOLL_TRY(plimsoll_submit_with(o, &dummy, s->negate, NULL, 0, NULL, 0, NULL));
    return plimsoll_read(o, &total, &s->total, sizeof s->total);
}

static void check(plimsoll_error *error) {
    if (!error) return;
    fprintf(stderr, "%s\n", plimsoll_error_text(error));
    plimsoll_error_free(error);
    exit(1);
}

static void enter(plimsoll_device *device, const char *name, plimsoll_kernel_fn body, const char *core_class, plimsoll_kernel *out) {
    plimsoll_kernel_options kernel = PLIMSOLL_KERNEL_OPTIONS;
    kernel.name = name;
    kernel.body = body;
    kernel.core_class = core_class;
    kernel.in_blocks = 1;
    check(plimsoll_kernel_register(device, &kernel, out));
}

int main(int argc, char **argv) {
    plimsoll_device_options how = PLIMSOLL_DEVICE_OPTIONS;
    how.engine = argc > 1 ? argv[1] : NULL;
    how.arch = argc > 2 ? argv[2] : NULL;
    plimsoll_device *device;
    check(plimsoll_device_open(&how, &device));
    static shapes s;
    enter(device, "number", number, NULL, &s.number);
    enter(device, "squares", squares, "aic", &s.squares);
    enter(device, "sum", sum, "aiv", &s.sum);
    enter(device, "negate", negate, NULL, &s.negate);
    plimsoll_run_options run = PLIMSOLL_RUN_OPTIONS;
    run.program = "shapes";
    check(plimsoll_run(device, &run, program, &s));
    plimsoll_report report;
    check(plimsoll_device_report(device, &report));
    printf("shapes: %llu tasks, total %.1f\n", (unsigned long long)report.tasks, s.total);
    plimsoll_device_close(device);
    return 0;
}
