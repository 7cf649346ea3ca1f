// Results, failures with texts, pools that recognise stale handles, reference counts, copies.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "include/mpi.h"
#include "runtime/base/copy.h"
#include "runtime/base/error.h"
#include "runtime/base/object.h"
#include "runtime/base/process_id.h"
#include "runtime/base/status.h"

using namespace weft;

namespace {

struct Sample : Object {
  explicit Sample(int v) : Object(Kind::info), value(v) {
    if (v < 0) throw 7;
    ++alive;
  }
  ~Sample() { --alive; }
  static Pool<Sample>& pool() {
    static Pool<Sample> all;
    return all;
  }
  static void destroy(Sample* s) { pool().destroy(s); }
  static inline std::atomic<int> alive{0};
  int value;
  std::string text = "something on the heap that a leak checker would miss";
};

}  // namespace

TEST_CASE("a result is a value or a failure") {
  Result<std::string> good(std::string("value")), bad(Failure{"why"});
  REQUIRE(good);
  CHECK(*good == "value");
  CHECK(good->size() == 5);
  REQUIRE_FALSE(bad);
  CHECK(bad.failure().text == "why");
  Result<void> fine, broken(Failure{"no"});
  CHECK(fine);
  CHECK_FALSE(broken);
  CHECK(broken.failure().text == "no");
  Result<Failure*> pointer(nullptr);
  CHECK(pointer);
}

TEST_CASE("fail keeps its text in the thread") {
  clear_failure();
  CHECK(last_failure().empty());
  CHECK(fail(MPI_ERR_RANK, "rank %d is outside 0..%d", 9, 3) == MPI_ERR_RANK);
  CHECK(last_failure() == "rank 9 is outside 0..3");
  std::thread([] {
    CHECK(last_failure().empty());
    fail(MPI_ERR_TAG, "other");
  }).join();
  CHECK(last_failure() == "rank 9 is outside 0..3");
  const std::string huge(100000, 'x');
  fail(MPI_ERR_OTHER, "%s", huge.c_str());
  CHECK(last_failure().size() > 100);
  CHECK(last_failure().size() < 5000);
  clear_failure();
  CHECK(last_failure().empty());
}

TEST_CASE("statuses have error classes and names") {
  clear_failure();
  CHECK(fail(Status::ok) == MPI_SUCCESS);
  CHECK(fail(Status::truncated) == MPI_ERR_TRUNCATE);
  CHECK(fail(Status::peer_failed) == MPI_ERR_PROC_ABORTED);
  CHECK(fail(Status::aborted) == MPI_ERR_OTHER);
  CHECK_FALSE(last_failure().empty());
  std::set<std::string> names;
  for (const Status s :
       {Status::ok, Status::again, Status::truncated, Status::peer_failed, Status::revoked, Status::aborted, Status::failed})
    names.insert(to_string(s));
  CHECK(names.size() == 7);
}

TEST_CASE("a freed object is recognised, and its place is used again") {
  Pool<Sample> pool;
  Sample* first = pool.make(1);
  CHECK(first->kind == Kind::info);
  pool.destroy(first);
  CHECK(*reinterpret_cast<volatile uint32_t*>(first) == uint32_t(Kind::freed));
  CHECK(pool.make(2) == first);
  pool.destroy(first);
  CHECK(Sample::alive == 0);
}

TEST_CASE("a constructor that throws costs nothing") {
  Pool<Sample> pool;
  Sample* first = pool.make(1);
  pool.destroy(first);
  CHECK_THROWS_AS(pool.make(-1), int);
  CHECK(pool.make(3) == first);
  pool.destroy(first);
}

TEST_CASE("pools hand out distinct objects in any order of making and freeing") {
  const auto seed = GENERATE(take(3, random(1, 1 << 30)));
  CAPTURE(seed);
  std::mt19937 dice(static_cast<unsigned>(seed));
  Pool<Sample> pool;
  std::vector<Sample*> held;
  std::set<Sample*> distinct;
  for (int round = 0; round < 20000; ++round) {
    if (held.empty() || dice() % 100 < 55) {
      Sample* s = pool.make(round);
      REQUIRE(distinct.insert(s).second);
      REQUIRE(reinterpret_cast<uintptr_t>(s) % alignof(Sample) == 0);
      REQUIRE(reinterpret_cast<uintptr_t>(s) >= 4096);
      held.push_back(s);
    } else {
      std::swap(held[dice() % held.size()], held.back());
      distinct.erase(held.back());
      pool.destroy(held.back());
      held.pop_back();
    }
  }
  REQUIRE(Sample::alive == int(held.size()));
  for (Sample* s : held) pool.destroy(s);
  CHECK(Sample::alive == 0);
}

