// Topology x policy -> what must hold.
#include "launcher/place/place.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "launcher/place/draw.h"
#include "launcher/place/machine.h"
#include "launcher/place/policy.h"
#include "test/unit/place/machines.h"

using namespace weft::placement;
using weft::Result;
using weft::topo::CpuSet;
using Texts = std::vector<std::string>;

namespace {

Request on(const std::string& name, uint32_t ranks, uint32_t hosts = 1) {
  Request request;
  request.programs = {{ranks}};
  for (uint32_t h = 0; h < hosts; ++h) {
    Host host{"node" + std::to_string(h)};
    host.machine = machine(name);
    request.hosts.push_back(host);
  }
  return request;
}

Request with(Request request, const std::string& map, const std::string& bind = "", const std::string& rank = "") {
  if (!map.empty()) REQUIRE(read_map_by(map, request));
  if (!bind.empty()) REQUIRE(read_bind_to(bind, request));
  if (!rank.empty()) REQUIRE(read_rank_by(rank, request));
  return request;
}

Texts cpus_of(const Result<Placement>& placement) {
  Texts texts;
  if (!placement) return {placement.failure().text};
  for (const Place& place : placement->ranks) texts.push_back(place.cpus.to_string());
  return texts;
}

std::vector<uint32_t> hosts_of(const Result<Placement>& placement) {
  std::vector<uint32_t> hosts;
  if (!placement) FAIL(placement.failure().text);
  for (const Place& place : placement->ranks) hosts.push_back(place.host);
  return hosts;
}

std::string failure_of(const Request& request) {
  const auto placement = place(request);
  return placement ? "no failure" : placement.failure().text;
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

/// What does not hold of a placement, although it must of all.
std::string unsound(const Request& request, const Placement& placement) {
  std::map<uint32_t, std::set<uint32_t>> local;
  std::map<std::pair<uint32_t, std::string>, uint32_t> together;
  for (const Place& place : placement.ranks) {
    if (place.host >= request.hosts.size()) return "no such host";
    if (!local[place.host].insert(place.local_rank).second) return "two ranks with one local rank";
    const auto& machine = request.hosts[place.host].machine;
    if (machine && !usable_cpus(*machine, request.cpu_set).includes(place.cpus)) return "bound to CPUs that may not be used";
    const bool alone = request.overload || place.cpus.empty() || !request.cpu_set.empty();  // a set is obeyed by unbound ranks, too
    if (!alone && ++together[{place.host, place.cpus.to_string()}] > place.cpus.count()) return "more ranks than threads";
  }
  for (const auto& [host, ranks] : local) {
    if (*ranks.rbegin() != ranks.size() - 1) return "a gap between local ranks";
    if (placement.hosts.at(host).ranks != ranks.size()) return "ranks of a host not counted";
    if (!placement.hosts.at(host).cpus) return "no CPU";
  }
  return {};
}

/// Hosts and CPUs without the numbers of ranks.
std::multiset<std::pair<uint32_t, std::string>> places_of(const Placement& placement) {
  std::multiset<std::pair<uint32_t, std::string>> all;
  for (const Place& place : placement.ranks) all.emplace(place.host, place.cpus.to_string());
  return all;
}

uint32_t cores_in(const Machine& machine, const CpuSet& set) { return static_cast<uint32_t>(pieces(machine, Unit::core, set).size()); }

/// Places so many ranks on every machine by every policy.
void check_policies(uint32_t ranks) {
  for (const StoredMachine& stored : stored_machines()) {
    Request base = on(stored.name, 0, 2);
    for (const char* map : {"", "node", "package", "numa", "l3cache", "core", "hwthread", "ppr:1:package", "ppr:2:core", "slot:PE=2",
                            "numa:PE=3", ":oversubscribe"})
      for (const char* bind : {"", "none", "core", "hwthread", "numa", "package", "l3cache", "core:overload-allowed"}) {
        INFO(stored.name << ": map " << map << " bind " << bind << " ranks " << ranks);
        Request request = base;
        request.programs[0].ranks = ranks;
        request = with(request, map, bind);
        const auto plain = place(request);
        if (!plain) {
          CHECK_FALSE(plain.failure().text.empty());
          continue;
        }
        CHECK((!ranks || plain->ranks.size() == ranks));
        CHECK(unsound(request, *plain) == "");
        CHECK_FALSE(draw(*plain, {"a"}).empty());
        for (const char* rank : {"node", "fill", "package"}) {  // numbering moves ranks, not the places
          const auto numbered = place(with(request, "", "", rank));
          CHECK((numbered && unsound(request, *numbered).empty() && places_of(*numbered) == places_of(*plain)));
        }
      }
  }
}

}  // namespace

TEST_CASE("every policy on every machine, with three ranks", "[place][serial]") { check_policies(3); }

TEST_CASE("every policy on every machine, with many ranks, and as many as there is room for", "[place][serial][more]") {
  for (const uint32_t ranks : {0u, 37u}) check_policies(ranks);
}

TEST_CASE("the default starves nobody and never fails", "[place]") {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (const StoredMachine& stored : stored_machines())
    for (int round = 0; round < 40; ++round) {
      const auto hardware = machine(stored);
      Request request;
      request.programs = {{1 + static_cast<uint32_t>(random() % 80)}};
      request.programs[0].threads = 1 + random() % 5;
      Host host{"here"};
      host.machine = hardware;
      request.hosts = {host};
      INFO(stored.name << ", " << request.programs[0].ranks << " ranks of " << request.programs[0].threads << " threads, seed " << seed);
      const auto placement = place(request);
      REQUIRE(placement);
      CHECK(unsound(request, *placement) == "");
      const CpuSet usable = usable_cpus(*hardware, {});
      const uint32_t cores = cores_in(*hardware, usable), ranks = request.programs[0].ranks, threads = request.programs[0].threads;
      const bool binds = ranks > 1 && ranks * threads <= cores && stored.quota >= cores && hardware->kinds.empty();
      CpuSet all;
      uint32_t sum = 0;
      bool right = true;
      for (const Place& place : placement->ranks) {
        right = right && place.cpus.empty() == !binds && (!binds || cores_in(*hardware, place.cpus) >= threads);
        all |= place.cpus;
        sum += place.cpus.count();
      }
      CHECK(right);
      CHECK(all.count() == sum);  // no CPU is two ranks'
    }
}

TEST_CASE("shares keep to NUMA nodes where they can", "[place]") {
  const auto hardware = machine("sub-NUMA");
  const auto numas = pieces(*hardware, Unit::numa, usable_cpus(*hardware, {}));
  REQUIRE(numas.size() == 4);
  for (uint32_t ranks = 4; ranks <= 24; ++ranks) {
    const auto placement = place(on("sub-NUMA", ranks));
    REQUIRE(placement);
    CHECK(std::ranges::all_of(placement->ranks, [&](const Place& place) {
      return std::ranges::any_of(numas, [&](const CpuSet& numa) { return numa.includes(place.cpus); });
    }));
  }
  CHECK(cpus_of(place(on("two sockets", 2))) == Texts{"0-15", "16-31"});
  CHECK(cpus_of(place(on("two sockets", 4))) == Texts{"0-7", "8-15", "16-23", "24-31"});
  Request request = on("two sockets", 3);  // by sockets one rank would have 4 cores only
  request.programs[0].threads = 5;
  CHECK(cpus_of(place(request)) == Texts{"0-9", "10-19", "20-31"});
}

TEST_CASE("what binds is not bound where it would harm", "[place]") {
  CHECK(cpus_of(place(on("container", 2))) == Texts{"", ""});
  CHECK(contains(place(on("container", 2))->hosts[0].binding, "limit grants 2"));
  CHECK(place(on("container", 0))->ranks.size() == 2);
  CHECK(place(on("container", 4))->hosts[0].cpus == 2);
  CHECK(cpus_of(place(on("hybrid laptop", 2))) == Texts{"", ""});
  CHECK(cpus_of(place(on("one core", 3))) == Texts{"", "", ""});
  CHECK(cpus_of(place(on("two sockets", 17))) == Texts(17));
  CHECK(place(on("two sockets", 0))->ranks.size() == 16);
  Request threads = on("two sockets", 0);
  threads.programs[0].threads = threads_of("4,2");
  CHECK(place(threads)->ranks.size() == 4);
  threads.programs[0].ranks = 5;
  CHECK(cpus_of(place(threads)) == Texts(5));
  CHECK(cpus_of(place(on("cpuset", 4))) == Texts{"3", "4-5", "6-9", "20"});
}

TEST_CASE("policies do what they say", "[place]") {
  CHECK(cpus_of(place(with(on("two sockets", 3), "core"))) == Texts{"0-1", "2-3", "4-5"});
  CHECK(cpus_of(place(with(on("two sockets", 4), "package"))) == Texts{"0-15", "16-31", "0-15", "16-31"});
  CHECK(cpus_of(place(with(on("two sockets", 4), "package", "core"))) == Texts{"0-1", "16-17", "2-3", "18-19"});
  CHECK(cpus_of(place(with(on("two sockets", 2), "socket:PE=3"))) == Texts{"0-5", "16-21"});
  CHECK(cpus_of(place(with(on("two sockets", 0), "ppr:2:package:pe=4"))) == Texts{"0-7", "8-15", "16-23", "24-31"});
  CHECK(cpus_of(place(with(on("two sockets", 3), "", "hwthread"))) == Texts{"0", "1", "2"});
  CHECK(cpus_of(place(with(on("two sockets", 2), "", "core:2"))) == Texts{"0-3", "4-7"});
  CHECK(cpus_of(place(with(on("sub-NUMA", 4), "", "numa"))) == Texts{"0-11", "12-23", "24-35", "36-47"});
  CHECK(cpus_of(place(with(on("sub-NUMA", 2), "ppr:1:numa", "package"))) == Texts{"0-23", "0-23"});
  CHECK(cpus_of(place(with(on("chiplets", 3), "l3cache"))) == Texts{"0-15", "16-31", "32-47"});
  CHECK(cpus_of(place(with(on("hybrid laptop", 3), "core"))) == Texts{"4-5", "6-7", "0"});  // strong cores first
  CHECK(cpus_of(place(with(on("two sockets", 4), "package", "core", "fill"))) == Texts{"0-1", "2-3", "16-17", "18-19"});
  CHECK(cpus_of(place(with(on("two sockets", 16), "core", "", "package"))).at(1) == "16-17");
  CHECK(cpus_of(place(with(on("two sockets", 2), "", "none"))) == Texts{"", ""});
  CHECK(cpus_of(place(with(on("two sockets", 2), "core:hwtcpus:pe=2"))) == Texts{"0-1", "2-3"});
  Request set = on("two sockets", 2);
  REQUIRE(read_cpu_set("2-5,20", set));
  CHECK(cpus_of(place(with(set, "", "core"))) == Texts{"2-3", "4-5"});
  CHECK(cpus_of(place(with(set, "", "none"))) == Texts{"2-5,20", "2-5,20"});
  set.programs[0].ranks = 9;
  CHECK(cpus_of(place(set)) == Texts(9, "2-5,20"));
}

TEST_CASE("the user's own lists of CPUs", "[place]") {
  CHECK(cpus_of(place(with(on("two sockets", 3), "", "user:0+2,5-7"))) == Texts{"0,2", "5-7", "0,2"});
  CHECK(contains(failure_of(with(on("two sockets", 2), "", "user:0,99")), "CPUs 99: ranks on node0 may use 0-31"));
  Request request = on("two sockets", 2);
  for (const char* wrong : {"user", "user:", "user:0,,1", "user:a"}) CHECK_FALSE(read_bind_to(wrong, request));
  CHECK(cpus_of(place(with(on("two sockets", 2), "", "rr"))) == Texts{"0-1", "2-3"});
  CHECK_FALSE(read_map_by("dist:mlx5_0", request));
}

TEST_CASE("hosts in the order of a list", "[place]") {
  Request request = with(on("two sockets", 0, 3), "seq");
  CHECK(contains(failure_of(request), "needs a hostfile"));
  request.sequence = {"node2", "node0", "node2", "node1"};
  CHECK(hosts_of(place(request)) == std::vector<uint32_t>{2, 0, 2, 1});
  request.programs[0].ranks = 2;
  CHECK(hosts_of(place(request)) == std::vector<uint32_t>{2, 0});
  request.programs = {{1}, {3}};
  const auto placement = place(request);
  REQUIRE(placement);
  CHECK(placement->ranks[3].program == 1);
  CHECK(placement->ranks[2].local_rank == 1);
  request.programs = {{2}, {3}};
  CHECK(contains(failure_of(request), "5 ranks, but hosts for 4"));
  request.programs = {{1}};
  request.sequence = {"other"};
  CHECK(contains(failure_of(request), "other is not among the hosts"));
}

TEST_CASE("hosts are filled as their slots say", "[place]") {
  using Hosts = std::vector<uint32_t>;
  auto three = [](uint32_t ranks) {
    Request request;
    request.programs = {{ranks}};
    for (uint32_t slots : {2u, 1u, 3u}) {
      Host host{"h" + std::to_string(request.hosts.size()), slots};
      host.firm = true;
      host.source = "line 7 of hosts";
      request.hosts.push_back(host);
    }
    return request;
  };
  CHECK(hosts_of(place(three(0))) == Hosts{0, 0, 1, 2, 2, 2});
  CHECK(hosts_of(place(three(4))) == Hosts{0, 0, 1, 2});
  CHECK(hosts_of(place(with(three(5), "node"))) == Hosts{0, 1, 2, 0, 2});
  CHECK(hosts_of(place(with(three(5), "slot", "", "node"))) == Hosts{0, 1, 2, 0, 2});
  CHECK(contains(failure_of(three(7)), "room for 6"));
  CHECK(contains(failure_of(three(7)), "line 7 of hosts"));
  CHECK(contains(failure_of(three(7)), ":oversubscribe"));
  CHECK(hosts_of(place(with(three(8), ":oversubscribe"))) == Hosts{0, 0, 1, 2, 2, 2, 0, 0});
  Request request = three(7);
  for (Host& host : request.hosts) host.firm = false;  // host:N goes around
  CHECK(hosts_of(place(request)) == Hosts{0, 0, 1, 2, 2, 2, 0});
  CHECK(contains(failure_of(with(request, ":nooversubscribe")), "nooversubscribe"));
  request.hosts[0].most = 2;
  CHECK(hosts_of(place(request)) == Hosts{0, 0, 1, 2, 2, 2, 1});
  request = three(0);
  request.programs[0].per_host = 1;
  CHECK(hosts_of(place(request)) == Hosts{0, 1, 2});
  request.programs[0].ranks = 4;
  CHECK(contains(failure_of(request), "per host"));
  request = three(2);
  request.programs.push_back({2});
  request.programs[1].hosts = {"h2"};
  CHECK(hosts_of(place(request)) == Hosts{0, 0, 2, 2});
  CHECK(place(request)->ranks[3].local_rank == 1);
  CHECK(place(request)->ranks[3].program == 1);
  request.programs[1].hosts = {"nowhere"};
  CHECK(contains(failure_of(request), "nowhere"));
  CHECK(contains(failure_of(with(three(2), "package")), "map by slot"));
  CHECK(hosts_of(place(on("two sockets", 20, 2))) == [] {
    Hosts all(16, 0);
    all.insert(all.end(), 4, 1);
    return all;
  }());
}

TEST_CASE("what cannot be is said with a remedy", "[place]") {
  CHECK(contains(failure_of(with(on("two sockets", 33), "", "core")), "than it has hardware threads"));
  CHECK(contains(failure_of(with(on("two sockets", 33), "", "core")), "--bind-to none"));
  CHECK(place(with(on("two sockets", 32), "", "core")));  // each core has two threads
  CHECK(place(with(on("two sockets", 33), "", "core:overload-allowed"))->hosts[0].cpus < 33);
  CHECK(contains(failure_of(with(on("two sockets", 9), "slot:PE=4")), "9 ranks of 4 cores"));
  CHECK(contains(failure_of(with(on("two sockets", 2), "numa:PE=9")), "no more than 8 cores"));
  CHECK(contains(failure_of(with(on("two sockets", 5), "ppr:2:package")), "room for 4"));
  CHECK(contains(failure_of(with(on("no caches", 2), "l3cache")), "has none"));
  CHECK(contains(failure_of(with(on("no caches", 2), "", "l3cache")), "has none"));
  Request set = on("no caches", 2);
  REQUIRE(read_cpu_set("64", set));
  CHECK(contains(failure_of(set), "CPUs 0-3"));
}

TEST_CASE("ten thousand ranks on a hundred hosts", "[place]") {
  const auto placement = place(with(on("grace", 10'000, 100), "", "core"));
  REQUIRE(placement);
  CHECK(placement->ranks.back().host == 69);
  CHECK(placement->ranks.back().local_rank == 10'000 - 69 * 144 - 1);
}

TEST_CASE("daemons bind their own ranks as one that knows all hosts would", "[place]") {
  for (const char* map : {"", "slot", "node", "numa", "package:PE=2", "ppr:2:l3cache", "core"})
    for (const char* rank : {"", "node", "fill", "span", "package"})
      for (uint32_t count : {3u, 7u, 12u}) {
        INFO("map " << map << " rank " << rank << " ranks " << count);
        Request request = with(on("two sockets", count, 3), map, "", rank);
        request.programs.push_back({2});
        const auto known = place(request);
        if (!known) continue;  // ppr has no room for so many
        Request guess = request;
        for (Host& host : guess.hosts) host.assumed = true;
        const auto dealt = place(guess);
        REQUIRE(dealt);
        for (uint32_t h = 0; h < 3; ++h) {
          std::vector<std::vector<uint32_t>> ranks(2);
          for (uint32_t r = 0; r < dealt->ranks.size(); ++r) {
            CHECK(dealt->ranks[r].cpus.empty());
            if (dealt->ranks[r].host == h) ranks[dealt->ranks[r].program].push_back(r);
          }
          if (ranks[0].empty() && ranks[1].empty()) continue;
          const auto here = place_here(request, request.hosts[h], ranks);
          REQUIRE(here);
          std::vector<std::string> own, all;
          for (const Place& place : here->ranks) own.push_back(place.cpus.to_string());
          for (const Place& place : known->ranks)
            if (place.host == h) all.push_back(place.cpus.to_string());
          CHECK(own == all);
        }
      }
}

TEST_CASE("a map is drawn", "[place]") {
  const auto placement = place(with(on("sub-NUMA", 2), "", "core"));
  REQUIRE(placement);
  CHECK(contains(report_bindings(*placement), "rank 1 on node0: CPUs 2-3  [../BB/../../../..|../../../../../..][../../../../../..|"));
  CHECK(contains(draw(*placement, {"a.out"}),
                 "2 ranks on 1 host\nnode0 (2 packages, 4 NUMA nodes, 24 cores, 48 CPUs): 2 ranks, bound to core"));
  CHECK(contains(picture(*machine("cpuset"), *CpuSet::parse("4-5")), "[~~/~./BB/../../~~/~~/~~][~~/~~/.~"));
  CHECK(contains(report_bindings(*place(on("container", 2))), "not bound: a CPU limit grants 2 of 8 cores"));
}
