// Virtual topologies and neighbourhood collectives, in all modes, against a sequential model: every process knows the whole graph, so it
// can tell what its neighbours send.
#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"

using check::rank;
using check::ranks;

namespace {

using Ints = std::vector<int>;

/// Who is next to whom in a communicator, by rank: the model.
struct Model {
  std::vector<Ints> sources, destinations;
  bool crossed = false;  // grids: what goes down arrives from above
};

/// Which block of its source arrives as block `b` of rank `r`.
int matching(const Model& m, int r, int b) {
  if (m.crossed) return b ^ 1;
  const Ints& in = m.sources[r];
  auto before = std::count(in.begin(), in.begin() + b, in[b]);
  const Ints& out = m.destinations[in[b]];
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i] == r && before-- == 0) return int(i);
  return -1;
}

/// What rank `from` puts into element `k` of its block `block`, and how many elements that has.
int value(int from, int block, int k) { return from * 10000 + block * 100 + k; }
int length(int from, int block, int salt) { return (from * 7 + block * 3 + salt) % 4; }

enum class Mode { blocking, nonblocking, persistent };

/// Runs one form in one mode; persistent ones twice.
void run(Mode mode, const std::function<void()>& now, const std::function<void(MPI_Request*)>& begin,
         const std::function<void(MPI_Request*)>& make) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (mode == Mode::blocking) {
    now();
  } else if (mode == Mode::nonblocking) {
    begin(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    make(&request);
    for (int i = 0; i < 2; ++i) {
      MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
  }
}

constexpr int untouched = -77;

/// One process of a communicator with its part of the model.
struct Trial {
  MPI_Comm comm;
  const Model& model;
  int me, salt = 0;
  Mode mode = Mode::blocking;
  const Ints &in, &out;

  Trial(MPI_Comm c, const Model& m, int r) : comm(c), model(m), me(r), in(m.sources[r]), out(m.destinations[r]) {}

  /// Elements of block `b` of the input: of a pair so long as its sender says; nothing from nobody.
  int coming(int b) const { return in[b] < 0 ? 2 : length(in[b], matching(model, me, b), salt); }
  void expect(const Ints& got, const Ints& displs, int b, int n, int block) const {
    for (int k = 0; k < n; ++k) CHECK(got[displs[b] + k] == (in[b] < 0 ? untouched : value(in[b], block, k)));
  }

  void allgather() const {
    const int n = 1 + salt % 3;
    Ints mine(n), got(n * in.size() + 1, untouched);
    for (int k = 0; k < n; ++k) mine[k] = value(me, 0, k);
    run(
        mode, [&] { MPI_Neighbor_allgather(mine.data(), n, MPI_INT, got.data(), n, MPI_INT, comm); },
        [&](MPI_Request* r) { MPI_Ineighbor_allgather(mine.data(), n, MPI_INT, got.data(), n, MPI_INT, comm, r); },
        [&](MPI_Request* r) { MPI_Neighbor_allgather_init(mine.data(), n, MPI_INT, got.data(), n, MPI_INT, comm, MPI_INFO_NULL, r); });
    Ints displs(in.size());
    for (size_t b = 0; b < in.size(); ++b) displs[b] = n * int(b);
    for (size_t b = 0; b < in.size(); ++b) expect(got, displs, int(b), n, 0);
    CHECK(got.back() == untouched);
  }

  /// Displacements that leave a gap before each block.
  static Ints spread(const Ints& counts, int& total) {
    Ints displs;
    total = 1;
    for (int n : counts) {
      displs.push_back(total);
      total += n + 1;
    }
    return displs;
  }

  void allgatherv() const {
    const int n = length(me, 0, salt);
    Ints mine(n + 1), counts, displs;
    for (int k = 0; k < n; ++k) mine[k] = value(me, 0, k);
    for (int source : in) counts.push_back(source < 0 ? 2 : length(source, 0, salt));
    int total = 0;
    displs = spread(counts, total);
    Ints got(total, untouched);
    const std::vector<MPI_Count> wide_counts(counts.begin(), counts.end());
    const std::vector<MPI_Aint> wide_displs(displs.begin(), displs.end());
    run(
        mode,
        [&] { MPI_Neighbor_allgatherv_c(mine.data(), n, MPI_INT, got.data(), wide_counts.data(), wide_displs.data(), MPI_INT, comm); },
        [&](MPI_Request* r) {
          MPI_Ineighbor_allgatherv(mine.data(), n, MPI_INT, got.data(), counts.data(), displs.data(), MPI_INT, comm, r);
        },
        [&](MPI_Request* r) {
          MPI_Neighbor_allgatherv_init(mine.data(), n, MPI_INT, got.data(), counts.data(), displs.data(), MPI_INT, comm, MPI_INFO_NULL, r);
        });
    for (size_t b = 0; b < in.size(); ++b) expect(got, displs, int(b), counts[b], 0);
    for (size_t b = 0; b < in.size(); ++b) CHECK(got[displs[b] - 1] == untouched);
  }

  void alltoall() const {
    const int n = 1 + salt % 3;
    Ints mine(n * out.size() + 1), got(n * in.size() + 1, untouched), displs(in.size());
    for (size_t b = 0; b < out.size(); ++b)
      for (int k = 0; k < n; ++k) mine[n * b + k] = value(me, int(b), k);
    run(
        mode, [&] { MPI_Neighbor_alltoall(mine.data(), n, MPI_INT, got.data(), n, MPI_INT, comm); },
        [&](MPI_Request* r) { MPI_Ineighbor_alltoall(mine.data(), n, MPI_INT, got.data(), n, MPI_INT, comm, r); },
        [&](MPI_Request* r) { MPI_Neighbor_alltoall_init_c(mine.data(), n, MPI_INT, got.data(), n, MPI_INT, comm, MPI_INFO_NULL, r); });
    for (size_t b = 0; b < in.size(); ++b) displs[b] = n * int(b);
    for (size_t b = 0; b < in.size(); ++b) expect(got, displs, int(b), n, in[b] < 0 ? 0 : matching(model, me, int(b)));
    CHECK(got.back() == untouched);
  }

  /// alltoallv, or alltoallw where blocks are of vectors with gaps at the sender.
  void alltoallv(bool types) const {
    Ints out_counts, in_counts;
    for (size_t b = 0; b < out.size(); ++b) out_counts.push_back(length(me, int(b), salt));
    for (size_t b = 0; b < in.size(); ++b) in_counts.push_back(coming(int(b)));
    int out_total = 0, in_total = 0;
    const Ints out_displs = spread(out_counts, out_total), in_displs = spread(in_counts, in_total);
    Ints mine(2 * out_total), got(in_total, untouched);
    const int gap = types ? 2 : 1;  // a vector takes every second element
    for (size_t b = 0; b < out.size(); ++b)
      for (int k = 0; k < out_counts[b]; ++k) mine[gap * (out_displs[b] + k)] = value(me, int(b), k);
    types ? with_types(mine, out_counts, out_displs, got, in_counts, in_displs)
          : run(
                mode,
                [&] {
                  MPI_Neighbor_alltoallv(mine.data(), out_counts.data(), out_displs.data(), MPI_INT, got.data(), in_counts.data(),
                                         in_displs.data(), MPI_INT, comm);
                },
                [&](MPI_Request* r) {
                  Ints c1 = out_counts, d1 = out_displs, c2 = in_counts, d2 = in_displs;  // may change once the call is over
                  MPI_Ineighbor_alltoallv(mine.data(), c1.data(), d1.data(), MPI_INT, got.data(), c2.data(), d2.data(), MPI_INT, comm, r);
                  std::fill(c2.begin(), c2.end(), -1);
                },
                [&](MPI_Request* r) {
                  MPI_Neighbor_alltoallv_init(mine.data(), out_counts.data(), out_displs.data(), MPI_INT, got.data(), in_counts.data(),
                                              in_displs.data(), MPI_INT, comm, MPI_INFO_NULL, r);
                });
    for (size_t b = 0; b < in.size(); ++b) expect(got, in_displs, int(b), in_counts[b], in[b] < 0 ? 0 : matching(model, me, int(b)));
    for (size_t b = 0; b < in.size(); ++b) CHECK(got[in_displs[b] - 1] == untouched);
  }

  void with_types(const Ints& mine, const Ints& out_counts, const Ints& out_displs, Ints& got, const Ints& in_counts,
                  const Ints& in_displs) const {
    MPI_Datatype every_second;
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &every_second);
    MPI_Type_commit(&every_second);
    std::vector<MPI_Aint> from, to;
    for (int d : out_displs) from.push_back(2 * d * MPI_Aint(sizeof(int)));
    for (int d : in_displs) to.push_back(d * MPI_Aint(sizeof(int)));
    std::vector<MPI_Datatype> out_types(out.size(), every_second), in_types(in.size(), MPI_INT);
    run(
        mode,
        [&] {
          MPI_Neighbor_alltoallw(mine.data(), out_counts.data(), from.data(), out_types.data(), got.data(), in_counts.data(), to.data(),
                                 in_types.data(), comm);
        },
        [&](MPI_Request* r) {
          MPI_Ineighbor_alltoallw(mine.data(), out_counts.data(), from.data(), out_types.data(), got.data(), in_counts.data(), to.data(),
                                  in_types.data(), comm, r);
          if (every_second != MPI_DATATYPE_NULL) MPI_Type_free(&every_second);
        },
        [&](MPI_Request* r) {
          MPI_Neighbor_alltoallw_init(mine.data(), out_counts.data(), from.data(), out_types.data(), got.data(), in_counts.data(),
                                      to.data(), in_types.data(), comm, MPI_INFO_NULL, r);
        });
    if (every_second != MPI_DATATYPE_NULL) MPI_Type_free(&every_second);
  }
};

