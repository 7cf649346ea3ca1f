// The transport over UCX, between workers of one process: delivery, back-pressure, sleeping, strangers, leaving, death.
#include <poll.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "btl/list.h"
#include "btl/ucx/wires.h"
#include "runtime/boot/boot.h"
#include "runtime/config/config.h"
#include "runtime/type/predefined.h"

namespace {

using namespace weft;
using namespace weft::btl;
using Blob = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

/// UCX's transports, and whether the ranks pretend to be on hosts of their own (only there UCX looks after its peers).
struct Wire {
  const char* tls;
  bool far;
};
constexpr Wire wires[] = {{"tcp,self", false}, {"tcp,self", true}, {"posix,cma,self", false}, {"posix,self", false}, {"sysv,self", false}};

struct Done : Operation {
  int times = 0;
  Status status = Status::again;
  Done() : Operation{[](Operation& op, Status s) { ++static_cast<Done&>(op).times, static_cast<Done&>(op).status = s; }} {}
};

struct Node : Sink {
  uint32_t rank;
  std::unique_ptr<Transport> wire;
  std::vector<Blob>* addresses = nullptr;
  std::map<uint32_t, Endpoint*> endpoints;
  std::map<uint32_t, std::vector<std::pair<Header, Blob>>> received;
  std::map<uint32_t, std::string> losses;
  Blob place;
  bool land = false;
  int landed = 0;

  Node(boot::Bootstrap& boot) : rank(boot.job().rank) {
    auto opened = open_ucx(Site{boot});
    if (!opened) throw std::runtime_error(opened.failure().text);
    wire = std::move(*opened);
  }
  static void* cookie(uint32_t rank) { return reinterpret_cast<void*>(uintptr_t{rank} + 1); }
  static uint32_t rank_of(void* cookie) { return uint32_t(reinterpret_cast<uintptr_t>(cookie) - 1); }
  Endpoint& to(uint32_t peer) {
    auto& slot = endpoints[peer];
    if (!slot) {
      REQUIRE(wire->reaches({0, peer}, (*addresses)[peer]));
      auto made = wire->connect({0, peer}, (*addresses)[peer], cookie(peer));
      if (!made) throw std::runtime_error(made.failure().text);
      slot = *made;
    }
    return *slot;
  }
  size_t count() const {
    size_t n = 0;
    for (auto& [from, list] : received) n += list.size();
    return n;
  }
  void* meet(ProcessId from) override { return cookie(from.rank); }
  void arrived(void* c, const Header& h, const std::byte* payload) override {
    if (h.length && payload == place.data()) ++landed;
    received[rank_of(c)].push_back({h, Blob(payload, payload + h.length)});
  }
  std::byte* landing(void*, const Header& h) override {
    if (!land) return nullptr;
    place.resize(std::max<size_t>(place.size(), h.length));
    return place.data();
  }
  void lost(void* c, const std::string& why) override { losses[rank_of(c)] = why; }
};

struct World {
  std::vector<std::unique_ptr<boot::Bootstrap>> boots;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Blob> addresses;

