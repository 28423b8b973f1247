// The kernel every system runs: a fixed number of dependent multiply-adds.
#pragma once
#include <cstdint>

// Work is counted, not timed: a kernel that watches the clock gets shorter when its thread is preempted.
inline void kernel(uint32_t iterations) {
  uint64_t x = iterations;
  for (uint32_t i = 0; i < iterations; i++) {
    x = x * 6364136223846793005ull + 1442695040888963407ull;
    asm volatile("" : "+r"(x));  // keeps the chain of operations as written
  }
}
