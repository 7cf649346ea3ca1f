// Several lanes in a process, and different numbers of them in the processes of one job.
#include "pml/lanes.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <set>

#include "include/mpi.h"
#include "pml/buffered.h"
#include "runtime/boot/fake.h"
#include "test/unit/pml/ranks.h"

using namespace weft;
using namespace weft::test;
using pml::Traffic;

namespace {

/// What a rank's body sees: teams of all ranks, on consecutive contexts.
struct Seat {
  pml::Lanes& lanes;
  std::vector<std::unique_ptr<pml::Team>> teams;
  uint32_t rank, size;
};

/// Runs `body` on as many ranks as there are numbers of lanes; throws what the first failing rank threw.
void run_lanes(const std::vector<uint32_t>& lanes, uint32_t teams, bool closes, const std::function<void(Seat&, boot::FakeJob&)>& body) {
  const auto size = static_cast<uint32_t>(lanes.size());
  auto fake = boot::open_fake_job(size);
  std::vector<std::thread> ranks;
  std::vector<std::string> complaints(size);
  for (uint32_t r = 0; r < size; ++r)
    ranks.emplace_back([&, r] {
      try {
        auto opened = pml::Lanes::open_many(*fake.ranks[r], true, lanes[r]);
        if (!opened) throw std::runtime_error(opened.failure().text);
        NEED((*opened)->all().size() == lanes[r]);
        NEED(fake.ranks[r]->fence(true));
        Seat me{**opened, {}, r, size};
        auto everyone = std::make_shared<const pml::Members>(pml::Members::range(0, size));
        for (uint32_t t = 1; t <= teams; ++t) me.teams.push_back(std::make_unique<pml::Team>((*opened)->at(t * 8), t * 8, everyone, r));
        body(me, *fake.job);
        if (closes) NEED((*opened)->close() == Status::ok);
        me.teams.clear();
      } catch (const std::exception& e) {
        complaints[r] = "rank " + std::to_string(r) + ": " + e.what();
        fake.ranks[r]->abort(1, complaints[r]);
        fprintf(stderr, "%s\n", complaints[r].c_str());
      }
    });
  for (auto& t : ranks) t.join();
  for (auto& c : complaints)
    if (!c.empty()) throw std::runtime_error(c);
}

/// Sends around the ring on one team; sizes from one cell to several rendezvous.
void go_round(Seat& me, pml::Team& team, uint32_t salt) {
  pml::Lane& lane = team.lane();
  const int right = static_cast<int>((me.rank + 1) % me.size), left = static_cast<int>((me.rank + me.size - 1) % me.size);
  for (uint32_t n : {0u, 1u, 40u, 1000u, 70000u, 300000u, 5u}) {
    std::vector<uint8_t> out(n, static_cast<uint8_t>(me.rank * 16 + salt)), in(n + 1);
    pml::Request* coming = lane.ireceive(team, n % 3 ? left : pml::any_source, 7, Traffic::user, bytes(in.data(), n));
    NEED(lane.send(team, right, 7, Traffic::user, bytes(out.data(), n)) == Status::ok);
    NEED(lane.wait(*coming) == Status::ok);
    NEED(coming->outcome.error == 0);
    NEED(coming->outcome.source == left);
    NEED(coming->outcome.bytes == n);
    for (uint32_t i = 0; i < n; ++i) NEED(in[i] == static_cast<uint8_t>(static_cast<uint32_t>(left) * 16 + salt));
    release(coming);
  }
}

}  // namespace

TEST_CASE("threads on their own teams meet, whatever numbers of lanes the processes have") {
  for (const std::vector<uint32_t>& lanes : {std::vector<uint32_t>{1, 1}, {2, 2, 2}, {1, 4, 3}, {5, 2}}) {
    run_lanes(lanes, 4, true, [](Seat& me, boot::FakeJob&) {
      std::vector<std::thread> threads;
      std::vector<std::string> complaints(me.teams.size());
      for (uint32_t t = 0; t < me.teams.size(); ++t)
        threads.emplace_back([&, t] {
          try {
            for (int again = 0; again < 3; ++again) go_round(me, *me.teams[t], t);
          } catch (const std::exception& e) {
            complaints[t] = e.what();
          }
        });
      for (auto& t : threads) t.join();
      for (auto& c : complaints)
        if (!c.empty()) throw std::runtime_error(c);
    });
  }
}

