#include "comm/measure.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/config/config.h"
#include "runtime/type/predefined.h"

namespace weft::comm {
namespace {

config::Bool measure_variable("net", "measure", "no",
                              "Measure at the start what the ways between ranks cost, and choose by that. For all ranks of a job alike.");

constexpr int kTag = 2;
constexpr uint64_t kPatience_ns = 60'000'000'000;
constexpr uint64_t kOpening_ns = 3'000'000'000;  // that a way may take to carry something for the first time
constexpr size_t kShort = 8, kLong = 4 << 20;
constexpr int kWarmUp = 3, kShortTurns = 101, kLongTurns = 5;
constexpr uint32_t kMostHosts = 32;  // that measure the ways between each other

/// What the one that leads tells the other: the next way; none: that is all.
struct Next {
  uint32_t wire = 0;
  uint8_t rail = 0, some = 0;
};

/// Two ranks that measure the ways between them.
class Pair {
 public:
  Pair(pml::Lane& lane, pml::Team& team, uint32_t other) : lane_(lane), team_(team), other_(static_cast<int>(other)) {
    lane_.locked([&] { who_ = team_.peer(other).id; });
  }
  void lead(const std::string& host, pml::Prices& found);
  void follow(const std::string& host, pml::Prices& found);

 private:
  bool ends_well(pml::Request*);
  template <class T>
  bool tell(T what) {
    return ends_well(lane_.isend(team_, other_, kTag, pml::Traffic::user, {&what, sizeof what, &type::of(type::Basic::byte)}));
  }
  template <class T>
  bool hear(T& what) {
    return ends_well(lane_.ireceive(team_, other_, kTag, pml::Traffic::user, {&what, sizeof what, &type::of(type::Basic::byte)}));
  }
  bool open(const pml::WayName&);
  bool works(const pml::WayName&);
  std::optional<double> play(bool leads, size_t bytes, int turns);
  bool measure(const pml::WayName&, bool leads, btl::Price&);

