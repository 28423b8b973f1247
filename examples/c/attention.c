// Attention by blocks with a running softmax: blocks of keys and values come one after the other for every tile of queries.
//
//   attention [ENGINE]
#include <math.h>
#include <plimsoll.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 64, WIDTH = 16, TILE = 16 };

/* q, k, v, and what is kept between blocks: the weighted sum, and per row the largest score and the sum of weights. */
static int32_t attend(const plimsoll_call *call) {
    const plimsoll_view *q = &call->args[0], *k = &call->args[1], *v = &call->args[2], *sum = &call->args[3], *state = &call->args[4];
    const float *qd = q->data, *kd = k->data, *vd = v->data;
    float *sd = sum->data, *td = state->data;
    for (uint32_t i = 0; i < q->shape[0]; ++i) {
        for (uint32_t j = 0; j < k->shape[0]; ++j) {
            float score = 0;
            for (uint32_t d = 0; d < q->shape[1]; ++d) score += qd[i * q->strides[0] + d] * kd[j * k->strides[0] + d];
            float *largest = &td[i * state->strides[0]], *weights = largest + 1;
            float most = score > *largest ? score : *largest;
            float keep = expf(*largest - most), weight = expf(score - most);
            for (uint32_t d = 0; d < v->shape[1]; ++d) {
                float *at = &sd[i * sum->strides[0] + d];
                *at = *at * keep + weight * vd[j * v->strides[0] + d];
            }
            *weights = *weights * keep + weight;
            *largest = most;
        }
    }
    return 0;
}

static int32_t normalise(const plimsoll_call *call) {
    const plimsoll_view *sum = &call->args[0], *state = &call->args[1], *out = &call->args[2];
    const float *sd = sum->data, *td = state->data;
    float *od = out->data;
    for (uint32_t i = 0; i < out->shape[0]; ++i) {
        float weights = td[i * state->strides[0] + 1];
        if (weights <= 0) {
            call->fail(call, "a row has no weights");
            return 1;
        }
        for (uint32_t d = 0; d < out->shape[1]; ++d) od[i * out->strides[0] + d] = sd[i * sum->strides[0] + d] / weights;
    }
    return 0;
}

static int32_t start(const plimsoll_call *call) {
    const plimsoll_view *sum = &call->args[0], *state = &call->args[1];
    for (uint32_t i = 0; i < sum->shape[0]; ++i) {
        for (uint32_t d = 0; d < sum->shape[1]; ++d) ((float *)sum->data)[i * sum->strides[0] + d] = 0;
        ((float *)state->data)[i * state->strides[0]] = -1e30f;
        ((float *)state->data)[i * state->strides[0] + 1] = 0;
    }
    return 0;
}

typedef struct attention {
    plimsoll_kernel start, attend, normalise;
    float q[TOKENS * WIDTH], k[TOKENS * WIDTH], v[TOKENS * WIDTH], out[TOKENS * WIDTH];
} attention;

static plimsoll_error *program(plimsoll_orchestrator *o, void *context) {
    attention *a = context;
    plimsoll_element f32 = plimsoll_dtype_element(PLIMSOLL_F32);
    size_t shape[2] = {TOKENS, WIDTH};
    plimsoll_tensor q, k, v, out;
    PLIMSOLL_TRY(plimsoll_borrow(o, a->q, sizeof a->q, f32, shape, 2, 0, &q));
    PLIMSOLL_TRY(plimsoll_borrow(o, a->k, sizeof a->k, f32, shape, 2, 0, &k));
    PLIMSOLL_TRY(plimsoll_borrow(o, a->v, sizeof a->v, f32, shape, 2, 0, &v));
    PLIMSOLL_TRY(plimsoll_borrow(o, a->out, sizeof a->out, f32, shape, 2, 1, &out));
    for (size_t i = 0; i < TOKENS; i += TILE) {
        PLIMSOLL_TRY(PLIMSOLL_SCOPE(o));
        plimsoll_tensor made[2], queries, rows;
        plimsoll_arg fresh[] = {plimsoll_output(f32, 2, TILE, WIDTH), plimsoll_output(f32, 2, TILE, 2)};
        PLIMSOLL_TRY(plimsoll_submit(o, a->start, fresh, 2, made, 2));
        PLIMSOLL_TRY(plimsoll_slice(&q, 0, i, i + TILE, &queries));
        for (size_t j = 0; j < TOKENS; j += TILE) {
            plimsoll_tensor keys, values;
            PLIMSOLL_TRY(plimsoll_slice(&k, 0, j, j + TILE, &keys));
            PLIMSOLL_TRY(plimsoll_slice(&v, 0, j, j + TILE, &values));
            plimsoll_arg args[] = {plimsoll_input(&queries), plimsoll_input(&keys), plimsoll_input(&values), plimsoll_inout(&made[0]), plimsoll_inout(&made[1])};
            PLIMSOLL_TRY(plimsoll_submit(o, a->attend, args, 5, NULL, 0));
        }
        PLIMSOLL_TRY(plimsoll_slice(&out, 0, i, i + TILE, &rows));
        plimsoll_arg last[] = {plimsoll_input(&made[0]), plimsoll_input(&made[1]), plimsoll_output_existing(&rows)};
        PLIMSOLL_TRY(plimsoll_submit(o, a->normalise, last, 3, NULL, 0));
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

static plimsoll_kernel registered(plimsoll_device *device, const char *name, plimsoll_kernel_fn body) {
    plimsoll_kernel_options options = PLIMSOLL_KERNEL_OPTIONS;
    options.name = name;
    options.body = body;
    plimsoll_kernel kernel;
    check(plimsoll_kernel_register(device, &options, &kernel));
    return kernel;
}

int main(int argc, char **argv) {
    plimsoll_device_options how = PLIMSOLL_DEVICE_OPTIONS;
    how.engine = argc > 1 ? argv[1] : NULL;
    plimsoll_device *device;
    check(plimsoll_device_open(&how, &device));
    static attention a;
    a.start = registered(device, "start", start);
    a.attend = registered(device, "attend", attend);
    a.normalise = registered(device, "normalise", normalise);
    for (int at = 0; at < TOKENS * WIDTH; ++at) {
        a.q[at] = (float)(at % 11) / 11.0f;
        a.k[at] = (float)(at % 7) / 7.0f;
        a.v[at] = (float)(at % 5);
    }
    plimsoll_run_options run = PLIMSOLL_RUN_OPTIONS;
    run.program = "attention";
    check(plimsoll_run(device, &run, program, &a));
    double sum = 0;
    for (int at = 0; at < TOKENS * WIDTH; ++at) sum += a.out[at] * (at % 13);
    plimsoll_report report;
    check(plimsoll_device_report(device, &report));
    printf("attention: %llu tasks, checksum %.2f\n", (unsigned long long)report.tasks, sum);
    plimsoll_device_close(device);
    return 0;
}
