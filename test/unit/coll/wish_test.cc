// WEFT_COLL: what is understood, what is said of the rest, and what it decides.
#include "coll/wish.h"

#include <catch2/catch.hpp>

#include "coll/hosts.h"
#include "coll/plan.h"
#include "runtime/config/config.h"

using namespace weft;
using namespace weft::coll;

namespace {

/// For the duration of a test.
struct Setting {
  explicit Setting(const char* text, const char* variable = "WEFT_COLL") : name(variable) { set(text); }
  ~Setting() { set(""); }
  void set(const char* text) const {
    config::Variable* const v = config::find(name);
    REQUIRE(v);
    REQUIRE(v->set(text, config::Origin::program));
  }
  const char* name;
};

const char* chosen(Pattern p, uint64_t bytes) { return choose({.pattern = p, .size = 6, .bytes = bytes}, {}).algorithm->name; }

}  // namespace

TEST_CASE("entries of WEFT_COLL") {
  const Wishes w =
      Wishes::read("allreduce:64K-1M=ring; bcast = binomial ;;barrier=node;reduce:-8=binomial;scan:3G-=chain;bcast:0-1m=node;");
  CHECK(w.wrong == "");
  REQUIRE(w.all.size() == 6);
  CHECK(w.all[0].pattern == Pattern::allreduce);
  CHECK(w.all[0].algorithm == find_algorithm(Pattern::allreduce, "ring"));
  CHECK(w.all[0].first == 65536);
  CHECK(w.all[0].end == 1048576);
  CHECK(w.all[0].text == "allreduce:64K-1M=ring");
  CHECK(w.all[1].algorithm == find_algorithm(Pattern::bcast, "binomial"));
  CHECK(w.all[1].fits(Pattern::bcast, 0));
  CHECK(w.all[1].fits(Pattern::bcast, UINT64_MAX));
  CHECK_FALSE(w.all[1].fits(Pattern::reduce, 0));
  CHECK(w.all[2].node);
  CHECK(w.all[3].fits(Pattern::reduce, 7));
  CHECK_FALSE(w.all[3].fits(Pattern::reduce, 8));
  CHECK(w.all[4].first == uint64_t{3} << 30);
  CHECK(w.all[5].end == 1048576);
}

TEST_CASE("entries that cannot be understood are named, with what would do") {
  const char* const sizes[] = {"allreduce:=ring",      "allreduce:64K=ring",   "allreduce:-=ring",    "allreduce:1M-64K=ring",
                               "allreduce:4-4=ring",   "allreduce:1X-2X=ring", "allreduce:1KK-=ring", "allreduce:99999999999G-=ring",
                               "allreduce:1-2-3=ring", "allreduce:--2=ring",   "allreduce: K-=ring"};
  for (const char* entry : sizes) {
    const Wishes w = Wishes::read(std::string("bcast=chain;") + entry + ";scan=chain");
    CHECK(w.all.size() == 2);
    CHECK(w.wrong == "\"" + std::string(entry) + "\": sizes are written 64K-1M, 1M- or -64K, the first one below the second");
  }
  CHECK(Wishes::read("ring").wrong.find("COLLECTIVE:FROM-TO=ALGORITHM") != std::string::npos);
  CHECK(Wishes::read("alreduce=ring").wrong.find("allgather, alltoall, reduce, allreduce") != std::string::npos);
  CHECK(Wishes::read("=").wrong.find("the collectives are") != std::string::npos);
  CHECK(Wishes::read("allreduce=rign").wrong ==
        "\"allreduce=rign\": the algorithms of allreduce are recursive_doubling, rabenseifner, ring, double_tree, swing, two_level, "
        "many_leaders, node");
  CHECK(Wishes::read("gather=ring").wrong == "\"gather=ring\": the algorithms of gather are linear, binomial, two_level, node");
  CHECK(Wishes::read("neighbor_allgather=node;x").wrong.find("linear; \"x\": ") != std::string::npos);
  for (const char* entry : {"bcast@=chain", "bcast@0=chain", "bcast@-1=chain", "bcast@4/=chain", "bcast@4/0:1-2=chain", "bcast@4/2/1=chain",
                            "bcast@99999999999=chain", "bcast@4:1-2@4=chain", "bcast@a=chain"}) {
    const Wishes w = Wishes::read(entry);
    CHECK(w.all.empty());
    CHECK(w.wrong.find("written") != std::string::npos);
  }
  std::string many;
  for (size_t i = 0; i <= Wishes::kMost; ++i) many += "barrier=node;";
  const Wishes w = Wishes::read(many);
  CHECK(w.all.size() == Wishes::kMost);
  CHECK(w.wrong == "\"barrier=node\": there are too many entries");
}

