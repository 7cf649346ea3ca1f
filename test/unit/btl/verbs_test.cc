// The verbs transport over the devices of this host, if it has any (test/beds/rdma-vm has): traffic, credit, memory, sleep, ends.
#include <poll.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "btl/verbs/rail.h"
#include "runtime/type/predefined.h"

using namespace weft;
using namespace weft::btl;

namespace {

using Clock = std::chrono::steady_clock;
using Blob = std::vector<std::byte>;

struct Message {
  Header header;
  Blob payload;
};

struct Done : Operation {
  int times = 0;
  Status status = Status::again;
  Done() : Operation{[](Operation& op, Status s) { ++static_cast<Done&>(op).times, static_cast<Done&>(op).status = s; }} {}
};

/// One rank with one rail.
struct Node : Sink {
  boot::Bootstrap& boot;
  std::vector<std::unique_ptr<verbs::Rail>> rails;
  verbs::Rail* rail = nullptr;
  std::vector<boot::Blob>* addresses = nullptr;
  std::map<uint32_t, Endpoint*> endpoints;
  std::map<uint32_t, std::vector<Message>> received;  // by sender
  std::map<uint32_t, std::string> losses;
  uint64_t count = 0;

  Node(boot::Bootstrap& b, const verbs::Options& options) : boot(b) {
    auto opened = verbs::open_rails(Site{b}, options);
    if (!opened) throw std::runtime_error(opened.failure().text);
    rails = std::move(*opened);
    rail = rails.front().get();
  }
  static void* cookie(uint32_t rank) { return reinterpret_cast<void*>(uintptr_t{rank} + 1); }
  static uint32_t rank_of(void* cookie) { return uint32_t(reinterpret_cast<uintptr_t>(cookie) - 1); }

  Endpoint& to(uint32_t peer) {
    auto& slot = endpoints[peer];
    if (!slot) {
      auto made = rail->connect({0, peer}, (*addresses)[peer], cookie(peer));
      if (!made) throw std::runtime_error(made.failure().text);
      slot = *made;
    }
    return *slot;
  }
  void* meet(ProcessId from) override { return cookie(from.rank); }
  void arrived(void* c, const Header& header, const std::byte* payload) override {
    ++count;
    received[rank_of(c)].push_back({header, Blob(payload, payload + header.length)});
  }
  std::byte* landing(void*, const Header&) override { return nullptr; }
  void lost(void* c, const std::string& why) override { losses[rank_of(c)] = why; }
};

struct World {
  std::vector<std::unique_ptr<boot::Bootstrap>> boots;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<boot::Blob> addresses;

  explicit World(uint32_t size, verbs::Options options = {}) : boots(boot::open_fake(size)) {
    for (auto& b : boots) nodes.push_back(std::make_unique<Node>(*b, options));
    for (auto& n : nodes) addresses.push_back(n->rail->address());
    for (auto& n : nodes) n->addresses = &addresses;
  }
  Node& operator[](size_t i) { return *nodes[i]; }
  void poll() {
    for (auto& n : nodes)
      if (n) n->rail->poll(*n);
  }
  bool until(const std::function<bool()>& done, int seconds = 60) {
    const auto limit = Clock::now() + std::chrono::seconds(seconds);
    while (!done()) {
      if (Clock::now() > limit) return false;
      poll();
    }
    return true;
  }
  Status push(uint32_t from, uint32_t to, const Header& header, const void* payload) {
    for (;;) {
      const Status status = nodes[from]->to(to).try_inline(header, payload);
      if (status != Status::again) return status;
      poll();
    }
  }
};

Header header_of(uint32_t length, int32_t tag = 0) { return {7, tag, 0, length, uint16_t(tag), 1, 0}; }

bool devices() {
  const auto ports = net::usable_rdma_ports();
  if (!ports) WARN("skipped: " << ports.failure().text);
  return bool(ports);
}

verbs::Options quick() {
  verbs::Options options;
  options.timeout = 12;  // losses show within a fraction of a second
  options.retries = 3;
  return options;
}

void fill(Blob& bytes, std::mt19937& random) {
  for (std::byte& b : bytes) b = std::byte(random());
}

}  // namespace

