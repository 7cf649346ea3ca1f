#include "coll/model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "coll/hosts.h"

namespace weft::coll {

namespace {

bool is_message(const Step& s) { return s.kind == StepKind::send || s.kind == StepKind::receive; }
/// Blocks that turn out empty send nothing.
bool is_sent(const Step& s, double block_bytes) { return s.blocks == 0 || block_bytes > 0; }

/// Loops shortened alike on all ranks: those of `from` times and more run `less` times less, spread over the whole.
struct Shortening {
  int32_t from = INT32_MAX, less = 0;
  int32_t times(int32_t n) const { return n >= from ? n - less : n; }
  int32_t index(int32_t k, int32_t n) const { return n >= from ? static_cast<int32_t>(int64_t{k} * n / (n - less)) : k; }
};

/// Calls visit(step, times, rounds) for each message step: how many messages it stands for, each to its own peer where there is a stride,
/// and how often that happens.
template <class Visit>
void each_message(const Schedule& s, double block_bytes, Visit visit) {
  for (const Loop& loop : s.loops) {
    for (uint32_t r = loop.first; r < loop.first + loop.rounds; ++r) {
      const Round& round = s.rounds[r];
      for (uint32_t i = round.first; i < round.first + round.steps; ++i) {
        const Step& step = s.steps[i];
        if (!is_message(step) || !is_sent(step, block_bytes)) continue;
        step.repeat > 1 ? visit(step, step.repeat, loop.times) : visit(step, loop.times, 1);
      }
    }
  }
}

Clock& operator+=(Clock& a, const Clock& b) {
  a.at += b.at;
  a.latency += b.latency;
  a.transfer += b.transfer;
  a.waiting += b.waiting;
  a.work += b.work;
  a.hops += b.hops;
  return a;
}
Clock operator*(Clock a, double f) { return {a.at * f, a.latency * f, a.transfer * f, a.waiting * f, a.work * f, a.hops * f}; }
const Clock& later(const Clock& a, const Clock& b) { return a.at >= b.at ? a : b; }
Clock spent_on(double Clock::*what, double ns) {
  Clock c;
  c.at = c.*what = ns;
  return c;
}

class Simulation {
 public:
  Simulation(const std::vector<Schedule>& schedules, double block_bytes, const Shape& shape, const Machine& machine, Shortening cut)
      : bytes_(block_bytes), shape_(shape), machine_(machine), cut_(cut), ranks_(schedules.size()) {
    for (size_t r = 0; r < schedules.size(); ++r) ranks_[r].schedule = &schedules[r];
    for (auto* links : {&host_out_, &host_in_}) links->assign(static_cast<size_t>(shape.hosts()), 0);
    for (auto* links : {&up_, &down_}) links->assign(static_cast<size_t>(shape.leaves()), 0);
  }

  /// Until when the last rank is busy; fails if ranks wait for messages that do not come, or get some that nobody wants.
  Result<Clock> run() {
    const auto size = static_cast<Rank>(ranks_.size());
    for (Rank r = 0; r < size; ++r) go_on(r);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      event.flight >= 0 ? land(event.flight) : send_next(event.who);
    }
    Clock end;
    for (Rank r = 0; r < size; ++r) {
      if (!ranks_[static_cast<size_t>(r)].finished) return Failure{"rank " + std::to_string(r) + " waits for a message that is not sent"};
      end = later(end, ranks_[static_cast<size_t>(r)].now);
    }
    if (!pairs_.empty()) return Failure{"a message is sent that is not received"};
    return end;
  }

 private:
  struct State {
    const Schedule* schedule = nullptr;
    uint32_t loop = 0, round = 0;  // where it is; the round counts within the loop
    int32_t iteration = 0;
    uint32_t step = 0;  // the send that comes next, and which of its repetitions
    int32_t repetition = 0;
    int32_t awaited = 0;
    bool posted = false, finished = false;
    Clock now;                                      // of its processor
    Clock left;                                     // when its last message has left
    double taken = 0;                               // until when a message is coming in
    std::vector<std::pair<Clock, double>> arrived;  // in this round: when, and the overhead
  };
  struct Event {
    double at;
    uint64_t number;
    Rank who;
    int32_t flight = -1;  ///< what arrives; -1: the rank sends
    bool operator<(const Event& o) const { return at != o.at ? at > o.at : number > o.number; }
  };
  /// Messages that nobody waits for yet, or receives that no message has come for.
  struct Pair {
    std::vector<Clock> early;
    int32_t awaited = 0;
  };

