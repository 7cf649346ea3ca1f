// Which rank should stand for which vertex of a virtual topology, so that neighbours are close to each other. Pure functions, with the
// same result in all processes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/topology/placement.h"
#include "comm/topology/topology.h"

namespace weft::comm {

/// The traffic of a virtual topology: neighbours of each vertex with the weight of both directions together. No loops, no double edges.
class Traffic {
 public:
  Traffic(int32_t vertices, std::span<const Edge>);
  static Traffic of(const Grid&);
  static Traffic of(const Graph&);

  struct Neighbor {
    int32_t vertex;
    int64_t weight;
  };
  int32_t vertices() const { return static_cast<int32_t>(first_.size()) - 1; }
  std::span<const Neighbor> of(int32_t vertex) const {
    const auto v = static_cast<size_t>(vertex);
    return {neighbors_.data() + first_[v], first_[v + 1] - first_[v]};
  }

 private:
  std::vector<size_t> first_;
  std::vector<Neighbor> neighbors_;
};

/// By vertex, the rank (in the old communicator) that stands for it.
using Numbering = std::vector<int32_t>;
Numbering identity(int32_t vertices);

/// The weights of all edges times the distances that they bridge.
int64_t cost(const Traffic&, const Placement&, const Numbering&);

/// The cheapest numbering found: the identity if nothing cheaper is. `grid`: the traffic is that of a grid, which is cut into blocks.
Numbering arrange(const Traffic&, const Placement&, const Grid* grid = nullptr);

}  // namespace weft::comm
