// Ranks that wait long in collectives of their node: they sleep, and whoever they wait for wakes them.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "include/mpi.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/fence.h"
#include "runtime/type/predefined.h"
#include "test/unit/coll/world.h"

using namespace weft;
using namespace weft::coll;

namespace {

constexpr int kRounds = 5;
constexpr auto kLate = std::chrono::milliseconds(140);  // into the second sleep of a tenth of a second
constexpr uint64_t kTooMany = 6;                        // sleeps: two, but for who is interrupted; whoever naps before makes 13
constexpr uint64_t kNotWoken = 20'000'000;              // nanoseconds: who is not woken sleeps for a tenth of a second

enum class Way { blocking, nonblocking };

int call(RankWorld& w, Way way, const Call& c) {
  if (way == Way::blocking) return run(w.state, c);
  pml::Request* request = nullptr;
  int error = start(w.state, c, &request);
  if (!error) w.lane.wait(*request), error = request->outcome.error;
  if (request) release(request);
  return error;
}

/// The last rank is late; the others count their sleeps, and how long after it they go on.
std::string wait_for_late(RankWorld& w, Way way, uint64_t too_many, std::atomic<uint64_t>& came_at) {
  double in = 1, out = 0;
  Call sum;
  sum.what = Collective::allreduce;
  sum.in = &in;
  sum.out = &out;
  sum.out_count = 1;
  sum.out_type = &type::of(type::Basic::float64);
  sum.op = op::predefined(reinterpret_cast<uintptr_t>(MPI_SUM));
  std::array<uint64_t, kRounds> after;
  uint64_t most_sleeps = 0;
  for (int i = -1; i < kRounds; ++i) {  // the first one makes what is made on first use
    if (run(w.state, Call{})) return std::string(last_failure());
    const bool late = w.rank == w.size - 1;
    const uint64_t before = w.lane.counters().sleeps;
    if (late && i >= 0) std::this_thread::sleep_for(kLate);
    if (late) came_at = now_ns();
    if (call(w, way, sum)) return std::string(last_failure());
    const uint64_t end = now_ns();
    if (run(w.state, Call{})) return std::string(last_failure());
    if (i < 0 || late) continue;
    after[static_cast<size_t>(i)] = end > came_at ? end - came_at : 0;
    most_sleeps = std::max(most_sleeps, w.lane.counters().sleeps - before);
  }
  if (w.rank == w.size - 1) return {};
  std::ranges::sort(after);
  if (most_sleeps >= too_many) return std::to_string(most_sleeps) + " sleeps";
  return after[kRounds / 2] < kNotWoken ? std::string() : std::to_string(after[kRounds / 2]) + " ns behind";
}

}  // namespace

TEST_CASE("who waits long in a collective of its node does not nap, but sleeps, and is woken") {
  if (!membarrier_registered() && !register_membarrier()) return;  // nobody is woken where the system has no such fence
  const auto way = GENERATE(Way::blocking, Way::nonblocking);
  believed_cpus = GENERATE(1, 64);
  std::atomic<uint64_t> came_at{0};
  CHECK(on_ranks(3, [&](RankWorld& w) { return wait_for_late(w, way, kTooMany, came_at); }) == "");
  believed_cpus = 0;
}
