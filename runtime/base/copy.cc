#include "runtime/base/copy.h"

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>

namespace weft::detail {
namespace {

constexpr size_t kBlock = 128;  // the last one may overlap the one before

void block_by_16(std::byte* to, const std::byte* from) {
  for (size_t half = 0; half < kBlock; half += kBlock / 2) {
    const auto* const source = reinterpret_cast<const __m128i*>(from + half);
    auto* const target = reinterpret_cast<__m128i*>(to + half);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1), c = _mm_loadu_si128(source + 2),
                  d = _mm_loadu_si128(source + 3);
    _mm_storeu_si128(target, a), _mm_storeu_si128(target + 1, b), _mm_storeu_si128(target + 2, c), _mm_storeu_si128(target + 3, d);
  }
}

void by_16(std::byte* to, const std::byte* from, size_t n) {
  for (size_t at = 0; at + kBlock <= n; at += kBlock) block_by_16(to + at, from + at);
  block_by_16(to + n - kBlock, from + n - kBlock);
}

[[gnu::target("avx2")]] inline void block_by_32(std::byte* to, const std::byte* from) {
  const auto* const source = reinterpret_cast<const __m256i*>(from);
  auto* const target = reinterpret_cast<__m256i*>(to);
  const __m256i a = _mm256_loadu_si256(source), b = _mm256_loadu_si256(source + 1), c = _mm256_loadu_si256(source + 2),
                d = _mm256_loadu_si256(source + 3);
  _mm256_storeu_si256(target, a), _mm256_storeu_si256(target + 1, b), _mm256_storeu_si256(target + 2, c),
      _mm256_storeu_si256(target + 3, d);
}

[[gnu::target("avx2")]] void by_32(std::byte* to, const std::byte* from, size_t n) {
  for (size_t at = 0; at + kBlock <= n; at += kBlock) block_by_32(to + at, from + at);
  block_by_32(to + n - kBlock, from + n - kBlock);
}

[[gnu::target("avx2")]] inline void one_by_32(std::byte* to, const std::byte* from) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

/// The same, and stores to two lines at once only at both ends: a third sooner where the target lies oddly.
[[gnu::target("avx2")]] void lined_up_by_32(std::byte* to, const std::byte* from, size_t n) {
  constexpr size_t kStore = 32;
  one_by_32(to, from);
  size_t at = -reinterpret_cast<uintptr_t>(to) % kStore;
  for (; at + kBlock <= n; at += kBlock) block_by_32(to + at, from + at);
  for (; at + kStore <= n; at += kStore) one_by_32(to + at, from + at);
  one_by_32(to + n - kStore, from + n - kStore);
}

/// From four places in turns, a quarter of all apart.
[[gnu::target("avx2")]] void quarters_by_32(std::byte* to, const std::byte* from, size_t n) {
  constexpr size_t kTurn = 4 * kBlock;
  const size_t quarter = n / 4 & ~(kTurn - 1), rest = std::max(n - 4 * quarter, kBlock);
  for (size_t turn = 0; turn < quarter; turn += kTurn)
    for (size_t begin = turn; begin < 4 * quarter; begin += quarter)
      for (size_t at = begin; at < begin + kTurn; at += kBlock) block_by_32(to + at, from + at);
  by_32(to + n - rest, from + n - rest, rest);
}

[[gnu::target("avx2")]] void touch_by_32(std::byte* to, std::byte* from, size_t n) {
  size_t at = 0;
  for (; at + kBlock <= n; at += kBlock) {
    block_by_32(to + at, from + at);
    touch(from + at, kBlock);
  }
  if (at == n) return;
  std::memcpy(to + at, from + at, n - at);
  touch(from + at, n - at);
}

constexpr size_t kAhead = 4096;
[[gnu::target("avx2")]] void source_ahead_by_32(std::byte* to, const std::byte* from, size_t n) {
  for (size_t at = 0; at + kBlock <= n; at += kBlock) {
    _mm_prefetch(reinterpret_cast<const char*>(from + at + kAhead), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(from + at + kAhead + kBlock / 2), _MM_HINT_T0);
    block_by_32(to + at, from + at);
  }
  block_by_32(to + n - kBlock, from + n - kBlock);
}
[[gnu::target("avx2")]] void target_ahead_by_32(std::byte* to, std::byte* from, size_t n, bool touches) {
  size_t at = 0;
  for (; at + kBlock <= n; at += kBlock) {
    claim_line(to + at + kAhead);
    claim_line(to + at + kAhead + kBlock / 2);
    block_by_32(to + at, from + at);
    if (touches) touch(from + at, kBlock);
  }
  std::memcpy(to + at, from + at, n - at);
  if (touches) touch(from + at, n - at);
}

void touch_by_16(std::byte* to, std::byte* from, size_t n) {
  copy_out(to, from, n);
  touch(from, n);
}

constexpr unsigned kZen4 = 0x19, kZen5 = 0x1a;  // families; Zen 3 is of Zen 4's
/// CPUID is asked once: a virtual machine leaves to its host for each answer. 0: of another maker's.
const unsigned amd_family = [] {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__builtin_cpu_is("amd") || !__get_cpuid(1, &a, &b, &c, &d)) return 0u;
  return (a >> 8 & 0xf) + (a >> 20 & 0xff);
}();

