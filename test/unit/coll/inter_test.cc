// Schedules between two groups, run symbolically: groups of all sizes, each send waiting for its receive. The two sides may cut the
// same data into different blocks; so data consists of units, of which a block has several.
#include "coll/inter.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>

using namespace weft::coll;

namespace {

/// What a unit of memory holds: which unit of the data, combined from which ranks in which order. No ranks: undefined.
struct Unit {
  int64_t number = -1;
  std::vector<Rank> ranks;
  bool operator==(const Unit&) const = default;
};

struct Member {
  Schedule schedule;
  int64_t per_block = 1;
  std::map<std::pair<int, int64_t>, Unit> memory;  // buffer and unit in it
  size_t loop = 0, round = 0;
  int32_t iteration = 0;
  int pending = 0;
  bool finished = false;
  std::set<Rank> heard;
};

struct Message {
  std::vector<Unit> data;                     // of a send
  std::vector<std::pair<int, int64_t>> room;  // of a receive
  std::set<Rank> heard;
};

class Play {
 public:
  Play(const Agreed& a, int64_t units_a_block) : a_(a), all_(static_cast<size_t>(a.size)) {
    int64_t cuts = 1;
    for (Rank r = 0; r < a.size; ++r) {
      all_[size_t(r)].schedule = between_groups(a, r);
      if (all_[size_t(r)].schedule.regions.size() > kMostRegions) FAIL("more regions than there is room for");
      all_[size_t(r)].heard = {r};
      if (units_a_block == 0) cuts = std::lcm(cuts, all_[size_t(r)].schedule.blocks);
    }
    units = cuts;
    for (Member& m : all_) m.per_block = units_a_block ? units_a_block : cuts / m.schedule.blocks;
  }

  Member& at(Rank r) { return all_[size_t(r)]; }
  void holds(Rank r, int buffer, int64_t at, int64_t number) { all_[size_t(r)].memory[{buffer, at}] = {number, {r}}; }
  Unit found(Rank r, int64_t at) { return all_[size_t(r)].memory[{buffer_out, at}]; }

  /// Runs all ranks to their end; what went wrong.
  std::string run() {
    for (Rank r = 0; r < a_.size; ++r) advance(r);
    for (bool moved = true; moved && wrong.empty();) {
      moved = false;
      for (auto& [pair, sends] : sends_) moved |= deliver(pair.first, pair.second, sends);
    }
    for (Rank r = 0; r < a_.size && wrong.empty(); ++r)
      if (!at(r).finished) complain(r, "waits for ever");
    for (auto& [pair, sends] : sends_)
      if (!sends.empty()) complain(pair.first, "sends what nobody receives");
    return wrong;
  }

  int64_t units = 1;
  std::string wrong;

 private:
  void complain(Rank r, const char* what) {
    if (wrong.empty())
      wrong = std::string(to_string(a_.pattern)) + ", groups of " + std::to_string(a_.front) + " and " +
              std::to_string(a_.size - a_.front) + ", root " + std::to_string(a_.root) + ", " + std::to_string(a_.bytes) + " bytes: rank " +
              std::to_string(r) + " " + what;
  }

  std::vector<std::pair<int, int64_t>> cells(const Member& m, const Place& p, int32_t k, int32_t blocks) {
    const int64_t first = wrap(p.block + int64_t{k} * p.stride, m.schedule.blocks) * m.per_block;
    std::vector<std::pair<int, int64_t>> list;
    for (int64_t i = 0; i < blocks * m.per_block; ++i) list.push_back({p.buffer, first + i});
    return list;
  }

  void message(Rank r, const Step& step, int32_t k) {
    Member& m = at(r);
    const Rank peer = wrap(step.peer + int64_t{k} * step.peer_stride, a_.size);
    Message message{{}, cells(m, step.a, k, step.blocks), m.heard};
    if (step.kind == StepKind::receive) {
      receives_[{peer, r}].push_back(std::move(message));
    } else {
      for (const auto& cell : message.room) {
        message.data.push_back(m.memory[cell]);
        if (message.data.back().ranks.empty()) complain(r, "sends what nobody wrote");
      }
      sends_[{r, peer}].push_back(std::move(message));
    }
    ++m.pending;
  }

  void local(Rank r, const Step& step, int32_t k) {
    Member& m = at(r);
    const auto a = cells(m, step.a, k, step.blocks), b = cells(m, step.b, k, step.blocks), c = cells(m, step.c, k, step.blocks);
    for (size_t i = 0; i < a.size(); ++i) {
      Unit value = m.memory[a[i]];
      if (step.kind != StepKind::copy) {
        const Unit& right = m.memory[b[i]];
        if (value.number != right.number || right.ranks.empty()) complain(r, "combines what does not belong together");
        value.ranks.insert(value.ranks.end(), right.ranks.begin(), right.ranks.end());
      }
      if (value.ranks.empty()) complain(r, "reads what nobody wrote");
      m.memory[step.kind == StepKind::combine ? c[i] : b[i]] = value;
    }
  }

