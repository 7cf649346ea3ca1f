// The verbs transport over a pretended device: what becomes of slots for messages when ways are lost and opened anew.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <set>

#include "btl/verbs/flow.h"
#include "btl/verbs/rail.h"
#include "test/unit/btl/fake_verbs.h"

using namespace weft;
using namespace weft::btl;
using test::FakeVerbs;

namespace {

struct Node : Sink {
  static void* cookie(uint32_t rank) { return reinterpret_cast<void*>(uintptr_t{rank} + 1); }

  net::VerbsLibrary library = FakeVerbs::library();
  std::unique_ptr<verbs::Rail> rail;
  Endpoint* other = nullptr;
  std::vector<int32_t> tags;
  std::string lost_because;

  explicit Node(boot::Bootstrap& boot, const verbs::Options& options) {
    net::RdmaPort port;
    port.device = "fake0";
    port.active = port.ethernet = true;
    port.mtu = 4096;
    net::Gid gid;
    gid.bytes[10] = gid.bytes[11] = 0xff, gid.bytes[12] = 127, gid.bytes[15] = 1;
    gid.type = net::Gid::Type::roce_v2;
    port.gids = {gid};
    auto device = verbs::Device::open(library, port);
    REQUIRE(device);
    auto shared = std::make_shared<verbs::Shared>(nullptr, mem::RegistrationCache::Limits{});
    REQUIRE(shared->cache.add(**device));
    shared->devices.push_back(std::move(*device));
    auto card = std::make_shared<Card>(Card::of(boot.job()));
    Card::Rail entry{port.name(), {}, port.gids, 100000};
    std::vector<net::Fd> listeners;
    std::string why;
    const auto interfaces = interfaces_for(boot.job(), {});
    REQUIRE(interfaces);
    for (const net::Interface& each : *interfaces) entry.listen(each, listeners, why);
    card->rails.push_back(std::move(entry));
    auto made = verbs::Rail::open(Site{boot}, options, shared, card, 0, std::move(listeners));
    if (!made) FAIL(made.failure().text);
    rail = std::move(*made);
  }
  void* meet(ProcessId from) override { return cookie(from.rank); }
  void arrived(void*, const Header& header, const std::byte*) override { tags.push_back(header.tag); }
  std::byte* landing(void*, const Header&) override { return nullptr; }
  void lost(void*, const std::string& why) override { lost_because = why; }
};

struct World {
  std::vector<std::unique_ptr<boot::Bootstrap>> boots = boot::open_fake(2);
  Node zero, one;

  explicit World(const verbs::Options& options = {}) : zero(*boots[0], options), one(*boots[1], options) { connect(); }
  void connect() {
    zero.other = *zero.rail->connect({0, 1}, one.rail->address(), Node::cookie(1));
    one.other = *one.rail->connect({0, 0}, zero.rail->address(), Node::cookie(0));
  }
  void poll() {
    zero.rail->poll(zero);
    one.rail->poll(one);
  }
  bool until(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done() && std::chrono::steady_clock::now() < limit) poll();
    return done();
  }
  /// Both sides send a message, which opens the way.
  bool talk(int32_t tag) {
    const Header header{7, tag, 0, 0, uint16_t(tag), 1, 0};
    bool sent[2] = {};
    if (!until([&] {
          if (!sent[0]) sent[0] = zero.other->try_inline(header, nullptr) == Status::ok;
          if (!sent[1]) sent[1] = one.other->try_inline(header, nullptr) == Status::ok;
          return (sent[0] && sent[1]) || !zero.lost_because.empty() || !one.lost_because.empty();
        }))
      return false;
    return until([&] { return !zero.tags.empty() && zero.tags.back() == tag && !one.tags.empty() && one.tags.back() == tag; });
  }
  void cut() {
    zero.other->cut();
    one.other->cut();
    connect();
  }
  /// Slots that stand in both shared receive queues, each time that all has come.
  std::map<ibv_srq*, size_t> posted() {
    for (int i = 0; i < 10; ++i) poll();
    std::map<ibv_srq*, size_t> out;
    for (auto& [number, pair] : FakeVerbs::pairs) out[pair->srq] = static_cast<FakeVerbs::Receives*>(pair->srq)->posted.size();
    return out;
  }
};

}  // namespace

