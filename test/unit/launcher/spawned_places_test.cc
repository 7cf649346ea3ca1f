// Where spawned ranks run.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "launcher/place_spawned.h"

using namespace weft;
using namespace weft::launcher;

namespace {

App program(uint32_t ranks, std::vector<std::string> hosts = {}) {
  App app;
  app.command = {"x"};
  app.ranks = ranks;
  app.hosts = std::move(hosts);
  return app;
}

placement::Request three_hosts() {
  placement::Request request;
  for (const char* name : {"a", "b", "c"}) {
    placement::Host host;
    host.name = name;
    host.slots = 2;
    request.hosts.push_back(host);
  }
  return request;
}

using Hosts = std::vector<uint32_t>;

}  // namespace

TEST_CASE("spawned ranks go where there is room, or where they are sent", "[spawned]") {
  const placement::Request job = three_hosts();
  const Layout layout({"a", "b", "c"}, {0, 0, 1}, 0);
  const auto place = [&](std::vector<App> apps, const std::string& map_by = "") {
    return place_spawned({{"job", 0}, map_by, std::move(apps)}, job, layout);
  };
  CHECK(*place({program(3)}) == Hosts{2, 2, 1});  // the empty one first
  CHECK(*place({program(2)}, "node") == Hosts{2, 1});
  CHECK(*place({program(2, {"a"}), program(1, {"b", "c"})}) == Hosts{0, 0, 2});
  CHECK(*place({program(1, {"localhost"})}) == Hosts{0});
  CHECK(place({program(100)})->size() == 100);  // more than slots
  const auto unknown = place({program(1, {"elsewhere"})});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.failure().text == "elsewhere is none of the job's hosts (c, b, a)");
  CHECK_FALSE(place({program(1)}, "nonsense"));
}

TEST_CASE("mpirun's host without a server takes no spawned ranks", "[spawned]") {
  const Layout layout({"a", "b", "c"}, {1, 2}, 0);
  const auto places = place_spawned({{"job", 0}, "", {program(9)}}, three_hosts(), layout);
  REQUIRE(places);
  CHECK(std::count(places->begin(), places->end(), 0u) == 0);
  CHECK_FALSE(place_spawned({{"job", 0}, "", {program(1, {"a"})}}, three_hosts(), layout));
}
