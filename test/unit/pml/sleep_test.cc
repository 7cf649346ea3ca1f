// Waiting: what `done` is asked, and that nobody sleeps while there is something for him.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <ctime>
#include <initializer_list>
#include <thread>
#include <vector>

#include "pml/patience.h"
#include "runtime/base/clock.h"
#include "runtime/topo/cpu_set.h"
#include "test/unit/pml/ranks.h"

using namespace weft;
using namespace weft::test;
using pml::Traffic;

namespace {

/// Waits sleep as soon as they may.
struct Sleepy {
  Sleepy() { set("0"); }
  ~Sleepy() { set("-1"); }
  static void set(const char* microseconds) { config::find("WEFT_PML_SPIN")->set(microseconds, config::Origin::program); }
};

std::vector<Bed> beds() { return {{"self,shm", {}, true}, {"self,tcp", {}, true}, {"thread", {}}}; }

}  // namespace

TEST_CASE("patience: as many looks as have helped lately, and now and then as many as can", "[sleep]") {
  pml::Patience patience(4, 100);
  CHECK(patience.looks() == 4);
  patience.helped(0);
  CHECK(patience.looks() == 4);
  patience.helped(30);
  CHECK(patience.looks() == 60);
  patience.helped(90);
  CHECK(patience.looks() == 100);
  for (int i = 0; i < 40; ++i) patience.failed();
  int all = 0, few = 0;
  for (int i = 0; i < 1000; ++i) {
    const int looks = patience.looks();
    all += looks == 100;
    few += looks == 4;
  }
  CHECK(all + few == 1000);
  CHECK((all > 5 && all < 50));

  pml::Patience fresh(1, 100);
  std::vector<int> tried;
  for (int i = 1; i <= 200; ++i)
    if (fresh.looks() == 100) tried.push_back(i);
  CHECK(tried == std::vector<int>{4, 8, 16, 32, 64, 128, 192});

  pml::Patience hasty(1, 100, 2);
  hasty.helped(40);
  hasty.failed();
  CHECK(hasty.looks() == 40);
  for (int i = 0; i < 6; ++i) hasty.failed();
  CHECK(hasty.looks() == 1);
}

TEST_CASE("glances: sooner where those waited for were seen to have left their CPU", "[sleep]") {
  pml::Glances glances;
  const auto first = [&] {
    int idle = 1;
    while (!glances.due(idle)) ++idle;
    return idle;
  };
  const int usual = first();
  CHECK(usual > 1);
  CHECK(glances.due(usual + pml::Glances::kEvery));
  glances.saw(true);
  CHECK(first() == 1);
  glances.saw(false);
  CHECK(first() == usual);
}

TEST_CASE("rivalry: seen by two yields in a row that took several times as long as others do", "[sleep]") {
  pml::Rivalry rivalry;
  const auto yield = [&](std::initializer_list<uint64_t> times) {
    for (const uint64_t ns : times) rivalry.yielded(ns);
    return rivalry.seen();
  };
  CHECK(yield({1300, 1300}));  // nobody has seen it quick yet
  CHECK_FALSE(yield({200}));
  CHECK_FALSE(yield({1300}));
  CHECK_FALSE(yield({300, 1300, 500}));
  CHECK(yield({700, 700}));
  CHECK(yield({2000}));
  CHECK_FALSE(yield({200}));

  CHECK(rivalry.proven(3));
  CHECK_FALSE(rivalry.proven(3));
  CHECK(rivalry.proven(4));
}

