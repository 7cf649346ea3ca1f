// Whom a rank exchanges blocks with in neighbourhood collectives (MPI 5.0, 8.6). Part of a team for as long as it lives.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::coll {

struct Neighborhood {
  /// By block; a negative rank (MPI_PROC_NULL) is nobody: its block is neither sent nor written.
  std::vector<int32_t> sources, destinations;
  /// How messages between the same two ranks match. No: the k-th block to a rank is the k-th block from there. Yes, on grids, where
  /// blocks 2d and 2d+1 belong to the neighbours below and above in dimension d: what goes to the one below arrives there as
  /// coming from above, even if both are the same rank.
  bool crossed = false;
};

}  // namespace weft::coll
