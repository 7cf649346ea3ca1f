// Exchanges in which what a rank gives may stay where it is.
#pragma once

#include <cstring>

#include "btl/copy/cma.h"
#include "coll/node/inside.h"
#include "runtime/type/cursor.h"

namespace weft::coll::node {

/// One of them: each rank says in its line of the first meeting whether the others are to read what it gives, and where. Then that does not
/// go through its slots. Nobody returns before all have read.
struct Segment::Showing {
  /// What this rank gives: `block` bytes for each other one, which, unless null, can be read at `data`, `bytes` in all, if that is memory
  /// of a kind that can be read.
  Showing(Segment& s, Readings::Kernel kernel, uint64_t block, const std::byte* data, uint64_t bytes)
      : segment(s),
        own_data(s.readings_.begin(kernel, block, s.size_ - 1, s.reach_) && data && s.open_memory_.has(data, bytes) ? data : nullptr) {}

  /// In the first meeting, in this rank's line.
  void tell() const {
    segment.has_done();
    Line& line = segment.offer(segment.rank_);
    line.note = segment.readings_.note(segment.reach_);
    std::memcpy(line.data + kWhere, &own_data, sizeof own_data);
  }
  /// In the first meeting, in each rank's.
  void hear(uint32_t rank) {
    const Line& line = segment.offer(rank);
    segment.readings_.hear(line.note);
    std::memcpy(&segment.shown_[rank], line.data + kWhere, sizeof own_data);
    shown += segment.shown_[rank] != nullptr;
  }
  /// Is what this rank gives to be read? And what another one does, that has been heard?
  bool own() const { return own_data; }
  bool of(uint32_t rank) const { return shown > 0 && segment.shown_[rank]; }
  /// Does nothing go through slots?
  bool all() const { return shown == segment.size_; }
  /// Where what it shows begins.
  const std::byte* at(uint32_t rank) const { return segment.shown_[rank]; }
  /// Reads so many bytes of a rank.
  void read(uint32_t rank, const std::byte* where, type::Cursor to, uint64_t bytes) {
    const uint64_t begin = segment.readings_.timed() ? now_ns() : 0;
    if (const Status s = segment.read_from(rank, where, to, bytes); s != Status::ok) status = s;
    if (begin == 0) return;
    const uint64_t ns = now_ns() - begin;
    segment.readings_.read(bytes, ns, btl::copy::read_speed());
  }
  /// At the end of the call, in which all else has ended so.
  Status finish(Status);

  static constexpr size_t kWhere = kInline - sizeof(const std::byte*);  // in a line
  static constexpr uint64_t kLeastSlot = kInline + 1;  ///< bytes of a slot that does not lie in that line, however short a block is
  Segment& segment;
  const std::byte* const own_data;
  uint32_t shown = 0;  // ranks that do
  Status status = Status::ok;
};

/// All goes through slots.
struct Segment::Hidden {
  static constexpr uint64_t kLeastSlot = 0;
  static void tell() {}
  static void hear(uint32_t) {}
  static constexpr bool own() { return false; }
  static constexpr bool of(uint32_t) { return false; }
  static constexpr bool all() { return false; }
  static constexpr const std::byte* at(uint32_t) { return nullptr; }
  static void read(uint32_t, const std::byte*, const type::Cursor&, uint64_t) {}
  static Status finish(Status s) { return s; }
};

}  // namespace weft::coll::node