void exchange(MPI_Comm comm, const Model& model) {
  int me = 0;
  MPI_Comm_rank(comm, &me);
  Trial trial(comm, model, me);
  for (Mode mode : {Mode::blocking, Mode::nonblocking, Mode::persistent}) {
    for (int salt = 0; salt < 2; ++salt) {
      trial.mode = mode;
      trial.salt = salt;
      trial.allgather();
      trial.allgatherv();
      trial.alltoall();
      trial.alltoallv(false);
      trial.alltoallv(true);
    }
  }
}

// --- Cartesian ---

int from_coords(const Ints& dims, const Ints& periods, Ints at) {
  int result = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (at[d] < 0 || at[d] >= dims[d]) {
      if (!periods[d]) return MPI_PROC_NULL;
      at[d] = (at[d] % dims[d] + dims[d]) % dims[d];
    }
    result = result * dims[d] + at[d];
  }
  return result;
}

Ints to_coords(const Ints& dims, int r) {
  Ints at(dims.size());
  for (size_t d = dims.size(); d-- > 0; r /= dims[d]) at[d] = r % dims[d];
  return at;
}

Model grid_model(const Ints& dims, const Ints& periods) {
  Model m;
  m.crossed = true;
  const int size = std::accumulate(dims.begin(), dims.end(), 1, std::multiplies<>());
  for (int r = 0; r < size; ++r) {
    Ints all;
    for (size_t d = 0; d < dims.size(); ++d) {
      for (int step : {-1, 1}) {
        Ints at = to_coords(dims, r);
        at[d] += step;
        all.push_back(from_coords(dims, periods, at));
      }
    }
    m.sources.push_back(all);
    m.destinations.push_back(all);
  }
  return m;
}

