// What of the verbs transport needs no device: which ports and addresses are used, cards, proposals, what is under way.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <random>

#include "btl/introduction.h"
#include "btl/verbs/card.h"
#include "btl/verbs/device.h"
#include "btl/verbs/outstanding.h"
#include "btl/verbs/proposal.h"
#include "btl/verbs/words.h"

using namespace weft;
using namespace weft::btl;
using namespace weft::btl::verbs;
using net::Gid;
using net::RdmaPort;

namespace {

Gid gid_v4(int index, const char* address, int prefix = 24, Gid::Type type = Gid::Type::roce_v2) {
  Gid gid;
  const auto a = *net::parse_address(address);
  gid.bytes[10] = gid.bytes[11] = 0xff;
  std::copy_n(a.bytes.begin(), 4, gid.bytes.begin() + 12);
  gid.type = type;
  gid.index = uint8_t(index);
  gid.prefix = uint8_t(prefix);
  return gid;
}

Gid gid_v6(int index, const char* address, Gid::Type type = Gid::Type::roce_v2) {
  Gid gid;
  gid.bytes = net::parse_address(address)->bytes;
  gid.type = type;
  gid.index = uint8_t(index);
  gid.prefix = 64;
  return gid;
}

RdmaPort port(const char* device, bool active, std::vector<Gid> gids, bool ethernet = true, int number = 1) {
  RdmaPort p;
  p.device = device;
  p.port = uint8_t(number);
  p.active = active;
  p.ethernet = ethernet;
  p.state = active ? "ACTIVE" : "DOWN";
  p.mtu = 4096;
  p.gids = std::move(gids);
  return p;
}

Card card(const char* host, std::vector<std::pair<const char*, Gid>> rails) {
  Card c;
  c.host = host;
  c.host_id = std::string("id of ") + host;
  for (auto& [device, gid] : rails) c.rails.push_back({device, {*net::parse_address("10.0.0.1/24")}, {gid}});
  return c;
}

std::vector<std::string> names(const Result<std::vector<RdmaPort>>& chosen) {
  std::vector<std::string> out;
  if (chosen)
    for (const RdmaPort& p : *chosen) out.push_back(p.name());
  return out;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("ports are chosen by state, name, glob and number") {
  const std::vector<RdmaPort> all{port("mlx5_0", true, {gid_v4(3, "10.1.0.1")}), port("mlx5_1", true, {gid_v4(3, "10.2.0.1")}),
                                  port("mlx5_1", true, {gid_v4(3, "10.3.0.1")}, true, 2),
                                  port("mlx5_bond_0", false, {gid_v4(3, "10.4.0.1")}), port("irdma0", true, {gid_v4(1, "10.5.0.1")})};
  CHECK(names(choose(all, "", -1)) == Names{"mlx5_0:1", "mlx5_1:1", "mlx5_1:2", "irdma0:1"});
  CHECK(names(choose(all, "mlx5_1", -1)) == Names{"mlx5_1:1", "mlx5_1:2"});
  CHECK(names(choose(all, " mlx5_1:2 , irdma* ", -1)) == Names{"mlx5_1:2", "irdma0:1"});
  CHECK(names(choose(all, "^mlx5_1:1", -1)) == Names{"mlx5_0:1", "mlx5_1:2", "irdma0:1"});
  CHECK(names(choose(all, "mlx5*,^*_1*", -1)) == Names{"mlx5_0:1"});
  const auto none = choose(all, "mlx5_bond_0", -1);
  REQUIRE(!none);
  CHECK(none.failure().text.find("mlx5_bond_0:1 (DOWN)") != std::string::npos);
  CHECK(names(choose(all, "", 1)) == Names{"irdma0:1"});
}

TEST_CASE("RoCE v2 with IPv4 comes first, what cannot be used not at all") {
  Gid empty;
  empty.type = Gid::Type::roce_v2;
  const std::vector<RdmaPort> all{port("rxe0", true,
                                       {gid_v6(0, "fe80::1"), gid_v4(1, "10.1.0.1", 24, Gid::Type::roce_v1), gid_v6(2, "fd00::1"),
                                        gid_v4(3, "10.1.0.1"), empty, gid_v6(5, "fe80::2", Gid::Type::roce_v1)})};
  const auto chosen = choose(all, "", -1);
  REQUIRE(chosen);
  std::vector<int> order;
  for (const Gid& g : chosen->front().gids) order.push_back(g.index);
  CHECK(order == std::vector<int>{3, 2, 0, 1});
  Gid ib;
  ib.bytes[0] = 0xfe;
  CHECK(names(choose(std::vector{port("mlx4_0", true, {ib}, false)}, "", -1)) == Names{"mlx4_0:1"});
  CHECK(!choose(std::vector{port("rxe0", true, {ib})}, "", -1));
}

TEST_CASE("addresses reach each other in a common subnet best") {
  const Gid a = gid_v4(1, "10.1.0.1"), near = gid_v4(1, "10.1.0.2"), far = gid_v4(1, "10.2.0.2");
  CHECK(judge(a, near, false) > judge(a, far, false));
  CHECK(judge(a, far, false) > 0);
  CHECK(judge(a, a, false) == 0);  // the same address on two hosts
  CHECK(judge(a, a, true) > 0);
  CHECK(judge(a, gid_v6(0, "fd00::1"), false) == 0);
  CHECK(judge(a, gid_v4(1, "10.1.0.2", 24, Gid::Type::roce_v1), false) == 0);
  CHECK(judge(gid_v6(0, "fe80::1"), gid_v6(0, "fe80::2"), false) > 0);
  CHECK(judge(gid_v6(0, "fe80::1"), gid_v6(0, "fd00::2"), false) == 0);
}

TEST_CASE("rails of a common subnet are partners, each once, and both sides agree") {
  const Card one = card("one", {{"a", gid_v4(1, "10.1.0.1")}, {"b", gid_v4(1, "10.2.0.1")}});
  const Card two = card("two", {{"b", gid_v4(1, "10.2.0.2")}, {"a", gid_v4(1, "10.1.0.2")}, {"c", gid_v4(1, "10.1.0.3")}});
  CHECK(partner_of(gid_worth, one, 0, 0, two, 1) == 1);
  CHECK(partner_of(gid_worth, one, 0, 1, two, 1) == 0);
  CHECK(partner_of(gid_worth, two, 1, 0, one, 0) == 1);
  CHECK(partner_of(gid_worth, two, 1, 1, one, 0) == 0);
  CHECK(partner_of(gid_worth, two, 1, 2, one, 0) == -1);
  CHECK(best_gids(one, 0, two, 1).theirs == two.rails[1].gids[0]);
}

TEST_CASE("random cards: partners are mutual, and what is written is read") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    Card cards[2];
    for (int side = 0; side < 2; ++side) {
      Card& c = cards[side];
      c.host = side ? "left" : "right";
      c.host_id = random() % 4 == 0 ? "same" : c.host;
      for (auto& b : c.token) b = std::byte(random());
      for (size_t i = random() % (Card::kRails + 1); i-- > 0;) {
        Card::Rail rail{"dev" + std::to_string(random() % 4), {}, {}};
        for (size_t g = 1 + random() % 3; g-- > 0;)
          rail.gids.push_back(gid_v4(int(g), ("10." + std::to_string(random() % 3) + ".0." + std::to_string(random() % 5)).c_str(), 24,
                                     random() % 3 ? Gid::Type::roce_v2 : Gid::Type::roce_v1));
        rail.addresses.push_back(*net::parse_address(random() % 2 ? "10.0.0.1/24" : "fd00::1/64"));
        c.rails.push_back(rail);
      }
    }
    for (size_t i = 0; i < cards[0].rails.size(); ++i) {
      const int partner = partner_of(gid_worth, cards[0], 3, i, cards[1], 9);
      if (partner >= 0) CHECK(partner_of(gid_worth, cards[1], 9, size_t(partner), cards[0], 3) == int(i));
    }
    const auto bytes = cards[0].encode();
    const auto read = Card::decode(bytes);
    REQUIRE(read);
    CHECK(read->encode() == bytes);
    CHECK(read->rails.size() == cards[0].rails.size());
    for (size_t i = 0; i < read->rails.size(); ++i) CHECK(read->rails[i].gids == cards[0].rails[i].gids);
  }
}

