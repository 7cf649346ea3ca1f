// Refinement on the way: what is tried how often, what it finds, and that ranks decide alike.
#include "coll/refine.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "coll/ledger.h"
#include "include/mpi.h"
#include "runtime/type/predefined.h"
#include "test/unit/coll/world.h"
#include "test/unit/setting.h"

using namespace weft;
using namespace weft::coll;

namespace {

Choice named(const char* name) { return {.algorithm = find_algorithm(Pattern::allreduce, name)}; }

/// Calls that take as long as `ns` says, by contender. How often each ran.
std::vector<int> calls(Refinement& r, int count, const std::vector<uint64_t>& ns) {
  std::vector<int> ran(ns.size());
  for (int i = 0; i < count; ++i) {
    const size_t number = r.number();
    ++ran[number];
    r.ran(ns[number]);
    if (r.round_over()) r.settle();
  }
  return ran;
}

std::vector<Choice> four() { return {named("ring"), named("recursive_doubling"), named("rabenseifner"), named("swing")}; }

}  // namespace

TEST_CASE("refinement finds what is faster, and seldom runs what is not") {
  Refinement r(four());
  const auto ran = calls(r, 2000, {1000, 800, 5000, 970});
  CHECK(r.over());
  CHECK(r.number() == 1);
  CHECK(ran[2] == 3 * Refinement::kTrial);  // a turn that does not count, and two that say enough
  CHECK(ran[3] == (1 + Refinement::kRounds) * Refinement::kTrial);
  CHECK(ran[0] < 1100);
  CHECK(calls(r, 1000, {1, 800, 1, 1}) == std::vector<int>{0, 1000, 0, 0});  // for good
}

TEST_CASE("the usual choice stays unless another is clearly ahead") {
  Refinement r(four());
  calls(r, 2000, {1000, 970, 1500, 980});
  CHECK(r.over());
  CHECK(r.number() == 0);
  Refinement alone({named("ring")});
  CHECK(alone.over());
  CHECK(calls(alone, 100, {1000}) == std::vector<int>{100});
  Refinement bad(four());
  const auto ran = calls(bad, 1000, {1000, 3000, 3000, 3000});  // over as soon as nothing is left
  CHECK(bad.over());
  CHECK(ran == std::vector<int>{973, 9, 9, 9});
}

TEST_CASE("a call that was interrupted does not decide") {
  Refinement r(four());
  std::mt19937 random(3);
  for (int i = 0; !r.over(); ++i) {
    REQUIRE(i < 5000);
    const std::array<uint64_t, 4> ns = {1000, 800, 1600, 1600};
    const bool interrupted = r.trying() && r.number() == 1 && random() % 10 == 0;
    r.ran(interrupted ? 1900 : ns[r.number()]);
    if (r.round_over()) r.settle();
  }
  CHECK(r.number() == 1);
}

TEST_CASE("contenders are what the model expects to be nearly as good") {
  const Agreed a{.pattern = Pattern::allreduce, .size = 8, .hosts = 8, .bytes = 16384};
  const auto all = contenders(a, {});
  REQUIRE(all.size() > 1);
  CHECK(all.size() <= 4);
  CHECK(all.front().algorithm == choose(a, {}, {}).algorithm);
  std::set<const Algorithm*> different;
  for (const Choice& c : all) different.insert(c.algorithm);
  CHECK(different.size() == all.size());
  Agreed other = a;
  other.hosts = 1;
  CHECK(contenders(other, {}).size() == 1);  // the model knows nothing of shared memory
  other = a;
  other.uneven = true;
  CHECK(contenders(other, {}).size() == 1);
}

TEST_CASE("ranks refine alike, and results stay right") {
  const Setting on("WEFT_COLL_REFINE", "yes");
  for (const uint32_t size : {4u, 7u}) {
    Ledger ledger;
    const auto body = [&](RankWorld& me) -> std::string {
      auto members = std::make_shared<const pml::Members>(pml::Members::range(0, size));
      pml::Team team(me.lane, pml::Context{16}, members, static_cast<uint32_t>(me.rank));
      const TeamStatePtr state = attach(team, &ledger);
      std::vector<int32_t> mine(100), sum(100);
      for (int i = 0; i < 1500; ++i) {
        std::iota(mine.begin(), mine.end(), me.rank + i);
        Call c;
        c.what = Collective::allreduce;
        c.in = mine.data();
        c.out = sum.data();
        c.in_count = c.out_count = 100;
        c.in_type = c.out_type = &type::of(type::Basic::int32);
        c.op = op::predefined(reinterpret_cast<uintptr_t>(MPI_SUM));
        if (coll::run(*state, c)) return "an allreduce failed";
        const auto n = static_cast<int32_t>(size);
        for (int32_t k = 0; k < 100; ++k)
          if (sum[static_cast<size_t>(k)] != n * (i + k) + n * (n - 1) / 2) return "a sum is wrong";
        c = {};
        c.what = Collective::bcast;
        c.root = i % n;
        c.out = mine.data();
        c.out_count = 100;
        c.out_type = &type::of(type::Basic::int32);
        if (coll::run(*state, c)) return "a broadcast failed";
        if (mine[7] != i % n + i + 7) return "a broadcast is wrong";
      }
      return {};
    };
    CHECK(on_ranks(size, body, size) == "");
    double tried = 0, all = 0;
    for (const auto& [key, row] : ledger.rows()) {
      all += row.calls;
      if (key.by == By::refined && key.early) tried += row.calls;
      CHECK(row.calls == Approx(std::round(row.calls)));  // all ranks have run the same
    }
    CHECK(all == Approx(3000));
    CHECK(tried > 0);
    CHECK(tried < 3000.0 / 16);
  }
}
