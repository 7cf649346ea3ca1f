// Addresses, the choice of interfaces, hashing, and the handshake against honest and hostile partners.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "runtime/net/address.h"
#include "runtime/net/auth.h"
#include "runtime/net/handshake.h"
#include "runtime/net/interfaces.h"
#include "runtime/net/link_state.h"

using namespace weft::net;

namespace {

std::string hex(const Digest& d) {
  std::string out;
  for (const std::byte b : d) {
    char text[3];
    snprintf(text, sizeof text, "%02x", unsigned(b));
    out += text;
  }
  return out;
}

Address at(const char* text) { return *parse_address(text); }

Interface card(const char* name, std::vector<Address> addresses, bool up = true) {
  return {name, 1, up, std::string(name) == "lo", 0, std::move(addresses)};
}

std::vector<Interface> machine() {
  return {card("lo", {at("127.0.0.1/8"), at("::1/128")}), card("eth0", {at("10.1.0.5/16"), at("fd00::5/64"), at("fe80::5/64")}),
          card("ib0", {at("10.2.0.5/16")}), card("wlan0", {at("192.168.1.5/24")}, false), card("docker0", {at("172.17.0.1/16")})};
}

std::string names(std::string_view setting, Extent extent = Extent::network) {
  const auto list = choose(machine(), setting, extent);
  if (!list) return "failure: " + list.failure().text;
  std::string out;
  for (const Interface& i : *list) out += (out.empty() ? "" : " ") + i.name + ":" + std::to_string(i.addresses.size());
  return out;
}

struct Exchange {
  Handshake a, b;
  /// Moves bytes between the two in random portions until nothing moves; returns bytes moved.
  size_t run(std::mt19937& random) {
    size_t moved = 0;
    for (bool going = true; going;) {
      going = false;
      for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
        const size_t most = std::min(from->output().size(), to->wanted());
        if (most == 0) continue;
        const size_t n = 1 + random() % most;
        to->feed(from->output().first(n));
        from->sent(n);
        moved += n;
        going = true;
      }
    }
    return moved;
  }
};

const Digest kKey = sha256({bytes_of("secret")});
const Digest kOther = sha256({bytes_of("another")});

Claim claim_of(const char* text) {
  Claim claim{};
  memcpy(claim.data(), text, strlen(text));
  return claim;
}

}  // namespace

