// Which ranks of a node meet among themselves before their leaders do: neighbours by the hardware, so that most lines stay in their cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/boot/boot.h"

namespace weft::coll::node {

/// Where a rank runs: which instance of each level of its node it is bound to, from the outside in; -1: to none in particular.
struct Spot {
  int32_t package = -1, numa = -1, cache = -1;
  bool operator==(const Spot&) const = default;
};

/// That of the calling thread.
Spot own_spot(const boot::Job&);

/// By rank, the number of its group, which is its first rank. Groups have up to `most` ranks. One has those of whole caches, of one NUMA
/// node, as many as fit; those of a larger cache are cut into groups of nearly equal size. Where that makes small groups, that is more than
/// twice as many as there would be without borders, those of a package may meet, and then any. Ranks in the same spot, or in none that is
/// known, are taken in their order.
std::vector<int32_t> group_ranks(std::span<const Spot>, uint32_t most);

}  // namespace weft::coll::node