void queries(MPI_Comm comm, const Ints& dims, const Ints& periods) {
  int me = 0, n = -1, kind = 0;
  MPI_Comm_rank(comm, &me);
  MPI_Topo_test(comm, &kind);
  CHECK(kind == MPI_CART);
  MPI_Cartdim_get(comm, &n);
  CHECK(n == int(dims.size()));
  Ints d(n + 1, untouched), p(n + 1, untouched), c(n + 1, untouched);
  MPI_Cart_get(comm, n, d.data(), p.data(), c.data());
  CHECK(d[n] == untouched && p[n] == untouched && c[n] == untouched);
  d.pop_back(), p.pop_back(), c.pop_back();
  CHECK(d == dims && p == periods && c == to_coords(dims, me));
  int size = 0;
  MPI_Comm_size(comm, &size);
  for (int r = 0; r < size; ++r) {
    int back = -1;
    MPI_Cart_coords(comm, r, n, c.data());
    CHECK(c == to_coords(dims, r));
    for (int i = 0; i < n; ++i)
      if (periods[i]) c[i] += (i % 2 ? 3 : -2) * dims[i];
    MPI_Cart_rank(comm, c.data(), &back);
    CHECK(back == r);
  }
  for (int i = 0; i < n; ++i) {
    for (int by : {-3, -1, 0, 1, 2}) {
      int from = 0, to = 0;
      Ints before = to_coords(dims, me), after = before;
      before[i] -= by;
      after[i] += by;
      MPI_Cart_shift(comm, i, by, &from, &to);
      CHECK(from == from_coords(dims, periods, before) && to == from_coords(dims, periods, after));
    }
  }
}

