// Several ways to one peer that break again and again: every message arrives once, in order, with the right bytes.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <span>

#include "include/mpi.h"
#include "runtime/base/error.h"
#include "runtime/config/config.h"
#include "test/unit/pml/ranks.h"

using namespace weft;
using namespace weft::test;

namespace {

/// Byte `i` of message `number` from `from`.
std::byte pattern(uint32_t from, uint32_t number, uint64_t i) {
  return static_cast<std::byte>((from * 7919 + number * 131 + i * 31 + (i >> 8)) & 0xff);
}

uint64_t size_of(uint32_t number) {
  constexpr uint64_t sizes[] = {0, 8, 100, 256, 257, 5000, 16384, 16385, 100000, 200000, 700000};
  return sizes[number * 2654435761u % 11];
}

std::vector<std::byte> message(uint32_t from, uint32_t number) {
  std::vector<std::byte> bytes(size_of(number));
  for (uint64_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(from, number, i);
  return bytes;
}

/// Says where a message differs, and how.
void need_equal(const std::vector<std::byte>& want, const std::vector<std::byte>& got, uint32_t number) {
  const size_t at = static_cast<size_t>(std::ranges::mismatch(want, got).in1 - want.begin());
  if (at == want.size()) return;
  size_t end = want.size();
  while (want[end - 1] == got[end - 1]) --end;
  const bool empty = std::ranges::all_of(std::span(got).subspan(at, end - at), [](std::byte b) { return b == std::byte{0}; });
  throw std::runtime_error("message " + std::to_string(number) + " of " + std::to_string(want.size()) + " bytes is wrong from byte " +
                           std::to_string(at) + " to " + std::to_string(end) + (empty ? ": nothing has come there" : ""));
}

/// Each rank sends `count` numbered messages to each other one, a few at a time, and checks what comes, and that nothing comes later
/// into memory that has what it asked for.
void exchange(Rank& me, uint32_t count) {
  constexpr uint32_t at_a_time = 8;
  constexpr auto taken = std::byte{0xee};
  std::vector<std::vector<std::byte>> old;
  std::vector<uint32_t> expected(me.size);
  for (uint32_t first = 0; first < count; first += at_a_time) {
    std::vector<pml::Request*> requests;
    std::vector<std::vector<std::byte>> data, got;
    const uint32_t last = std::min(first + at_a_time, count);
    for (uint32_t n = first; n < last; ++n) data.push_back(message(me.rank, n));
    for (uint32_t peer = 0; peer < me.size; ++peer) {
      if (peer == me.rank) continue;
      for (uint32_t n = first; n < last; ++n) {
        got.emplace_back(size_of(n) + 1);
        requests.push_back(
            me.lane.ireceive(me.world, static_cast<int>(peer), 5, pml::Traffic::user, bytes(got.back().data(), got.back().size())));
      }
    }
    for (uint32_t peer = 0; peer < me.size; ++peer)
      if (peer != me.rank)
        for (uint32_t n = first; n < last; ++n)
          requests.push_back(me.lane.isend(me.world, static_cast<int>(peer), 5, pml::Traffic::user,
                                           bytes(data[n - first].data(), data[n - first].size()),
                                           n % 3 == 0 ? pml::Mode::synchronous : pml::Mode::standard));
    for (pml::Request* r : requests) {
      NEED(me.lane.wait(*r) == Status::ok);
      if (r->outcome.error) throw std::runtime_error((pml::Lane::explain(*r), std::string(last_failure())));
    }
    size_t at = 0;
    for (uint32_t peer = 0; peer < me.size; ++peer) {
      if (peer == me.rank) continue;
      for (uint32_t n = first; n < last; ++n, ++at) {
        NEED(requests[at]->outcome.bytes == size_of(n));
        need_equal(message(peer, n), got[at], n);
      }
    }
    for (pml::Request* r : requests) release(r);
    for (std::vector<std::byte>& each : got) {
      std::ranges::fill(each, taken);
      old.push_back(std::move(each));
    }
  }
  char token = 0;  // nobody leaves while somebody may have to send again
  for (uint32_t peer = 0; peer < me.size; ++peer)
    if (peer != me.rank) NEED(me.lane.send(me.world, static_cast<int>(peer), 6, pml::Traffic::user, bytes(&token, 1)) == Status::ok);
  for (uint32_t peer = 0; peer < me.size; ++peer) {
    pml::Outcome outcome;
    if (peer != me.rank)
      NEED(me.lane.receive(me.world, static_cast<int>(peer), 6, pml::Traffic::user, bytes(&token, 1), outcome) == Status::ok);
  }
  for (const std::vector<std::byte>& each : old) NEED(std::ranges::all_of(each, [](std::byte b) { return b == taken; }));
}

/// Waits, without a message, until all ranks have come here.
void meet(Rank& me, std::atomic<uint32_t>& here) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (++here; here < me.size;) {
    me.lane.progress();
    NEED(std::chrono::steady_clock::now() < end);
  }
}

Bed bed_of(uint32_t ranks, uint32_t rails, double snap, bool zcopy, uint32_t seed) {
  auto yard = std::make_shared<Yard>(ranks, rails);
  yard->snap = snap;
  yard->zcopy = zcopy;
  yard->seed = seed;
  return {"rails", {}, false, "", yard};
}

}  // namespace

