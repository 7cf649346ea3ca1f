// Messages between ranks as threads: every protocol, over every wire.
#include <atomic>
#include <catch2/catch.hpp>
#include <random>

#include "include/mpi.h"
#include "pml/peer.h"
#include "runtime/base/error.h"
#include "runtime/boot/fake.h"
#include "runtime/type/construct.h"
#include "test/unit/pml/ranks.h"

using namespace weft;
using namespace weft::test;
using pml::Mode;
using pml::Traffic;

namespace {

std::vector<Bed> beds() {
  std::vector<Bed> all = {
      {"fragments", {}},
      {"tiny inline, full wire", {.max_inline = 24, .max_buffered = 600, .room = 2}},
      {"zero copy", {.max_buffered = 2048, .zcopy = true}},
      {"zero copy, completed late", {.max_buffered = 2048, .zcopy = true, .lazy = true}},
      {"get", {.get = true}},
      {"get, completed late", {.get = true, .lazy = true}},
      {"get that fails", {.get = true, .get_fails = true}},
      {"disorder", {.ordered = false}},
      {"disorder, get", {.get = true, .ordered = false}},
      {"shm", {}, true},
      {"tcp", {}, true},
  };
  if (ucx_is_there()) {
    all.push_back({"ucx over tcp", {}, true, "tcp,self"});
    all.push_back({"ucx over shared memory", {}, true, "posix,cma,self"});
    all.push_back({"ucx over shared memory, copied", {}, true, "posix,self"});
  }
  return all;
}

std::vector<std::byte> pattern(uint64_t n, uint64_t seed) {
  std::vector<std::byte> data(n);
  for (uint64_t i = 0; i < n; ++i) data[i] = static_cast<std::byte>((i * 131 + seed * 7 + (i >> 8)) & 0xff);
  return data;
}

}  // namespace

TEST_CASE("synchronous sends are found by the numbers of their messages") {
  pml::Unanswered sends;
  CHECK(sends.take(0) == 0);
  for (uint16_t n = 65530; n != 6; ++n) sends.add(n, 1000u + n);
  CHECK(sends.has(65535));
  CHECK(sends.take(3) == 1003);
  CHECK_FALSE(sends.has(3));
  CHECK(sends.take(3) == 0);
  CHECK(sends.take(65530) == 1000 + 65530);
  CHECK(sends.has(5));
}

TEST_CASE("messages of every size arrive by every protocol") {
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      run_ranks(2, bed, false, [](Rank& me) {
        for (uint64_t n : {0,   1,   8,    23,   24,   25,   40,   41,   63,    64,    65,    500,    599,
                           600, 601, 2047, 2048, 2049, 4095, 4096, 4097, 20000, 65536, 65537, 1000000}) {
          for (Mode mode : {Mode::standard, Mode::synchronous, Mode::ready}) {
            const auto sent = pattern(n, n);
            std::vector<std::byte> got(n + 1);
            pml::Outcome outcome;
            const int other = 1 - static_cast<int>(me.rank);
            if (me.rank == 0) {
              NEED(me.lane.send(me.world, other, 5, Traffic::user, bytes(sent.data(), n), mode) == Status::ok);
              NEED(me.lane.receive(me.world, other, 6, Traffic::user, bytes(got.data(), n), outcome) == Status::ok);
            } else {
              NEED(me.lane.receive(me.world, other, 5, Traffic::user, bytes(got.data(), n + 1), outcome) == Status::ok);
              NEED(me.lane.send(me.world, other, 6, Traffic::user, bytes(got.data(), n), mode) == Status::ok);
            }
            NEED(outcome.bytes == n);
            NEED(outcome.source == other);
            NEED(n == 0 || memcmp(sent.data(), got.data(), n) == 0);
          }
        }
      });
    }
  }
}

