// What the launcher tells the ranks of the node's hardware, on made-up machines.
#include "runtime/topo/hardware.h"

#include <catch2/catch.hpp>

#include "runtime/topo/node.h"

using namespace weft::topo;

namespace {
std::string describe(const char* synthetic) {
  auto hardware = HardwareTopology::load(synthetic);
  return hardware ? hardware->describe() : hardware.failure().text;
}
}  // namespace

TEST_CASE("resources are described from the largest to the smallest") {
  CHECK(describe("pack:2 numa:1 l3:2 core:2 pu:1") ==
        "Package 0-3 4-7\nNUMANode 0-3 4-7\nL3Cache 0-1 2-3 4-5 6-7\nCore 0 1 2 3 4 5 6 7\nPU 0 1 2 3 4 5 6 7\n");
  // sub-NUMA clusters under one cache
  CHECK(describe("pack:1 l3:1 numa:2 core:1 pu:2") == "Package 0-3\nL3Cache 0-3\nNUMANode 0-1 2-3\nCore 0-1 2-3\nPU 0 1 2 3\n");
  CHECK(describe("nonsense").find("nonsense") != std::string::npos);
}

TEST_CASE("ranks can read the description of this machine") {
  const auto node = Node::parse(describe(""));
  REQUIRE(node);
  REQUIRE_FALSE(node->resources.empty());
  const Resource& smallest = node->resources.back();
  CHECK(smallest.name == "PU");
  CHECK(smallest.instances.size() >= static_cast<size_t>(1));
  CHECK(node->resources.front().instances.size() <= smallest.instances.size());
}
