// Where ranks are, as far as the cost of collectives depends on it: hosts, caches, switches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "coll/hosts.h"
#include "coll/machine.h"
#include "coll/schedule.h"
#include "runtime/base/status.h"
#include "runtime/topo/network.h"

namespace weft::coll {

class Shape {
 public:
  /// Ranks one after the other on `hosts` hosts, as evenly as they go (the first ones have one more), hosts in the same way behind switches
  /// of `hosts_per_leaf` (0: one switch for all); `ranks_per_cache` adjacent ranks of a host share a cache (0: all of them). At least one
  /// rank a host: 1 <= hosts <= ranks.
  static Shape blocks(int32_t ranks, int32_t hosts, int32_t hosts_per_leaf = 0, int32_t ranks_per_cache = 0);

  /// Ranks where these are, hosts below the switches that it knows; ranks of a host below one cache.
  static Shape of(const Hosts&);

  /// Ranks as in blocks() on the first hosts that a network's file names, in its order. Fails if it names fewer, or contradicts itself.
  static Result<Shape> on(const topo::Network&, int32_t ranks, int32_t hosts, int32_t ranks_per_cache = 0);

  int32_t ranks() const { return static_cast<int32_t>(host_.size()); }
  int32_t hosts() const { return static_cast<int32_t>(leaf_.size()); }
  int32_t leaves() const { return leaves_; }
  int32_t host(Rank r) const { return host_[static_cast<size_t>(r)]; }
  const std::vector<int32_t>& host_of_ranks() const { return host_; }
  const std::vector<int32_t>& leaf_of_hosts() const { return leaf_; }
  /// What algorithms go by.
  std::unique_ptr<const Hosts> levels() const;
  int32_t leaf(Rank r) const { return leaf_[static_cast<size_t>(host(r))]; }

  Level level(Rank a, Rank b) const {
    if (cache_[static_cast<size_t>(a)] == cache_[static_cast<size_t>(b)]) return Level::cache;
    if (host(a) == host(b)) return Level::host;
    return leaf(a) == leaf(b) ? Level::leaf : Level::far;
  }

 private:
  Shape(int32_t ranks, int32_t hosts, int32_t ranks_per_cache);

  std::vector<int32_t> host_, cache_;  // by rank
  std::vector<int32_t> leaf_;          // by host
  int32_t leaves_ = 1;
};

}  // namespace weft::coll