TEST_CASE("a blocking synchronous send ends when its message is matched, whatever else comes before the answer") {
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      std::atomic<uint32_t> posted = 0;
      run_ranks(2, bed, false, [&](Rank& me) {
        for (uint32_t i = 1; i <= 300; ++i) {
          uint32_t got = 0, other_got = 0;
          pml::Outcome outcome;
          if (me.rank == 0) {
            pml::Request* const unmatched =
                i % 5 == 0 ? me.lane.isend(me.world, 1, 9, Traffic::user, bytes(&i, sizeof i), Mode::synchronous) : nullptr;
            NEED(me.lane.send(me.world, 1, 7, Traffic::user, bytes(&i, sizeof i), Mode::synchronous) == Status::ok);
            NEED(posted.load() >= i);
            if (i % 3 == 0)
              NEED(me.lane.receive(me.world, 1, 8, Traffic::user, bytes(&other_got, sizeof other_got), outcome) == Status::ok);
            NEED(other_got == (i % 3 == 0 ? i : 0));
            if (!unmatched) continue;
            NEED(me.lane.wait(*unmatched) == Status::ok);
            release(unmatched);
          } else {
            for (uint32_t k = 0; i % 7 == 0 && k < 3000; ++k) me.lane.progress();  // late
            if (i % 3 == 0) NEED(me.lane.send(me.world, 0, 8, Traffic::user, bytes(&i, sizeof i)) == Status::ok);
            posted = i;
            NEED(me.lane.receive(me.world, 0, 7, Traffic::user, bytes(&got, sizeof got), outcome) == Status::ok);
            NEED(got == i);
            if (i % 5 == 0) NEED(me.lane.receive(me.world, 0, 9, Traffic::user, bytes(&got, sizeof got), outcome) == Status::ok);
          }
        }
      });
    }
  }
}

TEST_CASE("while both send, large messages are written where that spares time, and only then") {
  for (const bool lazy : {false, true}) {
    std::atomic<int> written = 0;
    run_ranks(2, {"written", {.lazy = lazy, .written = &written}}, false, [&](Rank& me) {
      constexpr uint64_t n = 100000;
      const int other = 1 - static_cast<int>(me.rank);
      const auto exchange = [&](bool sends, bool receives, int tag) {
        const auto sent = pattern(n, me.rank + 1);
        std::vector<std::byte> got(n);
        std::vector<pml::Request*> requests;
        if (sends) requests.push_back(me.lane.isend(me.world, other, tag, Traffic::user, bytes(sent.data(), n)));
        if (receives) requests.push_back(me.lane.ireceive(me.world, other, tag, Traffic::user, bytes(got.data(), n)));
        for (pml::Request* r : requests) {
          NEED(me.lane.wait(*r) == Status::ok);
          NEED(r->outcome.error == 0);
          release(r);
        }
        NEED(!receives || got == pattern(n, static_cast<uint64_t>(other) + 1));
      };
      exchange(me.rank == 0, me.rank == 1, 1);
      exchange(me.rank == 1, me.rank == 0, 2);
      NEED(written == 0);
      for (int round = 0; round < 20; ++round) exchange(true, true, 3);
    });
    CHECK(written > 0);
  }
}

TEST_CASE("short of what is always read, messages are offered to who wants to read them, and to nobody else") {
  Reading reading;
  run_ranks(2, {"reading", {.reading = &reading}}, false, [&](Rank& me) {
    constexpr uint64_t n = 100000;
    const auto sent = pattern(n, 1);
    const auto messages = [&](int count) {
      for (int i = 0; i < count; ++i) {
        std::vector<std::byte> got(n);
        pml::Outcome outcome;
        if (me.rank == 0) NEED(me.lane.send(me.world, 1, 1, Traffic::user, bytes(sent.data(), n)) == Status::ok);
        if (me.rank == 1) NEED(me.lane.receive(me.world, 0, 1, Traffic::user, bytes(got.data(), n), outcome) == Status::ok);
        NEED(me.rank == 0 || got == sent);
      }
    };
    messages(3);
    NEED(reading.offers == 0);
    if (me.rank == 1) reading.spares = true;
    messages(4);
    NEED(me.rank == 0 || reading.reads == 3);  // the first has told that the next ones had better be offered
    if (me.rank == 1) reading.declines = 1;
    messages(4);
    NEED(me.rank == 0 || (reading.reads == 6 && reading.offers == 7));  // who looks how the other way does wants to read on
    if (me.rank == 1) reading.spares = false;
    messages(2);
    if (me.rank == 1) reading.spares = true;
    messages(2);
    NEED(me.rank == 0 || (reading.reads == 8 && reading.offers == 11));  // two that had better come do not say so of others
    if (me.rank == 1) reading.spares = false;
    messages(5);
    NEED(me.rank == 0 || (reading.reads == 8 && reading.offers == 14));  // three do
  });
}

