// The doorman: who knows the key comes in; everybody else is sent away, counted, and keeps nobody out.
#include "runtime/net/doorman.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>

using namespace weft::net;

namespace {

using Blob = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

const Digest right = sha256({bytes_of("right")}), wrong = sha256({bytes_of("wrong")});

/// A house that lets in whoever's claim begins with 'w', and takes those with an 'x' for crossing attempts.
struct House final : Doorman::Host {
  Address at = *parse_address("127.0.0.1");
  std::unique_ptr<Doorman> doorman;
  std::vector<Fd> inside;
  int judged = 0;

  explicit House(Doorman::Rules rules = {}) {
    std::vector<Fd> listeners;
    listeners.push_back(std::move(*listen_at(at)));
    at.port = local_address(listeners[0].get()).port;
    rules.where = "test";
    doorman = std::make_unique<Doorman>(rules, right, std::move(listeners));
  }
  Doorman::Ruling judge(const Claim& claim) override {
    ++judged;
    if (claim[0] == std::byte{'w'}) return {Verdict::welcome};
    if (claim[0] == std::byte{'x'}) return {Verdict::crossing};
    return {Verdict::refused, "nobody knows it"};
  }
  void admit(const Claim&, Fd socket) override { inside.push_back(std::move(socket)); }

  Fd knock() const { return std::move(*start_connect({}, at)); }
  bool until(const std::function<bool()>& done) {
    const auto limit = Clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (Clock::now() > limit) return false;
      doorman->serve(*this);
    }
    return true;
  }
  const Doorman::Counters& counters() const { return doorman->counters(); }
};

void shout(const Fd& fd, Bytes bytes) { (void)!::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }

bool closed(const Fd& fd) {
  char bytes[512];
  for (;;) {
    const ssize_t n = recv(fd.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return true;
    if (n < 0) return false;
  }
}

Claim claim_of(char first) {
  Claim claim{};
  claim[0] = std::byte(first);
  return claim;
}

/// Somebody honest.
struct Caller {
  Fd fd;
  Handshake hands;
  Caller(House& house, const Digest& key, char first) : fd(house.knock()), hands(Handshake::initiate(key, claim_of(first))) {}
  /// The verdict; none if it came to none.
  Verdict call(House& house) {
    house.until([&] {
      const Advance how = advance(fd.get(), hands);
      return how == Advance::ended || how == Advance::closed || how == Advance::broken;
    });
    return hands.verdict();
  }
};

void still_open(House& house) {
  const size_t before = house.inside.size();
  // on a busy machine even the honest may be too slow for a door that is in a hurry
  bool welcome = false;
  for (int attempt = 0; attempt < 20 && !welcome; ++attempt) welcome = Caller(house, right, 'w').call(house) == Verdict::welcome;
  CHECK(welcome);
  CHECK(house.until([&] { return house.inside.size() == before + 1; }));
}

}  // namespace

TEST_CASE("whoever knows the key is let in or told the verdict") {
  House house;
  Caller good(house, right, 'w'), crossing(house, right, 'x'), bad(house, right, '?');
  CHECK(good.call(house) == Verdict::welcome);
  CHECK(crossing.call(house) == Verdict::crossing);
  CHECK(bad.call(house) == Verdict::refused);
  CHECK(house.inside.size() == 1);
  CHECK(house.counters().refused == 1);
  CHECK(house.counters().unfinished == 0);
  CHECK(house.judged == 3);
  // nothing that came behind the handshake is lost
  shout(good.fd, bytes_of("hello"));
  char word[6] = {};
  CHECK(house.until([&] { return recv(house.inside[0].get(), word, 5, MSG_DONTWAIT) == 5; }));
  CHECK(strcmp(word, "hello") == 0);
  CHECK(house.until([&] { return closed(crossing.fd) && closed(bad.fd); }));
}

TEST_CASE("whoever does not know the key is refused, on either side") {
  House house;
  Caller guess(house, wrong, 'w');
  CHECK(guess.call(house) == Verdict::none);
  CHECK(guess.hands.state() == Handshake::State::failed);  // the caller has learnt that this is not its house
  guess.fd.reset();
  CHECK(house.until([&] { return house.counters().unfinished == 1; }));
  // goes on all the same, with a made-up proof
  Fd fd = house.knock();
  shout(fd, Handshake::initiate(wrong, claim_of('w')).output());
  CHECK(house.until([&] {
    char b[64];
    return recv(fd.get(), b, sizeof b, MSG_DONTWAIT) == 64;
  }));
  shout(fd, Blob(32));
  CHECK(house.until([&] { return house.counters().refused == 1; }));
  CHECK(house.until([&] { return closed(fd); }));
  CHECK(house.judged == 0);
  still_open(house);
}