TEST_CASE("messages over several rails that hold") {
  for (uint32_t rails : {1u, 2u, 3u}) run_ranks(3, bed_of(3, rails, 0, rails != 3, 1), false, [](Rank& me) { exchange(me, 60); });
}

TEST_CASE("who only receives from a peer tells it at closing that all has come") {
  run_ranks(3, bed_of(3, 2, 0, true, 1), false, [](Rank& me) {
    const int next = static_cast<int>((me.rank + 1) % 3), before = static_cast<int>((me.rank + 2) % 3);
    for (uint32_t i = 0; i < 5; ++i) {
      uint32_t got = 0;
      pml::Request* r = me.lane.ireceive(me.world, before, 1, pml::Traffic::user, bytes(&got, sizeof got));
      NEED(me.lane.send(me.world, next, 1, pml::Traffic::user, bytes(&i, sizeof i)) == Status::ok);
      NEED(me.lane.wait(*r) == Status::ok && r->outcome.error == 0 && got == i);
      release(r);
    }
    const auto begin = std::chrono::steady_clock::now();
    NEED(me.lane.close() == Status::ok);
    NEED(std::chrono::steady_clock::now() - begin < std::chrono::seconds(8));  // it gives up after 20
  });
}

TEST_CASE("small messages take the rail that is near, large ones all by what both ends can") {
  Bed bed = bed_of(2, 2, 0, true, 1);
  Yard& yard = *bed.yard;
  yard.near = {1, 1};
  yard.prices = {1, 4};  // as one end knows them: 1 and 2
  std::atomic<uint32_t> before{0}, after{0}, done{0};
  run_ranks(2, bed, false, [&](Rank& me) {
    const int other = 1 - static_cast<int>(me.rank);
    const auto pass = [&](size_t size, int count) {
      std::vector<std::byte> out(size), in(size);
      for (int i = 0; i < count; ++i) {
        pml::Request* r = me.lane.ireceive(me.world, other, 1, pml::Traffic::user, bytes(in.data(), size));
        NEED(me.lane.send(me.world, other, 1, pml::Traffic::user, bytes(out.data(), size)) == Status::ok);
        NEED(me.lane.wait(*r) == Status::ok && r->outcome.error == 0);
        release(r);
      }
    };
    pass(100, 20);
    meet(me, before);
    NEED(yard.loads[0].messages == 0);
    NEED(yard.loads[1].messages == 40);
    meet(me, after);
    pass(1 << 20, 2);  // wakes the other rail
    for (auto& load : yard.loads) load.bytes = 0;
    pass(8 << 20, 4);
    meet(me, done);
    NEED(yard.loads[0].bytes > yard.loads[1].bytes * 2);
    NEED(yard.loads[1].bytes > 0);
  });
}

