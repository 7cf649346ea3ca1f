// Every algorithm's schedules, checked symbolically; and the checker, shown to catch seeded mistakes.
#include <catch2/catch.hpp>
#include <initializer_list>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "coll/hosts.h"
#include "test/unit/coll/checker.h"

using namespace weft::coll;
using weft::coll::check::Question;
using weft::coll::check::verdict;

namespace {

/// Those among neighbours have a test of their own.
std::vector<Algorithm> on_all_ranks() {
  std::vector<Algorithm> found;
  for (const Algorithm& a : algorithms())
    if (!among_neighbors(a.pattern)) found.push_back(a);
  return found;
}

bool rooted(Pattern p) { return p == Pattern::bcast || p == Pattern::gather || p == Pattern::scatter || p == Pattern::reduce; }
bool has_in_place(Pattern p) { return p != Pattern::barrier && p != Pattern::bcast && p != Pattern::alltoall; }

std::vector<Rank> roots(Pattern p, int32_t size) {
  if (!rooted(p)) return {0};
  std::vector<Rank> all;
  for (Rank r = 0; r < size; r += size <= 17 ? 1 : 23) all.push_back(r);
  return all;
}

using Layout = std::unique_ptr<const Hosts>;

/// Ranks on hosts, and hosts behind switches: in blocks, dealt out, and in no order at all.
std::vector<Layout> layouts(int32_t size) {
  std::vector<Layout> all;
  std::minstd_rand random(static_cast<unsigned>(size));
  // `above`: by host (or switch), where it hangs: 0: of no interest
  const auto add = [&](auto host_of, std::initializer_list<int32_t (*)(int32_t)> above = {}) {
    std::vector<std::vector<int32_t>> groups(1);
    for (Rank r = 0; r < size; ++r) groups[0].push_back(static_cast<int32_t>(host_of(r)));
    for (int32_t (*const switch_of)(int32_t) : above) {
      std::vector<int32_t> next;
      for (const int32_t g : groups.back()) next.push_back(switch_of(g));
      groups.push_back(next);
    }
    if (Layout made = Hosts::of(groups)) all.push_back(std::move(made));
  };
  const auto half = +[](int32_t g) { return g / 2; };
  const auto third = +[](int32_t g) { return g / 3; };
  const auto even_or_odd = +[](int32_t g) { return g % 2; };
  for (const int32_t each : {2, 3, 4, 8}) add([&](Rank r) { return r / each; });
  for (const int32_t count : {2, 3}) {
    add([&](Rank r) { return r * count / size; });
    add([&](Rank r) { return r % count; });
    add([&](Rank) { return random() % static_cast<unsigned>(count); });
  }
  add([](Rank r) { return r; }, {half});
  add([](Rank r) { return r; }, {even_or_odd});
  add([](Rank r) { return r; }, {third, half});
  for (const int32_t each : {1, 2}) {
    add([&](Rank r) { return r / each; }, {half, half});
    add([&](Rank r) { return r / each; }, {third});
    add([&](Rank r) { return r / each; }, {even_or_odd});
  }
  add([&](Rank r) { return r % std::max(size / 2, 1); }, {third});
  add([](Rank r) { return r * 7 % 5; }, {half});
  return all;
}

/// Calls `visit` with every sensible question about an algorithm on `size` ranks on these hosts.
template <class Visit>
void questions(const Algorithm& a, int32_t size, const Hosts* hosts, Visit visit) {
  for (Rank root : roots(a.pattern, size)) {
    for (bool commutative : {true, false}) {
      if (!commutative && !reduces(a.pattern)) continue;
      for (bool in_place : {false, true}) {
        if (in_place && !has_in_place(a.pattern)) continue;
        for (int32_t segments : {1, 2, 3, 7}) {
          if (segments > 1 && !a.segmented) continue;
          Question q{a.pattern, size, {root, commutative, in_place, segments}, a.uneven, nullptr, hosts};
          if (a.usable({.hosts = hosts}, size, q.parameters, false)) visit(q);
        }
      }
    }
  }
}

/// The same on hosts of all kinds, where that matters to it.
template <class Visit>
void questions(const Algorithm& a, int32_t size, Visit visit) {
  if (!a.spans) questions(a, size, nullptr, visit);
  if (a.spans || a.goes_by_hosts)
    for (const Layout& hosts : layouts(size)) questions(a, size, hosts.get(), visit);
}
std::vector<Schedule> build_all(const Algorithm& a, const Question& q) {
  std::vector<Schedule> all;
  for (Rank r = 0; r < q.size; ++r) all.push_back(a.build({.hosts = q.hosts}, r, q.size, q.parameters));
  return all;
}

}  // namespace

