// What is said of the ways between processes.
#include "pml/paths.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "pml/prices.h"
#include "test/unit/pml/ranks.h"

using namespace weft;
using namespace weft::test;
using pml::Path;

TEST_CASE("rows become a short text") {
  CHECK(pml::to_text({}) == "no way");
  CHECK(pml::to_text({{"shm", "", true, 0.2, 25}}) == "shm (0.2 us, 25 GB/s, published)");
  CHECK(pml::to_text({{"tcp", "eth0", true, 15, 1.25}, {"tcp", "eth1", true, 15, 1.25}}) ==
        "tcp eth0 + eth1 (2 rails, each 15 us, 1.25 GB/s, published)");
  CHECK(pml::to_text({{"tcp", "eth0", true, 15, 1.25, true}, {"tcp", "eth1", true, 20, 1.25}}) ==
        "tcp eth0 (15 us, 1.25 GB/s, measured) + eth1 (20 us, 1.25 GB/s, published)");
  CHECK(pml::to_text({{"shm", "", true, 0.2, 25}, {"tcp", "lo", true, 8, 3, false, false}}) ==
        "shm (0.2 us, 25 GB/s, published); also tcp lo (8 us, 3 GB/s, published)");
  CHECK(pml::to_text({{"shm", "", true, 0.2, 1, true, false}, {"tcp", "lo", true, 8, 3}}) ==
        "shm (0.2 us, 1 GB/s, measured); also tcp lo (8 us, 3 GB/s, published); large messages over tcp");
  CHECK(pml::to_text({{"tcp", "eth0", true, 15, 1}, {"tcp", "docker0", false, 15, 1}}) ==
        "tcp eth0 (15 us, 1 GB/s, published); not reached over tcp docker0");
  CHECK(pml::to_text({{"tcp", "eth0", true, pml::kCarriesNothing.alpha_ns / 1000, 1, true}}) == "tcp eth0 (carried nothing when measured)");
  CHECK(pml::to_text({{"tcp", "docker0", false, 15, 1}, {"ucx", "", false, 2, 10}}) == "no way; not reached over tcp docker0, ucx");
}

TEST_CASE("a lane knows its ways to others before it connects to them") {
  for (const char* names : {"shm", "tcp", "shm,tcp", "tcp,shm", "shm,tcp,shm"}) {
    auto boots = boot::open_fake(2);
    std::vector<std::unique_ptr<pml::Lane>> lanes;
    for (auto& boot : boots) {
      auto lane = pml::Lane::open_named(*boot, false, names);
      REQUIRE(lane);
      lanes.push_back(std::move(*lane));
    }
    std::thread other([&] { static_cast<void>(boots[1]->fence(true)); });
    REQUIRE(boots[0]->fence(true));
    other.join();
    auto paths = lanes[0]->paths_to({0, 1});
    REQUIRE(paths);
    REQUIRE(!paths->empty());
    const std::string wish = names;
    CHECK(paths->front().transport == (wish == "tcp" ? "tcp" : "shm"));  // by what it costs, not by its place in the list
    CHECK(std::ranges::count(*paths, "shm", &Path::transport) <= 1);     // however often it is named
    for (const Path& path : *paths) CHECK(wish.find(path.transport) != std::string::npos);
    for (const pml::Unused& unused : lanes[0]->unused()) {
      CHECK(wish.find(unused.transport) == std::string::npos);
      CHECK((unused.transport == "self" || unused.why == "WEFT_NET does not name it"));
    }
    auto self = lanes[0]->paths_to({0, 0});
    REQUIRE(self);
    CHECK(self->front().transport == "self");
  }
}

TEST_CASE("what auto leaves out has a reason") {
  auto boots = boot::open_fake(1);
  auto lane = pml::Lane::open_named(*boots[0], false, "auto");
  REQUIRE(lane);
  std::string all;
  for (const pml::Unused& unused : (*lane)->unused()) {
    CHECK(!unused.why.empty());
    all += unused.transport + ": " + unused.why + "\n";
  }
  CHECK(all.find("tcp: one rank has nobody to talk to\n") != std::string::npos);
  CHECK(all.find("ucx: all ranks are on one host\n") != std::string::npos);
}