TEST_CASE("teams on consecutive contexts lie on different lanes, on all ranks alike") {
  run_lanes({3, 3}, 6, true, [](Seat& me, boot::FakeJob&) {
    for (uint32_t t = 0; t < 6; ++t) NEED(&me.teams[t]->lane() == me.lanes.all()[t % 3].get());
  });
}

TEST_CASE("a context that is to lie on a lane does, whoever leads it") {
  run_lanes({4, 4, 4}, 1, true, [](Seat& me, boot::FakeJob&) {
    std::set<pml::Context> all;
    for (uint32_t number = 0; number < 9; ++number) {
      const pml::Context context = me.lanes.all()[me.rank]->new_context(0, number);
      NEED(&me.lanes.at(context) == me.lanes.all()[number % 4].get());
      NEED(all.insert(context).second);
    }
    NEED(all.insert(me.lanes.first().new_context(0)).second);
  });
}

TEST_CASE("messages of sessions find processes that have closed their lanes and opened others") {
  constexpr pml::Context world = 8, session = 64 | pml::kSessionContext;
  const std::vector<uint32_t> lanes{1, 3, 2, 2, 4};
  const auto leaves = [](uint32_t rank) { return rank == 1 || rank == 2; };
  const auto size = static_cast<uint32_t>(lanes.size());
  auto fake = boot::open_fake_job(size);
  const auto everyone = std::make_shared<const pml::Members>(pml::Members::range(0, size));
  const auto play = [&](uint32_t r) {
    boot::Bootstrap& boot = *fake.ranks[r];
    auto opened = pml::Lanes::open_many(boot, true, lanes[r]);
    NEED(opened);
    NEED(boot.fence(true));
    const auto talk = [&](pml::Context context) {
      Seat me{**opened, {}, r, size};
      pml::Team team((*opened)->at(context), context, everyone, r);
      for (uint32_t turn = 0; turn < 3; ++turn) go_round(me, team, turn);
      NEED(boot.fence(true));
    };
    talk(world);
    const ProcessId right{0, (r + 1) % size};
    const auto nothing = (*opened)->openings().look(right);
    NEED(nothing && !*nothing);
    NEED(boot.fence(true));
    if (leaves(r)) {
      NEED((*opened)->close() == Status::ok);
      opened = pml::Lanes::open_many(boot, true, lanes[r], true);
      NEED(opened);
    }
    NEED((*opened)->openings().publish());
    for (const pml::Context number : {0, 8, 16, 24}) talk(session + number);
    NEED((*opened)->openings().known(right) == (leaves(right.rank) ? kMostLanes : 0));
    NEED((*opened)->close() == Status::ok);
  };
  std::vector<std::thread> ranks;
  std::atomic<int> failed{0};
  for (uint32_t r = 0; r < size; ++r)
    ranks.emplace_back([&, r] {
      try {
        play(r);
      } catch (const std::exception& e) {
        fprintf(stderr, "rank %u: %s\n", r, e.what());
        ++failed;
        fake.ranks[r]->abort(1, e.what());
      }
    });
  for (auto& t : ranks) t.join();
  CHECK(failed == 0);
}