TEST_CASE("sha256 and hmac give the published answers") {
  CHECK(hex(sha256({})) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex(sha256({bytes_of("a"), bytes_of("bc")})) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex(sha256({bytes_of(std::string(1'000'000, 'a'))})) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK(hex(hmac(bytes_of("Jefe"), {bytes_of("what do ya want for nothing?")})) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::string key(131, '\xaa');
  CHECK(hex(hmac(bytes_of(key), {bytes_of("Test Using Larger Than Block-Size Key - Hash Key First")})) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(equal(kKey, kKey));
  CHECK_FALSE(equal(kKey, kOther));
}

TEST_CASE("addresses are parsed, printed and compared by subnet") {
  for (const char* bad : {"", "eth0", "10.0.0", "10.0.0.1/33", "10.0.0.1/", "10.0.0.1/x", "fd00::/129", "fd00:::1", "1.2.3.4.5"}) {
    INFO(bad);
    CHECK_FALSE(parse_address(bad));
  }
  CHECK(at("10.1.2.3/8").text() == "10.1.2.3");
  Address a = at("fd00::1");
  a.port = 80;
  CHECK(a.with_port() == "[fd00::1]:80");
  CHECK(at("10.1.2.0/23").covers(at("10.1.3.255")));
  CHECK_FALSE(at("10.1.2.0/23").covers(at("10.1.4.0")));
  CHECK_FALSE(at("0.0.0.0/0").covers(at("fd00::1")));
  CHECK(at("fe80::1").link_local());
  CHECK(at("172.31.0.1").private_use());
  CHECK_FALSE(at("172.32.0.1").private_use());
  sockaddr_storage storage;
  a.to_socket(storage);
  CHECK(from_socket(reinterpret_cast<sockaddr*>(&storage)) == a);
}

TEST_CASE("reach is judged by host and subnet") {
  CHECK(judge(at("10.1.0.1/16"), at("10.1.9.9/16"), false) == Reach::subnet);
  CHECK(judge(at("10.1.0.1/16"), at("10.2.0.1/16"), false) == Reach::routed);
  CHECK(judge(at("10.1.0.1/16"), at("fd00::1/64"), false) == Reach::none);
  CHECK(judge(at("127.0.0.1/8"), at("127.0.0.1/8"), false) == Reach::none);
  CHECK(judge(at("127.0.0.1/8"), at("127.0.0.1/8"), true) == Reach::host);
  CHECK(judge(at("127.0.0.1/8"), at("10.0.0.1/8"), true) == Reach::none);
  CHECK(judge(at("172.17.0.1/16"), at("172.17.0.1/16"), false) == Reach::none);  // docker0 of two hosts
  CHECK(judge(at("169.254.0.1/16"), at("10.0.0.1/8"), false) == Reach::none);
}

TEST_CASE("one setting chooses interfaces") {
  CHECK(names("") == "eth0:2 ib0:1");  // no loopback, no link-local, no bridge of containers, nothing that is down
  CHECK(names("", Extent::host) == "lo:2");
  CHECK(names("eth0") == "eth0:2");
  CHECK(names("eth0", Extent::host) == "eth0:2");
  CHECK(names(" eth* , docker0 ") == "eth0:2 docker0:1");
  CHECK(names("10.2.0.0/16") == "ib0:1");
  CHECK(names("fe80::/10") == "eth0:1");
  CHECK(names("fd00::/8,ib0") == "eth0:1 ib0:1");
  CHECK(names("^ib0") == "eth0:2");
  CHECK(names("^eth0,ib0") == "docker0:1");  // rather a bridge than nothing
  CHECK(names("*,^eth0") == "lo:2 ib0:1 docker0:1");
  CHECK(names("^fd00::/8") == "eth0:1 ib0:1");
  CHECK(names("^ib*", Extent::host) == "lo:2");
  CHECK(names("lo") == "lo:2");
  for (const char* nothing : {"eth7", "wlan0", "11.0.0.0/8", "^*"}) {
    const std::string text = names(nothing);
    CHECK(text.find("failure: WEFT_NET_INTERFACES=" + std::string(nothing)) == 0);
    CHECK(text.find("docker0 (172.17.0.1/16)") != std::string::npos);
    CHECK(text.find("wlan0 (192.168.1.5/24; down)") != std::string::npos);
  }
}

TEST_CASE("this host has interfaces") {
  const auto list = usable_interfaces(Extent::host);
  REQUIRE(list);
  CHECK_FALSE(list->empty());
  CHECK(network_host_id() == network_host_id());
  CHECK(network_host_id().size() > 8);
}

TEST_CASE("a handshake proves both sides, in whatever portions it arrives") {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    Exchange e{Handshake::initiate(kKey, claim_of("rank 3")), Handshake::accept(kKey)};
    e.run(random);
    REQUIRE(e.b.state() == Handshake::State::proven);
    CHECK(e.b.claim() == claim_of("rank 3"));
    CHECK(e.a.state() == Handshake::State::going);
    e.b.decide(round % 2 ? Verdict::welcome : Verdict::crossing);
    CHECK(e.run(random) == 1);
    REQUIRE(e.a.state() == Handshake::State::proven);
    CHECK(e.a.verdict() == (round % 2 ? Verdict::welcome : Verdict::crossing));
    CHECK(e.a.wanted() == 0);
  }
}

TEST_CASE("a handshake fails on another secret, on either side") {
  std::mt19937 random(2);
  Exchange e{Handshake::initiate(kKey, {}), Handshake::accept(kOther)};
  e.run(random);
  CHECK(e.a.state() == Handshake::State::failed);
  CHECK(e.a.why().find("secret") != std::string::npos);
  CHECK(e.b.state() == Handshake::State::going);  // never sees a proof
}

TEST_CASE("no single changed bit passes a handshake") {
  std::mt19937 random(3);
  for (size_t bit = 0; bit < (160 + 64 + 32) * 8; ++bit) {
    Handshake a = Handshake::initiate(kKey, claim_of("x")), b = Handshake::accept(kKey);
    size_t offset = 0;
    auto move = [&](Handshake& from, Handshake& to) {
      std::vector<std::byte> record(from.output().begin(), from.output().end());
      from.sent(record.size());
      for (std::byte& byte : record) {
        if (offset == bit / 8) byte ^= std::byte(1u << bit % 8);
        ++offset;
      }
      if (record.size() <= to.wanted()) to.feed(record);
    };
    for (int turn = 0; turn < 3; ++turn) turn % 2 ? move(b, a) : move(a, b);
    CHECK(b.state() != Handshake::State::proven);
  }
}

TEST_CASE("a recorded or reflected handshake proves nothing") {
  Handshake a = Handshake::initiate(kKey, {}), b = Handshake::accept(kKey);
  std::vector<std::byte> hello(a.output().begin(), a.output().end());
  b.feed(hello);
  a.sent(hello.size());
  a.feed(b.output());
  std::vector<std::byte> proof(a.output().begin(), a.output().end());
  REQUIRE(b.feed(proof) == Handshake::State::proven);

  Handshake again = Handshake::accept(kKey);  // replay of hello and proof
  again.feed(hello);
  CHECK(again.feed(proof) == Handshake::State::failed);

  Handshake mirror = Handshake::accept(kKey);  // the acceptor's own mac as proof
  mirror.feed(hello);
  std::vector<std::byte> mac(mirror.output().end() - 32, mirror.output().end());
  CHECK(mirror.feed(mac) == Handshake::State::failed);
}

TEST_CASE("other versions and byte orders are named") {
  for (const auto& [offset, word] : {std::pair<size_t, const char*>{12, "version"}, {8, "byte order"}, {0, "protocol"}}) {
    Handshake a = Handshake::initiate(kKey, {}), b = Handshake::accept(kKey);
    std::vector<std::byte> hello(a.output().begin(), a.output().end());
    hello[offset] ^= std::byte{4};
    CHECK(b.feed(hello) == Handshake::State::failed);
    CHECK(b.why().find(word) != std::string::npos);
    Handshake c = Handshake::accept(kKey);
    c.feed({hello.data(), 8});
    CHECK((c.state() == Handshake::State::failed) == (offset == 0));  // wrong from the first bytes
  }
}

TEST_CASE("random bytes never pass a handshake") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    Handshake h = round % 2 ? Handshake::accept(kKey) : Handshake::initiate(kKey, {});
    Handshake honest = Handshake::initiate(kKey, {});
    if (round % 4 == 1) h.feed(honest.output());
    while (h.state() == Handshake::State::going && h.wanted() > 0) {
      std::vector<std::byte> bytes(1 + random() % h.wanted());
      for (std::byte& b : bytes) b = std::byte(random());
      if (round % 3 == 0) memcpy(bytes.data(), "WEFT-NET", std::min<size_t>(8, bytes.size()));
      h.feed(bytes);
    }
    CHECK(h.state() == Handshake::State::failed);
  }
}

TEST_CASE("the state of a link is said in a word, and advice follows where it is to blame") {
  CHECK(link_state("lo") == "up");
  CHECK(link_state("no-such-dev") == "gone");
  for (const char* odd : {"", "no-such-device:1", ":", "a-name-longer-than-any-interface-has"}) CHECK(link_state(odd) == "unknown");
  CHECK(advice_on_link("lo", "up").empty());
  CHECK(advice_on_link("x", "unknown").empty());
  CHECK(advice_on_link("eth0", "down").find("; this side's own link is down: look at the cable") == 0);
  CHECK(advice_on_link("eth0", "switched off").find("`ip link set eth0 up`") != std::string::npos);
}