/// On so many ranks; each algorithm answers so many questions there at least.
void check_algorithms(int32_t least, int32_t most, int questions_at_least) {
  for (const Algorithm& a : on_all_ranks()) {
    int all_asked = 0;
    for (int32_t size = least; size <= most; ++size) {
      int asked = 0;
      questions(a, size, [&](const Question& q) {
        ++asked;
        const std::string wrong = verdict(a, q);
        if (!wrong.empty()) FAIL_CHECK(wrong);
      });
      if (!a.fits && !a.spans) CHECK(asked > 0);
      all_asked += asked;
    }
    CHECK(all_asked >= questions_at_least);
  }
}

TEST_CASE("every algorithm does what the standard says, on any number of ranks", "[serial]") { check_algorithms(1, 9, 6); }
TEST_CASE("and on some more", "[serial][more]") { check_algorithms(10, 17, 2); }
TEST_CASE("and on some larger ones", "[serial][more]") {
  for (const Algorithm& a : on_all_ranks()) {
    for (int32_t size : {24, 33, 64}) {
      questions(a, size, [&](const Question& q) {
        const bool few = q.size == 64 && a.name == std::string_view("linear");
        if (q.parameters.segments == 2 || q.parameters.segments == 7 || (few && q.parameters.root > 0)) return;
        const std::string wrong = verdict(a, q);
        if (!wrong.empty()) FAIL_CHECK(wrong);
      });
    }
  }
}

TEST_CASE("schedules stay short on many ranks", "[serial]") {
  for (const Algorithm& a : on_all_ranks()) {
    Parameters p{.segments = 1000};
    std::vector<int32_t> host_of(65536);
    for (size_t r = 0; r < host_of.size(); ++r) host_of[r] = static_cast<int32_t>(r / 64);
    const Hosts hosts(host_of);
    const Schedule s = a.build({.hosts = &hosts}, 100, 65536, p);
    INFO(a.name);
    CHECK(s.steps.size() < 200);
  }
}

namespace {

/// Blocks times hosts on their ways, of all messages, where rank r is host r of a ring.
int64_t blocks_on_a_ring(const char* name, int32_t size) {
  const Algorithm& a = *find_algorithm(Pattern::allreduce, name);
  int64_t sum = 0;
  for (Rank r = 0; r < size; ++r)
    for (const Step& s : a.build({}, r, size, {}).steps)
      if (s.kind == StepKind::send) sum += int64_t{s.blocks} * std::min(wrap(s.peer - r, size), wrap(r - s.peer, size));
  return sum;
}

}  // namespace

TEST_CASE("Swing's partners", "[serial]") {
  constexpr int32_t kSize = 64;
  constexpr int32_t kDistances[] = {1, -1, 3, -5, 11, -21};
  const Algorithm& swing = *find_algorithm(Pattern::allreduce, "swing");
  for (const Rank r : {0, 1, 22, 63}) {
    std::vector<Rank> there, peers;
    for (const int32_t d : kDistances) there.push_back(wrap(r % 2 ? r - d : r + d, kSize));
    std::vector<Rank> both = there;  // the allgather goes back the way of the reduce-scatter
    both.insert(both.end(), there.rbegin(), there.rend());
    for (const Step& s : swing.build({}, r, kSize, {}).steps)
      if (s.kind == StepKind::send) peers.push_back(s.peer);
    CHECK(peers == both);
  }
  for (const int32_t size : {4, 13, 24, 48}) CHECK(blocks_on_a_ring("swing", size) < blocks_on_a_ring("rabenseifner", size));
  for (const int32_t size : {8, 64, 1024}) CHECK(4 * blocks_on_a_ring("swing", size) <= 3 * blocks_on_a_ring("rabenseifner", size));
}

TEST_CASE("the checker notices a missing step", "[serial][more]") {
  int tried = 0;
  for (const Algorithm& a : on_all_ranks()) {
    for (int32_t size : {2, 5, 8}) {
      questions(a, size, [&](const Question& q) {
        const auto good = build_all(a, q);
        for (Rank r = 0; r < size; ++r) {
          for (size_t i = 0; i < good[r].steps.size(); ++i) {
            // In place, a copy may bring back what is there already.
            if (good[r].steps[i].kind == StepKind::copy && q.parameters.in_place) continue;
            auto bad = good;
            bad[r].steps[i].repeat = 0;  // the step is there no more
            ++tried;
            if (verdict(q, bad).empty()) FAIL_CHECK(a.name << ": step " << i << " of rank " << r << " of " << size << " is not missed");
          }
        }
      });
    }
  }
  CHECK(tried > 1000);
}

