// The five-point stencil as a plug-in of the command, in C++. It links with nothing of ours:
//
//   c++ -std=c++17 -shared -fPIC -o libplugin.so plugin.cpp $(pkg-config --cflags plimsoll)
//   plimsoll run ./libplugin.so --set steps=16 --profile
#include <plimsoll_plugin.h>
#include <plimsoll.hpp>
#include <stdexcept>

using plimsoll::In, plimsoll::Orchestrator, plimsoll::Out, plimsoll::Tensor;

static const plimsoll_setting SETTINGS[] = {
    {"side", "elements along an edge of the grid", nullptr, 64, 1, 4096},
    {"tile", "elements along an edge of a tile", nullptr, 16, 1, 4096},
    {"steps", "sweeps over the grid", nullptr, 8, 1, 1000000},
};

// One element from its own value and those around it, as far as there are any.
template <class At> float average(At at, size_t r, size_t c, size_t rows, size_t columns) {
    float sum = at(r, c);
    if (r > 0) sum += at(r - 1, c);
    if (r + 1 < rows) sum += at(r + 1, c);
    if (c > 0) sum += at(r, c - 1);
    if (c + 1 < columns) sum += at(r, c + 1);
    return sum / 5.0f;
}

// Two grids, of which every step reads one and writes the other.
class Stencil {
public:
    Stencil(plimsoll::Device &device, const uint64_t *settings) : side_(settings[0]), tile_(settings[1]), steps_(settings[2]) {
        if (side_ % tile_) throw std::invalid_argument("The tile does not divide the side. Every tile is whole. Choose side and tile so that it does.");
        // from: the tile and what surrounds it; to: the tile; then its distance from the view's edges.
        step_ = device.kernel("step", [](In<float> from, Out<float> to, int64_t top, int64_t left) {
            for (size_t i = 0; i < to.shape(0); ++i)
                for (size_t j = 0; j < to.shape(1); ++j) to(i, j) = average(from, i + top, j + left, from.shape(0), from.shape(1));
        });
        grid_[0] = first();
        grid_[1].resize(side_ * side_);
    }

    void orchestrate(Orchestrator &o) {
        Tensor grid[2] = {o.borrow_mut(grid_[0].data(), {side_, side_}), o.borrow_mut(grid_[1].data(), {side_, side_})};
        for (size_t t = 0; t < steps_; ++t) {
            plimsoll::Scope scope(o);
            for (size_t i = 0; i < side_; i += tile_) {
                for (size_t j = 0; j < side_; j += tile_) {
                    size_t top = i > 0, left = j > 0;
                    auto rows = grid[t % 2].slice(0, i - top, std::min(i + tile_ + 1, side_));
                    auto from = rows.slice(1, j - left, std::min(j + tile_ + 1, side_));
                    auto to = grid[(t + 1) % 2].tile({i / tile_, j / tile_}, {tile_, tile_});
                    o.submit(step_, plimsoll::in(from), plimsoll::out_existing(to), plimsoll::scalar(int64_t(top)), plimsoll::scalar(int64_t(left)));
                }
            }
        }
    }

    // In place: a prebuilt graph keeps the addresses.
    void reset() {
        std::vector<float> begin = first();
        std::copy(begin.begin(), begin.end(), grid_[0].begin());
        std::fill(grid_[1].begin(), grid_[1].end(), 0.0f);
    }

    // The same sweeps, one after the other.
    plimsoll::Verdict verify() const {
        std::vector<float> old = first(), next(old.size());
        for (size_t t = 0; t < steps_; ++t, old.swap(next)) {
            auto at = [&](size_t i, size_t j) { return old[i * side_ + j]; };
            for (size_t i = 0; i < side_; ++i)
                for (size_t j = 0; j < side_; ++j) next[i * side_ + j] = average(at, i, j, side_, side_);
        }
        size_t wrong = 0;
        for (size_t at = 0; at < old.size(); ++at) wrong += old[at] != grid_[steps_ % 2][at];
        std::string all = std::to_string(old.size());
        if (wrong) return {false, std::to_string(wrong) + " of " + all + " elements are wrong"};
        return {true, "all " + all + " elements equal"};
    }

private:
    std::vector<float> first() const {
        std::vector<float> grid(side_ * side_);
        for (size_t at = 0; at < grid.size(); ++at) grid[at] = float(at % 7);
        return grid;
    }

    size_t side_, tile_, steps_;
    plimsoll::Kernel step_;
    std::vector<float> grid_[2];
};

static const plimsoll_plugin_program PROGRAMS[] = {
    plimsoll::plugin_program<Stencil>("stencil", "a five-point stencil by tiles, in C++", SETTINGS),
};

const plimsoll_plugin *plimsoll_register(const plimsoll_host *host) {
    static const plimsoll_plugin PLUGIN = PLIMSOLL_PLUGIN_OF(PROGRAMS);
    return plimsoll_use_host(host) ? &PLUGIN : nullptr;
}
