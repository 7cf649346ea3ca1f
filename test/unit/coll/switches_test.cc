// Hosts behind switches: what ranks are told of them, what thresholds name there, and that links between switches carry the least they can.
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "coll/network.h"
#include "coll/select.h"
#include "coll/shape.h"
#include "test/unit/setting.h"

using namespace weft;
using namespace weft::coll;

namespace {

constexpr const char* kRacks = "SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[5-8]\nSwitchName=top Switches=a,b\n";

/// Ranks on hosts n1, n5, n2, n6, ...: racks take turns.
std::vector<std::string> in_turns(int32_t ranks, int32_t each, int32_t hosts) {
  std::vector<std::string> names;
  for (Rank r = 0; r < ranks; ++r) {
    const int32_t host = r / each % hosts;
    names.push_back("n" + std::to_string(host / 2 + 1 + host % 2 * 4));
  }
  return names;
}

/// Shares of the data that cross from a switch to another one, by switches, where all ranks run the algorithm.
std::map<std::pair<int32_t, int32_t>, double> crossings(Pattern pattern, const char* name, const std::vector<std::string>& host_of,
                                                        Rank root = 0) {
  const auto levels = levels_of(host_of);
  const auto size = static_cast<int32_t>(host_of.size());
  const Algorithm* const a = find_algorithm(pattern, name);
  REQUIRE(a);
  const Parameters p{.root = root, .segments = a->segmented ? 4 : 1};
  REQUIRE(a->usable({.hosts = levels.get()}, size, p, false));
  const Shape shape = Shape::of(*levels);
  std::map<std::pair<int32_t, int32_t>, double> sums;
  for (Rank r = 0; r < size; ++r) {
    const Schedule s = a->build({.hosts = levels.get()}, r, size, p);
    for (const Loop& loop : s.loops)
      for (uint32_t round = loop.first; round < loop.first + loop.rounds; ++round)
        for (uint32_t i = s.rounds[round].first; i < s.rounds[round].first + s.rounds[round].steps; ++i) {
          const Step& step = s.steps[i];
          if (step.kind != StepKind::send || shape.leaf(step.peer) == shape.leaf(r)) continue;
          sums[{shape.leaf(r), shape.leaf(step.peer)}] += double(step.blocks) * step.repeat * loop.times / s.blocks;
        }
  }
  return sums;
}

const char* chosen(Pattern pattern, uint64_t bytes, const Hosts* levels, int32_t size) {
  return choose({.pattern = pattern, .size = size, .hosts = 4, .bytes = bytes}, {.hosts = levels}).algorithm->name;
}

}  // namespace

TEST_CASE("levels: hosts, and the switches that WEFT_COLL_NETWORK names") {
  const auto names = in_turns(8, 2, 4);  // n1 n1 n5 n5 n2 n2 n6 n6
  const auto plain = levels_of(names);
  REQUIRE(plain);
  CHECK(plain->switches() == nullptr);
  const Setting racks("WEFT_COLL_NETWORK", kRacks);
  CHECK(complaint_of_network() == "");
  const auto levels = levels_of(names);
  REQUIRE(levels);
  CHECK(levels->in_memory());
  REQUIRE(levels->switches());
  CHECK(levels->switches()->count() == 2);
  CHECK(levels->switches()->of(0) == levels->switches()->of(2));
  CHECK(levels->switches()->of(1) == levels->switches()->of(3));
  CHECK(levels->switches()->switches() == nullptr);
  CHECK(tour(levels.get(), 8, 0) == std::vector<Rank>{0, 1, 4, 5, 2, 3, 6, 7});
  CHECK(tour(levels.get(), 8, 7) == std::vector<Rank>{7, 6, 2, 3, 0, 1, 4, 5});
  const Shape shape = Shape::of(*levels);
  CHECK(shape.hosts() == 4);
  CHECK(shape.leaves() == 2);
  CHECK(shape.level(0, 1) == Level::cache);
  CHECK(shape.level(0, 4) == Level::leaf);
  CHECK(shape.level(0, 2) == Level::far);
}