TEST_CASE("messages of all sizes arrive once, in order, unchanged") {
  if (!devices()) return;
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  World world(3);
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Message>> sent;
  uint64_t total = 0;
  for (int i = 0; i < 1500; ++i) {
    const uint32_t from = random() % 3, to = (from + 1 + random() % 2) % 3;
    Blob payload(random() % 3 ? random() % 250 : random() % 8193);
    fill(payload, random);
    const Header header = header_of(uint32_t(payload.size()), i);
    REQUIRE(world.push(from, to, header, payload.data()) == Status::ok);
    sent[{from, to}].push_back({header, std::move(payload)});
    ++total;
    if (Node& one = world[random() % 3]; random() % 2) one.rail->poll(one);
  }
  REQUIRE(world.until([&] { return world[0].count + world[1].count + world[2].count == total; }));
  for (auto& [pair, list] : sent) {
    auto& got = world[pair.second].received[pair.first];
    REQUIRE(got.size() == list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      REQUIRE(memcmp(&got[i].header, &list[i].header, sizeof(Header)) == 0);
      REQUIRE(got[i].payload == list[i].payload);
    }
  }
  for (auto& node : world.nodes) CHECK(node->losses.empty());
}

TEST_CASE("a receiver that does not look stops its senders, and nothing is lost") {
  if (!devices()) return;
  World world(3);
  REQUIRE(world.push(0, 1, header_of(0), nullptr) == Status::ok);
  REQUIRE(world.push(2, 1, header_of(0), nullptr) == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 2; }));
  uint32_t taken[3] = {};
  for (const uint32_t from : {0u, 2u}) {
    for (int tries = 0; tries < 3000; ++tries) {
      const uint32_t value = taken[from];
      const Status status = world[from].to(1).try_inline(header_of(sizeof value, int(value)), &value);
      if (status == Status::ok)
        ++taken[from];
      else
        REQUIRE(status == Status::again);
      world[from].rail->poll(world[from]);
    }
    CHECK(taken[from] > 10);
    CHECK(taken[from] < 200);
    CHECK(world[from].rail->counters().no_credit > 0);
  }
  REQUIRE(world.until([&] { return world[1].count == 2 + taken[0] + taken[2]; }));
  for (const uint32_t from : {0u, 2u})
    for (uint32_t i = 0; i < taken[from]; ++i) REQUIRE(world[1].received[from][1 + i].header.tag == int(i));
  // and on it goes
  for (int i = 0; i < 300; ++i) REQUIRE(world.push(0, 1, header_of(0), nullptr) == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 302 + taken[0] + taken[2]; }));
}

