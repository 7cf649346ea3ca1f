// The fault-injecting transport around a transport of memory: what it may do wrong, and what must hold whatever the plan.
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <random>

#include "btl/btl.h"
#include "btl/wrap/plan.h"
#include "runtime/type/predefined.h"

using namespace weft;
using namespace weft::btl;

namespace {

struct Delivery {
  uint32_t peer;
  Header header;
  std::vector<std::byte> payload;
};

/// Records what is sent, in order; completes zero-copy sends at the next poll.
class Memory final : public Transport {
 public:
  struct Way final : Endpoint {
    Memory& owner;
    uint32_t peer;
    void* cookie = nullptr;
    Way(Memory& o, uint32_t p) : owner(o), peer(p) {}
    Status note(const Header& header, std::vector<std::byte> bytes) {
      if (owner.random() % 4 == 0) return Status::again;
      owner.log.push_back({peer, header, std::move(bytes)});
      return Status::ok;
    }
    Status try_inline(const Header& header, const void* payload) override {
      const auto* first = static_cast<const std::byte*>(payload);
      return note(header, {first, first + header.length});
    }
    Status send(const Header& header, type::Cursor& cursor) override {
      type::Cursor copy = cursor;
      std::vector<std::byte> bytes(header.length);
      copy.pack(bytes.data(), bytes.size());
      const Status status = note(header, std::move(bytes));
      if (status == Status::ok) cursor = copy;
      return status;
    }
    Status send_zcopy(const Header& header, std::span<const iovec> runs, Operation& op) override {
      std::vector<std::byte> bytes;
      for (const iovec& run : runs)
        bytes.insert(bytes.end(), static_cast<std::byte*>(run.iov_base), static_cast<std::byte*>(run.iov_base) + run.iov_len);
      const Status status = note(header, std::move(bytes));
      if (status == Status::ok) owner.ending.push_back(&op);
      return status;
    }
    Status get(const Region&, uint64_t, std::span<const iovec>, Operation& op) override {
      ++owner.gets;
      op.done(op, Status::ok);
      return Status::ok;
    }
    std::string describe() const override { return "memory"; }
  };

  Memory() {
    caps_.name = "memory";
    caps_.max_inline = 64;
    caps_.max_buffered = 4096;
    caps_.zcopy = caps_.get = true;
  }
  const Caps& caps() const override { return caps_; }
  boot::Blob address() const override { return {}; }
  bool reaches(ProcessId, const boot::Blob&) const override { return true; }
  Result<Endpoint*> connect(ProcessId who, const boot::Blob&, void* cookie) override {
    auto& slot = ways[who.rank];
    if (!slot) slot = std::make_unique<Way>(*this, who.rank);
    slot->cookie = cookie;
    return slot.get();
  }
  int poll(Sink& sink) override {
    for (Operation* op : std::exchange(ending, {})) op->done(*op, Status::ok);
    for (auto& [peer, header] : std::exchange(incoming, {})) {
      std::vector<std::byte> bytes(header.length);
      if (std::byte* place = sink.landing(ways[peer]->cookie, header)) memcpy(place, bytes.data(), bytes.size());
      sink.arrived(ways[peer]->cookie, header, bytes.data());
    }
    if (lose >= 0) sink.lost(ways[uint32_t(std::exchange(lose, -1))]->cookie, "broken");
    return 0;
  }

  std::mt19937 random{5};
  std::vector<Delivery> log;
  std::vector<Operation*> ending;
  std::vector<std::pair<uint32_t, Header>> incoming;
  std::map<uint32_t, std::unique_ptr<Way>> ways;
  int gets = 0, lose = -1;

 private:
  Caps caps_;
};

struct Done : Operation {
  int times = 0;
  Status status = Status::ok;
  Done() : Operation{[](Operation& op, Status s) { ++static_cast<Done&>(op).times, static_cast<Done&>(op).status = s; }} {}
};

struct Bench : Sink {
  Memory* memory;
  std::unique_ptr<Transport> wrapped;
  std::vector<Endpoint*> ends;
  int arrivals = 0, landings = 0;
  std::map<void*, std::string> losses;

