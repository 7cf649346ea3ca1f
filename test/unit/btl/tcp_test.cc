// The tcp transport among honest peers: delivery, order, back-pressure, crossing connects, leaving, death.
#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <thread>

#include "runtime/type/predefined.h"
#include "test/unit/btl/tcp_world.h"

using namespace tcp_test;

namespace {

using Blob = std::vector<std::byte>;

uint32_t checksum(const std::byte* bytes, size_t n) {
  uint32_t sum = 2166136261u;
  for (size_t i = 0; i < n; ++i) sum = (sum ^ uint32_t(bytes[i])) * 16777619u;
  return sum;
}

struct Done : Operation {
  int times = 0;
  Status status = Status::again;
  Done() : Operation{[](Operation& op, Status s) { ++static_cast<Done&>(op).times, static_cast<Done&>(op).status = s; }} {}
};

/// A large send from user memory, cut into random runs.
struct Bulk {
  Blob bytes;
  std::vector<iovec> runs;
  Done done;
};

tcp::Options tight(const char* address) {
  tcp::Options options = only(address);
  options.socket_bytes = 16384;
  options.queue_bytes = 8192;
  return options;
}

}  // namespace

TEST_CASE("messages arrive once, in order, over IPv4 and IPv6") {
  for (const char* address : {"127.0.0.1/8", "::1/128"}) {
    World world(3, only(address));
    for (uint32_t from = 0; from < 3; ++from)
      for (uint32_t to = 0; to < 3; ++to)
        for (int i = 0; i < 20 && from != to; ++i) REQUIRE(world.push(from, to, header_of(5, i), "hello") == Status::ok);
    REQUIRE(world.until([&] { return world[0].count == 40 && world[1].count == 40 && world[2].count == 40; }));
    for (auto& node : world.nodes)
      for (auto& [from, list] : node->received)
        for (int i = 0; i < 20; ++i) {
          CHECK(list[size_t(i)].header.tag == i);
          CHECK(memcmp(list[size_t(i)].payload.data(), "hello", 5) == 0);
        }
    CHECK(world[0].to(1).describe().find(address[0] == ':' ? "[::1]:" : "127.0.0.1:") != std::string::npos);
  }
}

TEST_CASE("random traffic of all kinds against a model, with small and large buffers") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 4; ++round) {
    constexpr uint32_t ranks = 4;
    World world(ranks, round % 2 ? tight("127.0.0.1/8") : only(round % 4 ? "::1/128" : "127.0.0.1/8"));
    for (auto& node : world.nodes) node->land = round % 3 != 0;
    std::map<std::pair<uint32_t, uint32_t>, std::vector<std::pair<uint32_t, uint32_t>>> model;  // pair -> (length, checksum)
    std::vector<std::unique_ptr<Bulk>> bulks;
    uint64_t refused = 0;
    for (int i = 0; i < 1000; ++i) {
      const uint32_t from = random() % ranks, to = (from + 1 + random() % (ranks - 1)) % ranks;
      const uint32_t how = random() % 16;
      auto length = uint32_t(how < 12 ? random() % 200 : how < 14 ? random() % 4097 : random() % 65537);
      if (how == 15) length = uint32_t(random() % 400'000);
      auto bulk = std::make_unique<Bulk>();
      bulk->bytes.resize(length);
      for (std::byte& b : bulk->bytes) b = std::byte(random());
      const Header header = header_of(length, i);
      for (size_t at = 0; at < length;) {
        const size_t part = std::min<size_t>(length - at, 1 + random() % 3000);
        bulk->runs.push_back({bulk->bytes.data() + at, part});
        at += part;
      }
      type::Cursor cursor(bulk->bytes.data(), length, type::of(type::Basic::byte));
      for (;;) {
        Endpoint& end = world[from].to(to);
        const Status status = how < 6      ? end.gather(header, bulk->bytes.data())
                              : how < 13   ? end.try_inline(header, bulk->bytes.data())
                              : how < 15   ? end.send(header, cursor)
                              : length % 2 ? end.send_zcopy(header, bulk->runs, bulk->done)
                                           : end.gather_zcopy(header, bulk->runs, bulk->done);
        if (status == Status::ok) break;
        if (status != Status::again || cursor.position() != 0) FAIL("send failed");
        ++refused;
        world.poll();
      }
      model[{from, to}].emplace_back(length, checksum(bulk->bytes.data(), length));
      if (how == 15) bulks.push_back(std::move(bulk));
      if (random() % 8 == 0) world[from].to(to).flush();
      if (random() % 2 == 0) {
        Node& one = world[random() % ranks];
        one.rail->poll(one);
      }
    }
    for (auto& node : world.nodes)
      for (auto& [peer, end] : node->endpoints) end->flush();
    REQUIRE(world.until([&] {
      uint64_t count = 0;
      for (auto& node : world.nodes) count += node->count;
      return count == 1000;
    }));
    for (auto& [pair, list] : model) {
      auto& got = world[pair.second].received[pair.first];
      REQUIRE(got.size() == list.size());
      for (size_t i = 0; i < list.size(); ++i) {
        CHECK(got[i].header.length == list[i].first);
        CHECK(checksum(got[i].payload.data(), got[i].payload.size()) == list[i].second);
      }
    }
    for (auto& bulk : bulks) {
      CHECK(bulk->done.times == 1);
      CHECK(bulk->done.status == Status::ok);
    }
    if (round % 2) CHECK(refused > 0);
    for (auto& node : world.nodes) {
      CHECK(node->losses.empty());
      for (auto& [peer, end] : node->endpoints) CHECK(end->backlog() == 0);
    }
  }
}