TEST_CASE("what is forced depends on the size, and the last word counts") {
  const Setting setting("allreduce:64K-1M=ring;bcast=chain;bcast:1K-2K=binary_tree;barrier=dissemination");
  CHECK(chosen(Pattern::allreduce, 65535) == std::string("rabenseifner"));
  CHECK(chosen(Pattern::allreduce, 65536) == std::string("ring"));
  CHECK(chosen(Pattern::allreduce, 1048575) == std::string("ring"));
  CHECK(word_of_user({.pattern = Pattern::allreduce, .bytes = 1048575}).number == 1);
  CHECK_FALSE(word_of_user({.pattern = Pattern::allreduce, .bytes = 1048576}).anything);
  CHECK(chosen(Pattern::bcast, 1023) == std::string("chain"));
  CHECK(chosen(Pattern::bcast, 1024) == std::string("binary_tree"));
  CHECK(chosen(Pattern::bcast, 2048) == std::string("chain"));
  CHECK(complaint() == "");
  // What cannot run is not forced.
  const Agreed ordered{.pattern = Pattern::allreduce, .size = 6, .bytes = 70000, .commutative = false};
  CHECK(choose(ordered, {}).algorithm->name == std::string("rabenseifner"));
}

TEST_CASE("entries may be for communicators of some ranks, on some hosts") {
  const Wishes w = Wishes::read("bcast@4=chain; bcast @ 6 / 2 : 1K- = binary_tree");
  CHECK(w.wrong == "");
  REQUIRE(w.all.size() == 2);
  CHECK(w.all[1].ranks == 6);
  CHECK(w.all[1].hosts == 2);
  const Setting setting("bcast=scatter_allgather;bcast@4=chain;bcast@6/2:1K-=binary_tree");
  const auto word = [](int32_t ranks, int32_t hosts, uint64_t bytes) {
    return word_of_user({.pattern = Pattern::bcast, .size = ranks, .hosts = hosts, .bytes = bytes}).number;
  };
  CHECK(word(4, 0, 8) == 2);
  CHECK(word(4, 4, 8) == 2);
  CHECK(word(6, 2, 1024) == 3);
  CHECK(word(6, 2, 1023) == 1);
  CHECK(word(6, 3, 1024) == 1);
  CHECK(word(6, 0, 1024) == 1);
}

TEST_CASE("what of a setting cannot be understood is said, and the rest holds") {
  const Setting setting("bcast=chain;bcast=chian");
  CHECK(chosen(Pattern::bcast, 8) == std::string("chain"));
  CHECK(complaint().find("WEFT_COLL, ignored in part: \"bcast=chian\": ") == 0);
}

TEST_CASE("plans keep sizes of one class apart where WEFT_COLL does") {
  const Setting setting("bcast:100K-110K=chain;bcast:110K-120K=binomial");
  Plans plans({});
  const auto steps = [&](uint64_t bytes) {
    const Agreed a{.pattern = Pattern::bcast, .size = 6, .bytes = bytes};
    return plans.find(a, false, 0, word_of_user(a))->blocks;
  };
  const int32_t chain = steps(100 << 10), whole = steps(110 << 10), pieces = steps(120 << 10);
  CHECK(chain == 4);  // of 16 KiB in the smallest size of the class
  CHECK(whole == 1);
  CHECK(pieces == 6);  // scatter_allgather
  CHECK(steps(99 << 10) == 6);
  CHECK(steps((110 << 10) - 1) == chain);
}

