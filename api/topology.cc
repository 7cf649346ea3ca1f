// Virtual topologies (MPI 5.0, 8). Entries have checked that communicators have the topology that is asked for.
#include "comm/topology/topology.h"

#include <algorithm>
#include <vector>

#include "api/generated/bodies.h"
#include "comm/topology/dims.h"
#include "include/mpi.h"
#include "runtime/base/error.h"

namespace weft::body {
namespace {

using comm::Communicator;

const comm::Grid& grid(const Communicator& comm) { return *comm.topology->grid(); }
const comm::Graph& graph(const Communicator& comm) { return *comm.topology->graph(); }

int give(int error, Communicator* made, MPI_Comm* handle) {
  *handle = error || !made ? MPI_COMM_NULL : api::encode(made);
  return error;
}

int check_intra(const Communicator& comm, const char* name) {
  return comm.team->inter() ? fail(MPI_ERR_COMM, "%s is an inter-communicator; only intra-communicators have topologies", name)
                            : MPI_SUCCESS;
}

int check_room(const char* name, int length, int needed) {
  return length < needed ? fail(MPI_ERR_ARG, "%s is %d, but there are %d values", name, length, needed) : MPI_SUCCESS;
}

int check_rank(const char* name, int64_t index, int rank, int size) {
  if (rank >= 0 && rank < size) return MPI_SUCCESS;
  if (index < 0) return fail(MPI_ERR_RANK, "%s is %d, but ranks are 0..%d", name, rank, size - 1);
  return fail(MPI_ERR_RANK, "%s[%lld] is %d, but ranks are 0..%d", name, static_cast<long long>(index), rank, size - 1);
}

/// The arguments of a grid on the processes of a communicator.
int make_grid(const Communicator& comm, int ndims, const int* dims, const int* periods, comm::Grid& made) {
  int64_t size = 1;
  for (int d = 0; d < ndims; ++d) {
    if (dims[d] <= 0) return fail(MPI_ERR_DIMS, "dims[%d] is %d; an extent is at least 1 (MPI_Dims_create chooses some)", d, dims[d]);
    size *= dims[d];
    if (size > comm.size())
      return fail(MPI_ERR_DIMS, "dims ask for %s%lld processes, but the communicator has %d", d + 1 < ndims ? "at least " : "",
                  static_cast<long long>(size), comm.size());
    made.dims.push_back(dims[d]);
    made.periods.push_back(periods[d] != 0);
  }
  return MPI_SUCCESS;
}

int make_graph(const Communicator& comm, int nnodes, const int* index, const int* edges, comm::Graph& made) {
  if (nnodes > comm.size()) return fail(MPI_ERR_ARG, "nnodes is %d, but the communicator has %d processes", nnodes, comm.size());
  for (int i = 0, before = 0; i < nnodes; before = index[i++])
    if (index[i] < before)
      return fail(MPI_ERR_ARG, "index[%d] is %d, below the %d before it; index[i] is the number of edges of nodes 0..i", i, index[i],
                  before);
  const int count = nnodes > 0 ? index[nnodes - 1] : 0;
  for (int i = 0; i < count; ++i)
    if (const int error = check_rank("edges", i, edges[i], nnodes)) return error;
  made.index.assign(index, index + nnodes);
  made.edges.assign(edges, edges + count);
  return MPI_SUCCESS;
}

bool no_weights(const int* weights) { return weights == MPI_UNWEIGHTED; }

int check_weights(const char* name, const int* weights, int64_t count) {
  if (no_weights(weights) || count == 0) return MPI_SUCCESS;
  if (!weights || weights == MPI_WEIGHTS_EMPTY)
    return fail(MPI_ERR_ARG, "%s is %s, but there are %lld edges: give weights, or MPI_UNWEIGHTED", name,
                weights ? "MPI_WEIGHTS_EMPTY" : "a null pointer", static_cast<long long>(count));
  for (int64_t i = 0; i < count; ++i)
    if (weights[i] < 0) return fail(MPI_ERR_ARG, "%s[%lld] is %d; weights are not negative", name, static_cast<long long>(i), weights[i]);
  return MPI_SUCCESS;
}

/// One list of neighbours with their weights.
int take_neighbors(const Communicator& comm, const char* name, int degree, const int* ranks, const char* weights_name, const int* weights,
                   std::vector<int>& taken, std::vector<int>& taken_weights) {
  for (int i = 0; i < degree; ++i)
    if (const int error = check_rank(name, i, ranks[i], comm.size())) return error;
  if (const int error = check_weights(weights_name, weights, degree)) return error;
  taken.assign(ranks, ranks + degree);
  if (degree > 0 && !no_weights(weights)) taken_weights.assign(weights, weights + degree);
  return MPI_SUCCESS;
}

void copy_weights(const std::vector<int>& from, int room, int* to) {
  if (!to || to == MPI_UNWEIGHTED || to == MPI_WEIGHTS_EMPTY) return;
  std::copy_n(from.begin(), std::min<size_t>(from.size(), static_cast<size_t>(room)), to);
}

}  // namespace

int Dims_create(int nnodes, int ndims, int* dims) {
  if (nnodes < 1) return fail(MPI_ERR_ARG, "nnodes is %d; there must be at least one process", nnodes);
  int left = nnodes, free = 0;
  for (int i = 0; i < ndims; ++i) {
    if (dims[i] < 0) return fail(MPI_ERR_DIMS, "dims[%d] is %d; use 0 for an extent that is to be chosen", i, dims[i]);
    if (dims[i] == 0) {
      ++free;
    } else if (left % dims[i]) {
      return fail(MPI_ERR_DIMS, "dims[%d] is %d, which does not divide the %d processes that are left", i, dims[i], left);
    } else {
      left /= dims[i];
    }
  }
  if (free == 0) {
    const bool right = left == 1 || ndims == 0;
    return right ? MPI_SUCCESS : fail(MPI_ERR_DIMS, "the product of dims is not nnodes (%d)", nnodes);
  }
  const std::vector<int> chosen = comm::balanced_factors(left, free);
  for (int i = 0, next = 0; i < ndims; ++i)
    if (dims[i] == 0) dims[i] = chosen[static_cast<size_t>(next++)];
  return MPI_SUCCESS;
}

int Topo_test(Communicator& comm, int* status) {
  if (!comm.topology)
    *status = MPI_UNDEFINED;
  else
    *status = comm.topology->grid() ? MPI_CART : comm.topology->graph() ? MPI_GRAPH : MPI_DIST_GRAPH;
  return MPI_SUCCESS;
}

int Cart_create(Communicator& comm, int ndims, const int* dims, const int* periods, int reorder, MPI_Comm* comm_cart) {
  if (const int error = check_intra(comm, "comm_old")) return error;
  comm::Grid wanted;
  if (const int error = make_grid(comm, ndims, dims, periods, wanted)) return error;
  Communicator* made = nullptr;
  const int error = comm::create_cartesian(comm, wanted, reorder != 0, &made);
  return give(error, made, comm_cart);
}

int Cart_map(Communicator& comm, int ndims, const int* dims, const int* periods, int* newrank) {
  if (const int error = check_intra(comm, "comm")) return error;
  comm::Grid wanted;
  if (const int error = make_grid(comm, ndims, dims, periods, wanted)) return error;
  return comm::map_cartesian(comm, wanted, newrank);
}

int Cart_sub(Communicator& comm, const int* remain_dims, MPI_Comm* newcomm) {
  Communicator* made = nullptr;
  const int error = comm::sub_cartesian(comm, {remain_dims, grid(comm).dims.size()}, &made);
  return give(error, made, newcomm);
}

int Cartdim_get(Communicator& comm, int* ndims) {
  *ndims = grid(comm).ndims();
  return MPI_SUCCESS;
}

int Cart_get(Communicator& comm, int maxdims, int* dims, int* periods, int* coords) {
  const comm::Grid& g = grid(comm);
  if (const int error = check_room("maxdims", maxdims, g.ndims())) return error;
  std::ranges::copy(g.dims, dims);
  std::ranges::copy(g.periods, periods);
  std::ranges::copy(g.coords, coords);
  return MPI_SUCCESS;
}

int Cart_rank(Communicator& comm, const int* coords, int* rank) {
  const comm::Grid& g = grid(comm);
  const int found = g.rank_at({coords, g.dims.size()});
  if (found == MPI_PROC_NULL) {
    for (size_t d = 0; d < g.dims.size(); ++d)
      if (!g.periods[d] && (coords[d] < 0 || coords[d] >= g.dims[d]))
        return fail(MPI_ERR_ARG, "coords[%zu] is %d, but that dimension is not periodic and has 0..%d", d, coords[d], g.dims[d] - 1);
  }
  *rank = found;
  return MPI_SUCCESS;
}

int Cart_coords(Communicator& comm, int rank, int maxdims, int* coords) {
  const comm::Grid& g = grid(comm);
  if (const int error = check_rank("rank", -1, rank, comm.size())) return error;
  if (const int error = check_room("maxdims", maxdims, g.ndims())) return error;
  std::ranges::copy(g.coords_of(rank), coords);
  return MPI_SUCCESS;
}

int Cart_shift(Communicator& comm, int direction, int disp, int* rank_source, int* rank_dest) {
  const comm::Grid& g = grid(comm);
  if (direction < 0 || direction >= g.ndims())
    return fail(MPI_ERR_DIMS, "direction is %d, but the grid has %d dimensions, counted from 0", direction, g.ndims());
  *rank_source = g.shifted(direction, -int64_t{disp});
  *rank_dest = g.shifted(direction, disp);
  return MPI_SUCCESS;
}

int Graph_create(Communicator& comm, int nnodes, const int* index, const int* edges, int reorder, MPI_Comm* comm_graph) {
  if (const int error = check_intra(comm, "comm_old")) return error;
  comm::Graph wanted;
  if (const int error = make_graph(comm, nnodes, index, edges, wanted)) return error;
  Communicator* made = nullptr;
  const int error = nnodes > 0 ? comm::create_graph(comm, wanted, reorder != 0, &made) : MPI_SUCCESS;
  return give(error, made, comm_graph);
}

int Graph_map(Communicator& comm, int nnodes, const int* index, const int* edges, int* newrank) {
  if (const int error = check_intra(comm, "comm")) return error;
  comm::Graph wanted;
  if (const int error = make_graph(comm, nnodes, index, edges, wanted)) return error;
  *newrank = MPI_UNDEFINED;
  return nnodes > 0 ? comm::map_graph(comm, wanted, newrank) : MPI_SUCCESS;
}

int Graphdims_get(Communicator& comm, int* nnodes, int* nedges) {
  *nnodes = static_cast<int>(graph(comm).index.size());
  *nedges = static_cast<int>(graph(comm).edges.size());
  return MPI_SUCCESS;
}

int Graph_get(Communicator& comm, int maxindex, int maxedges, int* index, int* edges) {
  const comm::Graph& g = graph(comm);
  if (const int error = check_room("maxindex", maxindex, static_cast<int>(g.index.size()))) return error;
  if (const int error = check_room("maxedges", maxedges, static_cast<int>(g.edges.size()))) return error;
  std::ranges::copy(g.index, index);
  std::ranges::copy(g.edges, edges);
  return MPI_SUCCESS;
}

int Graph_neighbors_count(Communicator& comm, int rank, int* nneighbors) {
  if (const int error = check_rank("rank", -1, rank, comm.size())) return error;
  *nneighbors = static_cast<int>(graph(comm).neighbors(rank).size());
  return MPI_SUCCESS;
}

int Graph_neighbors(Communicator& comm, int rank, int maxneighbors, int* neighbors) {
  if (const int error = check_rank("rank", -1, rank, comm.size())) return error;
  const auto found = graph(comm).neighbors(rank);
  if (const int error = check_room("maxneighbors", maxneighbors, static_cast<int>(found.size()))) return error;
  std::ranges::copy(found, neighbors);
  return MPI_SUCCESS;
}

int Dist_graph_create_adjacent(Communicator& comm, int indegree, const int* sources, const int* sourceweights, int outdegree,
                               const int* destinations, const int* destweights, comm::Info* info, int reorder, MPI_Comm* comm_dist_graph) {
  if (const int error = check_intra(comm, "comm_old")) return error;
  // Where there are no edges, any pointer may stand for their weights.
  const bool plain_in = no_weights(sourceweights), plain_out = no_weights(destweights);
  if (plain_in != plain_out && indegree > 0 && outdegree > 0)
    return fail(MPI_ERR_ARG, "one of sourceweights and destweights is MPI_UNWEIGHTED; either both are or none");
  coll::Neighborhood own;
  comm::Edges edges{.weighted = (!plain_in && (!plain_out || indegree > 0)) || (!plain_out && outdegree > 0)};
  if (const int error =
          take_neighbors(comm, "sources", indegree, sources, "sourceweights", sourceweights, own.sources, edges.source_weights))
    return error;
  if (const int error = take_neighbors(comm, "destinations", outdegree, destinations, "destweights", destweights, own.destinations,
                                       edges.destination_weights))
    return error;
  Communicator* made = nullptr;
  const int error = comm::create_adjacent(comm, own, edges, info, reorder != 0, &made);
  return give(error, made, comm_dist_graph);
}

int Dist_graph_create(Communicator& comm, int n, const int* sources, const int* degrees, const int* destinations, const int* weights,
                      comm::Info* info, int reorder, MPI_Comm* comm_dist_graph) {
  if (const int error = check_intra(comm, "comm_old")) return error;
  for (int i = 0; i < n; ++i) {
    if (const int error = check_rank("sources", i, sources[i], comm.size())) return error;
    if (degrees[i] < 0) return fail(MPI_ERR_ARG, "degrees[%d] is %d, but it may not be negative", i, degrees[i]);
  }
  const int64_t count = api::sum_of(degrees, n);
  if (const int error = check_weights("weights", weights, count)) return error;
  std::vector<comm::Edge> told;
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < degrees[i]; ++k) {
      const size_t at = told.size();
      if (const int error = check_rank("destinations", static_cast<int64_t>(at), destinations[at], comm.size())) return error;
      told.push_back({sources[i], destinations[at], no_weights(weights) ? 1 : weights[at]});
    }
  }
  Communicator* made = nullptr;
  const int error = comm::create_distributed(comm, told, !no_weights(weights), info, reorder != 0, &made);
  return give(error, made, comm_dist_graph);
}

int Dist_graph_neighbors_count(Communicator& comm, int* indegree, int* outdegree, int* weighted) {
  *indegree = api::indegree(comm);
  *outdegree = api::outdegree(comm);
  *weighted = comm.topology->edges()->weighted;
  return MPI_SUCCESS;
}

/// Gives the first part of the lists if there is no room for the whole (MPI 5.0, 8.5.5).
int Dist_graph_neighbors(Communicator& comm, int maxindegree, int* sources, int* sourceweights, int maxoutdegree, int* destinations,
                         int* destweights) {
  const coll::Neighborhood& own = comm.topology->neighborhood;
  const comm::Edges& edges = *comm.topology->edges();
  std::copy_n(own.sources.begin(), std::min(maxindegree, api::indegree(comm)), sources);
  std::copy_n(own.destinations.begin(), std::min(maxoutdegree, api::outdegree(comm)), destinations);
  copy_weights(edges.source_weights, maxindegree, sourceweights);
  copy_weights(edges.destination_weights, maxoutdegree, destweights);
  return MPI_SUCCESS;
}

}  // namespace weft::body
