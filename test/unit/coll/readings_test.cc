// Whether what ranks exchange is read where it lies: how they come to decide.
#include "coll/node/readings.h"

#include <array>
#include <catch2/catch.hpp>

#include "runtime/base/clock.h"
#include "test/unit/setting.h"

using namespace weft;
using coll::node::Reach;
using coll::node::Readings;
using coll::node::RootReadings;

namespace {

constexpr uint64_t kBlock = 64 << 10;
constexpr uint64_t kLap = 8 * kBlock;

/// Three ranks that take turns; a call is over when the last one of them has waited.
class Ranks {
 public:
  explicit Ranks(bool can = true) {
    call(1, 1);
    reach_.can_read(can);
    call(1, 1);
  }
  /// A call by slots takes so long, and one that reads; does it read?
  bool call(uint64_t slots_ns, uint64_t reading_ns, uint64_t fresh_ns = 0) {
    int reads = 0;
    uint64_t notes[3];
    for (size_t i = 0; i < 3; ++i) {
      reads += all_[i].begin(Readings::Kernel::alltoall, kBlock, 2, reach_);
      notes[i] = all_[i].note(reach_);
    }
    for (Readings& r : all_)
      for (const uint64_t note : notes) r.hear(note);
    const uint64_t until = now_ns() + (reads ? reading_ns : slots_ns);
    while (now_ns() < until) cpu_pause();
    for (Readings& r : all_) {
      if (reads) r.read(kBlock, fresh_ns, {});
      r.end();
    }
    CHECK(reads % 3 == 0);  // all decide alike
    return reads > 0;
  }
  /// How many of so many calls read?
  int read(int of, uint64_t slots_ns, uint64_t reading_ns, uint64_t fresh_ns = 0) {
    int count = 0;
    for (int i = 0; i < of; ++i) count += call(slots_ns, reading_ns, fresh_ns);
    return count;
  }

 private:
  Reach reach_;
  std::array<Readings, 3> all_{Readings(1), Readings(1), Readings(1)};
};

}  // namespace

TEST_CASE("exchanges are read where they lie while that takes less time") {
  Ranks ranks;
  const int tried = ranks.read(200, 20'000, 28'000);
  CHECK(tried > 0);
  CHECK(tried < 40);
  CHECK(ranks.read(2500, 20'000, 5'000) > 0);  // it is tried again, seldom
  CHECK(ranks.read(200, 20'000, 5'000) > 150);
  CHECK(ranks.read(600, 20'000, 5'000) < 600);  // slots are not forgotten
  ranks.read(200, 20'000, 50'000);
  CHECK(ranks.read(100, 20'000, 50'000) < 20);
}

TEST_CASE("what is slow to read, as it has been written since, is not read") {
  Ranks ranks;
  ranks.read(40, 12'000, 8'000, 80'000);  // that it has been written costs 10'000, far more than the noise of any machine
  CHECK(ranks.read(200, 12'000, 8'000, 80'000) < 40);
}

TEST_CASE("nothing is read where one of the ranks cannot, or the user does not want it, and all where that is wanted") {
  Ranks unable(false);
  CHECK(unable.read(100, 60'000, 1'000) == 0);
  {
    const Setting no("WEFT_COLL_READ", "no");
    Ranks ranks;
    CHECK_FALSE(Reach().to_try());
  }
  const Setting always("WEFT_COLL_READ", "always");
  Ranks ranks;
  CHECK(ranks.read(20, 1'000, 20'000) == 20);
  Readings one(1);
  CHECK_FALSE(one.begin(Readings::Kernel::allgather, Readings::kLeast - 1, 1, Reach()));
}

namespace {

/// A root and a reader that tells how long a broadcast took it some calls later, or, if the root has waited for it, at once.
class Broadcasts {
 public:
  explicit Broadcasts(bool can = true, uint64_t lag = 0) : lag_(lag) { reach_.can_read(can); }
  /// How many of so many are read, where they take the reader so long?
  int read(int of, uint64_t slots_ns, uint64_t reading_ns) {
    int count = 0;
    for (int i = 0; i < of; ++i) {
      if (root_.asks()) root_.hear(root_.tells(told_), RootReadings::ns_of(told_), RootReadings::can_read(told_));
      const uint64_t say = root_.begin(kBlock, ++n_, reach_);
      root_.end();
      const bool reads = say & RootReadings::reads;
      if (say & RootReadings::timed) {
        CHECK(told_ == note_);  // not before it has heard of the latest one
        asked_ = n_;
        note_ = RootReadings::note(n_, reads ? reading_ns : slots_ns, reach_.can_read());
      }
      if (reads || n_ >= asked_ + lag_) told_ = note_;
      count += reads;
    }
    return count;
  }

 private:
  const uint64_t lag_;
  Reach reach_;
  RootReadings root_{kLap};
  uint64_t n_ = 70'000, asked_ = 0, note_ = 0, told_ = 0;
};

}  // namespace

TEST_CASE("broadcasts are read where they lie while that takes the reader less time") {
  Broadcasts near;
  CHECK(near.read(400, 10'000'000, 5'000'000) > 300);
  CHECK(near.read(400, 10'000'000, 20'000'000) < 300);
  CHECK(near.read(400, 10'000'000, 20'000'000) < 40);
  Broadcasts slow;
  CHECK(slow.read(400, 5'000'000, 10'000'000) < 40);
}

TEST_CASE("slots whose memory is new tell nothing of how long broadcasts through them take") {
  Broadcasts fresh;
  CHECK(fresh.read(8, 40'000'000, 10'000'000) == 0);
  CHECK(fresh.read(400, 5'000'000, 10'000'000) < 40);
}

TEST_CASE("a root waits for what its readers have to say, however late they come, and not for ever") {
  Broadcasts late(true, 20);
  CHECK(late.read(2000, 10'000'000, 5'000'000) > 500);
  RootReadings root(0);
  const Reach reach;
  uint64_t asked = 0;
  for (uint64_t n = 1; n < 2000; ++n) {
    if (root.asks()) root.hear(false, 0, true);
    asked += root.begin(kBlock, n, reach) & RootReadings::timed;
    root.end();
  }
  CHECK(asked > 2 * RootReadings::timed);
  for (uint64_t n = 0; n < 1 << 17; ++n) REQUIRE(RootReadings::note(n, 0, false) != 0);  // that would be as if nobody had said anything
}

TEST_CASE("nothing is read of a root whose readers cannot") {
  Broadcasts unable(false);
  CHECK(unable.read(400, 10'000'000, 5'000'000) == 0);
}