  World(uint32_t size, const Wire& wire) {
    REQUIRE(config::find("WEFT_PLUGINS")->set(WEFT_TEST_PLUGINS, config::Origin::program));
    setenv("UCX_TLS", wire.tls, 1);
    boots = boot::open_fake(size, wire.far ? size : 1);
    for (auto& b : boots) nodes.push_back(std::make_unique<Node>(*b));
    for (auto& n : nodes) addresses.push_back(n->wire->address());
    for (auto& n : nodes) n->addresses = &addresses;
  }
  Node& operator[](size_t i) { return *nodes[i]; }
  void poll() {
    for (auto& n : nodes)
      if (n) n->wire->poll(*n);
  }
  bool until(const std::function<bool()>& done) {
    const auto limit = Clock::now() + std::chrono::seconds(60);
    while (!done()) {
      if (Clock::now() > limit) return false;
      poll();
    }
    return true;
  }
  void send(uint32_t from, uint32_t to, const Header& h, const void* payload) {
    REQUIRE(until([&] { return nodes[from]->to(to).try_inline(h, payload) == Status::ok; }));
  }
};

Header header_of(uint64_t length, int32_t tag = 0) { return {7, tag, 0, uint32_t(length), 0, 1, 0}; }

/// Any header: mostly one as small messages have, with bits set everywhere.
Header any_header(std::mt19937& random, uint64_t length, int32_t tag) {
  Header h = header_of(length, tag);
  h.context = uint64_t{random()} << 32 | random();
  h.source = int32_t(random());
  h.sequence = uint16_t(random());
  if (random() % 4) h.context >>= 8, h.source &= (1 << 28) - 1;
  if (random() % 4 == 0) h.kind = uint8_t(random());
  if (random() % 4 == 0) h.flags = uint8_t(random());
  return h;
}

uint32_t checksum(const Blob& bytes) {
  uint32_t sum = 2166136261u;
  for (std::byte b : bytes) sum = (sum ^ uint32_t(b)) * 16777619u;
  return sum;
}

struct Bulk {
  Blob bytes;
  std::vector<iovec> runs;
  Done done;
};

}  // namespace

TEST_CASE("random traffic of all kinds against a model") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (const Wire& wire : wires) {
    INFO(wire.tls << (wire.far ? ", far" : ""));
    constexpr uint32_t ranks = 3;
    World world(ranks, wire);
    std::map<std::pair<uint32_t, uint32_t>, std::map<int32_t, std::pair<Header, uint32_t>>> model;
    std::vector<std::unique_ptr<Bulk>> bulks;
    size_t expected = 0;
    for (int i = 0; i < 200; ++i) {
      const uint32_t from = random() % ranks, to = (from + 1 + random() % (ranks - 1)) % ranks;
      const uint32_t how = random() % 8;
      const uint32_t most = world[from].wire->caps().max_buffered;
      const size_t length = how < 4 ? random() % 100 : how < 6 ? random() % (most + 1) : random() % 300'000;
      auto bulk = std::make_unique<Bulk>();
      bulk->bytes.resize(length);
      for (std::byte& b : bulk->bytes) b = std::byte(random());
      const size_t parts = 1 + random() % 4;
      for (size_t p = 0, at = 0; p < parts; ++p) {
        const size_t n = p + 1 == parts ? length - at : (length - at) / 2;
        bulk->runs.push_back({bulk->bytes.data() + at, n});
        at += n;
      }
      type::Cursor cursor(bulk->bytes.data(), length, type::of(type::Basic::byte));
      Endpoint& way = world[from].to(to);
      const Header h = any_header(random, length, i);
      REQUIRE(world.until([&] {
        const Status status = how < 4   ? way.try_inline(h, bulk->bytes.data())
                              : how < 6 ? way.send(h, cursor)
                                        : way.send_zcopy(h, bulk->runs, bulk->done);
        REQUIRE((status == Status::ok || (status == Status::again && cursor.position() == 0)));
        return status == Status::ok;
      }));
      model[{from, to}][i] = {h, checksum(bulk->bytes)};
      ++expected;
      if (how < 6)
        std::fill(bulk->bytes.begin(), bulk->bytes.end(), std::byte{0xee});  // buffered: nobody may look any more
      else
        bulks.push_back(std::move(bulk));
    }
    REQUIRE(world.until([&] {
      size_t n = 0;
      for (auto& node : world.nodes) n += node->count();
      for (auto& b : bulks) n += b->done.times == 1;
      return n == expected + bulks.size();
    }));
    for (auto& b : bulks) CHECK(b->done.status == Status::ok);
    for (auto& node : world.nodes) {
      CHECK(node->losses.empty());
      for (auto& [from, list] : node->received)
        for (auto& [h, payload] : list) {
          auto& sent = model[{from, node->rank}];
          REQUIRE(sent.contains(h.tag));
          CHECK(memcmp(&sent[h.tag].first, &h, sizeof h) == 0);
          CHECK(sent[h.tag].second == checksum(payload));
          sent.erase(h.tag);
        }
    }
  }
}

