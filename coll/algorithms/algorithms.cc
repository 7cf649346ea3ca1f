#include "coll/algorithms/algorithms.h"

#include "coll/hosts.h"

namespace weft::coll {

namespace {

bool power_of_two(int32_t size) { return is_power_of_two(size); }
bool even(int32_t size) { return size % 2 == 0; }

bool any_hosts(const Hosts& hosts, const Parameters& p) { return hosts.two_levels() && (p.commutative || hosts.in_blocks()); }
bool hosts_alike(const Hosts& hosts, const Parameters&) { return hosts.two_levels() && hosts.alike(); }
bool equal_blocks(const Hosts& hosts, const Parameters&) { return hosts.two_levels() && hosts.alike() && hosts.in_blocks(); }

constexpr Algorithm kTable[] = {
    {.pattern = Pattern::barrier, .name = "dissemination", .build = barrier_dissemination},
    {.pattern = Pattern::barrier, .name = "dissemination_4", .build = barrier_dissemination_4},
    {.pattern = Pattern::barrier, .name = "two_level", .build = barrier_two_level, .spans = any_hosts},
    {.pattern = Pattern::bcast, .name = "binomial", .build = bcast_binomial},
    {.pattern = Pattern::bcast, .name = "scatter_allgather", .build = bcast_scatter_allgather},
    {.pattern = Pattern::bcast, .name = "chain", .build = bcast_chain, .segmented = true, .goes_by_hosts = true},
    {.pattern = Pattern::bcast, .name = "binary_tree", .build = bcast_binary_tree, .segmented = true},
    {.pattern = Pattern::bcast, .name = "knomial_4", .build = bcast_knomial_4},
    {.pattern = Pattern::bcast, .name = "double_tree", .build = bcast_double_tree, .segmented = true},
    {.pattern = Pattern::bcast, .name = "two_level", .build = bcast_two_level, .spans = any_hosts},
    {.pattern = Pattern::bcast, .name = "two_level_pipeline", .build = bcast_two_level_pipeline, .segmented = true, .spans = any_hosts},
    {.pattern = Pattern::gather, .name = "linear", .build = gather_linear, .uneven = true},
    {.pattern = Pattern::gather, .name = "binomial", .build = gather_binomial},
    {.pattern = Pattern::gather, .name = "two_level", .build = gather_two_level, .spans = any_hosts},
    {.pattern = Pattern::scatter, .name = "linear", .build = scatter_linear, .uneven = true},
    {.pattern = Pattern::scatter, .name = "binomial", .build = scatter_binomial},
    {.pattern = Pattern::scatter, .name = "two_level", .build = scatter_two_level, .spans = any_hosts},
    {.pattern = Pattern::allgather, .name = "ring", .build = allgather_ring, .uneven = true, .goes_by_hosts = true},
    {.pattern = Pattern::allgather, .name = "recursive_doubling", .build = allgather_recursive_doubling, .fits = power_of_two},
    {.pattern = Pattern::allgather, .name = "bruck", .build = allgather_bruck, .uneven = true},
    {.pattern = Pattern::allgather, .name = "neighbor_exchange", .build = allgather_neighbor_exchange, .fits = even},
    {.pattern = Pattern::allgather, .name = "pat", .build = allgather_pat},
    {.pattern = Pattern::allgather, .name = "two_level", .build = allgather_two_level, .spans = equal_blocks},
    {.pattern = Pattern::alltoall, .name = "linear", .build = alltoall_linear, .uneven = true},
    {.pattern = Pattern::alltoall, .name = "pairwise", .build = alltoall_pairwise, .uneven = true},
    {.pattern = Pattern::alltoall, .name = "bruck", .build = alltoall_bruck},
    {.pattern = Pattern::alltoall, .name = "many_leaders", .build = alltoall_many_leaders, .spans = equal_blocks},
    {.pattern = Pattern::reduce, .name = "binomial", .build = reduce_binomial, .order = Order::binomial},
    {.pattern = Pattern::reduce, .name = "rabenseifner", .build = reduce_rabenseifner, .order = Order::folded},
    {.pattern = Pattern::reduce, .name = "knomial_4", .build = reduce_knomial_4},
    {.pattern = Pattern::reduce, .name = "double_tree", .build = reduce_double_tree, .segmented = true, .commutative = true},
    {.pattern = Pattern::reduce, .name = "two_level", .build = reduce_two_level, .spans = any_hosts},
    {.pattern = Pattern::reduce, .name = "many_leaders", .build = reduce_many_leaders, .commutative = true, .spans = hosts_alike},
    {.pattern = Pattern::allreduce, .name = "recursive_doubling", .build = allreduce_recursive_doubling, .order = Order::folded},
    {.pattern = Pattern::allreduce, .name = "rabenseifner", .build = allreduce_rabenseifner, .order = Order::folded},
    {.pattern = Pattern::allreduce, .name = "ring", .build = allreduce_ring, .commutative = true, .goes_by_hosts = true},
    {.pattern = Pattern::allreduce, .name = "double_tree", .build = allreduce_double_tree, .segmented = true, .commutative = true},
    {.pattern = Pattern::allreduce, .name = "swing", .build = allreduce_swing, .commutative = true},
    {.pattern = Pattern::allreduce, .name = "two_level", .build = allreduce_two_level, .spans = any_hosts},
    {.pattern = Pattern::allreduce, .name = "many_leaders", .build = allreduce_many_leaders, .commutative = true, .spans = hosts_alike},
    {.pattern = Pattern::reduce_scatter, .name = "pairwise", .build = reduce_scatter_pairwise, .uneven = true},
    {.pattern = Pattern::reduce_scatter,
     .name = "recursive_halving",
     .build = reduce_scatter_recursive_halving,
     .uneven = true,
     .commutative = true},
    {.pattern = Pattern::reduce_scatter, .name = "pat", .build = reduce_scatter_pat, .commutative = true},
    {.pattern = Pattern::reduce_scatter,
     .name = "many_leaders",
     .build = reduce_scatter_many_leaders,
     .commutative = true,
     .spans = equal_blocks},
    {.pattern = Pattern::scan, .name = "doubling", .build = scan_doubling},
    {.pattern = Pattern::scan, .name = "chain", .build = scan_chain, .segmented = true},
    {.pattern = Pattern::exscan, .name = "doubling", .build = exscan_doubling},
    {.pattern = Pattern::exscan, .name = "chain", .build = exscan_chain, .segmented = true},
    {.pattern = Pattern::neighbor_allgather, .name = "linear", .build = neighbor_allgather_linear, .uneven = true},
    {.pattern = Pattern::neighbor_alltoall, .name = "linear", .build = neighbor_alltoall_linear, .uneven = true},
};

}  // namespace

std::span<const Algorithm> algorithms() { return kTable; }

const Algorithm* find_algorithm(Pattern pattern, std::string_view name) {
  for (const Algorithm& a : kTable) {
    if (a.pattern == pattern && name == a.name) return &a;
  }
  return nullptr;
}

const char* to_string(Pattern pattern) {
  static constexpr const char* names[kPatterns] = {
      "barrier",   "bcast",          "gather", "scatter", "allgather",          "alltoall",          "reduce",
      "allreduce", "reduce_scatter", "scan",   "exscan",  "neighbor_allgather", "neighbor_alltoall",
  };
  return names[static_cast<int>(pattern)];
}

}  // namespace weft::coll
