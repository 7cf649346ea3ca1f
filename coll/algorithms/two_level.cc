// Algorithms of two levels: within hosts, where messages go through memory, and between them, where few messages should go. Each host has a
// leader, its first rank or the root.
#include <algorithm>

#include "coll/algorithms/algorithms.h"
#include "coll/hosts.h"
#include "coll/part.h"

namespace weft::coll {

namespace {

/// The ranks that a rank meets on the two levels.
struct Levels {
  std::vector<Rank> here;     ///< of its host, the leader where it belongs by rank
  std::vector<Rank> leaders;  ///< by host
  Rank seat = 0, leader = 0;  ///< its own place among `here`, the leader's
  int32_t host = 0;           ///< its own host
  bool leads = false;

  /// The root, if there is one, leads its host.
  Levels(const Hosts& hosts, Rank me, Rank root) : here(hosts.on(hosts.of(me))), seat(hosts.seat(me)), host(hosts.of(me)) {
    for (int32_t h = 0; h < hosts.count(); ++h) leaders.push_back(root >= 0 && hosts.of(root) == h ? root : hosts.on(h).front());
    leader = hosts.seat(leaders[static_cast<size_t>(host)]);
    leads = leader == seat;
  }
  int32_t ranks_here() const { return static_cast<int32_t>(here.size()); }
  int32_t hosts() const { return static_cast<int32_t>(leaders.size()); }
};

/// A rank's neighbours in a tree.
struct Kin {
  Rank parent = -1;
  std::vector<Rank> children;