// A matched probe takes its message when it says that there is one.
TEST_CASE("who waits is not asked again after saying that the wait is over") {
  const Sleepy sleepy;
  run_ranks(1, beds().front(), true, [](Rank& me) {
    struct Asked {
      uint64_t until;
      bool over = false;
      int again = 0;
    };
    const auto is_over = [](void* argument) {
      Asked& a = *static_cast<Asked*>(argument);
      a.again += a.over;
      return a.over = a.over || now_ns() >= a.until;
    };
    // the first sleep comes after a time that depends on how crowded the node is
    for (uint64_t wait_ns = 0; wait_ns < 1'000'000; wait_ns += 5'000) {
      Asked asked{now_ns() + wait_ns};
      NEED(me.lane.wait_silent(is_over, &asked) == Status::ok);
      NEED(asked.again == 0);
    }
  });
}

TEST_CASE("matched probes of several threads take each message once") {
  const Sleepy sleepy;
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      run_ranks(2, bed, true, [](Rank& me) {
        constexpr int threads = 3, count = 60;
        const int other = 1 - static_cast<int>(me.rank);
        std::atomic<int> wrong{0};
        std::vector<std::thread> all;
        for (int t = 0; t < threads; ++t)
          all.emplace_back([&, t] {
            for (int i = 0; i < count; ++i) {
              const int mine = t * 1000 + i;
              int got = -1;
              pml::Message* message = nullptr;
              pml::Outcome outcome;
              if (me.lane.send(me.world, other, t, Traffic::user, bytes(&mine, sizeof mine)) != Status::ok) ++wrong;
              if (me.lane.match(me.world, other, t, message, outcome) != Status::ok) ++wrong;
              pml::Request* r = me.lane.ireceive(message, bytes(&got, sizeof got));
              if (me.lane.wait(*r) != Status::ok || got != mine) ++wrong;
              release(r);
            }
          });
        for (auto& t : all) t.join();
        NEED(wrong == 0);
      });
    }
  }
}

// A sleep that nobody ends takes 100 ms. Of several batches of messages the quickest counts, since the machine may be busy.
TEST_CASE("a thread that sleeps is woken by what another one sends to the own process") {
  const Sleepy sleepy;
  run_ranks(1, beds().front(), true, [](Rank& me) {
    constexpr int batches = 8, count = 10;
    constexpr auto asleep = std::chrono::microseconds(500);
    std::atomic<int> received{0};
    std::thread receiver([&] {
      for (int i = 0; i < batches * count; ++i) {
        int got = -1;
        pml::Outcome outcome;
        if (me.lane.receive(me.world, 0, 1, Traffic::user, bytes(&got, sizeof got), outcome) != Status::ok || got != i) abort();
        received = i + 1;
      }
    });
    uint64_t quickest = ~uint64_t{0};
    for (int batch = 0; batch < batches; ++batch) {
      const uint64_t begin = now_ns();
      for (int i = batch * count; i < (batch + 1) * count; ++i) {
        std::this_thread::sleep_for(asleep);
        if (me.lane.send(me.world, 0, 1, Traffic::user, bytes(&i, sizeof i)) != Status::ok) abort();
        while (received <= i) std::this_thread::sleep_for(asleep / 10);  // makes no progress itself
      }
      quickest = std::min(quickest, now_ns() - begin);
    }
    receiver.join();
    NEED(quickest < count * uint64_t{50'000'000});
  });
}