/// What it says of strings: enhanced (ERMS), and short ones fast, too (FSRM).
struct Strings {
  bool enhanced = false, even_short = false;
};
const Strings strings = [] {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return Strings{};
  return Strings{(b & 1u << 9) != 0, (d & 1u << 4) != 0};
}();

const bool intel_with_short_strings = __builtin_cpu_is("intel") && strings.even_short;
/// Does reading from four pages in turns bring more at once? On a Granite Rapids; others were not measured.
const bool turns_pay = intel_with_short_strings && __builtin_cpu_supports("avx2");

/// From how many bytes on does microcode copy what another core has written as fast as vector loads do wherever it lies in its lines
/// (test/perf/places)? AMD's does since Zen 5. Intel's is a quarter faster on an Emerald Rapids; where it is slow with short strings, with
/// longer ones (Cascade Lake: 16 KiB a tenth slower, allgathers of 64 KiB a fifth faster).
size_t strings_come_over_fast_from() {
  constexpr size_t kNever = ~size_t{0};
  if (!strings.enhanced) return kNever;
  if (__builtin_cpu_is("intel")) return strings.even_short ? 16 << 10 : 32 << 10;
  return amd_family >= kZen5 ? 16 << 10 : kNever;
}

}  // namespace

/// Others were not measured.
const bool zen3 = amd_family == kZen4 && __builtin_cpu_supports("avx2") && !__builtin_cpu_supports("avx512f");
const bool strings_stumble = zen3;
const bool fast_strings = strings.enhanced && !strings_stumble;
const size_t strings_from = strings_come_over_fast_from();
const bool vectors_go_in_fast = __builtin_cpu_is("intel") && !strings.even_short;
void (*const copy_by_vectors)(std::byte*, const std::byte*, size_t) = zen3                             ? lined_up_by_32
                                                                      : __builtin_cpu_supports("avx2") ? by_32
                                                                                                       : by_16;
void (*const copy_by_quarters)(std::byte*, const std::byte*, size_t) = turns_pay ? quarters_by_32 : nullptr;
void (*const ask_for_source)(std::byte*, const std::byte*, size_t) = zen3 ? source_ahead_by_32 : nullptr;
void (*const ask_for_target)(std::byte*, std::byte*, size_t, bool) = zen3 ? target_ahead_by_32 : nullptr;
void (*const copy_and_touch)(std::byte*, std::byte*, size_t) = __builtin_cpu_supports("avx2") ? touch_by_32 : touch_by_16;

}  // namespace weft::detail

namespace weft {
const bool touching_pays = detail::amd_family > 0 && detail::amd_family < detail::kZen5;
const bool leaving_pays = detail::amd_family < detail::kZen5;
const bool crowds_wait = detail::amd_family > 0;
const bool kernel_copies_fast = detail::intel_with_short_strings;
const size_t growing_pays_from = detail::intel_with_short_strings ? 4 << 10 : 8 << 10;
}  // namespace weft
#endif
