#include "coll/shape.h"

#include <map>
#include <string>

namespace weft::coll {

Shape::Shape(int32_t ranks, int32_t hosts, int32_t ranks_per_cache) : leaf_(static_cast<size_t>(hosts), 0) {
  const int32_t each = ranks / hosts, longer = ranks % hosts;
  int32_t caches = 0;
  for (int32_t h = 0; h < hosts; ++h) {
    const int32_t here = each + (h < longer);
    for (int32_t i = 0; i < here; ++i) {
      caches += i == 0 || (ranks_per_cache > 0 && i % ranks_per_cache == 0);
      host_.push_back(h);
      cache_.push_back(caches - 1);
    }
  }
}

Shape Shape::blocks(int32_t ranks, int32_t hosts, int32_t hosts_per_leaf, int32_t ranks_per_cache) {
  Shape shape(ranks, hosts, ranks_per_cache);
  if (hosts_per_leaf <= 0) return shape;
  for (int32_t h = 0; h < hosts; ++h) shape.leaf_[static_cast<size_t>(h)] = h / hosts_per_leaf;
  shape.leaves_ = shape.leaf_.back() + 1;
  return shape;
}

Shape Shape::of(const Hosts& hosts) {
  int32_t ranks = 0;
  for (int32_t h = 0; h < hosts.count(); ++h) ranks += static_cast<int32_t>(hosts.on(h).size());
  Shape shape(ranks, hosts.in_memory() ? hosts.count() : ranks, 0);
  const Hosts* const switches = hosts.in_memory() ? hosts.switches() : &hosts;
  for (Rank r = 0; r < ranks; ++r)
    shape.host_[static_cast<size_t>(r)] = shape.cache_[static_cast<size_t>(r)] = hosts.in_memory() ? hosts.of(r) : r;
  for (int32_t h = 0; switches && h < shape.hosts(); ++h) shape.leaf_[static_cast<size_t>(h)] = switches->of(h);
  if (switches) shape.leaves_ = switches->count();
  return shape;
}

std::unique_ptr<const Hosts> Shape::levels() const {
  std::vector<std::vector<int32_t>> groups = {host_, {}};
  for (Rank r = 0; r < ranks(); ++r) groups[1].push_back(leaf(r));
  return Hosts::of(groups);
}

Result<Shape> Shape::on(const topo::Network& network, int32_t ranks, int32_t hosts, int32_t ranks_per_cache) {
  const auto names = network.hosts(static_cast<size_t>(hosts));
  if (names.size() < static_cast<size_t>(hosts))
    return Failure{"the file names " + std::to_string(names.size()) + " hosts, fewer than " + std::to_string(hosts)};
  Shape shape(ranks, hosts, ranks_per_cache);
  std::map<std::string, int32_t> leaves;
  for (size_t h = 0; h < names.size(); ++h) {
    const auto above = network.above(names[h]);
    if (!above) return above.failure();
    shape.leaf_[h] = leaves.try_emplace(above->front(), static_cast<int32_t>(leaves.size())).first->second;
  }
  shape.leaves_ = static_cast<int32_t>(leaves.size());
  return shape;
}

}  // namespace weft::coll
