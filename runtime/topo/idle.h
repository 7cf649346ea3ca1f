// Which CPUs do nothing, as the kernel counts it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/topo/cpu_set.h"

namespace weft::topo {

class IdleCpus {
 public:
  /// One of `cpus` that has been idle for more than a third of the time since the first call; none at the first call, and where /proc/stat
  /// does not say. It counts in hundredths of a second, so calls should be some of these apart. `root` is where /proc is looked for (tests
  /// give a folder).
  std::optional<uint32_t> find(const CpuSet& cpus, const std::string& root = "");
  /// The next call is the first one again.
  void forget() { known_.clear(); }

 private:
  /// Of a CPU, in the kernel's ticks since it has started.
  struct Times {
    uint64_t all = 0, idle = 0;
  };
  static std::vector<Times> read(const std::string& root);
  static constexpr uint64_t kPart = 3, kLongest = 1 << 20;  // a CPU that was away meanwhile may count from 0 again
  std::vector<Times> known_;                                // by CPU
};

}  // namespace weft::topo
