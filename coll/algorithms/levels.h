// The two levels that ranks of several hosts meet on: within hosts, where messages go through memory, and between them, where few should
// go.
#pragma once

#include <cstdint>
#include <vector>

#include "coll/hosts.h"

namespace weft::coll {

/// The ranks that a rank meets.
struct Levels {
  const Hosts& hosts;
  std::vector<Rank> here;     ///< of its host, ascending
  std::vector<Rank> leaders;  ///< by host: its first rank, or the root
  Rank seat = 0, leader = 0;  ///< its own place among `here`, the leader's
  int32_t host = 0;           ///< its own host
  bool leads = false;

  /// `root`: of the operation; -1: none.
  Levels(const Hosts& h, Rank me, Rank root);
  int32_t ranks_here() const { return static_cast<int32_t>(here.size()); }
  /// By host: the rank that sits where this one does. Only where hosts are alike.
  std::vector<Rank> peers() const;
};

}  // namespace weft::coll
