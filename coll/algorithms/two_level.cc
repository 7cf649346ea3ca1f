// Algorithms of two levels and more, through one rank of each host: its leader, the first one or the root.
#include <algorithm>

#include "coll/algorithms/algorithms.h"
#include "coll/algorithms/levels.h"
#include "coll/algorithms/tree.h"
#include "coll/part.h"

namespace weft::coll {

namespace {

constexpr Place kNothing{};
constexpr int32_t kFewHosts = 16;  // through which a chain fills faster than a tree sends everything twice

using Tree = Kin (*)(Rank me, int32_t size, Rank root);

/// A tree of ranks within each of the groups, of their leaders within each of the groups above them, and so on: leaders serve the farthest
/// first. Null: there is one level. `adjacent`: only by groups whose members are.
Kin tree_over(const Hosts* groups, Rank me, int32_t size, Rank root, Tree tree, bool adjacent = false) {
  if (!groups || (adjacent && !groups->in_blocks())) return tree(me, size, root);
  const Levels levels(*groups, me, root);
  const Kin kin = tree(levels.seat, levels.ranks_here(), levels.leader).among(levels.here);
  if (!levels.leads) return kin;
  return kin.under(tree_over(groups->switches(), levels.host, groups->count(), groups->of(root), tree, adjacent).among(levels.leaders));
}

/// A tree within each of the hosts, and a chain of their leaders, which enters each switch once.
Kin tree_and_chain(const Hosts& hosts, Rank me, Rank root, Tree tree) {
  const Levels levels(hosts, me, root);
  const Kin kin = tree(levels.seat, levels.ranks_here(), levels.leader).among(levels.here);
  if (!levels.leads) return kin;
  return kin.under(Kin::chain(tour(hosts.switches(), hosts.count(), hosts.of(root)), levels.host).among(levels.leaders));
}

/// Where a rank stands that long data goes through in pieces: a chain where that is short, as each sends the data once, else a binary tree;
/// within hosts that one in any case.
Kin place_in_pipeline(const Hosts& hosts, Rank me, int32_t size, Rank root) {
  if (!hosts.in_memory() && size <= kFewHosts) return Kin::chain(tour(&hosts, size, root), me);
  if (hosts.in_memory() && hosts.count() <= kFewHosts) return tree_and_chain(hosts, me, root, Kin::complete<2>);
  return tree_over(&hosts, me, size, root, Kin::complete<2>);
}

/// A tree of hosts below the root's, and a row in which they stand so that each is followed by those below it. Blocks travel in the order
/// of that row, where they lie in scratch memory.
class HostTree {
 public:
  HostTree(const Levels& l, Rank root)
      : top(l.hosts.of(root)), kin(kin_of(l.hosts, l.host)), levels_(l), starts_(starts(l.hosts.on(top).front())), in_order_(by_ranks()) {
    if (!in_order_) starts_ = starts(0);
  }
  const int32_t top;  ///< the root's host
  const Kin kin;      ///< of this rank's host
  /// Do blocks lie there as they do in a buffer of all ranks?
  bool in_order() const { return in_order_; }
  Rank leader(int32_t host) const { return levels_.leaders[static_cast<size_t>(host)]; }
  /// The place of a host's first block.
  int32_t start(int32_t host) const { return starts_[static_cast<size_t>(host)]; }
  /// That of a rank's block.
  int32_t place(Rank r) const { return start(levels_.hosts.of(r)) + levels_.hosts.seat(r); }
  /// How many there are of the host and those below it.
  int32_t blocks(int32_t host) const {
    auto sum = static_cast<int32_t>(levels_.hosts.on(host).size());
    for (const int32_t child : kin_of(levels_.hosts, host).children) sum += blocks(child);
    return sum;
  }

 private:
  Kin kin_of(const Hosts& hosts, int32_t host) const { return tree_over(hosts.switches(), host, hosts.count(), top, Kin::binomial); }
  std::vector<int32_t> starts(int32_t first) const {
    const Hosts& hosts = levels_.hosts;
    std::vector<int32_t> all(static_cast<size_t>(hosts.count()));
    for (const int32_t host : tour(hosts.switches(), hosts.count(), top)) {
      all[static_cast<size_t>(host)] = first;
      first = wrap(first + static_cast<int32_t>(hosts.on(host).size()), hosts.ranks());
    }
    return all;
  }
  /// Are the places those of the ranks?
  bool by_ranks() const {
    for (int32_t host = 0; host < levels_.hosts.count(); ++host)
      if (start(host) != levels_.hosts.on(host).front()) return false;
    return levels_.hosts.in_blocks();
  }

