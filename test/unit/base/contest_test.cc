// Which of two ways is taken.
#include "runtime/base/contest.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace weft;

namespace {

/// How many messages in a row go the usual way before each trial. `doubtful`: is the other one's standing, once it has been tried?
std::vector<int> waits_of(Contest& contest, int messages, bool doubtful) {
  std::vector<int> waited;
  for (int usual = 0, i = 0; i < messages; ++i) {
    if (!contest.takes_other(true, {.ahead = false, .doubtful = doubtful && !waited.empty()})) {
      ++usual;
      continue;
    }
    if (usual > 0) waited.push_back(usual);
    usual = 0;
  }
  return waited;
}

}  // namespace

TEST_CASE("a copy that was interrupted does not count for much") {
  Pace pace;
  for (int i = 0; i < 70; ++i) pace.took(1000, 100);
  pace.took(1000, 1000000);
  CHECK(pace.ns_per_byte() < 0.2);
  int due = 0;
  for (int i = 0; i < 80; ++i) due += pace.due(64 << 10);
  CHECK(due == 5);
  pace.rare = true;
  CHECK(pace.due(64 << 10));
  CHECK(pace.due(64 << 10));
  CHECK_FALSE(pace.due(100));
  CHECK(pace.due(4 << 10, 16 << 10));
  CHECK_FALSE(pace.due(1 << 10, 16 << 10));
  CHECK_FALSE(pace.due(2 << 10, 8 << 10));
}

TEST_CASE("what is only looked at now and then counts as it was while it was used") {
  Pace pace;
  int due = 0;
  for (int i = 0; i < 64; ++i) {
    due += pace.due(64 << 10);
    pace.took(1000, i < 16 ? 400 : 50);  // memory that is new
  }
  CHECK(due == 32);
  CHECK(pace.ns_per_byte() < 0.055);
  pace.rare = true;
  for (int i = 0; i < 16; ++i) pace.took(1000, 200);
  CHECK(pace.ns_per_byte() < 0.06);
  for (int i = 0; i < 16; ++i) pace.took(1000, 50);
  CHECK(pace.ns_per_byte() < 0.051);
  for (int i = 0; i < 1000; ++i) pace.took(1000, 200);  // it has changed
  CHECK(pace.ns_per_byte() > 0.19);
}

TEST_CASE("who has failed a trial is tried again soon at first, and ever more seldom") {
  constexpr Contest::Habits habits{
      .trial = 16, .few = 8, .first_wait = 8, .wait = 1024, .most_wait = 1 << 14, .looks = 1, .first_look = 32, .look_every = 512};
  Contest contest(habits);
  CHECK(waits_of(contest, 60'000, false) == std::vector<int>{8, 128, 512, 1024, 2048, 4096, 8192, 16384, 16384});
  CHECK_FALSE(contest.takes_other(false, {.ahead = true}));

  Contest doubtful(habits);
  CHECK(waits_of(doubtful, 4000, true) == std::vector<int>{8, 8, 32, 1024, 2048});  // twice

  Contest hopeless(habits);
  int tried = 0;
  for (int i = 0; i < 1000; ++i) tried += hopeless.takes_other(true, {.ahead = false, .hopeless = true});
  CHECK(tried == 18);  // two trials, each of which ends after eight and the one that begins it
}
