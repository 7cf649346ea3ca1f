// Which ranks of a team share a host, and which hosts a switch: what algorithms of several levels go by.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "coll/schedule.h"

namespace weft::coll {

/// Groups of ranks: usually those of a host. Where switches are known, hosts themselves are grouped by these (switches()), and so on up.
class Hosts {
 public:
  /// `host_of`: by rank, any numbers that are equal where the host is.
  explicit Hosts(std::span<const int32_t> host_of);

  /// Levels of groups, from hosts to the switches nearest to them and on: `groups` has, for each level, a number for each rank. Ranks that
  /// share a group share those of the levels above it. Levels that tell nothing apart are left out. Null: there are no two levels.
  static std::unique_ptr<const Hosts> of(std::span<const std::vector<int32_t>> groups) { return of(groups, true); }

  int32_t count() const { return static_cast<int32_t>(ranks_.size()); }
  int32_t ranks() const { return static_cast<int32_t>(host_.size()); }
  /// The host of a rank. Hosts are numbered in the order of their first ranks.
  int32_t of(Rank r) const { return host_[static_cast<size_t>(r)]; }
  /// The ranks on a host, ascending. The first one is its leader.
  const std::vector<Rank>& on(int32_t host) const { return ranks_[static_cast<size_t>(host)]; }
  /// The place of a rank among those of its host.
  Rank seat(Rank r) const { return seat_[static_cast<size_t>(r)]; }
  /// Are there several hosts, and several ranks on one of them?
  bool two_levels() const { return count() > 1 && count() < static_cast<int32_t>(host_.size()); }
  /// Are the ranks of each host adjacent?
  bool in_blocks() const { return in_blocks_; }
  /// Has each host as many ranks?
  bool alike() const { return alike_; }

  /// Groups of hosts: those behind the same switch. Null: not known, or they have no two levels.
  const Hosts* switches() const { return switches_.get(); }
  /// Do ranks of a host share memory? Not where each rank has a host of its own, so that switches take the place of hosts.
  bool in_memory() const { return in_memory_; }

 private:
  static std::unique_ptr<const Hosts> of(std::span<const std::vector<int32_t>> groups, bool first_are_hosts);

  std::vector<int32_t> host_;
  std::vector<Rank> seat_;
  std::vector<std::vector<Rank>> ranks_;
  bool in_blocks_ = true, alike_ = true, in_memory_ = true;
  std::shared_ptr<const Hosts> switches_;
};

/// The members 0 to size - 1 in an order that begins with `first` and leaves each group, at each level, once only. Without groups (null):
/// ascending from `first` on, around the end.
std::vector<Rank> tour(const Hosts* groups, int32_t size, Rank first);
/// Where a member stands in such an order.
inline Rank place_in(const std::vector<Rank>& order, Rank member) {
  return static_cast<Rank>(std::ranges::find(order, member) - order.begin());
}

}  // namespace weft::coll
