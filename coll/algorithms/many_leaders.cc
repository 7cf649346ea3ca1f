// Algorithms of two levels in which every rank talks to those in its own seat on the other hosts, which are alike: a host's ranks share its
// work, and what leaves it, equally.
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "coll/algorithms/levels.h"
#include "coll/part.h"

namespace weft::coll {

namespace {

/// Blocks in the order of hosts and then seats, copied into that of seats and then hosts: those of a seat are adjacent there. Only where
/// the hosts' ranks are adjacent.
void by_seat(Builder& b, uint8_t from, uint8_t to, int32_t hosts, int32_t seats) {
  for (int32_t s = 0; s < seats; ++s) b.copy({from, s, seats}, {to, s * hosts, 1}).repeat(hosts);
  b.next();
}

/// Hosts in an order in which those behind a switch are adjacent, and the place of one among them.
struct Tour {
  std::vector<Rank> order;
  Rank at;
  Tour(const Hosts& hosts, int32_t host) : order(tour(hosts.switches(), hosts.count(), 0)), at(place_in(order, host)) {}
};

/// What hosts do with a share, in place. Halving hands each switch's sum on once if powers of two meet, nearest hosts first; otherwise
/// those behind a switch share the work out as the ranks of a host do.
Schedule allreduce_between(const Hosts& hosts, int32_t host) {
  const Hosts* const switches = hosts.switches();
  const bool halves_fit = is_power_of_two(hosts.count()) && switches && is_power_of_two(switches->count());
  if (switches && switches->alike() && !halves_fit) return allreduce_many_leaders({.hosts = switches}, host, hosts.count(), {});
  const Tour tour(hosts, host);
  return seated(allreduce_rabenseifner({}, tour.at, hosts.count(), {.in_place = true}), tour.order);
}

/// The same, the result on one host.
Schedule reduce_between(const Hosts& hosts, int32_t host, int32_t top) {
  const Tour tour(hosts, host);
  const Parameters to_top{.root = place_in(tour.order, top), .in_place = true};
  return seated(reduce_rabenseifner({}, tour.at, hosts.count(), to_top), tour.order);
}

/// Ranks that differ by `stride`.
struct Row {
  Rank first;
  int32_t stride, size;
  Rank at(int32_t seat) const { return first + seat * stride; }
};

/// Everybody in the row sends everybody else so many adjacent blocks, the next one first so that no one is hit by all.
void exchange(Builder& b, const Row& row, Rank seat, Buffers buffers, int32_t blocks) {
  const int32_t before = seat, after = row.size - 1 - seat;
  if (before > 0) b.receive(row.at(seat - 1), {buffers.out, (seat - 1) * blocks, -blocks}, blocks).repeat(before, -row.stride);
  if (after > 0) {
    b.receive(row.at(row.size - 1), {buffers.out, (row.size - 1) * blocks, -blocks}, blocks).repeat(after, -row.stride);
    b.send(row.at(seat + 1), {buffers.in, (seat + 1) * blocks, blocks}, blocks).repeat(after, row.stride);
  }
  if (before > 0) b.send(row.at(0), {buffers.in, 0, blocks}, blocks).repeat(before, row.stride);
  b.copy({buffers.in, seat * blocks}, {buffers.out, seat * blocks}, blocks).next();
}

}  // namespace

/// Each host shares its sum out among its ranks, those in the same seat on all hosts reduce their share, each host puts the shares
/// together: long data.
Schedule allreduce_many_leaders(const Topology& topology, Rank me, int32_t, const Parameters&) {
  const Levels levels(*topology.hosts, me, -1);
  const int32_t shares = levels.ranks_here(), seat = levels.seat;
  const Schedule between = allreduce_between(levels.hosts, levels.host);
  const int32_t cut = between.blocks;
  Builder b(shares * cut);
  const uint8_t share = b.region(seat * cut, cut);
  append(b, reduce_scatter_recursive_halving({}, seat, shares, {}), levels.here, {buffer_in, share}, {cut});
  append(b, between, levels.peers(), {share, share}, {1, seat * cut});
  // A loop wraps around at the end of all blocks, which may be a part of more where groups are hosts.
  const Schedule together =
      levels.hosts.in_memory() ? allgather_ring({}, seat, shares, {}) : allgather_around(tour(nullptr, shares, 0), seat, false);
  append(b, together, levels.here, {share, buffer_out}, {cut});
  return b.done();
}

/// The same, with the shares put together by the root only: long data.
Schedule reduce_many_leaders(const Topology& topology, Rank me, int32_t, const Parameters& p) {
  const Levels levels(*topology.hosts, me, p.root);
  const int32_t shares = levels.ranks_here(), seat = levels.seat, top = levels.hosts.of(p.root);
  const Schedule between = reduce_between(levels.hosts, levels.host, top);
  const int32_t cut = between.blocks;
  Builder b(shares * cut);
  const uint8_t share = b.region(seat * cut, cut);
  append(b, reduce_scatter_recursive_halving({}, seat, shares, {}), levels.here, {buffer_in, share}, {cut});
  append(b, between, levels.peers(), {share, share}, {1, seat * cut});
  if (levels.host != top) return b.done();
  b.next();
  if (me != p.root) return b.send(p.root, {share, seat * cut}, cut).done();
  for (int32_t s = 0; s < shares; ++s)
    if (s != seat) b.receive(levels.here[static_cast<size_t>(s)], {buffer_out, s * cut}, cut);
  b.copy({share, seat * cut}, {buffer_out, seat * cut}, cut);
  return b.done();
}

/// A host's ranks reduce what the seats they have get on all hosts, then those in the same seat among each other.
Schedule reduce_scatter_many_leaders(const Topology& topology, Rank me, int32_t size, const Parameters&) {
  const Levels levels(*topology.hosts, me, -1);
  const int32_t hosts = levels.hosts.count(), seats = levels.ranks_here(), mine = levels.seat * hosts;
  Builder b(size);
  const uint8_t sorted = b.full_region(), share = b.region(mine, hosts);
  by_seat(b, buffer_in, sorted, hosts, seats);
  append(b, reduce_scatter_recursive_halving({}, levels.seat, seats, {}), levels.here, {sorted, share}, {hosts});
  append(b, reduce_scatter_recursive_halving({}, levels.host, hosts, {}), levels.peers(), {share, sorted}, {1, mine});
  b.next().copy({sorted, mine + levels.host}, {buffer_out, me});
  return b.done();
}

/// A host's ranks give each other what goes to the seats they have on all hosts, then those in the same seat exchange it: short blocks, of
/// which as many travel together as a host has ranks.
Schedule alltoall_many_leaders(const Topology& topology, Rank me, int32_t size, const Parameters&) {
  const Levels levels(*topology.hosts, me, -1);
  const int32_t hosts = levels.hosts.count(), seats = levels.ranks_here();
  Builder b(size);
  const uint8_t sorted = b.full_region(), mine = b.full_region();
  by_seat(b, buffer_in, sorted, hosts, seats);
  exchange(b, {levels.here.front(), 1, seats}, levels.seat, {sorted, mine}, hosts);
  for (int32_t s = 0; s < seats; ++s) b.copy({mine, s * hosts, 1}, {sorted, s, seats}).repeat(hosts);
  b.next();
  exchange(b, {levels.seat, seats, hosts}, levels.host, {sorted, buffer_out}, seats);
  return b.done();
}

}  // namespace weft::coll
