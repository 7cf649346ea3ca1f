#include "comm/topology/topology.h"

#include <algorithm>
#include <utility>

namespace weft::comm {

int Grid::size() const {
  int product = 1;
  for (const int extent : dims) product *= extent;
  return product;
}

std::vector<int> Grid::coords_of(int rank) const {
  std::vector<int> at(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    at[d] = rank % dims[d];
    rank /= dims[d];
  }
  return at;
}

int Grid::rank_at(std::span<const int> place) const {
  int rank = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    int at = place[d];
    if (at < 0 || at >= dims[d]) {
      if (!periods[d]) return MPI_PROC_NULL;
      at = (at % dims[d] + dims[d]) % dims[d];
    }
    rank = rank * dims[d] + at;
  }
  return rank;
}

int Grid::shifted(int dimension, int64_t displacement) const {
  const auto d = static_cast<size_t>(dimension);
  const int64_t at = coords[d] + displacement, extent = dims[d];
  if ((at < 0 || at >= extent) && !periods[d]) return MPI_PROC_NULL;
  std::vector<int> there = coords;
  there[d] = static_cast<int>((at % extent + extent) % extent);
  return rank_at(there);
}

bool Graph::symmetric() const {
  std::vector<std::pair<int, int>> there, back;
  for (int node = 0; node < static_cast<int>(index.size()); ++node) {
    for (const int other : neighbors(node)) {
      there.emplace_back(node, other);
      back.emplace_back(other, node);
    }
  }
  std::ranges::sort(there);
  std::ranges::sort(back);
  return there == back;
}

VirtualTopology::VirtualTopology(Grid grid) : shape(std::move(grid)) {
  const Grid& g = *this->grid();
  for (int d = 0; d < g.ndims(); ++d)
    for (const int displacement : {-1, 1}) neighborhood.sources.push_back(g.shifted(d, displacement));
  neighborhood.destinations = neighborhood.sources;
  neighborhood.crossed = true;
}

VirtualTopology::VirtualTopology(Graph graph, int rank) : shape(std::move(graph)) {
  const std::span<const int> neighbors = this->graph()->neighbors(rank);
  neighborhood.sources.assign(neighbors.begin(), neighbors.end());
  neighborhood.destinations = neighborhood.sources;
  mutual = this->graph()->symmetric();
}

VirtualTopology::VirtualTopology(Edges edges, coll::Neighborhood own) : shape(std::move(edges)), neighborhood(std::move(own)) {}

void attach_topology(Communicator& comm, std::shared_ptr<const VirtualTopology> topology) {
  comm.topology = std::move(topology);
  std::shared_ptr<const coll::Neighborhood> neighborhood;
  if (comm.topology->mutual) neighborhood = {comm.topology, &comm.topology->neighborhood};
  comm.coll = coll::attach(*comm.team, comm.instance->ledger(), std::move(neighborhood));
}

}  // namespace weft::comm
