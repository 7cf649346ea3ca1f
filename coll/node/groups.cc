#include "coll/node/groups.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "runtime/topo/node.h"

namespace weft::coll::node {
namespace {

using Ranks = std::vector<int32_t>;

/// What groups keep to, besides caches.
enum class Border { numa, package, none };

bool together(const Spot& a, const Spot& b, Border border) {
  return border == Border::none || (a.package == b.package && (border == Border::package || a.numa == b.numa));
}

/// The ranks in the same spot, neighbouring spots one after another.
std::vector<Ranks> by_spot(std::span<const Spot> spots) {
  const auto key = [&](int32_t r) {
    const Spot& s = spots[static_cast<size_t>(r)];
    return std::tuple(s.package, s.numa, s.cache, r);
  };
  Ranks order(spots.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, key);
  std::vector<Ranks> result;
  for (const int32_t r : order) {
    if (result.empty() || spots[static_cast<size_t>(result.back().front())] != spots[static_cast<size_t>(r)]) result.emplace_back();
    result.back().push_back(r);
  }
  return result;
}

std::vector<Ranks> grouped(std::span<const Spot> spots, const std::vector<Ranks>& units, size_t most, Border border) {
  std::vector<Ranks> groups;
  const auto joins = [&](const Ranks& unit) {
    return !groups.empty() && groups.back().size() + unit.size() <= most &&
           together(spots[static_cast<size_t>(groups.back().front())], spots[static_cast<size_t>(unit.front())], border);
  };
  for (const Ranks& unit : units) {
    if (joins(unit)) {
      groups.back().insert(groups.back().end(), unit.begin(), unit.end());
      continue;
    }
    const size_t parts = (unit.size() + most - 1) / most;
    for (size_t i = 0; i < parts; ++i)
      groups.emplace_back(unit.begin() + static_cast<long>(unit.size() * i / parts),
                          unit.begin() + static_cast<long>(unit.size() * (i + 1) / parts));
  }
  return groups;
}

}  // namespace

Spot own_spot(const boot::Job& job) {
  const auto node = topo::Node::parse(job.topology);
  if (!node) return {};
  const topo::CpuSet bound = topo::CpuSet::of_this_thread();
  return {node->instance_around("Package", bound), node->instance_around("NUMANode", bound), node->instance_around("L3Cache", bound)};
}

std::vector<int32_t> group_ranks(std::span<const Spot> spots, uint32_t most) {
  const std::vector<Ranks> units = by_spot(spots);
  const size_t few = 2 * ((spots.size() + most - 1) / most);
  std::vector<Ranks> groups = grouped(spots, units, most, Border::numa);
  for (const Border border : {Border::package, Border::none})
    if (groups.size() > few) groups = grouped(spots, units, most, border);
  std::vector<int32_t> result(spots.size());
  for (const Ranks& group : groups)
    for (const int32_t r : group) result[static_cast<size_t>(r)] = std::ranges::min(group);
  return result;
}

}  // namespace weft::coll::node