TEST_CASE("a way can be lost and opened anew as often as it may be") {
  World world;
  for (int32_t round = 0; round < 150; ++round) {
    CAPTURE(round, world.zero.lost_because, world.one.lost_because);
    REQUIRE(world.talk(round));
    world.cut();
  }
  CHECK(FakeVerbs::unready == 0);
}

TEST_CASE("slots come back from queue pairs that end, whether or not anybody has looked at what came") {
  World world;
  REQUIRE(world.talk(1));
  const auto before = world.posted();
  REQUIRE(before.size() == 2);
  for (int32_t round = 2; round < 20; ++round) {
    const Header header{7, 99, 0, 0, 0, 1, 0};
    for (int i = 0; i < 40; ++i) REQUIRE(world.zero.other->try_inline(header, nullptr) == Status::ok);  // nobody polls
    FakeVerbs::begin_message(*FakeVerbs::pairs.begin()->second);
    world.cut();
    CAPTURE(round, world.zero.lost_because, world.one.lost_because);
    REQUIRE(world.talk(round));
    for (const auto& [queue, slots] : world.posted()) CHECK(slots >= before.at(queue));
  }
  CHECK(FakeVerbs::unready == 0);
  CHECK(std::ranges::count(world.one.tags, 99) == 0);  // what was lost with its way does not come later
}

TEST_CASE("a way on which nothing comes is asked whether the peer is there, at no cost to the peer") {
  verbs::Options options;
  options.silence_s = 1;
  World world(options);
  REQUIRE(world.talk(1));
  const auto before = world.posted();
  REQUIRE(world.until([&] { return world.zero.rail->counters().knocks >= 3 && world.one.rail->counters().knocks >= 3; }));
  CHECK(world.posted() == before);
  CHECK(world.zero.lost_because + world.one.lost_because == "");
  REQUIRE(world.talk(2));
  CHECK(FakeVerbs::unready == 0);
}

TEST_CASE("queue pairs of a way differ in what networks hash, and a way that is opened anew differs from the one before") {
  World world;
  std::set<uint32_t> before;
  for (int32_t round = 0; round < 4; ++round) {
    REQUIRE(world.talk(round));
    std::map<ibv_srq*, std::set<uint16_t>> ports;  // by side
    std::set<uint32_t> labels;
    for (auto& [number, pair] : FakeVerbs::pairs) {
      CHECK(pair->flow_label != 0);
      CHECK(pair->flow_label < 1u << 20);
      CHECK(ports[pair->srq].insert(verbs::udp_source_port(pair->flow_label)).second);
      labels.insert(pair->flow_label);
    }
    REQUIRE(ports.size() == 2);
    for (auto& [side, own] : ports) CHECK(own.size() == 1 + verbs::Options{}.flows);
    CHECK(labels != before);
    before = labels;
    world.cut();
  }
}

TEST_CASE("source ports of ways are spread, and those of a way are all different") {
  std::map<uint16_t, int> first;
  for (uint32_t from = 0; from < 64; ++from)
    for (uint32_t to = 0; to < 64; ++to) {
      std::set<uint16_t> ports;
      for (size_t queue = 0; queue <= verbs::kMaxFlows; ++queue) {
        const uint16_t port = verbs::udp_source_port(verbs::flow_label(from, to, 0, 1, queue));
        CHECK(port >= 0xc000);
        CHECK(ports.insert(port).second);
      }
      ++first[verbs::udp_source_port(verbs::flow_label(from, to, 0, 1, 1))];
    }
  CHECK(first.size() > 3300);  // of 4096 ways, in 16384 ports: at random 3623 or so
  for (auto& [port, ways] : first) CHECK(ways < 8);
}
