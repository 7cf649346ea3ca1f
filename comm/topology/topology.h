// Virtual topologies (MPI 5.0, 8): what a communicator that was made with one carries, and how such communicators are made.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "coll/neighborhood.h"
#include "comm/comm.h"

namespace weft::comm {

/// A Cartesian grid. Ranks run through it in row-major order: the last dimension the fastest.
struct Grid {
  std::vector<int> dims, periods;
  std::vector<int> coords = {};  ///< of the own rank

  int ndims() const { return static_cast<int>(dims.size()); }
  /// Processes in it; 1 without dimensions.
  int size() const;
  std::vector<int> coords_of(int rank) const;
  /// Coordinates beyond the end of a periodic dimension wrap around; MPI_PROC_NULL beyond that of another.
  int rank_at(std::span<const int> place) const;
  /// Who is `displacement` away from the own coordinates.
  int shifted(int dimension, int64_t displacement) const;
};

/// A graph that every member knows as a whole. `index[i]`: edges of the nodes up to i.
struct Graph {
  std::vector<int> index, edges;

  std::span<const int> neighbors(int node) const {
    const size_t first = node == 0 ? 0 : static_cast<size_t>(index[static_cast<size_t>(node) - 1]);
    return {edges.data() + first, static_cast<size_t>(index[static_cast<size_t>(node)]) - first};
  }
  /// As many edges there as back, between any two nodes: else neighbours would wait for messages that nobody sends.
  bool symmetric() const;
};

/// The own edges of a graph. The neighbours are the topology's Neighborhood.
struct Edges {
  bool weighted = false;
  std::vector<int> source_weights = {}, destination_weights = {};  ///< empty unless weighted
};

struct VirtualTopology {
  std::variant<Grid, Graph, Edges> shape;
  coll::Neighborhood neighborhood;
  bool mutual = true;  ///< neighbours know of each other: neighbourhood collectives can run

  explicit VirtualTopology(Grid);
  VirtualTopology(Graph, int rank);
  VirtualTopology(Edges, coll::Neighborhood);

  const Grid* grid() const { return std::get_if<Grid>(&shape); }
  const Graph* graph() const { return std::get_if<Graph>(&shape); }
  const Edges* edges() const { return std::get_if<Edges>(&shape); }
};

/// Makes it the topology of a communicator that has not been used yet.
void attach_topology(Communicator&, std::shared_ptr<const VirtualTopology>);

// --- making communicators with one; collective ---

/// MPI_Cart_create: `*made` is null in processes that the grid has no room for.
int create_cartesian(Communicator&, const Grid&, bool reorder, Communicator** made);
/// MPI_Cart_sub: the own part of the grid in the dimensions that stay.
int sub_cartesian(Communicator&, std::span<const int> stays, Communicator** made);
/// MPI_Graph_create
int create_graph(Communicator&, const Graph&, bool reorder, Communicator** made);
/// MPI_Dist_graph_create_adjacent: `own` edges, all of them.
int create_adjacent(Communicator&, const coll::Neighborhood& own, const Edges&, const Info*, bool reorder, Communicator** made);

/// An edge of a distributed graph, told by whichever process.
struct Edge {
  int32_t source = 0, destination = 0, weight = 1;
};
/// MPI_Dist_graph_create: each process tells some edges of any processes.
int create_distributed(Communicator&, std::span<const Edge> told, bool weighted, const Info*, bool reorder, Communicator** made);

/// MPI_Cart_map, MPI_Graph_map: the rank that the calling process gets with `reorder`, MPI_UNDEFINED if it gets none.
int map_cartesian(Communicator&, const Grid&, int* rank);
int map_graph(Communicator&, const Graph&, int* rank);

}  // namespace weft::comm