TEST_CASE("who sends messages one by one without an answer does not offer those that the ring holds several of") {
  Reading reading;
  run_ranks(2, {"in a row", {.max_buffered = 64 << 10, .reading = &reading}}, false, [&](Rank& me) {
    const auto messages = [&](uint64_t n, int count, bool answers) {
      const auto sent = pattern(n, 1);
      for (int i = 0; i < count; ++i) {
        std::vector<std::byte> got(n);
        pml::Outcome outcome;
        if (me.rank == 0) NEED(me.lane.send(me.world, 1, 1, Traffic::user, bytes(sent.data(), n), Mode::synchronous) == Status::ok);
        if (me.rank == 1) NEED(me.lane.receive(me.world, 0, 1, Traffic::user, bytes(got.data(), n), outcome) == Status::ok);
        NEED(me.rank == 0 || got == sent);
        if (!answers && i + 1 < count) continue;
        if (me.rank == 1) NEED(me.lane.send(me.world, 0, 2, Traffic::user, bytes(got.data(), 8)) == Status::ok);
        if (me.rank == 0) NEED(me.lane.receive(me.world, 1, 2, Traffic::user, bytes(got.data(), 8), outcome) == Status::ok);
      }
    };
    messages(8, 1, true);
    if (me.rank == 1) reading.spares = true;
    messages(20000, 4, true);
    NEED(me.rank == 0 || reading.reads == 3);  // the first has told that the next ones had better be offered
    messages(20000, 5, false);
    NEED(me.rank == 0 || reading.reads == 4);  // the one after the answer
    messages(100000, 5, false);
    NEED(me.rank == 0 || reading.reads == 9);
  });
}

TEST_CASE("messages that cross others on their way count as such for a while, as not each of them is seen to") {
  Reading reading;
  run_ranks(2, {"crossing", {.reading = &reading}}, false, [&](Rank& me) {
    constexpr uint64_t n = 100000, longer = 1 << 20;
    const auto sent = pattern(n, 1), back = pattern(longer, 2);
    std::vector<std::byte> got(n), all(longer);
    pml::Outcome outcome;
    const auto messages = [&](int count) {
      for (int i = 0; i < count; ++i) {
        if (me.rank == 0) NEED(me.lane.send(me.world, 1, 1, Traffic::user, bytes(sent.data(), n)) == Status::ok);
        if (me.rank == 1) NEED(me.lane.receive(me.world, 0, 1, Traffic::user, bytes(got.data(), n), outcome) == Status::ok);
      }
    };
    messages(5);
    NEED(reading.crossed == 0);
    pml::Request* const other = me.rank == 1 ? me.lane.isend(me.world, 0, 2, Traffic::user, bytes(back.data(), longer)) : nullptr;
    messages(1);
    NEED(me.rank == 0 || reading.crossed >= 1);
    if (me.rank == 0) NEED(me.lane.receive(me.world, 1, 2, Traffic::user, bytes(all.data(), longer), outcome) == Status::ok);
    if (other) {
      NEED(me.lane.wait(*other) == Status::ok);
      release(other);
    }
    const int before = reading.crossed;
    messages(4);
    NEED(me.rank == 0 || reading.crossed >= before + 4);
    messages(20);
    const int later = reading.crossed;
    messages(20);
    NEED(me.rank == 0 || reading.crossed == later);
    NEED((got == sent || me.rank == 0) && (all == back || me.rank == 1));
  });
}

namespace {

/// A vector type made of blocks of bytes: `block` of every `stride`.
type::Datatype* strided(uint64_t blocks, uint64_t block, uint64_t stride) {
  type::Datatype* made = nullptr;
  NEED(type::vector(static_cast<int64_t>(blocks), static_cast<int64_t>(block), static_cast<int64_t>(stride), type::of(type::Basic::byte),
                    type::Form{}, made) == 0);
  made->committed = true;
  return made;
}

struct Layout {
  uint64_t blocks, block, stride;
  uint64_t bytes() const { return blocks * block; }
  uint64_t span() const { return (blocks - 1) * stride + block; }
};

}  // namespace

