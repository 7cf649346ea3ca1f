// reduce and allreduce. Operands are always combined in the order of ranks, unless an algorithm is marked commutative.
#include <algorithm>
#include <array>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "coll/algorithms/meeting.h"
#include "coll/algorithms/tree.h"
#include "coll/hosts.h"
#include "coll/part.h"

namespace weft::coll {

namespace {

/// The ranks that take part in an algorithm for powers of two: of the first 2 * rest ranks every second one hands its data to
/// its neighbour and waits for the result.
struct Folding {
  int32_t power, rest;
  Rank root;  ///< takes part if it belongs to a pair (-1: nobody in particular)

  Folding(int32_t size, Rank stays) : power(power_below(size)), rest(size - power), root(stays) {}
  Rank survivor(int32_t pair) const { return root == 2 * pair ? root : 2 * pair + 1; }
  bool paired(Rank r) const { return r < 2 * rest; }
  bool out(Rank r) const { return paired(r) && survivor(r / 2) != r; }
  int32_t number(Rank r) const { return paired(r) ? r / 2 : r - rest; }
  Rank rank(int32_t number) const { return number < rest ? survivor(number) : number + rest; }
};

/// Where a partial result is: at first in the input (not to be written), later in `result`.
struct Accumulator {
  uint8_t now, result, spare;
  bool in_place;
  bool commutative;

  bool writable() const { return now == result || in_place; }

