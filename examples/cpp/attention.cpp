// Attention by blocks with a running softmax: blocks of keys and values come one after the other for every tile of queries.
//
//   attention [ENGINE]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <plimsoll.hpp>

using plimsoll::In, plimsoll::InOut, plimsoll::Out, plimsoll::in, plimsoll::inout, plimsoll::out;

constexpr size_t tokens = 64, width = 16, tile = 16;

int main(int argc, char **argv) try {
    plimsoll_device_options how = PLIMSOLL_DEVICE_OPTIONS;
    how.engine = argc > 1 ? argv[1] : nullptr;
    plimsoll::Device device(how);
    auto start = device.kernel("start", [](Out<float> sum, Out<float> state) {
        for (size_t i = 0; i < sum.shape(0); ++i) {
            for (size_t d = 0; d < sum.shape(1); ++d) sum(i, d) = 0;
            state(i, 0) = -1e30f;
            state(i, 1) = 0;
        }
    });
    // What is kept between blocks: the weighted sum, and per row the largest score and the sum of weights.
    auto attend = device.kernel("attend", [](In<float> q, In<float> k, In<float> v, InOut<float> sum, InOut<float> state) {
        for (size_t i = 0; i < q.shape(0); ++i) {
            for (size_t j = 0; j < k.shape(0); ++j) {
                float score = 0;
                for (size_t d = 0; d < q.shape(1); ++d) score += q(i, d) * k(j, d);
                float most = std::max(score, state(i, 0));
                float keep = std::exp(state(i, 0) - most), weight = std::exp(score - most);
                for (size_t d = 0; d < v.shape(1); ++d) sum(i, d) = sum(i, d) * keep + weight * v(j, d);
                state(i, 1) = state(i, 1) * keep + weight;
                state(i, 0) = most;
            }
        }
    });
    auto normalise = device.kernel("normalise", [](In<float> sum, In<float> state, Out<float> rows) {
        for (size_t i = 0; i < rows.shape(0); ++i) {
            if (state(i, 1) <= 0) throw std::runtime_error("a row has no weights");
            for (size_t d = 0; d < rows.shape(1); ++d) rows(i, d) = sum(i, d) / state(i, 1);
        }
    });
    std::vector<float> q(tokens * width), k(q), v(q), result(q);
    for (size_t at = 0; at < q.size(); ++at) {
        q[at] = float(at % 11) / 11.0f;
        k[at] = float(at % 7) / 7.0f;
        v[at] = float(at % 5);
    }
    plimsoll_run_options options = PLIMSOLL_RUN_OPTIONS;
    options.program = "attention";
    auto program = [&](plimsoll::Orchestrator &o) {
        const std::vector<size_t> shape = {tokens, width};
        auto tq = o.borrow(q.data(), shape), tk = o.borrow(k.data(), shape), tv = o.borrow(v.data(), shape);
        auto all = o.borrow_mut(result.data(), shape);
        for (size_t i = 0; i < tokens; i += tile) {
            plimsoll::Scope scope(o);
            auto [sum, state] = o.submit(start, out<float>({tile, width}), out<float>({tile, 2}));
            auto queries = tq.slice(0, i, i + tile);
            for (size_t j = 0; j < tokens; j += tile) {
                auto keys = tk.slice(0, j, j + tile), values = tv.slice(0, j, j + tile);
                o.submit(attend, in(queries), in(keys), in(values), inout(sum), inout(state));
            }
            auto rows = all.slice(0, i, i + tile);
            o.submit(normalise, in(sum), in(state), plimsoll::out_existing(rows));
        }
    };
    device.run(program, options);
    double sum = 0;
    for (size_t at = 0; at < result.size(); ++at) sum += result[at] * double(at % 13);
    std::printf("attention: %llu tasks, checksum %.2f\n", (unsigned long long)device.report().tasks, sum);
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