TEST_CASE("large data lands where it belongs") {
  for (const Wire& wire : wires) {
    INFO(wire.tls << (wire.far ? ", far" : ""));
    World world(2, wire);
    world[1].land = true;
    Blob data(3'000'000, std::byte{0x5a});
    data[12345] = std::byte{1};
    const iovec run{data.data(), data.size()};
    Done done;
    REQUIRE(world[0].to(1).send_zcopy(header_of(data.size()), std::span(&run, 1), done) == Status::ok);
    REQUIRE(world.until([&] { return world[1].count() == 1 && done.times == 1; }));
    CHECK(world[1].landed == 1);
    CHECK(world[1].received[0][0].second == data);
  }
}

TEST_CASE("a receiver that does not look stops its sender, and gets everything in the end") {
  for (const Wire& wire : wires) {
    INFO(wire.tls << (wire.far ? ", far" : ""));
    World world(2, wire);
    world.send(0, 1, header_of(0), nullptr);
    REQUIRE(world.until([&] { return world[1].count() == 1; }));
    const Blob payload(world[0].wire->caps().max_buffered, std::byte{3});
    size_t sent = 0;
    int refused = 0;
    while (refused < 100 && sent < 100'000) {
      const Status status = world[0].to(1).try_inline(header_of(payload.size()), payload.data());
      REQUIRE((status == Status::ok || status == Status::again));
      status == Status::ok ? ++sent : ++refused;
      if (status == Status::again) world[0].wire->poll(world[0]);
    }
    CHECK(sent < 100'000);
    REQUIRE(world.until([&] { return world[1].count() == sent + 1; }));
  }
}

TEST_CASE("a sleeper is woken") {
  for (const Wire& wire : wires) {
    INFO(wire.tls << (wire.far ? ", far" : ""));
    World world(2, wire);
    world.send(0, 1, header_of(2, 0), "hi");  // connections are made
    REQUIRE(world.until([&] { return world[1].count() == 1; }));
    Node& sleeper = world[1];
    REQUIRE(sleeper.wire->event_fd() >= 0);
    REQUIRE(world.until([&] { return sleeper.wire->arm(); }));
    world[0].to(1).try_inline(header_of(2, 1), "ho");
    const auto limit = Clock::now() + std::chrono::seconds(60);
    pollfd fd{sleeper.wire->event_fd(), POLLIN, 0};
    while (poll(&fd, 1, 1) == 0 && Clock::now() < limit) world[0].wire->poll(world[0]);
    CHECK((fd.revents & POLLIN));
    sleeper.wire->disarm();
    REQUIRE(world.until([&] { return sleeper.count() == 2; }));
  }
}

TEST_CASE("who leaves loses nothing and is not missed") {
  for (const Wire& wire : wires) {
    INFO(wire.tls << (wire.far ? ", far" : ""));
    World world(3, wire);
    const Blob payload(1000, std::byte{9});
    for (int i = 0; i < 100; ++i) world.send(0, 1, header_of(payload.size(), i), payload.data());
    world.send(2, 0, header_of(2), "hi");  // 0 has no endpoint to 2, which is to know all the same
    REQUIRE(world.until([&] { return world[0].count() == 1; }));
    REQUIRE(world.until([&] { return world[0].wire->drain(); }));
    world.nodes[0].reset();
    const auto limit = Clock::now() + std::chrono::milliseconds(100);
    REQUIRE(world.until([&] { return world[1].count() == 100 && Clock::now() > limit; }));
    CHECK(world[2].to(0).try_inline(header_of(2), "hi") == Status::ok);  // goes nowhere
    REQUIRE(world.until([&] { return world[1].wire->drain() & world[2].wire->drain(); }));
    CHECK(world[1].losses.empty());
    CHECK(world[2].losses.empty());
  }
}

TEST_CASE("who leaves before the other side has looked loses nothing") {
  for (const Wire& wire : wires) {
    INFO(wire.tls << (wire.far ? ", far" : ""));
    World world(2, wire);
    Node& early = world[0];
    for (int i = 0; i < 3; ++i) REQUIRE(early.to(1).try_inline(header_of(2, i), "hi") == Status::ok);
    const auto limit = Clock::now() + std::chrono::milliseconds(50);
    while (Clock::now() < limit) {  // connections are made by UCX's own thread meanwhile
      early.wire->poll(early);
      early.wire->drain();
    }
    REQUIRE(world.until([&] { return early.wire->drain(); }));
    REQUIRE(world.until([&] { return world[1].wire->drain() && world[1].count() == 3; }));
    CHECK(early.losses.empty());
    CHECK(world[1].losses.empty());
  }
}

TEST_CASE("two that leave at the same time wait for each other no longer than it takes") {
  for (const Wire& wire : wires) {
    INFO(wire.tls << (wire.far ? ", far" : ""));
    World world(4, wire);
    for (uint32_t from = 0; from < 4; ++from)
      for (uint32_t to = 0; to < from; ++to) world.send(from, to, header_of(2), "hi");
    std::vector<bool> gone(4);
    REQUIRE(world.until([&] {
      for (uint32_t i = 0; i < 4; ++i)
        if (!gone[i] && world[i].wire->drain()) gone[i] = true;
      return gone == std::vector<bool>(4, true);
    }));
    for (auto& node : world.nodes) CHECK(node->losses.empty());
  }
}

TEST_CASE("a peer on another host that has died is lost, and its operations end before") {
  World world(2, {"tcp,self", true});
  world.send(0, 1, header_of(2), "hi");
  REQUIRE(world.until([&] { return world[1].count() == 1; }));
  Blob data(1 << 20);
  const iovec run{data.data(), data.size()};
  Done done;
  REQUIRE(world[0].to(1).send_zcopy(header_of(data.size()), std::span(&run, 1), done) == Status::ok);
  world.nodes[1].reset();  // no farewell
  REQUIRE(world.until([&] { return world[0].losses.contains(1); }));
  CHECK(done.times == 1);
  CHECK(done.status == Status::peer_failed);
  CHECK(world[0].losses[1].find("rank 1") == 0);
  CHECK(world[0].losses[1].find(" is lost over ucx (tcp/") != std::string::npos);  // the device, and its link
  CHECK(world[0].losses[1].find(", link up)") != std::string::npos);
  CHECK(world[0].to(1).try_inline(header_of(2), "ho") == Status::peer_failed);
  CHECK(world[0].wire->drain());
}

TEST_CASE("a peer that has only sent, and died, is lost to who received") {
  for (const Wire& wire : wires) {
    INFO(wire.tls << (wire.far ? ", far" : ""));
    World world(3, wire);
    for (uint32_t from : {1, 2}) world.send(from, 0, header_of(2), "hi");
    REQUIRE(world.until([&] { return world[0].count() == 2; }));
    world.nodes[1].reset();  // no farewell
    if (wire.far) {
      REQUIRE(world.until([&] { return world[0].losses.contains(1); }));
      REQUIRE(world.until([&] { return world[0].wire->drain() & world[2].wire->drain(); }));
      continue;
    }
    const auto limit = Clock::now() + std::chrono::milliseconds(100);  // on a node UCX need not see it: mpirun does
    while (Clock::now() < limit) {
      world.poll();
      world[0].wire->drain();
    }
  }
}

TEST_CASE("UCX costs what its wires do, alike on both sides") {
  for (const Wire& wire : wires) {
    World world(2, wire);
    const Price price = world[0].wire->price({0, 1}, world.addresses[1]);
    const bool memory = !wire.far && std::string(wire.tls).find("tcp") == std::string::npos;
    CHECK(price.alpha_ns == (memory ? 400 : 20'000));
    CHECK(world[1].wire->price({0, 0}, world.addresses[0]).alpha_ns == price.alpha_ns);
    CHECK(world[1].wire->price({0, 0}, world.addresses[0]).beta_ns_per_byte == price.beta_ns_per_byte);
  }
}

TEST_CASE("what UCX prints of an endpoint names its wires") {
  using ucx::wires_in;
  const char* printed =
      "#\n# UCP endpoint ep_cfg[3]\n#\n#               peer: node2\n"
      "#                 lane[0]:  4:rc_verbs/rxe0:1.0 md[2]      -> md[2]/ib/sysdev[255] rma_bw#0 am am_bw#0\n"
      "#                 lane[1]:  4:rc_verbs/rxe0:1.1 md[2]      -> md[2]/ib/sysdev[255] rma_bw#1\n"
      "#                 lane[2]: 11:tcp/eth0.100.0 md[1]       -> md[1]/tcp/sysdev[255] wireup\n"
      "#                tag_send: 0..<egr/short>..8246..<egr/bcopy>..(inf)\n";
  CHECK(wires_in(printed) == std::vector<ucx::Wire>{{"rc_verbs", "rxe0:1"}, {"tcp", "eth0.100"}});
  for (const char* nonsense : {"", "lane[", "lane[0]:", "lane[0]: 3", "lane[0]: 3:", "lane[0]: 3:tcp", "lane[0]: x/y\nlane[1]: 3:/"})
    CHECK(wires_in(nonsense).empty());
  for (size_t cut = 0; cut < strlen(printed); ++cut) CHECK(wires_in(std::string(printed).substr(0, cut)).size() <= 3);
}

TEST_CASE("messages of another job are dropped") {
  World world(2, {"tcp,self", false}), strange(2, {"tcp,self", false});
  Blob address = world.addresses[1];
  REQUIRE(memcmp(address.data() + 4, strange.addresses[1].data() + 4, 4) != 0);  // the job's number
  memcpy(address.data() + 4, strange.addresses[1].data() + 4, 4);                // as if an older job had had this port
  CHECK(!world[0].wire->connect({0, 1}, address, nullptr));
  auto way = strange[0].wire->connect({0, 1}, address, nullptr);
  REQUIRE(way);
  REQUIRE((*way)->try_inline(header_of(2), "hi") == Status::ok);
  world.send(0, 1, header_of(2), "ho");
  const auto limit = Clock::now() + std::chrono::milliseconds(50);
  REQUIRE(world.until([&] {
    strange.poll();
    return world[1].count() == 1 && Clock::now() > limit;
  }));
  CHECK(world[1].received[0][0].second[1] == std::byte{'o'});
}

TEST_CASE("damaged addresses are refused in words") {
  World world(2, {"tcp,self", false});
  CHECK(!world[0].wire->reaches({0, 1}, {}));
  CHECK(!world[0].wire->reaches({0, 0}, world.addresses[0]));
  CHECK(!world[0].wire->connect({0, 1}, Blob(4), nullptr));
  CHECK(!world[0].wire->connect({0, 1}, Blob(40), nullptr));
}

TEST_CASE("a missing plugin is said, and what helps") {
  auto boots = boot::open_fake(1);
  config::find("WEFT_PLUGINS")->set("/nonexistent", config::Origin::program);
  auto opened = open_ucx(Site{*boots[0]});
  REQUIRE(!opened);
  CHECK(opened.failure().text.find("/nonexistent/btl_ucx.so") != std::string::npos);
  CHECK(opened.failure().text.find("libucx0") != std::string::npos);
}