TEST_CASE("a peer's memory is read and written, in pieces of any size") {
  if (!devices()) return;
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const uint32_t flows : {0u, 1u, 3u}) {
    verbs::Options options;
    options.flows = flows;
    options.chunk = 16384;
    World world(2, options);
    REQUIRE(world.push(0, 1, header_of(0), nullptr) == Status::ok);
    REQUIRE(world.until([&] { return world[1].count == 1; }));
    Blob remote(1 << 20), local(1 << 20);
    fill(remote, random);
    const Region region = world[1].rail->expose(remote.data(), remote.size());
    for (int round = 0; round < 5; ++round) {
      const bool write = random() % 2;
      if (write) fill(local, random);
      std::vector<std::unique_ptr<Done>> dones;
      // pieces that do not overlap, several operations at a time
      for (size_t at = 0; at < local.size();) {
        const size_t total = std::min<size_t>(local.size() - at, 1 + random() % 300'000);
        std::vector<iovec> runs;
        for (size_t piece = 0; piece < total;) {
          const size_t n = std::min<size_t>(total - piece, 1 + random() % 100'000);
          runs.push_back({local.data() + at + piece, n});
          piece += n;
        }
        dones.push_back(std::make_unique<Done>());
        Endpoint& end = world[0].to(1);
        Status status;
        while ((status = write ? end.put(region, at, runs, *dones.back()) : end.get(region, at, runs, *dones.back())) == Status::again)
          world.poll();
        REQUIRE(status == Status::ok);
        at += total + random() % 50'000;
      }
      REQUIRE(world.push(0, 1, header_of(0), nullptr) == Status::ok);  // messages go on meanwhile
      REQUIRE(world.until([&] { return std::ranges::all_of(dones, [](auto& d) { return d->times == 1; }); }));
      for (auto& d : dones) CHECK(d->status == Status::ok);
    }
    // what was read and written last, piece by piece
    Done done;
    const iovec all{local.data(), local.size()};
    REQUIRE(world[0].to(1).get(region, 0, {&all, 1}, done) == Status::ok);
    REQUIRE(world.until([&] { return done.times == 1; }));
    CHECK(local == remote);
    fill(local, random);
    Done back;
    REQUIRE(world[0].to(1).put(region, 0, {&all, 1}, back) == Status::ok);
    REQUIRE(world.until([&] { return back.times == 1; }));
    CHECK(local == remote);
    world[1].rail->conceal(region);
    CHECK(world[0].to(1).backlog() == 0);
  }
}

TEST_CASE("a peer's memory is changed atomically by several at once") {
  if (!devices()) return;
  for (const uint32_t flows : {0u, 2u}) {
    verbs::Options options;
    options.flows = flows;
    World world(3, options);
    REQUIRE(world[0].rail->caps().atomics);
    for (const uint32_t from : {0u, 1u}) REQUIRE(world.push(from, 2, header_of(0), nullptr) == Status::ok);
    REQUIRE(world.until([&] { return world[2].count == 2; }));
    alignas(8) uint64_t words[4] = {7, 1000, ~uint64_t{0}, 5};
    const Region region = world[2].rail->expose(words, sizeof words);
    auto change = [&](uint32_t from, size_t word, const Atomic& what, uint64_t& before, Done& done) {
      Status status;
      while ((status = world[from].to(2).atomic(region, word * 8, what, &before, done)) == Status::again) world.poll();
      REQUIRE(status == Status::ok);
    };
    // two ranks add to one word: each number between is seen by one of them, once
    std::vector<uint64_t> seen(400);
    std::vector<Done> dones(seen.size());
    for (size_t i = 0; i < seen.size(); ++i) change(i % 2, 1, {Atomic::Kind::fetch_add, 3, 0}, seen[i], dones[i]);
    REQUIRE(world.until([&] { return std::ranges::all_of(dones, [](Done& d) { return d.times == 1; }); }));
    CHECK(std::ranges::all_of(dones, [](Done& d) { return d.status == Status::ok; }));
    std::ranges::sort(seen);
    for (size_t i = 0; i < seen.size(); ++i) REQUIRE(seen[i] == 1000 + 3 * i);
    CHECK(words[1] == 1000 + 3 * seen.size());
    // one swaps what is there, one does not, one adds past the end
    uint64_t before[3] = {};
    Done ends[3];
    change(0, 0, {Atomic::Kind::compare_swap, 8, 7}, before[0], ends[0]);
    change(1, 3, {Atomic::Kind::compare_swap, 8, 7}, before[1], ends[1]);
    change(0, 2, {Atomic::Kind::fetch_add, 2, 0}, before[2], ends[2]);
    REQUIRE(world.until([&] { return std::ranges::all_of(ends, [](Done& d) { return d.times == 1; }); }));
    CHECK(before[0] == 7);
    CHECK(before[1] == 5);
    CHECK(before[2] == ~uint64_t{0});
    CHECK(words[0] == 8);
    CHECK(words[3] == 5);
    CHECK(words[2] == 1);
    // what cannot be: astray, beyond the end, not exposed
    Done none;
    for (const uint64_t offset : {uint64_t{4}, uint64_t{32}, ~uint64_t{7}})
      CHECK(world[0].to(2).atomic(region, offset, {}, before, none) == Status::failed);
    CHECK(world[0].to(2).atomic({}, 0, {}, before, none) == Status::failed);
    CHECK(none.times == 0);
    world[2].rail->conceal(region);
    CHECK(world[0].to(2).backlog() == 0);
    CHECK(world[0].losses.empty());
  }
}

TEST_CASE("memory that was freed and mapped anew is read as it is now") {
  if (!devices()) return;
  World world(2);
  REQUIRE(world.push(0, 1, header_of(0), nullptr) == Status::ok);
  const size_t size = 256 << 10;
  void* place = nullptr;
  for (int round = 1; round < 20; ++round) {
    void* memory = mmap(place, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (place ? MAP_FIXED : 0), -1, 0);
    REQUIRE(memory != MAP_FAILED);
    place = memory;
    memset(memory, round, size);
    const Region region = world[1].rail->expose(memory, size);
    Blob got(size);
    const iovec all{got.data(), size};
    Done done;
    Status status;
    while ((status = world[0].to(1).get(region, 0, {&all, 1}, done)) == Status::again) world.poll();
    REQUIRE(status == Status::ok);
    REQUIRE(world.until([&] { return done.times == 1; }));
    CHECK(done.status == Status::ok);
    CHECK(std::ranges::all_of(got, [&](std::byte b) { return b == std::byte(round); }));
    world[1].rail->conceal(region);
    if (round % 2) munmap(memory, size);
  }
}

TEST_CASE("regions that make no sense are refused, and the way lives on") {
  if (!devices()) return;
  World world(2);
  REQUIRE(world.push(0, 1, header_of(0), nullptr) == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 1; }));
  Blob memory(5000), local(10000);
  const iovec all{local.data(), local.size()};
  Done done;
  CHECK(world[0].to(1).get({}, 0, {&all, 1}, done) == Status::failed);
  const Region region = world[1].rail->expose(memory.data(), memory.size());
  CHECK(world[0].to(1).get(region, 0, {&all, 1}, done) == Status::failed);
  CHECK(world[0].to(1).get(region, ~uint64_t{0}, {&all, 1}, done) == Status::failed);
  CHECK(done.times == 0);
  world[1].rail->conceal(region);
  world[1].rail->conceal(region);  // twice: nothing
  REQUIRE(world.push(0, 1, header_of(0), nullptr) == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 2; }));
}