TEST_CASE("small messages share system calls if they may, and leave at once if not") {
  World world(2, only("127.0.0.1/8"));
  REQUIRE(world.push(0, 1, header_of(8), "connect!") == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 1; }));
  Endpoint& end = world[0].to(1);
  const tcp::Counters &out = world[0].rail->counters(), &in = world[1].rail->counters();
  constexpr int count = 2000;
  uint64_t writes = out.writes, reads = in.reads;
  for (int i = 0; i < count; ++i) REQUIRE(end.gather(header_of(8, i), "together") == Status::ok);
  CHECK(end.backlog() > 0);
  end.flush();
  CHECK(end.backlog() == 0);
  REQUIRE(world.until([&] { return world[1].count == 1 + count; }));
  CHECK(out.writes - writes < count / 100);
  CHECK(in.reads - reads < count / 100);
  for (int i = 0; i < count; ++i) CHECK(world[1].received[0][size_t(i) + 1].header.tag == i);

  writes = out.writes;
  for (int i = 0; i < 10; ++i) {
    REQUIRE(end.try_inline(header_of(8), "at once!") == Status::ok);
    CHECK(out.writes == writes + size_t(i) + 1);
  }
  REQUIRE(end.gather(header_of(8), "not alon") == Status::ok);
  REQUIRE(end.try_inline(header_of(8), "takes it") == Status::ok);  // with it
  CHECK(end.backlog() == 0);
  CHECK(out.writes == writes + 11);
}

TEST_CASE("larger messages share system calls where they lie") {
  World world(2, only("127.0.0.1/8"));
  REQUIRE(world.push(0, 1, header_of(8), "connect!") == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 1; }));
  Endpoint& end = world[0].to(1);
  const tcp::Counters& out = world[0].rail->counters();
  const Blob memory(16384, std::byte{7});
  const iovec run{const_cast<std::byte*>(memory.data()), memory.size()};
  Done done;
  const uint64_t writes = out.writes;
  for (int i = 0; i < 3; ++i) REQUIRE(end.gather_zcopy(header_of(uint32_t(memory.size()), i), {&run, 1}, done) == Status::ok);
  CHECK(done.times == 0);
  CHECK(out.writes == writes);
  REQUIRE(end.send_zcopy(header_of(uint32_t(memory.size()), 3), {&run, 1}, done) == Status::ok);  // takes them along
  CHECK(out.writes == writes + 1);
  REQUIRE(world.until([&] { return world[1].count == 5 && done.times == 4; }));
  for (int i = 0; i < 4; ++i) {
    CHECK(world[1].received[0][size_t(i) + 1].header.tag == i);
    CHECK(world[1].received[0][size_t(i) + 1].payload == memory);
  }
}