TEST_CASE("where hosts have several ranks, algorithms of two levels are chosen if these can be used") {
  const std::vector<int32_t> blocks = {0, 0, 0, 1, 1, 1}, dealt_out = {0, 1, 0, 1, 0, 1}, uneven = {0, 0, 0, 0, 1, 1},
                             apart = {0, 1, 2, 3, 4, 5};
  const auto on = [](const std::vector<int32_t>& host_of, const Agreed& a) {
    const Hosts hosts(host_of);
    return std::string(choose(a, {.hosts = &hosts}).algorithm->name);
  };
  Agreed a{.pattern = Pattern::allreduce, .size = 6, .bytes = 8};
  CHECK(on(blocks, a) == "two_level");
  CHECK(on(dealt_out, a) == "two_level");
  CHECK(on(apart, a) == "recursive_doubling");
  a.commutative = false;
  CHECK(on(blocks, a) == "two_level");
  CHECK(on(dealt_out, a) == "recursive_doubling");  // that would combine in another order
  a = {.pattern = Pattern::allreduce, .size = 6, .bytes = 1 << 20};
  CHECK(on(blocks, a) == "many_leaders");
  CHECK(on(uneven, a) == "ring");
  a = {.pattern = Pattern::allgather, .size = 6, .bytes = 8};
  CHECK(on(blocks, a) == "two_level");
  CHECK(on(dealt_out, a) == "bruck");
  a = {.pattern = Pattern::reduce_scatter, .size = 6, .bytes = 1 << 20};
  CHECK(on(blocks, a) == "many_leaders");
  CHECK(on(dealt_out, a) == "pairwise");
  a.uneven = true;
  CHECK(on(blocks, a) == "pairwise");
  a = {.pattern = Pattern::alltoall, .size = 6, .bytes = 8};
  CHECK(on(blocks, a) == "many_leaders");
  CHECK(on(uneven, a) == "linear");
  a = {.pattern = Pattern::gather, .size = 6, .bytes = 8};
  CHECK(on(uneven, a) == "two_level");
  CHECK(on(dealt_out, a) == "two_level");
  const Setting setting("allreduce=two_level;bcast=binomial");
  a = {.pattern = Pattern::bcast, .size = 6, .bytes = 8};
  CHECK(on(blocks, a) == "binomial");
  a = {.pattern = Pattern::allreduce, .size = 6, .bytes = 1 << 20};
  CHECK(on(uneven, a) == "two_level");
}

TEST_CASE("decisions say by whose word") {
  Agreed a{.pattern = Pattern::allreduce, .size = 6, .bytes = 70000, .commutative = false};
  CHECK(decide(a, {}, false).by == By::thresholds);
  CHECK(decide({.pattern = Pattern::barrier, .size = 6}, {}, true).node);
  CHECK_FALSE(decide({.pattern = Pattern::barrier, .size = 6}, {}, false).node);
  Agreed large_of_two{.pattern = Pattern::allreduce, .size = 2, .bytes = 1 << 20};
  CHECK(wants_node(large_of_two, {}, {}, true));
  CHECK(wants_node(large_of_two, {}, {}, false));
  CHECK(wants_node({.pattern = Pattern::allreduce, .size = 64, .bytes = 1 << 20}, {}, {}, true));  // messages have more to copy
  const Agreed large_of_four{.pattern = Pattern::allgather, .size = 4, .bytes = 1 << 20};
  CHECK_FALSE(wants_node(large_of_four, {}, {}, true));
  CHECK(wants_node(large_of_four, {}, {}, false));  // messages cost more switches than meetings
  CHECK(decide({.pattern = Pattern::gather, .size = 6}, {}, true).node);
  CHECK_FALSE(decide({.pattern = Pattern::gather, .size = 6, .bytes = 1 << 20}, {}, true).node);
  const Setting setting("allreduce:64K-1M=ring;reduce=node;barrier=dissemination");
  CHECK(decide(a, {}, true).unusable);
  CHECK(decide(a, {}, true).wish == "allreduce:64K-1M=ring");
  a.commutative = true;
  CHECK(decide(a, {}, true).by == By::user);
  CHECK(decide(a, {}, true).choice.algorithm->name == std::string("ring"));
  CHECK_FALSE(decide({.pattern = Pattern::barrier, .size = 6}, {}, true).node);
  const Agreed large{.pattern = Pattern::reduce, .size = 6, .bytes = 1 << 20};
  CHECK(decide(large, {}, true).node);
  CHECK(decide(large, {}, true).by == By::user);
  CHECK(decide(large, {}, false).unusable);
}

TEST_CASE("the table goes before thresholds, and the user before the table") {
  const Setting table("allreduce@6/1:64-1K=node;allreduce@6/1:1K-1M=ring;allreduce@6/2=many_leaders;bcast@6/1:100-200=chain",
                      "WEFT_COLL_TUNED");
  const auto on = [](int32_t hosts, uint64_t bytes) {
    return Agreed{.pattern = Pattern::allreduce, .size = 6, .hosts = hosts, .bytes = bytes};
  };
  CHECK(decide(on(1, 64), {}, true).by == By::table);
  CHECK(decide(on(1, 64), {}, true).node);
  CHECK(decide(on(1, 63), {}, true).by == By::thresholds);
  CHECK_FALSE(decide(on(1, 2048), {}, true).node);  // which thresholds would take
  CHECK(decide(on(1, 2048), {}, true).choice.algorithm->name == std::string("ring"));
  CHECK(decide(on(1, 2048), {}, true).table == "allreduce@6/1:1K-1M=ring");
  CHECK(decide(on(1, 1 << 20), {}, true).by == By::thresholds);
  CHECK(decide(on(0, 2048), {}, false).by == By::thresholds);  // where the hosts are not known
  Agreed a = on(2, 8);
  CHECK(decide(a, {}, false).by == By::thresholds);  // it cannot be used without two levels
  const std::vector<int32_t> blocks = {0, 0, 0, 1, 1, 1};
  const Hosts hosts(blocks);
  CHECK(decide(a, {.hosts = &hosts}, false).choice.algorithm->name == std::string("many_leaders"));
  a.commutative = false;
  CHECK(decide(a, {.hosts = &hosts}, false).by == By::thresholds);
  a = on(1, 2048);
  a.uneven = true;
  CHECK_FALSE(word_of_table(a).anything);
  a = on(1, 2048);
  a.front = 2;
  CHECK_FALSE(word_of_table(a).anything);
  const Setting user("allreduce:512-=rabenseifner");
  CHECK(decide(on(1, 2048), {}, true).by == By::user);
  CHECK(decide(on(1, 2048), {}, true).choice.algorithm->name == std::string("rabenseifner"));
  CHECK(decide(on(1, 64), {}, true).by == By::table);
  user.set("allreduce=many_leaders");  // cannot be used on one host: the next one in order decides
  CHECK(decide(on(1, 2048), {}, true).by == By::table);
  CHECK(decide(on(1, 2048), {}, true).unusable);
}