TEST_CASE("who waits on one lane looks after the others") {
  // Rank 0 has announced a large message on one team and waits on another; rank 1 takes the large one first.
  for (const std::vector<uint32_t>& lanes : {std::vector<uint32_t>{2, 2}, {4, 1}})
    run_lanes(lanes, 2, true, [](Seat& me, boot::FakeJob&) {
      pml::Team &first = *me.teams[0], &second = *me.teams[1];
      std::vector<uint8_t> large(3 << 20, 42);
      pml::Outcome outcome;
      if (me.rank == 0) {
        pml::Request* going = first.lane().isend(first, 1, 1, Traffic::user, bytes(large.data(), large.size()));
        NEED(second.lane().receive(second, 1, 2, Traffic::user, pml::Buffer{nullptr, 0, &type::of(type::Basic::byte)}, outcome) ==
             Status::ok);
        NEED(first.lane().wait(*going) == Status::ok);
        release(going);
      } else {
        large.assign(large.size(), 0);
        NEED(first.lane().receive(first, 0, 1, Traffic::user, bytes(large.data(), large.size()), outcome) == Status::ok);
        NEED(large.front() == 42);
        NEED(large.back() == 42);
        NEED(second.lane().send(second, 0, 2, Traffic::user, pml::Buffer{nullptr, 0, &type::of(type::Basic::byte)}) == Status::ok);
      }
    });
}

TEST_CASE("who only asks on one lane looks after the others too") {
  // As above, but rank 0 does not wait: it asks by probes and by rounds of progress in turn.
  for (const std::vector<uint32_t>& lanes : {std::vector<uint32_t>{2, 2}, {4, 3}})
    for (const int way : {0, 1, 2, 3})
      run_lanes(lanes, 2, true, [way](Seat& me, boot::FakeJob&) {
        pml::Team &first = *me.teams[0], &second = *me.teams[1];
        std::vector<uint8_t> large(3 << 20, 42);
        pml::Outcome outcome;
        if (me.rank == 1) {
          large.assign(large.size(), 0);
          NEED(first.lane().receive(first, 0, 1, Traffic::user, bytes(large.data(), large.size()), outcome) == Status::ok);
          NEED(large.back() == 42);
          NEED(second.lane().send(second, 0, 2, Traffic::user, bytes(large.data(), 8)) == Status::ok);
          return;
        }
        pml::Request* going = first.lane().isend(first, 1, 1, Traffic::user, bytes(large.data(), large.size()));
        pml::Lane& lane = second.lane();
        pml::Message* message = nullptr;
        while (!message && !lane.probe_now(second, way & 1 ? 1 : pml::any_source, 2, outcome)) {
          if (way & 2) lane.progress();
          message = way & 1 ? lane.match_now(second, 1, 2, outcome) : nullptr;
          std::this_thread::yield();
        }
        if (!message) message = lane.match_now(second, 1, 2, outcome);
        pml::Request* coming = lane.ireceive(message, bytes(large.data(), 8));
        NEED(lane.wait(*coming) == Status::ok);
        NEED(first.lane().wait(*going) == Status::ok);
        release(coming);
        release(going);
      });
}

TEST_CASE("a sleeping waiter is woken by what another thread completes on another lane") {
  run_lanes({3}, 3, true, [](Seat& me, boot::FakeJob&) {
    pml::Team &first = *me.teams[0], &second = *me.teams[2];
    std::vector<uint8_t> in(8), out(8, 3);
    pml::Request* coming = second.lane().ireceive(second, 0, 1, Traffic::user, bytes(in.data(), in.size()));
    std::thread other([&] {
      for (bool asleep = false; !asleep; std::this_thread::yield())
        first.lane().locked([&] { asleep = first.lane().counters().sleeps > 0; });
      if (second.lane().send(second, 0, 1, Traffic::user, bytes(out.data(), out.size())) != Status::ok) abort();
    });
    const auto arrived = [](void* r) { return static_cast<pml::Request*>(r)->complete.load(std::memory_order_acquire); };
    NEED(first.lane().wait_until(arrived, coming) == Status::ok);  // on a lane that is not the request's
    other.join();
    NEED(in == out);
    release(coming);
  });
}

