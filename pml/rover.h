// Where ranks share CPUs: away from a CPU that another rank keeps busy, if one is free.
#pragma once

#include <cstdint>

#include "runtime/topo/idle.h"

namespace weft::pml {

/// Two ranks that work together are slow on one CPU: each message waits for a switch, a microsecond or two instead of a tenth. The kernel
/// may have moved them there while others waited, and leaves them, as ranks that look now and then never leave a CPU idle for long. But it
/// wakes threads on a CPU that is idle, if one is and shares a cache. So a thread whose yields mostly lead to a switch naps a few times; if
/// that does not help, it asks now and then which CPU is idle, and moves there.
class Rover {
 public:
  /// To be called after each yield. `now`: nanoseconds (now_ns()).
  void yielded(uint64_t now) {
    if (++yields_ < kYields || now < look_at_) [[likely]]
      return;
    look(now);
  }

 private:
  static constexpr uint64_t kYields = 64;              // by so many it can be told whether they lead to switches
  static constexpr uint64_t kPause_ns = 30'000'000;    // three ticks of what /proc/stat counts
  static constexpr uint64_t kNapPause_ns = 1'000'000;  // at first; a nap takes some 60 us
  static constexpr unsigned kNaps = 7, kEagerLooks = 8, kMostDoublings = 7;
  void look(uint64_t now);
  void leave();

  uint64_t yields_ = 0;    // since the last look
  uint64_t switches_ = 0;  // at the last look
  uint64_t look_at_ = 0;
  unsigned naps_ = 0, vain_ = 0;  // naps and looks without effect, one after another
  topo::IdleCpus idle_;
};

}  // namespace weft::pml