TEST_CASE("levels: a rank a host, hosts without a switch, one switch, nonsense") {
  const Setting racks("WEFT_COLL_NETWORK", kRacks);
  const auto single = levels_of(in_turns(4, 1, 4));
  REQUIRE(single);
  CHECK_FALSE(single->in_memory());
  CHECK(single->count() == 2);
  CHECK(Shape::of(*single).hosts() == 4);
  CHECK(Shape::of(*single).leaves() == 2);
  CHECK(levels_of(std::vector<std::string>{"n1", "n2", "n3"}) == nullptr);  // one switch
  const auto apart = levels_of(std::vector<std::string>{"n1", "x", "n2", "y"});
  REQUIRE(apart);
  CHECK(apart->of(1) == apart->of(3));
  CHECK(apart->of(0) != apart->of(1));
  const Setting nonsense("WEFT_COLL_NETWORK", "SwitchName=a");
  CHECK(complaint_of_network() == "line 1 of WEFT_COLL_NETWORK: a switch has either Nodes= or Switches=");
  CHECK(complaint().find("WEFT_COLL_NETWORK, ignored: line 1") != std::string::npos);
  CHECK(levels_of(in_turns(8, 2, 4))->switches() == nullptr);
}

TEST_CASE("links between switches carry the least they can, however ranks lie") {
  const Setting racks("WEFT_COLL_NETWORK", kRacks);
  for (const int32_t each : {1, 2, 3})
    for (const int32_t hosts : {4, 6, 8}) {
      const auto names = in_turns(each * hosts, each, hosts);
      INFO(each << " ranks on each of " << hosts << " hosts");
      for (const auto& [pair, share] : crossings(Pattern::allreduce, "many_leaders", names)) CHECK(share == Approx(1));
      CHECK(crossings(Pattern::allreduce, "many_leaders", names).size() == 2);
      const double size = each * hosts;
      for (const auto& [pair, share] : crossings(Pattern::allreduce, "ring", names)) CHECK(share == Approx(2 * (size - 1) / size));
      for (const auto& [pair, share] : crossings(Pattern::allgather, "ring", names)) CHECK(share == Approx((size - 1) / size));
      if (each > 1)  // each rank's block comes to the other switch once
        for (const auto& [pair, share] : crossings(Pattern::allgather, "two_level", names)) CHECK(share == Approx(0.5));
      for (const Rank root : {Rank{0}, each, each * hosts - 1})
        for (const auto& [pattern, name] : std::vector<std::pair<Pattern, const char*>>{{Pattern::bcast, "two_level"},
                                                                                        {Pattern::bcast, "two_level_pipeline"},
                                                                                        {Pattern::bcast, "chain"},
                                                                                        {Pattern::reduce, "two_level"}}) {
          INFO(to_string(pattern) << " " << name << ", root " << root);
          const auto found = crossings(pattern, name, names, root);
          CHECK(found.size() == 1);
          for (const auto& [pair, share] : found) CHECK(share == Approx(1));
        }
      for (const Rank root : {Rank{0}, each, each * hosts - 1})
        for (const Pattern pattern : {Pattern::gather, Pattern::scatter}) {  // the blocks of the other switch's half, once
          INFO(to_string(pattern) << ", root " << root);
          const auto found = crossings(pattern, "two_level", names, root);
          CHECK(found.size() == 1);
          for (const auto& [pair, share] : found) CHECK(share == Approx(0.5));
        }
    }
}

TEST_CASE("thresholds: long data goes by switches, short data of single ranks does not") {
  const Setting racks("WEFT_COLL_NETWORK", kRacks);
  const auto single = levels_of(in_turns(4, 1, 4)), several = levels_of(in_turns(8, 2, 4));
  CHECK(chosen(Pattern::allreduce, 1024, single.get(), 4) == std::string("recursive_doubling"));
  CHECK(chosen(Pattern::allreduce, 1 << 20, single.get(), 4) == std::string("many_leaders"));
  CHECK(chosen(Pattern::bcast, 1 << 20, single.get(), 4) == std::string("two_level_pipeline"));
  CHECK(chosen(Pattern::barrier, 0, single.get(), 4) == std::string("dissemination"));
  CHECK(chosen(Pattern::allreduce, 65536, several.get(), 8) == std::string("many_leaders"));
  CHECK(chosen(Pattern::allreduce, 1024, several.get(), 8) == std::string("two_level"));
}
