// A kernel that does not return, and how a program hears of it: the run has a deadline.
//
//   hang      ends with code 23 and an explanation
#include <atomic>
#include <cstdio>
#include <plimsoll.hpp>

int main() try {
    plimsoll_device_options how = PLIMSOLL_DEVICE_OPTIONS;
    how.workers = 2;
    how.no_lend = 1; // else this thread would be the one that is stuck
    plimsoll::Device device(how);
    std::atomic<bool> may_return{false};
    auto stuck = device.kernel("stuck", [&](plimsoll::Out<int32_t> x) {
        while (!may_return) {
        }
        x[0] = 1;
    });
    plimsoll_run_options options = PLIMSOLL_RUN_OPTIONS;
    options.deadline_ns = 50 * 1000 * 1000;
    options.program = "hang";
    auto program = [&](plimsoll::Orchestrator &o) {
        auto [x] = o.submit(stuck, plimsoll::out<int32_t>({1}));
        try {
            o.read<int32_t>(x);
        } catch (...) {
            may_return = true; // so that the example ends: a run returns when its kernels have
            throw;
        }
    };
    try {
        device.run(program, options);
    } catch (const plimsoll::Error &error) {
        if (error.code() != PLIMSOLL_DEADLINE_EXCEEDED) throw;
        std::printf("hang: %s (%u)\n", error.name().c_str(), error.code());
        return 0;
    }
    std::fprintf(stderr, "expected the deadline\n");
    return 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
