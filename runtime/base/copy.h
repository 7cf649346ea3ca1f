// Copying message data.
#pragma once

#include <cstddef>
#include <cstring>

namespace weft {

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace detail {
/// Does the processor copy strings fast by microcode (ERMS)? It then takes lines without reading them first, which memory that
/// another core has just used makes two to three times faster than loads and stores.
extern const bool fast_strings;
}  // namespace detail

/// memcpy for data on its way between processes. Ranges do not overlap. Below kWorthIt bytes the start-up of the microcode costs more than
/// it saves.
template <size_t kWorthIt = 1024>
void copy_bytes(void* to, const void* from, size_t n) {
  if (n >= kWorthIt && detail::fast_strings)
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
  else
    std::memcpy(to, from, n);
}
#else
template <size_t = 0>
void copy_bytes(void* to, const void* from, size_t n) {
  std::memcpy(to, from, n);
}
#endif

/// memcpy for sizes that are small more often than not: those of the shortest messages without a call.
inline void copy_few(void* to, const void* from, size_t n) {
  if (n == 8)
    std::memcpy(to, from, 8);
  else if (n == 4)
    std::memcpy(to, from, 4);
  else if (n)
    std::memcpy(to, from, n);
}

/// Has the cache line brought here for writing, without waiting for it. Only a hint.
inline void claim_line(const void* where) {
#ifdef __x86_64__
  asm volatile("prefetchw %0" : : "m"(*static_cast<const std::byte*>(where)));  // compilers emit it for some processors only
#else
  __builtin_prefetch(where, 1);
#endif
}

}  // namespace weft
