#include "runtime/type/external.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/type/cursor.h"
#include "runtime/type/signature.h"

namespace weft::type {
namespace {

/// Copies n bytes between native and big-endian order.
void ordered(const std::byte* from, std::byte* to, size_t n) {
  if constexpr (std::endian::native == std::endian::big)
    std::memcpy(to, from, n);
  else
    std::reverse_copy(from, from + n, to);
}

bool is_complex(Basic basic) { return basic >= Basic::complex_float16 && basic <= Basic::complex_float128; }
bool is_long_double(Basic basic) { return basic == Basic::long_double || basic == Basic::complex_long_double; }
bool is_unsigned(Basic basic) { return basic >= Basic::uint8 && basic <= Basic::uint64; }

/// What does not only change its byte order.
struct Part {
  Basic basic;
  size_t native, external;

  bool out(const std::byte* from, std::byte* to) const {
    if (is_long_double(basic)) {
      long double value;
      std::memcpy(&value, from, sizeof value);
      const __float128 quad = value;  // exact: 64 bits of significand into 113
      ordered(reinterpret_cast<const std::byte*>(&quad), to, sizeof quad);
      return true;
    }
    if (native == external) return ordered(from, to, native), true;
    std::byte wide[16];
    ordered(from, wide, native);
    std::memcpy(to, wide + native - external, external);
    std::byte back[16];
    in(to, back);
    return std::memcmp(back, from, native) == 0;
  }

  void in(const std::byte* from, std::byte* to) const {
    if (is_long_double(basic)) {
      __float128 quad;
      ordered(from, reinterpret_cast<std::byte*>(&quad), sizeof quad);
      const long double value = static_cast<long double>(quad);
      std::memset(to, 0, sizeof value);
      std::memcpy(to, &value, sizeof value);
      return;
    }
    if (native == external) return ordered(from, to, native);
    std::byte wide[16];
    const bool negative = !is_unsigned(basic) && (from[0] & std::byte{0x80}) != std::byte{0};
    std::memset(wide, negative ? 0xff : 0, native - external);
    std::memcpy(wide + native - external, from, external);
    ordered(wide, to, native);
  }
};

constexpr size_t kStage = 4096;

/// Calls convert(Part, parts, staged native bytes) for all of `count` elements, stage by stage.
template <class Stage>
void stages(const Datatype& type, uint64_t count, Stage stage) {
  const auto all = Signature::repeat(count, type.signature);
  if (!all) return;
  auto visit = [&](Element element, uint64_t n) {
    const size_t parts = is_complex(element.basic) ? 2 : 1;
    const Part part{element.basic, element.size / parts, element.external / parts};
    for (n *= parts; n;) {
      const uint64_t some = std::min<uint64_t>(n, kStage / part.native);
      stage(part, some);
      n -= some;
    }
    return true;
  };
  all->each(visit);
}

}  // namespace

uint64_t external_size(const Datatype& type, uint64_t count) { return type.signature ? type.signature->external_size * count : 0; }

bool pack_external(const Datatype& type, uint64_t count, const void* from, void* to) {
  Cursor cursor(from, count, type);
  auto* out = static_cast<std::byte*>(to);
  bool exact = true;
  stages(type, count, [&](const Part& part, uint64_t n) {
    std::byte stage[kStage];
    cursor.pack(stage, n * part.native);
    for (uint64_t i = 0; i < n; ++i, out += part.external) exact &= part.out(stage + i * part.native, out);
  });
  return exact;
}

void unpack_external(const Datatype& type, uint64_t count, const void* from, void* to) {
  Cursor cursor(to, count, type);
  const auto* in = static_cast<const std::byte*>(from);
  stages(type, count, [&](const Part& part, uint64_t n) {
    std::byte stage[kStage];
    for (uint64_t i = 0; i < n; ++i, in += part.external) part.in(in, stage + i * part.native);
    cursor.unpack(stage, n * part.native);
  });
}

}  // namespace weft::type
