#include "runtime/type/datatype.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/attributes.h"
#include "runtime/type/construct.h"
#include "runtime/type/cursor.h"
#include "runtime/type/pool.h"
#include "runtime/type/signature.h"

namespace weft::type {

Pool<Datatype>& pool() {
  static auto& made = *new Pool<Datatype>;
  return made;
}

/// Types made of types made of types may go a long way down: a list instead of recursion.
void Datatype::destroy(Datatype* type) {
  std::vector<Datatype*> dead{type};
  while (!dead.empty()) {
    Datatype* last = dead.back();
    dead.pop_back();
    if (last->envelope)
      for (Datatype* part : last->envelope->types)
        if (!part->predefined && part->references.fetch_sub(1, std::memory_order_acq_rel) == 1) dead.push_back(part);
    delete last->attributes;
    pool().destroy(last);
  }
}

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

std::optional<int64_t> count_in(const Datatype& type, uint64_t bytes) {
  if (!type.size) return bytes ? std::nullopt : std::optional<int64_t>(0);
  return bytes % type.size ? std::nullopt : std::optional(static_cast<int64_t>(bytes / type.size));
}

std::optional<int64_t> elements_in(const Datatype& type, uint64_t bytes) {
  if (!type.size) return bytes ? std::nullopt : std::optional<int64_t>(0);
  uint64_t partial = 0;
  const uint64_t found = bytes / type.size * type.signature->elements + type.signature->elements_in(bytes % type.size, partial);
  return partial ? std::nullopt : std::optional(static_cast<int64_t>(found));
}

uint64_t bytes_of_elements(const Datatype& type, uint64_t n) {
  if (!type.size) return 0;
  const uint64_t each = type.signature->elements;
  return n / each * type.size + type.signature->bytes_of(n % each);
}

}  // namespace weft::type