  pml::Lane& lane_;
  pml::Team& team_;
  const int other_;
  ProcessId who_;  // its seat
};

/// Waits for a request; false if it does not end, or ends badly.
bool Pair::ends_well(pml::Request* request) {
  const auto complete = [](void* r) { return static_cast<pml::Request*>(r)->complete.load(); };
  const bool in_time = lane_.wait_for(complete, request, kPatience_ns) == Status::ok;
  if (!in_time) lane_.cancel(*request);
  const bool well = in_time && !request->outcome.error && !request->outcome.cancelled;
  release(request);
  return well;
}

/// Messages to and fro; the time of the fastest turn in ns: what other work on the hosts delays says nothing of the way.
std::optional<double> Pair::play(bool leads, size_t bytes, int turns) {
  std::vector<std::byte> data(bytes);
  const pml::Buffer buffer{data.data(), bytes, &type::of(type::Basic::byte)};
  const auto send = [&] { return ends_well(lane_.isend(team_, other_, kTag, pml::Traffic::user, buffer)); };
  const auto receive = [&] { return ends_well(lane_.ireceive(team_, other_, kTag, pml::Traffic::user, buffer)); };
  double fastest = std::numeric_limits<double>::max();
  for (int turn = -kWarmUp; turn < turns; ++turn) {
    const uint64_t start = now_ns();
    if (!(leads ? send() && receive() : receive() && send())) return std::nullopt;
    if (turn >= 0) fastest = std::min(fastest, static_cast<double>(now_ns() - start));
  }
  return fastest;
}

bool Pair::works(const pml::WayName& way) {
  bool works = false;
  lane_.locked([&] { works = lane_.works(who_, way); });
  return works;
}

/// Sends everything over this way from now on, once it is open.
bool Pair::open(const pml::WayName& way) {
  struct Wanted {
    Pair& pair;
    const pml::WayName& way;
  } wanted{*this, way};
  const auto works = [](void* w) {
    const auto& [pair, name] = *static_cast<Wanted*>(w);
    return pair.lane_.works(pair.who_, name);
  };
  return lane_.confine(who_, &way) && lane_.wait_for(works, &wanted, kOpening_ns) == Status::ok;
}

/// One way. False if the other side is silent.
bool Pair::measure(const pml::WayName& way, bool leads, btl::Price& price) {
  uint8_t here = open(way), there = 0;
  price = pml::kCarriesNothing;
  if (!tell(here) || !hear(there)) return false;
  if (here && there) {
    const auto small = play(leads, kShort, kShortTurns);
    const auto large = small ? play(leads, kLong, kLongTurns) : small;
    if (!large) return false;
    const double of_bytes = large > small ? *large - *small : *large;
    if (works(way)) price = {*small / 2, of_bytes / 2 / static_cast<double>(kLong)};
  }
  lane_.confine(who_, nullptr);
  if (leads) return tell(price);  // both sides are to choose alike
  return hear(price);
}

void Pair::lead(const std::string& host, pml::Prices& found) {
  for (const pml::WayName& way : lane_.ways_to(who_)) {
    btl::Price price;
    if (!tell(Next{way.wire, way.rail, 1}) || !measure(way, true, price)) return;
    found.set(host, way.transport, way.device, price);
  }
  tell(Next{});
}

void Pair::follow(const std::string& host, pml::Prices& found) {
  for (Next next; hear(next) && next.some;) {
    const auto ways = lane_.ways_to(who_);
    const auto same = [&](const pml::WayName& way) { return way.wire == next.wire && way.rail == next.rail; };
    const auto at = std::ranges::find_if(ways, same);
    const pml::WayName way = at == ways.end() ? pml::WayName{next.wire, next.rail, "", ""} : *at;
    btl::Price price;
    if (!measure(way, false, price)) return;
    if (at != ways.end()) found.set(host, way.transport, way.device, price);
  }
}

/// The first rank of a host.
pml::Prices meet_others(const boot::Job& job, pml::Lane& lane, pml::Team& team, const std::vector<HostOf>& hosts) {
  pml::Prices found;
  if (job.node_ranks.size() > 1) Pair(lane, team, job.node_ranks[1]).lead(job.host, found);
  const auto count = static_cast<uint32_t>(std::min<size_t>(hosts.size(), kMostHosts));
  const auto own = std::ranges::find(hosts, job.rank, &HostOf::rank);
  const auto me = static_cast<uint32_t>(own - hosts.begin());
  if (hosts.size() > kMostHosts && me == 0)
    log(Level::info, "the ways between the first %u of %zu hosts are measured only", kMostHosts, hosts.size());
  for (uint32_t round = 0; me < count && round < rounds(count); ++round) {
    const int partner = partner_in(round, me, count);
    if (partner < 0) continue;
    const HostOf& other = hosts[static_cast<size_t>(partner)];
    Pair pair(lane, team, other.rank);
    me < static_cast<uint32_t>(partner) ? pair.lead(other.name, found) : pair.follow(other.name, found);
  }
  return found;
}

/// From the first rank of a host to its others.
pml::Prices share(const boot::Job& job, pml::Lane& lane, pml::Team& team, const pml::Prices& found) {
  const auto& here = job.node_ranks;
  const auto first = static_cast<int>(here[0]);
  std::string text = found.to_text();
  const auto buffer = [&] { return pml::Buffer{text.data(), text.size(), &type::of(type::Basic::byte)}; };
  pml::Outcome outcome;
  if (job.local_rank == 0) {
    for (size_t i = 1; i < here.size(); ++i) lane.send(team, static_cast<int>(here[i]), kTag, pml::Traffic::user, buffer());
    return found;
  }
  if (lane.probe(team, first, kTag, outcome) != Status::ok) return {};
  text.resize(outcome.bytes);
  lane.receive(team, first, kTag, pml::Traffic::user, buffer(), outcome);
  return pml::Prices::from_text(text);
}

}  // namespace

int partner_in(uint32_t round, uint32_t me, uint32_t count) {
  const uint32_t last = count - 1 + count % 2, half = (last + 1) / 2;  // the rounds; 2 * half = 1 modulo those
  const uint32_t partner = me == last ? round * half % last : (round + last - me) % last;
  const uint32_t found = partner == me ? last : partner;
  return found < count ? static_cast<int>(found) : -1;
}

bool measures_ways() { return measure_variable.get(); }

void measure_ways(pml::Lanes& lanes, pml::Lane& lane, pml::Team& team, const std::vector<HostOf>& hosts) {
  const boot::Job& job = lanes.first().boot().job();  // other lanes know themselves by their seats
  pml::Prices found;
  if (job.local_rank == 0) found = meet_others(job, lane, team, hosts);
  if (job.local_rank == 1) Pair(lane, team, job.node_ranks[0]).follow(job.host, found);
  found = share(job, lane, team, found);
  for (const auto& each : lanes.all()) each->learn(found);
}

}  // namespace weft::comm
