// Copying message data.
#pragma once

#include <cstddef>
#include <cstring>

namespace weft {

/// Where in its page shared memory for data begins. Microcode copies long data a sixth slower, and into another core's lines half as fast,
/// where the target lies less than a line behind the source, in the page of each (AMD Zen 5: 64 KiB out in 940 instead of 800 ns, in 1230
/// instead of 670). Large memory of malloc's begins 16 B into a page; from here to there, and back, it is far.
constexpr size_t kMidPage = 2048;

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace detail {
/// Does the processor copy strings fast by microcode (ERMS)? It then takes lines without reading them first, which memory that
/// another core has just used makes two to three times faster than loads and stores.
extern const bool fast_strings;
/// Do they take twenty times as long as vectors where the target lies less than a line behind the source, in the page of each, even in the
/// first cache? Zen 3's do (4 KiB 2260 instead of 70 ns), and with them memcpy's of 4 KiB and more.
extern const bool strings_stumble;
/// Bytes from which it copies even what another core has written sooner by microcode.
extern const size_t strings_from;
/// Does it write lines that another core has read sooner by vector stores? Intel's without fast short strings do.
extern const bool vectors_go_in_fast;
/// Bytes from which vector loads and stores pay.
constexpr size_t kLeastByVectors = 512;
/// By vector loads and stores; of at least 128 bytes.
extern void (*const copy_by_vectors)(std::byte* to, const std::byte* from, size_t n);
/// The same, of at least 16 KiB, from several pages at a time; null where that is not ahead.
extern void (*const copy_by_quarters)(std::byte* to, const std::byte* from, size_t n);
/// Bytes from which asking for lines a page ahead pays.
constexpr size_t kLeastFromAfar = 4 << 10;
/// Asks for lines of the source a page ahead; null where that is not ahead.
extern void (*const ask_for_source)(std::byte* to, const std::byte* from, size_t n);
/// Asks for lines of the target a page ahead, and stores a byte of each line of the source again if `touches`; null where that is not
/// ahead.
extern void (*const ask_for_target)(std::byte* to, std::byte* from, size_t n, bool touches);
/// As copy_by_vectors, and stores a byte of each line of the source again.
extern void (*const copy_and_touch)(std::byte* to, std::byte* from, size_t n);
}  // namespace detail

/// Does a processor write lines that another one has read sooner if that one has written them, too? It does if a line that is read where it
/// was written moves to its reader (migratory sharing), as with AMD up to Zen 4: 256 KiB in 20 instead of 120 us between two packages.
extern const bool touching_pays;
/// Does it write them sooner, other things being equal, if they have left the reader's cache? All do but AMD's since Zen 5: broadcasts of
/// 64 KiB in 5.8 instead of 7.3 us, reduces in 4.8 instead of 7.2 (Intel Emerald Rapids).
extern const bool leaving_pays;
/// Had stores to lines that crowd into few sets of the first cache better wait for each other? AMD's had; on Intel's Granite Rapids 4 KiB
/// of doubles a page apart take 14 us so instead of 7.
extern const bool crowds_wait;
/// Does the kernel copy what is near from another process sooner than both do through memory that they share, from 32 KiB on? For
/// decisions on which processes have to agree: where each may decide, it is measured (contest.h). Intel's with fast short strings.
extern const bool kernel_copies_fast;
/// Bytes from which a single message is there sooner if it is copied out while it is still copied in (half a round trip of 6 KiB in 0.91
/// instead of 1.01 us on an Intel Granite Rapids; AMD's Zen 4 gains 7 % at 8 KiB).
extern const size_t growing_pays_from;

/// memcpy for data on its way between processes. Ranges do not overlap. Below kWorthIt bytes the start-up of the microcode costs more than
/// it saves.
template <size_t kWorthIt = 1024>
void copy_bytes(void* to, const void* from, size_t n) {
  if (n >= kWorthIt && detail::fast_strings)
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
  else if (n >= detail::kLeastByVectors && detail::strings_stumble)
    detail::copy_by_vectors(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), n);
  else
    std::memcpy(to, from, n);
}

/// copy_bytes() of what goes one way: into memory that another process has read, of which this one reads nothing. (Intel Cascade Lake, by
/// vectors: streams of 4 to 16 KiB 8.2 to 11.5 GB/s, reduces of 64 KiB 7.1 to 5.8 us; not so where each of two writes what the other one
/// has written, as reductions do that all get: of 64 KiB 9.1 to 10.9.)
template <size_t kWorthIt = 1024>
void copy_in(void* to, const void* from, size_t n) {
  if (n >= detail::kLeastByVectors && detail::vectors_go_in_fast)
    detail::copy_by_vectors(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), n);
  else
    copy_bytes<kWorthIt>(to, from, n);
}