  /// Takes in what has arrived in the spare buffer from the left (lower ranks) or the right; the outcome is in `result`.
  void absorb(Builder& b, bool left, int32_t block, int32_t blocks) {
    const Place arrived{spare, block}, mine{now, block}, to{result, block};
    if (!writable()) {
      left ? b.combine(arrived, mine, to, blocks) : b.combine(mine, arrived, to, blocks);
    } else if (left || commutative) {
      b.reduce(arrived, to, blocks);
    } else {
      b.reduce(mine, arrived, blocks).copy(arrived, to, blocks);
    }
    b.next();
  }
};

/// Before: pairs become one. Returns false on ranks that are out.
bool fold(Builder& b, const Folding& f, Rank me, int32_t blocks, Accumulator& acc) {
  if (!f.paired(me)) return true;
  const Rank partner = me ^ 1;
  if (f.out(me)) {
    b.send(partner, {buffer_in, 0}, blocks).next();
    return false;
  }
  b.receive(partner, {acc.spare, 0}, blocks).next();
  acc.absorb(b, partner < me, 0, blocks);
  acc.now = acc.result;
  return true;
}

/// A range of blocks, [first, last).
struct Range {
  int32_t first, last;
  int32_t size() const { return last - first; }
};

int levels(int32_t power) {
  int n = 0;
  while ((1 << n) < power) ++n;
  return n;
}

/// Reduce-scatter by halving ranges.
/// Returns the own range at each level: [0] everything, then halves.
template <class Meeting>
std::array<Range, 32> halve(Builder& b, const Folding& f, Rank me, Accumulator& acc) {
  std::array<Range, 32> ranges{};
  Range range{0, f.power};
  ranges[0] = range;
  const int32_t self = f.number(me);
  const Meeting meeting{f.power};
  for (int step = 0; step < levels(f.power); ++step) {
    const int32_t middle = range.first + range.size() / 2;
    const Range low{range.first, middle}, high{middle, range.last};
    const bool upper = meeting.keeps_upper(self, step);
    const Range keep = upper ? high : low, give = upper ? low : high;
    const Rank partner = f.rank(meeting.partner(self, step));
    b.receive(partner, {acc.spare, keep.first}, keep.size()).send(partner, {acc.now, give.first}, give.size()).next();
    acc.absorb(b, partner < me, keep.first, keep.size());
    acc.now = acc.result;
    ranges[static_cast<size_t>(step) + 1] = range = keep;
  }
  return ranges;
}

Range sibling(const Range& whole, const Range& mine) {
  return mine.first == whole.first ? Range{mine.last, whole.last} : Range{whole.first, mine.first};
}

/// Up a tree to `top`, which passes the result on to the root; messages of k - 1 children at a time, the last ones first.
template <int32_t k>
Schedule reduce_up_by(const Kin& kin, Rank me, Rank top, const Parameters& p) {
  Builder b(1);
  std::array<uint8_t, k> rooms{};  // each result is made where the latest message is, so that the order is kept without a copy
  uint8_t now = buffer_in;
  const auto free_room = [&](size_t number) -> uint8_t& {
    for (uint8_t& room : rooms)
      if ((room == 0 || room != now) && number-- == 0) return room;
    return rooms.back();
  };
  for (size_t left = kin.children.size(); left > 0;) {
    const size_t together = std::min<size_t>(left, k - 1);
    left -= together;
    std::array<uint8_t, k> arrived{};
    for (size_t i = 0; i < together; ++i) {
      uint8_t& room = free_room(i);
      if (room == 0) room = b.full_region();
      b.receive(kin.children[left + i], {arrived[i] = room, 0});
    }
    b.next();
    for (size_t i = 0; i < together; ++i) {
      b.reduce({now, 0}, {arrived[i], 0});
      now = arrived[i];
    }
    b.next();
  }
  if (kin.parent >= 0) {
    b.send(kin.parent, {now, 0}).next();
    if (me == p.root) b.receive(top, {buffer_out, 0});
  } else if (me == p.root) {
    b.copy({now, 0}, {buffer_out, 0});
  } else {
    b.send(p.root, {now, 0});
  }
  return b.done();
}

/// Up a k-nomial tree, whose nearest children have the smallest subtrees. Operations that do not commute run up to rank 0.
template <int32_t k>
Schedule reduce_by_tree(Rank me, int32_t size, const Parameters& p) {
  if (size == 1) return copy_through(p.in_place);
  const Rank top = p.commutative ? p.root : 0;
  return reduce_up_by<k>(Kin::knomial<k>(me, size, top), me, top, p);
}

/// Reduce-scatter by halving, allgather by doubling.
template <class Meeting>
Schedule allreduce_by_halves(Rank me, int32_t size, const Parameters& p) {
  const Folding f(size, -1);
  if (size == 1) return copy_through(p.in_place, f.power);
  Builder b(f.power);
  Accumulator acc{buffer_in, buffer_out, f.out(me) ? uint8_t{0} : b.full_region(), p.in_place, p.commutative};
  if (!fold(b, f, me, f.power, acc)) return b.receive(me ^ 1, {buffer_out, 0}, f.power).done();
  const auto ranges = halve<Meeting>(b, f, me, acc);
  const int32_t self = f.number(me);
  const Meeting meeting{f.power};
  for (int level = levels(f.power); level > 0; --level) {
    const Rank partner = f.rank(meeting.partner(self, level - 1));
    const Range mine = ranges[static_cast<size_t>(level)], theirs = sibling(ranges[static_cast<size_t>(level) - 1], mine);
    b.receive(partner, {buffer_out, theirs.first}, theirs.size());
    b.send(partner, {buffer_out, mine.first}, mine.size()).next();
  }
  if (f.paired(me)) b.send(me ^ 1, {buffer_out, 0}, f.power);
  return b.done();
}

}  // namespace

Schedule copy_through(bool in_place, int32_t blocks) {
  Builder b(blocks);
  if (!in_place) b.copy({buffer_in, 0}, {buffer_out, 0}, blocks);
  return b.done();
}

Schedule reduce_up(const Kin& kin, Rank me, Rank top, const Parameters& p) { return reduce_up_by<2>(kin, me, top, p); }

/// ceil(log2 p) rounds of whole messages.
Schedule reduce_binomial(const Topology&, Rank me, int32_t size, const Parameters& p) { return reduce_by_tree<2>(me, size, p); }

/// ceil(log4 p) rounds of up to three messages: short data, where a message takes much longer than it keeps a processor busy.
Schedule reduce_knomial_4(const Topology&, Rank me, int32_t size, const Parameters& p) { return reduce_by_tree<4>(me, size, p); }

/// Halving, then a gather of the pieces to the root: long data (Rabenseifner 2004).
Schedule reduce_rabenseifner(const Topology&, Rank me, int32_t size, const Parameters& p) {
  const Folding f(size, p.root);
  if (size == 1) return copy_through(p.in_place, f.power);
  Builder b(f.power);
  const bool root = me == p.root;
  Accumulator acc{buffer_in, buffer_out, 0, root && p.in_place, p.commutative};
  if (!f.out(me)) {
    acc.spare = b.full_region();
    if (!root) acc.result = b.full_region();
  }
  if (!fold(b, f, me, f.power, acc)) return b.done();
  const auto ranges = halve<Doubling>(b, f, me, acc);
  const int32_t self = f.number(me), top = f.number(p.root);
  int level = levels(f.power);
  for (int32_t mask = f.power / 2; mask > 0; mask /= 2, --level) {
    const Rank partner = f.rank(self ^ mask);
    if ((self & mask) != (top & mask)) {
      b.send(partner, {acc.now, ranges[level].first}, ranges[level].size());
      break;
    }
    const Range theirs = sibling(ranges[level - 1], ranges[level]);
    b.receive(partner, {acc.now, theirs.first}, theirs.size()).next();
  }
  return b.done();
}

/// log2 p rounds in which all ranks exchange whole partial results: short data.
Schedule allreduce_recursive_doubling(const Topology&, Rank me, int32_t size, const Parameters& p) {
  if (size == 1) return copy_through(p.in_place);
  const Folding f(size, -1);
  Builder b(1);
  Accumulator acc{buffer_in, buffer_out, f.out(me) ? uint8_t{0} : b.full_region(), p.in_place, p.commutative};
  if (!fold(b, f, me, 1, acc)) return b.receive(me ^ 1, {buffer_out, 0}).done();
  const int32_t self = f.number(me);
  for (int32_t mask = 1; mask < f.power; mask *= 2) {
    const Rank partner = f.rank(self ^ mask);
    b.receive(partner, {acc.spare, 0}).send(partner, {acc.now, 0}).next();
    acc.absorb(b, partner < me, 0, 1);
    acc.now = acc.result;
  }
  if (f.paired(me)) b.send(me ^ 1, {buffer_out, 0});
  return b.done();
}

/// Halving, then doubling: 2 log2 p rounds, twice the data moved whatever p is (Rabenseifner 2004).
Schedule allreduce_rabenseifner(const Topology&, Rank me, int32_t size, const Parameters& p) {
  return allreduce_by_halves<Doubling>(me, size, p);
}

/// The same with Swing's partners, for rings and tori of hosts, which short ways do not crowd. Its form for short data, in which all
/// exchange whole partial results, would add these in other orders on each rank: MPI wants the same result on all.
Schedule allreduce_swing(const Topology&, Rank me, int32_t size, const Parameters& p) { return allreduce_by_halves<Swinging>(me, size, p); }

namespace {

Schedule ring_of_all(Rank me, int32_t size, const Parameters& p) {
  Builder b(size);
  const uint8_t arrived = b.single_region();
  const Rank left = wrap(me - 1, size), right = wrap(me + 1, size);
  auto fold_block = [&](int32_t block, int32_t stride) {
    if (p.in_place) {
      b.reduce({arrived, block, stride}, {buffer_out, block, stride}).next();
    } else {
      b.combine({arrived, block, stride}, {buffer_in, block, stride}, {buffer_out, block, stride}).next();
    }
  };
  b.receive(left, {arrived, left}).send(right, {buffer_in, me}).next();
  fold_block(left, 0);
  b.begin_loop();
  b.receive(left, {arrived, wrap(me - 2, size), -1}).send(right, {buffer_out, left, -1}).next();
  fold_block(wrap(me - 2, size), -1);
  b.end_loop(size - 2);
  b.begin_loop();
  b.receive(left, {buffer_out, me, -1}).send(right, {buffer_out, right, -1});
  b.end_loop(size - 1);
  return b.done();
}

}  // namespace

/// 2 (p-1) rounds between neighbours (Patarasuk, Yuan 2009): very long data. The order of operands differs per block. Ranks of a host, and
/// hosts of a switch, are neighbours.
Schedule allreduce_ring(const Topology& topology, Rank me, int32_t size, const Parameters& p) {
  if (size == 1) return copy_through(p.in_place);
  if (!topology.hosts) return ring_of_all(me, size, p);
  const std::vector<Rank> order = tour(topology.hosts, size, 0);
  return seated(ring_of_all(place_in(order, me), size, p), order);
}

}  // namespace weft::coll
