// The table of operations in flight that the other side names by number.
#pragma once

#include <cstdint>
#include <vector>

#include "pml/message.h"

namespace weft::pml {

/// Numbers carry a generation, so that a late or forged message finds nothing instead of somebody else's memory.
template <class T>
class Operations {
 public:
  OperationId add(T& operation) {
    if (free_ == kNone) {
      free_ = static_cast<uint32_t>(slots_.size());
      slots_.push_back({nullptr, 0, kNone});
    }
    const uint32_t index = free_;
    Slot& slot = slots_[index];
    free_ = slot.next_free;
    slot.operation = &operation;
    ++count_;
    return uint64_t{++slot.generation} << 32 | index;
  }
  T* find(OperationId id) const {
    const auto index = static_cast<uint32_t>(id);
    if (index >= slots_.size() || slots_[index].generation != id >> 32) return nullptr;
    return slots_[index].operation;
  }
  /// Another one takes over the number.
  void pass_on(OperationId id, T& heir) {
    if (find(id)) slots_[static_cast<uint32_t>(id)].operation = &heir;
  }
  void remove(OperationId id) {
    if (!find(id)) return;
    const auto index = static_cast<uint32_t>(id);
    slots_[index].operation = nullptr;
    slots_[index].next_free = free_;
    free_ = index;
    --count_;
  }
  uint64_t count() const { return count_; }
  template <class Visit>
  void each(Visit&& visit) {
    for (size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].operation) visit(*slots_[i].operation);
  }

 private:
  static constexpr uint32_t kNone = ~0u;
  struct Slot {
    T* operation;
    uint32_t generation;
    uint32_t next_free;
  };
  std::vector<Slot> slots_;
  uint32_t free_ = kNone;
  uint64_t count_ = 0;
};

}  // namespace weft::pml
