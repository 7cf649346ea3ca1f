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

inline constexpr size_t kShortCopy = 64;
/// Copies up to kShortCopy bytes without a call.
inline void copy_short(void* target, const void* source, size_t n) {
  auto* const to = static_cast<std::byte*>(target);
  const auto* const from = static_cast<const std::byte*>(source);
  if (n >= 16) {
    std::memcpy(to, from, 16);
    if (n > 32) std::memcpy(to + 16, from + 16, 16);
    if (n > 48) std::memcpy(to + 32, from + 32, 16);
    std::memcpy(to + n - 16, from + n - 16, 16);
  } else if (n >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + n - 8, from + n - 8, 8);
  } else if (n >= 4) {
    std::memcpy(to, from, 4);
    std::memcpy(to + n - 4, from + n - 4, 4);
  } else if (n) {
    to[0] = from[0];
    to[n / 2] = from[n / 2];
    to[n - 1] = from[n - 1];
  }
}

/// memcpy for sizes that are small more often than not.
inline void copy_few(void* to, const void* from, size_t n) {
  if (n <= kShortCopy)
    copy_short(to, from, n);
  else
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
