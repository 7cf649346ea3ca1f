// Strangers and vandals at the tcp port: refused, counted, and of no consequence for the honest.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <random>

#include "runtime/net/handshake.h"
#include "test/unit/btl/tcp_world.h"

using namespace tcp_test;

namespace {

using Blob = std::vector<std::byte>;

net::Address port_of(World& world, uint32_t rank) { return Card::decode(world.addresses[rank])->rails[0].addresses[0]; }

/// A connection of a stranger's, non-blocking.
net::Fd knock(World& world, uint32_t rank) {
  auto fd = net::start_connect({}, port_of(world, rank));
  REQUIRE(fd);
  return std::move(*fd);
}

void shout(const net::Fd& fd, net::Bytes bytes) { (void)!::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }

/// True once the other side has closed.
bool closed(const net::Fd& fd) {
  char byte[512];
  for (;;) {
    const ssize_t n = recv(fd.get(), byte, sizeof byte, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return true;
    if (n < 0) return false;
  }
}

/// Polls the world until `n` bytes came, or nothing more can come.
Blob hear(World& world, const net::Fd& fd, size_t n) {
  Blob out;
  world.until([&] {
    std::byte in[512];
    const ssize_t got = recv(fd.get(), in, std::min(sizeof in, n - out.size()), MSG_DONTWAIT);
    if (got > 0) out.insert(out.end(), in, in + got);
    return out.size() == n || got == 0 || (got < 0 && errno != EAGAIN);
  });
  return out;
}

/// The honest still reach each other.
void still_works(World& world) {
  for (auto& node : world.nodes) node->received.clear();
  for (uint32_t to : {0u, 1u}) REQUIRE(world.push(1 - to, to, header_of(4), "fine") == Status::ok);
  REQUIRE(world.until([&] { return world[0].received[1].size() == 1 && world[1].received[0].size() == 1; }));
  CHECK(world[0].losses.empty());
  CHECK(world[1].losses.empty());
}

net::Digest key_for(World& world, uint32_t rank) {
  const auto card = Card::decode(world.addresses[rank]);
  return key_of(world.boots[rank]->job().secret, "tcp", card->token);
}

Introduction introduction(World& world, uint32_t from, uint32_t to) {
  return {"tcp", job_number(world.boots[0]->job().name), from, to, 0, 0, 0, "stranger"};
}

/// Runs a handshake with rank `to` over `fd`; the verdict, none if it came to none.
net::Verdict shake(World& world, const net::Fd& fd, const net::Digest& key, const Introduction& who) {
  auto hands = net::Handshake::initiate(key, who.claim());
  while (hands.state() == net::Handshake::State::going) {
    shout(fd, hands.output());
    hands.sent(hands.output().size());
    const Blob answer = hear(world, fd, hands.wanted());
    if (answer.empty()) return net::Verdict::none;
    hands.feed(answer);
  }
  return hands.verdict();
}

}  // namespace

TEST_CASE("random bytes, floods and silence at the port change nothing") {
  World world(2, only("127.0.0.1/8"));
  std::mt19937 random(std::random_device{}());
  const char* words[] = {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n", "\x16\x03\x01", "WEFT-NET"};
  std::vector<net::Fd> strangers;
  for (int i = 0; i < 60; ++i) {
    strangers.push_back(knock(world, 0));
    world.poll();
    if (i % 3 == 0) shout(strangers.back(), net::bytes_of(words[i / 3 % 4]));
    if (i % 3 == 1) {
      Blob noise(1 + random() % 100'000);
      for (std::byte& b : noise) b = std::byte(random());
      noise[0] = std::byte{0};
      shout(strangers.back(), noise);
    }
    world.poll();
  }
  still_works(world);
  const auto& counters = world[0].rail->strangers();
  // 20 floods, and of the 20 talkers the 15 that do not begin like Weft
  CHECK(world.until([&] { return counters.refused == 35; }));
  CHECK(closed(strangers[0]));
  CHECK_FALSE(closed(strangers[2]));  // the silent are left in peace for their time
  strangers.clear();
  CHECK(world.until([&] { return counters.unfinished == 25; }));
  still_works(world);
  CHECK(world[0].met <= 1);
}

TEST_CASE("whoever does not know the secret or the card is refused") {
  World world(2, only("127.0.0.1/8"));
  auto fd = knock(world, 0);
  CHECK(shake(world, fd, net::sha256({net::bytes_of("guess")}), introduction(world, 1, 0)) == net::Verdict::none);
  CHECK(world[0].rail->strangers().unfinished + world[0].rail->strangers().refused == 0);
  fd.reset();
  CHECK(world.until([&] { return world[0].rail->strangers().unfinished == 1; }));

  // a made-up proof
  fd = knock(world, 0);
  auto hands = net::Handshake::initiate(key_for(world, 0), introduction(world, 1, 0).claim());
  shout(fd, hands.output());
  CHECK(hear(world, fd, 64).size() == 64);
  shout(fd, Blob(32));
  CHECK(world.until([&] { return world[0].rail->strangers().refused == 1; }));
  CHECK(world.until([&] { return closed(fd); }));

  // the secret, but not the card's token
  fd = knock(world, 0);
  CHECK(shake(world, fd, key_of(world.boots[0]->job().secret, "tcp", {}), introduction(world, 1, 0)) == net::Verdict::none);
  still_works(world);
  CHECK(world[0].met <= 1);
}

TEST_CASE("a proven process that claims nonsense is refused") {
  World world(3, only("127.0.0.1/8"));
  const auto good = introduction(world, 1, 0);
  std::vector<Introduction> claims(7, good);
  claims[0].job ^= 1;
  claims[1].rank = 3;    // no such rank
  claims[2].rank = 0;    // the acceptor itself
  claims[3].wanted = 2;  // somebody else
  claims[4].wanted_rail = 1;
  claims[5].rank = ~0u;
  claims[6].transport = "verbs";
  for (const auto& claim : claims) CHECK(shake(world, knock(world, 0), key_for(world, 0), claim) == net::Verdict::refused);
  CHECK(world[0].rail->strangers().refused == claims.size());
  CHECK(world[0].met == 0);
  still_works(world);
}

TEST_CASE("a replayed conversation is refused") {
  World world(2, only("127.0.0.1/8"));
  Blob hello, proof;
  {
    auto fd = knock(world, 0);
    auto hands = net::Handshake::initiate(key_for(world, 0), introduction(world, 1, 0).claim());
    hello.assign(hands.output().begin(), hands.output().end());
    shout(fd, hello);
    hands.sent(hello.size());
    hands.feed(hear(world, fd, 64));
    proof.assign(hands.output().begin(), hands.output().end());
    fd.reset();  // leaves before using it
  }
  CHECK(world.until([&] { return world[0].rail->strangers().unfinished == 1; }));
  auto fd = knock(world, 0);
  shout(fd, hello);
  hear(world, fd, 64);
  shout(fd, proof);
  CHECK(world.until([&] { return world[0].rail->strangers().refused == 1; }));
  still_works(world);
}

TEST_CASE("a crowd of the silent does not keep the honest out") {
  tcp::Options options = only("127.0.0.1/8");
  options.guests = 8;
  World world(2, options);
  std::vector<net::Fd> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(knock(world, 0));
  REQUIRE(world.push(1, 0, header_of(4), "here") == Status::ok);
  // each of the crowd ahead has its turn of two seconds at most, eight at a time, unless it goes
  for (int i = 0; i < 50; ++i) world.poll();
  crowd.erase(crowd.begin(), crowd.begin() + 90);
  REQUIRE(world.until([&] { return world[0].count == 1; }));
  CHECK(world[0].losses.empty());
}

TEST_CASE("the unfinished are sent away in time") {
  tcp::Options options = only("127.0.0.1/8");
  options.guest_s = 1;
  World world(2, options);
  auto silent = knock(world, 0), slow = knock(world, 0);
  shout(slow, net::bytes_of("WEFT-NET"));
  CHECK(world.until([&] { return world[0].rail->strangers().unfinished == 2; }));
  CHECK(closed(silent));
  CHECK(closed(slow));
  still_works(world);
}

TEST_CASE("a proven peer that turns to nonsense is lost, and nobody else") {
  World world(3, only("127.0.0.1/8"));
  auto fd = knock(world, 0);
  REQUIRE(shake(world, fd, key_for(world, 0), introduction(world, 2, 0)) == net::Verdict::welcome);
  const Header oversized{1, 0, 0, tcp::kMaxPayload + 1, 0, 1, 0};
  shout(fd, std::as_bytes(std::span(&oversized, 1)));
  REQUIRE(world.until([&] { return world[0].losses.count(2) == 1; }));
  CHECK(world[0].losses[2].find("longer than allowed") != std::string::npos);
  CHECK(world[0].count == 0);
  world[0].losses.clear();
  still_works(world);
}

TEST_CASE("a proven peer sends noise: whatever arrives, memory stays sound") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 30; ++round) {
    World world(2, only("127.0.0.1/8"));
    world[0].land = round % 2;
    auto fd = knock(world, 0);
    REQUIRE(shake(world, fd, key_for(world, 0), introduction(world, 1, 0)) == net::Verdict::welcome);
    Blob noise(random() % 20'000);
    for (std::byte& b : noise) b = std::byte(random() % 3 ? 0 : random());
    // keep the length that a landing would be asked for moderate
    for (size_t i = 16 + 2; i + 1 < noise.size(); i += 24) noise[i] = noise[i + 1] = std::byte{0};
    shout(fd, noise);
    for (int i = 0; i < 20; ++i) world.poll();
    fd.reset();
    REQUIRE(world.until([&] { return world[0].losses.size() == 1; }));
  }
}
