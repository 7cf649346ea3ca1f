// The tcp transport among honest peers: delivery, order, back-pressure, crossing connects, leaving, death.
#include <catch2/catch.hpp>
#include <random>

#include "test/unit/btl/tcp_world.h"

using namespace tcp_test;

TEST_CASE("messages arrive once, in order, over IPv4 and IPv6") {
  for (const char* address : {"127.0.0.1/8", "::1/128"}) {
    World world(3, only(address));
    for (uint32_t from = 0; from < 3; ++from)
      for (uint32_t to = 0; to < 3; ++to)
        for (int i = 0; i < 20 && from != to; ++i) REQUIRE(world.push(from, to, header_of(5, i), "hello") == Status::ok);
    REQUIRE(world.until([&] { return world[0].count == 40 && world[1].count == 40 && world[2].count == 40; }));
    for (auto& node : world.nodes)
      for (auto& [from, list] : node->received)
        for (int i = 0; i < 20; ++i) {
          CHECK(list[size_t(i)].header.tag == i);
          CHECK(memcmp(list[size_t(i)].payload.data(), "hello", 5) == 0);
        }
    CHECK(world[0].to(1).describe().find(address[0] == ':' ? "[::1]:" : "127.0.0.1:") != std::string::npos);
  }
}