int undefined_topology(MPI_Comm comm) {
  int kind = 0;
  MPI_Topo_test(comm, &kind);
  return kind == MPI_UNDEFINED;
}

void duplicates(MPI_Comm comm, const Ints& dims, const Ints& periods) {
  MPI_Comm copy, later, part;
  MPI_Request request;
  MPI_Comm_dup(comm, &copy);
  MPI_Comm_idup(comm, &later, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (MPI_Comm* c : {&copy, &later}) {
    queries(*c, dims, periods);
    exchange(*c, grid_model(dims, periods));
    MPI_Comm_free(c);
  }
  MPI_Comm_split(comm, 0, 0, &part);
  CHECK(undefined_topology(part));
  MPI_Comm_free(&part);
}

/// Each subset of the dimensions.
void parts(MPI_Comm comm, const Ints& dims, const Ints& periods) {
  int me = 0;
  MPI_Comm_rank(comm, &me);
  const Ints at = to_coords(dims, me);
  for (int set = 0; set < 1 << dims.size(); ++set) {
    Ints stays, sub_dims, sub_periods, sub_at;
    for (size_t d = 0; d < dims.size(); ++d) {
      stays.push_back(set >> d & 1);
      if (!stays[d]) continue;
      sub_dims.push_back(dims[d]);
      sub_periods.push_back(periods[d]);
      sub_at.push_back(at[d]);
    }
    MPI_Comm sub;
    MPI_Cart_sub(comm, stays.data(), &sub);
    queries(sub, sub_dims, sub_periods);
    int mine = -1, sum = 0;
    MPI_Comm_rank(sub, &mine);
    CHECK(mine == from_coords(sub_dims, sub_periods, sub_at));
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, sub);
    int size = 0;
    MPI_Comm_size(sub, &size);
    CHECK(sum == size * (size - 1) / 2);
    MPI_Comm_free(&sub);
  }
}

void grid(const Ints& dims, const Ints& periods) {
  const int size = std::accumulate(dims.begin(), dims.end(), 1, std::multiplies<>());
  for (int reorder : {0, 1}) {
    MPI_Comm comm;
    MPI_Cart_create(MPI_COMM_WORLD, int(dims.size()), dims.data(), periods.data(), reorder, &comm);
    int mine = 0;
    MPI_Cart_map(MPI_COMM_WORLD, int(dims.size()), dims.data(), periods.data(), &mine);
    CHECK((comm == MPI_COMM_NULL) == (rank >= size));
    CHECK((mine == MPI_UNDEFINED) == (rank >= size));
    if (comm == MPI_COMM_NULL) continue;
    int me = 0;
    MPI_Comm_rank(comm, &me);
    CHECK(me == (reorder ? mine : rank));
    queries(comm, dims, periods);
    exchange(comm, grid_model(dims, periods));
    if (!reorder) {
      duplicates(comm, dims, periods);
      parts(comm, dims, periods);
    }
    MPI_Comm_free(&comm);
  }
}