TEST_CASE("where the machine is measured, the model decides what the table does not") {
  const auto name = [](const Agreed& a) { return std::string(decide(a, {}, a.hosts == 1).choice.algorithm->name); };
  const Agreed between{.pattern = Pattern::allreduce, .size = 8, .hosts = 8, .bytes = 16384};
  CHECK(name(between) == "rabenseifner");
  const Setting slow("leaf.latency=500000,leaf.per_byte=0.1,host_link=0.1", "WEFT_COLL_MACHINE");
  CHECK(decide(between, {}, false).by == By::model);
  CHECK(name(between) == "recursive_doubling");  // half the messages one after the other
  slow.set("leaf.latency=5,leaf.per_byte=40,leaf.send=1,leaf.receive=1,host_link=40");
  CHECK(name(between) == "rabenseifner");  // less data
  Agreed a = between;
  a.hosts = 0;
  CHECK(decide(a, {}, false).by == By::thresholds);
  a = {.pattern = Pattern::allreduce, .size = 8, .hosts = 1, .bytes = 16384};
  CHECK(decide(a, {}, true).by == By::thresholds);  // of memory it knows too little
  a = {.pattern = Pattern::alltoall, .size = 8, .hosts = 8, .bytes = 16, .uneven = true};
  CHECK(decide(a, {}, false).by == By::thresholds);
  const std::vector<int32_t> dealt_out = {0, 1, 0, 1, 0, 1};
  const Hosts hosts(dealt_out);
  slow.set("leaf.latency=500000");
  a = {.pattern = Pattern::bcast, .size = 6, .hosts = 2, .bytes = 8};
  CHECK(decide(a, {.hosts = &hosts}, false).by == By::model);
  const Setting table("allreduce@8/8=ring", "WEFT_COLL_TUNED");
  CHECK(decide(between, {}, false).by == By::table);
  const Setting user("allreduce=recursive_doubling");
  CHECK(decide(between, {}, false).by == By::user);
}

TEST_CASE("the table counts sizes by their class, so that plans need not know it") {
  const Setting table("bcast@6/1:100-200=chain;bcast@6/1:1K-2K=binary_tree", "WEFT_COLL_TUNED");
  for (const uint64_t bytes : {0, 1, 63, 64, 99, 100, 127, 128, 150, 199, 200, 255, 256, 1023, 1024, 1500, 2047, 2048}) {
    const Agreed a{.pattern = Pattern::bcast, .size = 6, .hosts = 1, .bytes = bytes};
    CHECK(word_of_table(a).number == word_of_table(of_class(a)).number);
    CHECK(word_of_table(a).number == (bytes >= 128 && bytes < 256 ? 1U : bytes >= 1024 && bytes < 2048 ? 2U : 0U));
  }
  const NodeWords words(6);
  CHECK_FALSE(words.of(Pattern::barrier, 0).anything);
  CHECK(words.of(Pattern::bcast, 1025).anything);
  CHECK_FALSE(words.of(Pattern::bcast, 1025).node);
  CHECK_FALSE(words.of(Pattern::bcast, UINT64_MAX).anything);
}

TEST_CASE("a table of another version is used as far as it is understood") {
  const Setting table("bcast@6/1=chain;bcast@6/1=teleport", "WEFT_COLL_TUNED");
  CHECK(word_of_table({.pattern = Pattern::bcast, .size = 6, .hosts = 1, .bytes = 8}).number == 1);
  CHECK(complaint().find("the table of weft tune, ignored in part: \"bcast@6/1=teleport\"") == 0);
}
