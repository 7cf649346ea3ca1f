#include "runtime/type/datatype.h"

#include <algorithm>
#include <cstring>

#include "runtime/type/cursor.h"

namespace weft::type {

Span span_of(const Datatype& type, uint64_t count) {
  if (!count || !type.size) return {};
  const int64_t reach = type.extent * static_cast<int64_t>(count - 1);
  return {type.true_lower + std::min<int64_t>(reach, 0), static_cast<uint64_t>(type.true_extent) + static_cast<uint64_t>(std::abs(reach))};
}

void pack(const Datatype& type, uint64_t count, const void* from, void* to) {
  Cursor cursor(from, count, type);
  cursor.pack(to, cursor.total());
}

void unpack(const Datatype& type, uint64_t count, const void* from, uint64_t bytes, void* to) {
  Cursor(to, count, type).unpack(from, bytes);
}

uint64_t copy(const Datatype& from_type, uint64_t from_count, const void* from, const Datatype& to_type, uint64_t to_count, void* to) {
  Cursor source(from, from_count, from_type), target(to, to_count, to_type);
  const uint64_t bytes = std::min(source.total(), target.total());
  if (source.contiguous()) return target.unpack(source.data(), bytes);
  if (target.contiguous()) return source.pack(target.data(), bytes);
  std::byte bounce[8192];  // stays in the first-level cache
  for (uint64_t done = 0; done < bytes;) {
    const size_t n = source.pack(bounce, std::min<uint64_t>(sizeof bounce, bytes - done));
    target.unpack(bounce, n);
    done += n;
  }
  return bytes;
}

}  // namespace weft::type
