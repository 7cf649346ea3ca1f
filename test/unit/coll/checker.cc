#include "test/unit/coll/checker.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

namespace weft::coll::check {

namespace {

/// What a piece of memory holds: block `block` of the collective, combined from these ranks in this order. Empty: undefined.
struct Value {
  int32_t block = -1;
  std::vector<Rank> ranks;
  bool defined() const { return !ranks.empty(); }
  bool operator==(const Value&) const = default;
};

std::string show(const Value& v) {
  if (!v.defined()) return "nothing";
  std::ostringstream s;
  s << "block " << v.block << " of";
  for (Rank r : v.ranks) s << ' ' << r;
  return s.str();
}

using Cell = std::pair<int, int32_t>;  // buffer, place in it

struct Message {
  Rank from, to;
  std::vector<Value> data;      // sends
  std::vector<Cell> cells;      // receives
  std::vector<int32_t> blocks;  // their block numbers
  std::set<Rank> known;
};

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Simulation {
 public:
  Simulation(const Question& q, const std::vector<Schedule>& schedules) : q_(q), ranks_(q.size) {
    for (Rank r = 0; r < q.size; ++r) set_up(r, schedules[r]);
  }

  void run() {
    for (Rank r = 0; r < q_.size; ++r) advance(r);
    while (match_one()) {
    }
    for (Rank r = 0; r < q_.size; ++r) {
      if (!ranks_[r].finished) wrong(r, "waits for ever (deadlock)");
    }
    for (auto& [key, queue] : sends_) {
      if (!queue.empty()) wrong(key.first, "sends what nobody receives");
    }
    for (Rank r = 0; r < q_.size; ++r) judge(r);
  }

 private:
  struct State {
    const Schedule* schedule = nullptr;
    std::map<Cell, Value> memory;
    std::set<Rank> known;  // barrier: who is known to have come
    size_t loop = 0, round = 0;
    int32_t iteration = 0;
    int pending = 0;
    bool finished = false;
  };

  [[noreturn]] void wrong(Rank r, const std::string& what) const {
    std::ostringstream s;
    s << to_string(q_.pattern) << " on " << q_.size << " ranks, root " << q_.parameters.root << ", in place " << q_.parameters.in_place
      << ", commutative " << q_.parameters.commutative << ", segments " << q_.parameters.segments << ": rank " << r << " (loop "
      << ranks_[r].loop << ", iteration " << ranks_[r].iteration << ", round " << ranks_[r].round << ") " << what;
    throw Wrong(s.str());
  }

  bool reduces() const { return q_.pattern >= Pattern::reduce && !among_neighbors(q_.pattern); }
  bool rooted() const { return q_.pattern == Pattern::gather || q_.pattern == Pattern::reduce || q_.pattern == Pattern::scatter; }
  bool in_place(Rank r) const { return q_.parameters.in_place && (!rooted() || r == q_.parameters.root); }
  bool own_block_only(int buffer) const {
    switch (q_.pattern) {
      case Pattern::gather:
      case Pattern::allgather: return buffer == buffer_in;
      case Pattern::scatter:
      case Pattern::reduce_scatter: return buffer == buffer_out;
      default: return false;
    }
  }
  bool usable(Rank r, int buffer) const {
    const bool root = r == q_.parameters.root;
    switch (q_.pattern) {
      case Pattern::barrier: return false;
      case Pattern::bcast: return buffer == buffer_out;
      case Pattern::gather:
      case Pattern::reduce: return buffer == buffer_in || root;
      case Pattern::scatter: return buffer == buffer_in ? root : !(root && q_.parameters.in_place);
      default: return true;
    }
  }

  void set_up(Rank r, const Schedule& schedule) {
    State& s = ranks_[r];
    s.schedule = &schedule;
    s.known = {r};
    if (!q_.graph && schedule.blocks != ranks_[0].schedule->blocks) wrong(r, "cuts the data otherwise than rank 0");
    const int32_t blocks = schedule.blocks;
    if (q_.pattern == Pattern::bcast && r == q_.parameters.root) {
      for (int32_t b = 0; b < blocks; ++b) s.memory[{buffer_out, b}] = {b, {r}};
    }
    if (q_.pattern == Pattern::barrier || q_.pattern == Pattern::bcast) return;
    if (!usable(r, buffer_in)) return;
    if (q_.graph) {
      const auto n = q_.pattern == Pattern::neighbor_allgather ? 1 : static_cast<int32_t>((*q_.graph)[r].destinations.size());
      for (int32_t b = 0; b < n; ++b) s.memory[{buffer_in, b}] = {b, {r}};
      return;
    }
    for (int32_t b = 0; b < blocks; ++b) {
      if (!own_block_only(buffer_in) || b == r) s.memory[cell_of(r, buffer_in, b)] = {b, {r}};
    }
  }

  /// Where a block of a buffer is, aliases resolved.
  Cell cell_of(Rank r, int buffer, int32_t block) const {
    const bool alias = in_place(r) && buffer == buffer_in && q_.pattern != Pattern::reduce_scatter && q_.pattern != Pattern::scatter;
    return {alias ? int{buffer_out} : buffer, block};
  }

  /// The cells that `n` blocks from a place on occupy.
  std::vector<Cell> cells(Rank r, const Place& at, int32_t k, int32_t n, std::vector<int32_t>* numbers = nullptr) const {
    const Schedule& s = *ranks_[r].schedule;
    const int32_t block = wrap(at.block + int64_t{k} * at.stride, s.blocks);
    std::vector<Cell> found;
    if (n > 0 && at.buffer < first_region && !usable(r, at.buffer)) wrong(r, "uses a buffer that means nothing here");
    if (s.regions.size() > kMostRegions) wrong(r, "has more regions than there is room for");
    if (at.buffer >= first_region && at.buffer - first_region >= static_cast<int>(s.regions.size())) wrong(r, "names no region");
    for (int32_t i = 0; i < n; ++i) {
      const int32_t b = (block + i) % s.blocks;
      if (numbers) numbers->push_back(b);
      if (at.buffer < first_region) {
        if (block + i >= s.blocks) wrong(r, "runs over the end of a buffer");
        if (own_block_only(at.buffer) && b != r) wrong(r, "uses another block than the one there is");
        found.push_back(cell_of(r, at.buffer, b));
        continue;
      }
      const Region& region = s.regions[at.buffer - first_region];
      const int32_t place = region.single ? 0 : wrap(int64_t{block} - region.first, s.blocks) + i;
      if (region.single ? n > 1 : place >= region.blocks) wrong(r, "runs over the end of a region");
      found.push_back({at.buffer, place});
    }
    return found;
  }

  /// Are all blocks of one size, unless the call says that they are not?
  bool has_equal_blocks() const {
    switch (q_.pattern) {
      case Pattern::gather:
      case Pattern::scatter:
      case Pattern::allgather:
      case Pattern::reduce_scatter: return true;
      default: return false;
    }
  }

  void may_hold(Rank r, int buffer, int32_t number, const Value& v) const {
    if (q_.graph) return;
    if (q_.pattern == Pattern::alltoall) {
      if (q_.uneven && (buffer != buffer_out || v.block != r || v.ranks != std::vector<Rank>{number})) {
        wrong(r, "puts " + show(v) + " where a block of another size belongs");
      }
    } else if (has_equal_blocks() && !q_.uneven && buffer >= first_region) {
      return;
    } else if (v.block != number) {
      wrong(r, "puts " + show(v) + " in the place of block " + std::to_string(number));
    }
  }

  Value read(Rank r, const Cell& c) const {
    auto found = ranks_[r].memory.find(c);
    if (found == ranks_[r].memory.end() || !found->second.defined())
      wrong(r, "reads what nobody wrote, buffer " + std::to_string(c.first) + " place " + std::to_string(c.second));
    return found->second;
  }

  void write(Rank r, const Cell& c, const Value& v) {
    State& s = ranks_[r];
    if (c.first == buffer_in) wrong(r, "writes to its input");
    if (in_place(r) && q_.pattern == Pattern::reduce_scatter && c.first == buffer_out) {
      for (auto& [cell, value] : s.memory) {
        if (cell.first == buffer_in) value = {};
      }
    }
    s.memory[c] = v;
  }

  /// What the steps of a round touch.
  struct Touched {
    std::set<Cell> sent, received, read, written;
  };

  void no_races(Rank r, const Touched& t) const {
    auto meet = [&](const std::set<Cell>& a, const std::set<Cell>& b) {
      for (const Cell& c : a) {
        if (b.count(c)) return true;
        const bool over = in_place(r) && q_.pattern == Pattern::reduce_scatter && c.first == buffer_out;
        if (over && std::any_of(b.begin(), b.end(), [](const Cell& o) { return o.first == buffer_in; })) return true;
      }
      return false;
    };
    if (meet(t.received, t.sent) || meet(t.received, t.read) || meet(t.received, t.written) || meet(t.written, t.sent)) {
      wrong(r, "has a race between the steps of a round");
    }
  }

  void local(Rank r, const Step& step, int32_t k, Touched& touched) {
    std::vector<int32_t> numbers;
    const auto a = cells(r, step.a, k, step.blocks);
    const Place& target = step.kind == StepKind::combine ? step.c : step.b;
    const auto b = cells(r, step.b, k, step.blocks);
    const auto to = cells(r, target, k, step.blocks, &numbers);
    for (int32_t i = 0; i < step.blocks; ++i) {
      Value v = read(r, a[i]);
      touched.read.insert(a[i]);
      if (step.kind != StepKind::copy) {
        const Value right = read(r, b[i]);
        touched.read.insert(b[i]);
        if (right.block != v.block) wrong(r, "combines different blocks");
        v.ranks.insert(v.ranks.end(), right.ranks.begin(), right.ranks.end());
        if (a[i] == to[i]) wrong(r, "combines into its left operand");
        if (step.kind == StepKind::combine && b[i] == to[i]) wrong(r, "combines into its right operand");
      } else if (a[i] == to[i]) {
        wrong(r, "copies a block onto itself");
      }
      may_hold(r, target.buffer, numbers[i], v);
      touched.written.insert(to[i]);
      write(r, to[i], v);
    }
  }

  void message(Rank r, const Step& step, int32_t k, Touched& touched) {
    const Rank peer = wrap(step.peer + int64_t{k} * step.peer_stride, q_.size);
    const bool scattered = q_.uneven && q_.pattern <= Pattern::alltoall && !own_block_only(step.a.buffer);
    if (scattered && step.a.buffer < first_region && step.blocks > 1) wrong(r, "sends scattered blocks as one message");
    if (peer == r) wrong(r, "sends to itself");
    Message m{.from = r, .to = peer, .data = {}, .cells = {}, .blocks = {}, .known = ranks_[r].known};
    m.cells = cells(r, step.a, k, step.blocks, &m.blocks);
    ++ranks_[r].pending;
    fresh_.push_back(step.kind == StepKind::send ? std::pair{r, peer} : std::pair{peer, r});
    if (step.kind == StepKind::send) {
      for (const Cell& c : m.cells) {
        m.data.push_back(read(r, c));
        touched.sent.insert(c);
      }
      sends_[{r, peer}].push_back(m);
    } else {
      std::swap(m.from, m.to);
      for (const Cell& c : m.cells) {
        if (!touched.received.insert(c).second) wrong(r, "receives twice into one place");
      }
      m.data.resize(m.cells.size());
      for (size_t i = 0; i < m.cells.size(); ++i) buffers_[{r, m.cells[i]}] = step.a.buffer;
      receives_[{m.from, m.to}].push_back(m);
    }
  }

  /// Posts rounds until one has messages to wait for.
  void advance(Rank r) {
    State& s = ranks_[r];
    while (s.pending == 0) {
      if (s.loop == s.schedule->loops.size()) {
        s.finished = true;
        return;
      }
      const Loop& loop = s.schedule->loops[s.loop];
      post(r, s.schedule->rounds[loop.first + s.round], s.iteration);
      if (++s.round < loop.rounds) continue;
      s.round = 0;
      if (++s.iteration < loop.times) continue;
      s.iteration = 0;
      ++s.loop;
    }
  }

  void post(Rank r, const Round& round, int32_t iteration) {
    const Schedule& s = *ranks_[r].schedule;
    Touched touched;
    // Messages first: what they send must not depend on the round's local steps (no_races sees to that).
    for (int pass = 0; pass < 2; ++pass) {
      for (uint32_t i = round.first; i < round.first + round.steps; ++i) {
        const Step& step = s.steps[i];
        const bool is_message = step.kind == StepKind::send || step.kind == StepKind::receive;
        if (is_message != (pass == 0)) continue;
        for (int32_t k = 0; k < step.repeat; ++k) {
          const int32_t index = step.repeat > 1 ? k : iteration;
          is_message ? message(r, step, index, touched) : local(r, step, index, touched);
        }
      }
    }
    no_races(r, touched);
  }

  bool match_one() {
    while (!fresh_.empty()) {
      const auto key = fresh_.back();
      auto& to = receives_[key];
      auto& from = sends_[key];
      if (to.empty() || from.empty()) {
        fresh_.pop_back();
        continue;
      }
      const Message in = to.front(), out = from.front();
      to.pop_front();
      from.pop_front();
      deliver(out, in);
      --ranks_[out.from].pending;
      --ranks_[out.to].pending;
      advance(out.from);
      advance(out.to);
      return true;
    }
    return false;
  }

  void deliver(const Message& sent, const Message& awaited) {
    const Rank r = sent.to;
    if (sent.data.size() != awaited.cells.size()) wrong(r, "expects a message of another size from " + std::to_string(sent.from));
    for (size_t i = 0; i < sent.data.size(); ++i) {
      may_hold(r, buffers_[{r, awaited.cells[i]}], awaited.blocks[i], sent.data[i]);
      write(r, awaited.cells[i], sent.data[i]);
    }
    ranks_[r].known.insert(sent.known.begin(), sent.known.end());
  }

  std::vector<Rank> everyone(Rank below) const {
    std::vector<Rank> all;
    for (Rank r = 0; r < below; ++r) all.push_back(r);
    return all;
  }

  void expect(Rank r, const Cell& c, int32_t block, std::vector<Rank> ranks) const {
    auto found = ranks_[r].memory.find(c);
    Value has = found == ranks_[r].memory.end() ? Value{} : found->second;
    const Value wants{block, std::move(ranks)};
    if (reduces() && q_.parameters.commutative) std::sort(has.ranks.begin(), has.ranks.end());
    if (!(has == wants)) wrong(r, "ends with " + show(has) + " instead of " + show(wants));
  }

  void judge(Rank r) const {
    const State& s = ranks_[r];
    const bool root = r == q_.parameters.root;
    const int32_t blocks = s.schedule->blocks;
    auto each = [&](auto ranks_of) {
      for (int32_t b = 0; b < blocks; ++b) expect(r, {buffer_out, b}, b, ranks_of(b));
    };
    using Ranks = std::vector<Rank>;
    switch (q_.pattern) {
      case Pattern::barrier:
        if (static_cast<int32_t>(s.known.size()) != q_.size) wrong(r, "leaves before all have come");
        break;
      case Pattern::bcast: each([&](int32_t) { return Ranks{q_.parameters.root}; }); break;
      case Pattern::gather:
        if (root) each([&](int32_t b) { return Ranks{b}; });
        break;
      case Pattern::scatter:
        if (!in_place(r)) expect(r, {buffer_out, r}, r, {q_.parameters.root});
        break;
      case Pattern::allgather: each([&](int32_t b) { return Ranks{b}; }); break;
      case Pattern::alltoall:
        for (int32_t b = 0; b < blocks; ++b) expect(r, {buffer_out, b}, r, {b});
        break;
      case Pattern::reduce:
        if (root) each([&](int32_t) { return everyone(q_.size); });
        break;
      case Pattern::allreduce: each([&](int32_t) { return everyone(q_.size); }); break;
      case Pattern::reduce_scatter:
        // In place and alone, the result is already where it belongs.
        if (q_.size > 1 || !in_place(r)) expect(r, {buffer_out, r}, r, everyone(q_.size));
        break;
      case Pattern::scan: each([&](int32_t) { return everyone(r + 1); }); break;
      case Pattern::exscan:
        if (r > 0) {
          each([&](int32_t) { return everyone(r); });
        } else {
          for (int32_t b = 0; b < blocks; ++b) {
            auto found = s.memory.find({buffer_out, b});
            const bool touched = found != s.memory.end() && !(in_place(r) && found->second == Value{b, {r}});
            if (touched) wrong(r, "touches the output of rank 0");
          }
        }
        break;
      case Pattern::neighbor_allgather:
      case Pattern::neighbor_alltoall: judge_neighbors(r); break;
    }
  }

  void judge_neighbors(Rank r) const {
    const auto& sources = (*q_.graph)[r].sources;
    for (int32_t b = 0; b < static_cast<int32_t>(sources.size()); ++b) {
      if (sources[b] >= 0) {
        expect(r, {buffer_out, b}, q_.pattern == Pattern::neighbor_allgather ? 0 : block_for(r, b), {sources[b]});
      } else if (ranks_[r].memory.count({buffer_out, b})) {
        wrong(r, "touches the block of no neighbour");
      }
    }
  }

  /// Which block of its source arrives in block `b` of a rank.
  int32_t block_for(Rank r, int32_t b) const {
    const Neighborhood& here = (*q_.graph)[r];
    if (here.crossed) return b ^ 1;
    const Rank source = here.sources[b];
    auto before = std::count(here.sources.begin(), here.sources.begin() + b, source);
    const auto& there = (*q_.graph)[source].destinations;
    for (size_t i = 0; i < there.size(); ++i) {
      if (there[i] == r && before-- == 0) return static_cast<int32_t>(i);
    }
    wrong(r, "stands in a graph that its neighbours do not know");
  }

  const Question& q_;
  std::vector<State> ranks_;
  std::map<std::pair<Rank, Rank>, std::deque<Message>> sends_, receives_;
  std::vector<std::pair<Rank, Rank>> fresh_;      // pairs that may have a message to match
  std::map<std::pair<Rank, Cell>, int> buffers_;  // by which name a cell was received into
};

}  // namespace

std::string verdict(const Question& q, const std::vector<Schedule>& schedules) {
  try {
    Simulation(q, schedules).run();
    return {};
  } catch (const Wrong& w) {
    return w.what();
  }
}

std::string verdict(const Algorithm& a, const Question& q) {
  std::vector<Schedule> schedules;
  for (Rank r = 0; r < q.size; ++r) {
    Parameters p = q.parameters;
    const bool rooted = q.pattern == Pattern::gather || q.pattern == Pattern::scatter || q.pattern == Pattern::reduce;
    if (rooted && r != p.root) p.in_place = false;
    schedules.push_back(a.build({.hosts = q.hosts, .neighborhood = q.graph ? &(*q.graph)[r] : nullptr}, r, q.size, p));
  }
  const std::string wrong = verdict(q, schedules);
  return wrong.empty() ? wrong : std::string(a.name) + ": " + wrong;
}

}  // namespace weft::coll::check