TEST_CASE("strided data arrives whatever the layout of the other side") {
  const Layout layouts[] = {{3, 5, 8},        {10, 100, 128}, {70, 1000, 1500},  {6, 4096, 5000},
                            {90, 4096, 4100}, {1000, 8, 24},  {12, 50000, 50010}};
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      run_ranks(2, bed, false, [&](Rank& me) {
        for (const Layout& l : layouts) {
          for (int which = 0; which < 3; ++which) {  // strided to contiguous, contiguous to strided, both strided
            type::Datatype* type = strided(l.blocks, l.block, l.stride);
            const auto data = pattern(l.bytes(), l.bytes());
            std::vector<std::byte> flat = data, wide(l.span(), std::byte{0xee});
            pml::Outcome outcome;
            if (me.rank == 0) {
              type::unpack(*type, 1, data.data(), data.size(), wide.data());
              const pml::Buffer buffer = which == 1 ? bytes(flat.data(), flat.size()) : pml::Buffer{wide.data(), 1, type};
              NEED(me.lane.send(me.world, 1, which, Traffic::user, buffer) == Status::ok);
            } else {
              std::fill(flat.begin(), flat.end(), std::byte{0});
              const pml::Buffer buffer = which == 0 ? bytes(flat.data(), flat.size()) : pml::Buffer{wide.data(), 1, type};
              NEED(me.lane.receive(me.world, 0, which, Traffic::user, buffer, outcome) == Status::ok);
              NEED(outcome.bytes == l.bytes());
              if (which != 0) type::pack(*type, 1, wide.data(), flat.data());
              NEED(flat == data);
              if (which != 0 && l.stride > l.block) NEED(wide[l.block] == std::byte{0xee});  // gaps stay as they were
            }
            release(type);
          }
        }
      });
    }
  }
}

TEST_CASE("messages overtake each other where their team's users allow it, and only there") {
  for (const bool get : {false, true}) {
    for (const bool allowed : {false, true}) {
      run_ranks(2, {"disorder", {.get = get, .ordered = false, .room = 1000}}, false, [&](Rank& me) {
        constexpr int count = 300;
        const int other = 1 - static_cast<int>(me.rank);
        if (allowed) me.world.promise({.overtaking = true});
        // Sizes on both sides of what is sent at once. The number of the message is its content.
        const auto size_of = [](int i) { return uint64_t{i % 7 == 0 ? 9000u : 40u}; };
        std::vector<std::vector<int>> out;
        std::vector<pml::Request*> sends;
        for (int i = 0; i < count; ++i) {
          out.emplace_back(size_of(i) / sizeof(int), i);
          sends.push_back(me.lane.isend(me.world, other, 5, Traffic::user, bytes(out.back().data(), size_of(i))));
        }
        NEED(me.boot.fence(false));  // all of it is on its way
        int last = -1, backwards = 0;
        std::vector<int> seen(count);
        for (int i = 0; i < count; ++i) {
          std::vector<int> got(9000 / sizeof(int));
          pml::Outcome outcome;
          NEED(me.lane.receive(me.world, other, 5, Traffic::user, bytes(got.data(), 9000), outcome) == Status::ok);
          NEED(got[0] >= 0 && got[0] < count && outcome.bytes == size_of(got[0]));
          NEED(got[outcome.bytes / sizeof(int) - 1] == got[0]);
          backwards += got[0] < last;
          last = got[0];
          ++seen[static_cast<size_t>(last)];
        }
        NEED(seen == std::vector<int>(count, 1));
        NEED(allowed ? backwards > 0 : backwards == 0);
        NEED(allowed == (me.lane.counters().overtaking > 0));
        for (pml::Request* send : sends) {
          NEED(me.lane.wait(*send) == Status::ok);
          release(send);
        }
      });
    }
  }
}

TEST_CASE("messages between two ranks do not overtake each other") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      run_ranks(3, bed, false, [&](Rank& me) {
        constexpr int count = 400;
        std::mt19937 random(seed + me.rank);
        std::vector<std::vector<std::byte>> kept;
        std::vector<pml::Request*> sends;
        // everybody sends to everybody, sizes on both sides of every limit; the number of the message is its content
        for (int i = 0; i < count; ++i)
          for (uint32_t to = 0; to < me.size; ++to) {
            static constexpr uint64_t sizes[] = {4, 30, 200, 700, 5000, 70000};
            auto& message = kept.emplace_back(pattern(sizes[random() % (i % 8 == 0 ? 6 : 4)], 0));
            memcpy(message.data(), &i, sizeof i);
            const auto send = random() % 3 ? &pml::Lane::isend_among_others : &pml::Lane::isend;
            sends.push_back((me.lane.*send)(me.world, static_cast<int>(to), 1, Traffic::user, bytes(message.data(), message.size()),
                                            random() % 9 == 0 ? Mode::synchronous : Mode::standard));
          }
        std::vector<int> next(me.size, 0);
        std::vector<std::byte> got(70000);
        for (uint32_t i = 0; i < count * me.size; ++i) {
          pml::Outcome outcome;
          NEED(me.lane.receive(me.world, pml::any_source, random() % 2 ? 1 : pml::any_tag, Traffic::user, bytes(got.data(), got.size()),
                               outcome) == Status::ok);
          int number;
          memcpy(&number, got.data(), sizeof number);
          NEED(number == next[static_cast<size_t>(outcome.source)]++);
        }
        for (pml::Request* r : sends) {
          NEED(me.lane.wait(*r) == Status::ok);
          NEED(r->outcome.error == 0);
          release(r);
        }
      });
    }
  }
}

