// Virtual topologies: balanced dims against brute force, grids, and where ranks go when they may be reordered.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "comm/topology/dims.h"
#include "comm/topology/reorder.h"

using namespace weft::comm;

namespace {

/// All ways to write `n` as `count` factors, the largest first; the first of them in the order of balance.
void least_factors(int n, int count, int most, std::vector<int>& so_far, std::vector<int>& best) {
  if (count == 0) {
    if (n == 1 && (best.empty() || so_far < best)) best = so_far;
    return;
  }
  for (int f = 1; f <= std::min(n, most); ++f) {
    if (n % f) continue;
    so_far.push_back(f);
    least_factors(n / f, count - 1, f, so_far, best);
    so_far.pop_back();
  }
}

/// `per_host` ranks on each host, with two packages of two NUMA nodes each; `around`: dealt out to the hosts one after the other.
std::vector<Place> cluster(int hosts, int per_host, bool around = false) {
  std::vector<Place> places;
  for (int r = 0; r < hosts * per_host; ++r) {
    const int host = around ? r % hosts : r / per_host, local = around ? r / hosts : r % per_host;
    const int quarter = std::max(1, per_host / 4);
    places.push_back({.host = static_cast<uint64_t>(host), .package = local / (2 * quarter), .numa = local / quarter, .core = local});
  }
  return places;
}

Traffic random_traffic(std::mt19937& random, int vertices, int edges) {
  std::vector<Edge> all;
  for (int i = 0; i < edges; ++i)
    all.push_back({static_cast<int>(random() % unsigned(vertices)), static_cast<int>(random() % unsigned(vertices)), int(random() % 9)});
  return {vertices, all};
}

bool is_permutation_of_ranks(Numbering numbering) {
  std::ranges::sort(numbering);
  return numbering == identity(static_cast<int32_t>(numbering.size()));
}

Grid torus(std::vector<int> dims) {
  std::vector<int> periods(dims.size(), 1);
  return {std::move(dims), std::move(periods)};
}

/// Groups of `clique` vertices that all talk to each other, dealt out one after the other, with thin threads between them.
Traffic cliques(int groups, int clique) {
  std::vector<Edge> edges;
  for (int v = 0; v < groups * clique; ++v) {
    edges.push_back({v, (v + 1) % (groups * clique), 1});
    for (int u = v + groups; u < groups * clique; u += groups) edges.push_back({v, u, 5});
  }
  return {groups * clique, edges};
}

}  // namespace

TEST_CASE("extents are as close to each other as can be") {
  for (int n = 1; n <= 1500; ++n) {
    for (int count = 1; count <= 6; ++count) {
      std::vector<int> so_far, best;
      least_factors(n, count, n, so_far, best);
      if (balanced_factors(n, count) != best) FAIL_CHECK(n << " in " << count << " dimensions");
    }
  }
}

TEST_CASE("extents of large numbers are found at once") {
  CHECK(balanced_factors(2147483647, 3) == std::vector<int>{2147483647, 1, 1});  // a prime
  CHECK(balanced_factors(1 << 30, 10) == std::vector<int>(10, 8));
  for (int n : {2095133040, 1396755360, 2147483646, 46340 * 46340, 6 * 7 * 11 * 13 * 17 * 19 * 23}) {
    for (int count = 1; count <= 30; ++count) {
      const auto factors = balanced_factors(n, count);
      int64_t product = 1;
      for (int f : factors) product *= f;
      CHECK(product == n);
      CHECK(std::ranges::is_sorted(factors, std::greater{}));
    }
  }
}

TEST_CASE("grids count their processes in row-major order") {
  Grid grid{{3, 4, 2}, {0, 1, 0}};
  REQUIRE(grid.size() == 24);
  for (int r = 0; r < 24; ++r) {
    const auto at = grid.coords_of(r);
    CHECK(at == std::vector<int>{r / 8, r / 2 % 4, r % 2});
    CHECK(grid.rank_at(at) == r);
  }
  CHECK(grid.rank_at(std::vector<int>{1, -5, 1}) == grid.rank_at(std::vector<int>{1, 3, 1}));
  CHECK(grid.rank_at(std::vector<int>{3, 0, 0}) == MPI_PROC_NULL);
  grid.coords = {0, 3, 1};
  CHECK(grid.shifted(0, -1) == MPI_PROC_NULL);
  CHECK(grid.shifted(1, 1) == grid.rank_at(std::vector<int>{0, 0, 1}));
  CHECK(grid.shifted(1, -INT64_C(2147483648)) == grid.rank_at(std::vector<int>{0, 3, 1}));
  CHECK(Grid{}.size() == 1);
  CHECK(Grid{}.rank_at({}) == 0);
}

