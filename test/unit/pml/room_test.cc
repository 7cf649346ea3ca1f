// Room for messages that nobody has asked for: bounded, never a reason to wait for ever, nobody else's business.
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <random>

#include "runtime/boot/fake.h"
#include "test/unit/pml/ranks.h"

using namespace weft;
using namespace weft::test;
using pml::Mode;
using pml::Traffic;

namespace {

constexpr int64_t kWindow = 16 << 10;
constexpr int kFlood = 300;

std::vector<Bed> beds() {
  return {{"fragments", {}},      {"full wire", {.max_inline = 64, .max_buffered = 4096, .room = 16}},
          {"get", {.get = true}}, {"disorder", {.ordered = false}},
          {"shm", {}, true},      {"tcp", {}, true}};
}

/// Sends that have begun, each with its number as its first word.
struct Flood {
  std::vector<std::vector<int>> data;
  std::vector<pml::Request*> requests;

  void begin(Rank& me, int to, int tag, int count, std::mt19937& random) {
    static constexpr size_t words[] = {1, 2, 100, 300, 6000};
    const auto first = static_cast<int>(data.size());
    for (int i = first; i < first + count; ++i) {
      auto& message = data.emplace_back(words[random() % 200 == 0 ? 4 : random() % 4], i);
      requests.push_back(me.lane.isend(me.world, to, tag, Traffic::user, bytes(message.data(), message.size() * sizeof(int)),
                                       random() % 5 == 0 ? Mode::synchronous : Mode::standard));
    }
  }
  void end(Rank& me) {
    for (auto* r : requests) {
      NEED(me.lane.wait(*r) == Status::ok && r->outcome.error == 0);
      release(r);
    }
    requests.clear();
    data.clear();
  }
};

void take_flood(Rank& me, int from, int tag, int count) {
  constexpr size_t at_once = 50, words = 6000;
  std::vector<int> got(at_once * words);
  std::vector<pml::Request*> requests(at_once);
  for (int first = 0; first < count; first += at_once) {
    for (size_t i = 0; i < at_once; ++i)
      requests[i] = me.lane.ireceive(me.world, from, tag, Traffic::user, bytes(&got[i * words], words * sizeof(int)));
    for (size_t i = 0; i < at_once; ++i) {
      NEED(me.lane.wait(*requests[i]) == Status::ok);
      const int* message = &got[i * words];
      const int number = first + static_cast<int>(i);
      NEED(message[0] == number && message[requests[i]->outcome.bytes / sizeof(int) - 1] == number);
      release(requests[i]);
    }
  }
}

/// Progresses, without receiving, until the senders are held up and `least` bytes are here; then for a while longer.
void hold_out(Rank& me, const std::atomic<int>& held_up, int senders, uint64_t least) {
  for (int more = 0; more < 1000;) {
    me.lane.progress();
    std::this_thread::yield();
    if (held_up == senders && me.lane.counters().unexpected_bytes > least) ++more;
  }
}

/// Floods until the receiver has no room left, then says so.
void flood_until_held_up(Rank& me, Flood& flood, int to, std::mt19937& random, std::atomic<int>& flag) {
  const uint64_t before = me.lane.counters().held_up;
  flood.begin(me, to, 1, kFlood, random);
  while (me.lane.counters().held_up == before) {
    me.lane.progress();
    std::this_thread::yield();
  }
  ++flag;
}

/// A test with a small window on each bed; a failure names the seed.
void on_each_bed(const std::function<void(const Bed&, uint32_t seed)>& test) {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  const Setting window("WEFT_PML_WINDOW", std::to_string(kWindow));
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) { test(bed, seed); }
  }
}

}  // namespace

