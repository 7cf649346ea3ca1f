#include "runtime/topo/idle.h"

#include <cstdio>
#include <fstream>

namespace weft::topo {

/// Lines like "cpu3 1 2 3 4 5 6 7 8 9 10": user, nice, system, idle, waiting for a device, interrupts, ... proc_stat(5)
std::vector<IdleCpus::Times> IdleCpus::read(const std::string& root) {
  constexpr int kIdle = 3, kWaiting = 4, kStolen = 7;  // what follows is part of user and nice
  std::vector<Times> times;
  std::ifstream file(root + "/proc/stat");
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    if (line.starts_with("cpu ")) continue;  // all together
    unsigned cpu;
    unsigned long long t[kStolen + 1] = {};
    if (std::sscanf(line.c_str(), "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6],
                    &t[7]) < 5 ||
        cpu >= 1u << 16)
      continue;
    if (times.size() <= cpu) times.resize(cpu + 1);
    for (const auto ticks : t) times[cpu].all += ticks;
    times[cpu].idle = t[kIdle] + t[kWaiting];
  }
  return times;
}

std::optional<uint32_t> IdleCpus::find(const CpuSet& cpus, const std::string& root) {
  const std::vector<Times> now = read(root);
  if (known_.empty()) known_ = now;
  for (const uint32_t cpu : cpus.cpus()) {
    if (cpu >= known_.size() || cpu >= now.size()) break;
    const uint64_t all = now[cpu].all - known_[cpu].all, idle = now[cpu].idle - known_[cpu].idle;
    if (all > 1 && all < kLongest && idle * kPart > all) return cpu;
  }
  return {};
}

}  // namespace weft::topo
