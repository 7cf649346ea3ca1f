#include <algorithm>

#include "coll/algorithms/algorithms.h"
#include "coll/neighborhood.h"

namespace weft::coll {

namespace {

/// All messages at once; blocks from and to this rank itself are copied. `same`: every neighbour gets block 0.
Schedule exchange(const Neighborhood& n, Rank me, bool same) {
  Builder b(static_cast<int32_t>(std::max<size_t>({1, n.sources.size(), n.destinations.size()})));
  std::vector<int32_t> own;  // blocks that come from this rank, as they match
  for (int32_t i = 0; i < static_cast<int32_t>(n.sources.size()); ++i) {
    const int32_t block = n.crossed ? i ^ 1 : i;
    const Rank source = n.sources[static_cast<size_t>(block)];
    if (source == me) {
      own.push_back(block);
    } else {
      b.receive(source, {buffer_out, block});
    }
  }
  auto next_own = own.begin();
  for (int32_t i = 0; i < static_cast<int32_t>(n.destinations.size()); ++i) {
    const Rank destination = n.destinations[static_cast<size_t>(i)];
    const Place from{buffer_in, same ? 0 : i};
    if (destination != me) {
      b.send(destination, from);
    } else if (next_own != own.end()) {
      b.copy(from, {buffer_out, *next_own++});
    }
  }
  return b.done();
}

}  // namespace

Schedule neighbor_allgather_linear(const Topology& t, Rank me, int32_t, const Parameters&) { return exchange(*t.neighborhood, me, true); }

Schedule neighbor_alltoall_linear(const Topology& t, Rank me, int32_t, const Parameters&) { return exchange(*t.neighborhood, me, false); }

}  // namespace weft::coll
