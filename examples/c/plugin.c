// The five-point stencil as a plug-in of the command. It links with nothing of ours:
//
//   cc -shared -fPIC -o libplugin.so plugin.c $(pkg-config --cflags plimsoll)
//   plimsoll run ./libplugin.so --set steps=16 --profile
//   plimsoll size ./libplugin.so
#include <plimsoll_plugin.h>
#include <stdio.h>
#include <stdlib.h>

enum { SETTING_SIDE, SETTING_TILE, SETTING_STEPS, SETTING_COUNT };

static const plimsoll_setting SETTINGS[SETTING_COUNT] = {
    {.key = "side", .about = "elements along an edge of the grid", .usual = 64, .min = 1, .max = 4096},
    {.key = "tile", .about = "elements along an edge of a tile", .usual = 16, .min = 1, .max = 4096},
    {.key = "steps", .about = "sweeps over the grid", .usual = 8, .min = 1, .max = 1000000},
};

/* The program's data: two grids, of which every step reads one and writes the other. */
typedef struct stencil {
    size_t side, tile, steps;
    plimsoll_kernel step;
    float *grid[2];
} stencil;

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

static plimsoll_error *reset(void *instance) {
    stencil *s = instance;
    for (size_t at = 0; at < s->side * s->side; ++at) {
        s->grid[0][at] = (float)(at % 7);
        s->grid[1][at] = 0;
    }
    return NULL;
}

static void release(void *instance) {
    stencil *s = instance;
    free(s->grid[0]);
    free(s->grid[1]);
    free(s);
}

static plimsoll_error *build(plimsoll_device *device, const uint64_t *settings, void **instance) {
    stencil *s = calloc(1, sizeof *s);
    if (!s) return plimsoll_error_new(PLIMSOLL_SYSTEM_REFUSED, "There is no memory for the program.");
    *instance = s; /* released by `release`, also if this fails below */
    s->side = settings[SETTING_SIDE];
    s->tile = settings[SETTING_TILE];
    s->steps = settings[SETTING_STEPS];
    if (s->side % s->tile)
        return plimsoll_error_new(PLIMSOLL_INVALID_ARGS, "The tile does not divide the side. Every tile is whole. Choose side and tile so that it does.");
    for (int at = 0; at < 2; ++at) {
        s->grid[at] = malloc(s->side * s->side * sizeof(float));
        if (!s->grid[at]) return plimsoll_error_new(PLIMSOLL_SYSTEM_REFUSED, "There is no memory for the grid.");
    }
    reset(s);
    plimsoll_kernel_options kernel = PLIMSOLL_KERNEL_OPTIONS;
    kernel.name = "step";
    kernel.body = step;
    return plimsoll_kernel_register(device, &kernel, &s->step);
}

static plimsoll_error *orchestrate(plimsoll_orchestrator *o, void *instance) {
    stencil *s = instance;
    plimsoll_tensor grid[2];
    size_t shape[2] = {s->side, s->side}, bytes = s->side * s->side * sizeof(float);
    for (int at = 0; at < 2; ++at)
        PLIMSOLL_TRY(plimsoll_borrow(o, s->grid[at], bytes, plimsoll_dtype_element(PLIMSOLL_F32), shape, 2, 1, &grid[at]));
    for (size_t t = 0; t < s->steps; ++t) {
        PLIMSOLL_TRY(PLIMSOLL_SCOPE(o));
        for (size_t i = 0; i < s->side; i += s->tile) {
            for (size_t j = 0; j < s->side; j += s->tile) {
                size_t top = i > 0, left = j > 0, below = i + s->tile < s->side, right = j + s->tile < s->side;
                plimsoll_tensor from, to;
                PLIMSOLL_TRY(plimsoll_slice(&grid[t % 2], 0, i - top, i + s->tile + below, &from));
                PLIMSOLL_TRY(plimsoll_slice(&from, 1, j - left, j + s->tile + right, &from));
                size_t index[2] = {i / s->tile, j / s->tile}, extents[2] = {s->tile, s->tile};
                PLIMSOLL_TRY(plimsoll_tile(&grid[(t + 1) % 2], index, extents, 2, &to));
                plimsoll_arg args[] = {plimsoll_input(&from), plimsoll_output_existing(&to), plimsoll_i64((int64_t)top), plimsoll_i64((int64_t)left)};
                PLIMSOLL_TRY(plimsoll_submit(o, s->step, args, 4, NULL, 0));
            }
        }
        PLIMSOLL_TRY(plimsoll_scope_close(o));
    }
    return NULL;
}

/* The same sweeps, one after the other. */
static int32_t verify(void *instance, char *detail, size_t room) {
    const stencil *s = instance;
    size_t n = s->side, wrong = 0;
    float *old = malloc(n * n * sizeof *old), *new = malloc(n * n * sizeof *new);
    if (!old || !new) {
        free(old);
        free(new);
        snprintf(detail, room, "there is no memory for the check");
        return 1;
    }
    for (size_t at = 0; at < n * n; ++at) old[at] = (float)(at % 7);
    for (size_t t = 0; t < s->steps; ++t) {
        for (size_t i = 0; i < n; ++i) {
            for (size_t j = 0; j < n; ++j) {
                float sum = old[i * n + j];
                if (i > 0) sum += old[(i - 1) * n + j];
                if (i + 1 < n) sum += old[(i + 1) * n + j];
                if (j > 0) sum += old[i * n + j - 1];
                if (j + 1 < n) sum += old[i * n + j + 1];
                new[i * n + j] = sum / 5.0f;
            }
        }
        float *swap = old;
        old = new;
        new = swap;
    }
    for (size_t at = 0; at < n * n; ++at) wrong += old[at] != s->grid[s->steps % 2][at];
    if (wrong) snprintf(detail, room, "%zu of %zu elements are wrong", wrong, n * n);
    else snprintf(detail, room, "all %zu elements equal", n * n);
    free(old);
    free(new);
    return wrong != 0;
}

static const plimsoll_plugin_program PROGRAMS[] = {{
    .name = "stencil",
    .about = "a five-point stencil by tiles, in C",
    .file = __FILE__,
    .line = __LINE__,
    .setting_count = SETTING_COUNT,
    .settings = SETTINGS,
    .build = build,
    .orchestrate = orchestrate,
    .reset = reset,
    .verify = verify,
    .release = release,
}};

PLIMSOLL_EXPORT const plimsoll_plugin *plimsoll_register(const plimsoll_host *host) {
    static const plimsoll_plugin PLUGIN = PLIMSOLL_PLUGIN_OF(PROGRAMS);
    return plimsoll_use_host(host) ? &PLUGIN : NULL;
}
