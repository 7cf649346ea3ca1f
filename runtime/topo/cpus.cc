#include "runtime/topo/cpus.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "runtime/topo/cpu_set.h"

namespace weft::topo {
namespace {

/// First bytes of a small file, empty if there is none.
std::string slurp(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char text[4096];
  const ssize_t n = read(fd, text, sizeof text);
  close(fd);
  return std::string(text, n > 0 ? size_t(n) : 0);
}

uint32_t quota_to_cpus(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return UINT32_MAX;
  return uint32_t(std::clamp((quota + period - 1) / period, 1ll, 1ll << 20));
}

/// cpu.max of version 2: "max 100000" or "150000 100000".
uint32_t limit_v2(const std::string& folder) {
  const std::string text = slurp(folder + "/cpu.max");
  long long quota, period;
  if (sscanf(text.c_str(), "%lld %lld", &quota, &period) != 2) return UINT32_MAX;
  return quota_to_cpus(quota, period);
}

uint32_t limit_v1(const std::string& folder) {
  const std::string quota = slurp(folder + "/cpu.cfs_quota_us"), period = slurp(folder + "/cpu.cfs_period_us");
  if (quota.empty() || period.empty()) return UINT32_MAX;
  return quota_to_cpus(atoll(quota.c_str()), atoll(period.c_str()));
}

/// The tightest limit from `path` up to the mount's root.
uint32_t tightest(const std::string& mount, std::string path, uint32_t (*limit)(const std::string&)) {
  uint32_t least = limit(mount);
  while (!path.empty() && path != "/") {
    least = std::min(least, limit(mount + path));
    path.erase(path.rfind('/'));
  }
  return least;
}

}  // namespace

uint32_t cgroup_cpus(const std::string& root) {
  const std::string groups = slurp(root + "/proc/self/cgroup");
  uint32_t least = UINT32_MAX;
  for (size_t at = 0; at < groups.size();) {
    const size_t end = std::min(groups.find('\n', at), groups.size());
    const std::string_view line = std::string_view(groups).substr(at, end - at);
    at = end + 1;
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (path.find("..") != path.npos) continue;  // outside what this namespace can see
    if (controllers.empty()) least = std::min(least, tightest(root + "/sys/fs/cgroup", path, limit_v2));
    if (controllers == "cpu" || controllers == "cpu,cpuacct" || controllers == "cpuacct,cpu")
      least = std::min(least, tightest(root + "/sys/fs/cgroup/cpu", path, limit_v1));
  }
  return least;
}

uint32_t usable_cpus(const std::string& root) {
  uint32_t mine = uint32_t(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN)));
  for (int width = 1024; width <= 1 << 20; width *= 4) {
    cpu_set_t* set = CPU_ALLOC(width);
    const bool got = sched_getaffinity(0, CPU_ALLOC_SIZE(width), set) == 0;
    if (got) mine = uint32_t(std::max(1, CPU_COUNT_S(CPU_ALLOC_SIZE(width), set)));
    CPU_FREE(set);
    if (got) break;
  }
  return std::min(mine, cgroup_cpus(root));
}

void start_at(size_t place) {
  const std::vector<uint32_t> cpus = CpuSet::of_this_thread().cpus();
  if (cpus.empty()) return;
  const size_t lap = place / cpus.size(), step = place % cpus.size();
  if (cpus.size() > 1) move_to(cpus[lap % 2 ? cpus.size() - 1 - step : step]);
}

void move_to(uint32_t cpu) {
  cpu_set_t all, one;
  if (cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof all, &all) != 0) return;  // with more CPUs than that the kernel refuses
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0) sched_setaffinity(0, sizeof all, &all);
}

}  // namespace weft::topo
