// Pages of shared memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace weft::btl::shm {

/// Maps pages for writing that are about to be used, all at once: one by one, each costs a fault. Where the kernel cannot (before Linux
/// 5.14), nothing happens. Whole pages around the range are taken.
inline void populate(std::byte* from, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  constexpr int advice = MADV_POPULATE_WRITE;
#else
  constexpr int advice = 23;
#endif
  constexpr uintptr_t page = 4096;
  const uintptr_t first = reinterpret_cast<uintptr_t>(from) & ~(page - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(from) + bytes + page - 1) & ~(page - 1);
  madvise(reinterpret_cast<void*>(first), end - first, advice);
}

}  // namespace weft::btl::shm