TEST_CASE("small sends in a row wait for the next round of progress together, where that pays") {
  run_ranks(2, {"tcp", {}, true}, false, [](Rank& me) {
    constexpr int count = 100;
    int number = 0, most_later = 0;
    pml::Outcome outcome;
    const pml::Buffer token = bytes(&number, sizeof number);
    const int other = 1 - static_cast<int>(me.rank);
    for (int round = 0; round < 5; ++round) {
      NEED(me.lane.send(me.world, other, 2, Traffic::user, token) == Status::ok);  // connected afterwards
      NEED(me.lane.receive(me.world, other, 2, Traffic::user, token, outcome) == Status::ok);
      if (me.rank == 1) {
        for (int i = 0; i <= count; ++i) {
          NEED(me.lane.receive(me.world, 0, 1, Traffic::user, token, outcome) == Status::ok);
          NEED(number == i);
        }
        continue;
      }
      std::vector<pml::Request*> sends;
      int later = 0;
      for (int i = 0; i < count; ++i) {
        sends.push_back(me.lane.isend_among_others(me.world, 1, 1, Traffic::user, bytes(&i, sizeof i), Mode::standard));
        later += !sends.back()->complete.load();
      }
      NEED(sends.front()->complete.load());  // a message that may be alone waits for nothing
      most_later = std::max(most_later, later);
      for (int i = 0; i < count; ++i) {
        if (i != count / 2) NEED(me.lane.wait(*sends[size_t(i)]) == Status::ok);  // as if freed by the user
        release(sends[size_t(i)]);
      }
      NEED(me.lane.send(me.world, 1, 1, Traffic::user, bytes(&count, sizeof count)) == Status::ok);
    }
    NEED(me.rank == 1 || most_later > count / 2);
    // nobody waits for these: they leave when the lane is closed, at the latest
    if (me.rank == 0)
      for (int i = 0; i < 10; ++i) release(me.lane.isend_among_others(me.world, 1, 3, Traffic::user, token, Mode::standard));
    else
      for (int i = 0; i < 10; ++i) NEED(me.lane.receive(me.world, 0, 3, Traffic::user, token, outcome) == Status::ok);
  });
}

TEST_CASE("a message longer than the buffer is cut, and its sender ends well") {
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      run_ranks(2, bed, false, [](Rank& me) {
        for (uint64_t n : {8, 100, 1000, 10000, 300000})
          for (uint64_t room : {uint64_t{0}, n / 2, n - 1}) {
            const auto data = pattern(n, 3);
            std::vector<std::byte> got(n, std::byte{0xee});
            pml::Outcome outcome;
            if (me.rank == 0) {
              NEED(me.lane.send(me.world, 1, 0, Traffic::user, bytes(data.data(), n)) == Status::ok);
            } else {
              NEED(me.lane.receive(me.world, 0, 0, Traffic::user, bytes(got.data(), room), outcome) == Status::truncated);
              NEED(outcome.error == MPI_ERR_TRUNCATE);
              NEED(outcome.bytes == room);
              NEED(room == 0 || memcmp(got.data(), data.data(), room) == 0);
              NEED(got[room] == std::byte{0xee});
              NEED(last_failure().find("longer than the receive buffer") != std::string_view::npos);
            }
          }
      });
    }
  }
}