TEST_CASE("graphs know whether all edges go both ways") {
  CHECK(Graph{{1, 2}, {1, 0}}.symmetric());
  CHECK(Graph{{3, 5}, {1, 0, 1, 0, 0}}.symmetric());
  CHECK_FALSE(Graph{{2, 3}, {1, 1, 0}}.symmetric());
  CHECK_FALSE(Graph{{1, 1}, {1}}.symmetric());
}

TEST_CASE("distances are those of the outermost level that parts ranks") {
  const Placement p(cluster(2, 8));
  CHECK(p.distance(3, 3) == 0);
  CHECK(p.distance(0, 1) < p.distance(0, 2));
  CHECK(p.distance(0, 2) < p.distance(0, 4));
  CHECK(p.distance(0, 4) < p.distance(0, 8));
  CHECK(p.distance(7, 15) == p.distance(0, 8));
  // Instances of the same number on different hosts are different ones; levels that part nobody are left out.
  CHECK(Placement(std::vector<Place>(5)).levels().empty());
  CHECK(Placement(std::vector<Place>{{.host = 1, .core = 0}, {.host = 2, .core = 0}}).levels().size() == 1);
}

TEST_CASE("reordering is never worse than leaving all as it is, on random graphs and placements") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const int n = 1 + static_cast<int>(random() % 40);
    std::vector<Place> places(static_cast<size_t>(n));
    for (Place& p : places) {
      p.host = random() % 4;
      p.package = random() % 3 ? static_cast<int>(random() % 2) : -1;
      p.core = random() % 2 ? static_cast<int>(random() % 8) : -1;
    }
    const Placement placement(places);
    const Traffic traffic = random_traffic(random, n, static_cast<int>(random() % unsigned(4 * n)));
    const Numbering numbering = arrange(traffic, placement);
    CHECK(is_permutation_of_ranks(numbering));
    CHECK(cost(traffic, placement, numbering) <= cost(traffic, placement, identity(n)));
    CHECK(arrange(traffic, placement) == numbering);
    const auto dims = balanced_factors(n, 2);
    const Grid grid{dims, {static_cast<int>(random() % 2), static_cast<int>(random() % 2)}};
    const Numbering on_grid = arrange(Traffic::of(grid), placement, &grid);
    CHECK(is_permutation_of_ranks(on_grid));
    CHECK(cost(Traffic::of(grid), placement, on_grid) <= cost(Traffic::of(grid), placement, identity(n)));
  }
}

TEST_CASE("reordering finds the best where it is known") {
  // A ring crosses each of 4 hosts' borders once.
  const Grid ring = torus({32});
  std::vector<Place> places;
  for (int r = 0; r < 32; ++r) places.push_back({.host = static_cast<uint64_t>(r % 4)});
  const Placement placement(places);
  const int64_t step = placement.distance(0, 1);
  CHECK(cost(Traffic::of(ring), placement, identity(32)) == 32 * step);
  CHECK(cost(Traffic::of(ring), placement, arrange(Traffic::of(ring), placement, &ring)) == 4 * step);
  // A grid of 8 x 4 without borders around it: four blocks of 4 x 2 have 8 + 4 edges between them.
  const Grid flat{{8, 4}, {0, 0}};
  CHECK(cost(Traffic::of(flat), placement, arrange(Traffic::of(flat), placement, &flat)) == 12 * step);
  // Cliques stay together.
  const Traffic groups = cliques(4, 8);
  CHECK(cost(groups, placement, arrange(groups, placement)) == 32 * step);
}

TEST_CASE("reordering crosses as few switches as it can") {
  const auto network = weft::topo::Network::parse(
      "SwitchName=s1 Nodes=n[0,2,4,6]\nSwitchName=s2 Nodes=n[1,3,5,7]\nSwitchName=top Switches=s[1-2]\n", "file");
  REQUIRE(network);
  std::vector<Place> places;  // 8 hosts of 4 ranks: racks take turns with every host
  for (uint64_t r = 0; r < 32; ++r) {
    places.push_back({.host = r / 4});
    put_switches(places.back(), *network->above("n" + std::to_string(r / 4)));
  }
  const Placement placement(places);
  const auto between_racks = [&](const Traffic& traffic, const Numbering& numbering) {
    int edges = 0;
    for (int32_t v = 0; v < traffic.vertices(); ++v)
      for (const auto& other : traffic.of(v))
        edges += v < other.vertex && places[static_cast<size_t>(numbering[static_cast<size_t>(v)])].switches !=
                                         places[static_cast<size_t>(numbering[static_cast<size_t>(other.vertex)])].switches;
    return edges;
  };
  const Grid ring = torus({32}), flat{{8, 4}, {0, 0}};
  CHECK(between_racks(Traffic::of(ring), identity(32)) == 8);
  CHECK(between_racks(Traffic::of(ring), arrange(Traffic::of(ring), placement, &ring)) == 2);
  CHECK(between_racks(Traffic::of(flat), identity(32)) == 28);
  CHECK(between_racks(Traffic::of(flat), arrange(Traffic::of(flat), placement, &flat)) == 4);
  // Hosts that the file does not name are together, apart from those that it does.
  Place stranger{.host = 9}, known = places[0];
  CHECK(Placement(std::vector<Place>{known, stranger}).distance(0, 1) > placement.distance(0, 4));
  CHECK(placement.distance(0, 4) > placement.distance(0, 8));
  CHECK(placement.distance(0, 8) == Placement(std::vector<Place>{stranger, {.host = 10}}).distance(0, 1));
}