TEST_CASE("attempts that cross lead to one way") {
  if (!devices()) return;
  for (int round = 0; round < 5; ++round) {
    World world(2);
    (void)world[0].to(1).try_inline(header_of(0), nullptr);
    (void)world[1].to(0).try_inline(header_of(0), nullptr);
    for (int i = 0; i < 5; ++i) {
      REQUIRE(world.push(0, 1, header_of(0, i), nullptr) == Status::ok);
      REQUIRE(world.push(1, 0, header_of(0, i), nullptr) == Status::ok);
    }
    REQUIRE(world.until([&] { return world[0].count == 5 && world[1].count == 5; }));
    CHECK(world[0].losses.empty());
    CHECK(world[1].losses.empty());
  }
}

TEST_CASE("a sleeper is woken by an arrival") {
  if (!devices()) return;
  World world(2);
  REQUIRE(world.push(0, 1, header_of(0), nullptr) == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 1 && world[0].to(1).backlog() == 0; }));
  for (int round = 0; round < 5; ++round) {
    const uint64_t before = world[1].count;
    while (!world[1].rail->arm()) world.poll();
    pollfd fd{world[1].rail->event_fd(), POLLIN, 0};
    REQUIRE(world[0].to(1).try_inline(header_of(0), nullptr) == Status::ok);
    CHECK(::poll(&fd, 1, 10'000) == 1);
    world[1].rail->disarm();
    REQUIRE(world.until([&] { return world[1].count == before + 1; }));
  }
}

TEST_CASE("a way that was cut carries nothing, and is opened anew by both sides only") {
  if (!devices()) return;
  World world(2, quick());
  REQUIRE(world.push(0, 1, header_of(0, 1), nullptr) == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 1; }));
  for (int round = 1; round < 4; ++round) {
    Blob memory(1 << 20), local(1 << 20);
    const Region region = world[1].rail->expose(memory.data(), memory.size());
    const iovec all{local.data(), local.size()};
    Done done;
    REQUIRE(world[0].to(1).get(region, 0, {&all, 1}, done) == Status::ok);
    REQUIRE(world[1].to(0).try_inline(header_of(0, 99), nullptr) == Status::ok);  // may or may not arrive
    world[0].to(1).cut();
    CHECK(done.times == 1);
    CHECK(world[0].to(1).try_inline(header_of(0), nullptr) == Status::peer_failed);
    world[0].received.clear();
    const uint64_t count = world[0].count;
    for (int i = 0; i < 1000; ++i) world.poll();
    CHECK(world[0].count == count);
    // one side opens it anew: the other learns from the attempt that it is over
    world[0].endpoints.clear();
    (void)world[0].to(1);
    for (int i = 0; i < 100; ++i) CHECK(world[0].to(1).try_inline(header_of(0, 5), nullptr) == Status::again);
    REQUIRE(world.until([&] { return world[1].losses.contains(0); }));
    CHECK(world[0].losses.empty());
    world[1].losses.clear();
    world[1].rail->conceal(region);
    const uint64_t before = world[1].count;
    for (int i = 0; i < 1000; ++i) world.poll();
    CHECK(world[0].to(1).try_inline(header_of(0, 5), nullptr) == Status::again);
    world[1].endpoints.clear();
    (void)world[1].to(0);
    REQUIRE(world.push(0, 1, header_of(0, 6), nullptr) == Status::ok);
    REQUIRE(world.push(1, 0, header_of(0, 7), nullptr) == Status::ok);
    REQUIRE(world.until([&] { return world[1].count == before + 1 && world[0].count == count + 1; }));
    CHECK(world[1].received[0].back().header.tag == 6);
    CHECK(world[0].received[1].back().header.tag == 7);
  }
}