TEST_CASE("hostile cards and proposals are refused or harmless") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  Card good = card("host", {{"a", gid_v4(1, "10.1.0.1")}, {"b", gid_v4(1, "10.2.0.1")}});
  const auto bytes = good.encode();
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    auto bad = bytes;
    for (size_t n = 1 + random() % 8; n-- > 0;) bad[random() % bad.size()] = std::byte(random());
    if (random() % 4 == 0) bad.resize(random() % (bad.size() + 300));
    const auto read = Card::decode(bad);
    refused += !read;
    if (!read) continue;
    REQUIRE(read->rails.size() <= Card::kRails);
    for (size_t r = 0; r < read->rails.size(); ++r) {
      (void)partner_of(gid_worth, *read, 1, r, good, 0);
      (void)partner_of(gid_worth, good, 0, 0, *read, 1);
      (void)ways(*read, r, good, 0);
    }
  }
  CHECK(refused > 0);
  CHECK(!Card::decode({}));
  Proposal fine;
  fine.slot_bytes = 100, fine.queues = 2, fine.mtu = 3, fine.credits = 1;
  CHECK(objection(fine, 100).empty());
  for (auto spoil : {+[](Proposal& p) { p.slot_bytes = 99; }, +[](Proposal& p) { p.queues = 0; }, +[](Proposal& p) { p.queues = 10; },
                     +[](Proposal& p) { p.mtu = 6; }, +[](Proposal& p) { p.credits = 0; }}) {
    Proposal bad = fine;
    spoil(bad);
    CHECK(!objection(bad, 100).empty());
  }
}

