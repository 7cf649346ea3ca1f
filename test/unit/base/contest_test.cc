// Which of two ways is taken.
#include "runtime/base/contest.h"

#include <catch2/catch.hpp>

using namespace weft;

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
