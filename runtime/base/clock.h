// Time inside the library.
#pragma once

#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <cstdint>

namespace weft {

/// Monotonic nanoseconds.
inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000u + uint64_t(t.tv_nsec);
}

/// A cheap clock of roughly a nanosecond, for how long ago something was.
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return now_ns();
#endif
}

/// One pause of a spinning loop.
inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Between two looks at a cache line that another processor is about to write, where the next thing to do is to write one oneself: see
/// Consumer::appears(). Some 40 cycles, which hold up neither the look nor what follows it.
inline void between_looks() {
#if defined(__x86_64__)
  __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace weft
