// CPU limits of control groups and idle CPUs, read from made-up /proc and /sys trees; moving between CPUs.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "runtime/topo/cpu_set.h"
#include "runtime/topo/cpus.h"
#include "runtime/topo/idle.h"
#include "runtime/topo/lent.h"

using namespace weft::topo;
namespace fs = std::filesystem;

namespace {

struct Tree {
  fs::path root = fs::temp_directory_path() / ("weft-topo-test." + std::to_string(getpid()));
  Tree() { fs::remove_all(root); }
  ~Tree() { fs::remove_all(root); }
  void file(const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  uint32_t limit() { return cgroup_cpus(root.string()); }
};

}  // namespace

TEST_CASE("cgroup CPU limits", "[topo]") {
  Tree tree;
  CHECK(tree.limit() == UINT32_MAX);
  CHECK(usable_cpus() >= 1);

  SECTION("version 2, the tightest of the path counts, rounded up") {
    tree.file("proc/self/cgroup", "0::/a/b\n");
    CHECK(tree.limit() == UINT32_MAX);
    tree.file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    CHECK(tree.limit() == UINT32_MAX);
    tree.file("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    CHECK(tree.limit() == 2);
    tree.file("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    CHECK(tree.limit() == 1);
    CHECK(usable_cpus(tree.root.string()) == 1);
  }
  SECTION("in a container the root itself carries the limit") {
    tree.file("proc/self/cgroup", "0::/\n");
    tree.file("sys/fs/cgroup/cpu.max", "300000 100000\n");
    CHECK(tree.limit() == 3);
  }
  SECTION("version 1") {
    tree.file("proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/1\n");
    tree.file("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "-1\n");
    tree.file("sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n");
    CHECK(tree.limit() == UINT32_MAX);
    tree.file("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "400000\n");
    CHECK(tree.limit() == 4);
  }
  SECTION("nonsense is no limit") {
    tree.file("proc/self/cgroup", "garbage\n0:\n::\n0::/../..\n");
    tree.file("sys/fs/cgroup/cpu.max", "-5 0\n");
    CHECK(tree.limit() == UINT32_MAX);
  }
}

TEST_CASE("idle CPUs", "[topo]") {
  Tree tree;
  const std::string root = tree.root.string();
  const CpuSet all = *CpuSet::parse("0-3");
  IdleCpus idle;
  CHECK_FALSE(idle.find(all, root));  // there is no /proc/stat
  const auto count = [&](const std::string& first, const std::string& second) {
    tree.file("proc/stat", "cpu  9 9 9 900 9 9 9 9 0 0\ncpu0 " + first + "\ncpu2 " + second + "\nintr 5\n");
  };
  count("100 0 0 500 0 0 0 0 0 0", "100 0 0 500 0 0 0 0 0 0");
  CHECK_FALSE(idle.find(all, root));  // at first
  count("103 0 1 500 0 0 0 0 0 0", "102 0 0 501 1 0 0 0 0 0");
  CHECK(idle.find(all, root) == 2u);
  CHECK_FALSE(idle.find(*CpuSet::parse("0-1"), root));
  CHECK_FALSE(idle.find(*CpuSet::parse("3"), root));
  count("104 0 0 600 0 0 0 0 0 0", "110 0 0 502 1 0 0 0 0 0");
  CHECK(idle.find(all, root) == 0u);
  idle.forget();
  CHECK_FALSE(idle.find(all, root));
  count("4 0 0 6 0 0 0 0 0 0", "110 0 0 502 1 0 0 0 0 0");  // a CPU that was away
  CHECK_FALSE(idle.find(all, root));
  tree.file("proc/stat", "cpux 1 2\ncpu\ncpu1\ncpu99999999999 1 1 1 1 1\n");
  CHECK_FALSE(idle.find(all, root));
}

TEST_CASE("a CPU that was lent is known for a while", "[topo]") {
  constexpr uint64_t ms = 1'000'000, now = 1000 * ms;
  LentCpu lent{};
  CHECK_FALSE(lent.lately(now));
  lent.set(0, now);
  CHECK(lent.lately(now) == Lent(0));
  lent.set({70000, Lent::Bond::here}, now);
  CHECK(lent.lately(now + 2 * ms) == Lent(70000, Lent::Bond::here));
  CHECK(lent.lately(now - 2 * ms) == Lent(70000, Lent::Bond::here));  // whoever asks has looked at the clock before
  CHECK_FALSE(lent.lately(now + 1000 * ms));
  lent.clear();  // as the process sleeps
  CHECK_FALSE(lent.lately(now));
}

TEST_CASE("of those that wait on a crowded CPU one goes where fewest do", "[topo]") {
  using Ranks = std::vector<std::optional<Lent>>;
  const auto of = [](const Ranks& ranks, size_t self, bool leaves = false) {
    const auto [cpu, others_first] = better_cpu(ranks, self, leaves, std::vector<uint32_t>{0, 1, 2, 5, 7});
    return others_first ? ranks[self]->cpu : cpu;
  };
  const Lent tied(1, Lent::Bond::apart), at_home(1, Lent::Bond::here);
  CHECK(of({1, 0, 1, 1}, 2) == 0u);  // the last of those beside the one that is there
  CHECK(of({1, 0, 1, 1}, 3) == 1u);
  CHECK(of({0, 1, 1, 1}, 3) == 0u);  // in a ring
  CHECK(of({1, 0, 1, 1}, 1, true) == 1u);
  CHECK(of({tied, 0, tied, at_home}, 2) == 0u);
  CHECK(of({tied, 0, tied, at_home}, 3) == 1u);
  CHECK(of({tied, 0, tied, at_home}, 0) == 1u);
  CHECK(of({at_home, tied, 1, 0}, 2) == 0u);
  CHECK(of({1, tied, at_home, 0}, 0) == 0u);
  CHECK(of({1, tied, at_home, 0}, 1) == 1u);
  CHECK_FALSE(of({1, 0, 1, 0}, 3));
  const auto away = [](uint32_t cpu) { return Lent(cpu, Lent::Bond::away); };
  CHECK(of({away(0), away(1), away(0), away(1)}, 3) == 0u);  // then 2 goes to 1
  CHECK_FALSE(of({away(0), away(1), away(0), away(1)}, 2));
  CHECK_FALSE(of({away(0), away(1), away(0), Lent(1, Lent::Bond::apart)}, 3));
  CHECK(of({away(0), away(1), away(0), Lent(1, Lent::Bond::apart)}, 2) == 1u);
  CHECK_FALSE(of({away(0), 1, away(0), 1}, 2));  // nobody would come here
  CHECK_FALSE(of({1, 0, 1}, 2));                 // there it would be as crowded as here
  CHECK_FALSE(of({1, 1, 1, 1}, 3));              // other CPUs may be at work
  CHECK(of({1, 1, 1, 1}, 3, true) == 0u);
  CHECK(of({1, std::nullopt, 1, 1}, 1 + 1, true) == 0u);
  CHECK(of({1, 0, 1, 1, std::nullopt}, 2) == 0u);
  CHECK(of({5, 5, 5, 7, 7, 2, 5}, 6) == 2u);
  CHECK(of({0, 3, 3, 3}, 3) == 0u);
  CHECK_FALSE(of({3, 0, 0, 0}, 3));                    // 3 is no CPU of its own
  CHECK(of({0, 1, 2, 5, 7, 0, 1, 2, 5, 7}, 9) == 7u);  // all are in use alike
  CHECK(of({0, 1, 2, 5, 7, 0, 1, 2, std::nullopt, 7}, 9) == 7u);
  const auto at = [](uint32_t cpu) { return Lent(cpu, Lent::Bond::here); };
  CHECK(of({at(0), at(1), at(2), at(5), at(7), 0, 1, 2, 5, at(7)}, 9, true) == 7u);
  CHECK(of({at(0), at(1), 2, at(5), at(7), 0, 1, 2, 5, at(7)}, 9, true) == 2u);  // whoever is there exchanges no messages
  CHECK_FALSE(of({5}, 0));
}

TEST_CASE("threads move to a CPU of theirs and stay free", "[topo]") {
  const CpuSet mine = CpuSet::of_this_thread();
  for (const uint32_t cpu : mine.cpus()) {
    move_to(cpu);
    CHECK(CpuSet::of_this_thread() == mine);
  }
  move_to(1u << 20);
  CHECK(CpuSet::of_this_thread() == mine);
}