  Bench(const char* plan, uint32_t peers) {
    auto inner = std::make_unique<Memory>();
    memory = inner.get();
    auto made = wrap(std::move(inner), plan);
    REQUIRE(made);
    wrapped = std::move(*made);
    for (uint32_t p = 0; p < peers; ++p) ends.push_back(*wrapped->connect({0, p}, {}, cookie(p)));
  }
  static void* cookie(uint32_t p) { return reinterpret_cast<void*>(uintptr_t{p} + 1); }
  void* meet(ProcessId from) override { return cookie(from.rank); }
  void arrived(void*, const Header&, const std::byte*) override { ++arrivals; }
  std::byte* landing(void*, const Header&) override { return ++landings, nullptr; }
  void lost(void* c, const std::string& why) override {
    CHECK(losses.count(c) == 0);
    losses[c] = why;
  }
  void settle() {
    for (int i = 0; i < 2'000'000 && !wrapped->drain(); ++i) wrapped->poll(*this);
    wrapped->poll(*this);
  }
};

Header header_of(uint32_t length, int32_t tag) { return {1, tag, 0, length, 0, 1, 0}; }

/// Random sends of all kinds to several peers; checks order, content and completions. Returns how often peers changed places
/// between sending and delivery.
size_t traffic(Bench& bench, uint32_t seed, int messages, uint64_t& refusals) {
  std::mt19937 random(seed);
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::unique_ptr<Done>> dones;
  std::vector<uint32_t> order;
  std::vector<int32_t> next(bench.ends.size(), 0);
  memory.reserve(size_t(messages));
  for (int i = 0; i < messages; ++i) {
    const auto peer = uint32_t(random() % bench.ends.size());
    const uint32_t how = random() % 3;
    const uint32_t length = random() % (how == 0 ? 65 : 4097);
    auto& bytes = memory.emplace_back(length);
    for (std::byte& b : bytes) b = std::byte(next[peer] + int(peer));
    const Header header = header_of(length, next[peer]++);
    order.push_back(peer);
    type::Cursor cursor(bytes.data(), length, type::of(type::Basic::byte));
    const iovec run{bytes.data(), length};
    if (how == 2) dones.push_back(std::make_unique<Done>());
    for (;;) {
      const Status status = how == 0   ? bench.ends[peer]->try_inline(header, bytes.data())
                            : how == 1 ? bench.ends[peer]->send(header, cursor)
                                       : bench.ends[peer]->send_zcopy(header, {&run, 1}, *dones.back());
      if (status == Status::ok) break;
      REQUIRE(status == Status::again);
      CHECK(cursor.position() == 0);
      ++refusals;
      bench.wrapped->poll(bench);
    }
    if (how == 1) CHECK(cursor.position() == length);
    if (random() % 8 == 0) bench.wrapped->poll(bench);
  }
  bench.settle();
  REQUIRE(bench.memory->log.size() == size_t(messages));
  std::vector<int32_t> seen(bench.ends.size(), 0);
  size_t swapped = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const Delivery& d = bench.memory->log[i];
    swapped += d.peer != order[i];
    CHECK(d.header.tag == seen[d.peer]++);
    CHECK(d.payload.size() == d.header.length);
    for (const std::byte b : d.payload)
      if (b != std::byte(d.header.tag + int(d.peer))) FAIL("wrong byte");
  }
  for (auto& done : dones) CHECK(done->times == 1);
  for (Endpoint* end : bench.ends) CHECK(end->backlog() == 0);
  return swapped;
}

}  // namespace

TEST_CASE("plans are read strictly") {
  const auto plan = wrapping::parse_plan("delay=10us-1ms,reorder=0.1,again=0.1x50,drop=0.01,fail_after=1000,fail_peer=3,seed=7");
  REQUIRE(plan);
  CHECK(plan->delay_least_ns == 10'000);
  CHECK(plan->delay_most_ns == 1'000'000);
  CHECK(plan->again_run == 50);
  CHECK(plan->fail_peer == 3);
  CHECK(plan->seed == 7);
  CHECK(wrapping::parse_plan(""));
  for (const char* bad : {"delay", "delay=5", "delay=-5us", "delay=2ms-1ms", "delay=1e9s", "reorder=2", "reorder=-1", "again=1",
                          "again=0.1x0", "drop=1", "fail_after=x", "fail_peer=-1", "sed=1", "seed=1,,x=2", "again=nan", "delay=inf"}) {
    INFO(bad);
    CHECK_FALSE(wrapping::parse_plan(bad));
  }
}

TEST_CASE("messages stay whole and in order whatever the plan") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  for (const char* plan :
       {"", "delay=1us", "delay=0ns-200us,seed=3", "reorder=0.2", "again=0.3x5", "delay=5us-50us,reorder=0.1,again=0.05x20,drop=0.5"}) {
    INFO(plan);
    Bench bench(plan, 4);
    uint64_t refusals = 0;
    const size_t swapped = traffic(bench, seed, 600, refusals);
    if (std::string(plan).find("reorder") != std::string::npos || std::string(plan).find("200us") != std::string::npos) CHECK(swapped > 0);
    if (std::string(plan).empty()) CHECK(swapped == 0);
    if (std::string(plan).empty() || std::string(plan).find("again") != std::string::npos) CHECK(refusals > 0);
    CHECK(bench.losses.empty());
  }
}

