// Communicators with a topology: who the members are and in which order, then the own part of the topology.
#include "comm/create.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/hints.h"
#include "comm/topology/reorder.h"
#include "comm/topology/topology.h"
#include "runtime/base/error.h"
#include "runtime/type/predefined.h"

namespace weft::comm {
namespace {

/// The own vertex, -1 if none.
int vertex_of(const Numbering& numbering, int rank) {
  const auto found = std::ranges::find(numbering, rank);
  return found == numbering.end() ? -1 : static_cast<int>(found - numbering.begin());
}

/// The communicator of those ranks, in that order.
int create_numbered(Communicator& comm, const Numbering& numbering, std::shared_ptr<const VirtualTopology> topology, Communicator** made) {
  std::vector<ProcessId> members;
  for (const int32_t rank : numbering) members.push_back(comm.team->members().at(static_cast<uint32_t>(rank)));
  Group* const group = make_group(*comm.instance, std::move(members));
  const int error = create(comm, *group, made);
  release(group);
  if (!error && *made) attach_topology(**made, std::move(topology));
  return error;
}

/// Which rank stands for which vertex: asks all ranks where they are if they may be reordered.
int number(Communicator& comm, const Traffic& traffic, const Grid* grid, Numbering& numbering) {
  std::vector<Place> places;
  if (const int error = gather_places(comm, traffic.vertices(), places)) return error;
  numbering = arrange(traffic, Placement(places), grid);
  return MPI_SUCCESS;
}

int number(Communicator& comm, const Grid& grid, bool reorder, Numbering& numbering) {
  if (reorder) return number(comm, Traffic::of(grid), &grid, numbering);
  numbering = identity(grid.size());
  return MPI_SUCCESS;
}

int number(Communicator& comm, const Graph& graph, bool reorder, Numbering& numbering) {
  if (reorder) return number(comm, Traffic::of(graph), nullptr, numbering);
  numbering = identity(static_cast<int32_t>(graph.index.size()));
  return MPI_SUCCESS;
}

/// Every rank gets the edges of all, in the order of the ranks.
int gather_edges(Communicator& comm, std::span<const Edge> mine, std::vector<Edge>& all) {
  const auto size = static_cast<size_t>(comm.size());
  const auto own = static_cast<int64_t>(mine.size_bytes());
  std::vector<int64_t> counts(size), places(size);
  coll::Call call;
  call.what = coll::Collective::allgather;
  call.in = &own;
  call.out = counts.data();
  call.in_count = call.out_count = sizeof own;
  call.in_type = call.out_type = &type::of(type::Basic::byte);
  if (const int error = coll::run(*comm.coll, call)) return error;
  std::exclusive_scan(counts.begin(), counts.end(), places.begin(), int64_t{0});
  all.resize(static_cast<size_t>(places.back() + counts.back()) / sizeof(Edge));
  call.what = coll::Collective::allgatherv;
  call.in = mine.data();
  call.in_count = static_cast<uint64_t>(own);
  call.out = all.data();
  call.out_counts = counts.data();
  call.out_displs = places.data();
  return coll::run(*comm.coll, call);
}

/// Every rank gets the edges that begin or end at it, in the order of the ranks that told them.
int deliver_edges(Communicator& comm, std::span<const Edge> told, std::vector<Edge>& own) {
  const auto size = static_cast<size_t>(comm.size());
  std::vector<std::vector<Edge>> for_rank(size);
  for (const Edge& e : told) {
    for_rank[static_cast<size_t>(e.source)].push_back(e);
    if (e.destination != e.source) for_rank[static_cast<size_t>(e.destination)].push_back(e);
  }
  std::vector<Edge> out;
  std::vector<int64_t> out_counts, in_counts(size), out_places(size), in_places(size);
  for (const auto& edges : for_rank) {
    out.insert(out.end(), edges.begin(), edges.end());
    out_counts.push_back(static_cast<int64_t>(edges.size() * sizeof(Edge)));
  }
  coll::Call call;
  call.what = coll::Collective::alltoall;
  call.in = out_counts.data();
  call.out = in_counts.data();
  call.in_count = call.out_count = sizeof(int64_t);
  call.in_type = call.out_type = &type::of(type::Basic::byte);
  if (const int error = coll::run(*comm.coll, call)) return error;
  std::exclusive_scan(out_counts.begin(), out_counts.end(), out_places.begin(), int64_t{0});
  std::exclusive_scan(in_counts.begin(), in_counts.end(), in_places.begin(), int64_t{0});
  own.resize(static_cast<size_t>(in_places.back() + in_counts.back()) / sizeof(Edge));
  call.what = coll::Collective::alltoallv;
  call.in = out.data();
  call.out = own.data();
  call.in_counts = out_counts.data();
  call.in_displs = out_places.data();
  call.out_counts = in_counts.data();
  call.out_displs = in_places.data();
  return coll::run(*comm.coll, call);
}

/// The part of a graph that belongs to one vertex; edges may stand in one list or two.
std::shared_ptr<const VirtualTopology> part_of(std::span<const Edge> incoming, std::span<const Edge> outgoing, int vertex, bool weighted) {
  coll::Neighborhood own;
  Edges shape{.weighted = weighted};
  for (const Edge& e : incoming) {
    if (e.destination != vertex) continue;
    own.sources.push_back(e.source);
    if (weighted) shape.source_weights.push_back(e.weight);
  }
  for (const Edge& e : outgoing) {
    if (e.source != vertex) continue;
    own.destinations.push_back(e.destination);
    if (weighted) shape.destination_weights.push_back(e.weight);
  }
  return std::make_shared<VirtualTopology>(std::move(shape), std::move(own));
}

int finish_distributed(Communicator& comm, const Numbering& numbering, std::shared_ptr<const VirtualTopology> topology, const Info* info,
                       Communicator** made) {
  const int error = create_numbered(comm, numbering, std::move(topology), made);
  if (!error) set_hints(**made, info);
  return error;
}

}  // namespace

int create_cartesian(Communicator& comm, const Grid& grid, bool reorder, Communicator** made) {
  Numbering numbering;
  if (const int error = number(comm, grid, reorder, numbering)) return error;
  std::shared_ptr<const VirtualTopology> topology;
  if (const int own = vertex_of(numbering, comm.rank()); own >= 0) {
    Grid mine = grid;
    mine.coords = grid.coords_of(own);
    topology = std::make_shared<VirtualTopology>(std::move(mine));
  }
  return create_numbered(comm, numbering, std::move(topology), made);
}

int sub_cartesian(Communicator& comm, std::span<const int> stays, Communicator** made) {
  const Grid& whole = *comm.topology->grid();
  Grid part;
  for (size_t d = 0; d < whole.dims.size(); ++d) {
    if (!stays[d]) continue;
    part.dims.push_back(whole.dims[d]);
    part.periods.push_back(whole.periods[d]);
    part.coords.push_back(whole.coords[d]);
  }
  Numbering numbering;
  for (int rank = 0; rank < part.size(); ++rank) {
    std::vector<int> at = whole.coords;
    const std::vector<int> within = part.coords_of(rank);
    for (size_t d = 0, next = 0; d < at.size(); ++d)
      if (stays[d]) at[d] = within[next++];
    numbering.push_back(whole.rank_at(at));
  }
  return create_numbered(comm, numbering, std::make_shared<VirtualTopology>(std::move(part)), made);
}

int create_graph(Communicator& comm, const Graph& graph, bool reorder, Communicator** made) {
  Numbering numbering;
  if (const int error = number(comm, graph, reorder, numbering)) return error;
  std::shared_ptr<const VirtualTopology> topology;
  if (const int own = vertex_of(numbering, comm.rank()); own >= 0) topology = std::make_shared<VirtualTopology>(graph, own);
  return create_numbered(comm, numbering, std::move(topology), made);
}

int create_adjacent(Communicator& comm, const coll::Neighborhood& own, const Edges& edges, const Info* info, bool reorder,
                    Communicator** made) {
  if (!reorder) {
    return finish_distributed(comm, identity(comm.size()), std::make_shared<VirtualTopology>(edges, own), info, made);
  }
  // Each edge is told at both ends. Those that go out decide who is near whom; both lists go to whoever takes the vertex over.
  const auto weight = [](const std::vector<int>& weights, size_t i) { return weights.empty() ? 1 : weights[i]; };
  std::vector<Edge> outgoing, incoming, all_outgoing, all_incoming;
  for (size_t i = 0; i < own.destinations.size(); ++i)
    outgoing.push_back({comm.rank(), own.destinations[i], weight(edges.destination_weights, i)});
  for (size_t i = 0; i < own.sources.size(); ++i) incoming.push_back({own.sources[i], comm.rank(), weight(edges.source_weights, i)});
  if (const int error = gather_edges(comm, outgoing, all_outgoing)) return error;
  if (const int error = gather_edges(comm, incoming, all_incoming)) return error;
  Numbering numbering;
  if (const int error = number(comm, Traffic(comm.size(), all_outgoing), nullptr, numbering)) return error;
  const int vertex = vertex_of(numbering, comm.rank());
  return finish_distributed(comm, numbering, part_of(all_incoming, all_outgoing, vertex, edges.weighted), info, made);
}

int create_distributed(Communicator& comm, std::span<const Edge> told, bool weighted, const Info* info, bool reorder, Communicator** made) {
  std::vector<Edge> edges;
  Numbering numbering = identity(comm.size());
  if (const int error = reorder ? gather_edges(comm, told, edges) : deliver_edges(comm, told, edges)) return error;
  if (reorder) {
    if (const int error = number(comm, Traffic(comm.size(), edges), nullptr, numbering)) return error;
  }
  return finish_distributed(comm, numbering, part_of(edges, edges, vertex_of(numbering, comm.rank()), weighted), info, made);
}

int map_cartesian(Communicator& comm, const Grid& grid, int* rank) {
  Numbering numbering;
  if (const int error = number(comm, grid, true, numbering)) return error;
  const int own = vertex_of(numbering, comm.rank());
  *rank = own < 0 ? MPI_UNDEFINED : own;
  return MPI_SUCCESS;
}

int map_graph(Communicator& comm, const Graph& graph, int* rank) {
  Numbering numbering;
  if (const int error = number(comm, graph, true, numbering)) return error;
  const int own = vertex_of(numbering, comm.rank());
  *rank = own < 0 ? MPI_UNDEFINED : own;
  return MPI_SUCCESS;
}

}  // namespace weft::comm
