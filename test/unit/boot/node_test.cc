// The description of a node's hardware, as ranks read it.
#include "runtime/topo/node.h"

#include <catch2/catch.hpp>

using namespace weft::topo;

namespace {
CpuSet cpus(const char* list) { return *CpuSet::parse(list); }
}  // namespace

TEST_CASE("sets of CPUs", "[topo]") {
  CHECK(cpus("").empty());
  CHECK(cpus("0-3,8") == cpus("8,3,2,1,0"));
  CHECK(cpus("0-127").includes(cpus("63-64")));
  CHECK(cpus("0-127").includes(cpus("")));
  CHECK_FALSE(cpus("0-3").includes(cpus("3-4")));
  CHECK_FALSE(cpus("0-3").includes(cpus("200")));
  for (const char* wrong : {"x", "1-", "-1", "3-2", "1,,2", "1,", "65536", "0-99999999999", "1 2", "1;2"})
    CHECK_FALSE(CpuSet::parse(wrong));
  CHECK_FALSE(CpuSet::of_this_thread().empty());
}

TEST_CASE("a rank's place on its node", "[topo]") {
  const auto node = Node::parse("Package 0-7 8-15\nL3Cache 0-3 4-7 8-11 12-15\nCore 0,8 1,9\n");
  REQUIRE(node);
  REQUIRE(node->resources.size() == 3);
  const Resource& cache = node->resources[1];
  CHECK(cache.name == "L3Cache");
  CHECK(cache.instance_around(cpus("9-10")) == 2u);
  CHECK(cache.instance_around(cpus("4-7")) == 1u);
  CHECK_FALSE(cache.instance_around(cpus("3-4")));
  CHECK_FALSE(cache.instance_around(cpus("")));
  CHECK_FALSE(cache.instance_around(cpus("16")));
  CHECK(node->resources[0].instance_around(cpus("3-4")) == 0u);
}

TEST_CASE("a description that cannot be is refused", "[topo]") {
  CHECK(Node::parse("")->resources.empty());
  for (const char* wrong : {"Core", "Core \n", " 0-3", "Core 0-3 x", "\n", "Core 0\n\nPU 0\n"}) CHECK_FALSE(Node::parse(wrong));
}
