// Schedules of the neighbourhood collectives on random graphs and on grids.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "test/unit/coll/checker.h"

using namespace weft::coll;
using weft::coll::check::Question;
using weft::coll::check::verdict;

namespace {

using Graph = std::vector<Neighborhood>;

/// Edges drawn with loops and repetitions; both ends list them in an order of their own, but for those between the same two ranks.
Graph random_graph(std::mt19937& random, int32_t size) {
  Graph graph(static_cast<size_t>(size));
  const int edges = static_cast<int>(random() % static_cast<unsigned>(4 * size));
  std::vector<std::pair<Rank, Rank>> all;
  for (int i = 0; i < edges; ++i) all.emplace_back(random() % static_cast<unsigned>(size), random() % static_cast<unsigned>(size));
  std::shuffle(all.begin(), all.end(), random);
  for (auto [from, to] : all) graph[static_cast<size_t>(from)].destinations.push_back(to);
  std::shuffle(all.begin(), all.end(), random);
  for (auto [from, to] : all) graph[static_cast<size_t>(to)].sources.push_back(from);
  return graph;
}

/// A grid of two dimensions.
Graph grid(int32_t rows, int32_t columns, bool around) {
  Graph graph;
  for (Rank r = 0; r < rows * columns; ++r) {
    const auto at = [&](int32_t row, int32_t column) {
      const bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
      return inside || around ? wrap(row, rows) * columns + wrap(column, columns) : -3;
    };
    const int32_t row = r / columns, column = r % columns;
    const std::vector<Rank> all{at(row - 1, column), at(row + 1, column), at(row, column - 1), at(row, column + 1)};
    graph.push_back({all, all, true});
  }
  return graph;
}

void check_graph(const Graph& graph) {
  for (Pattern p : {Pattern::neighbor_allgather, Pattern::neighbor_alltoall}) {
    const Question q{p, static_cast<int32_t>(graph.size()), {}, true, &graph};
    for (const Algorithm& a : algorithms())
      if (a.pattern == p) CHECK(verdict(a, q) == "");
  }
}

}  // namespace

TEST_CASE("neighbours get each other's blocks on random graphs", "[serial]") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    check_graph(random_graph(random, 1 + static_cast<int32_t>(random() % 9)));
  }
}

TEST_CASE("neighbours get each other's blocks on grids, also where both neighbours are one rank", "[serial]") {
  for (int32_t rows : {1, 2, 3, 4})
    for (int32_t columns : {1, 2, 3, 5})
      for (bool around : {false, true}) {
        INFO(rows << " x " << columns << (around ? ", periodic" : ""));
        check_graph(grid(rows, columns, around));
      }
}

TEST_CASE("the checker notices mistakes among neighbours", "[serial][more]") {
  const Graph graph = grid(2, 3, true);
  const Question q{Pattern::neighbor_alltoall, 6, {}, true, &graph};
  const Algorithm& a = *find_algorithm(Pattern::neighbor_alltoall, "linear");
  std::vector<Schedule> good;
  for (Rank r = 0; r < 6; ++r) good.push_back(a.build({.neighborhood = &graph[static_cast<size_t>(r)]}, r, 6, {}));
  REQUIRE(verdict(q, good) == "");
  for (size_t i = 0; i < good[4].steps.size(); ++i) {
    auto bad = good;
    bad[4].steps[i].repeat = 0;
    CHECK(verdict(q, bad) != "");
    bad = good;
    bad[4].steps[i].a.block ^= 1;
    CHECK(verdict(q, bad) != "");
  }
}