TEST_CASE("messages held back leave with a large one, in order") {
  World world(2, only("127.0.0.1/8"));
  const Blob large(200'000, std::byte{7});
  Done done;
  const iovec run{const_cast<std::byte*>(large.data()), large.size()};
  Endpoint& end = world[0].to(1);
  for (int i = 0; i < 30; i += 3) {  // the first before there is a connection
    REQUIRE(end.gather(header_of(5, i), "small") == Status::ok);
    REQUIRE(end.send_zcopy(header_of(uint32_t(large.size()), i + 1), {&run, 1}, done) == Status::ok);
    REQUIRE(end.gather(header_of(5, i + 2), "small") == Status::ok);
    end.flush();
    REQUIRE(world.until([&] { return world[1].count == uint64_t(i) + 3; }));
  }
  CHECK(done.times == 10);
  for (int i = 0; i < 30; ++i) CHECK(world[1].received[0][size_t(i)].header.tag == i);
}

TEST_CASE("a message of many pieces goes from user memory to its landing") {
  World world(2, only("127.0.0.1/8"));
  std::mt19937 random(3);
  Bulk bulk;
  bulk.bytes.resize(20 << 20);
  for (size_t i = 0; i < bulk.bytes.size(); i += 64) bulk.bytes[i] = std::byte(random());
  for (size_t at = 0; at < bulk.bytes.size(); at += 100'000)
    bulk.runs.push_back({bulk.bytes.data() + at, std::min<size_t>(100'000, bulk.bytes.size() - at)});
  REQUIRE(world[0].to(1).send_zcopy(header_of(uint32_t(bulk.bytes.size())), bulk.runs, bulk.done) == Status::ok);
  CHECK(bulk.done.times == 0);
  CHECK(world[0].to(1).backlog() > bulk.bytes.size());
  REQUIRE(world.until([&] { return world[1].count == 1; }));
  CHECK(world[1].landed == 1);
  CHECK(world[1].received[0][0].payload == bulk.bytes);
  CHECK(bulk.done.times == 1);
  Done empty;
  REQUIRE(world[0].to(1).send_zcopy(header_of(0), {}, empty) == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 2; }));
  CHECK(empty.times == 1);
}

TEST_CASE("a receiver that does not listen makes its sender wait, and only its sender") {
  World world(3, tight("127.0.0.1/8"));
  Blob bytes(1000);
  int taken = 0;
  for (int idle = 0; idle < 2000; ++idle) {
    while (world[0].send(1, header_of(1000, taken), bytes.data()) == Status::ok) ++taken, idle = 0;
    world[0].rail->poll(world[0]);
    if (taken == 0) world[1].rail->poll(world[1]);  // only until connected
    REQUIRE(taken < 2000);
  }
  CHECK(taken > 5);
  CHECK(world[0].to(1).backlog() <= 8192 + 2 * 1024);
  REQUIRE(world[0].send(2, header_of(3), "two") == Status::ok);
  const auto limit = Clock::now() + std::chrono::seconds(10);
  while (world[2].count == 0 && Clock::now() < limit) world[0].rail->poll(world[0]), world[2].rail->poll(world[2]);
  CHECK(world[2].count == 1);
  REQUIRE(world.until([&] { return world[1].count == uint64_t(taken); }));
  for (int i = 0; i < taken; ++i) CHECK(world[1].received[0][size_t(i)].header.tag == i);
}

TEST_CASE("crossing connects end in one connection and keep the order") {
  std::mt19937 random(std::random_device{}());
  for (int round = 0; round < 200; ++round) {
    World world(2, only("127.0.0.1/8"));
    uint32_t sent[2] = {0, 0};
    for (int step = 0; step < 60; ++step) {
      const uint32_t who = random() % 2;
      if (random() % 3 == 0 && sent[who] < 5)
        REQUIRE(world[who].send(1 - who, header_of(1, int32_t(sent[who]++)), "x") == Status::ok);
      else
        world[who].rail->poll(world[who]);
    }
    for (uint32_t who : {0u, 1u})
      while (sent[who] < 5) REQUIRE(world[who].send(1 - who, header_of(1, int32_t(sent[who]++)), "x") == Status::ok);
    REQUIRE(world.until([&] { return world[0].count == 5 && world[1].count == 5; }));
    for (uint32_t who : {0u, 1u}) {
      CHECK(world[who].losses.empty());
      for (int i = 0; i < 5; ++i) CHECK(world[who].received[1 - who][size_t(i)].header.tag == i);
      CHECK(world[who].rail->strangers().refused == 0);
    }
    // one connection: the ends name each other
    const std::string a = world[0].to(1).describe(), b = world[1].to(0).describe();
    const auto ends = [](const std::string& s) {
      return std::pair(s.substr(s.rfind(' ', s.find(" -> ") - 1) + 1), s.substr(s.find(" -> ") + 4));
    };
    CHECK(ends(a).first.substr(0, ends(a).first.find(' ')) == ends(b).second);
  }
}

TEST_CASE("answers may be sent from within an arrival") {
  World world(2, tight("127.0.0.1/8"));
  int answered = 0;
  world[1].on_arrival = [&](uint32_t from, const Header& header) {
    if (world[1].send(from, header_of(4, header.tag), "pong") == Status::ok) ++answered;
  };
  for (int i = 0; i < 300; ++i) REQUIRE(world.push(0, 1, header_of(4, i), "ping") == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 300 && world[0].count == uint64_t(answered); }));
  CHECK(answered > 0);
}

TEST_CASE("a peer that dies is lost, with a sentence that helps") {
  for (const bool in_message : {false, true}) {
    World world(3, tight("127.0.0.1/8"));
    REQUIRE(world.push(0, 1, header_of(2), "hi") == Status::ok);
    REQUIRE(world.push(2, 1, header_of(2), "hi") == Status::ok);
    REQUIRE(world.until([&] { return world[1].count == 2; }));
    Bulk bulk, back;
    bulk.bytes.resize(1 << 20);
    back.bytes.resize(1 << 20);
    const iovec run{bulk.bytes.data(), bulk.bytes.size()}, back_run{back.bytes.data(), back.bytes.size()};
    REQUIRE(world[0].to(1).send_zcopy(header_of(1 << 20), {&run, 1}, bulk.done) == Status::ok);
    if (in_message) {
      REQUIRE(world[1].to(0).send_zcopy(header_of(1 << 20), {&back_run, 1}, back.done) == Status::ok);
      for (int i = 0; i < 20; ++i) world.poll();
    }
    CHECK(bulk.done.times == 0);
    world[1].rail.reset();
    REQUIRE(world.until([&] { return world[0].losses.size() == 1 && world[2].losses.size() == 1; }));
    const std::string& why = world[0].losses[1];
    INFO(why);
    CHECK(why.find("rank 1 on node0 is lost over tcp lo 127.0.0.1:") == 0);
    CHECK(why.find(" (rail 0, link up): ") != std::string::npos);
    CHECK(why.find(" -> 127.0.0.1:") != std::string::npos);
    CHECK(why.find("died or was killed") != std::string::npos);
    CHECK(bulk.done.times == 1);
    CHECK(bulk.done.status == Status::peer_failed);
    CHECK(world[0].send(1, header_of(1), "x") == Status::peer_failed);
    CHECK(world[0].send(2, header_of(1), "x") == Status::ok);
    CHECK(world[0].rail->counters().lost == 1);
    CHECK(world.until([&] { return world[0].rail->drain() && world[2].rail->drain(); }));
  }
}

TEST_CASE("a peer that cannot be reached is lost after a bounded time") {
  tcp::Options options = only("127.0.0.1/8");
  options.rounds = 2;
  World world(2, options);
  world[1].rail.reset();
  REQUIRE(world[0].send(1, header_of(1), "x") == Status::ok);  // not known yet
  REQUIRE(world.until([&] { return world[0].losses.size() == 1; }));
  CHECK(world[0].losses[1].find("cannot be reached") != std::string::npos);
  CHECK(world[0].losses[1].find("refused") != std::string::npos);
}

TEST_CASE("the second address is tried when the first does not answer") {
  const net::Interface both{"lo", 1, true, true, 0, {*net::parse_address("127.0.0.1/8"), *net::parse_address("::1/128")}};
  tcp::Options options;
  options.interfaces = std::vector{both};
  World world(2, options);
  auto card = *Card::decode(world.addresses[1]);
  card.rails[0].addresses[0].port = 1;  // nobody
  world.addresses[1] = card.encode();
  REQUIRE(world[0].send(1, header_of(1), "x") == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 1; }));
  CHECK(world[0].to(1).describe().find("[::1]") != std::string::npos);
}

