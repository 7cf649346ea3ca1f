#include "coll/inter.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "coll/part.h"

namespace weft::coll {

namespace {

constexpr int64_t kMostBlocks = 1 << 20;
constexpr int32_t kAllAtOnce = 64;     // messages a rank has under way each way
constexpr uint64_t kByLeaders = 8192;  // bytes of both sides' blocks up to which an allgather goes by the leaders
constexpr Rank kNobody = -1;

/// Adjacent ranks of the united team that run an algorithm among themselves, perhaps with a guest as the last of them. The
/// algorithm knows them by their seats.
struct Party {
  Rank first = 0;
  int32_t hosts = 0;
  Rank guest = kNobody;

  int32_t size() const { return hosts + (guest != kNobody); }
  Rank leader() const { return first; }
  bool host(Rank r) const { return r >= first && r < first + hosts; }
  bool has(Rank r) const { return r != kNobody && (r == guest || host(r)); }
  Rank seat(Rank r) const { return r == guest ? hosts : r - first; }
  Rank rank(Rank seat) const { return seat == hosts ? guest : first + seat; }
  /// By seat.
  std::vector<Rank> all() const {
    std::vector<Rank> ranks(static_cast<size_t>(size()));
    for (Rank seat = 0; seat < size(); ++seat) ranks[static_cast<size_t>(seat)] = rank(seat);
    return ranks;
  }
};

/// The two groups as one rank sees them.
struct Groups {
  Party own, other;
  Groups(const Agreed& a, Rank me) : own{0, a.front}, other{a.front, a.size - a.front} {
    if (!own.host(me)) std::swap(own, other);
  }
};

/// The schedule of a rank for a collective of a party that it belongs to. `a` is what is agreed on between the groups; pattern, root
/// (a seat) and bytes are the part's.
Schedule within(const Agreed& a, const Party& party, Rank me, Pattern pattern, Rank root, uint64_t bytes) {
  const Agreed part{.pattern = pattern,
                    .size = party.size(),
                    .root = root,
                    .bytes = bytes,
                    .commutative = a.commutative,
                    .uneven = a.uneven,
                    .ordered = a.ordered};
  const Choice choice = choose(part, {});
  // A guest brings no block of its own, as a root in place.
  return choice.algorithm->build({}, party.seat(me), party.size(), parameters(part, choice, me == party.guest));
}

/// bcast, gather, scatter.
Schedule from_or_to_root(const Agreed& a, Rank me) {
  if (a.root == kNobody) return Builder(1).done();
  Party party = Groups(a, a.root).other;
  party.guest = a.root;
  if (!party.has(me)) return Builder(1).done();
  const Schedule s = within(a, party, me, a.pattern, party.hosts, a.bytes);
  Builder b(s.blocks);
  append(b, s, party.all(), {}, {1});
  return b.done();
}

/// The leader of the group without the root has its result and passes it on.
Schedule reduce_to_root(const Agreed& a, Rank me) {
  if (a.root == kNobody) return Builder(1).done();
  const Party party = Groups(a, a.root).other;
  if (me == a.root) return Builder(1).receive(party.leader(), {buffer_out, 0}).done();
  if (!party.has(me)) return Builder(1).done();
  if (party.hosts == 1) return Builder(1).send(a.root, {buffer_in, 0}).done();
  const Schedule s = within(a, party, me, Pattern::reduce, 0, a.bytes);
  Builder b(s.blocks);
  const uint8_t sum = me == party.leader() ? b.full_region() : uint8_t{buffer_out};
  append(b, s, party.all(), {buffer_in, sum}, {1});
  if (me == party.leader()) b.send(a.root, {sum, 0}, s.blocks);
  return b.done();
}

/// In what the groups' leaders exchange it does not matter how each side cuts it.
void swap_with(Builder& b, Rank leader, uint8_t in, uint8_t out, int32_t blocks) {
  b.next().receive(leader, {out, 0}, blocks).send(leader, {in, 0}, blocks).next();
}

/// A reduction within each group, an exchange of the results, a broadcast within each group.
Schedule reduce_swap_bcast(const Agreed& a, Rank me) {
  const Groups g(a, me);
  const Schedule up = within(a, g.own, me, Pattern::reduce, 0, a.bytes);
  Schedule down = within(a, g.own, me, Pattern::bcast, 0, a.bytes);
  if (std::lcm<int64_t>(up.blocks, down.blocks) > kMostBlocks) {
    down = bcast_binomial({}, g.own.seat(me), g.own.hosts, {});
  }
  const int32_t blocks = std::lcm(up.blocks, down.blocks);
  Builder b(blocks);
  const bool leads = me == g.own.leader(), alone = g.own.hosts == 1;
  const uint8_t sum = alone ? uint8_t{buffer_in} : leads ? b.full_region() : uint8_t{buffer_out};
  if (!alone) append(b, up, g.own.all(), {buffer_in, sum}, {blocks / up.blocks});
  if (leads) swap_with(b, g.other.leader(), sum, buffer_out, blocks);
  append(b, down, g.own.all(), {}, {blocks / down.blocks});
  return b.done();
}

/// A reduction within each group, an exchange of the results, a scatter within each group.
Schedule reduce_swap_scatter(const Agreed& a, Rank me) {
  const Groups g(a, me);
  const int32_t blocks = g.own.hosts;
  Schedule up = within(a, g.own, me, Pattern::reduce, 0, a.bytes);
  if (blocks % up.blocks != 0) up = reduce_binomial({}, g.own.seat(me), blocks, {.commutative = a.may_swap()});
  const Schedule down = within(a, g.own, me, Pattern::scatter, 0, a.bytes / static_cast<uint64_t>(blocks));
  Builder b(blocks);
  if (me != g.own.leader()) {
    append(b, up, g.own.all(), {}, {blocks / up.blocks});
    append(b, down, g.own.all(), {}, {1});
    return b.done();
  }
  const uint8_t sum = blocks == 1 ? uint8_t{buffer_in} : b.full_region(), theirs = b.full_region();
  if (blocks > 1) append(b, up, g.own.all(), {buffer_in, sum}, {blocks / up.blocks});
  swap_with(b, g.other.leader(), sum, theirs, blocks);
  append(b, down, g.own.all(), {theirs, buffer_out}, {1});
  return b.done();
}

/// A gather within each group, an exchange, a broadcast within each group: short blocks. The own group's blocks, of which there may
/// be more than of the others, lie in scratch memory.
Schedule gather_swap_bcast(const Agreed& a, Rank me) {
  const Groups g(a, me);
  const int32_t mine = g.own.hosts, theirs = g.other.hosts;
  Builder b(std::max(mine, theirs));
  const bool leads = me == g.own.leader();
  const uint8_t all = leads ? b.region(0, mine) : uint8_t{buffer_out};
  const Rank seat = g.own.seat(me);
  append(b, gather_binomial({}, seat, mine, {}), g.own.all(), {buffer_in, all}, {1});
  if (leads) b.next().receive(g.other.leader(), {buffer_out, 0}, theirs).send(g.other.leader(), {all, 0}, mine).next();
  append(b, bcast_binomial({}, seat, mine, {}), g.own.all(), {}, {theirs});
  return b.done();
}

/// From each to each: all messages at once, beginning with the rank in the own place so that no one is hit by all.
Schedule each_to_each(const Groups& g, Rank me, int32_t stride) {
  const int32_t n = g.other.hosts, first = g.own.seat(me) % n;
  Builder b(n);
  b.receive(g.other.rank(first), {buffer_out, first, 1}).repeat(n - first, 1);
  b.receive(g.other.rank(0), {buffer_out, 0, 1}).repeat(first, 1);
  b.send(g.other.rank(first), {buffer_in, first * stride, stride}).repeat(n - first, 1);
  b.send(g.other.rank(0), {buffer_in, 0, stride}).repeat(first, 1);
  return b.done();
}

/// The same, one message out and one in at a time. There are as many rounds as the larger group has ranks: in round k a rank in place
/// i sends to place i + k of the other group and receives from place i - k, where there is somebody.
Schedule each_to_each_in_turn(const Groups& g, Rank me, int32_t stride) {
  const int32_t n = g.other.hosts, self = g.own.seat(me), rounds = std::max(g.own.hosts, n);
  Builder b(n);
  // Where somebody comes to stand at the other end or is gone, or the places begin anew.
  std::vector<int32_t> borders{0, n - self, rounds - self, rounds - self + n, self - n + 1, self + 1, rounds + self - n + 1, rounds};
  std::erase_if(borders, [&](int32_t k) { return k < 0 || k > rounds; });
  std::ranges::sort(borders);
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    const int32_t k = borders[i], to = wrap(int64_t{self} + k, rounds), from = wrap(int64_t{self} - k, rounds);
    b.begin_loop();
    if (from < n) b.receive(g.other.rank(from), {buffer_out, from, -1}).turn(-1);
    if (to < n) b.send(g.other.rank(to), {buffer_in, to * stride, stride}).turn(1);
    b.end_loop(borders[i + 1] - k);
  }
  return b.done();
}

Schedule directly(const Agreed& a, Rank me) {
  const Groups g(a, me);
  const int32_t stride = a.pattern == Pattern::alltoall ? 1 : 0;
  return std::max(g.own.hosts, g.other.hosts) <= kAllAtOnce ? each_to_each(g, me, stride) : each_to_each_in_turn(g, me, stride);
}

}  // namespace

Schedule between_groups(const Agreed& a, Rank me) {
  switch (a.pattern) {
    case Pattern::barrier: return barrier_dissemination({}, me, a.size, {});
    case Pattern::bcast:
    case Pattern::gather:
    case Pattern::scatter: return from_or_to_root(a, me);
    case Pattern::reduce: return reduce_to_root(a, me);
    case Pattern::allreduce: return reduce_swap_bcast(a, me);
    case Pattern::reduce_scatter: return reduce_swap_scatter(a, me);
    case Pattern::allgather: return a.uneven || a.bytes > kByLeaders ? directly(a, me) : gather_swap_bcast(a, me);
    default: return directly(a, me);
  }
}

}  // namespace weft::coll
