#include <algorithm>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "coll/hosts.h"

namespace weft::coll {

namespace {

/// A rank's own block goes to another one from where it is, and is copied to its place meanwhile, while that of a third one comes. Not if
/// it is alone.
void give_own(Builder& b, Rank to, Rank from, Rank me, bool in_place) {
  if (to != me) b.receive(from, {buffer_out, from}).send(to, {in_place ? buffer_out : buffer_in, me});
  if (!in_place) b.copy({buffer_in, me}, {buffer_out, me});
  b.next();
}

}  // namespace

Schedule allgather_around(const std::vector<Rank>& ring, Rank me, bool in_place) {
  const auto size = static_cast<int32_t>(ring.size()), at = place_in(ring, me);
  const auto before = [&](int32_t steps) { return ring[static_cast<size_t>(wrap(at - steps, size))]; };
  Builder b(size);
  give_own(b, before(-1), before(1), me, in_place);
  for (int32_t k = 1; k < size - 1; ++k) b.receive(before(1), {buffer_out, before(k + 1)}).send(before(-1), {buffer_out, before(k)}).next();
  return b.done();
}

/// p-1 rounds between neighbours; each rank sends the data once. Ranks of a host, and hosts of a switch, are neighbours.
Schedule allgather_ring(const Topology& topology, Rank me, int32_t size, const Parameters& p) {
  const std::vector<Rank> order = topology.hosts ? tour(topology.hosts, size, 0) : std::vector<Rank>();
  if (!std::ranges::is_sorted(order)) return allgather_around(order, me, p.in_place);
  const Rank before = wrap(me - 1, size), after = wrap(me + 1, size);
  Builder b(size);
  give_own(b, after, before, me, p.in_place);
  b.begin_loop();
  b.receive(before, {buffer_out, wrap(me - 2, size), -1}).send(after, {buffer_out, before, -1});
  b.end_loop(size - 2);
  return b.done();
}

/// log2 p rounds, blocks staying where they belong. Powers of two only.
Schedule allgather_recursive_doubling(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(size);
  const Rank first = size > 1 ? me ^ 1 : me;
  give_own(b, first, first, me, p.in_place);
  for (int32_t mask = 2; mask < size; mask *= 2) {
    const int32_t mine = me & ~(mask - 1);
    b.receive(me ^ mask, {buffer_out, mine ^ mask}, mask).send(me ^ mask, {buffer_out, mine}, mask).next();
  }
  return b.done();
}

/// ceil(log2 p) rounds for any p, in scratch memory that begins with the own block (Bruck et al. 1997).
Schedule allgather_bruck(const Topology&, Rank me, int32_t size, const Parameters&) {
  Builder b(size);
  const uint8_t all = b.region(me, size);
  b.copy({buffer_in, me}, {all, me}).next();
  for (int64_t have = 1; have < size; have *= 2) {
    const auto more = static_cast<int32_t>(std::min<int64_t>(have, size - have));
    b.receive(wrap(me + have, size), {all, wrap(me + have, size)}, more).send(wrap(me - have, size), {all, me}, more).next();
  }
  b.copy({all, me}, {buffer_out, me}, size - me);
  if (me > 0) b.copy({all, 0}, {buffer_out, 0}, me);
  return b.done();
}

/// p/2 rounds, pairs of blocks exchanged with the left and the right neighbour in turn (Chen et al. 2005). Even p only.
Schedule allgather_neighbor_exchange(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(size);
  const int32_t way = me % 2 == 0 ? 1 : -1;
  const Rank partner = me + way;            // in rounds 0, 2, 4, ...
  const Rank other = wrap(me - way, size);  // in rounds 1, 3, 5, ...
  const int32_t pair = me - me % 2;         // what round 0 completes
  give_own(b, partner, partner, me, p.in_place);
  const int32_t left = size / 2 - 1;  // rounds after the first
  // What arrives from `partner` moves by 2 * way a time, what arrives from `other` by -2 * way; each round sends on what the
  // one before brought.
  const Place from_other{buffer_out, wrap(pair - 2 * way, size), -2 * way};
  const Place from_partner{buffer_out, wrap(pair + 2 * way, size), 2 * way};
  const Place had{buffer_out, pair, 2 * way};
  b.begin_loop();
  b.receive(other, from_other, 2).send(other, had, 2).next();
  b.receive(partner, from_partner, 2).send(partner, from_other, 2).next();
  b.end_loop(left / 2);
  if (left % 2 == 1) {
    const int64_t k = left / 2;
    b.receive(other, {buffer_out, wrap(from_other.block + k * from_other.stride, size)}, 2);
    b.send(other, {buffer_out, wrap(had.block + k * had.stride, size)}, 2);
  }
  return b.done();
}

}  // namespace weft::coll
