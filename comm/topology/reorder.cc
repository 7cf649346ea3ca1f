#include "comm/topology/reorder.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace weft::comm {

Traffic::Traffic(int32_t vertices, std::span<const Edge> edges) : first_(static_cast<size_t>(vertices) + 1) {
  std::vector<std::tuple<int32_t, int32_t, int64_t>> both;
  for (const Edge& e : edges) {
    if (e.source == e.destination) continue;
    both.emplace_back(e.source, e.destination, e.weight);
    both.emplace_back(e.destination, e.source, e.weight);
  }
  std::ranges::sort(both);
  const std::tuple<int32_t, int32_t, int64_t>* last = nullptr;
  for (const auto& edge : both) {
    const auto [from, to, weight] = edge;
    if (last && std::get<0>(*last) == from && std::get<1>(*last) == to) {
      neighbors_.back().weight += weight;
    } else {
      neighbors_.push_back({to, weight});
      ++first_[static_cast<size_t>(from) + 1];
    }
    last = &edge;
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
}

Traffic Traffic::of(const Grid& grid) {
  std::vector<Edge> edges;
  Grid at = grid;
  for (int rank = 0; rank < grid.size(); ++rank) {
    at.coords = grid.coords_of(rank);
    for (int d = 0; d < grid.ndims(); ++d)
      if (const int next = at.shifted(d, 1); next != MPI_PROC_NULL) edges.push_back({rank, next, 1});
  }
  return {grid.size(), edges};
}

Traffic Traffic::of(const Graph& graph) {
  std::vector<Edge> edges;
  const auto nodes = static_cast<int32_t>(graph.index.size());
  for (int32_t node = 0; node < nodes; ++node)
    for (const int other : graph.neighbors(node)) edges.push_back({node, other, 1});
  return {nodes, edges};
}

Numbering identity(int32_t vertices) {
  Numbering numbering(static_cast<size_t>(vertices));
  std::iota(numbering.begin(), numbering.end(), 0);
  return numbering;
}

int64_t cost(const Traffic& traffic, const Placement& placement, const Numbering& rank_of) {
  int64_t sum = 0;
  for (int32_t v = 0; v < traffic.vertices(); ++v)
    for (const auto& [u, weight] : traffic.of(v))
      if (u > v) sum += weight * placement.distance(rank_of[static_cast<size_t>(v)], rank_of[static_cast<size_t>(u)]);
  return sum;
}

namespace {

using List = std::vector<int32_t>;

/// The ranks by their group on a level, groups in the order of their first ranks.
std::vector<List> groups_of(const Placement& placement, size_t level, const List& ranks) {
  std::vector<List> groups;
  std::map<int32_t, size_t> number;
  for (const int32_t rank : ranks) {
    const auto at = number.try_emplace(placement.levels()[level].group[static_cast<size_t>(rank)], groups.size()).first->second;
    if (at == groups.size()) groups.emplace_back();
    groups[at].push_back(rank);
  }
  return groups;
}

/// Cuts a grid into equal blocks, one a group of ranks, from the outermost level in.
class Blocks {
 public:
  Blocks(const Grid& grid, const Placement& placement) : grid_(grid), placement_(placement), result_(static_cast<size_t>(grid.size())) {}

  Numbering run() {
    place(0, {std::vector<int>(grid_.dims.size(), 0), grid_.dims}, identity(grid_.size()));
    return std::move(result_);
  }

 private:
  struct Box {
    std::vector<int> low, extent;
  };

  void place(size_t level, const Box& box, const List& ranks) {
    if (level == placement_.levels().size()) return fill(box, ranks);
    const std::vector<List> groups = groups_of(placement_, level, ranks);
    if (groups.size() == 1) return place(level + 1, box, ranks);
    const auto capacity = groups[0].size();
    const bool equal = std::ranges::all_of(groups, [&](const List& g) { return g.size() == capacity; });
    best_.clear();
    std::vector<int> block(box.extent.size(), 1);
    if (equal) choose(box, static_cast<int>(capacity), 0, block);
    if (best_.empty()) return fill(box, ranks);
    const std::vector<int> shape = best_;
    Grid coarse{box.extent, {}};
    for (size_t d = 0; d < shape.size(); ++d) coarse.dims[d] /= shape[d];
    for (size_t g = 0; g < groups.size(); ++g) {
      Box part{coarse.coords_of(static_cast<int>(g)), shape};
      for (size_t d = 0; d < shape.size(); ++d) part.low[d] = box.low[d] + part.low[d] * shape[d];
      place(level + 1, part, groups[g]);
    }
  }

  /// The edges that are cut where a box is made of such blocks.
  int64_t cuts(const Box& box, const std::vector<int>& block) const {
    int64_t volume = 1, sum = 0;
    for (const int extent : box.extent) volume *= extent;
    for (size_t d = 0; d < block.size(); ++d) {
      const int blocks = box.extent[d] / block[d];
      const bool around = blocks > 1 && grid_.periods[d] && box.extent[d] == grid_.dims[d];
      sum += (blocks - 1 + around) * (volume / box.extent[d]);
    }
    return sum;
  }

  /// The block, out of which the box can be built, that cuts the fewest edges; `left`: how many cells dimensions from `d` on must make up.
  void choose(const Box& box, int left, size_t d, std::vector<int>& block) {
    if (d == block.size()) {
      if (left != 1) return;
      const int64_t now = cuts(box, block);
      if (best_.empty() || now < fewest_cuts_) {
        best_ = block;
        fewest_cuts_ = now;
      }
      return;
    }
    for (int extent = std::min(left, box.extent[d]); extent > 0; --extent) {
      if (left % extent || box.extent[d] % extent) continue;
      block[d] = extent;
      choose(box, left / extent, d + 1, block);
    }
  }

  /// In order, by groups of the levels that are left.
  void fill(const Box& box, const List& ranks) {
    const Grid cells{box.extent, {}};
    for (size_t i = 0; i < ranks.size(); ++i) {
      std::vector<int> at = cells.coords_of(static_cast<int>(i));
      for (size_t d = 0; d < at.size(); ++d) at[d] += box.low[d];
      result_[static_cast<size_t>(grid_.rank_at(at))] = ranks[i];
    }
  }

  const Grid& grid_;
  const Placement& placement_;
  Numbering result_;
  std::vector<int> best_;
  int64_t fewest_cuts_ = 0;
};

/// Fills group after group with vertices that hang together most, from the outermost level in.
class Growth {
 public:
  Growth(const Traffic& traffic, const Placement& placement)
      : traffic_(traffic),
        placement_(placement),
        part_(static_cast<size_t>(traffic.vertices()), -1),
        inside_(part_.size()),
        outside_(part_.size()),
        result_(part_.size()) {}

  Numbering run() {
    place(0, identity(traffic_.vertices()), identity(traffic_.vertices()));
    return std::move(result_);
  }

 private:
  /// Where parts begin: at what hangs on least to what is left, so that no part leaves crumbs between itself and the next.
  using Rim = std::priority_queue<std::pair<int64_t, int32_t>, std::vector<std::pair<int64_t, int32_t>>, std::greater<>>;

  void place(size_t level, const List& vertices, const List& ranks) {
    if (level == placement_.levels().size() || vertices.size() == 1) {
      for (size_t i = 0; i < vertices.size(); ++i) result_[static_cast<size_t>(vertices[i])] = ranks[i];
      return;
    }
    const std::vector<List> groups = groups_of(placement_, level, ranks);
    if (groups.size() == 1) return place(level + 1, vertices, ranks);
    const int32_t set = next_part_++;
    for (const int32_t v : vertices) part_[static_cast<size_t>(v)] = set;
    for (const int32_t v : vertices) outside_[static_cast<size_t>(v)] = weight_to(v, set);
    Rim rim;
    for (const int32_t v : vertices) rim.emplace(outside_[static_cast<size_t>(v)], v);
    std::vector<List> parts;
    for (const List& group : groups) parts.push_back(grow(rim, set, group.size()));
    for (size_t g = 0; g < groups.size(); ++g) place(level + 1, parts[g], groups[g]);
  }

  int64_t weight_to(int32_t vertex, int32_t part) const {
    int64_t sum = 0;
    for (const auto& [u, weight] : traffic_.of(vertex))
      if (part_[static_cast<size_t>(u)] == part) sum += weight;
    return sum;
  }

  /// Takes `size` vertices out of those that still belong to `set`: those that the part gains most by, then those that cut least, then
  /// those of the smallest number.
  List grow(Rim& rim, int32_t set, size_t size) {
    const int32_t part = next_part_++;
    std::priority_queue<std::tuple<int64_t, int64_t, int32_t>> offers;
    List taken, touched;
    while (taken.size() < size) {
      int32_t v = -1;
      while (v < 0 && !offers.empty()) {
        const auto [inside, cut, minus] = offers.top();
        offers.pop();
        const auto u = static_cast<size_t>(-minus);
        if (part_[u] == set && inside == inside_[u] && -cut == outside_[u]) v = -minus;  // others are out of date
      }
      while (v < 0) {
        const auto [outside, u] = rim.top();
        rim.pop();
        if (part_[static_cast<size_t>(u)] == set && outside == outside_[static_cast<size_t>(u)]) v = u;
      }
      part_[static_cast<size_t>(v)] = part;
      taken.push_back(v);
      for (const auto& [neighbor, weight] : traffic_.of(v)) {
        const auto u = static_cast<size_t>(neighbor);
        if (part_[u] != set) continue;
        if (inside_[u] == 0) touched.push_back(neighbor);
        inside_[u] += weight;
        outside_[u] -= weight;
        offers.emplace(inside_[u], -outside_[u], -neighbor);
        rim.emplace(outside_[u], neighbor);
      }
    }
    for (const int32_t u : touched) inside_[static_cast<size_t>(u)] = 0;
    std::ranges::sort(taken);
    return taken;
  }

  const Traffic& traffic_;
  const Placement& placement_;
  List part_;                              ///< which set or part a vertex belongs to
  std::vector<int64_t> inside_, outside_;  ///< of a vertex not taken yet: its weight to the part that grows, to what is left
  int32_t next_part_ = 0;
  Numbering result_;
};

/// Swaps vertices as long as that makes the whole cheaper: those with a far neighbour move next to it.
class Swaps {
 public:
  Swaps(const Traffic& traffic, const Placement& placement, Numbering& rank_of)
      : traffic_(traffic), placement_(placement), rank_of_(rank_of), vertex_of_(rank_of.size()) {
    for (size_t v = 0; v < rank_of.size(); ++v) vertex_of_[static_cast<size_t>(rank_of[v])] = static_cast<int32_t>(v);
    for (const Placement::Level& level : placement.levels()) {
      std::vector<List>& groups = members_.emplace_back();
      for (size_t r = 0; r < rank_of.size(); ++r) {
        const auto group = static_cast<size_t>(level.group[r]);
        if (group >= groups.size()) groups.resize(group + 1);
        groups[group].push_back(static_cast<int32_t>(r));
      }
    }
  }

  void run() {
    constexpr int kPasses = 8;
    constexpr int64_t kEffort = 30'000'000;  // looked-at neighbours: some tenths of a second
    bool better = true;
    for (int pass = 0; better && pass < kPasses; ++pass) {
      better = false;
      for (int32_t v = 0; v < traffic_.vertices(); ++v) {
        if (effort_ > kEffort) return;
        better |= improve(v);
      }
    }
  }

 private:
  int64_t pull(int32_t vertex, int32_t rank, int32_t but) {
    int64_t sum = 0;
    for (const auto& [u, weight] : traffic_.of(vertex)) {
      ++effort_;
      if (u != but) sum += weight * placement_.distance(rank, rank_of_[static_cast<size_t>(u)]);
    }
    return sum;
  }

  /// What swapping two vertices saves.
  int64_t gain(int32_t a, int32_t b) {
    const int32_t at_a = rank_of_[static_cast<size_t>(a)], at_b = rank_of_[static_cast<size_t>(b)];
    return pull(a, at_a, b) + pull(b, at_b, a) - pull(a, at_b, b) - pull(b, at_a, a);
  }

  bool improve(int32_t v) {
    int32_t best = -1;
    int64_t most = 0;
    for (const auto& [u, weight] : traffic_.of(v)) {
      for (const int32_t rank : around(rank_of_[static_cast<size_t>(v)], rank_of_[static_cast<size_t>(u)])) {
        const int32_t other = vertex_of_[static_cast<size_t>(rank)];
        if (const int64_t saved = gain(v, other); saved > most) {
          most = saved;
          best = other;
        }
      }
    }
    if (best < 0) return false;
    std::swap(rank_of_[static_cast<size_t>(v)], rank_of_[static_cast<size_t>(best)]);
    vertex_of_[static_cast<size_t>(rank_of_[static_cast<size_t>(v)])] = v;
    vertex_of_[static_cast<size_t>(rank_of_[static_cast<size_t>(best)])] = best;
    return true;
  }

  /// The ranks that are together with `there` on the outermost level that parts it from `here`; nobody if none does.
  const List& around(int32_t here, int32_t there) const {
    static const List nobody;
    const auto& levels = placement_.levels();
    for (size_t l = 0; l < levels.size(); ++l)
      if (levels[l].group[static_cast<size_t>(here)] != levels[l].group[static_cast<size_t>(there)])
        return members_[l][static_cast<size_t>(levels[l].group[static_cast<size_t>(there)])];
    return nobody;
  }

  const Traffic& traffic_;
  const Placement& placement_;
  Numbering& rank_of_;
  List vertex_of_;
  std::vector<std::vector<List>> members_;  ///< by level and group
  int64_t effort_ = 0;
};

}  // namespace

Numbering arrange(const Traffic& traffic, const Placement& placement, const Grid* grid) {
  Numbering best = identity(traffic.vertices());
  if (placement.levels().empty()) return best;
  int64_t least = cost(traffic, placement, best);
  if (least == 0) return best;
  std::vector<Numbering> candidates{best};
  if (grid) candidates.push_back(Blocks(*grid, placement).run());
  candidates.push_back(Growth(traffic, placement).run());
  for (Numbering& candidate : candidates) {
    Swaps(traffic, placement, candidate).run();
    const int64_t price = cost(traffic, placement, candidate);
    if (price >= least) continue;
    least = price;
    best = std::move(candidate);
  }
  return best;
}

}  // namespace weft::comm