/// memcpy for data that another process has written. Microcode reads lines of another core's at half the speed, or a third, where source
/// and target lie differently in their lines (AMD Zen 4), as messages and programs' buffers mostly do; where it does not (Zen 5, Intel
/// Emerald Rapids), it is ahead with long ones. Beyond kMostByVectors, memcpy goes past the caches.
inline void copy_out(void* to, const void* from, size_t n) {
  constexpr size_t kMostByVectors = 1 << 20;
  if (n < detail::kLeastByVectors || (n > kMostByVectors && !detail::strings_stumble))
    std::memcpy(to, from, n);
  else if (n >= detail::strings_from)
    copy_bytes<0>(to, from, n);
  else
    detail::copy_by_vectors(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), n);
}
/// copy_out() of memory, the beginning of a line, that its writer is going to write again; where touching_pays. What stands there stays.
inline void copy_and_touch(void* to, void* from, size_t n) {
  detail::copy_and_touch(static_cast<std::byte*>(to), static_cast<std::byte*>(from), n);
}
/// Stores the first byte of each line again.
inline void touch(void* where, size_t n) {
  auto* const bytes = static_cast<volatile std::byte*>(where);
  for (size_t i = 0; i < n; i += 64) bytes[i] = bytes[i];
}
#else
constexpr bool touching_pays = false, leaving_pays = false, crowds_wait = false, kernel_copies_fast = false;
constexpr size_t growing_pays_from = 8 << 10;
inline void copy_and_touch(void* to, void* from, size_t n) { std::memcpy(to, from, n); }
inline void touch(void*, size_t) {}
template <size_t = 0>
void copy_bytes(void* to, const void* from, size_t n) {
  std::memcpy(to, from, n);
}
template <size_t = 0>
void copy_in(void* to, const void* from, size_t n) {
  std::memcpy(to, from, n);
}
inline void copy_out(void* to, const void* from, size_t n) { std::memcpy(to, from, n); }
namespace detail {
constexpr void (*copy_by_quarters)(std::byte*, const std::byte*, size_t) = nullptr;
constexpr size_t kLeastFromAfar = 4 << 10;
constexpr void (*ask_for_source)(std::byte*, const std::byte*, size_t) = nullptr;
constexpr void (*ask_for_target)(std::byte*, std::byte*, size_t, bool) = nullptr;
}  // namespace detail
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

/// copy_out() for sizes that are small more often than not.
inline void copy_few(void* to, const void* from, size_t n) {
  if (n <= kShortCopy)
    copy_short(to, from, n);
  else
    copy_out(to, from, n);
}

/// copy_few() of a message, or a piece of one, while its writer goes on with the next. A processor fetches ahead what another core has
/// written, but no further than the page: Intel's with fast short strings bring more of it at once from four pages in turns (Granite
/// Rapids: 256 KiB in 13.8 instead of 17.7 us, both ways of 16 KiB 22.4 instead of 20.6 GB/s). Where both copy what is complete, as in
/// reductions, they had better not (allreduces of 64 KiB in 7.2 instead of 6.8 us).
inline void copy_received(void* to, const void* from, size_t n) {
  constexpr size_t kLeast = 16 << 10, kMost = 1 << 20;
  if (n < kLeast || n > kMost || !detail::copy_by_quarters) return copy_few(to, from, n);
  detail::copy_by_quarters(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), n);
}

/// copy_in() of a piece of a message that is so long that it is in no cache near by, into memory that is. What fetches lines ahead stops at
/// the end of each page: those of the next one are asked for.
inline void copy_from_afar(void* to, const void* from, size_t n) {
  if (n < detail::kLeastFromAfar || !detail::ask_for_source) return copy_in<512>(to, from, n);
  detail::ask_for_source(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), n);
}
/// copy_received() of such a piece; copy_and_touch(), if `touches`. (4 MiB, both sides so: 284 instead of 353 us on a Zen 3.)
inline void copy_to_afar(void* to, void* from, size_t n, bool touches) {
  if (n >= detail::kLeastFromAfar && detail::ask_for_target)
    detail::ask_for_target(static_cast<std::byte*>(to), static_cast<std::byte*>(from), n, touches);
  else if (touches)
    copy_and_touch(to, from, n);
  else
    copy_received(to, from, n);
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
