// What is said of the ways between processes.
#include "pml/paths.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/unit/pml/ranks.h"

using namespace weft;
using namespace weft::test;
using pml::Path;

TEST_CASE("rows become a short text") {
  CHECK(pml::to_text({}) == "no way");
  CHECK(pml::to_text({{"shm", "", true, 0.2, 25}}) == "shm (0.2 us, 25 GB/s)");
  CHECK(pml::to_text({{"tcp", "eth0", true, 15, 1.25}, {"tcp", "eth1", true, 15, 1.25}}) ==
        "tcp eth0 + eth1 (2 rails, each 15 us, 1.25 GB/s)");
  CHECK(pml::to_text({{"shm", "", true, 0.2, 25}, {"tcp", "lo", true, 8, 3}}) == "shm (0.2 us, 25 GB/s); also tcp lo (8 us, 3 GB/s)");
  CHECK(pml::to_text({{"tcp", "eth0", true, 15, 1}, {"tcp", "docker0", false, 15, 1}}) ==
        "tcp eth0 (15 us, 1 GB/s); not reached over tcp docker0");
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
    const std::string wish = names, first = wish.substr(0, wish.find(','));
    CHECK(paths->front().transport == first);
    CHECK(std::ranges::count(*paths, "shm", &Path::transport) <= 1);  // however often it is named
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