void cartesian() {
  CHECK(undefined_topology(MPI_COMM_WORLD));
  for (int n = 1; n <= 3; ++n) {
    Ints dims(n);
    MPI_Dims_create(ranks, n, dims.data());
    for (int periodic = 0; periodic < 2; ++periodic) {
      Ints periods(n, periodic);
      if (n > 1) periods[0] = !periodic;
      grid(dims, periods);
    }
  }
  grid({}, {});
  grid({1, 1}, {1, 0});
  if (ranks > 1) grid({2}, {1});
  if (ranks > 2) grid({ranks - 1}, {0});
}

// --- graphs ---

void graph(unsigned seed) {
  std::mt19937 random(seed);
  const int nodes = 1 + int(random() % unsigned(ranks));
  std::vector<Ints> lists(nodes);
  for (unsigned i = random() % unsigned(3 * nodes); i > 0; --i) {
    const int a = int(random() % unsigned(nodes)), b = int(random() % unsigned(nodes));
    lists[a].push_back(b);
    if (a != b) lists[b].push_back(a);
  }
  Ints index, edges;
  for (const Ints& list : lists) {
    edges.insert(edges.end(), list.begin(), list.end());
    index.push_back(int(edges.size()));
  }
  const Model model{lists, lists};
  for (int reorder : {0, 1}) {
    MPI_Comm comm;
    int mine = 0, kind = 0, n = 0, m = 0, me = 0;
    MPI_Graph_create(MPI_COMM_WORLD, nodes, index.data(), edges.data(), reorder, &comm);
    MPI_Graph_map(MPI_COMM_WORLD, nodes, index.data(), edges.data(), &mine);
    CHECK((comm == MPI_COMM_NULL) == (rank >= nodes) && (mine == MPI_UNDEFINED) == (rank >= nodes));
    if (comm == MPI_COMM_NULL) continue;
    MPI_Comm_rank(comm, &me);
    CHECK(me == (reorder ? mine : rank));
    MPI_Topo_test(comm, &kind);
    MPI_Graphdims_get(comm, &n, &m);
    CHECK(kind == MPI_GRAPH && n == nodes && m == int(edges.size()));
    Ints got_index(n), got_edges(m);
    MPI_Graph_get(comm, n, m, got_index.data(), got_edges.data());
    CHECK(got_index == index && got_edges == edges);
    for (int r = 0; r < nodes; ++r) {
      int count = -1;
      MPI_Graph_neighbors_count(comm, r, &count);
      Ints list(count);
      MPI_Graph_neighbors(comm, r, count, list.data());
      CHECK(list == lists[r]);
    }
    exchange(comm, model);
    MPI_Comm_free(&comm);
  }
}

// --- distributed graphs ---

struct Edge {
  int from, to, weight, teller;
};

/// The lists that a graph's edges make, in the order in which the edges stand.
Model lists_of(const std::vector<Edge>& edges, std::vector<Ints>& in_weights, std::vector<Ints>& out_weights) {
  Model m;
  m.sources.resize(ranks);
  m.destinations.resize(ranks);
  in_weights.assign(ranks, {});
  out_weights.assign(ranks, {});
  for (const Edge& e : edges) {
    m.destinations[e.from].push_back(e.to);
    out_weights[e.from].push_back(e.weight);
    m.sources[e.to].push_back(e.from);
    in_weights[e.to].push_back(e.weight);
  }
  return m;
}