TEST_CASE("a peer that is gone is lost, with words that help, and what was under way ends") {
  if (!devices()) return;
  World world(2, quick());
  Blob memory(1 << 20), local(1 << 20);
  REQUIRE(world.push(0, 1, header_of(0), nullptr) == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 1; }));
  const Region region = world[1].rail->expose(memory.data(), memory.size());
  world.nodes[1].reset();
  Done done, change;
  uint64_t before = 0;
  const iovec all{local.data(), local.size()};
  REQUIRE(world[0].to(1).get(region, 0, {&all, 1}, done) == Status::ok);
  REQUIRE(world[0].to(1).atomic(region, 0, {}, &before, change) == Status::ok);
  REQUIRE(world.until([&] { return !world[0].losses.empty(); }));
  for (const Done* each : {&done, &change}) {
    CHECK(each->times == 1);
    CHECK(each->status == Status::peer_failed);
  }
  const std::string why = world[0].losses[1];
  CAPTURE(why);
  for (const char* word : {"rank 1", "verbs", "rail 0", "active", "WEFT_VERBS_TIMEOUT"}) CHECK(why.find(word) != std::string::npos);
  CHECK(world[0].to(1).try_inline(header_of(0), nullptr) == Status::peer_failed);
}

TEST_CASE("a peer that is gone is noticed by those who only wait for it") {
  if (!devices()) return;
  verbs::Options options = quick();
  options.silence_s = 1;
  World world(2, options);
  REQUIRE(world.push(0, 1, header_of(0), nullptr) == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 1; }));
  REQUIRE(world.until([&] { return world[0].rail->counters().knocks >= 2; }));
  CHECK(world[0].losses.empty());
  world.nodes[1].reset();
  REQUIRE(world.until([&] { return !world[0].losses.empty(); }));
  CHECK(world[0].losses[1].find("WEFT_VERBS_TIMEOUT") != std::string::npos);
}

TEST_CASE("an access that the other side refuses ends the way on both sides, with words that help") {
  if (!devices()) return;
  World world(2, quick());
  REQUIRE(world.push(0, 1, header_of(0), nullptr) == Status::ok);
  REQUIRE(world.until([&] { return world[1].count == 1; }));
  Blob memory(4096), local(4096);
  Region region = world[1].rail->expose(memory.data(), memory.size());
  region.key[1] ^= std::byte{0x55};  // of the remote key
  Done done;
  const iovec all{local.data(), local.size()};
  REQUIRE(world[0].to(1).get(region, 0, {&all, 1}, done) == Status::ok);
  REQUIRE(world.until([&] { return !world[0].losses.empty(); }));
  CHECK(done.status == Status::peer_failed);
  const std::string why = world[0].losses[1];
  CAPTURE(why);
  for (const char* word : {"rank 1", "verbs", "rail 0", "active", "refused access", "MPI_Wait"}) CHECK(why.find(word) != std::string::npos);
  // whoever refused learns of it when it sends next, by a queue pair that broke or by a peer that does not answer
  (void)world[1].to(0).try_inline(header_of(0), nullptr);
  REQUIRE(world.until([&] { return !world[1].losses.empty(); }));
  CHECK(world[1].losses[0].find("rank 0") != std::string::npos);
  world[1].rail->conceal(region);
}

TEST_CASE("whoever leaves has delivered everything, and is not lost") {
  if (!devices()) return;
  World world(3, quick());
  for (int i = 0; i < 100; ++i) {
    REQUIRE(world.push(0, 1, header_of(0, i), nullptr) == Status::ok);
    if (i % 3 == 0) REQUIRE(world.push(1, 2, header_of(0, i), nullptr) == Status::ok);
  }
  std::vector<bool> left(3);
  REQUIRE(world.until([&] {
    bool all = true;
    for (uint32_t i = 0; i < 3; ++i) {
      if (!left[i]) left[i] = world[i].rail->drain();
      all = all && left[i];
    }
    return all;
  }));
  CHECK(world[1].received[0].size() == 100);
  CHECK(world[2].received[1].size() == 34);
  for (auto& node : world.nodes) CHECK(node->losses.empty());
}

TEST_CASE("strangers on the wire-up port change nothing") {
  if (!devices()) return;
  World world(2);
  const auto card = Card::decode(world.addresses[0]);
  REQUIRE(card);
  std::mt19937 random(5);
  std::vector<net::Fd> strangers;
  for (int i = 0; i < 20; ++i) {
    auto fd = net::start_connect({}, card->rails[0].addresses[0]);
    REQUIRE(fd);
    world.poll();
    Blob noise(random() % 400);
    fill(noise, random);
    if (i % 3) (void)!write(fd->get(), noise.data(), noise.size());
    strangers.push_back(std::move(*fd));
    for (int j = 0; j < 200; ++j) world.poll();
  }
  REQUIRE(world.push(1, 0, header_of(0), nullptr) == Status::ok);
  REQUIRE(world.until([&] { return world[0].count == 1 && world[0].rail->strangers().refused > 0; }));
  CHECK(world[0].losses.empty());
}