  const Levels& levels_;
  std::vector<int32_t> starts_;
  const bool in_order_;
};

/// What leaders do with their hosts' blocks, in place: a ring. Behind several switches with as many hosts each, those in the same seat do
/// so first, so that each block comes to a switch once, and then those behind each switch with the blocks of their seats.
Schedule allgather_between(const Hosts& hosts, int32_t host) {
  const Hosts* const switches = hosts.switches();
  if (!switches) return allgather_ring({}, host, hosts.count(), {.in_place = true});
  if (!switches->alike()) return allgather_around(tour(switches, hosts.count(), 0), host, true);
  const Levels levels(*switches, host, -1);
  const std::vector<Rank> peers = levels.peers();
  const auto seated = [&](int32_t seat) { return wrap(levels.seat + seat, levels.ranks_here()); };
  const auto other = [&](int32_t at) { return peers[static_cast<size_t>(wrap(levels.host + at, switches->count()))]; };
  const auto beside = [&](int32_t at) { return levels.here[static_cast<size_t>(seated(at))]; };
  Builder b(hosts.count());
  for (int32_t k = 0; k < switches->count() - 1; ++k)
    b.receive(other(-1), {buffer_out, other(-k - 1)}).send(other(1), {buffer_out, other(-k)}).next();
  for (int32_t k = 0; k < levels.ranks_here() - 1; ++k, b.next())
    for (int32_t s = 0; s < switches->count(); ++s) {
      b.receive(beside(-1), {buffer_out, switches->on(s)[static_cast<size_t>(seated(-k - 1))]});
      b.send(beside(1), {buffer_out, switches->on(s)[static_cast<size_t>(seated(-k))]});
    }
  return b.done();
}

}  // namespace

/// Up a tree within each host, dissemination among the leaders, down again.
Schedule barrier_two_level(const Topology& topology, Rank me, int32_t, const Parameters&) {
  const Levels levels(*topology.hosts, me, -1);
  const Kin kin = Kin::binomial(levels.seat, levels.ranks_here(), 0).among(levels.here);
  Builder b(1);
  for (const Rank child : kin.children) b.receive(child, kNothing, 0);
  b.next().send(kin.parent, kNothing, 0).next().receive(kin.parent, kNothing, 0).next();
  if (levels.leads) append(b, barrier_dissemination({}, levels.host, levels.hosts.count(), {}), levels.leaders, {}, {});
  b.next();
  for (const Rank child : kin.children) b.send(child, kNothing, 0);
  return b.done();
}

/// Binomial trees, of whole messages.
Schedule bcast_two_level(const Topology& topology, Rank me, int32_t size, const Parameters& p) {
  const Kin kin = tree_over(topology.hosts, me, size, p.root, Kin::binomial);
  return pipeline(kin.parent, kin.children, 1);
}

/// A pipeline: long data.
Schedule bcast_two_level_pipeline(const Topology& topology, Rank me, int32_t size, const Parameters& p) {
  const Kin kin = place_in_pipeline(*topology.hosts, me, size, p.root);
  return pipeline(kin.parent, kin.children, p.segments);
}

/// Gathers within hosts; whole hosts go up a tree of the leaders, the root.
Schedule gather_two_level(const Topology& topology, Rank me, int32_t size, const Parameters& p) {
  const Levels levels(*topology.hosts, me, p.root);
  const HostTree tree(levels, p.root);
  const int32_t start = tree.start(levels.host);
  Builder b(size);
  if (levels.host == tree.top) {  // whose leader may sit anywhere
    if (me != p.root) return b.send(p.root, {buffer_in, me}).done();
    for (const Rank r : levels.here)
      if (r != me) b.receive(r, {buffer_out, r});
    if (!p.in_place) b.copy({buffer_in, me}, {buffer_out, me});
  }
  const bool scattered = me == p.root && !tree.in_order();
  const uint8_t all = scattered      ? b.full_region()
                      : me == p.root ? uint8_t{buffer_out}
                      : levels.leads ? b.region(start, tree.blocks(levels.host))
                                     : uint8_t{buffer_in};
  if (levels.host != tree.top) {
    const uint8_t own = tree.in_order() ? uint8_t{buffer_in} : b.region(tree.place(me), 1);
    if (!tree.in_order()) b.copy({buffer_in, me}, {own, tree.place(me)});
    append(b, gather_binomial({}, levels.seat, levels.ranks_here(), {}), levels.here, {own, all}, {1, start});
  }
  if (!levels.leads) return b.done();
  for (const int32_t child : tree.kin.children) b.receive_around(tree.leader(child), all, tree.start(child), tree.blocks(child));
  b.next();
  if (me != p.root) b.send_around(tree.leader(tree.kin.parent), all, start, tree.blocks(levels.host));
  for (Rank r = 0; scattered && r < size; ++r)
    if (levels.hosts.of(r) != tree.top) b.copy({all, tree.place(r)}, {buffer_out, r});
  return b.done();
}

/// The mirror of gather_two_level.
Schedule scatter_two_level(const Topology& topology, Rank me, int32_t size, const Parameters& p) {
  const Levels levels(*topology.hosts, me, p.root);
  const HostTree tree(levels, p.root);
  const int32_t start = tree.start(levels.host);
  Builder b(size);
  if (levels.host == tree.top && me != p.root) return b.receive(p.root, {buffer_out, me}).done();
  const bool scattered = me == p.root && !tree.in_order();
  const uint8_t all = scattered      ? b.full_region()
                      : me == p.root ? uint8_t{buffer_in}
                      : levels.leads ? b.region(start, tree.blocks(levels.host))
                                     : uint8_t{buffer_out};
  for (Rank r = 0; scattered && r < size; ++r)
    if (levels.hosts.of(r) != tree.top) b.copy({buffer_in, r}, {all, tree.place(r)});
  if (levels.leads) {
    if (me != p.root) b.receive_around(tree.leader(tree.kin.parent), all, start, tree.blocks(levels.host));
    b.next();
    for (const int32_t child : tree.kin.children) b.send_around(tree.leader(child), all, tree.start(child), tree.blocks(child));
  }
  if (levels.host != tree.top) {
    const uint8_t own = tree.in_order() ? uint8_t{buffer_out} : b.region(tree.place(me), 1);
    append(b, scatter_binomial({}, levels.seat, levels.ranks_here(), {}), levels.here, {all, own}, {1, start});
    if (!tree.in_order()) b.copy({own, tree.place(me)}, {buffer_out, me});
    return b.done();
  }
  for (const Rank r : levels.here)
    if (r != me) b.send(r, {buffer_in, r});
  if (!p.in_place) b.copy({buffer_in, me}, {buffer_out, me});
  return b.done();
}

/// Binomial trees, of whole messages.
Schedule reduce_two_level(const Topology& topology, Rank me, int32_t size, const Parameters& p) {
  const Rank top = p.commutative ? p.root : 0;
  return reduce_up(tree_over(topology.hosts, me, size, top, Kin::binomial, !p.commutative), me, top, p);
}

/// A reduction on each host, recursive doubling among the leaders, a broadcast on each host: short data.
Schedule allreduce_two_level(const Topology& topology, Rank me, int32_t, const Parameters& p) {
  const Levels levels(*topology.hosts, me, -1);
  const Parameters within{.commutative = p.commutative, .in_place = p.in_place}, between{.commutative = p.commutative, .in_place = true};
  Builder b(1);
  append(b, reduce_binomial({}, levels.seat, levels.ranks_here(), within), levels.here, {}, {});
  if (levels.leads)
    append(b, allreduce_recursive_doubling({}, levels.host, levels.hosts.count(), between), levels.leaders, {buffer_out, buffer_out}, {});
  append(b, bcast_binomial({}, levels.seat, levels.ranks_here(), {}), levels.here, {}, {});
  return b.done();
}

/// A gather on each host, a ring of the leaders, a broadcast on each host.
Schedule allgather_two_level(const Topology& topology, Rank me, int32_t size, const Parameters& p) {
  const Levels levels(*topology.hosts, me, -1);
  const int32_t here = levels.ranks_here();
  Builder b(size);
  append(b, gather_binomial({}, levels.seat, here, {.in_place = levels.leads && p.in_place}), levels.here, {}, {1, levels.here.front()});
  if (levels.leads) append(b, allgather_between(levels.hosts, levels.host), levels.leaders, {buffer_out, buffer_out}, {here});
  append(b, bcast_binomial({}, levels.seat, here, {}), levels.here, {}, {size});
  return b.done();
}

}  // namespace weft::coll