  /// In the binomial tree of a party whose root sits at `top`, the largest subtree first.
  static Kin binomial(const std::vector<Rank>& party, Rank top, Rank seat) {
    const auto size = static_cast<int32_t>(party.size());
    const int32_t self = wrap(seat - top, size);
    auto rank = [&](int64_t number) { return party[static_cast<size_t>(wrap(number + top, size))]; };
    Kin kin;
    int64_t mask = 1;
    while (mask < size && !(self & mask)) mask *= 2;
    if (self != 0) kin.parent = rank(self - mask);
    for (mask /= 2; mask > 0; mask /= 2)
      if (self + mask < size) kin.children.push_back(rank(self + mask));
    return kin;
  }
  /// In a complete tree of so many children each; of one: a chain.
  template <int32_t fan_out>
  static Kin complete(const std::vector<Rank>& party, Rank top, Rank seat) {
    const auto size = static_cast<int32_t>(party.size());
    const int32_t self = wrap(seat - top, size);
    auto rank = [&](int64_t number) { return party[static_cast<size_t>(wrap(number + top, size))]; };
    Kin kin;
    if (self != 0) kin.parent = rank((self - 1) / fan_out);
    for (int64_t child = int64_t{fan_out} * self + 1; child <= int64_t{fan_out} * (self + 1) && child < size; ++child)
      kin.children.push_back(rank(child));
    return kin;
  }
};

/// The tree of both levels: leaders serve the other hosts first.
template <class Within, class Between>
Kin down_both(const Topology& topology, Rank me, Rank root, Within within, Between between) {
  const Levels levels(*topology.hosts, me, root);
  Kin kin = within(levels.here, levels.leader, levels.seat);
  if (!levels.leads) return kin;
  const Kin others = between(levels.leaders, topology.hosts->of(root), levels.host);
  kin.parent = others.parent;
  kin.children.insert(kin.children.begin(), others.children.begin(), others.children.end());
  return kin;
}

constexpr Place kNothing{};
constexpr int32_t kFewHosts = 16;  // through which a chain fills faster than a tree sends everything twice

}  // namespace

/// Up a tree within each host, dissemination among the leaders, down again.
Schedule barrier_two_level(const Topology& topology, Rank me, int32_t, const Parameters&) {
  const Levels levels(*topology.hosts, me, -1);
  const Kin kin = Kin::binomial(levels.here, levels.leader, levels.seat);
  Builder b(1);
  for (const Rank child : kin.children) b.receive(child, kNothing, 0);
  b.next().send(kin.parent, kNothing, 0).next().receive(kin.parent, kNothing, 0).next();
  if (levels.leads) append(b, barrier_dissemination({}, levels.host, levels.hosts(), {}), levels.leaders, {}, {});
  b.next();
  for (const Rank child : kin.children) b.send(child, kNothing, 0);
  return b.done();
}

/// Binomial trees, of whole messages.
Schedule bcast_two_level(const Topology& topology, Rank me, int32_t, const Parameters& p) {
  const Kin kin = down_both(topology, me, p.root, Kin::binomial, Kin::binomial);
  return pipeline(kin.parent, kin.children, 1);
}

/// A pipeline, long data: from host to host where these are few, so that each sends the data once, else down a binary tree of them; within
/// hosts down one.
Schedule bcast_two_level_pipeline(const Topology& topology, Rank me, int32_t, const Parameters& p) {
  const Kin kin =
      down_both(topology, me, p.root, Kin::complete<2>, topology.hosts->count() <= kFewHosts ? Kin::complete<1> : Kin::complete<2>);
  return pipeline(kin.parent, kin.children, p.segments);
}

/// Binomial trees, of whole messages.
Schedule reduce_two_level(const Topology& topology, Rank me, int32_t, const Parameters& p) {
  const Levels levels(*topology.hosts, me, p.root);
  const bool root = me == p.root;
  Builder b(1);
  const uint8_t sum = levels.leads && !root ? b.full_region() : uint8_t{buffer_out};
  const Parameters within{.root = levels.leader, .commutative = p.commutative, .in_place = root && p.in_place};
  append(b, reduce_binomial({}, levels.seat, levels.ranks_here(), within), levels.here, {buffer_in, sum}, {});
  if (!levels.leads) return b.done();
  const Parameters between{.root = topology.hosts->of(p.root), .commutative = p.commutative, .in_place = true};
  append(b, reduce_binomial({}, levels.host, levels.hosts(), between), levels.leaders, {sum, sum}, {});
  return b.done();
}

/// A reduction on each host, recursive doubling among the leaders, a broadcast on each host: short data.
Schedule allreduce_two_level(const Topology& topology, Rank me, int32_t, const Parameters& p) {
  const Levels levels(*topology.hosts, me, -1);
  const Parameters within{.commutative = p.commutative, .in_place = p.in_place}, between{.commutative = p.commutative, .in_place = true};
  Builder b(1);
  append(b, reduce_binomial({}, levels.seat, levels.ranks_here(), within), levels.here, {}, {});
  if (levels.leads)
    append(b, allreduce_recursive_doubling({}, levels.host, levels.hosts(), between), levels.leaders, {buffer_out, buffer_out}, {});
  append(b, bcast_binomial({}, levels.seat, levels.ranks_here(), {}), levels.here, {}, {});
  return b.done();
}

/// Each host shares its sum out among its ranks, those in the same place on all hosts reduce their share, each host puts the shares
/// together: long data. As many ranks of a host talk to others as there are, each about as many bytes as it has.
Schedule allreduce_many_leaders(const Topology& topology, Rank me, int32_t, const Parameters&) {
  const Hosts& hosts = *topology.hosts;
  const Levels levels(hosts, me, -1);
  const int32_t shares = levels.ranks_here(), seat = levels.seat;
  std::vector<Rank> peers;
  for (int32_t h = 0; h < hosts.count(); ++h) peers.push_back(hosts.on(h)[static_cast<size_t>(seat)]);
  const Schedule between = allreduce_rabenseifner({}, levels.host, levels.hosts(), {.in_place = true});
  const int32_t cut = between.blocks;
  Builder b(shares * cut);
  const uint8_t share = b.region(seat * cut, cut);
  append(b, reduce_scatter_recursive_halving({}, seat, shares, {}), levels.here, {buffer_in, share}, {cut});
  append(b, between, peers, {share, share}, {1, seat * cut});
  append(b, allgather_ring({}, seat, shares, {}), levels.here, {share, buffer_out}, {cut});
  return b.done();
}

/// A gather on each host, a ring of the leaders, a broadcast on each host.
Schedule allgather_two_level(const Topology& topology, Rank me, int32_t size, const Parameters& p) {
  const Levels levels(*topology.hosts, me, -1);
  const int32_t here = levels.ranks_here();
  Builder b(size);
  append(b, gather_binomial({}, levels.seat, here, {.in_place = levels.leads && p.in_place}), levels.here, {}, {1, levels.here.front()});
  if (levels.leads)
    append(b, allgather_ring({}, levels.host, levels.hosts(), {.in_place = true}), levels.leaders, {buffer_out, buffer_out}, {here});
  append(b, bcast_binomial({}, levels.seat, here, {}), levels.here, {}, {size});
  return b.done();
}

}  // namespace weft::coll