TEST_CASE("a receiver that does not receive holds no more than a window of each sender") {
  on_each_bed([](const Bed& bed, uint32_t seed) {
    std::atomic<int> full{0};
    run_ranks(4, bed, false, [&](Rank& me) {
      std::mt19937 random(seed + me.rank);
      if (me.rank != 0) {
        Flood flood;
        flood_until_held_up(me, flood, 0, random, full);
        NEED(me.lane.counters().without_credit > 0);
        return flood.end(me);
      }
      hold_out(me, full, 3, 3 * kWindow * 8 / 10);  // what room there is is used
      NEED(me.lane.counters().unexpected_bytes_peak <= 3 * kWindow);
      for (int from : {1, 2, 3}) take_flood(me, from, 1, kFlood);
      NEED(me.lane.counters().unexpected_bytes_peak <= 4 * kWindow);  // it may have lent some
      NEED(me.lane.counters().unexpected_bytes == 0);
    });
  });
}

TEST_CASE("what stands behind messages that are held up can be received first") {
  on_each_bed([](const Bed& bed, uint32_t seed) {
    run_ranks(2, bed, false, [&](Rank& me) {
      constexpr int rounds = 3, count = 200;
      std::mt19937 random(seed);
      for (int round = 0; round < rounds; ++round) {
        if (me.rank == 0) {
          Flood flood;
          flood.begin(me, 1, 1, count, random);
          NEED(me.lane.send(me.world, 1, 2, Traffic::user, bytes(&round, 4)) == Status::ok);
          flood.end(me);
          continue;
        }
        pml::Outcome outcome;
        int got = -1;
        if (round % 3 == 1) NEED(me.lane.probe(me.world, pml::any_source, 2, outcome) == Status::ok);
        if (round % 3 == 2)
          while (!me.lane.probe_now(me.world, 0, 2, outcome)) {
          }
        NEED(me.lane.receive(me.world, round % 2 ? pml::any_source : 0, 2, Traffic::user, bytes(&got, 4), outcome) == Status::ok);
        NEED(got == round);
        take_flood(me, 0, 1, count);
      }
      NEED(me.rank == 0 ? me.lane.counters().held_up > 0 : me.lane.counters().lent > 0);
    });
  });
}

TEST_CASE("room that was lent is given back, and none is lost") {
  on_each_bed([](const Bed& bed, uint32_t seed) {
    std::atomic<int> full{0};
    run_ranks(2, bed, false, [&](Rank& me) {
      std::mt19937 random(seed);
      for (int round = 1; round <= 4; ++round) {
        Flood flood;
        if (me.rank == 0) {
          flood_until_held_up(me, flood, 1, random, full);
          const int behind = round;
          NEED(me.lane.send(me.world, 1, 2, Traffic::user, bytes(&behind, 4), Mode::synchronous) == Status::ok);
          flood.end(me);
          continue;
        }
        hold_out(me, full, round, kWindow * 4 / 10);  // credit for half a window may wait until it is worth a message
        NEED(me.lane.counters().unexpected_bytes <= kWindow);
        int behind;
        pml::Outcome outcome;
        NEED(me.lane.receive(me.world, 0, 2, Traffic::user, bytes(&behind, 4), outcome) == Status::ok);
        take_flood(me, 0, 1, kFlood);
      }
    });
  });
}

TEST_CASE("a receiver that does not receive keeps nobody else waiting") {
  on_each_bed([](const Bed& bed, uint32_t seed) {
    std::atomic<bool> over{false};
    run_ranks(3, bed, false, [&](Rank& me) {
      std::mt19937 random(seed);
      if (me.rank == 1) {  // deaf until the others are done with each other
        while (!over) {
          me.lane.progress();
          std::this_thread::yield();
        }
        return take_flood(me, 0, 1, kFlood);
      }
      Flood flood;
      if (me.rank == 0) flood.begin(me, 1, 1, kFlood, random);
      const int other = 2 - static_cast<int>(me.rank);
      std::vector<int> data(20000, 7), got(20000);
      for (size_t words : {1, 50, 500, 20000}) {
        for (int i = 0; i < 20; ++i) {
          pml::Outcome outcome;
          pml::Request* r = me.lane.isend(me.world, other, 3, Traffic::user, bytes(data.data(), words * sizeof(int)));
          NEED(me.lane.receive(me.world, other, 3, Traffic::user, bytes(got.data(), words * sizeof(int)), outcome) == Status::ok);
          NEED(me.lane.wait(*r) == Status::ok);
          release(r);
        }
      }
      if (me.rank == 0) over = true;
      flood.end(me);
    });
  });
}