  State& state(Rank r) { return ranks_[static_cast<size_t>(r)]; }
  static const Round& round_of(const State& s) { return s.schedule->rounds[s.schedule->loops[s.loop].first + s.round]; }
  int32_t times(const Step& s) const { return is_message(s) ? cut_.times(s.repeat) : s.repeat; }
  Rank peer(const State& s, const Step& step, int32_t repetition) const {
    const int32_t k = step.repeat > 1 ? cut_.index(repetition, step.repeat) : cut_.index(s.iteration, s.schedule->loops[s.loop].times);
    return wrap(step.peer + int64_t{k} * step.peer_stride, static_cast<int32_t>(ranks_.size()));
  }
  static uint64_t key(Rank from, Rank to) { return static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to); }
  double receive_overhead(Rank from, Rank to) const { return machine_.path(shape_.level(from, to)).receive; }

  /// Runs a rank from the beginning of a round to where it has to wait, or until it is done.
  void go_on(Rank r) {
    State& s = state(r);
    for (;;) {
      if (s.loop == s.schedule->loops.size()) {
        s.finished = true;
        return;
      }
      begin_round(r, s);
      if (find_send(s)) return plan_send(r, s);
      work(s);
      if (s.awaited > 0) return;
      end_round(s);
    }
  }

  void begin_round(Rank r, State& s) {
    const Round& round = round_of(s);
    s.step = round.first;
    s.repetition = 0;
    s.posted = false;
    for (uint32_t i = round.first; i < round.first + round.steps; ++i) {
      const Step& step = s.schedule->steps[i];
      if (step.kind != StepKind::receive || !is_sent(step, bytes_)) continue;
      for (int32_t k = 0; k < times(step); ++k) await(r, s, peer(s, step, k));
    }
  }

  void await(Rank r, State& s, Rank from) {
    const auto [found, fresh] = pairs_.try_emplace(key(from, r));
    Pair& pair = found->second;
    if (pair.early.empty()) {
      ++pair.awaited;
      ++s.awaited;
      return;
    }
    s.arrived.emplace_back(pair.early.front(), receive_overhead(from, r));
    pair.early.erase(pair.early.begin());
    if (pair.early.empty()) pairs_.erase(found);
  }

  /// Moves to the next send of the round; false if there is none.
  bool find_send(State& s) const {
    const Round& round = round_of(s);
    for (; s.step < round.first + round.steps; ++s.step, s.repetition = 0) {
      const Step& step = s.schedule->steps[s.step];
      if (step.kind == StepKind::send && is_sent(step, bytes_) && s.repetition < times(step)) return true;
    }
    return false;
  }

  void plan_send(Rank r, State& s) {
    const Rank to = peer(s, s.schedule->steps[s.step], s.repetition);
    s.now += spent_on(&Clock::latency, machine_.path(shape_.level(r, to)).send);
    events_.push({s.now.at, number_++, r});
  }

  void send_next(Rank r) {
    State& s = state(r);
    const Step& step = s.schedule->steps[s.step];
    const Rank to = peer(s, step, s.repetition);
    depart(r, to, step.blocks * bytes_);
    ++s.repetition;
    if (find_send(s)) return plan_send(r, s);
    work(s);
    if (s.awaited > 0) return;
    end_round(s);
    go_on(r);
  }

  void work(State& s) const {
    const Round& round = round_of(s);
    for (uint32_t i = round.first; i < round.first + round.steps; ++i) {
      const Step& step = s.schedule->steps[i];
      if (is_message(step)) continue;
      const double per_byte = step.kind == StepKind::copy ? machine_.copy : machine_.reduce;
      s.now += spent_on(&Clock::work, per_byte * step.blocks * bytes_ * step.repeat);
    }
    s.posted = true;
  }

  void end_round(State& s) const {
    std::ranges::stable_sort(s.arrived, {}, [](const auto& a) { return a.first.at; });
    for (const auto& [when, overhead] : s.arrived) {
      s.now = later(s.now, when);
      s.now += spent_on(&Clock::latency, overhead);
    }
    s.arrived.clear();
    s.now = later(s.now, s.left);
    const Loop& loop = s.schedule->loops[s.loop];
    if (++s.round < loop.rounds) return;
    s.round = 0;
    if (++s.iteration < cut_.times(loop.times)) return;
    s.iteration = 0;
    ++s.loop;
  }

  /// A link lets a message through when those before are through.
  static double pass(double& link, double at, double ns) {
    const double begin = std::max(link, at);
    link = begin + ns;
    return begin;
  }

  /// A message on its way: `when` its first byte comes to the receiver's side, all bytes counted that wait behind it.
  struct Flight {
    Rank from = 0, to = 0;
    double bytes = 0, per_byte = 0;
    Level level = Level::cache;
    Clock when;
  };

