// The event ring: a bounded record of each process's latest operations, always on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/clock.h"

namespace weft::obs {

/// What an operation is. Values are stable: reports and traces print them by name.
enum class What : uint8_t { none, send, receive, isend, ireceive, probe, collective, wait, put, get, file, way_lost, way_back };
constexpr size_t kinds = static_cast<size_t>(What::way_back) + 1;
const char* to_string(What);

/// How far an operation has come, as far as its record was updated.
enum class State : uint8_t { started, done, failed };

/// One operation. Half a cache line; no clock, because reading one costs as much as a small send.
struct Record {
  uint64_t context = 0;  ///< of the team
  uint64_t bytes = 0;
  int32_t peer = -1;  ///< rank in the team; a root for collectives; negative: none or any
  int32_t tag = 0;    ///< a collective's number in its team
  uint32_t type = 0;  ///< ABI handle of the datatype, 0 for derived ones
  What what = What::none;
  State state = State::started;
  uint8_t detail = 0;  ///< which collective, which mode
};
static_assert(sizeof(Record) == 32);

/// The latest `capacity` operations of one lane. Written under the lane's lock; small enough to stay in the first-level cache.
class Ring {
 public:
  static constexpr size_t capacity = 256;

  /// The slot of the next record, to be filled by the caller: writing in place spares a copy.
  [[gnu::always_inline]] Record& add(What what, uint64_t context, int32_t peer, int32_t tag, uint64_t bytes) {
    if (watch_) [[unlikely]] {
      watch_->times[count_ % capacity] = now_ns();
      ++watch_->counts[static_cast<size_t>(what)];
    }
    return add_without_time(what, context, peer, tag, bytes);
  }
  /// The same while keeps_times() is false.
  [[gnu::always_inline]] Record& add_without_time(What what, uint64_t context, int32_t peer, int32_t tag, uint64_t bytes) {
    Record& record = records_[count_++ % capacity];
    record.context = context;
    record.bytes = bytes;
    record.peer = peer;
    record.tag = tag;
    record.type = 0;
    record.what = what;
    record.state = State::started;
    record.detail = 0;
    return record;
  }
  bool keeps_times() const { return watch_ != nullptr; }
  /// From now on records have a time and are counted by kind; it costs as much as a small send.
  void keep_times() {
    if (!watch_) watch_ = std::make_unique<Watch>();
  }
  /// When the record `age` operations ago began (ns, CLOCK_MONOTONIC); 0: unknown.
  uint64_t time(uint64_t age) const { return watch_ && latest(age) ? watch_->times[(count_ - 1 - age) % capacity] : 0; }
  /// Records of a kind since keep_times(), overwritten ones included.
  uint64_t count(What what) const { return watch_ ? watch_->counts[static_cast<size_t>(what)] : 0; }

  /// Operations recorded in all, overwritten ones included.
  uint64_t count() const { return count_; }
  /// The record `age` operations ago (0: the latest); null if there is none any more.
  const Record* latest(uint64_t age) const { return age < count_ && age < capacity ? &records_[(count_ - 1 - age) % capacity] : nullptr; }

 private:
  uint64_t count_ = 0;
  struct Watch {
    std::array<uint64_t, capacity> times{};
    std::array<uint64_t, kinds> counts{};
  };
  std::unique_ptr<Watch> watch_;  // null: nobody wants to know
  std::array<Record, capacity> records_{};
};

}  // namespace weft::obs