void has_lists(MPI_Comm comm, const Model& model, bool weighted, const std::vector<Ints>& in_weights,
               const std::vector<Ints>& out_weights) {
  int me = 0, in = -1, out = -1, has_weights = -1, kind = 0;
  MPI_Comm_rank(comm, &me);
  MPI_Topo_test(comm, &kind);
  MPI_Dist_graph_neighbors_count(comm, &in, &out, &has_weights);
  CHECK(kind == MPI_DIST_GRAPH && in == int(model.sources[me].size()) && out == int(model.destinations[me].size()) &&
        has_weights == int(weighted));
  Ints sources(in), destinations(out), w1(in), w2(out);
  if (weighted) {
    MPI_Dist_graph_neighbors(comm, in, sources.data(), w1.data(), out, destinations.data(), w2.data());
    CHECK(w1 == in_weights[me] && w2 == out_weights[me]);
  } else {
    MPI_Dist_graph_neighbors(comm, in, sources.data(), MPI_UNWEIGHTED, out, destinations.data(), MPI_UNWEIGHTED);
  }
  CHECK(sources == model.sources[me] && destinations == model.destinations[me]);
  Ints first(1, untouched);  // less room than neighbours: the first of them
  MPI_Dist_graph_neighbors(comm, in > 0, first.data(), MPI_UNWEIGHTED, 0, nullptr, MPI_UNWEIGHTED);
  CHECK(first[0] == (in > 0 ? sources[0] : untouched));
}

void distributed(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Edge> edges;
  for (unsigned i = random() % unsigned(4 * ranks); i > 0; --i)
    edges.push_back({int(random() % unsigned(ranks)), int(random() % unsigned(ranks)), int(random() % 9), int(random() % unsigned(ranks))});
  std::stable_sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.teller < b.teller; });
  const bool weighted = random() % 2;
  std::vector<Ints> in_weights, out_weights;
  const Model model = lists_of(edges, in_weights, out_weights);
  for (int reorder : {0, 1}) {
    MPI_Comm comm;
    Ints from, degrees, to, weights;
    for (const Edge& e : edges) {
      if (e.teller != rank) continue;
      if (from.empty() || from.back() != e.from) from.push_back(e.from), degrees.push_back(0);
      ++degrees.back();
      to.push_back(e.to);
      weights.push_back(e.weight);
    }
    int* const w = !weighted ? MPI_UNWEIGHTED : weights.empty() ? MPI_WEIGHTS_EMPTY : weights.data();
    MPI_Dist_graph_create(MPI_COMM_WORLD, int(from.size()), from.data(), degrees.data(), to.data(), w, MPI_INFO_NULL, reorder, &comm);
    has_lists(comm, model, weighted, in_weights, out_weights);
    exchange(comm, model);
    MPI_Comm_free(&comm);
    // The same edges, each told by both of its ends.
    const Ints &in = model.sources[rank], &out = model.destinations[rank];
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, int(in.size()), in.data(), weighted ? in_weights[rank].data() : MPI_UNWEIGHTED,
                                   int(out.size()), out.data(), weighted ? out_weights[rank].data() : MPI_UNWEIGHTED, MPI_INFO_NULL,
                                   reorder, &comm);
    has_lists(comm, model, weighted, in_weights, out_weights);
    exchange(comm, model);
    MPI_Comm_free(&comm);
  }
}

/// The hints that it was made with.
void hints() {
  MPI_Info info, got;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
  MPI_Comm comm;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, nullptr, MPI_WEIGHTS_EMPTY, 0, nullptr, MPI_WEIGHTS_EMPTY, info, 0, &comm);
  MPI_Comm_get_info(comm, &got);
  int found = 0, length = 8;
  char text[8] = "";
  MPI_Info_get_string(got, "mpi_assert_no_any_tag", &length, text, &found);
  CHECK(found && std::strcmp(text, "true") == 0);
  MPI_Info_free(&got);
  MPI_Info_free(&info);
  MPI_Comm_free(&comm);
}

// --- mistakes ---

#define FAILS(wanted, call) CHECK(check::error_class(call) == (wanted))