TEST_CASE("who takes leave is not lost, and nothing sent before is") {
  for (int round = 0; round < 20; ++round) {
    World world(3, tight("127.0.0.1/8"));
    Blob bytes(2000);
    uint64_t sent = 0;
    for (int i = 0; i < 10; ++i)
      for (uint32_t to : {1u, 2u})
        if (world[0].send(to, header_of(2000, i), bytes.data()) == Status::ok) ++sent;
    if (round % 2) REQUIRE(world.push(1, 0, header_of(2), "hi") == Status::ok);
    REQUIRE(world.until([&] { return world[0].rail->drain(); }));
    world[0].rail.reset();  // closes at once
    REQUIRE(world.until([&] { return world[1].count + world[2].count == sent; }));
    for (int i = 0; i < 200; ++i) world.poll();
    CHECK(world[1].losses.empty());
    CHECK(world[2].losses.empty());
    CHECK(world[1].send(0, header_of(1), "x") == Status::peer_failed);
    REQUIRE(world.until([&] { return world[1].rail->drain() && world[2].rail->drain(); }));
  }
}

TEST_CASE("everybody leaves at once") {
  for (int round = 0; round < 30; ++round) {
    World world(4, only("127.0.0.1/8"));
    for (uint32_t from = 0; from < 4; ++from)
      for (uint32_t to = 0; to < 4; ++to)
        if (from != to) REQUIRE(world.push(from, to, header_of(3, round), "bye") == Status::ok);
    std::vector<bool> gone(4, false);
    REQUIRE(world.until([&] {
      for (size_t i = 0; i < 4; ++i) {
        if (gone[i] || world[i].count < 3 || !world[i].rail->drain()) continue;
        gone[i] = true;
        world[i].rail.reset();
      }
      return std::accumulate(gone.begin(), gone.end(), 0) == 4;
    }));
    for (auto& node : world.nodes) CHECK(node->losses.empty());
  }
}

