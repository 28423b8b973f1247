// Tasks of other shapes: executed in blocks, by parts that pass values to each other, only if a number says so, or not at all.
//
//   shapes [ENGINE]       PLIMSOLL_RECORD=profile records it
#include <plimsoll.hpp>

#include <cstdio>

using plimsoll::Block;
using plimsoll::In;
using plimsoll::InOut;
using plimsoll::Out;

int main(int argc, char **argv) {
    const size_t n = 64;
    plimsoll_device_options how = PLIMSOLL_DEVICE_OPTIONS;
    how.engine = argc > 1 ? argv[1] : nullptr;
    how.arch = argc > 2 ? argv[2] : nullptr;
    plimsoll::Device device(how);
    auto number = device.kernel("number", [](Block block, Out<float> to) {
        size_t rows = to.size() / block.count();
        for (size_t i = block.index() * rows; i < (block.index() + 1) * rows; ++i) to[i] = static_cast<float>(block.index());
    });
    auto squares = device.kernel("squares", [](Block block, In<float> from, Out<float>) {
        for (size_t i = 0; i < from.size(); ++i) block.push(1, from[i] * from[i]);
    }, "aic");
    // What a mutable lambda captured is there for every call anew.
    auto sum = device.kernel("sum", [total = 0.0f](Block block, In<float> from, Out<float> to) mutable {
        for (size_t i = 0; i < from.size(); ++i) total += block.pop<float>(0);
        to[0] = total;
    }, "aiv");
    auto negate = device.kernel("negate", [](Block, InOut<float> x) noexcept { x[0] = -x[0]; });

    float result = 0;
    plimsoll_run_options run = PLIMSOLL_RUN_OPTIONS;
    run.program = "shapes";
    device.run([&](plimsoll::Orchestrator &o) {
        auto yes = o.own(std::vector<float>{1}, {1}), no = o.own(std::vector<float>{0}, {1});
        plimsoll_submit_options in_blocks = PLIMSOLL_SUBMIT_OPTIONS, mixed = PLIMSOLL_SUBMIT_OPTIONS;
        in_blocks.blocks = 8;
        auto [x] = o.submit_with(in_blocks, number, nullptr, plimsoll::out<float>({n}));
        mixed.parts = &sum.raw;
        mixed.part_count = 1;
        auto [total] = o.submit_with(mixed, squares, nullptr, plimsoll::in(x), plimsoll::mark(plimsoll::out<float>({1})));
        // Of the first two only one is executed, so that the sign changes once; the last ones wait and do nothing.
        plimsoll_submit_options only_if = PLIMSOLL_SUBMIT_OPTIONS, unless = PLIMSOLL_SUBMIT_OPTIONS, dummy = PLIMSOLL_SUBMIT_OPTIONS;
        auto changed = plimsoll::mark(plimsoll::inout(total));
        only_if.only_if = yes.raw();
        o.submit_with(only_if, negate, nullptr, changed);
        unless.unless = yes.raw();
        o.submit_with(unless, negate, nullptr, changed);
        only_if.only_if = no.raw();
        o.submit_with(only_if, negate, nullptr, changed);
        plimsoll_task waited;
        dummy.dummy = 1;
        o.submit_with(dummy, negate, &waited, changed);
        dummy.after = &waited;
        dummy.after_count = 1;
        o.submit_with(dummy, negate, nullptr);
        result = o.read<float>(total)[0];
    }, run);
    std::printf("shapes: %llu tasks, total %.1f\n", static_cast<unsigned long long>(device.report().tasks), result);
    return 0;
}