  void advance(Rank r) {
    Member& m = at(r);
    while (m.pending == 0 && !m.finished) {
      if (m.loop == m.schedule.loops.size()) {
        m.finished = true;
        return;
      }
      const Loop& loop = m.schedule.loops[m.loop];
      const Round& round = m.schedule.rounds[loop.first + m.round];
      for (int pass = 0; pass < 2; ++pass)
        for (uint32_t i = round.first; i < round.first + round.steps; ++i) {
          const Step& step = m.schedule.steps[i];
          const bool sends = step.kind == StepKind::send || step.kind == StepKind::receive;
          for (int32_t k = 0; sends == (pass == 0) && k < step.repeat; ++k) {
            const int32_t index = step.repeat > 1 ? k : m.iteration;
            sends ? message(r, step, index) : local(r, step, index);
          }
        }
      if (++m.round < loop.rounds) continue;
      m.round = 0;
      if (++m.iteration < loop.times) continue;
      m.iteration = 0;
      ++m.loop;
    }
  }

  bool deliver(Rank from, Rank to, std::deque<Message>& sends) {
    auto& receives = receives_[{from, to}];
    if (sends.empty() || receives.empty()) return false;
    const Message out = sends.front(), in = receives.front();
    sends.pop_front();
    receives.pop_front();
    if (out.data.size() != in.room.size()) complain(to, "expects a message of another size");
    for (size_t i = 0; i < std::min(out.data.size(), in.room.size()); ++i) at(to).memory[in.room[i]] = out.data[i];
    at(to).heard.insert(out.heard.begin(), out.heard.end());
    for (Rank r : {from, to}) {
      --at(r).pending;
      advance(r);
    }
    return true;
  }

  const Agreed a_;
  std::vector<Member> all_;
  std::map<std::pair<Rank, Rank>, std::deque<Message>> sends_, receives_;
};

struct Shape {
  int32_t front, back;
  int32_t first(bool in_front) const { return in_front ? 0 : front; }
  int32_t size(bool in_front) const { return in_front ? front : back; }
  bool in_front(Rank r) const { return r < front; }
  std::vector<Rank> ranks(bool of_front) const {
    std::vector<Rank> list(size_t(size(of_front)));
    std::iota(list.begin(), list.end(), first(of_front));
    return list;
  }
};

/// What each rank has at the beginning.
void give(Play& play, const Agreed& a, const Shape& shape) {
  for (Rank r = 0; r < a.size; ++r) {
    const int32_t self = r - shape.first(shape.in_front(r)), others = shape.size(!shape.in_front(r));
    if (a.pattern == Pattern::bcast && r == a.root)
      for (int64_t u = 0; u < play.units; ++u) play.holds(r, buffer_out, u, u);
    if (reduces(a.pattern))
      for (int64_t u = 0; u < play.units; ++u) play.holds(r, buffer_in, u, u);
    if (a.pattern == Pattern::scatter ? r == a.root : a.pattern == Pattern::alltoall)
      for (int32_t i = 0; i < others; ++i) play.holds(r, buffer_in, i, i);
    // The one block there is may be asked for by any number.
    if (a.pattern == Pattern::gather) play.holds(r, buffer_in, self, 0);
    if (a.pattern == Pattern::allgather)
      for (int32_t i = 0; i < a.size; ++i) play.holds(r, buffer_in, i, 0);
  }
}

std::string judge(Play& play, const Agreed& a, const Shape& shape) {
  const auto is = [&](Rank r, int64_t at, const Unit& wanted) {
    Unit unit = play.found(r, at);
    if (a.commutative) std::sort(unit.ranks.begin(), unit.ranks.end());
    if (unit == wanted) return;
    std::string has;
    for (Rank from : unit.ranks) has += " " + std::to_string(from);
    if (play.wrong.empty())
      play.wrong = std::string(to_string(a.pattern)) + " " + std::to_string(shape.front) + "+" + std::to_string(shape.back) + ": rank " +
                   std::to_string(r) + " unit " + std::to_string(at) + " comes from" + has;
  };
  for (Rank r = 0; r < a.size; ++r) {
    const bool in_front = shape.in_front(r), leaf = a.root >= 0 && in_front != shape.in_front(a.root);
    const int32_t self = r - shape.first(in_front), others = shape.size(!in_front), first_other = shape.first(!in_front);
    const auto theirs = shape.ranks(!in_front);
    switch (a.pattern) {
      case Pattern::barrier:
        if (static_cast<int32_t>(play.at(r).heard.size()) != a.size) play.wrong = "somebody leaves the barrier too early";
        break;
      case Pattern::bcast:
        for (int64_t u = 0; leaf && u < play.units; ++u) is(r, u, {u, {a.root}});
        break;
      case Pattern::scatter:
        if (leaf) is(r, self, {self, {a.root}});
        break;
      case Pattern::gather:
      case Pattern::allgather:
        for (int32_t i = 0; (a.pattern == Pattern::allgather || r == a.root) && i < others; ++i) is(r, i, {0, {first_other + i}});
        break;
      case Pattern::alltoall:
        for (int32_t i = 0; i < others; ++i) is(r, i, {self, {first_other + i}});
        break;
      case Pattern::reduce:
        for (int64_t u = 0; r == a.root && u < play.units; ++u) is(r, u, {u, theirs});
        break;
      case Pattern::allreduce:
        for (int64_t u = 0; u < play.units; ++u) is(r, u, {u, theirs});
        break;
      default: {
        const int64_t share = play.units / shape.size(in_front);
        for (int64_t u = self * share; u < (self + 1) * share; ++u) is(r, u, {u, theirs});
      }
    }
  }
  return play.wrong;
}

std::string verdict(const Agreed& a, const Shape& shape, const std::function<void(Play&)>& spoil = {}) {
  const bool cut = a.pattern == Pattern::bcast || reduces(a.pattern);
  Play play(a, cut ? 0 : 1);
  give(play, a, shape);
  if (spoil) spoil(play);
  const std::string wrong = play.run();
  return wrong.empty() ? judge(play, a, shape) : wrong;
}

constexpr Pattern kBetween[] = {Pattern::barrier,  Pattern::bcast,  Pattern::gather,    Pattern::scatter,       Pattern::allgather,
                                Pattern::alltoall, Pattern::reduce, Pattern::allreduce, Pattern::reduce_scatter};

void all_cases(const Shape& shape, const std::vector<Rank>& roots) {
  for (Pattern pattern : kBetween) {
    const bool rooted =
        pattern == Pattern::bcast || pattern == Pattern::gather || pattern == Pattern::scatter || pattern == Pattern::reduce;
    for (Rank root : rooted ? roots : std::vector<Rank>{0})
      for (uint64_t bytes : {uint64_t{1}, uint64_t{1} << 13, uint64_t{1} << 16, uint64_t{1} << 22})
        for (bool commutative : {true, false})
          for (bool uneven : {false, true}) {
            if ((!commutative && !reduces(pattern)) || (uneven && (rooted || pattern == Pattern::barrier))) continue;
            const Agreed a{.pattern = pattern,
                           .size = shape.front + shape.back,
                           .front = shape.front,
                           .root = root,
                           .bytes = bytes,
                           .commutative = commutative,
                           .uneven = uneven};
            const std::string wrong = verdict(a, shape);
            if (!wrong.empty()) FAIL_CHECK(wrong);
          }
  }
}

}  // namespace

