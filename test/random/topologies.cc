// Communicators with a Cartesian, graph or distributed graph topology, and the model of who is whose neighbour.
#include <algorithm>
#include <numeric>

#include "comms.h"

namespace random_test {

namespace {

Comm begin_topology(const Comm& parent, uint64_t id, const std::string& text) {
  Comm made;
  made.id = mix(parent.id, id);
  made.of_session = parent.of_session;
  made.text = text + "(" + parent.text + ")";
  made.owned = true;
  made.topology = Topology::graph;
  return made;
}

/// Who the members are: MPI may reorder them, but the parent's ranks from 0 to before `nodes` are taken if it may not.
void find_members(Comm& made, const Comm& parent, int nodes, bool reorder) {
  if (!reorder) same(made.in(), parent.rank < nodes, "whether this rank is a member of " + made.text);
  if (!made.in()) return;
  MPI_Group world, group;
  ok(MPI_Comm_group(MPI_COMM_WORLD, &world));
  ok(MPI_Comm_group(made.handle, &group));
  std::vector<int> ranks(static_cast<size_t>(nodes));
  std::iota(ranks.begin(), ranks.end(), 0);
  made.members.resize(ranks.size());
  ok(MPI_Group_translate_ranks(group, nodes, ranks.data(), world, made.members.data()));
  for (MPI_Group* g : {&world, &group}) ok(MPI_Group_free(g));
  std::vector<int> is = made.members, may = parent.members;
  for (std::vector<int>* all : {&is, &may}) std::sort(all->begin(), all->end());
  same(std::adjacent_find(is.begin(), is.end()) - is.begin(), nodes, "number of distinct members of " + made.text);
  same(std::includes(may.begin(), may.end(), is.begin(), is.end()), true, "whether all members of " + made.text + " are the parent's");
  if (!reorder)
    same(std::equal(made.members.begin(), made.members.end(), parent.members.begin()), true, "whether the order stays in " + made.text);
  ok(MPI_Comm_rank(made.handle, &made.rank));
}

/// The rank at some coordinates, row by row; MPI_PROC_NULL beyond a border.
int cart_rank(const std::vector<int>& dims, const std::vector<int>& periods, std::vector<int> at) {
  int rank = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    if ((at[d] < 0 || at[d] >= dims[d]) && !periods[d]) return MPI_PROC_NULL;
    rank = rank * dims[d] + (at[d] + dims[d]) % dims[d];
  }
  return rank;
}

void find_cart_neighbors(Comm& made, const std::vector<int>& dims, const std::vector<int>& periods) {
  std::vector<int> at(dims.size()), coordinates(dims.size() + 1);
  for (size_t d = dims.size(), rest = size_t(made.rank); d-- > 0; rest /= size_t(dims[d])) at[d] = int(rest % size_t(dims[d]));
  ok(MPI_Cart_coords(made.handle, made.rank, int(dims.size()), coordinates.data()));
  for (size_t d = 0; d < dims.size(); ++d) {
    same(coordinates[d], at[d], "coordinate in " + made.text);
    for (int step : {-1, 1}) {
      std::vector<int> there = at;
      there[d] += step;
      made.outs.push_back(cart_rank(dims, periods, there));
    }
    int source = 0, dest = 0;
    ok(MPI_Cart_shift(made.handle, int(d), 1, &source, &dest));
    same(source, made.outs[2 * d], "source of MPI_Cart_shift in " + made.text);
    same(dest, made.outs[2 * d + 1], "destination of MPI_Cart_shift in " + made.text);
  }
  made.ins = made.outs;
}

Comm draw_cart(const Comm& parent, Rng& rng) {
  Comm made = begin_topology(parent, 100, "cart");
  made.topology = Topology::cart;
  std::vector<int> dims, periods;
  int nodes = 1;
  for (int64_t d = rng.between(rng.chance(10) ? 0 : 1, 3); d > 0; --d) {
    dims.push_back(int(rng.between(1, std::max(parent.size() / nodes, 1))));
    periods.push_back(rng.chance(50));
    nodes *= dims.back();
  }
  const bool reorder = rng.chance(40);
  ok(MPI_Cart_create(parent.handle, int(dims.size()), dims.data(), periods.data(), reorder, &made.handle));
  find_members(made, parent, nodes, reorder);
  if (made.in()) find_cart_neighbors(made, dims, periods);
  return made;
}

Comm draw_graph(const Comm& parent, Rng& rng) {
  Comm made = begin_topology(parent, 110, "graph");
  const int nodes = int(rng.between(1, parent.size()));
  std::vector<std::vector<int>> neighbors(static_cast<size_t>(nodes));
  for (int64_t i = rng.below(2 * nodes + 1); i > 0; --i) {
    const int a = int(rng.below(nodes)), b = int(rng.below(nodes));
    neighbors[size_t(a)].push_back(b);
    if (a != b) neighbors[size_t(b)].push_back(a);
  }
  std::vector<int> index, edges;
  for (std::vector<int>& some : neighbors) {
    rng.shuffle(some);
    edges.insert(edges.end(), some.begin(), some.end());
    index.push_back(int(edges.size()));
  }
  const bool reorder = rng.chance(40);
  ok(MPI_Graph_create(parent.handle, nodes, index.data(), edges.data(), reorder, &made.handle));
  find_members(made, parent, nodes, reorder);
  if (!made.in()) return made;
  made.ins = made.outs = neighbors[size_t(made.rank)];
  int count = 0;
  ok(MPI_Graph_neighbors_count(made.handle, made.rank, &count));
  same(count, int64_t(made.outs.size()), "number of neighbours in " + made.text);
  std::vector<int> is(made.outs.size() + 1);
  ok(MPI_Graph_neighbors(made.handle, made.rank, count, is.data()));
  same(std::equal(made.outs.begin(), made.outs.end(), is.begin()), true, "whether the neighbours are right in " + made.text);
  return made;
}

/// The directed edges of all ranks; once each, unless `repeated`.
std::vector<std::pair<int, int>> draw_edges(const Comm& parent, Rng& rng, bool repeated) {
  std::vector<std::pair<int, int>> edges;
  for (int64_t i = rng.below(3 * parent.size() + 1); i > 0; --i) {
    const std::pair<int, int> edge(int(rng.below(parent.size())), int(rng.below(parent.size())));
    if (repeated || std::find(edges.begin(), edges.end(), edge) == edges.end()) edges.push_back(edge);
  }
  return edges;
}

/// What MPI_Dist_graph_neighbors says: in the order of the model if `ordered`; else that order is taken over.
void find_dist_neighbors(Comm& made, bool ordered) {
  int ins = 0, outs = 0, weighted = 0;
  ok(MPI_Dist_graph_neighbors_count(made.handle, &ins, &outs, &weighted));
  same(ins, int64_t(made.ins.size()), "number of sources in " + made.text);
  same(outs, int64_t(made.outs.size()), "number of destinations in " + made.text);
  std::vector<int> sources(size_t(ins) + 1), dests(size_t(outs) + 1), weights(size_t(ins + outs) + 1);
  ok(MPI_Dist_graph_neighbors(made.handle, ins, sources.data(), weighted ? weights.data() : MPI_UNWEIGHTED, outs, dests.data(),
                              weighted ? weights.data() + ins : MPI_UNWEIGHTED));
  sources.resize(size_t(ins));
  dests.resize(size_t(outs));
  std::vector<int> is_in = sources, is_out = dests;
  if (!ordered) {
    for (std::vector<int>* all : {&is_in, &is_out, &made.ins, &made.outs}) std::sort(all->begin(), all->end());
  }
  same(is_in == made.ins, true, "whether the sources are right in " + made.text);
  same(is_out == made.outs, true, "whether the destinations are right in " + made.text);
  made.ins = sources;
  made.outs = dests;
}

Comm draw_dist_graph(const Comm& parent, Rng& rng) {
  const bool adjacent = rng.chance(50), reorder = rng.chance(40), weighted = rng.chance(40);
  Comm made = begin_topology(parent, 120, adjacent ? "dist_graph_adjacent" : "dist_graph");
  const std::vector<std::pair<int, int>> edges = draw_edges(parent, rng, adjacent);
  const uint64_t order = rng.next();
  std::vector<std::vector<int>> ins(size_t(parent.size())), outs(size_t(parent.size()));
  for (const auto& [from, to] : edges) {
    outs[size_t(from)].push_back(to);
    ins[size_t(to)].push_back(from);
  }
  for (size_t r = 0; r < ins.size(); ++r) {
    Rng own(mix(order, r));
    own.shuffle(ins[r]);
    own.shuffle(outs[r]);
  }
  const std::vector<int>&in = ins[size_t(parent.rank)], &out = outs[size_t(parent.rank)];
  std::vector<int> weights(edges.size() + 1, 3);
  int* const weight = weighted ? weights.data() : MPI_UNWEIGHTED;
  if (adjacent) {
    ok(MPI_Dist_graph_create_adjacent(parent.handle, int(in.size()), in.data(), weight, int(out.size()), out.data(), weight, MPI_INFO_NULL,
                                      reorder, &made.handle));
  } else {  // each edge is named by some rank
    std::vector<int> sources, dests;
    for (size_t i = 0; i < edges.size(); ++i) {
      if (int(mix(order, 1000 + i) % uint64_t(parent.size())) != parent.rank) continue;
      sources.push_back(edges[i].first);
      dests.push_back(edges[i].second);
    }
    const std::vector<int> degrees(sources.size() + 1, 1);
    ok(MPI_Dist_graph_create(parent.handle, int(sources.size()), sources.data(), degrees.data(), dests.data(), weight, MPI_INFO_NULL,
                             reorder, &made.handle));
  }
  find_members(made, parent, parent.size(), reorder);
  made.ins = ins[size_t(made.rank)];
  made.outs = outs[size_t(made.rank)];
  find_dist_neighbors(made, adjacent);
  return made;
}

}  // namespace

Comm draw_topology(const Comm& parent, Rng& rng) {
  switch (rng.below(4)) {
    case 0:
    case 1: return draw_cart(parent, rng);
    case 2: return draw_graph(parent, rng);
    default: return draw_dist_graph(parent, rng);
  }
}

}  // namespace random_test