TEST_CASE("the event descriptor wakes a sleeper, also after long idleness") {
  World world(2, only("127.0.0.1/8"));
  auto readable = [&](int timeout_ms) {
    pollfd p{world[1].rail->event_fd(), POLLIN, 0};
    return ::poll(&p, 1, timeout_ms) == 1;
  };
  REQUIRE(world.push(0, 1, header_of(1), "a") == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 1; }));
  for (int i = 0; i < 100'000; ++i) world[1].rail->poll(world[1]);  // gets used to idleness
  REQUIRE(world[1].rail->arm());
  CHECK_FALSE(readable(0));
  REQUIRE(world[0].send(1, header_of(1), "b") == Status::ok);
  CHECK(readable(5000));
  world[1].rail->disarm();
  world[1].rail->poll(world[1]);
  CHECK(world[1].count == 2);
}

TEST_CASE("a first contact while the other side sleeps") {
  World world(2, only("127.0.0.1/8"));
  std::thread sleeper([&] {
    while (world[1].count == 0) {
      if (world[1].rail->arm()) {
        pollfd p{world[1].rail->event_fd(), POLLIN, 0};
        ::poll(&p, 1, 10'000);
      }
      world[1].rail->disarm();
      while (world[1].rail->poll(world[1]) > 0) {
      }
    }
  });
  REQUIRE(world[0].send(1, header_of(1), "x") == Status::ok);
  while (world[0].to(1).backlog() > 0) {
    if (world[0].rail->arm()) {
      pollfd p{world[0].rail->event_fd(), POLLIN, 0};
      ::poll(&p, 1, 10'000);
    }
    world[0].rail->poll(world[0]);
  }
  sleeper.join();
  CHECK(world[1].count == 1);
}

TEST_CASE("a way costs what its slower end does") {
  tcp::Options options;
  options.interfaces = std::vector<net::Interface>{{"eth9", 9, true, false, 40'000, {*net::parse_address("127.0.0.1/8")}}};
  World world(2, options);
  auto card = *Card::decode(world.addresses[1]);
  CHECK(card.rails[0].mbit == 40'000);
  Caps caps = world[0].rail->caps();
  caps.same_node = false;
  caps.beta_ns_per_byte = beta_of(40'000);
  for (const auto& [theirs, price] : {std::pair{0u, 0.8}, {100'000u, 0.2}, {40'000u, 0.2}, {1'000u, 8.0}}) {
    card.rails[0].mbit = theirs;
    CHECK(Card::decode(card.encode())->rails[0].mbit == theirs);
    CHECK(price_between(caps, card.rails[0]).beta_ns_per_byte == Approx(price));
    CHECK(price_between(caps, card.rails[0]).alpha_ns == caps.alpha_ns);
  }
  CHECK(world[0].rail->price({0, 1}, world.addresses[1]).beta_ns_per_byte == world[0].rail->caps().beta_ns_per_byte);  // within a host
  CHECK(is_near("/sys/class/net/there-is-no-such-device"));
}

TEST_CASE("caps and addresses are sound") {
  World world(2, only("127.0.0.1/8"));
  const Caps& caps = world[0].rail->caps();
  CHECK(std::string(caps.name) == "tcp");
  CHECK(caps.device == "lo");
  CHECK(caps.same_node);
  CHECK(caps.zcopy);
  CHECK(caps.max_buffered >= caps.max_inline);
  CHECK(world[0].rail->reaches({0, 1}, world.addresses[1]));
  CHECK_FALSE(world[0].rail->reaches({0, 0}, world.addresses[0]));
  CHECK_FALSE(world[0].rail->reaches({0, 1}, {}));
  CHECK_FALSE(world[0].rail->connect({0, 1}, boot::Blob(3), nullptr));
}
