#include "comm/measure.h"

#include <algorithm>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/type/predefined.h"

namespace weft::comm {
namespace {

constexpr int kTag = 2;
constexpr uint64_t kPatience_ns = 60'000'000'000;
constexpr size_t kShort = 8, kLong = 4 << 20;
constexpr int kWarmUp = 3, kShortTurns = 101, kLongTurns = 5;

/// Waits for a request; false if it does not end, or ends badly.
bool ends_well(pml::Lane& lane, pml::Request* request) {
  const auto complete = [](void* r) { return static_cast<pml::Request*>(r)->complete.load(); };
  const bool in_time = lane.wait_for(complete, request, kPatience_ns) == Status::ok;
  if (!in_time) lane.cancel(*request);
  const bool well = in_time && !request->outcome.error && !request->outcome.cancelled;
  release(request);
  return well;
}

/// Messages to and fro; the median time of a turn in ns.
std::optional<double> play(pml::Lane& lane, pml::Team& team, int other, bool leads, size_t bytes, int turns) {
  std::vector<std::byte> data(bytes);
  const pml::Buffer buffer{data.data(), bytes, &type::of(type::Basic::byte)};
  const auto send = [&] { return ends_well(lane, lane.isend(team, other, kTag, pml::Traffic::user, buffer)); };
  const auto receive = [&] { return ends_well(lane, lane.ireceive(team, other, kTag, pml::Traffic::user, buffer)); };
  std::vector<double> times;
  for (int turn = -kWarmUp; turn < turns; ++turn) {
    const uint64_t start = now_ns();
    if (!(leads ? send() && receive() : receive() && send())) return std::nullopt;
    if (turn >= 0) times.push_back(static_cast<double>(now_ns() - start));
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

std::optional<Speed> measured(pml::Lane& lane, pml::Team& team, int other, bool leads) {
  const auto small = play(lane, team, other, leads, kShort, kShortTurns);
  if (!small) return std::nullopt;
  const auto large = play(lane, team, other, leads, kLong, kLongTurns);
  if (!large) return std::nullopt;
  return Speed{*small / 2000, static_cast<double>(kLong) * 2 / *large};
}

}  // namespace

std::optional<Speed> measure(pml::Lane& lane, pml::Team& team, int other) { return measured(lane, team, other, true); }
void be_measured(pml::Lane& lane, pml::Team& team, int by) { measured(lane, team, by, false); }

}  // namespace weft::comm