TEST_CASE("probes tell what waits, matched probes take it") {
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      run_ranks(2, bed, false, [](Rank& me) {
        for (uint64_t n : {16, 900, 50000}) {
          const auto data = pattern(n, n);
          std::vector<std::byte> got(n);
          pml::Outcome outcome;
          if (me.rank == 0) {
            std::vector<std::vector<std::byte>> messages;
            std::vector<pml::Request*> sends;
            for (int tag : {7, 7, 8}) {
              messages.push_back(data);
              messages.back()[0] = static_cast<std::byte>(tag);
              sends.push_back(me.lane.isend(me.world, 1, tag, Traffic::user, bytes(messages.back().data(), n)));
            }
            for (auto* r : sends) {
              NEED(me.lane.wait(*r) == Status::ok);
              release(r);
            }
            continue;
          }
          NEED(!me.lane.probe_now(me.world, 0, 99, outcome));
          NEED(me.lane.probe(me.world, pml::any_source, pml::any_tag, outcome) == Status::ok);
          NEED(outcome.tag == 7 && outcome.source == 0 && outcome.bytes == n);
          pml::Message* first = nullptr;
          NEED(me.lane.match(me.world, 0, pml::any_tag, first, outcome) == Status::ok && first);
          NEED(me.lane.receive(me.world, 0, 7, Traffic::user, bytes(got.data(), n), outcome) ==
               Status::ok);  // the second: the first is taken
          NEED(me.lane.probe(me.world, 0, 8, outcome) == Status::ok && outcome.tag == 8 && outcome.bytes == n);
          pml::Request* r = me.lane.ireceive(first, bytes(got.data(), n));
          NEED(me.lane.wait(*r) == Status::ok);
          NEED(r->outcome.bytes == n && got[0] == std::byte{7} && memcmp(got.data() + 1, data.data() + 1, n - 1) == 0);
          release(r);
          NEED(me.lane.receive(me.world, pml::any_source, pml::any_tag, Traffic::user, bytes(got.data(), n), outcome) == Status::ok);
          NEED(outcome.tag == 8 && got[0] == std::byte{8});
        }
      });
    }
  }
}

TEST_CASE("a send that was announced can be cancelled until it is matched, and its wait ends without a receive") {
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      run_ranks(2, bed, false, [](Rank& me) {
        for (uint64_t n : {8, 1000000}) {
          const auto data = pattern(n, 1), next = pattern(n, 2);
          std::vector<std::byte> got(n);
          pml::Outcome outcome;
          if (me.rank == 0) {
            pml::Request* gone = me.lane.isend(me.world, 1, 3, Traffic::user, bytes(data.data(), n), Mode::synchronous);
            pml::Request* stays = me.lane.isend(me.world, 1, 4, Traffic::user, bytes(next.data(), n), Mode::synchronous);
            for (int i = 0; i < 5; ++i) me.lane.progress();
            for (int i = 0; i < 3; ++i) me.lane.cancel(*gone);  // asks once
            NEED(me.lane.wait(*gone) == Status::ok && gone->outcome.cancelled && gone->outcome.error == 0);
            NEED(me.lane.send(me.world, 1, 5, Traffic::user, bytes(&n, sizeof n)) == Status::ok);  // now it may be received
            NEED(me.lane.send(me.world, 1, 3, Traffic::user, bytes(next.data(), n)) == Status::ok);
            NEED(me.lane.wait(*stays) == Status::ok && !stays->outcome.cancelled);
            me.lane.cancel(*stays);
            NEED(!stays->outcome.cancelled);
            release(gone);
            release(stays);
          } else {
            uint64_t word = 0;
            NEED(me.lane.receive(me.world, 0, 5, Traffic::user, bytes(&word, sizeof word), outcome) == Status::ok);
            for (int tag : {3, 4}) {
              NEED(me.lane.receive(me.world, 0, tag, Traffic::user, bytes(got.data(), n), outcome) == Status::ok);
              NEED(outcome.bytes == n && got == next);
            }
          }
        }
      });
    }
  }
}

TEST_CASE("whether a send to oneself was cancelled is known at once") {
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      run_ranks(1, bed, false, [](Rank& me) {
        for (uint64_t n : {0, 8, 1000000}) {
          for (const bool probed : {false, true}) {
            const auto data = pattern(n, 1);
            pml::Outcome outcome;
            pml::Request* r = me.lane.isend(me.world, 0, 3, Traffic::user, bytes(data.data(), n), Mode::synchronous);
            if (probed) NEED(me.lane.probe(me.world, 0, 3, outcome) == Status::ok);
            me.lane.cancel(*r);
            NEED(r->complete && r->outcome.cancelled);
            NEED(!me.lane.probe_now(me.world, 0, 3, outcome));
            release(r);
          }
        }
      });
    }
  }
}

