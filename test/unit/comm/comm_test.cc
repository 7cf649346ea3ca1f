// Groups against a plain model, communicators with ranks as threads.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "comm/create.h"
#include "comm/group.h"
#include "runtime/config/config.h"
#include "runtime/type/predefined.h"

using namespace weft;
using namespace weft::comm;

namespace {

void need(bool holds, const char* what, int line) {
  if (!holds) throw std::runtime_error(std::string(what) + " (line " + std::to_string(line) + ")");
}
#define NEED(x) need(static_cast<bool>(x), #x, __LINE__)

/// Runs `body` with an initialised MPI on each of `size` threads; returns what failed.
std::vector<std::string> on_ranks(uint32_t size, uint32_t nodes, const std::function<void(Instance&)>& body) {
  auto boots = boot::open_fake(size, nodes);
  std::vector<std::string> complaints(size);
  std::vector<std::thread> ranks;
  for (uint32_t r = 0; r < size; ++r)
    ranks.emplace_back([&, r] {
      auto instance = Instance::open(std::move(boots[r]), false);
      if (!instance) {
        complaints[r] = instance.failure().text;
        return;
      }
      try {
        body(**instance);
        NEED((*instance)->close() == Status::ok);
      } catch (const std::exception& e) {
        complaints[r] = e.what();
        (*instance)->boot().abort(1, e.what());
      }
    });
  for (auto& rank : ranks) rank.join();
  std::erase(complaints, "");
  return complaints;
}

int sum_ranks(Communicator& comm) {
  int mine = comm.rank(), sum = 0;
  coll::Call call;
  call.what = coll::Collective::allreduce;
  call.in = &mine;
  call.out = &sum;
  call.in_count = call.out_count = 1;
  call.in_type = call.out_type = &type::of(type::Basic::int32);
  op::Op add;
  add.id = op::OpId::sum;
  call.op = &add;
  NEED(coll::run(*comm.coll, call) == MPI_SUCCESS);
  return sum;
}

std::vector<uint32_t> ranks_of(const Group& group) {
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < group.members->size(); ++i) ranks.push_back(group.members->at(i).rank);
  return ranks;
}

Group* group_of(Instance& instance, const std::vector<uint32_t>& ranks) {
  std::vector<ProcessId> members;
  for (uint32_t r : ranks) members.push_back({0, r});
  return make_group(instance, std::move(members));
}

std::vector<uint32_t> random_subset(std::mt19937& random, uint32_t universe) {
  std::vector<uint32_t> all(universe);
  for (uint32_t i = 0; i < universe; ++i) all[i] = i;
  const uint32_t stride = 1 + random() % 3;
  if (random() % 2) std::shuffle(all.begin(), all.end(), random);
  std::vector<uint32_t> chosen;
  const size_t most = random() % (universe + 1);
  for (size_t i = 0; i < all.size() && chosen.size() < most; i += stride) chosen.push_back(all[i]);
  return chosen;
}

void group_algebra(Instance& instance, unsigned seed) {
  std::mt19937 random(seed);
  const auto a = random_subset(random, 60), b = random_subset(random, 60);
  Group *ga = group_of(instance, a), *gb = group_of(instance, b);
  const auto in = [](const std::vector<uint32_t>& v, uint32_t x) { return std::ranges::find(v, x) != v.end(); };
  std::vector<uint32_t> both, only_a, joined = a;
  for (uint32_t x : a) (in(b, x) ? both : only_a).push_back(x);
  for (uint32_t x : b)
    if (!in(a, x)) joined.push_back(x);
  Group *u = group_union(*ga, *gb), *i = group_intersection(*ga, *gb), *d = group_difference(*ga, *gb);
  NEED(ranks_of(*u) == joined && ranks_of(*i) == both && ranks_of(*d) == only_a);
  NEED(!both.empty() || i == &empty_group());
  const auto as_set = [](const auto& v) { return std::set<uint32_t>(v.begin(), v.end()); };
  const int expected = a == b ? MPI_IDENT : as_set(a) == as_set(b) ? MPI_SIMILAR : MPI_UNEQUAL;
  NEED(compare(*ga->members, *gb->members) == expected);
  std::vector<int> all(a.size()), there(a.size());
  for (size_t k = 0; k < a.size(); ++k) all[k] = int(k);
  translate(*ga, all, *gb, there.data());
  for (size_t k = 0; k < a.size(); ++k) {
    const auto at = std::ranges::find(b, a[k]);
    NEED(there[k] == (at == b.end() ? MPI_UNDEFINED : int(at - b.begin())));
  }
  for (Group* g : {ga, gb, u, i, d}) release(g);
}

}  // namespace

TEST_CASE("groups behave like ordered sets") {
  const auto failures = on_ranks(1, 1, [](Instance& instance) {
    for (unsigned seed = 1; seed <= 400; ++seed) group_algebra(instance, seed);
  });
  CHECK(failures == std::vector<std::string>{});
}