TEST_CASE("the checker notices operands in the wrong order", "[serial][more]") {
  int tried = 0;
  for (const Algorithm& a : on_all_ranks()) {
    if (!reduces(a.pattern) || a.commutative) continue;
    const int32_t size = 6;
    questions(a, size, [&](const Question& q) {
      if (q.parameters.commutative) return;
      const auto good = build_all(a, q);
      for (Rank r = 0; r < size; ++r) {
        for (size_t i = 0; i < good[r].steps.size(); ++i) {
          auto bad = good;
          Step& step = bad[r].steps[i];
          if (step.kind != StepKind::combine) continue;
          std::swap(step.a, step.b);
          ++tried;
          if (verdict(q, bad).empty()) FAIL_CHECK(a.name << ": step " << i << " of rank " << r);
        }
      }
    });
  }
  CHECK(tried > 50);
}

TEST_CASE("the checker notices wrong peers, blocks and sizes", "[serial][more]") {
  int tried = 0;
  for (const Algorithm& a : on_all_ranks()) {
    const int32_t size = 4;
    questions(a, size, [&](const Question& q) {
      const auto good = build_all(a, q);
      for (Rank r = 0; r < size; ++r) {
        for (size_t i = 0; i < good[r].steps.size(); ++i) {
          const bool message = good[r].steps[i].kind == StepKind::send || good[r].steps[i].kind == StepKind::receive;
          if (!message) continue;
          auto bad = good;
          bad[r].steps[i].peer = wrap(bad[r].steps[i].peer + 1, size);
          ++tried;
          if (verdict(q, bad).empty()) FAIL_CHECK(a.name << ": peer of step " << i << " of rank " << r);
          bad = good;
          bad[r].steps[i].blocks += 1;
          if (verdict(q, bad).empty()) FAIL_CHECK(a.name << ": size of step " << i << " of rank " << r);
          if (good[r].blocks == 1 || good[r].steps[i].repeat > 1) continue;
          bad = good;
          bad[r].steps[i].a.block = wrap(bad[r].steps[i].a.block + 1, good[r].blocks);
          if (q.uneven && verdict(q, bad).empty()) FAIL_CHECK(a.name << ": block of step " << i << " of rank " << r);
        }
      }
    });
  }
  CHECK(tried > 100);
}

TEST_CASE("the checker notices races and deadlocks", "[serial][more]") {
  // Both wait for the other's message before they send their own.
  auto waits_first = [](Rank me) {
    Builder b(2);
    b.copy({buffer_in, me}, {buffer_out, me}).next();
    b.receive(1 - me, {buffer_out, 1 - me}).next().send(1 - me, {buffer_out, me});
    return b.done();
  };
  const Question q{Pattern::allgather, 2, {}, false};
  CHECK(verdict(q, {waits_first(0), waits_first(1)}).find("deadlock") != std::string::npos);
  // Both send first: fine with buffering, but not if a send waits for its receive.
  auto sends_first = [](Rank me) {
    Builder b(2);
    b.copy({buffer_in, me}, {buffer_out, me}).next();
    b.send(1 - me, {buffer_out, me}).next().receive(1 - me, {buffer_out, 1 - me});
    return b.done();
  };
  CHECK(verdict(q, {sends_first(0), sends_first(1)}).find("deadlock") != std::string::npos);
  // The send may leave before the copy that it needs.
  auto hurries = [](Rank me) {
    Builder b(2);
    b.copy({buffer_in, me}, {buffer_out, me});
    b.send(1 - me, {buffer_out, me}).receive(1 - me, {buffer_out, 1 - me});
    return b.done();
  };
  CHECK_FALSE(verdict(q, {hurries(0), hurries(1)}).empty());
  // In place, the receive overwrites what is being sent.
  auto clobbers = [](Rank me) {
    Builder b(1);
    b.send(1 - me, {buffer_in, 0}).receive(1 - me, {buffer_out, 0});
    return b.done();
  };
  CHECK(verdict({Pattern::allreduce, 2, {.in_place = true}, false}, {clobbers(0), clobbers(1)}).find("race") != std::string::npos);
}