TEST_CASE("a process that ends fails the operations on all lanes") {
  run_lanes({2, 3}, 4, false, [](Seat& me, boot::FakeJob& job) {
    if (me.rank == 1) return;
    std::vector<pml::Request*> waiting;
    std::vector<uint8_t> in(8);
    for (auto& team : me.teams) waiting.push_back(team->lane().ireceive(*team, 1, 1, Traffic::user, bytes(in.data(), in.size())));
    job.kill(1);
    for (pml::Request* r : waiting) {
      NEED(r->lane->wait(*r) == Status::ok);
      NEED(r->outcome.error == MPI_ERR_PROC_ABORTED);
      release(r);
    }
    for (auto& team : me.teams) {
      pml::Request* late = team->lane().isend(*team, 1, 1, Traffic::user, bytes(in.data(), in.size()));
      NEED(team->lane().wait(*late) == Status::ok);
      NEED(late->outcome.error == MPI_ERR_PROC_ABORTED);
      release(late);
    }
  });
}

TEST_CASE("buffered sends of all lanes leave one buffer") {
  run_lanes({4, 2}, 4, true, [](Seat& me, boot::FakeJob&) {
    std::vector<uint8_t> in(50000), out(50000, 9);
    pml::Outcome outcome;
    if (me.rank == 0) {
      pml::SendBuffer buffer(me.lanes.first(), nullptr, 0, true);
      for (auto& team : me.teams) NEED(buffer.send(*team, 1, 4, bytes(out.data(), out.size())) == MPI_SUCCESS);
      NEED(buffer.flush() == Status::ok);
    } else {
      for (size_t t = me.teams.size(); t-- > 0;) {
        NEED(me.teams[t]->lane().receive(*me.teams[t], 0, 4, Traffic::user, bytes(in.data(), in.size()), outcome) == Status::ok);
        NEED(in == out);
      }
    }
  });
}

TEST_CASE("a receiver holds no more than its room for a process, over all lanes together") {
  constexpr int64_t room = 192 << 10;
  const Setting window("WEFT_PML_WINDOW", std::to_string(room));
  constexpr uint32_t teams = 12;  // all pairs of lanes
  constexpr int each = 60;        // messages on a team
  for (const auto& [lanes, least] : {std::pair{std::vector<uint32_t>{1, 1}, 8}, {{4, 4}, 8}, {{4, 1}, 8}, {{1, 4}, 8}, {{3, 4}, 6}}) {
    INFO(lanes[0] << " and " << lanes[1] << " lanes");
    std::atomic<bool> full{false};
    run_lanes(lanes, teams, true, [&](Seat& me, boot::FakeJob&) {
      if (me.rank == 1) {
        std::vector<std::byte> data(3000);
        std::vector<pml::Request*> sends;
        for (int i = 0; i < each; ++i)
          for (auto& team : me.teams) sends.push_back(team->lane().isend(*team, 0, i, Traffic::user, bytes(data.data(), data.size())));
        const auto held_up = [](auto& lane) { return lane->counters().held_up > 0; };
        while (!std::ranges::all_of(me.lanes.all(), held_up)) {
          me.lanes.first().progress_all();
          std::this_thread::yield();
        }
        full = true;
        for (auto* send : sends) {
          NEED(me.teams[0]->lane().wait(*send) == Status::ok);
          release(send);
        }
        return;
      }
      const auto held = [&] {
        int64_t sum = 0;
        for (auto& lane : me.lanes.all()) sum += static_cast<int64_t>(lane->counters().unexpected_bytes);
        return sum;
      };
      while (!full || held() < room * least / 10) {
        me.lanes.first().progress_all();
        std::this_thread::yield();
      }
      for (int i = 0; i < 300; ++i) me.lanes.first().progress_all();
      NEED(held() <= room);
      std::vector<std::byte> in(3000);  // all the same
      std::vector<pml::Request*> receives;
      for (int i = 0; i < each; ++i)
        for (auto& team : me.teams) receives.push_back(team->lane().ireceive(*team, 1, i, Traffic::user, bytes(in.data(), in.size())));
      for (auto* receive : receives) {
        NEED(me.teams[0]->lane().wait(*receive) == Status::ok);
        NEED(receive->outcome.bytes == in.size());
        release(receive);
      }
      NEED(held() == 0);
    });
  }
}