TEST_CASE("of sends that are cancelled while they are received, each is either received or cancelled") {
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      std::atomic<int> received{0}, cancelled{0}, sent{0};
      run_ranks(2, bed, false, [&](Rank& me) {
        constexpr int count = 60;
        const int other = 1 - static_cast<int>(me.rank);
        std::minstd_rand random(me.rank + 1);
        std::vector<std::byte> out(30000), in(30000);
        int dropped = 0;
        for (int i = 0; me.rank == 0 && i < count; ++i) {
          pml::Request* r = me.lane.isend(me.world, other, 1, Traffic::user, bytes(out.data(), out.size()), Mode::synchronous);
          for (uint64_t n = random() % 8; n-- > 0;) me.lane.progress();
          me.lane.cancel(*r);
          NEED(me.lane.wait(*r) == Status::ok && r->outcome.error == 0);
          dropped += r->outcome.cancelled;
          release(r);
        }
        if (me.rank == 0) {
          cancelled = dropped;
          sent = count;
          int word = 0;
          NEED(me.lane.send(me.world, other, 2, Traffic::user, bytes(&word, sizeof word)) == Status::ok);
          return;
        }
        for (pml::Outcome outcome; !me.lane.probe_now(me.world, other, 2, outcome);)
          if (pml::Message* message = me.lane.match_now(me.world, other, 1, outcome)) {
            pml::Request* r = me.lane.ireceive(message, bytes(in.data(), in.size()));
            NEED(me.lane.wait(*r) == Status::ok && r->outcome.error == 0 && r->outcome.bytes == in.size());
            release(r);
            ++received;
          }
        int word = 0;
        pml::Outcome outcome;
        NEED(me.lane.receive(me.world, other, 2, Traffic::user, bytes(&word, sizeof word), outcome) == Status::ok);
      });
      CHECK(received + cancelled == sent);
    }
  }
}

TEST_CASE("a receive can be cancelled until it is matched") {
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      run_ranks(2, bed, false, [](Rank& me) {
        int a = 1, b = 0, c = 0;
        if (me.rank == 0) {
          NEED(me.lane.send(me.world, 1, 3, Traffic::user, bytes(&a, 4)) == Status::ok);
          return;
        }
        pml::Request* first = me.lane.ireceive(me.world, 0, 3, Traffic::user, bytes(&b, 4));
        pml::Request* second = me.lane.ireceive(me.world, 0, 3, Traffic::user, bytes(&c, 4));
        pml::Request* never = me.lane.ireceive(me.world, pml::any_source, 4, Traffic::user, bytes(&c, 4));
        NEED(me.lane.wait(*first) == Status::ok);
        me.lane.cancel(*first);
        me.lane.cancel(*second);
        me.lane.cancel(*never);
        NEED(b == 1 && !first->outcome.cancelled);
        NEED(second->complete && second->outcome.cancelled && never->complete && never->outcome.cancelled);
        for (auto* r : {first, second, never}) release(r);
      });
    }
  }
}

TEST_CASE("who sends many long messages with no answer between them sends windows") {
  pml::Windows windows;
  const auto come = [&](int messages) {
    for (int i = 0; i < messages; ++i) windows.came(i > 0);  // something was sent before the first one
    return windows.seen();
  };
  for (int i = 0; i < 100; ++i) CHECK_FALSE(come(2));  // halos
  CHECK(come(64));
  CHECK(come(1));        // the first of the next window
  CHECK_FALSE(come(1));  // they are over
  for (int i = 0; i < 1000; ++i) windows.came(true);
  CHECK(windows.seen());
}

TEST_CASE("persistent requests start again and again") {
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      run_ranks(2, bed, false, [](Rank& me) {
        for (uint64_t n : {4, 3000, 100000}) {
          std::vector<std::byte> data(n);
          const int other = 1 - static_cast<int>(me.rank);
          pml::Request* r = me.rank == 0 ? me.lane.send_init(me.world, other, 9, bytes(data.data(), n), Mode::synchronous)
                                         : me.lane.receive_init(me.world, other, 9, bytes(data.data(), n));
          NEED(!r->active);
          for (int i = 0; i < 20; ++i) {
            if (me.rank == 0) std::fill(data.begin(), data.end(), static_cast<std::byte>(i));
            r->ops->start(*r);
            NEED(me.lane.wait(*r) == Status::ok);
            r->active = false;
            NEED(data[n - 1] == static_cast<std::byte>(i));
          }
          release(r);
        }
      });
    }
  }
}