TEST_CASE("a ring told as a graph, whose members sit apart, is cut once for each host") {
  for (const int size : {16, 64}) {
    std::vector<Edge> edges;
    for (int v = 0; v < size; ++v) edges.push_back({v, (v + 3) % size, 1});
    const Traffic ring(size, edges);
    const Placement placement(cluster(4, size / 4));
    const Numbering at = arrange(ring, placement, nullptr);
    int cut = 0;
    for (const Edge& e : edges)
      cut += at[static_cast<size_t>(e.source)] / (size / 4) != at[static_cast<size_t>(e.destination)] / (size / 4);
    CHECK(cut == 4);
  }
}

TEST_CASE("reordering many ranks ends soon") {
  const Grid grid{{32, 16, 8}, {1, 1, 1}};
  const Placement placement(cluster(64, 64, true));
  const Traffic traffic = Traffic::of(grid);
  CHECK(2 * cost(traffic, placement, arrange(traffic, placement, &grid)) < cost(traffic, placement, identity(grid.size())));
}

namespace {

std::string row(const char* what, const char* where, const Traffic& traffic, const std::vector<Place>& places, const Grid* grid) {
  const Placement placement(places);
  const int64_t before = cost(traffic, placement, identity(traffic.vertices()));
  const int64_t after = cost(traffic, placement, arrange(traffic, placement, grid));
  CHECK(after <= before);
  std::ostringstream text;
  text << "| " << what << " | " << where << " | " << before << " | " << after << " | "
       << (before - after) * 100 / std::max<int64_t>(1, before) << " % |\n";
  return text.str();
}

std::string grid_rows(const char* what, const Grid& grid, int hosts) {
  const Traffic traffic = Traffic::of(grid);
  const int each = grid.size() / hosts;
  const std::string where = std::to_string(hosts) + " hosts of " + std::to_string(each) + " ranks";
  return row(what, (where + ", one host after the other").c_str(), traffic, cluster(hosts, each), &grid) +
         row(what, (where + ", dealt out").c_str(), traffic, cluster(hosts, each, true), &grid);
}

std::string table() {
  std::string text = "| Topology | Ranks are on | Cost as they are | Cost reordered | Saved |\n|---|---|---:|---:|---:|\n";
  text += grid_rows("grid 8 x 4", {{8, 4}, {0, 0}}, 4);
  text += grid_rows("torus 4 x 8", torus({4, 8}), 4);
  text += grid_rows("torus 16 x 16", torus({16, 16}), 8);
  text += grid_rows("torus 8 x 8 x 8", torus({8, 8, 8}), 16);
  text += grid_rows("torus 5 x 6 (blocks do not fit)", torus({5, 6}), 3);
  text += grid_rows("ring of 64", torus({64}), 8);
  const Traffic groups = cliques(4, 8);
  text += row("graph of 4 cliques of 8", "4 hosts of 8 ranks, one host after the other", groups, cluster(4, 8), nullptr);
  std::mt19937 random(1);
  text += row("random graph, 64 vertices, 128 edges", "4 hosts of 16 ranks, one host after the other", random_traffic(random, 64, 128),
              cluster(4, 16), nullptr);
  return text;
}

}  // namespace

TEST_CASE("the table in docs/topologies.md is what reordering saves") {
  const std::string path = WEFT_DOCS "/topologies.md", begin = "<!-- table -->\n", end = "<!-- end of table -->";
  std::stringstream file;
  file << std::ifstream(path).rdbuf();
  std::string text = file.str();
  const size_t first = text.find(begin) + begin.size(), last = text.find(end);
  REQUIRE(last != std::string::npos);
  const std::string now = table();
  if (std::getenv("WEFT_WRITE_DOCS")) std::ofstream(path) << text.replace(first, last - first, now);
  CHECK(text.substr(first, text.find(end) - first) == now);
}