TEST_CASE("rails that break at any moment lose, double and reorder nothing") {
  const auto seed = static_cast<uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  CAPTURE(seed);
  std::atomic<uint64_t> lost{0}, again{0};
  for (uint32_t round = 0; round < 6; ++round) {
    const uint32_t ranks = round % 2 ? 3 : 2;
    Bed bed = bed_of(ranks, 2 + round / 3, round < 4 ? 0.02 : 0.06, round % 3 != 0, seed + round * 100);
    if (round >= 4) bed.yard->at_once = 1;  // so that much happens between two words of a greeting
    std::atomic<uint32_t> exchanged{0};
    run_ranks(ranks, bed, false, [&](Rank& me) {
      exchange(me, 80);
      meet(me, exchanged);
      bed.yard->snap = 0;  // the very last word can be lost with its way: who waits for it does so in vain
      lost += me.lane.counters().ways_lost;
      again += me.lane.counters().sent_again;
    });
  }
  CHECK(lost > 0);
  CHECK(again > 0);
}

TEST_CASE("memory is read and written over rails that break at any moment") {
  const auto seed = static_cast<uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  CAPTURE(seed);
  std::atomic<uint64_t> lost{0}, again{0};
  for (uint32_t round = 0; round < 6; ++round) {
    Bed bed = bed_of(2, 1 + (round + 1) % 3, round ? 0.02 : 0, round % 2 != 0, seed + round * 100);
    bed.yard->get = true;
    bed.yard->put_from = round % 2 ? 100000 : ~uint64_t{0};  // 16 KiB is read, 100000 bytes are written
    if (bed.yard->rails == 1) bed.yard->snap = 0;
    if (round >= 3) bed.yard->at_once = 1;
    std::atomic<uint32_t> exchanged{0};
    run_ranks(2, bed, false, [&](Rank& me) {
      exchange(me, 80);
      meet(me, exchanged);
      bed.yard->snap = 0;
      lost += me.lane.counters().ways_lost;
      again += me.lane.counters().sent_again;
    });
  }
  CHECK(lost > 0);
  CHECK(again > 0);
}

namespace {

/// Both of two ranks send the other so much, and check what comes; false if that takes for ever.
bool swap_large(Rank& me, size_t size, uint32_t number) {
  const int other = 1 - static_cast<int>(me.rank);
  std::vector<std::byte> out(size), in(size);
  for (size_t i = 0; i < size; ++i) out[i] = pattern(me.rank, number, i);
  pml::Request* r = me.lane.ireceive(me.world, other, 7, pml::Traffic::user, bytes(in.data(), size));
  pml::Request* s = me.lane.isend(me.world, other, 7, pml::Traffic::user, bytes(out.data(), size));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!(r->complete && s->complete))
    if (me.lane.progress(); std::chrono::steady_clock::now() > end) return false;
  const bool right = r->outcome.error == 0 && s->outcome.error == 0;
  release(r);
  release(s);
  for (size_t i = 0; i < size; ++i)
    if (in[i] != pattern(static_cast<uint32_t>(other), number, i)) return false;
  return right;
}

}  // namespace

TEST_CASE("large messages go over all of many rails") {
  for (const bool reads : {false, true}) {
    Bed bed = bed_of(2, 12, 0, true, 1);
    bed.yard->get = reads;
    std::array<std::atomic<uint32_t>, 40> swapped{}, decided{};  // the first ones wake them
    std::atomic<bool> all{false};
    run_ranks(2, bed, false, [&](Rank& me) {
      for (uint32_t i = 0; i < swapped.size() && !all; ++i) {
        NEED(swap_large(me, 4 << 20, i));
        meet(me, swapped[i]);
        if (me.rank == 0) all = std::ranges::all_of(bed.yard->loads, [](auto& load) { return load.bytes > 0; });
        meet(me, decided[i]);
      }
    });
    CAPTURE(reads);
    CHECK(all);
  }
}