TEST_CASE("ranges of a group are expanded and checked") {
  const auto failures = on_ranks(1, 1, [](Instance& instance) {
    Group* ten = make_group(instance, std::make_shared<pml::Members>(pml::Members::range(0, 10)));
    std::vector<int> ranks;
    const RankRange down[] = {{9, 1, -4}, {0, 0, 7}};
    NEED(expand_ranges(*ten, down, ranks) == MPI_SUCCESS && (ranks == std::vector<int>{9, 5, 1, 0}));
    const RankRange zero[] = {{0, 3, 0}}, away[] = {{3, 0, 1}}, outside[] = {{0, 10, 1}}, twice[] = {{0, 3, 1}, {2, 2, 1}};
    for (auto [range, error] : {std::pair{zero, MPI_ERR_ARG}, {away, MPI_ERR_ARG}, {outside, MPI_ERR_RANK}}) {
      ranks.clear();
      NEED(expand_ranges(*ten, std::span(range, 1), ranks) == error);
    }
    ranks.clear();
    NEED(expand_ranges(*ten, twice, ranks) == MPI_ERR_RANK);
    release(ten);
  });
  CHECK(failures == std::vector<std::string>{});
}

TEST_CASE("communicators split, duplicate and come from groups") {
  for (uint32_t size : {1u, 2u, 3u, 5u, 8u}) {
    const auto failures = on_ranks(size, 1, [size](Instance& instance) {
      Communicator& world = *instance.world();
      const int n = int(size);
      Communicator *copy = nullptr, *part = nullptr, *grouped = nullptr;
      NEED(dup(world, nullptr, &copy) == MPI_SUCCESS && compare(world, *copy) == MPI_CONGRUENT);
      NEED(sum_ranks(*copy) == n * (n - 1) / 2);
      NEED(split(world, world.rank() % 3, -world.rank(), &part) == MPI_SUCCESS);
      const int members = (n - world.rank() % 3 + 2) / 3;
      NEED(part->size() == members && sum_ranks(*part) == members * (members - 1) / 2);
      NEED(part->rank() == members - 1 - world.rank() / 3);
      Group* odd = group_of(instance, [&] {
        std::vector<uint32_t> v;
        for (uint32_t r = size; r-- > 0;)
          if (r % 2 || size == 1) v.push_back(r);
        return v;
      }());
      NEED(create_group(world, *odd, 5, &grouped) == MPI_SUCCESS);
      NEED((grouped != nullptr) == (odd->rank != MPI_UNDEFINED));
      if (grouped) {
        NEED(sum_ranks(*grouped) == grouped->size() * (grouped->size() - 1) / 2);
        NEED(comm::free(*grouped) == MPI_SUCCESS);
      }
      release(odd);
      NEED(comm::free(*part) == MPI_SUCCESS && comm::free(*copy) == MPI_SUCCESS);
    });
    CHECK(failures == std::vector<std::string>{});
  }
}

TEST_CASE("context ids are never shared by communicators that overlap") {
  std::vector<std::set<pml::Context>> seen(4);
  const auto failures = on_ranks(4, 1, [&seen](Instance& instance) {
    auto& mine = seen[instance.job().rank];
    std::vector<Communicator*> alive;
    for (int round = 0; round < 30; ++round) {
      Communicator* made = nullptr;
      if (round % 2)
        NEED(dup(*instance.world(), nullptr, &made) == MPI_SUCCESS);
      else
        NEED(split(*instance.world(), instance.world()->rank() / 2, 0, &made) == MPI_SUCCESS);
      NEED(mine.insert(made->team->context()).second);
      NEED(made->team->context() % 2 == 0);
      alive.push_back(made);
    }
    for (Communicator* comm : alive) NEED(comm::free(*comm) == MPI_SUCCESS);
  });
  CHECK(failures == std::vector<std::string>{});
}

TEST_CASE("a shared split follows the hosts") {
  // The pretended hosts are one machine, perhaps without a network: let them talk over the loopback interface.
  config::Variable* interfaces = config::find("WEFT_NET_INTERFACES");
  REQUIRE(interfaces);
  const std::string before = interfaces->text();
  interfaces->set("lo", config::Origin::program);
  const auto failures = on_ranks(6, 3, [](Instance& instance) {
    Communicator* host = nullptr;
    NEED(split_type(*instance.world(), MPI_COMM_TYPE_SHARED, 0, nullptr, &host) == MPI_SUCCESS);
    NEED(host->size() == 2);
    NEED(comm::free(*host) == MPI_SUCCESS);
    NEED(split_type(*instance.world(), MPI_COMM_TYPE_HW_UNGUIDED, 0, nullptr, &host) == MPI_SUCCESS && host && host->size() == 2);
    Communicator* none = nullptr;
    NEED(split_type(*host, MPI_COMM_TYPE_HW_UNGUIDED, 0, nullptr, &none) == MPI_SUCCESS && !none);
    NEED(comm::free(*host) == MPI_SUCCESS);
  });
  CHECK(failures == std::vector<std::string>{});
  interfaces->set(before, config::Origin::program);
}
