// CPU limits of control groups, read from made-up /proc and /sys trees.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "runtime/topo/cpus.h"

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