void mistakes_in_grids(MPI_Comm world) {
  MPI_Comm comm = MPI_COMM_NULL, line;
  int one = 1, zero = 0, minus = -1, many = 1 << 20, huge[3] = {1 << 20, 1 << 20, 1 << 20}, out[4], out2[4], out3[4];
  FAILS(MPI_ERR_DIMS, MPI_Cart_create(world, 1, &zero, &zero, 0, &comm));
  FAILS(MPI_ERR_DIMS, MPI_Cart_create(world, 1, &minus, &zero, 0, &comm));
  FAILS(MPI_ERR_DIMS, MPI_Cart_create(world, 1, &many, &zero, 0, &comm));
  FAILS(MPI_ERR_DIMS, MPI_Cart_create(world, 3, huge, huge, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Cart_create(world, -1, &one, &zero, 0, &comm));
  MPI_Cart_create(world, 1, &ranks, &zero, 0, &line);
  FAILS(MPI_ERR_ARG, MPI_Cart_rank(line, &minus, out));
  FAILS(MPI_ERR_ARG, MPI_Cart_rank(line, &ranks, out));
  FAILS(MPI_ERR_DIMS, MPI_Cart_shift(line, 1, 1, out, out2));
  FAILS(MPI_ERR_DIMS, MPI_Cart_shift(line, -1, 1, out, out2));
  FAILS(MPI_ERR_RANK, MPI_Cart_coords(line, ranks, 1, out));
  FAILS(MPI_ERR_RANK, MPI_Cart_coords(line, -1, 1, out));
  FAILS(MPI_ERR_ARG, MPI_Cart_coords(line, 0, 0, out));
  FAILS(MPI_ERR_ARG, MPI_Cart_get(line, 0, out, out2, out3));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Graphdims_get(line, out, out2));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Dist_graph_neighbors_count(line, out, out2, out3));
  MPI_Comm_free(&line);
  MPI_Cart_create(world, 0, nullptr, nullptr, 0, &comm);
  if (comm == MPI_COMM_NULL) return;
  FAILS(MPI_ERR_DIMS, MPI_Cart_shift(comm, 0, 1, out, out2));
  MPI_Comm_free(&comm);
}

void mistakes_in_graphs(MPI_Comm world) {
  MPI_Comm comm = MPI_COMM_SELF;
  int zero = 0, one = 1, minus = -1, out[4], falling[2] = {1, 0}, outside[1] = {ranks}, edges[2] = {0, 0};
  MPI_Graph_create(world, 0, nullptr, nullptr, 0, &comm);
  CHECK(comm == MPI_COMM_NULL);
  FAILS(MPI_ERR_ARG, MPI_Graph_create(world, ranks + 1, falling, edges, 0, &comm));
  FAILS(MPI_ERR_RANK, MPI_Graph_create(world, 1, &one, outside, 0, &comm));
  if (ranks > 1) FAILS(MPI_ERR_ARG, MPI_Graph_create(world, 2, falling, edges, 0, &comm));
  FAILS(MPI_ERR_RANK, MPI_Dist_graph_create(world, 1, outside, &one, &zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_RANK, MPI_Dist_graph_create(world, 1, &zero, &one, outside, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Dist_graph_create(world, 1, &zero, &minus, &zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Dist_graph_create(world, 1, &zero, &one, &zero, &minus, MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Dist_graph_create(world, 1, &zero, &one, &zero, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Dist_graph_create_adjacent(world, 1, &rank, MPI_UNWEIGHTED, 1, &rank, &one, MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Neighbor_allgather(&one, 1, MPI_INT, out, 1, MPI_INT, world));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(world, out));
  if (ranks == 1) return;
  // Whose edges do not go both ways, nobody can exchange along.
  Ints index(ranks, 1);
  MPI_Graph_create(world, ranks, index.data(), &one, 0, &comm);
  FAILS(MPI_ERR_TOPOLOGY, MPI_Neighbor_allgather(&one, 1, MPI_INT, out, 1, MPI_INT, comm));
  MPI_Comm_free(&comm);
}

void mistakes() {
  MPI_Comm world;
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  mistakes_in_grids(world);
  mistakes_in_graphs(world);
  MPI_Comm_free(&world);
}

}  // namespace

int main(int argc, char** argv) {
  check::begin(argc, argv);
  cartesian();
  for (unsigned seed = 1; seed <= 5; ++seed) graph(seed);
  for (unsigned seed = 1; seed <= 8; ++seed) distributed(seed);
  hints();
  mistakes();
  return check::end("topology");
}
