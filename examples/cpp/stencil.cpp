// A five-point stencil over a grid, by tiles: every tile of a step waits for its neighbours of the step before.
//
//   stencil [ENGINE]      such as `stencil virtual`; PLIMSOLL_RECORD=profile records it
#include <algorithm>
#include <cstdio>
#include <plimsoll.hpp>

constexpr size_t side = 64, tile = 16, steps = 8;

int main(int argc, char **argv) try {
    plimsoll_device_options how = PLIMSOLL_DEVICE_OPTIONS;
    how.engine = argc > 1 ? argv[1] : nullptr;
    plimsoll::Device device(how);
    // from: the tile and what surrounds it, as far as there is any; to: the tile; then its distance from the view's edges.
    auto step = device.kernel("step", [](plimsoll::In<float> from, plimsoll::Out<float> to, int64_t top, int64_t left) {
        for (size_t i = 0; i < to.shape(0); ++i) {
            for (size_t j = 0; j < to.shape(1); ++j) {
                size_t r = i + top, c = j + left;
                float sum = from(r, c);
                if (r > 0) sum += from(r - 1, c);
                if (r + 1 < from.shape(0)) sum += from(r + 1, c);
                if (c > 0) sum += from(r, c - 1);
                if (c + 1 < from.shape(1)) sum += from(r, c + 1);
                to(i, j) = sum / 5.0f;
            }
        }
    });
    std::vector<float> grids[2] = {std::vector<float>(side * side), std::vector<float>(side * side)};
    for (size_t at = 0; at < side * side; ++at) grids[0][at] = float(at % 7);
    plimsoll_run_options options = PLIMSOLL_RUN_OPTIONS;
    options.program = "stencil";
    auto program = [&](plimsoll::Orchestrator &o) {
        plimsoll::Tensor grid[2] = {o.borrow_mut(grids[0].data(), {side, side}), o.borrow_mut(grids[1].data(), {side, side})};
        for (size_t t = 0; t < steps; ++t) {
            plimsoll::Scope scope(o);
            for (size_t i = 0; i < side; i += tile) {
                for (size_t j = 0; j < side; j += tile) {
                    size_t top = i > 0, left = j > 0;
                    auto from = grid[t % 2].slice(0, i - top, std::min(i + tile + 1, side)).slice(1, j - left, std::min(j + tile + 1, side));
                    auto to = grid[(t + 1) % 2].tile({i / tile, j / tile}, {tile, tile});
                    o.submit(step, plimsoll::in(from), plimsoll::out_existing(to), plimsoll::scalar(int64_t(top)), plimsoll::scalar(int64_t(left)));
                }
            }
        }
    };
    device.run(program, options);
    double sum = 0;
    for (size_t at = 0; at < side * side; ++at) sum += grids[steps % 2][at] * double(at % 13);
    std::printf("stencil: %llu tasks, checksum %.3f\n", (unsigned long long)device.report().tasks, sum);
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