TEST_CASE("pools serve many threads") {
  Pool<Sample> pool;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 3000; ++round) {
        Sample* a = pool.make(t);
        Sample* b = pool.make(t + 100);
        std::this_thread::yield();
        if (a->value != t || b->value != t + 100) ++wrong;
        pool.destroy(a);
        pool.destroy(b);
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(Sample::alive == 0);
}

TEST_CASE("the last reference destroys, predefined objects stay") {
  Sample* s = Sample::pool().make(5);
  CHECK(retain(s) == s);
  release(s);
  CHECK(Sample::alive == 1);
  release(s);
  CHECK(Sample::alive == 0);
  release<Sample>(nullptr);
  Sample constant(1);
  constant.predefined = true;
  release(&constant);
  CHECK(constant.kind == Kind::info);
}

TEST_CASE("process ids order by job, then rank") {
  CHECK(ProcessId{0, 9} < ProcessId{1, 0});
  CHECK(ProcessId{1, 2}.packed() == ((1ull << 32) | 2));
  CHECK(std::hash<ProcessId>{}({1, 2}) != std::hash<ProcessId>{}({2, 1}));
}

TEST_CASE("copies of what others have written, and into what they have read, are exact, however they lie", "[copy]") {
  std::mt19937 random(1);
  constexpr size_t room = (1 << 20) + 4096;
  std::vector<std::byte> from(room), to(room);
  for (std::byte& b : from) b = std::byte(random());
  for (int round = 0; round < 400; ++round) {
    const size_t n = round < 300 ? random() % 3000 : random() % (room - 200), source = random() % 100, target = 1 + random() % 100;
    for (void (*const copy)(void*, const void*, size_t) : {copy_out, copy_received, copy_in<1024>, copy_from_afar}) {
      std::fill(to.begin(), to.end(), std::byte{0x5a});
      copy(to.data() + target, from.data() + source, n);
      INFO(n << " bytes from " << source << " to " << target);
      REQUIRE(std::memcmp(to.data() + target, from.data() + source, n) == 0);
      REQUIRE(to[target - 1] == std::byte{0x5a});
      REQUIRE(to[target + n] == std::byte{0x5a});
    }
  }
}

TEST_CASE("copies to afar are exact, and leave what was read as it is", "[copy]") {
  std::mt19937 random(2);
  constexpr size_t room = 1 << 16;
  std::vector<std::byte> from(room + 64), before, to(room + 4096);
  for (std::byte& b : from) b = std::byte(random());
  before = from;
  std::byte* const source = from.data() + (-reinterpret_cast<uintptr_t>(from.data()) & 63);  // as in a ring
  for (int round = 0; round < 200; ++round) {
    const size_t n = random() % room, target = 1 + random() % 100;
    std::fill(to.begin(), to.end(), std::byte{0x5a});
    copy_to_afar(to.data() + target, source, n, round % 2 == 0);
    INFO(n << " bytes to " << target);
    REQUIRE(std::memcmp(to.data() + target, source, n) == 0);
    REQUIRE(from == before);
    REQUIRE(to[target - 1] == std::byte{0x5a});
    REQUIRE(to[target + n] == std::byte{0x5a});
  }
}

TEST_CASE("short copies copy exactly", "[copy]") {
  for (size_t n = 0; n <= kShortCopy; ++n) {
    std::byte from[kShortCopy], to[kShortCopy + 2];
    for (size_t i = 0; i < kShortCopy; ++i) from[i] = std::byte(i + 1);
    std::memset(to, 0, sizeof to);
    copy_short(to + 1, from, n);
    CHECK(to[0] == std::byte{0});
    for (size_t i = 0; i < n; ++i) REQUIRE(to[i + 1] == from[i]);
    CHECK(to[n + 1] == std::byte{0});
  }
}
