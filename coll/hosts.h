// Which ranks of a team share a host: what algorithms of two levels go by.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coll/schedule.h"

namespace weft::coll {

class Hosts {
 public:
  /// `host_of`: by rank, any numbers that are equal where the host is.
  explicit Hosts(std::span<const int32_t> host_of);

  int32_t count() const { return static_cast<int32_t>(ranks_.size()); }
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

 private:
  std::vector<int32_t> host_;
  std::vector<Rank> seat_;
  std::vector<std::vector<Rank>> ranks_;
  bool in_blocks_ = true, alike_ = true;
};

}  // namespace weft::coll