TEST_CASE("large messages go over the last of many rails when all others are down") {
  for (const bool reads : {false, true}) {
    Bed bed = bed_of(2, 6, 0, true, 1);
    bed.yard->get = reads;
    std::atomic<uint32_t> awake{0}, done{0};
    run_ranks(2, bed, false, [&](Rank& me) {
      for (uint32_t i = 0; i < 4; ++i) NEED(swap_large(me, 1 << 20, i));
      meet(me, awake);
      if (me.rank == 0)
        for (uint32_t rail = 0; rail < 5; ++rail) bed.yard->pull(rail);
      for (uint32_t i = 0; i < 4; ++i) NEED(swap_large(me, 1 << 20, i));
      NEED(me.lane.counters().ways_lost >= 1);
      meet(me, done);
    });
  }
}

TEST_CASE("a rail lost for good is done without") {
  Bed bed = bed_of(2, 2, 0, true, 1);
  run_ranks(2, bed, false, [&](Rank& me) {
    exchange(me, 40);
    if (me.rank == 0) bed.yard->pull(0);
    exchange(me, 40);
    NEED(me.lane.counters().ways_lost >= 1);
  });
}

TEST_CASE("a rail that was not needed yet takes over from one that is lost") {
  Bed bed = bed_of(2, 2, 0, true, 1);
  run_ranks(2, bed, false, [&](Rank& me) {
    const int other = 1 - static_cast<int>(me.rank);
    uint32_t sent = me.rank + 1, got = 0;
    for (int i = 0; i < 20; ++i) {
      if (i == 10 && me.rank == 0) bed.yard->pull(0);
      pml::Request* r = me.lane.ireceive(me.world, other, i, pml::Traffic::user, bytes(&got, sizeof got));
      NEED(me.lane.send(me.world, other, i, pml::Traffic::user, bytes(&sent, sizeof sent)) == Status::ok);
      NEED(me.lane.wait(*r) == Status::ok);
      NEED(r->outcome.error == 0);
      NEED(got == 2 - me.rank);
      release(r);
    }
    NEED(me.lane.counters().ways_lost == 1);
  });
}

TEST_CASE("a rail that comes back is used again") {
  Bed bed = bed_of(2, 2, 0, true, 1);
  run_ranks(2, bed, false, [&](Rank& me) {
    exchange(me, 20);
    if (me.rank == 0) bed.yard->pull(1);
    exchange(me, 20);
    if (me.rank == 0) bed.yard->plug(1);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (me.lane.counters().ways_back == 0 && std::chrono::steady_clock::now() < end) me.lane.progress();
    NEED(me.lane.counters().ways_back > 0);
    exchange(me, 20);
    if (me.rank == 0) bed.yard->pull(0);
    exchange(me, 20);
  });
}

TEST_CASE("without any rail the peer has failed, after a bounded time") {
  Bed bed = bed_of(2, 2, 0, true, 1);
  config::find("WEFT_NET_PATIENCE")->set("1", config::Origin::built_in);
  std::atomic<uint32_t> exchanged{0};
  run_ranks(2, bed, false, [&](Rank& me) {
    exchange(me, 20);
    meet(me, exchanged);  // the last messages have come, too
    if (me.rank == 0)
      for (uint32_t rail : {0u, 1u}) bed.yard->pull(rail);
    std::vector<std::byte> data(1000000);
    pml::Request* r = me.lane.ireceive(me.world, 1 - static_cast<int>(me.rank), 9, pml::Traffic::user, bytes(data.data(), data.size()));
    pml::Request* s = me.lane.isend(me.world, 1 - static_cast<int>(me.rank), 8, pml::Traffic::user, bytes(data.data(), data.size()));
    NEED(me.lane.wait(*r) == Status::ok);
    NEED(me.lane.wait(*s) == Status::ok);
    NEED(r->outcome.error == MPI_ERR_PROC_ABORTED);
    NEED(s->outcome.error == MPI_ERR_PROC_ABORTED);
    release(r);
    release(s);
  });
}