  /// The message that a rank sends now leaves it and its host.
  void depart(Rank from, Rank to, double bytes) {
    State& s = state(from);
    const Level level = shape_.level(from, to);
    const Path& path = machine_.path(level);
    Flight f{from, to, bytes, path.per_byte, level, later(s.now, s.left)};
    double begin = f.when.at;
    if (level >= Level::leaf) {
      begin = pass(host_out_[static_cast<size_t>(shape_.host(from))], begin, bytes * machine_.host_link);
      f.per_byte = std::max(f.per_byte, machine_.host_link);
    }
    if (level == Level::far) {
      begin = pass(up_[static_cast<size_t>(shape_.leaf(from))], begin, bytes * machine_.uplink);
      f.per_byte = std::max(f.per_byte, machine_.uplink);
    }
    f.when += spent_on(&Clock::waiting, begin - f.when.at);
    s.left = f.when;
    s.left += spent_on(&Clock::transfer, bytes * path.per_byte);
    s.left.hops += 1;
    f.when += spent_on(&Clock::latency, path.latency);
    if (level < Level::leaf) return arrive(f);
    if (free_.empty()) {
      free_.push_back(static_cast<int32_t>(flights_.size()));
      flights_.emplace_back();
    }
    flights_[static_cast<size_t>(free_.back())] = f;
    events_.push({f.when.at, number_++, from, free_.back()});
    free_.pop_back();
  }

  /// Its first byte is there: the receiver's links and the receiver take it in when they have done with others.
  void arrive(Flight f) {
    double begin = f.when.at;
    if (f.level == Level::far) begin = pass(down_[static_cast<size_t>(shape_.leaf(f.to))], begin, f.bytes * machine_.uplink);
    if (f.level >= Level::leaf) begin = pass(host_in_[static_cast<size_t>(shape_.host(f.to))], begin, f.bytes * machine_.host_link);
    begin = pass(state(f.to).taken, begin, f.bytes * f.per_byte);
    f.when += spent_on(&Clock::waiting, begin - f.when.at);
    f.when += spent_on(&Clock::transfer, f.bytes * f.per_byte);
    f.when.hops += 1;
    deliver(f.from, f.to, f.when);
  }

  void land(int32_t flight) {
    free_.push_back(flight);
    arrive(flights_[static_cast<size_t>(flight)]);
  }

  void deliver(Rank from, Rank to, const Clock& when) {
    const auto [found, fresh] = pairs_.try_emplace(key(from, to));
    Pair& pair = found->second;
    if (pair.awaited == 0) {
      pair.early.push_back(when);
      return;
    }
    if (--pair.awaited == 0) pairs_.erase(found);
    State& s = state(to);
    s.arrived.emplace_back(when, receive_overhead(from, to));
    if (--s.awaited > 0 || !s.posted) return;
    end_round(s);
    go_on(to);
  }

  const double bytes_;
  const Shape& shape_;
  const Machine& machine_;
  const Shortening cut_;
  std::vector<State> ranks_;
  std::vector<double> host_out_, host_in_, up_, down_;  // until when each link is busy
  std::priority_queue<Event> events_;
  std::vector<Flight> flights_;
  std::vector<int32_t> free_;  // places in flights_
  uint64_t number_ = 0;
  std::unordered_map<uint64_t, Pair> pairs_;
};

/// The counts behind a price.
class Counting {
 public:
  Counting(const Shape& shape, double block_bytes) : shape_(shape), bytes_(block_bytes) {
    for (auto* links : {&host_out_, &host_in_}) links->assign(static_cast<size_t>(shape.hosts()), 0);
    for (auto* links : {&up_, &down_}) links->assign(static_cast<size_t>(shape.leaves()), 0);
  }

  /// The messages that a rank sends; of those to ever other ranks each `every`-th is looked at.
  void add(Rank me, const Schedule& s, int32_t every) {
    each_message(s, bytes_, [&](const Step& step, int32_t times, int32_t rounds) {
      if (step.kind != StepKind::send) return;
      if (step.peer_stride == 0 || times == 1) return count(me, step.peer, double(times) * rounds, step.blocks);
      for (int32_t k = 0; k < times; k += every) {
        const Rank to = wrap(step.peer + int64_t{k} * step.peer_stride, shape_.ranks());
        count(me, to, double(std::min(every, times - k)) * rounds, step.blocks);
      }
    });
  }

