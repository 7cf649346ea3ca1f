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

/// After a wait for data of some lines, before it is read: nothing that follows is begun until the wait is known to be over. A processor
/// that expects it to be reads on, and takes lines from who is still writing them, who then has to get them back (2 KiB between two
/// processors of an Intel Granite Rapids: 0.5 to 0.9 us, as the compiler has it, and 0.5 with this).
inline void wait_is_over() {
#if defined(__x86_64__)
  __builtin_ia32_lfence();
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
