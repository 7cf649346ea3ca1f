// Buffers cut into blocks, as collectives see them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "coll/coll.h"
#include "pml/lane.h"
#include "runtime/base/copy.h"

namespace weft::coll {

/// A buffer as steps see it: blocks of elements of a type. Made where it stays: the processor would wait for a copy of what has just been
/// written in parts.
struct View {
  enum class Kind : uint8_t {
    dense,      ///< blocks one after the other
    scattered,  ///< each block has a count and a place of its own (v and w forms)
  };
  std::byte* base;
  const type::Datatype* type;
  Kind kind;
  bool single;             ///< there is one block only, at `base`
  int32_t first;           ///< the block at `base` (scratch regions)
  int32_t blocks;          ///< of the collective
  uint64_t each, longer;   ///< elements of a block; the first `longer` blocks have one more
  const uint64_t* starts;  ///< or: where each block starts, blocks + 1 values
  // scattered
  Counts counts, places;
  const type::Datatype* const* types;  ///< w forms

  /// Blocks of `each` elements one after the other.
  void lay(const void* at, const type::Datatype* of, int32_t into, uint64_t each_has) {
    base = static_cast<std::byte*>(const_cast<void*>(at));
    type = of;
    kind = Kind::dense;
    single = false;
    first = 0;
    blocks = into;
    each = each_has;
    longer = 0;
    starts = nullptr;
  }
  /// The same, which `elements` are cut into as evenly as they go.
  void cut(const void* at, const type::Datatype* of, int32_t into, uint64_t elements) {
    const auto n = static_cast<uint64_t>(into);
    lay(at, of, into, into == 1 ? elements : elements / n);
    if (into != 1) longer = elements % n;
  }
  /// Blocks of v and w forms: of one type, or of `of_each`, whose places are in bytes.
  void scatter(const void* at, Counts have, Counts lie, const type::Datatype* of, const type::Datatype* const* of_each, int32_t into) {
    lay(at, of, into, 0);
    kind = Kind::scattered;
    counts = have;
    places = lie;
    types = of_each;
  }

  uint64_t start(int32_t block) const {
    if (starts) return starts[block];
    const auto b = static_cast<uint64_t>(block);
    return b * each + (b < longer ? b : longer);
  }
  /// Elements of adjacent blocks; they may wrap around in a region.
  uint64_t elements(int32_t block, int32_t n) const {
    if (kind == Kind::scattered) return static_cast<uint64_t>(counts[static_cast<size_t>(block)]);
    const int32_t end = block + n;
    return end <= blocks ? start(end) - start(block) : start(blocks) - start(block) + start(end - blocks);
  }
  /// Blocks of `each` elements one after the other, and nothing else.
  bool even() const { return kind == Kind::dense && !single && !starts && first == 0 && longer == 0; }
  /// Adjacent blocks as one message. Scattered views: one block only.
  pml::Buffer at(int32_t block, int32_t n) const {
    if (kind == Kind::scattered && !types) return one_of_many(static_cast<size_t>(block));
    if (even() && n == 1) return {base + static_cast<int64_t>(static_cast<uint64_t>(block) * each) * type->extent, each, type};
    return any_at(block, n);
  }

 private:
  pml::Buffer one_of_many(size_t i) const {
    const int64_t place = places ? places[i] : 0;
    return {base + place * type->extent, static_cast<uint64_t>(counts[i]), type};
  }
  pml::Buffer any_at(int32_t block, int32_t n) const;
};

/// Of contiguous data. In integers, as MPI_BOTTOM is null, and absolute displacements are added to it.
inline std::byte* start_of(const pml::Buffer& b) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(b.address) + static_cast<uintptr_t>(b.type->origin));
}

/// The same data in another place, where it is not there already. Types say where, too: addresses of both may be MPI_BOTTOM.
void copy_data(const pml::Buffer& from, const pml::Buffer& to);

/// put_part() and get_part() of any data.
void put_any_part(std::byte* slot, const pml::Buffer& from, uint64_t first, uint64_t n);
void get_any_part(const pml::Buffer& to, uint64_t first, const std::byte* slot, uint64_t n);
/// Are these bytes of a block few, and do they lie one after another?
inline bool short_part(const pml::Buffer& block, uint64_t first, uint64_t n) {
  return block.type->contiguous && n <= kShortCopy && first + n <= block.count * block.type->size;
}
/// At most n bytes of a block, from `first` on, into a slot and out of one.
inline void put_part(std::byte* slot, const pml::Buffer& from, uint64_t first, uint64_t n) {
  short_part(from, first, n) ? copy_short(slot, start_of(from) + first, n) : put_any_part(slot, from, first, n);
}
inline void get_part(const pml::Buffer& to, uint64_t first, const std::byte* slot, uint64_t n) {
  short_part(to, first, n) ? copy_short(start_of(to) + first, slot, n) : get_any_part(to, first, slot, n);
}

/// What a rank sends and receives in a call, where it is not cut into blocks.
inline pml::Buffer sent(const Call& c) { return {const_cast<void*>(c.in), c.in_count, c.in_type}; }
inline pml::Buffer received(const Call& c) { return {c.out, c.out_count, c.out_type}; }

/// Where n blocks start, one after another, and where the last one ends: counts, each times the size of its type, or times `unit`.
void sum_up(std::vector<uint64_t>& starts, Counts counts, size_t n, const type::Datatype* const* types, uint64_t unit);

/// The send and the receive buffer of a call that have a block for each of so many ranks.
inline void lay_in(View& v, const Call& c, int32_t blocks) {
  if (c.in_counts)
    v.scatter(c.in, c.in_counts, c.in_displs, c.in_type, c.in_types, blocks);
  else
    v.lay(c.in, c.in_type, blocks, c.in_count);
}
inline void lay_out(View& v, const Call& c, int32_t blocks) {
  if (c.out_counts)
    v.scatter(c.out, c.out_counts, c.out_displs, c.out_type, c.out_types, blocks);
  else
    v.lay(c.out, c.out_type, blocks, c.out_count);
}

}  // namespace weft::coll
