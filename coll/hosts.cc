#include "coll/hosts.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace weft::coll {

Hosts::Hosts(std::span<const int32_t> host_of) {
  std::unordered_map<int32_t, int32_t> numbers;
  for (size_t r = 0; r < host_of.size(); ++r) {
    const int32_t host = numbers.try_emplace(host_of[r], static_cast<int32_t>(numbers.size())).first->second;
    if (host == count()) ranks_.emplace_back();
    std::vector<Rank>& here = ranks_[static_cast<size_t>(host)];
    in_blocks_ = in_blocks_ && (here.empty() || here.back() == static_cast<Rank>(r) - 1);
    host_.push_back(host);
    seat_.push_back(static_cast<Rank>(here.size()));
    here.push_back(static_cast<Rank>(r));
  }
  for (const std::vector<Rank>& ranks : ranks_) alike_ = alike_ && ranks.size() == ranks_.front().size();
}

namespace {

/// The levels above the groups: what their first members say.
std::vector<std::vector<int32_t>> levels_of_groups(const Hosts& groups, std::span<const std::vector<int32_t>> levels) {
  std::vector<std::vector<int32_t>> above;
  for (const std::vector<int32_t>& level : levels) {
    std::vector<int32_t>& of_groups = above.emplace_back();
    for (int32_t g = 0; g < groups.count(); ++g) of_groups.push_back(level[static_cast<size_t>(groups.on(g).front())]);
  }
  return above;
}

}  // namespace

std::unique_ptr<const Hosts> Hosts::of(std::span<const std::vector<int32_t>> groups, bool first_are_hosts) {
  for (size_t level = 0; level < groups.size(); ++level) {
    auto hosts = std::make_unique<Hosts>(groups[level]);
    if (hosts->count() < 2) return nullptr;
    if (!hosts->two_levels()) continue;
    hosts->in_memory_ = first_are_hosts && level == 0;
    hosts->switches_ = of(levels_of_groups(*hosts, groups.subspan(level + 1)), false);
    return hosts;
  }
  return nullptr;
}

std::vector<Rank> tour(const Hosts* groups, int32_t size, Rank first) {
  std::vector<Rank> order;
  if (!groups) {
    for (Rank r = 0; r < size; ++r) order.push_back(wrap(int64_t{first} + r, size));
    return order;
  }
  for (const int32_t group : tour(groups->switches(), groups->count(), groups->of(first))) {
    std::vector<Rank> members = groups->on(group);
    if (group == groups->of(first)) std::ranges::rotate(members, members.begin() + groups->seat(first));
    order.insert(order.end(), members.begin(), members.end());
  }
  return order;
}

}  // namespace weft::coll
