// A five-point stencil over a grid, by tiles: every tile of a step waits for its neighbours of the step before.
//
//   stencil [ENGINE]      such as `stencil virtual`; PLIMSOLL_RECORD=profile records it
#include <plimsoll.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 64, TILE = 16, STEPS = 8 };

/* from: the tile and what surrounds it, as far as there is any; to: the tile; then its distance from the view's edges. */
static int32_t step(const plimsoll_call *call) {
    const plimsoll_view *from = &call->args[0], *to = &call->args[1];
    int64_t top = (int64_t)call->args[2].bits, left = (int64_t)call->args[3].bits;
    const float *x = from->data;
    float *y = to->data;
    for (int64_t i = 0; i < to->shape[0]; ++i) {
        for (int64_t j = 0; j < to->shape[1]; ++j) {
            int64_t r = i + top, c = j + left, rows = from->shape[0], columns = from->shape[1];
            float sum = x[r * from->strides[0] + c];
            if (r > 0) sum += x[(r - 1) * from->strides[0] + c];
            if (r + 1 < rows) sum += x[(r + 1) * from->strides[0] + c];
            if (c > 0) sum += x[r * from->strides[0] + c - 1];
            if (c + 1 < columns) sum += x[r * from->strides[0] + c + 1];
            y[i * to->strides[0] + j] = sum / 5.0f;
        }
    }
    return 0;
}

typedef struct stencil {
    plimsoll_kernel step;
    float grid[2][SIDE * SIDE];
} stencil;

static plimsoll_error *program(plimsoll_orchestrator *o, void *context) {
    stencil *s = context;
    plimsoll_tensor grid[2];
    size_t shape[2] = {SIDE, SIDE};
    for (int at = 0; at < 2; ++at)
        PLIMSOLL_TRY(plimsoll_borrow(o, s->grid[at], sizeof s->grid[at], plimsoll_dtype_element(PLIMSOLL_F32), shape, 2, 1, &grid[at]));
    for (int t = 0; t < STEPS; ++t) {
        PLIMSOLL_TRY(PLIMSOLL_SCOPE(o));
        for (size_t i = 0; i < SIDE; i += TILE) {
            for (size_t j = 0; j < SIDE; j += TILE) {
                size_t top = i > 0, left = j > 0;
                size_t bottom = i + TILE < SIDE ? i + TILE + 1 : SIDE, right = j + TILE < SIDE ? j + TILE + 1 : SIDE;
                plimsoll_tensor from, to;
                PLIMSOLL_TRY(plimsoll_slice(&grid[t % 2], 0, i - top, bottom, &from));
                PLIMSOLL_TRY(plimsoll_slice(&from, 1, j - left, right, &from));
                size_t index[2] = {i / TILE, j / TILE}, extents[2] = {TILE, TILE};
                PLIMSOLL_TRY(plimsoll_tile(&grid[(t + 1) % 2], index, extents, 2, &to));
                plimsoll_arg args[] = {plimsoll_input(&from), plimsoll_output_existing(&to), plimsoll_i64((int64_t)top), plimsoll_i64((int64_t)left)};
                PLIMSOLL_TRY(plimsoll_submit(o, s->step, args, 4, NULL, 0));
            }
        }
        PLIMSOLL_TRY(plimsoll_scope_close(o));
    }
    return NULL;
}

static void check(plimsoll_error *error) {
    if (!error) return;
    fprintf(stderr, "%s\n", plimsoll_error_text(error));
    plimsoll_error_free(error);
    exit(1);
}

int main(int argc, char **argv) {
    plimsoll_device_options how = PLIMSOLL_DEVICE_OPTIONS;
    how.engine = argc > 1 ? argv[1] : NULL;
    plimsoll_device *device;
    check(plimsoll_device_open(&how, &device));
    static stencil s;
    for (int at = 0; at < SIDE * SIDE; ++at) s.grid[0][at] = (float)(at % 7);
    plimsoll_kernel_options kernel = PLIMSOLL_KERNEL_OPTIONS;
    kernel.name = "step";
    kernel.body = step;
    check(plimsoll_kernel_register(device, &kernel, &s.step));
    plimsoll_run_options run = PLIMSOLL_RUN_OPTIONS;
    run.program = "stencil";
    check(plimsoll_run(device, &run, program, &s));
    double sum = 0;
    for (int at = 0; at < SIDE * SIDE; ++at) sum += s.grid[STEPS % 2][at] * (at % 13);
    plimsoll_report report;
    check(plimsoll_device_report(device, &report));
    printf("stencil: %llu tasks, checksum %.3f\n", (unsigned long long)report.tasks, sum);
    plimsoll_device_close(device);
    return 0;
}