  Traffic done() {
    const auto most = [](const std::vector<double>& a, const std::vector<double>& b) {
      return std::max(*std::ranges::max_element(a), *std::ranges::max_element(b));
    };
    all_.busiest_host_link = most(host_out_, host_in_);
    all_.busiest_uplink = most(up_, down_);
    return all_;
  }

 private:
  void count(Rank from, Rank to, double times, int32_t blocks) {
    const double bytes = bytes_ * blocks * times;
    all_.messages += times;
    all_.bytes += bytes;
    const Level level = shape_.level(from, to);
    if (level < Level::leaf) return;
    all_.between_hosts += times;
    all_.bytes_between_hosts += bytes;
    host_out_[static_cast<size_t>(shape_.host(from))] += bytes;
    host_in_[static_cast<size_t>(shape_.host(to))] += bytes;
    if (level < Level::far) return;
    all_.between_switches += times;
    all_.bytes_between_switches += bytes;
    up_[static_cast<size_t>(shape_.leaf(from))] += bytes;
    down_[static_cast<size_t>(shape_.leaf(to))] += bytes;
  }

  const Shape& shape_;
  const double bytes_;
  Traffic all_;
  std::vector<double> host_out_, host_in_, up_, down_;
};

/// What decides how schedules are walked.
struct Extent {
  int64_t messages = 0;  ///< of all ranks
  int64_t strided = 0;   ///< of these, to ever other peers
  int32_t longest = 1;   ///< loop or repeated message
};

Extent extent_of(const std::vector<Schedule>& schedules, double block_bytes) {
  Extent all;
  for (const Schedule& s : schedules) {
    each_message(s, block_bytes, [&](const Step& step, int32_t times, int32_t rounds) {
      all.longest = std::max({all.longest, times, rounds});
      if (step.kind != StepKind::send) return;
      all.messages += int64_t{times} * rounds;
      all.strided += step.peer_stride != 0 ? times : 0;
    });
  }
  return all;
}

Traffic count(const std::vector<Schedule>& schedules, double block_bytes, const Shape& shape, const Extent& extent) {
  constexpr int64_t kMostCounted = int64_t{1} << 26;
  Counting counting(shape, block_bytes);
  const auto every = static_cast<int32_t>(extent.strided / kMostCounted + 1);
  for (Rank r = 0; r < shape.ranks(); ++r) counting.add(r, schedules[static_cast<size_t>(r)], every);
  return counting.done();
}

/// How many iterations of the longest loops are walked: as many as `most` messages allow, a multiple of how often the ranks' places repeat,
/// so that what happens once a host, or once a switch, has its share.
int32_t iterations(const Extent& extent, const Shape& shape, int64_t most) {
  const int64_t affordable = std::max<int64_t>(most * extent.longest / extent.messages, 32);
  for (const int64_t period : {shape.ranks() / shape.leaves(), shape.ranks() / shape.hosts(), 16}) {
    if (2 * period <= affordable) return static_cast<int32_t>(affordable / (2 * period) * (2 * period));
  }
  return 32;
}

/// Walks loops shortened to n and to n/2 iterations and goes on in a straight line; what the time is spent on stays in proportion.
Result<Clock> walk_in_part(const std::vector<Schedule>& schedules, double block_bytes, const Shape& shape, const Machine& machine,
                           int32_t longest, int32_t n) {
  Clock ends[2];
  for (const int half : {0, 1}) {
    const int32_t walked = half ? n / 2 : n;
    const int32_t less = longest - walked;
    const auto end = Simulation(schedules, block_bytes, shape, machine, {std::max(longest / 2, less) + 1, less}).run();
    if (!end) return end;
    ends[half] = *end;
  }
  const double slope = (ends[0].at - ends[1].at) / (n - n / 2);
  return ends[0].at > 0 ? ends[0] * (1 + slope * (longest - n) / ends[0].at) : ends[0];
}

/// Blocks as Agreed::bytes means them.
double block_bytes_of(const Agreed& a, int32_t blocks) {
  const bool of_a_block =
      a.pattern == Pattern::gather || a.pattern == Pattern::scatter || a.pattern == Pattern::allgather || a.pattern == Pattern::alltoall;
  return of_a_block ? static_cast<double>(a.bytes) : static_cast<double>(a.bytes) / blocks;
}

}  // namespace