TEST_CASE("a sleeper is not left alone with held messages") {
  Bench bench("delay=1ms", 1);
  CHECK(bench.wrapped->arm());
  bench.wrapped->disarm();
  CHECK(bench.ends[0]->try_inline(header_of(2, 1), "hi") == Status::ok);
  CHECK(bench.ends[0]->backlog() > 0);
  CHECK_FALSE(bench.wrapped->arm());
  CHECK_FALSE(bench.wrapped->drain());
  bench.settle();
  CHECK(bench.memory->log.size() == 1);
}

TEST_CASE("a way is lost after the planned number of messages") {
  Bench bench("fail_after=5,fail_peer=1,delay=1s", 2);
  Done done;
  std::byte byte{};
  const iovec run{&byte, 1};
  REQUIRE(bench.ends[1]->send_zcopy(header_of(1, 0), {&run, 1}, done) == Status::ok);
  for (int i = 0; i < 3; ++i) REQUIRE(bench.ends[1]->try_inline(header_of(1, i), "x") == Status::ok);
  for (int i = 0; i < 10; ++i) REQUIRE(bench.ends[0]->try_inline(header_of(1, i), "x") == Status::ok);
  CHECK(bench.losses.empty());
  CHECK(bench.ends[1]->try_inline(header_of(1, 4), "x") == Status::peer_failed);
  CHECK(done.times == 0);
  bench.memory->incoming = {{1, header_of(4, 0)}, {0, header_of(4, 0)}};
  bench.wrapped->poll(bench);
  bench.wrapped->poll(bench);
  CHECK(bench.arrivals == 1);  // nothing more from peer 1
  CHECK(bench.landings == 0);
  CHECK(done.times == 1);
  CHECK(done.status == Status::peer_failed);
  REQUIRE(bench.losses.size() == 1);
  CHECK(bench.losses[Bench::cookie(1)].find("rank 1 is lost") == 0);
  CHECK(bench.ends[1]->try_inline(header_of(1, 4), "x") == Status::peer_failed);
  bench.memory->lose = 1;
  bench.wrapped->poll(bench);  // told once only: checked in lost()
}

TEST_CASE("a loss below is passed on once and empties what is held") {
  Bench bench("delay=1s", 2);
  REQUIRE(bench.ends[0]->try_inline(header_of(1, 0), "x") == Status::ok);
  bench.memory->lose = 0;
  bench.wrapped->poll(bench);
  CHECK(bench.losses[Bench::cookie(0)] == "broken");
  CHECK(bench.ends[0]->backlog() == 0);
  CHECK(bench.wrapped->arm());
}

TEST_CASE("gets are dropped by being told to come again") {
  Bench bench("drop=0.5,seed=11", 1);
  int again = 0;
  for (int i = 0; i < 200; ++i) {
    Done done;
    REQUIRE(bench.ends[0]->get({}, 0, {}, done) == Status::ok);
    CHECK(done.times == 1);
    again += done.status == Status::again;
  }
  CHECK(again == 200 - bench.memory->gets);
  CHECK(again > 50);
  CHECK(again < 150);
}

TEST_CASE("the same seed gives the same faults") {
  std::vector<Status> first, second;
  for (auto* list : {&first, &second}) {
    Bench bench("again=0.3x2,seed=42", 1);
    for (int i = 0; i < 200; ++i) list->push_back(bench.ends[0]->try_inline(header_of(1, i), "x"));
  }
  CHECK(first == second);
}