TEST_CASE("collectives between groups do what the standard says, whatever the groups' sizes", "[serial]") {
  for (int32_t front = 1; front <= 6; ++front)
    for (int32_t back = 1; back <= 7; ++back) all_cases({front, back}, {0, front - 1, front, front + back - 1});
}

TEST_CASE("and between larger groups, where messages go in turn", "[serial][more]") {
  for (const auto& [front, back] : {std::pair{70, 3}, {3, 70}, {66, 66}, {80, 65}, {1, 100}}) {
    for (Pattern pattern : {Pattern::alltoall, Pattern::allgather}) {
      const Agreed a{.pattern = pattern, .size = front + back, .front = front, .bytes = 1 << 20};
      CHECK(verdict(a, {front, back}) == "");
    }
  }
}

TEST_CASE("schedules between large groups stay short", "[serial]") {
  for (Pattern pattern : kBetween) {
    const Agreed a{.pattern = pattern, .size = 70000, .front = 30000, .bytes = 1 << 22};
    INFO(to_string(pattern));
    CHECK(between_groups(a, 0).steps.size() < 300);
    CHECK(between_groups(a, 30000).steps.size() < 300);
    CHECK(between_groups(a, 5).steps.size() < 300);
  }
}

TEST_CASE("a missing step is noticed", "[serial]") {
  const Shape shape{3, 4};
  int tried = 0;
  for (Pattern pattern : kBetween)
    for (uint64_t bytes : {uint64_t{1}, uint64_t{1} << 22}) {
      const Agreed a{.pattern = pattern, .size = 7, .front = 3, .root = 1, .bytes = bytes, .commutative = false};
      for (Rank r = 0; r < a.size; ++r)
        for (size_t i = 0; i < between_groups(a, r).steps.size(); ++i) {
          ++tried;
          INFO(to_string(pattern) << " of " << bytes << " bytes, rank " << r << ", step " << i);
          CHECK_FALSE(verdict(a, shape, [&](Play& play) { play.at(r).schedule.steps[i].repeat = 0; }).empty());
        }
    }
  CHECK(tried > 100);
}

TEST_CASE("who is in the root's group but not the root has nothing to do", "[serial]") {
  for (Pattern pattern : {Pattern::bcast, Pattern::gather, Pattern::scatter, Pattern::reduce}) {
    const Agreed a{.pattern = pattern, .size = 7, .front = 3, .root = -1, .bytes = 100};
    CHECK(between_groups(a, 1).steps.empty());
  }
}