TEST_CASE("measured prices survive being told, and damage to what is told") {
  pml::Prices prices;
  prices.set("node1", "tcp", "eth0", {15'000.25, 0.1});
  prices.set("node1", "shm", "", {1.0 / 3, 1e-3});
  prices.set("node2", "tcp", "eth0", pml::kCarriesNothing);
  const std::string text = prices.to_text();
  const pml::Prices same = pml::Prices::from_text(text);
  CHECK(same.to_text() == text);
  REQUIRE(same.find("node1", "shm", ""));
  CHECK(same.find("node1", "shm", "")->alpha_ns == 1.0 / 3);
  CHECK(!same.find("node2", "shm", ""));
  for (const char* broken : {"", "\n\n", "a", "\t\t\t\t\t\t", "h\ttcp\teth0\t1", "h\ttcp\teth0\t1\tx", "h\ttcp\teth0\t-1\t1",
                             "h\ttcp\te\tinf\t1", "h\ttcp\te\tnan\t1", "h\ttcp\te\t1\t1\t1"})
    CHECK(pml::Prices::from_text(broken).empty());
  for (size_t cut = 0; cut < text.size(); ++cut) static_cast<void>(pml::Prices::from_text(text.substr(0, cut)));
}

namespace {

/// Messages to and fro between two ranks; what was given to each rail in bytes.
std::vector<uint64_t> given(Rank& me, Yard& yard, size_t size, int count, std::atomic<uint32_t>& sync) {
  const int other = 1 - static_cast<int>(me.rank);
  std::vector<std::byte> out(size), in(size);
  const pml::Buffer from{out.data(), size, &type::of(type::Basic::byte)}, into{in.data(), size, &type::of(type::Basic::byte)};
  const auto meet = [&] {
    const uint32_t both = (sync++ / 2 + 1) * 2;
    while (sync < both) me.lane.progress();
  };
  meet();
  if (me.rank == 0)
    for (auto& load : yard.loads) load.bytes = 0;
  meet();
  for (int i = 0; i < count; ++i) {
    pml::Request* r = me.lane.ireceive(me.world, other, 1, pml::Traffic::user, into);
    NEED(me.lane.send(me.world, other, 1, pml::Traffic::user, from) == Status::ok);
    NEED(me.lane.wait(*r) == Status::ok && r->outcome.error == 0);
    release(r);
  }
  meet();
  std::vector<uint64_t> bytes;
  for (auto& load : yard.loads) bytes.push_back(load.bytes);
  meet();
  return bytes;
}

}  // namespace

TEST_CASE("of several kinds of wire the cheapest is taken, by size and by what was measured") {
  for (const bool reads : {false, true}) {
    Bed bed{"kinds", {}};
    bed.yard = std::make_shared<Yard>(2, 3);
    Yard& yard = *bed.yard;
    yard.get = reads;
    yard.names = {"wide", "quick", "quick"};
    yard.alphas = {10'000, 1'000, 1'000};
    yard.prices = {1, 4, 4};
    std::atomic<uint32_t> sync{0};
    run_ranks(2, bed, false, [&](Rank& me) {
      const ProcessId other{0, 1 - me.rank};
      auto paths = me.lane.paths_to(other);
      NEED(paths && paths->size() == 3);
      NEED((*paths)[0].transport == "quick" && !(*paths)[0].large && (*paths)[2].transport == "wide" && (*paths)[2].large);
      auto small = given(me, yard, 1000, 20, sync);
      NEED(small[0] == 0 && small[1] == 40'000 && small[2] == 0);
      given(me, yard, 1 << 20, 2, sync);  // opens all
      auto large = given(me, yard, 4 << 20, 2, sync);
      NEED(large[0] >= 16u << 20 && large[1] < 10'000 && large[2] == 0);

      const auto host = me.boot.host_of(other);
      NEED(host);
      pml::Prices prices;
      prices.set(*host, "wide", "rail0", {500, 1});
      prices.set(*host, "quick", "rail1", {2'000, 0.5});
      prices.set(*host, "quick", "rail2", {2'000, 1.5});
      me.lane.learn(prices);
      paths = me.lane.paths_to(other);
      NEED(paths && (*paths)[0].transport == "wide" && (*paths)[0].measured && !(*paths)[0].large && (*paths)[1].large);
      small = given(me, yard, 1000, 20, sync);
      NEED(small[0] == 40'000 && small[1] == 0 && small[2] == 0);
      large = given(me, yard, 8 << 20, 2, sync);
      NEED(large[0] < 10'000 && large[1] > large[2] * 2 && large[2] > 0);

      prices.set(*host, "wide", "rail0", pml::kCarriesNothing);
      me.lane.learn(prices);
      small = given(me, yard, 1000, 20, sync);
      NEED(small[0] == 0 && small[1] == 40'000 && small[2] == 0);
    });
  }
}

TEST_CASE("messages can be confined to one way") {
  Bed bed{"kinds", {}};
  bed.yard = std::make_shared<Yard>(2, 3);
  Yard& yard = *bed.yard;
  yard.names = {"wide", "quick", "quick"};
  std::atomic<uint32_t> sync{0};
  run_ranks(2, bed, false, [&](Rank& me) {
    const ProcessId other{0, 1 - me.rank};
    const auto ways = me.lane.ways_to(other);
    NEED(ways.size() == 3);
    for (const pml::WayName& way : ways) {
      NEED(me.lane.confine(other, &way));
      for (bool works = false; !works; me.lane.progress()) me.lane.locked([&] { works = me.lane.works(other, way); });
      for (const size_t size : {size_t{1000}, size_t{4 << 20}}) {
        const auto bytes = given(me, yard, size, 4, sync);
        for (size_t rail = 0; rail < bytes.size(); ++rail)
          NEED(rail == way.rail ? bytes[rail] >= 8 * size : bytes[rail] < 10'000 && (size > 1000 || bytes[rail] == 0));
      }
      NEED(me.lane.confine(other, nullptr));
    }
    const pml::WayName none{1, 1, "", ""};
    NEED(!me.lane.confine(other, &none));
  });
}
