// Where ranks share CPUs: away from a CPU that another rank keeps busy, if one is free.
#pragma once

#include <cstdint>

#include "runtime/topo/idle.h"

namespace weft::pml {

/// Two ranks that work together are slow on one CPU: each message waits for a switch, a microsecond or two instead of a tenth. The kernel
/// may have moved them there while others waited, and leaves them, as ranks that look now and then never leave a CPU idle for long. So a
/// thread whose yields mostly lead to a switch asks now and then which CPU is idle, and moves there.
class Rover {
 public:
  /// To be called after each yield. `now`: nanoseconds (now_ns()).
  void yielded(uint64_t now) {
    if (++yields_ < kYields || now < look_at_) [[likely]]
      return;
    look(now);
  }

 private:
  static constexpr uint64_t kYields = 512;           // by so many it can be told whether they lead to switches
  static constexpr uint64_t kPause_ns = 30'000'000;  // three ticks of what /proc/stat counts
  static constexpr unsigned kEagerLooks = 8, kMostDoublings = 7;
  void look(uint64_t now);

  uint64_t yields_ = 0;    // since the last look
  uint64_t switches_ = 0;  // at the last look
  uint64_t look_at_ = 0;
  unsigned vain_ = 0;  // looks without effect, one after another
  topo::IdleCpus idle_;
};

}  // namespace weft::pml