Result<Price> price(const std::vector<Schedule>& schedules, double block_bytes, const Shape& shape, const Machine& machine, int64_t most) {
  constexpr int64_t kMostAtAll = int64_t{1} << 25;  // some ten seconds
  const Extent extent = extent_of(schedules, block_bytes);
  Price p;
  p.traffic = count(schedules, block_bytes, shape, extent);
  if (extent.messages > most) {
    const int32_t n = iterations(extent, shape, most);
    if (2 * n < extent.longest) {
      const auto end = walk_in_part(schedules, block_bytes, shape, machine, extent.longest, n);
      if (end) {
        p.time = *end;
        p.shortened = true;
        return p;
      }  // ranks have loops of different lengths
    }
    if (extent.messages > kMostAtAll) return Failure{std::to_string(extent.messages) + " messages are too many to walk one by one"};
  }
  const auto end = Simulation(schedules, block_bytes, shape, machine, {}).run();
  if (!end) return end.failure();
  p.time = *end;
  return p;
}

Result<Price> price(const Algorithm& algorithm, const Agreed& a, int32_t segments, const Shape& shape, const Machine& machine,
                    int64_t most) {
  if (among_neighbors(a.pattern)) return Failure{"what it costs depends on the program's graph of neighbours"};
  if (a.size != shape.ranks()) return Failure{"the shape has " + std::to_string(shape.ranks()) + " ranks"};
  const Parameters p{.root = a.root, .commutative = a.commutative, .segments = segments};
  const std::unique_ptr<const Hosts> hosts = shape.levels();
  if (!algorithm.usable({.hosts = hosts.get()}, a.size, p, a.uneven)) return Failure{"ranks that lie like that cannot use it"};
  std::vector<Schedule> schedules;
  schedules.reserve(static_cast<size_t>(a.size));
  for (Rank r = 0; r < a.size; ++r) schedules.push_back(algorithm.build({.hosts = hosts.get()}, r, a.size, p));
  return price(schedules, block_bytes_of(a, schedules.front().blocks), shape, machine, most);
}

std::vector<Candidate> candidates(const Agreed& a, const Shape& shape, const Machine& machine, int64_t most) {
  const std::unique_ptr<const Hosts> hosts = shape.levels();
  const Topology topology{.hosts = hosts.get()};
  std::vector<Candidate> all;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.pattern != a.pattern || !algorithm.usable(topology, a.size, {.root = a.root, .commutative = a.commutative}, a.uneven))
      continue;
    std::set<int32_t> segments = {1};
    if (algorithm.segmented) segments.insert(usual_segments(of_class(a).bytes));
    for (int32_t n = 4; algorithm.segmented && n <= 256 && static_cast<uint64_t>(n) * 256 <= a.bytes; n *= 4) segments.insert(n);
    for (const int32_t n : segments) {
      const auto found = price(algorithm, a, n, shape, machine, most);
      all.push_back({&algorithm, n, found ? *found : Price{}, found ? std::string() : found.failure().text});
    }
  }
  std::ranges::stable_sort(all, {}, [](const Candidate& c) { return std::pair(!c.unpriced.empty(), c.price.time.at); });
  return all;
}

namespace {

bool may_be_priced(const Agreed& a) {
  constexpr int32_t kMostRanks = 256;
  return a.hosts > 1 && a.front == 0 && !a.uneven && a.size <= kMostRanks && !among_neighbors(a.pattern);
}

Shape shape_of(const Agreed& a, const Topology& topology) {
  return topology.hosts ? Shape::of(*topology.hosts) : Shape::blocks(a.size, a.hosts);
}

std::vector<Candidate> candidates(const Agreed& a, const Shape& shape) {
  constexpr int64_t kMostWalked = int64_t{1} << 14;
  return candidates(a, shape, this_machine(), kMostWalked);
}

}  // namespace

std::vector<Candidate> candidates(const Agreed& a, const Topology& topology) {
  if (!may_be_priced(a)) return {};
  return candidates(a, shape_of(a, topology));
}

Choice cheapest(const Agreed& a, const Topology& topology) {
  if (!may_be_priced(a) || !leaf_is_measured()) return {};
  const Shape shape = shape_of(a, topology);
  using Key = std::tuple<Pattern, Rank, uint64_t, bool, std::vector<int32_t>, std::vector<int32_t>>;
  constexpr size_t kMostKept = 1000;
  thread_local std::map<Key, Choice> known;  // reports ask at each call
  thread_local std::string numbers;
  if (known.size() >= kMostKept || numbers != told_numbers()) known.clear();
  numbers = told_numbers();
  const auto [found, fresh] = known.try_emplace({a.pattern, a.root, a.bytes, a.commutative, shape.host_of_ranks(), shape.leaf_of_hosts()});
  if (fresh) {
    const auto all = candidates(a, shape);
    if (!all.empty() && all.front().unpriced.empty()) found->second = {all.front().algorithm, all.front().segments, By::model};
  }
  return found->second;
}

}  // namespace weft::coll