namespace {

/// The first of two ranks that share a CPU, by itself.
struct Crowded {
  boot::Fake job = boot::open_fake_job(2, 1, {}, 1);
  std::unique_ptr<pml::Lane> lane = std::move(*open_lane({"thread", {}}, std::make_shared<Post>(2, Abilities{}), *job.ranks[0], false));
  /// Waits until `told`, again and again: on a busy machine a wait yields a few times only before it naps.
  bool learns(const bool& told) {
    const uint64_t begin = now_ns();
    while (!told && now_ns() - begin < 10'000'000'000)
      if (lane->wait_for([](void* t) { return *static_cast<const bool*>(t); }, const_cast<bool*>(&told), 20'000'000) == Status::ok) break;
    return told;
  }
};

}  // namespace

TEST_CASE("where ranks share a CPU, whom a wait is for is told what is lent, and all of the node if they are known") {
  struct Some final : pml::Company {
    bool told = false;
    bool lends(uint32_t, uint64_t) override { return told = true; }
  } some;
  struct All final : pml::Household {
    bool lent = false, slept = false;
    void lends(uint32_t, topo::Ties ties, uint64_t) override { lent = !ties.leaves && !ties.apart; }
    void sleeps() override { slept = lent; }
    topo::Place way_out(topo::Ties, std::span<const uint32_t>, uint64_t) override { return {}; }
  } all;
  Crowded rank;
  pml::Watch place;
  place.look = [](pml::Watch&) { return 0; };
  place.company = &some;
  rank.lane->watch(place);
  CHECK(rank.learns(some.told));

  const pml::Team both(*rank.lane, 8, std::make_shared<const pml::Members>(pml::Members::range(0, 2)), 0);
  rank.lane->joins(all, both);
  some.told = false;
  CHECK(rank.learns(all.slept));
  CHECK_FALSE(some.told);
  rank.lane->unwatch(place);
  all.slept = all.lent = false;
  CHECK(rank.learns(all.slept));  // for messages

  rank.lane->leaves(all);
  all.lent = false;
  bool never = false;
  CHECK(rank.lane->wait_for([](void* t) { return *static_cast<bool*>(t); }, &never, 20'000'000) == Status::again);
  CHECK_FALSE(all.lent);
}

TEST_CASE("who is woken between its last look and its sleep does not sleep") {
  struct Caller final : pml::Company {
    mutable bool has_called = false;
    bool lies_down(bool) override { return true; }
    bool is_woken() const override { return has_called = true; }
  } caller;
  struct Place final : pml::Watch {
    const Caller& caller;
    bool over = false;
    explicit Place(Caller& c) : caller(c) {
      company = &c;
      look = [](pml::Watch& w) {
        auto& place = static_cast<Place&>(w);
        return int{place.over = place.caller.has_called};
      };
    }
  } place(caller);
  Crowded rank;
  rank.lane->watch(place);
  CHECK(rank.lane->wait_for([](void* p) { return static_cast<Place*>(p)->over; }, &place, 10'000'000'000) == Status::ok);
  CHECK(rank.lane->counters().sleeps == 0);
  rank.lane->unwatch(place);
}

namespace {

/// The CPU time of this thread.
uint64_t worked_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

/// Binds this thread to the first CPU that it may use.
bool share_a_cpu() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(topo::CpuSet::of_this_thread().cpus().front(), &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

/// From rank 0 to rank 1, and back.
bool goes_to_and_fro(Rank& me, int number) {
  const auto other = static_cast<int>(1 - me.rank);
  const auto sends = [&] { return me.lane.send(me.world, other, 1, Traffic::user, bytes(&number, sizeof number)) == Status::ok; };
  if (me.rank == 0 && !sends()) return false;
  int got = -1;
  pml::Outcome outcome;
  if (me.lane.receive(me.world, other, 1, Traffic::user, bytes(&got, sizeof got), outcome) != Status::ok || got != number) return false;
  return me.rank == 0 || sends();
}

}  // namespace

// As ranks of other jobs and containers do, and threads of one rank.
TEST_CASE("who shares a CPU with somebody that it does not know of soon leaves it while it waits", "[more]") {
  run_ranks(2, beds().front(), false, [](Rank& me) {
    NEED(share_a_cpu());
    constexpr int rounds = 20, messages = 20;
    uint64_t least = ~uint64_t{0};  // of a round: there are some in which nobody else wants this CPU
    for (int round = 0; round < rounds; ++round) {
      const uint64_t begin = worked_ns();
      for (int i = 0; i < messages; ++i) NEED(goes_to_and_fro(me, i));
      least = std::min(least, worked_ns() - begin);
    }
    // who believes in its own CPU spins for 200 us before it looks whether others want it
    NEED(least < messages * uint64_t{100'000});
  });
}
