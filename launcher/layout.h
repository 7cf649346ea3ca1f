// Which rank is on which host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft::launcher {

/// Hosts are numbered as their daemons are: 0 is mpirun's own, with or without ranks.
class Layout {
 public:
  std::vector<std::string> hosts;
  std::vector<uint32_t> host_of;  ///< by rank
  uint32_t self = 0;

  Layout(std::vector<std::string> names, const std::vector<uint32_t>& places, uint32_t own) : hosts(std::move(names)), self(own) {
    extend(places);
  }

  /// More ranks, numbered on; their local ranks begin anew.
  void extend(const std::vector<uint32_t>& places) {
    std::vector<uint32_t> count(hosts.size());
    for (uint32_t host : places) {
      if (host == self) here_.push_back(uint32_t(host_of.size()));
      local_.push_back(count[host]++);
      host_of.push_back(host);
    }
  }
  /// `count` ranks from `first` on, as if there were no others.
  Layout part(uint32_t first, uint32_t count) const {
    return Layout(hosts, std::vector<uint32_t>(host_of.begin() + first, host_of.begin() + first + count), self);
  }

  const std::string& host() const { return hosts[self]; }
  bool alone() const { return hosts.size() == 1; }
  /// The ranks of this host.
  const std::vector<uint32_t>& here() const { return here_; }
  /// How many of the `count` ranks from `first` on are on this host.
  uint32_t here(uint32_t first, uint32_t count) const {
    return uint32_t(std::lower_bound(here_.begin(), here_.end(), first + count) - std::lower_bound(here_.begin(), here_.end(), first));
  }
  /// A rank's place among those of its namespace on its host.
  uint32_t local_rank(uint32_t rank) const { return local_[rank]; }
  /// All ranks of each host that has any, in the order of the hosts: (host, ranks).
  std::vector<std::pair<uint32_t, std::vector<uint32_t>>> by_host() const {
    std::vector<std::vector<uint32_t>> lists(hosts.size());
    for (uint32_t r = 0; r < host_of.size(); r++) lists[host_of[r]].push_back(r);
    std::vector<std::pair<uint32_t, std::vector<uint32_t>>> result;
    for (uint32_t h = 0; h < hosts.size(); h++)
      if (!lists[h].empty()) result.emplace_back(h, std::move(lists[h]));
    return result;
  }

 private:
  std::vector<uint32_t> local_, here_;  // in the order of the ranks
};

}  // namespace weft::launcher
