// The transports `shm` and `self` between ranks as threads, and between processes.
#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "btl/copy/cma.h"
#include "btl/list.h"
#include "btl/shm/pace.h"
#include "btl/shm/segment.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/config/config.h"
#include "runtime/type/construct.h"
#include "runtime/type/predefined.h"
#include "test/unit/setting.h"

using namespace weft;
using namespace weft::btl;

namespace {

/// Keeps what arrives, by sender.
struct Mailbox : Sink {
  struct Mail {
    uint32_t from;
    Header header;
    std::vector<std::byte> payload;
  };
  std::vector<Mail> mails;
  std::vector<std::string> losses;
  std::function<void(uint32_t, const Header&, const std::byte*)> on_arrival;
  static void* cookie(uint32_t rank) { return reinterpret_cast<void*>(uintptr_t{rank} + 1); }

  void* meet(ProcessId from) override { return cookie(from.rank); }
  void arrived(void* cookie, const Header& h, const std::byte* payload) override {
    const uint32_t from = uint32_t(reinterpret_cast<uintptr_t>(cookie) - 1);
    if (on_arrival)
      on_arrival(from, h, payload);
    else
      mails.push_back({from, h, {payload, payload + h.length}});
  }
  std::byte* landing(void*, const Header&) override { return nullptr; }
  void lost(void*, const std::string& why) override { losses.push_back(why); }
};

/// Transports of several ranks in this process.
struct Node {
  explicit Node(uint32_t ranks, uint32_t nodes = 1) : boots(boot::open_fake(ranks, nodes)), boxes(ranks) {
    for (auto& boot : boots) {
      auto opened = open_shm({*boot});
      REQUIRE(opened);
      shm.push_back(std::move(*opened));
    }
  }
  Endpoint* connect(uint32_t from, uint32_t to) {
    auto endpoint = shm[from]->connect({0, to}, shm[to]->address(), Mailbox::cookie(to));
    REQUIRE(endpoint);
    return *endpoint;
  }
  std::vector<std::unique_ptr<boot::Bootstrap>> boots;
  std::vector<Mailbox> boxes;
  std::vector<std::unique_ptr<Transport>> shm;
};

Header numbered(uint64_t number, uint32_t length) {
  Header h;
  h.context = number;
  h.length = length;
  return h;
}

/// A message of no bytes.
void pass_on(Node& node, uint32_t from, uint32_t to) {
  REQUIRE(node.connect(from, to)->try_inline(numbered(1, 0), nullptr) == Status::ok);
  REQUIRE(node.shm[to]->poll(node.boxes[to]) == 1);
}

struct Flagged : Operation {
  Flagged() {
    done = [](Operation& self, Status s) {
      static_cast<Flagged&>(self).status = s;
      ++static_cast<Flagged&>(self).times;
    };
  }
  Status status = Status::again;
  int times = 0;
};

/// Runs `body` in a child process; it returns the exit status (0 is good).
int in_child(const std::function<int()>& body) {
  fflush(nullptr);
  const pid_t child = fork();
  if (!child) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("shm: messages of all sizes arrive in order", "[shm]") {
  Node node(2);
  Endpoint* there = node.connect(0, 1);
  Endpoint* back = node.connect(1, 0);
  const uint32_t most = node.shm[0]->caps().max_buffered;
  REQUIRE(most >= 4096);
  std::vector<std::byte> data(most);
  for (uint32_t i = 0; i < most; ++i) data[i] = std::byte(i * 13 >> 2);
  uint64_t number = 0;
  for (uint32_t length : {0u, 1u, 8u, 39u, 40u, 41u, 64u, 1000u, 4096u, most}) {
    for (Endpoint* endpoint : {there, back}) {
      Mailbox& box = node.boxes[endpoint == there];
      REQUIRE(endpoint->try_inline(numbered(++number, length), data.data()) == Status::ok);
      type::Cursor cursor(data.data(), length, type::of(type::Basic::byte));
      REQUIRE(endpoint->send(numbered(number + 1000, length), cursor) == Status::ok);
      CHECK(cursor.left() == 0);
      int polled = node.shm[endpoint == there]->poll(box);
      if (length >= shm::kStaysFrom) polled += node.shm[endpoint == there]->poll(box);
      REQUIRE(polled == 2);
      REQUIRE(box.mails.size() == 2);
      for (int i : {0, 1}) {
        CHECK(box.mails[i].header.context == number + 1000 * i);
        CHECK(box.mails[i].from == (endpoint == there ? 0 : 1));
        REQUIRE(box.mails[i].payload.size() == length);
        CHECK(std::equal(box.mails[i].payload.begin(), box.mails[i].payload.end(), data.begin()));
      }
      box.mails.clear();
    }
  }
}

TEST_CASE("shm: strided data is packed straight into the ring", "[shm]") {
  Node node(2);
  Endpoint* there = node.connect(0, 1);
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::vector<int32_t> data(100000);
  for (auto& value : data) value = int32_t(random());
  for (int round = 0; round < 50; ++round) {
    const int count = int(random() % 700) + 1, block = int(random() % 5) + 1, stride = block + int(random() % 6);
    type::Datatype* strided = nullptr;
    REQUIRE(type::vector(count, block, stride, type::of(type::Basic::int32), type::Form{}, strided) == 0);
    std::vector<std::byte> want;
    for (int i = 0; i < count; ++i) {
      const auto* from = reinterpret_cast<const std::byte*>(data.data() + i * stride);
      want.insert(want.end(), from, from + block * 4);
    }
    type::Cursor cursor(data.data(), 1, *strided);
    std::vector<std::byte> got;
    while (cursor.left()) {
      const uint64_t before = cursor.position();
      const uint32_t n = uint32_t(std::min<uint64_t>(cursor.left(), random() % node.shm[0]->caps().max_buffered + 1));
      if (there->send(numbered(before, n), cursor) == Status::ok) {
        REQUIRE(cursor.position() == before + n);
      } else {
        REQUIRE(cursor.position() == before);
        node.shm[1]->poll(node.boxes[1]);
      }
    }
    while (node.shm[1]->poll(node.boxes[1])) {
    }
    for (auto& mail : node.boxes[1].mails) got.insert(got.end(), mail.payload.begin(), mail.payload.end());
    node.boxes[1].mails.clear();
    REQUIRE(got == want);
    release(strided);
  }
}

TEST_CASE("shm: a full ring answers `again` and takes more after a poll", "[shm]") {
  Node node(2);
  Endpoint* there = node.connect(0, 1);
  std::vector<std::byte> data(node.shm[0]->caps().max_inline);
  for (uint32_t length : {8u, uint32_t(data.size())}) {
    uint64_t sent = 0;
    while (there->try_inline(numbered(sent, length), data.data()) == Status::ok) REQUIRE(++sent < 1'000'000);
    type::Cursor cursor(data.data(), length, type::of(type::Basic::byte));
    CHECK(there->send(numbered(sent, length), cursor) == Status::again);
    CHECK(cursor.position() == 0);
    while (node.shm[1]->poll(node.boxes[1])) {
    }
    REQUIRE(node.boxes[1].mails.size() == sent);
    for (uint64_t i = 0; i < sent; ++i) REQUIRE(node.boxes[1].mails[i].header.context == i);
    node.boxes[1].mails.clear();
    CHECK(there->try_inline(numbered(1, length), data.data()) == Status::ok);
    CHECK(node.shm[1]->poll(node.boxes[1]) == 1);
    node.boxes[1].mails.clear();
  }
}

TEST_CASE("shm: many peers, none of them starved", "[shm]") {
  constexpr uint32_t ranks = 40;
  Node node(ranks);
  for (uint32_t r = 1; r < ranks; ++r) {
    Endpoint* e = node.connect(r, 0);
    for (uint64_t i = 0; i < 60; ++i) REQUIRE(e->try_inline(numbered(i, 4), &r) == Status::ok);
  }
  std::map<uint32_t, uint64_t> next;
  int polls = 0;
  while (node.shm[0]->poll(node.boxes[0])) {
    CHECK(++polls < 1000);
    if (polls == int(ranks)) {
      for (auto& mail : node.boxes[0].mails) ++next[mail.from];
      CHECK(next.size() == ranks - 1);  // everybody has been served by now
      next.clear();
    }
  }
  for (auto& mail : node.boxes[0].mails) {
    REQUIRE(mail.header.context == next[mail.from]++);
    uint32_t told;
    std::memcpy(&told, mail.payload.data(), 4);
    REQUIRE(told == mail.from);
  }
  for (uint32_t r = 1; r < ranks; ++r) CHECK(next[r] == 60);
}

TEST_CASE("shm: reaches processes of its node only", "[shm]") {
  Node node(4, 2);
  for (uint32_t a = 0; a < 4; ++a)
    for (uint32_t b = 0; b < 4; ++b) CHECK(node.shm[a]->reaches({0, b}, node.shm[b]->address()) == (a / 2 == b / 2));
  boot::Blob nonsense(7);
  CHECK_FALSE(node.shm[0]->reaches({0, 1}, nonsense));
  CHECK_FALSE(node.shm[0]->reaches({0, 1}, {}));
  boot::Blob other = node.shm[1]->address();
  shm::Address address = *shm::Address::parse(other);
  address.boot_id[0] ^= 1;
  CHECK_FALSE(node.shm[0]->reaches({0, 1}, address.blob()));
}

TEST_CASE("shm: two threads exchange data over rings and by direct access", "[shm]") {
  Node node(2);
  constexpr int rounds = 3000;
  std::atomic<int> wrong{0};
  auto rank = [&](uint32_t me) {
    auto connected = node.shm[me]->connect({0, 1 - me}, node.shm[1 - me]->address(), Mailbox::cookie(1 - me));
    Endpoint* peer = *connected;
    Mailbox& box = node.boxes[me];
    std::vector<uint64_t> mine(5000), seen(5000);
    uint64_t heard = 0;
    Region remote;
    box.on_arrival = [&](uint32_t, const Header& h, const std::byte* payload) {
      wrong += h.context != ++heard;
      if (h.length == sizeof(Region)) std::memcpy(&remote, payload, sizeof remote);
    };
    auto send = [&](uint64_t number, const void* data, uint32_t length) {
      while (peer->try_inline(numbered(number, length), data) == Status::again) node.shm[me]->poll(box);
    };
    auto await = [&](uint64_t count) {
      while (heard < count)
        if (!node.shm[me]->poll(box)) std::this_thread::yield();
    };
    uint64_t number = 0;
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < mine.size(); i += 97) mine[i] = uint64_t(round) * 10 + me;
      const Region exposed = node.shm[me]->expose(mine.data(), mine.size() * 8);
      send(++number, &exposed, sizeof exposed);
      await(number);
      Flagged op;
      const size_t some = size_t(round) % mine.size() + 1;
      const iovec local[2] = {{seen.data(), some / 2 * 8}, {seen.data() + some / 2, (some - some / 2) * 8}};
      wrong += peer->get(remote, 0, local, op) != Status::ok;
      wrong += op.status != Status::ok || op.times != 1;
      for (size_t i = 0; i < some; i += 97) wrong += seen[i] != uint64_t(round) * 10 + (1 - me);
      send(++number, nullptr, 0);
      await(number);
    }
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  CHECK(wrong == 0);
}

TEST_CASE("shm: of two that lend the same CPU the one that is to leave hears of it", "[shm]") {
  constexpr uint64_t ms = 1'000'000, now = 1000 * ms;
  Node node(3);
  const auto send = [&](uint32_t from, uint32_t to) { pass_on(node, from, to); };
  const auto leaves = [&](uint32_t rank, uint32_t cpu, uint64_t at) { return node.shm[rank]->lends(cpu, at).leaves; };
  const auto apart = [&](uint32_t rank, uint32_t cpu, uint64_t at) { return node.shm[rank]->lends(cpu, at).apart; };
  CHECK_FALSE(leaves(1, 5, now));  // nobody has sent anything
  send(0, 1);
  CHECK_FALSE(leaves(1, 5, now));  // nor is 0 connected to
  send(1, 0);
  CHECK_FALSE(leaves(1, 5, now));       // nor has it lent anything
  CHECK_FALSE(leaves(0, 5, now + ms));  // which stays
  CHECK(leaves(1, 5, now + 2 * ms));
  CHECK_FALSE(apart(1, 5, now + 2 * ms));
  CHECK(node.shm[0]->lends(5, now + 2 * ms).here);
  CHECK_FALSE(leaves(1, 6, now + 2 * ms));
  CHECK(apart(1, 6, now + 2 * ms));
  CHECK_FALSE(leaves(1, 5, now + 1000 * ms));
  CHECK_FALSE(apart(1, 6, now + 1000 * ms));
  CHECK_FALSE(leaves(0, 0, now));
  CHECK(leaves(1, 0, now));
  send(1, 2);
  send(2, 1);  // whom 1 works with now
  CHECK_FALSE(leaves(1, 0, now));
  CHECK_FALSE(leaves(2, 4, now));
  CHECK(apart(1, 0, now));
}

TEST_CASE("shm: who has exchanged messages with several lately hears whether all of them are elsewhere", "[shm]") {
  constexpr uint64_t ms = 1'000'000, now = 1000 * ms;
  Node node(4);
  const auto send = [&](uint32_t from, uint32_t to) { pass_on(node, from, to); };
  const auto away = [&](uint32_t cpu, uint64_t at) { return node.shm[0]->lends(cpu, at).away; };
  const auto all_lend = [&](uint64_t at) {
    for (const uint32_t rank : {1u, 2u, 3u}) node.shm[rank]->lends(rank == 3 ? 5 : 6, at);
  };
  for (const uint32_t peer : {1u, 2u, 3u}) send(peer, 0), send(0, peer);
  all_lend(now);
  CHECK_FALSE(away(5, now));  // 3 is here
  all_lend(now + 6 * ms);
  CHECK_FALSE(away(5, now + 6 * ms));  // that was long ago
  send(0, 1);
  CHECK_FALSE(away(5, now + 6 * ms));  // to one alone, whom it had better not meet on one CPU
  send(2, 0);
  CHECK(away(5, now + 6 * ms));
  CHECK_FALSE(away(6, now + 6 * ms));
  CHECK(away(5, now + 8 * ms));
  CHECK_FALSE(away(5, now + 100 * ms));
}

TEST_CASE("shm: peers see who has left its CPU to others, or sleeps", "[shm]") {
  Node node(3);
  const Endpoint *to_0 = node.connect(1, 0), *to_2 = node.connect(1, 2);
  CHECK_FALSE(to_0->rests().has_value());
  node.shm[0]->rests(true);
  CHECK(to_0->rests() == true);
  CHECK_FALSE(to_2->rests().has_value());
  node.shm[0]->rests(false);
  CHECK(to_0->rests() == false);
  REQUIRE(node.shm[0]->arm());
  CHECK(to_0->rests() == true);
  node.shm[0]->disarm();
  CHECK(to_0->rests() == false);
}

TEST_CASE("shm: no wake-up is lost", "[shm]") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  for (const char* cpus : {"plenty", "crowded"}) {
    INFO(cpus);
    Node node(cpus == std::string("plenty") ? 2 : 64);  // more ranks than CPUs: senders fence
    constexpr uint64_t rounds = 4000;
    std::atomic<uint64_t> slept{0}, late{0};
    auto rank = [&](uint32_t me) {
      std::mt19937 random(seed + me);
      Transport& shm = *node.shm[me];
      Endpoint* peer = *shm.connect({0, 1 - me}, node.shm[1 - me]->address(), Mailbox::cookie(1 - me));
      uint64_t heard = 0;
      node.boxes[me].on_arrival = [&](uint32_t, const Header&, const std::byte*) { ++heard; };
      for (uint64_t round = 0; round < rounds; ++round) {
        for (uint32_t pause = random() % 64 ? random() % 200 : random() % 20000; pause; --pause) cpu_pause();
        peer->try_inline(numbered(round, 8), &round);
        while (heard <= round) {
          if (shm.poll(node.boxes[me])) continue;
          if (!shm.arm()) continue;
          pollfd waiting{shm.event_fd(), POLLIN, 0};
          slept += 1;
          late += ::poll(&waiting, 1, 5000) == 0;
          shm.disarm();
        }
      }
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
    CHECK(late == 0);
    CHECK(slept > 0);
  }
}

/// Reads of all lengths together, of the numbers i * 3 + `first`, one of them of memory that is not there; 0: all went well.
int gather(Transport& shm, Mailbox& box, Endpoint& peer, const Region& remote, uint64_t first) {
  constexpr size_t kReads = 40, kBad = 29;
  std::vector<std::vector<uint64_t>> seen;
  std::vector<Flagged> ops(kReads);
  for (size_t i = 0; i < kReads; ++i) {
    const iovec into{seen.emplace_back(i % 7 == 6 ? 100000 : 1000 + 333 * i).data(), seen.back().size() * 8};
    const Region nowhere{8, into.iov_len, {}};
    if (peer.gather_get(i == kBad ? nowhere : remote, i * 8, {&into, 1}, ops[i]) != Status::ok) return 30;
  }
  peer.flush();
  for (const Flagged& op : ops)
    while (!op.times) shm.poll(box);  // long ones are not gathered
  for (size_t i = 0; i < kReads; ++i) {
    if (ops[i].times != 1 || ops[i].status != (i == kBad ? Status::failed : Status::ok)) return 31;
    for (size_t k = 0; i != kBad && k < seen[i].size(); ++k)
      if (seen[i][k] != (i + k) * 3 + first) return 32;
  }
  peer.flush();  // nothing is left
  return ops.front().times == 1 ? 0 : 33;
}

TEST_CASE("shm: processes talk and read each other's memory", "[shm]") {
  int to_child[2], to_parent[2];
  REQUIRE(pipe(to_child) == 0);
  REQUIRE(pipe(to_parent) == 0);
  auto side = [&](uint32_t me, int in, int out) -> int {
    auto boots = boot::open_fake(2);
    auto shm = std::move(*open_shm({*boots[me]}));
    const boot::Blob mine = shm->address();
    boot::Blob theirs(mine.size());
    if (write(out, mine.data(), mine.size()) < 0 || read(in, theirs.data(), theirs.size()) != ssize_t(theirs.size())) return 1;
    Mailbox box;
    Endpoint* peer = *shm->connect({0, 1 - me}, theirs, Mailbox::cookie(1 - me));
    std::vector<std::byte> text(shm->caps().max_inline, std::byte(7 + me));
    for (int round = 0; round < 1000; ++round) {
      const uint32_t length = round % 3 ? uint32_t(round) % 64 : uint32_t(text.size());
      if (peer->try_inline(numbered(uint64_t(round), length), text.data()) != Status::ok) return 20;
      while (box.mails.empty()) shm->poll(box);
      const auto& mail = box.mails.front();  // the peer may be one message ahead
      if (mail.from != 1 - me || mail.header.context != uint64_t(round) || mail.payload.size() != length) return 21;
      if (length && mail.payload.back() != std::byte(8 - me)) return 22;
      box.mails.erase(box.mails.begin());
    }
    if (!peer->can_get()) return 0;  // not permitted in this place
    std::vector<uint64_t> data(3 << 20), seen(data.size(), 7);
    for (size_t i = 0; i < data.size(); ++i) data[i] = i * 3 + me;
    const Region region = shm->expose(data.data(), data.size() * 8);
    if (write(out, &region, sizeof region) < 0) return 2;
    Region remote;
    if (read(in, &remote, sizeof remote) != sizeof remote) return 3;
    Flagged op;
    std::vector<iovec> runs;
    for (size_t at = 0; at < seen.size();) {  // thousands of runs of odd lengths
      const size_t n = std::min<size_t>(seen.size() - at, 1 + at % 1789);
      runs.push_back({seen.data() + at, n * 8});
      at += n;
    }
    if (peer->get(remote, 0, runs, op) != Status::ok) return 4;
    while (!op.times) shm->poll(box);
    if (op.status != Status::ok) return 5;
    for (size_t i = 0; i < seen.size(); ++i)
      if (seen[i] != i * 3 + (1 - me)) return 6;
    if (const int wrong = gather(*shm, box, *peer, remote, 1 - me)) return wrong;
    // In one piece, so that the peer may take part, or read here itself at the same time.
    for (size_t count = 8 << 10, from = 0; count <= seen.size(); count = count * 3 / 2, ++from) {
      const size_t begin = std::min(from, seen.size() - count);
      std::fill(seen.begin(), seen.end(), 7);
      const iovec into{seen.data() + begin, count * 8};
      Flagged whole;
      if (peer->get(remote, begin * 8, {&into, 1}, whole) != Status::ok) return 23;
      while (!whole.times) shm->poll(box);
      if (whole.status != Status::ok) return 24;
      for (size_t i = 0; i < seen.size(); ++i)
        if (seen[i] != (i >= begin && i < begin + count ? i * 3 + (1 - me) : 7)) return 25;
    }
    char byte = 0;
    if (write(out, &byte, 1) < 0) return 7;
    for (pollfd answer{in, POLLIN, 0}; ::poll(&answer, 1, 0) == 0;) shm->poll(box);  // the peer may wait for what is written for it
    if (read(in, &byte, 1) != 1) return 7;
    Flagged wrote;
    uint64_t value = 4711 + me;
    const iovec local{&value, 8};
    if (peer->put(remote, 80, {&local, 1}, wrote) != Status::ok || wrote.status != Status::ok) return 8;
    if (write(out, &byte, 1) < 0 || read(in, &byte, 1) != 1) return 9;
    if (data[10] != 4711 + 1 - me) return 10;
    Flagged bad;
    Region nowhere{8, 4096, {}};
    const iovec into{seen.data(), 4096};
    if (peer->get(nowhere, 0, {&into, 1}, bad) != Status::failed || bad.times || last_failure().empty()) return 11;
    if (write(out, &byte, 1) < 0 || read(in, &byte, 1) != 1) return 12;
    return 0;
  };
  fflush(nullptr);
  const pid_t child = fork();
  if (!child) _exit(side(1, to_child[0], to_parent[1]));
  CHECK(side(0, to_parent[0], to_child[1]) == 0);
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  for (int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(fd);
}

TEST_CASE("shm: an ended peer is noticed when its ring is full", "[shm]") {
  int to_parent[2], to_child[2];
  REQUIRE(pipe(to_parent) == 0);
  REQUIRE(pipe(to_child) == 0);
  auto boots = boot::open_fake(2);
  fflush(nullptr);
  const pid_t child = fork();
  if (!child) {
    auto shm = std::move(*open_shm({*boots[1]}));
    const boot::Blob mine = shm->address();
    if (write(to_parent[1], mine.data(), mine.size()) < 0) _exit(1);
    char byte;
    _exit(read(to_child[0], &byte, 1) == 1 ? 0 : 1);  // without a destructor, as by kill -9
  }
  auto shm = std::move(*open_shm({*boots[0]}));
  boot::Blob theirs(sizeof(shm::Address));
  REQUIRE(read(to_parent[0], theirs.data(), theirs.size()) == ssize_t(theirs.size()));
  Mailbox box;
  Endpoint* peer = *shm->connect({0, 1}, theirs, Mailbox::cookie(1));
  REQUIRE(peer->try_inline(numbered(0, 0), nullptr) == Status::ok);
  REQUIRE(write(to_child[1], "x", 1) == 1);
  siginfo_t info;
  waitid(P_PID, id_t(child), &info, WEXITED | WNOWAIT);  // ended, not yet collected
  Status status = Status::ok;
  const uint64_t start = now_ns();
  while (status != Status::peer_failed && now_ns() - start < 20'000'000'000) status = peer->try_inline(numbered(0, 0), nullptr);
  CHECK(status == Status::peer_failed);
  CHECK(peer->try_inline(numbered(0, 0), nullptr) == Status::peer_failed);
  shm->poll(box);
  REQUIRE(box.losses.size() == 1);
  CHECK(box.losses[0].find("rank 1") != std::string::npos);
  waitpid(child, nullptr, 0);
  CHECK_FALSE(shm->connect({0, 9}, theirs, nullptr));  // gone: its file cannot be opened any more
  for (int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(fd);
}

TEST_CASE("shm: a stranger's memory is not taken for the peer's", "[shm]") {
  auto boots = boot::open_fake(2);
  const pid_t self = getpid();
  auto shm = std::move(*open_shm({*boots[0]}));
  const boot::Blob true_address = shm->address();
  CHECK(in_child([&] {
          auto mine = std::move(*open_shm({*boots[1]}));
          shm::Address forged = *shm::Address::parse(true_address);
          if (forged.pid != self) return 1;
          forged.cookie[3] ^= std::byte{1};
          auto refused = mine->connect({0, 0}, forged.blob(), nullptr);
          if (refused || refused.failure().text.find("another process") == std::string::npos) return 2;
          forged = *shm::Address::parse(true_address);
          forged.memory_fd = forged.bell_fd;  // a pipe is no segment
          if (mine->connect({0, 0}, forged.blob(), nullptr)) return 3;
          forged.memory_fd = 999;
          if (mine->connect({0, 0}, forged.blob(), nullptr)) return 4;
          return mine->connect({0, 0}, true_address, nullptr) ? 0 : 5;
        }) == 0);
}

TEST_CASE("shm: direct access can be turned off", "[shm]") {
  Setting no("WEFT_SHM_CMA", "no");
  Node node(2);
  CHECK_FALSE(node.shm[0]->caps().get);
  CHECK_FALSE(node.connect(0, 1)->can_get());
  CHECK_FALSE(config::find("WEFT_SHM_CMA")->set("perhaps", config::Origin::program));
  CHECK(config::find("WEFT_SHM_CMA")->text() == "no");
}

TEST_CASE("shm: what could lapse is not read out of a thread's memory, where nothing notices that it is gone", "[shm]") {
  Setting always("WEFT_SHM_READ", "always");
  Node node(2);
  Endpoint& peer = *node.connect(0, 1);
  CHECK(peer.get_spares(64 << 10, Flow::alone, true));
  CHECK_FALSE(peer.get_spares(64 << 10, Flow::alone, false));
}

TEST_CASE("shm: while both send, what has taken less time is taken, and the other one is tried again", "[shm]") {
  constexpr uint64_t kBytes = 128 << 10;
  const auto measure = [](auto& pace, double ns_per_byte) {
    for (int i = 0; i < 40; ++i) pace.took(kBytes, static_cast<uint64_t>(ns_per_byte * kBytes));
  };
  const auto writes = [](shm::Paces& paces, int of) {
    int count = 0;
    for (int i = 0; i < of; ++i) count += paces.put_spares();
    return count;
  };
  shm::Paces paces;
  CHECK(writes(paces, 1000) == 0);  // nothing is known
  measure(paces.in, 0.025);
  measure(paces.out, 0.025);
  CHECK(writes(paces, 1000) == 0);  // the ring is fast
  measure(paces.in, 0.07);
  measure(paces.out, 0.05);
  const int tried = writes(paces, 100);
  CHECK(tried > 0);
  CHECK(tried < 100);
  measure(paces.put, 0.15);  // slower
  CHECK(writes(paces, 100) == 0);
  CHECK(writes(paces, 1 << 16) > 0);  // tried again, seldom
  CHECK(writes(paces, 1 << 16) < 1 << 10);
  measure(paces.put, 0.08);  // faster
  CHECK(writes(paces, 1000) > 900);
  CHECK(writes(paces, 1000) < 1000);  // the ring is not forgotten
  measure(paces.in, 0.02);            // they have come near each other
  measure(paces.out, 0.02);
  CHECK(writes(paces, 1000) == 0);
}

namespace {

/// As if some messages had been read, each by this side alone.
void measure_reading(shm::Paces& paces, uint64_t bytes, double ns_per_byte, const ReadSpeed& speed = {}) {
  const auto ns = static_cast<uint64_t>(ns_per_byte * static_cast<double>(bytes));
  for (int i = 0; i < 40; ++i) paces.has_read({bytes, bytes, ns, {bytes, ns, 1}}, speed);
}

constexpr int kTrials = 60;  ///< messages of a thousand that are read to see whether that has become faster

}  // namespace

TEST_CASE("shm: messages are read out of their sender's memory while that takes less time", "[shm]") {
  constexpr uint64_t kBytes = 256 << 10;
  const auto measure = [](auto& pace, double ns_per_byte) {
    for (int i = 0; i < 40; ++i) pace.took(kBytes, static_cast<uint64_t>(ns_per_byte * kBytes));
  };
  bool offered = false;  // as the last answer has asked
  const auto reads = [&](shm::Paces& paces, int of, Flow flow = Flow::alone) {
    int count = 0;
    for (int i = 0; i < of; ++i) {
      const bool can = std::exchange(offered, paces.get_spares(kBytes, flow, offered));
      count += can && offered;
    }
    return count;
  };
  shm::Paces paces;
  CHECK(reads(paces, 1000) == 0);  // nothing is known
  measure(paces.out, 0.02);
  CHECK(reads(paces, 1000) == 0);  // the ring is fast
  measure(paces.out, 0.08);        // who only receives knows nothing of the other side
  const int tried = reads(paces, 100);
  CHECK(tried > 0);
  CHECK(tried < 20);
  measure_reading(paces, kBytes, 0.2);  // data that its sender has just written
  CHECK(reads(paces, 100) < 20);        // tried again soon, once,
  CHECK(reads(paces, 1000) < 20);       // then seldom
  CHECK(reads(paces, 1 << 16) > 0);
  CHECK(reads(paces, 1 << 16) < 1 << 10);
  measure_reading(paces, kBytes, 0.06);
  CHECK(reads(paces, 1000) > 950);
  CHECK(reads(paces, 1000) < 1000);  // the ring is not forgotten
  measure(paces.in, 0.04);
  measure(paces.out, 0.045);
  CHECK(reads(paces, 1000) < kTrials);  // one way, both sides of the ring copy at once
  const auto reads_of = [&](Flow flow, double ns_per_byte) {
    CHECK(reads(paces, 1000, flow) < 100);  // what messages take that go otherwise says nothing about these
    measure_reading(paces, kBytes, ns_per_byte);
    return reads(paces, 1000, flow);
  };
  CHECK(reads_of(Flow::stream, 0.06) < 50);      // in a stream neither waits for the other
  CHECK(reads_of(Flow::both_ways, 0.075) < 50);  // so slow as it has been written since, which will take its sender as long next time
  measure_reading(paces, kBytes, 0.05);
  CHECK(reads(paces, 1000, Flow::both_ways) > 900);  // both ways, each has both to do
  CHECK(reads(paces, 1000) < 100);                   // tried again sooner than if nothing was read
  measure(paces.put, 0.025);
  CHECK(reads(paces, 1000, Flow::both_ways) < 50);  // writing is faster still
  CHECK(paces.put_spares());
}

TEST_CASE("shm: what is known of reading goes for messages of similar length", "[shm]") {
  const auto measure = [](auto& pace, double ns_per_byte) {
    for (int i = 0; i < 40; ++i) pace.took(64 << 10, static_cast<uint64_t>(ns_per_byte * (64 << 10)));
  };
  const auto reads = [](shm::Paces& paces, uint64_t bytes, int of) {
    int count = 0;
    for (int i = 0; i < of; ++i) count += paces.get_spares(bytes, Flow::alone, true);
    return count;
  };
  shm::Paces paces;
  measure(paces.in, 0.04);
  measure(paces.out, 0.06);
  measure_reading(paces, 64 << 10, 0.04);
  measure_reading(paces, 256 << 10, 0.05);
  measure_reading(paces, 1 << 20, 0.2);
  CHECK(reads(paces, 64 << 10, 1000) > 950);
  CHECK(reads(paces, 100 << 10, 1000) > 950);
  CHECK(reads(paces, 256 << 10, 1000) > 950);
  CHECK(reads(paces, 1 << 20, 1000) < kTrials);
  CHECK(reads(paces, 16 << 20, 1000) < kTrials);  // tried, and not measured
  measure_reading(paces, 64 << 10, 0.072);
  CHECK(reads(paces, 64 << 10, 1000) < kTrials);  // announcing what could be sent at once costs something, too
  shm::Paces others;
  measure(others.in, 0.13);
  measure(others.out, 0.13);
  measure_reading(others, 1 << 20, 0.12);
  measure_reading(others, 4 << 20, 0.12);
  CHECK(reads(others, 1 << 20, 1000) < kTrials);  // slow as it has been written
  CHECK(reads(others, 4 << 20, 1000) > 950);      // as it does not stay in caches
}

TEST_CASE("shm: what a ring takes is known by how long messages are", "[shm]") {
  constexpr uint64_t kShort = 64 << 10, kLong = 1 << 20, kPiece = 64 << 10;
  const auto measure = [](shm::Paces& paces, double ns_per_byte) {
    const auto ns = static_cast<uint64_t>(ns_per_byte * kPiece);
    for (int i = 0; i < 40; ++i) paces.in.took(kPiece, ns), paces.out.took(kPiece, ns);
  };
  const auto reads = [](shm::Paces& paces, uint64_t bytes, Flow flow) {
    int count = 0;
    for (int i = 0; i < 1000; ++i) count += paces.get_spares(bytes, flow, true);
    return count;
  };
  shm::Paces paces(true);
  paces.get_spares(kShort, Flow::alone, true);
  measure(paces, 0.02);
  paces.get_spares(kLong, Flow::alone, true);
  CHECK(paces.in.known());  // as far as by shorter ones
  CHECK_FALSE(paces.in.settled());
  measure(paces, 0.1);
  measure_reading(paces, kLong, 0.06);
  CHECK(reads(paces, kLong, Flow::alone) > 950);
  paces.in.took(kPiece / 2, kPiece);  // a short one between them
  CHECK(paces.in.ns_per_byte() == Approx(0.1).epsilon(0.01));
  CHECK(reads(paces, kShort, Flow::alone) < 50);
  CHECK(paces.in.ns_per_byte() < 0.05);
}

TEST_CASE("shm: neither of two reads on only because the other one does", "[shm]") {
  constexpr uint64_t kBytes = 1 << 20, kPiece = 64 << 10;
  const auto reads = [](double ns_per_byte) {
    shm::Paces paces;
    paces.get_spares(kBytes, Flow::both_while_read, true);
    for (int i = 0; i < 40; ++i) paces.in.took(kPiece, kPiece / 20), paces.out.took(kPiece, kPiece / 20);
    measure_reading(paces, kBytes, ns_per_byte, {.call_ns = 340, .ns_per_byte = ns_per_byte});
    int count = 0;
    for (int i = 0; i < 1000; ++i) count += paces.get_spares(kBytes, Flow::both_while_read, true);
    return count;
  };
  CHECK(reads(0.135) < 500);  // trials, which are frequent there
  CHECK(reads(0.1) > 950);
}

TEST_CASE("shm: what is streamed to a process does not take as long as it once took that one to send", "[shm]") {
  constexpr uint64_t kBytes = 4 << 20, kPiece = 64 << 10;
  const auto reads = [](double in_ns_per_byte) {
    shm::Paces paces;
    paces.get_spares(kBytes, Flow::stream, true);
    for (int i = 0; i < 40; ++i) paces.in.took(kPiece, static_cast<uint64_t>(in_ns_per_byte * kPiece)), paces.out.took(kPiece, kPiece / 20);
    measure_reading(paces, kBytes, 0.08);
    int count = 0;
    for (int i = 0; i < 1000; ++i) count += paces.get_spares(kBytes, Flow::stream, true);
    return count;
  };
  CHECK(reads(0.05) < 150);
  CHECK(reads(0.2) < 150);
}

TEST_CASE("shm: where CPUs are contended long messages are read, by fast kernels unless a ring is known to take less", "[shm]") {
  constexpr uint64_t kBytes = 512 << 10, kPiece = 64 << 10;
  const auto ring_takes = [](shm::Paces& paces, double ns_per_byte) {
    const auto ns = static_cast<uint64_t>(ns_per_byte * kPiece);
    for (int i = 0; i < 40; ++i) paces.in.took(kPiece, ns), paces.out.took(kPiece, ns);
  };
  const auto reads = [](shm::Paces& paces) {
    int count = 0;
    for (int i = 0; i < 1000; ++i) count += paces.get_spares(kBytes, Flow::contended, true);
    return count;
  };
  shm::Paces paces(true);
  ring_takes(paces, 0.02);  // of short ones
  CHECK(paces.get_spares(kBytes, Flow::contended, true));
  measure_reading(paces, kBytes, 0.15);  // if it is written again, that takes as long as if it had gone through a ring
  CHECK(reads(paces) > 950);
  ring_takes(paces, 0.05);
  CHECK(reads(paces) < 200);  // trials, which are frequent there
  shm::Paces others(false);
  ring_takes(others, 0.02);
  CHECK_FALSE(others.get_spares(kBytes, Flow::contended, true));
  ring_takes(others, 0.05);
  measure_reading(others, kBytes, 0.12);
  CHECK(reads(others) < 100);
  ring_takes(others, 0.1);
  CHECK(reads(others) > 900);
}

TEST_CASE("shm: reading is tried later where the kernel is rarely ahead", "[shm]") {
  const auto first = [](bool kernel_ahead) {
    shm::Paces paces(kernel_ahead);
    for (int i = 0; i < 40; ++i) paces.in.took(1 << 20, 1 << 17), paces.out.took(1 << 20, 1 << 17);
    int count = 0;
    while (count < 1000 && !paces.get_spares(1 << 20, Flow::alone, true)) ++count;
    return count;
  };
  CHECK(first(true) == 8);
  CHECK(first(false) == 32);
}

TEST_CASE("shm: reading is not tried where the kernel takes longer for what is unchanged than it may", "[shm]") {
  constexpr uint64_t kBytes = 1 << 20, kPiece = 64 << 10;
  const auto tries = [](Flow flow, double kernel_ns_per_byte) {
    shm::Paces paces;
    paces.get_spares(kBytes, flow, true);
    for (int i = 0; i < 40; ++i) paces.in.took(kPiece, kPiece / 20), paces.out.took(kPiece, kPiece / 20);
    int count = 0;
    for (int i = 0; i < 1000; ++i) count += paces.get_spares(kBytes, flow, true, {.ns_per_byte = kernel_ns_per_byte});
    return count;
  };
  for (const Flow flow : {Flow::alone, Flow::both_ways, Flow::contended_busy}) {  // of a ring's time 0.05, 0.098, 0.098 at least
    CHECK(tries(flow, 0.04) > 0);
    CHECK(tries(flow, flow == Flow::alone ? 0.09 : 0.15) == 0);
  }
  CHECK(tries(Flow::alone, 0.08) > 0);  // both copy
}

TEST_CASE("shm: what takes longer to read than it would unchanged on this machine has been written", "[shm]") {
  constexpr uint64_t kBytes = 64 << 10;
  const auto reads = [](const ReadSpeed& speed) {
    shm::Paces paces;
    for (int i = 0; i < 40; ++i) paces.in.took(kBytes, kBytes / 10), paces.out.took(kBytes, kBytes / 10);
    measure_reading(paces, kBytes, 0.09, speed);
    int count = 0;
    for (int i = 0; i < 1000; ++i) count += paces.get_spares(kBytes, Flow::alone, true);
    return count;
  };
  CHECK(reads({.call_ns = 340, .ns_per_byte = 0.03}) < kTrials);
  CHECK(reads({.call_ns = 750, .ns_per_byte = 0.05}) > 950);
  const ReadSpeed& here = btl::copy::read_speed();
  CHECK(here.call_ns > 0);
  CHECK(here.ns_per_byte > 0);
}

TEST_CASE("shm: of what both sides copy, what its receiver takes longer for as it has been written costs half as much again", "[shm]") {
  constexpr uint64_t kBytes = 256 << 10;
  const auto reads = [](double own_ns_per_byte) {
    shm::Paces paces;
    for (int i = 0; i < 40; ++i) paces.in.took(kBytes, kBytes / 20), paces.out.took(kBytes, kBytes / 20);
    CHECK_FALSE(paces.get_spares(kBytes, Flow::alone, true));
    const auto own_ns = static_cast<uint64_t>(own_ns_per_byte * kBytes / 2);
    for (int i = 0; i < 40; ++i) paces.has_read({kBytes, kBytes, own_ns, {kBytes / 2, own_ns, 1}}, {});
    int count = 0;
    for (int i = 0; i < 1000; ++i) count += paces.get_spares(kBytes, Flow::alone, true);
    return count;
  };
  CHECK(reads(0.05) > 900);
  CHECK(reads(0.1) < 100);  // half of that, and 0.025 for the sender: not far enough ahead of the ring
  shm::Paces paces;
  for (const auto& [bytes, flow, shared] : {std::tuple{uint64_t{32} << 10, Flow::alone, false},
                                            {64 << 10, Flow::alone, true},
                                            {32 << 10, Flow::stream, false},
                                            {64 << 10, Flow::stream, true},
                                            {256 << 10, Flow::stream, true},
                                            {64 << 10, Flow::contended, false},
                                            {512 << 10, Flow::contended, false},
                                            {1 << 20, Flow::contended, true},
                                            {1 << 20, Flow::contended_busy, false},
                                            {1 << 20, Flow::both_ways, false},
                                            {1 << 20, Flow::both_while_read, false}}) {
    paces.get_spares(bytes, flow, true);
    CHECK(paces.shares(bytes, false) == shared);
    CHECK(paces.shares(bytes, true) == (shared && !(flow == Flow::stream && bytes == 64 << 10)));
  }
}

TEST_CASE("shm: payloads fit the rings of all who have been met", "[shm]") {
  auto boots = boot::open_fake(2);
  auto a = std::move(*open_shm({*boots[0]}));
  Setting small("WEFT_SHM_RING", "16K");
  auto b = std::move(*open_shm({*boots[1]}));
  Endpoint* const to_b = *a->connect({0, 1}, b->address(), Mailbox::cookie(1));
  Endpoint* const to_a = *b->connect({0, 0}, a->address(), Mailbox::cookie(0));
  CHECK(a->caps().max_inline == b->caps().max_inline);
  CHECK(a->caps().max_buffered == b->caps().max_buffered);
  const std::vector<std::byte> data(a->caps().max_buffered, std::byte{3});
  Mailbox box;
  for (uint64_t i = 0; i < 9; ++i) {
    REQUIRE(to_b->try_inline(numbered(i, uint32_t(data.size())), data.data()) == Status::ok);
    REQUIRE(to_a->try_inline(numbered(i, uint32_t(data.size())), data.data()) == Status::ok);
    a->poll(box);
    b->poll(box);
  }
  CHECK(box.mails.size() == 18);
}

TEST_CASE("shm: too little memory is a clear error", "[shm]") {
  auto boots = boot::open_fake(2);
  SECTION("limit on file sizes") {
    CHECK(in_child([&] {
            rlimit limit{100 << 10, 100 << 10};
            setrlimit(RLIMIT_FSIZE, &limit);
            auto refused = open_shm({*boots[0]});
            return !refused && refused.failure().text.find("ulimit -f") != std::string::npos ? 0 : 1;
          }) == 0);
  }
  SECTION("folder that is not there") {
    Setting folder("WEFT_SHM_FOLDER", "/nonexistent");
    auto refused = open_shm({*boots[0]});
    REQUIRE_FALSE(refused);
    CHECK(refused.failure().text.find("/nonexistent") != std::string::npos);
  }
  SECTION("full tmpfs") {
    char folder[] = "/tmp/weft-shm-test-XXXXXX";
    REQUIRE(mkdtemp(folder));
    if (mount("tmpfs", folder, "tmpfs", 0, "size=64k") != 0) {
      WARN("needs root to mount a small tmpfs");
    } else {
      Setting place("WEFT_SHM_FOLDER", folder);
      CHECK(in_child([&] {
              auto a = open_shm({*boots[0]});  // heads fit
              if (!a) return 1;
              const boot::Blob address = (*a)->address();
              const int rc = in_child([&] {
                auto b = open_shm({*boots[1]});
                if (!b) return 2;
                auto peer = (*b)->connect({0, 0}, address, nullptr);
                if (!peer) return 3;
                if ((*peer)->try_inline(numbered(0, 0), nullptr) != Status::failed) return 4;
                return last_failure().find("WEFT_SHM_RING") != std::string_view::npos ? 0 : 5;
              });
              return rc;
            }) == 0);
      umount(folder);
    }
    rmdir(folder);
  }
}

TEST_CASE("self: messages come back at the next poll, and not before", "[self]") {
  auto boots = boot::open_fake(2);
  auto self = std::move(*open_self({*boots[1]}));
  CHECK(self->reaches({0, 1}, {}));
  CHECK_FALSE(self->reaches({0, 0}, {}));
  CHECK(self->arm());
  int mark = 0;
  Endpoint* me = *self->connect({0, 1}, {}, &mark);
  std::vector<std::byte> data(me ? self->caps().max_buffered : 0, std::byte{5});
  Mailbox box;
  int echoes = 0;
  box.on_arrival = [&](uint32_t, const Header& h, const std::byte*) {
    if (h.length == 8 && ++echoes < 3) CHECK(me->try_inline(numbered(0, 8), data.data()) == Status::ok);  // sends while being served
  };
  CHECK(me->try_inline(numbered(0, 8), data.data()) == Status::ok);
  CHECK_FALSE(self->arm());
  while (self->poll(box)) {
  }
  CHECK(echoes == 3);
  uint64_t sent = 0;
  while (me->try_inline(numbered(sent, uint32_t(data.size())), data.data()) == Status::ok) ++sent;
  CHECK(sent >= 3);
  uint64_t from = 1, to = 2;
  Flagged got, put;
  const iovec local{&to, 8};
  CHECK(me->get(self->expose(&from, 8), 0, {&local, 1}, got) == Status::ok);
  CHECK(to == 1);
  to = 9;
  CHECK(me->put(self->expose(&from, 8), 0, {&local, 1}, put) == Status::ok);
  CHECK(from == 9);
  CHECK((got.times == 1 && put.times == 1));
}
