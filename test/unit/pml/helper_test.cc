// The helper: progress while the program's thread is away, and what stays with that thread.
#include "pml/helper.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "pml/lock.h"
#include "runtime/base/clock.h"
#include "test/unit/pml/ranks.h"

using namespace weft;
using namespace weft::test;
using pml::Traffic;

namespace {

constexpr size_t kMany = 4 << 20;
constexpr uint64_t kPatience_ns = 60'000'000'000;

std::vector<Bed> beds() { return {{"self,shm", {}, true}, {"self,tcp", {}, true}, {"thread", {}}}; }

/// Makes no progress until `word` has become true; false if that does not happen.
bool computes_until(const std::atomic<bool>& word) {
  for (const uint64_t begin = now_ns(); !word; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    if (now_ns() - begin > kPatience_ns) return false;
  return true;
}

std::byte pattern(size_t i, int round) { return static_cast<std::byte>(i * 7 + i / 4096 + static_cast<size_t>(round)); }

}  // namespace

TEST_CASE("a lock that was lent is there until it is given back") {
  pml::LaneLock lock(false);
  CHECK(!lock.enabled());
  lock.lend();
  CHECK(lock.enabled());
  std::thread([&] {
    lock.lock();
    lock.unlock();
  }).join();
  lock.lock();
  lock.give_back();
  CHECK(lock.enabled());  // it is held
  lock.lock();
  lock.unlock();
  CHECK(lock.enabled());
  lock.unlock();
  CHECK(!lock.enabled());
  lock.lend();
  lock.lock();
  lock.unlock();
  CHECK(lock.enabled());
}

TEST_CASE("the lock of several threads stays") {
  pml::LaneLock lock(true);
  lock.lend();
  lock.give_back();
  lock.lock();
  lock.unlock();
  CHECK(lock.enabled());
}

// Each round begins with a helper that is parked, naps or sleeps, by how long the last one is ago.
TEST_CASE("large messages arrive while their receiver computes") {
  for (const Bed& bed : beds())
    for (bool threads : {false, true}) {
      DYNAMIC_SECTION(bed.name << (threads ? ", several threads" : ", one thread")) {
        constexpr int rounds = 6;
        std::vector<std::atomic<bool>> sent(rounds);
        run_ranks(2, bed, threads, [&](Rank& me) {
          std::vector<std::byte> data(kMany);
          pml::Helper helper({&me.lane}, true);
          for (int round = 0; round < rounds; ++round) {
            if (me.rank == 1) {
              for (size_t i = 0; i < kMany; ++i) data[i] = pattern(i, round);
              NEED(me.lane.send(me.world, 0, round, Traffic::user, bytes(data.data(), kMany)) == Status::ok);
              sent[static_cast<size_t>(round)] = true;
              continue;
            }
            pml::Request* r = me.lane.ireceive(me.world, 1, round, Traffic::user, bytes(data.data(), kMany));
            me.lane.look_after(*r);
            NEED(computes_until(sent[static_cast<size_t>(round)]));
            NEED(me.lane.wait(*r) == Status::ok && r->outcome.bytes == kMany);
            release(r);
            for (size_t i = 0; i < kMany; ++i) NEED(data[i] == pattern(i, round));
            std::this_thread::sleep_for(std::chrono::milliseconds(round % 3 * 12));
          }
          if (me.rank == 0) NEED(me.lane.counters().helped > 0);
          helper.stop();
        });
      }
    }
}

TEST_CASE("code of the user's runs on the program's thread") {
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      struct Work : pml::Deferred {
        std::atomic<int> ran{0};
        std::thread::id where;
      };
      std::atomic<bool> sent{false};
      run_ranks(2, bed, false, [&](Rank& me) {
        std::vector<std::byte> data(kMany);
        if (me.rank == 1) {
          NEED(me.lane.send(me.world, 0, 1, Traffic::user, bytes(data.data(), kMany)) == Status::ok);
          sent = true;
          return;
        }
        pml::Helper helper({&me.lane}, true);
        Work own, users;
        users.users = true;
        for (Work* work : {&own, &users})
          work->run = [](pml::Deferred& w) {
            static_cast<Work&>(w).where = std::this_thread::get_id();
            ++static_cast<Work&>(w).ran;
          };
        pml::Request* r = me.lane.ireceive(me.world, 1, 1, Traffic::user, bytes(data.data(), kMany));
        me.lane.locked([&] {
          me.lane.defer(users);
          me.lane.defer(own);
        });
        me.lane.look_after(*r);
        NEED(computes_until(sent));
        NEED(users.ran == 0);
        NEED(me.lane.wait(*r) == Status::ok);
        me.lane.progress();
        NEED(own.ran == 1 && users.ran == 1);
        NEED(own.where != std::this_thread::get_id());
        NEED(users.where == std::this_thread::get_id());
        release(r);
        helper.stop();
      });
    }
  }
}

TEST_CASE("a helper ends while it is parked, sleeps, or was never needed") {
  run_ranks(2, beds().front(), false, [](Rank& me) {
    const int other = 1 - static_cast<int>(me.rank);
    std::vector<std::byte> in(kMany), out(kMany);
    for (int pause : {-1, 0, 3, 30}) {
      pml::Helper helper({&me.lane}, true);
      if (pause < 0) continue;
      pml::Request* r = me.lane.ireceive(me.world, other, 2, Traffic::user, bytes(in.data(), kMany));
      me.lane.look_after(*r);
      std::this_thread::sleep_for(std::chrono::milliseconds(pause));
      if (pause == 3) helper.stop();  // before its operation ends
      NEED(me.lane.send(me.world, other, 2, Traffic::user, bytes(out.data(), kMany)) == Status::ok);
      NEED(me.lane.wait(*r) == Status::ok);
      release(r);
    }
  });
}
