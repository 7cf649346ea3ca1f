// Where ranks share CPUs: away from a CPU that another rank keeps busy, if one is free.
#pragma once

#include <sched.h>

#include <cstdint>

#include "runtime/topo/idle.h"

namespace weft::pml {

/// Two ranks that work together are slow on one CPU: each message waits for a switch, a microsecond or two instead of a tenth. The kernel
/// may have moved them there while others waited, and leaves them, as ranks that look now and then never leave a CPU idle for long. But it
/// wakes threads on a CPU that is idle, if one is and shares a cache. So a thread whose yields mostly lead to a switch moves to another CPU
/// if it shares this one with whom it works with; else it naps a few times; if that does not help, it asks now and then which CPU is idle.
class Rover {
 public:
  /// To be called after each yield. `now`: nanoseconds (now_ns()). `lends(uint32_t cpu)` is asked now and then whether the one that this
  /// thread works with is on the same CPU, and stays there.
  template <class Lends>
  void yielded(uint64_t now, Lends lends) {
    if (++yields_ % kYields != 0) [[likely]]
      return;
    const int cpu = sched_getcpu();
    const bool together = cpu >= 0 && lends(static_cast<uint32_t>(cpu));
    if (now >= look_at_) look(now, together);
  }

 private:
  static constexpr uint64_t kYields = 16;              // by so many it can be told whether they lead to switches
  static constexpr uint64_t kPause_ns = 30'000'000;    // three ticks of what /proc/stat counts
  static constexpr uint64_t kLookPause_ns = 200'000;   // a look costs a system call
  static constexpr uint64_t kNapPause_ns = 1'000'000;  // at first; a nap takes some 60 us
  static constexpr unsigned kPartings = 10, kNaps = 7, kEagerLooks = 8, kMostDoublings = 7;
  void look(uint64_t now, bool together);
  void part();
  void leave();

  uint64_t yields_ = 0;    // since the last look
  uint64_t switches_ = 0;  // at the last look
  uint64_t look_at_ = 0;
  unsigned partings_ = 0, naps_ = 0, vain_ = 0;  // moves, naps and looks without effect, one after another
  topo::IdleCpus idle_;
};

}  // namespace weft::pml