TEST_CASE("noise is refused at its first wrong byte, half a claim and silence in time") {
  House house({.patience_ns = 2'000'000'000});
  std::vector<Fd> strangers;
  for (const char* words : {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n", "\x16\x03\x01", "WEFT-NEX"}) {
    strangers.push_back(house.knock());
    shout(strangers.back(), bytes_of(words));
  }
  CHECK(house.until([&] { return house.counters().refused == 4; }));
  Fd silent = house.knock(), half = house.knock(), slow = house.knock();
  const auto hands = Handshake::initiate(right, claim_of('w'));
  const Blob hello(hands.output().begin(), hands.output().end());
  shout(half, Bytes(hello).first(80));
  size_t dripped = 0;
  CHECK(house.until([&] {  // a byte each time: does not buy time
    if (dripped + 1 < hello.size()) shout(slow, Bytes(hello).subspan(dripped++, 1));
    return house.counters().unfinished == 3;
  }));
  for (const Fd* fd : {&silent, &half, &slow}) CHECK(closed(*fd));
  CHECK(house.counters().refused == 4);
  CHECK(house.judged == 0);
  still_open(house);
}

TEST_CASE("random bytes of any length change nothing") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  House house;
  for (int round = 0; round < 200; ++round) {
    Fd fd = house.knock();
    auto hands = Handshake::initiate(right, claim_of('w'));
    Blob bytes(hands.output().begin(), hands.output().end());
    for (size_t n = 1 + random() % 4; n-- > 0;) bytes[8 + random() % (bytes.size() - 8)] = std::byte(random());
    bytes.resize(random() % (2 * bytes.size()));
    shout(fd, bytes);
    for (int i = 0; i < 3; ++i) house.doorman->serve(house);
  }
  CHECK(house.until([&] { return !house.doorman->busy(); }));
  CHECK(house.counters().refused + house.counters().unfinished == 200);
  CHECK(house.judged == 0);
  still_open(house);
}

TEST_CASE("a recorded conversation proves nothing") {
  House house;
  Blob hello, proof;
  {
    Caller caller(house, right, 'w');
    hello.assign(caller.hands.output().begin(), caller.hands.output().end());
    house.until([&] { return advance(caller.fd.get(), caller.hands) == Advance::ended; });
    CHECK(house.inside.size() == 1);
  }
  auto hands = Handshake::initiate(right, claim_of('w'));
  hello.assign(hands.output().begin(), hands.output().end());
  for (int times = 1; times <= 2; ++times) {
    Fd fd = house.knock();
    shout(fd, hello);
    Blob challenge(64);
    REQUIRE(house.until([&] { return recv(fd.get(), challenge.data(), 64, MSG_DONTWAIT) == 64; }));
    if (times == 1) {
      hands.sent(hello.size());
      hands.feed(challenge);
      proof.assign(hands.output().begin(), hands.output().end());
    }
    shout(fd, proof);
    if (times == 1) CHECK(house.until([&] { return house.inside.size() == 2; }));
    if (times == 2) CHECK(house.until([&] { return house.counters().refused == 1; }));
  }
  CHECK(house.inside.size() == 2);
}

TEST_CASE("a crowd of the silent waits outside and keeps nobody out for long") {
  House house({.guests = 4, .turn_ns = 100'000'000});
  std::vector<Fd> crowd;
  for (int i = 0; i < 20; ++i) crowd.push_back(house.knock());
  still_open(house);  // five turns of four later
  CHECK(house.counters().unfinished >= 16);
  crowd.clear();
  CHECK(house.until([&] { return house.counters().unfinished == 20; }));
  CHECK(house.judged == 1);
  CHECK(house.counters().refused == 0);
}

TEST_CASE("a door is readable when, and only when, there is something to do") {
  House house({.patience_ns = 200'000'000});
  Watcher watcher;
  watcher.watch(house.doorman->door(), EPOLLIN);
  epoll_event ready[4];
  CHECK(watcher.look(ready) == 0);
  Fd silent = house.knock();
  const auto limit = Clock::now() + std::chrono::seconds(20);
  while (house.counters().unfinished == 0 && Clock::now() < limit)
    if (watcher.look(ready) > 0) {
      CHECK(Watcher::who(ready[0]) == &house.doorman->door());
      house.doorman->serve(house);
    }
  CHECK(house.counters().unfinished == 1);
  house.doorman->serve(house);
  CHECK(watcher.look(ready) == 0);
}
