// All algorithms by name. What buffers hold, per collective (p ranks, block i belongs to rank i where there are p blocks):
//   barrier               no data
//   bcast                 out: the data, cut as the algorithm likes; `in` unused
//   gather, allgather     in: block me; out (gather: of the root only): p blocks
//   scatter               in (of the root only): p blocks; out: block me
//   alltoall              in: p blocks by destination; out: p blocks by source; never in place (the plan stages the input)
//   reduce, allreduce, scan, exscan   in, out (reduce: of the root only): the data, cut as the algorithm likes
//   reduce_scatter        in: p blocks; out: block me; in place: out begins where in begins
//   neighbor_allgather    in: block 0; out: a block a source
//   neighbor_alltoall     in: a block a destination; out: a block a source
// The v forms run the same algorithms where these are marked as fit for blocks of different sizes.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "coll/order.h"
#include "coll/schedule.h"

namespace weft::coll {

/// Collectives as far as schedules tell them apart.
enum class Pattern : uint8_t {
  barrier,
  bcast,
  gather,
  scatter,
  allgather,
  alltoall,
  reduce,
  allreduce,
  reduce_scatter,
  scan,
  exscan,
  neighbor_allgather,
  neighbor_alltoall,
};
constexpr int kPatterns = 13;
constexpr bool among_neighbors(Pattern p) { return p >= Pattern::neighbor_allgather; }
constexpr bool reduces(Pattern p) { return p >= Pattern::reduce && p <= Pattern::exscan; }
const char* to_string(Pattern);

struct Kin;

struct Algorithm {
  Pattern pattern;
  const char* name;
  Build build;
  bool uneven = false;                   ///< fit for blocks of different sizes
  bool segmented = false;                ///< cuts the data into Parameters::segments
  bool commutative = false;              ///< only for commutative operations
  bool (*fits)(int32_t size) = nullptr;  ///< null: any size
  /// Of two levels, within hosts and between them: for which hosts; null: of one level, for any.
  bool (*spans)(const Hosts&, const Parameters&) = nullptr;
  bool goes_by_hosts = false;  ///< of one level, but with neighbours near each other where hosts are known
  Order order = Order::own;    ///< reductions: how it combines what may not change places (Parameters::commutative is false)

  bool usable(const Topology& topology, int32_t size, const Parameters& p, bool uneven_blocks) const {
    return (uneven || !uneven_blocks) && (!commutative || p.commutative) && (!fits || fits(size)) &&
           (!spans || (topology.hosts && spans(*topology.hosts, p)));
  }
};

std::span<const Algorithm> algorithms();
/// Null if there is none of that name.
const Algorithm* find_algorithm(Pattern, std::string_view name);

// barrier.cc
Schedule barrier_dissemination(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule barrier_dissemination_4(const Topology&, Rank me, int32_t size, const Parameters&);
// bcast.cc
Schedule bcast_binomial(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule bcast_knomial_4(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule bcast_scatter_allgather(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule bcast_chain(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule bcast_binary_tree(const Topology&, Rank me, int32_t size, const Parameters&);
/// The data moves in blocks from the parent (-1: none) to all children, block k+1 coming in while block k goes out.
Schedule pipeline(Rank parent, const std::vector<Rank>& children, int32_t segments);
// gather.cc
Schedule gather_linear(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule gather_binomial(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule scatter_linear(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule scatter_binomial(const Topology&, Rank me, int32_t size, const Parameters&);
// allgather.cc
/// A ring in any order of ranks: without loops, as blocks follow each other in no order that one could say.
Schedule allgather_around(const std::vector<Rank>& ring, Rank me, bool in_place);
Schedule allgather_ring(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule allgather_recursive_doubling(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule allgather_bruck(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule allgather_neighbor_exchange(const Topology&, Rank me, int32_t size, const Parameters&);
// alltoall.cc
Schedule alltoall_linear(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule alltoall_pairwise(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule alltoall_bruck(const Topology&, Rank me, int32_t size, const Parameters&);
// reduce.cc
/// Up a binary tree, messages of the last children first: whose operands are adjacent, so that the order of ranks is kept. Its root, `top`,
/// passes the result on to that of the call.
Schedule reduce_up(const Kin&, Rank me, Rank top, const Parameters&);
/// What a reduction to or among all is on one rank.
Schedule copy_through(bool in_place, int32_t blocks = 1);
Schedule reduce_binomial(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule reduce_knomial_4(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule reduce_rabenseifner(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule allreduce_recursive_doubling(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule allreduce_rabenseifner(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule allreduce_swing(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule allreduce_ring(const Topology&, Rank me, int32_t size, const Parameters&);
// reduce_scatter.cc
Schedule reduce_scatter_pairwise(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule reduce_scatter_recursive_halving(const Topology&, Rank me, int32_t size, const Parameters&);
// scan.cc
Schedule scan_doubling(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule scan_chain(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule exscan_doubling(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule exscan_chain(const Topology&, Rank me, int32_t size, const Parameters&);
// two_level.cc
Schedule barrier_two_level(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule bcast_two_level(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule bcast_two_level_pipeline(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule reduce_two_level(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule allreduce_two_level(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule allgather_two_level(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule gather_two_level(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule scatter_two_level(const Topology&, Rank me, int32_t size, const Parameters&);
// many_leaders.cc
Schedule reduce_many_leaders(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule allreduce_many_leaders(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule reduce_scatter_many_leaders(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule alltoall_many_leaders(const Topology&, Rank me, int32_t size, const Parameters&);
// double_tree.cc
Schedule bcast_double_tree(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule reduce_double_tree(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule allreduce_double_tree(const Topology&, Rank me, int32_t size, const Parameters&);
// pat.cc
Schedule allgather_pat(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule reduce_scatter_pat(const Topology&, Rank me, int32_t size, const Parameters&);
// neighbor.cc
Schedule neighbor_allgather_linear(const Topology&, Rank me, int32_t size, const Parameters&);
Schedule neighbor_alltoall_linear(const Topology&, Rank me, int32_t size, const Parameters&);

}  // namespace weft::coll
