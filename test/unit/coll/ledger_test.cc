// The ledger: what is counted, how ranks' ledgers add up, and what is made of lines that are not its own.
#include "coll/ledger.h"

#include <catch2/catch.hpp>
#include <random>

#include "test/unit/coll/world.h"

using namespace weft;
using namespace weft::coll;

namespace {

Ledger::Key key(Pattern p, int32_t ranks, const char* algorithm) {
  return {.pattern = p, .size_class = 7, .ranks = ranks, .hosts = 1, .algorithm = algorithm};
}

}  // namespace

TEST_CASE("the time in the middle is right within 3 %") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 50; ++round) {
    Times times;
    std::vector<uint64_t> all(1 + random() % 999);
    for (uint64_t& ns : all) times.add(ns = random() >> (24 + random() % 40));
    std::ranges::sort(all);
    const auto middle = static_cast<double>(all[all.size() / 2]);
    INFO(all.size() << " times, middle " << middle);
    CHECK(std::abs(times.median() - middle) <= 0.035 * middle);
  }
  CHECK(Times().median() == 0);
}

TEST_CASE("ranks' ledgers add up to collectives") {
  Ledger::Rows all;
  for (int rank = 0; rank < 4; ++rank) {
    Ledger ledger;
    for (int i = 0; i < 10; ++i) ledger.note(key(Pattern::bcast, 2, "binomial"), 100, 1000);  // two communicators of two ranks
    ledger.note(key(Pattern::allreduce, 4, "node"), 64, 50);
    ledger.note(key(Pattern::allreduce, 4, ""), 64, {});
    Ledger::add(all, Ledger::to_text(ledger.rows(), 10000));
  }
  REQUIRE(all.size() == 3);
  const Ledger::Row& bcast = all[key(Pattern::bcast, 2, "binomial")];
  CHECK(bcast.calls == 20);
  CHECK(bcast.bytes == 2000);
  CHECK(bcast.medians / bcast.reporters == Approx(1000).epsilon(0.04));
  CHECK(all[key(Pattern::allreduce, 4, "node")].calls == 1);
  CHECK(all[key(Pattern::allreduce, 4, "")].medians == 0);
}

TEST_CASE("where there is no room for all lines, those of short times are left out") {
  Ledger ledger;
  ledger.note(key(Pattern::bcast, 2, "binomial"), 1, 10);
  ledger.note(key(Pattern::bcast, 3, "binomial"), 1, 1000);
  Ledger::Rows rows;
  Ledger::add(rows, Ledger::to_text(ledger.rows(), 100));
  REQUIRE(rows.size() == 1);
  CHECK(rows.begin()->first.ranks == 3);
}

TEST_CASE("lines of others are taken whole or not at all") {
  Ledger ledger;
  ledger.note(key(Pattern::scan, 3, "chain"), 64, 1000);
  const std::string good = Ledger::to_text(ledger.rows(), 1000);
  std::mt19937 random(9);
  for (int round = 0; round < 20000; ++round) {
    std::string line = good;
    for (int n = static_cast<int>(random() % 3); n >= 0; --n) line[random() % line.size()] = static_cast<char>(random());
    if (random() % 2) line.resize(random() % (line.size() + 1));
    Ledger::Rows rows;
    Ledger::add(rows, line);
    for (const auto& [k, row] : rows) {
      CHECK(static_cast<int>(k.pattern) < kPatterns);
      CHECK(k.ranks > 0);
    }
    (void)describe(rows, {}, "");
  }
}

TEST_CASE("what the model expects stands where it knows it") {
  CHECK(expected(key(Pattern::allreduce, 8, "ring"), {.calls = 1, .bytes = 64}, {}) > 0);
  CHECK_FALSE(expected(key(Pattern::allreduce, 8, "node"), {.calls = 1, .bytes = 64}, {}));
  Ledger::Key far = key(Pattern::allreduce, 8, "ring");
  far.hosts = 4;
  CHECK(*expected(far, {.calls = 1, .bytes = 64}, {}) > *expected(key(Pattern::allreduce, 8, "ring"), {.calls = 1, .bytes = 64}, {}));
  far.hosts = 9;
  CHECK_FALSE(expected(far, {.calls = 1, .bytes = 64}, {}));
  Ledger::Key switched = key(Pattern::bcast, 4, "two_level_pipeline");  // it went by switches, of which the model's shape has none
  switched.hosts = 4;
  CHECK_FALSE(expected(switched, {.calls = 1, .bytes = 64}, {}));
}

namespace {

/// Calls of six barriers of three ranks and one that is started, by what they ran by.
std::map<std::string, double> barriers_noted() {
  std::vector<Ledger> ledgers(3);
  const std::string wrong = on_ranks(3, [&](RankWorld& w) -> std::string {
    const TeamStatePtr state = attach(w.team, &ledgers[static_cast<size_t>(w.rank)]);
    for (int i = 0; i < 6; ++i)
      if (run(*state, Call{})) return "a barrier fails";
    pml::Request* request = nullptr;
    if (start(*state, Call{}, &request)) return "a barrier does not start";
    w.lane.wait(*request);
    release(request);
    return "";
  });
  CHECK(wrong == "");
  Ledger::Rows all;
  for (const Ledger& ledger : ledgers) Ledger::add(all, Ledger::to_text(ledger.rows(), 10000));
  std::map<std::string, double> calls;
  for (const auto& [k, row] : all)
    calls[k.algorithm + (k.early ? " early" : "") + (k.form == Ledger::Form::nonblocking ? " started" : "")] = row.calls;
  return calls;
}

}  // namespace

TEST_CASE("what runs is noted, and why") {
  CHECK(barriers_noted() == std::map<std::string, double>{{"dissemination early", 4}, {"node", 2}, {"node started", 1}});
}

TEST_CASE("ranks that share CPUs by few have shared memory from the first call on") {
  const Believed cpus(1);
  CHECK(barriers_noted() == std::map<std::string, double>{{"node", 6}, {"node started", 1}});
}