TEST_CASE("an introduction is read as it was written, others are not") {
  const Introduction me{"verbs", job_number("job"), 3, 4, 7, 1, 2, "node"};
  const auto read = Introduction::from(me.claim());
  REQUIRE(read);
  CHECK(read->transport == "verbs");
  CHECK(read->rank == 3);
  CHECK(read->generation == 7);
  CHECK(read->wanted_rail == 2);
  CHECK(read->host == "node");
  net::Claim other{};
  CHECK(!Introduction::from(other));
  CHECK(job_number("job") != job_number("jab"));
}

TEST_CASE("what is under way ends in order, whatever reports") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const uint32_t depth : {2u, 8u, 64u, 128u}) {
    Outstanding<int> outstanding(depth);
    struct Request {
      uint32_t number;
      int item;
      bool reports;
    };
    std::deque<Request> model;
    int next = 0;
    uint32_t unreported = 0, most = 0;
    for (int step = 0; step < 20000; ++step) {
      if (outstanding.room() > 0 && random() % 2) {
        const bool reports = outstanding.report_due() || random() % 10 == 0;
        unreported = reports ? 0 : unreported + 1;
        most = std::max(most, unreported);
        model.push_back({outstanding.add(next, reports), next, reports});
        ++next;
        CHECK(outstanding.all_reported() == reports);
      } else {
        // the device reports one of those that report, in order
        const auto at = std::ranges::find(model, true, &Request::reports);
        if (at == model.end()) continue;
        const uint32_t number = at->number;
        std::vector<int> expected, got;
        for (auto each = model.begin(); each != at + 1; ++each) expected.push_back(each->item);
        model.erase(model.begin(), at + 1);
        CHECK(outstanding.complete(number, [&](int item) { got.push_back(item); }) == expected.size());
        REQUIRE(got == expected);
        CHECK(outstanding.complete(number, [](int) { FAIL("twice"); }) == 0);
      }
      REQUIRE(outstanding.count() == model.size());
    }
    CHECK(most < std::max(depth, 2u));  // a ring can never fill with requests of which none reports
    std::vector<int> rest;
    outstanding.abandon([&](int item) { rest.push_back(item); });
    CHECK(rest.size() == model.size());
    CHECK(outstanding.empty());
  }
}