TEST_CASE("nobody is a peer like any other") {
  run_ranks(1, beds().front(), false, [](Rank& me) {
    pml::Outcome outcome;
    int a = 5;
    NEED(me.lane.send(me.world, pml::proc_null, 1, Traffic::user, bytes(&a, 4)) == Status::ok);
    NEED(me.lane.receive(me.world, pml::proc_null, 1, Traffic::user, bytes(&a, 4), outcome) == Status::ok);
    NEED(outcome.source == pml::proc_null && outcome.tag == pml::any_tag && outcome.bytes == 0 && a == 5);
    pml::Message* none = nullptr;
    NEED(me.lane.match(me.world, pml::proc_null, 1, none, outcome) == Status::ok && none == pml::Lane::no_process());
  });
}

TEST_CASE("poison ends waits") {
  run_ranks(2, beds().front(), true, [](Rank& me) {
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      me.lane.poison(Status::aborted);
    });
    int a;
    pml::Outcome outcome;
    const Status status = me.lane.receive(me.world, 1 - static_cast<int>(me.rank), 1, Traffic::user, bytes(&a, 4), outcome);
    later.join();
    NEED(status == Status::aborted);
    me.lane.poison(Status::ok);  // so that the lane closes as others do
  });
}

TEST_CASE("a failed peer fails what waits for it, and says who") {
  auto job = boot::open_fake_job(3);
  auto& boots = job.ranks;
  auto post = std::make_shared<Post>(3, Abilities{.get = true});
  std::vector<std::unique_ptr<pml::Lane>> lanes;
  for (auto& boot : boots) {
    auto lane = open_lane({"", {.get = true}}, post, *boot, false);
    REQUIRE(lane);
    lanes.push_back(std::move(*lane));
  }
  auto everyone = std::make_shared<const pml::Members>(pml::Members::range(0, 3));
  pml::Team world(*lanes[0], 8, everyone, 0);
  std::vector<std::byte> large(100000);
  int a;
  pml::Request* from_dead = lanes[0]->ireceive(world, 1, 0, Traffic::user, bytes(&a, 4));
  pml::Request* from_any = lanes[0]->ireceive(world, pml::any_source, 0, Traffic::user, bytes(&a, 4));
  pml::Request* from_living = lanes[0]->ireceive(world, 2, 0, Traffic::user, bytes(&a, 4));
  pml::Request* to_dead = lanes[0]->isend(world, 1, 0, Traffic::user, bytes(large.data(), large.size()));
  CHECK_FALSE(to_dead->complete);
  job.job->kill(1);
  for (auto* r : {from_dead, from_any, to_dead}) {
    CHECK(lanes[0]->wait(*r) == Status::ok);
    CHECK(r->outcome.error == MPI_ERR_PROC_ABORTED);
    CHECK(pml::Lane::explain(*r) == MPI_ERR_PROC_ABORTED);
    CHECK(std::string(last_failure()).find("rank 1") != std::string::npos);
    release(r);
  }
  CHECK_FALSE(from_living->complete);
  lanes[0]->cancel(*from_living);
  release(from_living);
  CHECK(lanes[0]->send(world, 1, 0, Traffic::user, bytes(&a, 4)) == Status::peer_failed);
  pml::Outcome outcome;
  CHECK(lanes[0]->receive(world, 1, 0, Traffic::user, bytes(&a, 4), outcome) == Status::peer_failed);
}

TEST_CASE("several threads send and receive at once") {
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      run_ranks(2, bed, true, [](Rank& me) {
        constexpr int threads = 3, count = 150;
        std::vector<std::thread> all;
        std::atomic<int> wrong{0};
        for (int t = 0; t < threads; ++t)
          all.emplace_back([&, t] {
            const int other = 1 - static_cast<int>(me.rank);
            for (int i = 0; i < count; ++i) {
              const uint64_t n = i % 10 == 0 ? 20000 : i % 3 == 0 ? 1000 : 8;
              auto data = pattern(n, static_cast<uint64_t>(t * 1000 + i));
              std::vector<std::byte> got(n);
              pml::Request* r = me.lane.ireceive(me.world, other, t, Traffic::user, bytes(got.data(), n));
              if (me.lane.send(me.world, other, t, Traffic::user, bytes(data.data(), n)) != Status::ok) ++wrong;
              if (me.lane.wait(*r) != Status::ok || got != data) ++wrong;
              release(r);
            }
          });
        for (auto& t : all) t.join();
        NEED(wrong == 0);
      });
    }
  }
}
