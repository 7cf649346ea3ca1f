// Measuring the ways between ranks.
#include "comm/measure.h"

#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "comm/comm.h"
#include "runtime/config/config.h"

using namespace weft;
using namespace weft::comm;

TEST_CASE("each pair of hosts meets once, and nobody two at a time") {
  for (uint32_t count = 0; count < 40; ++count) {
    std::set<std::pair<uint32_t, uint32_t>> met;
    for (uint32_t round = 0; round < rounds(count); ++round)
      for (uint32_t me = 0; me < count; ++me) {
        const int partner = partner_in(round, me, count);
        if (partner < 0) continue;
        REQUIRE(partner < static_cast<int>(count));
        REQUIRE(partner != static_cast<int>(me));
        CHECK(partner_in(round, static_cast<uint32_t>(partner), count) == static_cast<int>(me));
        CHECK(met.insert({me, static_cast<uint32_t>(partner)}).second);
      }
    CHECK(met.size() == size_t{count} * (count ? count - 1 : 0));
  }
}

TEST_CASE("all ranks of a host learn what was measured, and choose by it") {
  const std::string lanes = GENERATE(as<std::string>{}, "1", "4");
  config::Variable& measure = *config::find("WEFT_NET_MEASURE");
  config::Variable& count = *config::find("WEFT_PML_LANES");
  REQUIRE(count.set(lanes, config::Origin::program));
  REQUIRE(measure.set("yes", config::Origin::program));
  constexpr uint32_t kSize = 5;
  auto boots = boot::open_fake(kSize, 2);
  std::vector<std::string> wrong(kSize);
  std::vector<std::thread> ranks;
  const auto body = [&](uint32_t me) -> std::string {
    auto instance = Instance::open(std::move(boots[me]), false);
    if (!instance) return instance.failure().text;
    if (auto met = (*instance)->meet(); !met) return met.failure().text;
    for (uint32_t other = 0; other < kSize; ++other) {
      const auto paths = (*instance)->lane().paths_to({0, other});
      if (!paths) return paths.failure().text;
      size_t reached = 0;
      for (const pml::Path& path : *paths) {
        if (!path.reaches || path.transport == "self") continue;
        ++reached;
        if (!path.measured) return "not measured: " + pml::to_text(*paths);
      }
      if (reached == 0 && other != me) return "no way";
      for (size_t i = 1; i < reached; ++i)
        if ((*paths)[i].latency_us < (*paths)[0].latency_us) return "a way that is not the fastest comes first: " + pml::to_text(*paths);
    }
    return (*instance)->close() == Status::ok ? "" : "not closed";
  };
  for (uint32_t me = 0; me < kSize; ++me) ranks.emplace_back([&, me] { wrong[me] = body(me); });
  for (auto& rank : ranks) rank.join();
  measure.set("no", config::Origin::program);
  count.set("0", config::Origin::program);
  for (uint32_t me = 0; me < kSize; ++me) CHECK(wrong[me] == "");
}
