// The cost model: against closed forms on simple machines, counts by hand, and itself in full.
#include "coll/model.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "coll/hosts.h"

using namespace weft;
using namespace weft::coll;

namespace {

constexpr double kSend = 3, kLatency = 100, kReceive = 5, kAlpha = kSend + kLatency + kReceive, kBeta = 0.5, kGamma = 0.25, kCopy = 0.125;

/// The same between any two ranks.
Machine flat() {
  Machine m;
  m.paths.fill({.latency = kLatency, .per_byte = kBeta, .send = kSend, .receive = kReceive});
  m.host_link = 0;
  m.reduce = kGamma;
  m.copy = kCopy;
  return m;
}

Price cost(Pattern pattern, const char* name, const Agreed& agreed, const Shape& shape, const Machine& machine, int32_t segments = 1) {
  const Algorithm* const algorithm = find_algorithm(pattern, name);
  REQUIRE(algorithm);
  Agreed a = agreed;
  a.pattern = pattern;
  a.size = shape.ranks();
  const auto found = price(*algorithm, a, segments, shape, machine);
  if (!found) FAIL(name << ": " << found.failure().text);
  return *found;
}

/// On one host, of n bytes.
double time_of(Pattern pattern, const char* name, int32_t size, uint64_t n, int32_t segments = 1, const Machine& machine = flat()) {
  return cost(pattern, name, {.bytes = n}, Shape::blocks(size, 1), machine, segments).time.at;
}

int ceil_log2(int32_t n) {
  int log = 0;
  while ((1 << log) < n) ++log;
  return log;
}

bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

/// Each of the first ranks sends n bytes to one of those behind.
std::vector<Schedule> senders(const std::vector<std::pair<Rank, Rank>>& pairs, int32_t size) {
  std::vector<Builder> all(static_cast<size_t>(size), Builder(1));
  for (const auto& [from, to] : pairs) {
    all[static_cast<size_t>(from)].send(to, {buffer_in, 0});
    all[static_cast<size_t>(to)].receive(from, {buffer_out, 0});
  }
  std::vector<Schedule> schedules;
  for (Builder& b : all) schedules.push_back(b.done());
  return schedules;
}

}  // namespace

TEST_CASE("closed forms of algorithms on powers of two", "[serial]") {
  for (int32_t p : {2, 4, 8, 32, 128}) {
    const double log = ceil_log2(p), n = 4096, part = n * (p - 1) / p;
    INFO(p << " ranks");
    CHECK(close(time_of(Pattern::bcast, "binomial", p, 4096), log * (kAlpha + n * kBeta)));
    CHECK(close(time_of(Pattern::allreduce, "recursive_doubling", p, 4096), log * (kAlpha + n * (kBeta + kGamma))));
    CHECK(close(time_of(Pattern::allreduce, "rabenseifner", p, 4096), 2 * log * kAlpha + part * (2 * kBeta + kGamma)));
    CHECK(close(time_of(Pattern::allreduce, "swing", p, 4096), 2 * log * kAlpha + part * (2 * kBeta + kGamma)));
    CHECK(close(time_of(Pattern::allgather, "recursive_doubling", p, 4096), log * kAlpha + n * (p - 1) * kBeta));
    CHECK(close(time_of(Pattern::reduce_scatter, "recursive_halving", p, 4096), log * kAlpha + part * (kBeta + kGamma) + n / p * kCopy));
  }
}

TEST_CASE("closed forms of algorithms on any number of ranks", "[serial]") {
  for (int32_t p : {2, 3, 5, 8, 13, 64}) {
    const double n = 5200, block = n / p;
    INFO(p << " ranks");
    CHECK(time_of(Pattern::allgather, "pat", p, 5200) < n * (1 + 2 * p) * kCopy + ceil_log2(p) * kAlpha + n * (p - 1) * kBeta);
    CHECK(close(time_of(Pattern::barrier, "dissemination", p, 0), ceil_log2(p) * kAlpha));
    CHECK(close(time_of(Pattern::allreduce, "ring", p, 5200), (p - 1) * (2 * (kAlpha + block * kBeta) + block * kGamma)));
    CHECK(close(time_of(Pattern::allgather, "ring", p, 5200), (p - 1) * (kAlpha + n * kBeta)));  // own blocks are copied meanwhile
    CHECK(close(time_of(Pattern::alltoall, "pairwise", p, 5200), n * kCopy + (p - 1) * (kAlpha + n * kBeta)));
    CHECK(close(time_of(Pattern::gather, "linear", p, 5200), kAlpha + (p - 1) * n * kBeta));
    CHECK(close(time_of(Pattern::bcast, "binomial", p, 5200), ceil_log2(p) * (kAlpha + n * kBeta)) == is_power_of_two(p));
  }
}

