// Which rail of one process talks to which of another, for transports with several rails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::btl {

/// A rail of the lower rank and one of the higher rank that can reach each other.
struct RailPair {
  int worth;  ///< how well; more is better
  size_t low, high;
};

/// The rail that `my_rail` talks to, -1 if none is left for it. Each rail has at most one partner, and pairs that stand first go
/// first. Both sides find the same if they give the same pairs in the same order. `lower`: this process has the lower rank.
inline int partner_in(const std::vector<RailPair>& pairs, size_t low_rails, size_t high_rails, bool lower, size_t my_rail) {
  std::vector<bool> low_taken(low_rails), high_taken(high_rails);
  for (const RailPair& p : pairs) {
    if (low_taken[p.low] || high_taken[p.high]) continue;
    low_taken[p.low] = high_taken[p.high] = true;
    if ((lower ? p.low : p.high) == my_rail) return int(lower ? p.high : p.low);
  }
  return -1;
}

}  // namespace weft::btl