namespace {

/// A device that there is not: notes how memory is made known to it.
struct FakeDevice {
  struct Enrolled {
    uint64_t offset, length, address;
    int fd, access;
  };
  static inline std::vector<Enrolled> enrolled;
  static inline int dismissed = 0;
  static inline ibv_context context{};
  static inline ibv_pd domain{};

  static net::VerbsLibrary library() {
    net::VerbsLibrary verbs{};
    verbs.get_device_list = [](int* count) {
      static ibv_device device{};
      static ibv_device* list[] = {&device, nullptr};
      *count = 1;
      return list;
    };
    verbs.free_device_list = [](ibv_device**) {};
    verbs.get_device_name = [](ibv_device*) { return "fake0"; };
    verbs.open_device = [](ibv_device*) { return &context; };
    verbs.close_device = [](ibv_context*) { return 0; };
    verbs.query_device = [](ibv_context*, ibv_device_attr*) { return 0; };
    verbs.alloc_pd = [](ibv_context*) { return &domain; };
    verbs.dealloc_pd = [](ibv_pd*) { return 0; };
    verbs.reg_mr = [](ibv_pd*, void* at, size_t length, int access) { return note({0, length, uint64_t(uintptr_t(at)), -1, access}); };
    verbs.reg_dmabuf_mr = [](ibv_pd*, uint64_t offset, size_t length, uint64_t at, int fd, int access) {
      return note({offset, length, at, fd, access});
    };
    verbs.dereg_mr = [](ibv_mr* mr) {
      delete mr;
      ++dismissed;
      return 0;
    };
    return verbs;
  }
  static ibv_mr* note(Enrolled what) {
    enrolled.push_back(what);
    return new ibv_mr{};
  }
};

}  // namespace

TEST_CASE("device memory is registered by its dma-buf, and host memory by its address") {
  FakeDevice::enrolled.clear();
  FakeDevice::dismissed = 0;
  net::VerbsLibrary library = FakeDevice::library();
  const RdmaPort fake = port("fake0", true, {});
  {
    auto device = Device::open(library, fake);
    REQUIRE(device);
    mem::RegistrationCache cache(nullptr, {1 << 20, 16});
    REQUIRE(cache.add(**device));
    const mem::DmaBuf dmabuf{17, 4096};
    const mem::Range range{0x7f0000010000, 0x7f0000030000};
    auto got = cache.acquire(range, 0, true, &dmabuf);
    REQUIRE(got);
    REQUIRE(FakeDevice::enrolled.size() == 1);
    const auto& first = FakeDevice::enrolled.front();
    CHECK(first.fd == 17);
    CHECK(first.offset == 4096);
    CHECK(first.length == range.size());
    CHECK(first.address == range.begin);
    CHECK((first.access & IBV_ACCESS_REMOTE_WRITE) != 0);
    auto again = cache.acquire({range.begin + 4096, range.begin + 8192}, 0, true, &dmabuf);  // known already
    REQUIRE(again);
    CHECK(FakeDevice::enrolled.size() == 1);
    cache.release(*again);
    cache.release(*got);
    cache.forget(range);
    CHECK(FakeDevice::dismissed == 1);
    auto host = cache.acquire({0x1000, 0x2000}, 0, false);
    REQUIRE(host);
    CHECK(FakeDevice::enrolled.back().fd == -1);
    cache.release(*host);
    library.reg_dmabuf_mr = nullptr;  // rdma-core before 34
    auto refused = cache.acquire({0x7f0000100000, 0x7f0000110000}, 0, true, &dmabuf);
    REQUIRE(!refused);
    CHECK(refused.failure().text.find("fake0:1") != std::string::npos);
  }
  CHECK(FakeDevice::dismissed == int(FakeDevice::enrolled.size()));
}

TEST_CASE("each end of a work request has words that say what to try") {
  for (int status = IBV_WC_SUCCESS + 1; status <= IBV_WC_GENERAL_ERR; ++status) {
    const std::string text = usual_meaning(ibv_wc_status(status));
    CAPTURE(status, text);
    CHECK(std::ranges::any_of(std::array{"WEFT_VERBS_", "look ", "use the same Weft", "says why"},
                              [&](const char* words) { return text.find(words) != std::string::npos; }));
  }
}