TEST_CASE("a pipeline without latency is as long as its ranks and segments", "[serial]") {
  Machine m = flat();
  m.paths.fill({.per_byte = kBeta});
  for (int32_t p : {2, 3, 9, 40}) {
    for (int32_t segments : {1, 2, 16}) {
      CHECK(close(time_of(Pattern::bcast, "chain", p, 4096, segments, m), (p - 2 + segments) * 4096. / segments * kBeta));
    }
  }
}

TEST_CASE("every algorithm has a price, on any number of ranks", "[serial]") {
  const Machine machine;
  for (const Algorithm& a : algorithms()) {
    if (among_neighbors(a.pattern)) continue;
    for (int32_t size = 1; size <= 17; ++size) {
      for (int32_t hosts : {1, 2, 5}) {
        if (hosts > size) continue;
        const Shape shape = Shape::blocks(size, hosts, 2, 3);
        const Hosts places(shape.host_of_ranks());
        for (bool commutative : {true, false}) {
          for (Rank root : {0, size - 1}) {
            if (!a.usable({.hosts = &places}, size, {.root = root, .commutative = commutative}, false)) continue;
            Agreed agreed{.pattern = a.pattern, .size = size, .root = root, .bytes = 1000, .commutative = commutative};
            const int32_t segments = a.segmented ? 7 : 1;
            const auto found = price(a, agreed, segments, shape, machine);
            INFO(to_string(a.pattern) << " " << a.name << " on " << size << " ranks, root " << root);
            if (!found) FAIL(found.failure().text);
            const Clock& t = found->time;
            CHECK(close(t.at, t.latency + t.transfer + t.waiting + t.work));
            CHECK(((t.at > 0) == (size > 1) || t.latency == 0));
            CHECK(t.hops >= (ceil_log2(size) + 1) / 2 * (a.pattern == Pattern::barrier));  // of four ways at most
            CHECK_FALSE(found->shortened);
            agreed.bytes = 0;
            if (a.pattern != Pattern::barrier) CHECK(price(a, agreed, segments, shape, machine)->time.at == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("more bytes and longer ways cost more", "[serial]") {
  // Where nothing is shared: on links that are, what comes a little later may find its way free sooner.
  for (const Algorithm& a : algorithms()) {
    if (among_neighbors(a.pattern)) continue;
    for (int32_t size = 2; size <= 17; ++size) {
      if (!a.usable({}, size, {}, false)) continue;
      double before = 0;
      for (uint64_t bytes : {100, 1000, 5000, 100000}) {
        const double now = time_of(a.pattern, a.name, size, bytes, a.segmented ? 7 : 1);
        CHECK((a.pattern == Pattern::barrier ? now >= before : now > before));
        before = now;
      }
      Machine slower = flat();
      for (Path& path : slower.paths) path.latency *= 2;
      CHECK(time_of(a.pattern, a.name, size, 1000, 1, slower) > time_of(a.pattern, a.name, size, 1000));
    }
  }
}

TEST_CASE("crossings are counted", "[serial]") {
  const Machine machine;
  const Shape two = Shape::blocks(8, 2);
  const Traffic tree = cost(Pattern::bcast, "binomial", {.bytes = 100}, two, machine).traffic;
  CHECK(tree.messages == 7);
  CHECK(tree.bytes == 700);
  CHECK(tree.between_hosts == 1);
  CHECK(tree.busiest_host_link == 100);
  CHECK(tree.between_switches == 0);

  const Traffic doubling = cost(Pattern::allreduce, "recursive_doubling", {.bytes = 100}, two, machine).traffic;
  CHECK(doubling.messages == 24);
  CHECK(doubling.between_hosts == 8);  // the last round
  CHECK(doubling.busiest_host_link == 400);

  // Of each half of a ring of hosts, Swing's second step sends a quarter out at both ends, its third one an eighth across.
  const Shape halves = Shape::blocks(8, 8, 4);
  const Traffic swing = cost(Pattern::allreduce, "swing", {.bytes = 800}, halves, machine).traffic;
  CHECK(swing.messages == 2 * 3 * 8);
  CHECK(swing.between_switches == 2 * (4 + 4));
  CHECK(swing.bytes_between_switches == 2 * (4 * 200 + 4 * 100));
  CHECK(swing.busiest_uplink == 2 * (2 * 200 + 2 * 100));
  const Traffic halving = cost(Pattern::allreduce, "rabenseifner", {.bytes = 800}, halves, machine).traffic;
  CHECK(halving.bytes == swing.bytes);
  CHECK(halving.bytes_between_switches == 2 * 8 * 100);  // the third step alone

  const Shape racks = Shape::blocks(8, 4, 2);
  const Traffic ring = cost(Pattern::allgather, "ring", {.bytes = 10}, racks, machine).traffic;
  CHECK(ring.messages == 56);
  CHECK(ring.between_hosts == 4 * 7);
  CHECK(ring.between_switches == 2 * 7);
  CHECK(ring.busiest_host_link == 70);
  CHECK(ring.bytes_between_switches == 140);
  CHECK(ring.busiest_uplink == 70);

  const Traffic pairs = cost(Pattern::alltoall, "pairwise", {.bytes = 10}, racks, machine).traffic;
  CHECK(pairs.messages == 56);
  CHECK(pairs.between_hosts == 48);
  CHECK(pairs.between_switches == 32);
  CHECK(pairs.busiest_host_link == 120);
  CHECK(pairs.busiest_uplink == 160);
  const Traffic linear = cost(Pattern::alltoall, "linear", {.bytes = 10}, racks, machine).traffic;
  CHECK(linear.between_hosts == 48);
  CHECK(linear.busiest_uplink == 160);
}

TEST_CASE("messages share a host's link, and a switch's", "[serial]") {
  Machine m = flat();
  m.host_link = kBeta;
  const double n = 1000, alone = kAlpha + n * kBeta;
  const auto end = [&](const std::vector<std::pair<Rank, Rank>>& pairs, const Shape& shape) {
    return price(senders(pairs, shape.ranks()), n, shape, m)->time;
  };
  const Shape hosts = Shape::blocks(8, 4);
  CHECK(close(end({{0, 2}}, hosts).at, alone));
  CHECK(close(end({{0, 2}, {1, 3}}, hosts).at, alone + n * kBeta));  // out of one host
  CHECK(close(end({{0, 4}, {2, 5}}, hosts).at, alone + n * kBeta));  // into one host
  CHECK(close(end({{0, 2}, {1, 3}}, hosts).waiting, n * kBeta));
  CHECK(close(end({{0, 2}, {4, 6}}, hosts).at, alone));          // nothing shared
  CHECK(close(end({{0, 2}, {2, 1}}, hosts).at, alone));          // one out, one in
  CHECK(close(end({{0, 1}, {2, 3}, {1, 0}}, hosts).at, alone));  // no link at all
  CHECK(close(end({{0, 2}, {4, 2}}, Shape::blocks(8, 8)).at, alone + n * kBeta));
  const Shape racks = Shape::blocks(8, 8, 4);
  CHECK(close(end({{0, 4}, {1, 5}}, racks).at, alone));
  m.uplink = 2 * kBeta;
  CHECK(close(end({{0, 4}, {1, 5}}, racks).at, kAlpha + 2 * n * 2 * kBeta));
  CHECK(close(end({{0, 1}, {2, 3}}, racks).at, alone));
}

TEST_CASE("shortened loops cost about what whole ones do", "[serial][more]") {
  const Machine machine;
  int shortened = 0;
  for (const Algorithm& a : algorithms()) {
    if (among_neighbors(a.pattern)) continue;
    for (int32_t hosts : {1, 12}) {
      const Shape shape = Shape::blocks(192, hosts, 4);
      const Agreed agreed{.pattern = a.pattern, .size = 192, .bytes = 65536};
      const Hosts places(shape.host_of_ranks());
      if (!a.usable({.hosts = &places}, agreed.size, {}, false)) continue;
      const auto part = price(a, agreed, 16, shape, machine, 10000), whole = price(a, agreed, 16, shape, machine);
      INFO(to_string(a.pattern) << " " << a.name << " on " << hosts << " hosts");
      REQUIRE((part && whole));
      shortened += part->shortened;
      CHECK(part->time.at == Approx(whole->time.at).epsilon(part->shortened ? 0.15 : 1e-9));
      CHECK(part->traffic.between_hosts == whole->traffic.between_hosts);
    }
  }
  CHECK(shortened > 6);
}

TEST_CASE("loops that differ from rank to rank are walked whole", "[serial]") {
  const Algorithm& a = *find_algorithm(Pattern::reduce_scatter, "pairwise");
  for (int32_t size : {100, 101, 257}) {
    const Agreed agreed{.pattern = a.pattern, .size = size, .bytes = 1000, .commutative = false};
    const Shape shape = Shape::blocks(size, 4);
    const auto part = price(a, agreed, 1, shape, Machine{}, 1000), whole = price(a, agreed, 1, shape, Machine{});
    REQUIRE((part && whole));
    CHECK_FALSE(part->shortened);
    CHECK(part->time.at == whole->time.at);
  }
}

TEST_CASE("schedules that do not come to an end have no price", "[serial]") {
  const Shape shape = Shape::blocks(2, 1);
  std::vector<Schedule> both;
  for (Rank me : {0, 1}) both.push_back(Builder(1).receive(1 - me, {buffer_out, 0}).next().send(1 - me, {buffer_in, 0}).done());
  CHECK_FALSE(price(both, 8, shape, flat()));
  const std::vector<Schedule> unwanted = {Builder(1).send(1, {buffer_in, 0}).done(), Schedule{}};
  CHECK_FALSE(price(unwanted, 8, shape, flat()));
  const Agreed graph{.pattern = Pattern::neighbor_alltoall, .size = 2, .bytes = 8};
  CHECK_FALSE(price(*find_algorithm(graph.pattern, "linear"), graph, 1, shape, flat()));
}

TEST_CASE("shapes", "[serial]") {
  const Shape uneven = Shape::blocks(7, 3, 2, 2);
  std::vector<int32_t> hosts, leaves;
  for (Rank r = 0; r < 7; ++r) {
    hosts.push_back(uneven.host(r));
    leaves.push_back(uneven.leaf(r));
  }
  CHECK(hosts == std::vector<int32_t>{0, 0, 0, 1, 1, 2, 2});
  CHECK(leaves == std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1});
  CHECK(uneven.level(0, 1) == Level::cache);
  CHECK(uneven.level(1, 2) == Level::host);
  CHECK(uneven.level(2, 3) == Level::leaf);
  CHECK(uneven.level(5, 4) == Level::far);

  const auto network = topo::Network::parse("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=t Switches=a,b", "f");
  REQUIRE(network);
  const auto shape = Shape::on(*network, 8, 4);
  REQUIRE(shape);
  CHECK(shape->leaves() == 2);
  CHECK(shape->level(2, 1) == Level::leaf);
  CHECK(shape->level(2, 4) == Level::far);
  CHECK_FALSE(Shape::on(*network, 8, 5));
}

TEST_CASE("a machine's numbers by name", "[serial]") {
  Machine m;
  CHECK(set_fields(m, "leaf.latency=1500,host_link=0.04") == "");
  CHECK(m.path(Level::leaf).latency == 1500);
  CHECK(m.host_link == 0.04);
  for (const char* wrong : {"leaf=3", "copy", "copy=", "copy=-1", "copy=nan", "copy=inf", "copy=1x", "=", "reduce=1e999"})
    CHECK(set_fields(m, wrong).find('"') == 0);
  for (const MachineField& field : machine_fields()) {
    CHECK(set_fields(m, std::string(field.name) + "=7.5") == "");
    CHECK(field.of(m) == 7.5);
  }
}

TEST_CASE("candidates are sorted, and among them is what runs", "[serial]") {
  const Machine machine;
  for (int p = 0; p < static_cast<int>(Pattern::neighbor_allgather); ++p) {
    for (uint64_t bytes : {8u, 100000u}) {
      const Agreed a{.pattern = static_cast<Pattern>(p), .size = 12, .bytes = bytes};
      const auto all = candidates(a, Shape::blocks(12, 3), machine);
      const Choice taken = choose(of_class(a), {});
      bool found = false;
      for (size_t i = 0; i < all.size(); ++i) {
        CHECK(all[i].unpriced == "");
        if (i > 0) CHECK(all[i].price.time.at >= all[i - 1].price.time.at);
        found = found || (all[i].algorithm == taken.algorithm && all[i].segments == taken.segments);
      }
      CHECK(found);
    }
  }
}
