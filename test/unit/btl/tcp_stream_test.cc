// The queue and the parser of a stream against simple models, and the parser against bytes that nobody should send.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "btl/card.h"
#include "btl/tcp/stream.h"

using namespace weft;
using namespace weft::btl;
using namespace weft::btl::tcp;

namespace {

using Blob = std::vector<std::byte>;

struct Recorder : Sink {
  bool land = false, under_way = false;
  uint32_t ends_in = UINT32_MAX;  // how often a landing is found good again
  Blob place;
  std::vector<std::pair<Header, Blob>> messages;
  uint64_t payload_bytes = 0, landed = 0;
  void* meet(ProcessId) override { return nullptr; }
  void arrived(void*, const Header& header, const std::byte* payload) override {
    if (!place.empty() && payload == place.data()) ++landed;
    under_way = false;
    payload_bytes += header.length;
    messages.emplace_back(header, Blob(payload, payload + header.length));
  }
  std::byte* landing(void*, const Header& header) override {
    if (!land) return nullptr;
    if (under_way) return ends_in-- > 0 ? place.data() : (under_way = false, nullptr);
    under_way = true;
    place.assign(header.length, std::byte{});
    return place.data();
  }
  void lost(void*, const std::string&) override {}
};

struct Done : Operation {
  int times = 0;
  size_t at = 0;  // bytes of the stream up to and with its data
  Status status = Status::again;
  Done() : Operation{[](Operation& op, Status s) { ++static_cast<Done&>(op).times, static_cast<Done&>(op).status = s; }} {}
};

/// Reads `stream` through an Inbox as a socket would deliver it: up to `most` bytes at a time.
Inbox::Taken feed(Inbox& inbox, const Blob& stream, std::mt19937& random, size_t most, Sink& sink) {
  Inbox::Taken all;
  Blob scratch(4096);
  for (size_t at = 0; at < stream.size() && !all.broken;) {
    iovec places[2];
    const int entries = inbox.places(scratch, places, sink, nullptr);
    size_t n = std::min(stream.size() - at, 1 + random() % most);
    size_t done = 0;
    for (int i = 0; i < entries && done < n; ++i) {
      const size_t part = std::min(n - done, places[i].iov_len);
      memcpy(places[i].iov_base, stream.data() + at + done, part);
      done += part;
    }
    REQUIRE(done > 0);
    at += done;
    const auto taken = inbox.take(done, scratch, sink, nullptr);
    all.messages += taken.messages;
    all.bye |= taken.bye;
    all.broken = taken.broken;
  }
  return all;
}

void append(Blob& stream, const Header& header, const Blob& payload) {
  const auto* first = reinterpret_cast<const std::byte*>(&header);
  stream.insert(stream.end(), first, first + sizeof header);
  stream.insert(stream.end(), payload.begin(), payload.end());
}

Blob random_bytes(std::mt19937& random, size_t n) {
  Blob out(n);
  for (std::byte& b : out) b = std::byte(random());
  return out;
}

}  // namespace

TEST_CASE("the outbox gives out what was put in and completes what was taken") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 30; ++round) {
    Outbox box;
    Blob model, out;
    std::vector<std::unique_ptr<Blob>> user;
    std::vector<std::unique_ptr<Done>> dones;
    size_t copied = 0, referred_out = 0;
    for (int step = 0; step < 300; ++step) {
      const uint32_t what = random() % 4;
      const Blob bytes = random_bytes(random, random() % (random() % 8 == 0 ? 40'000 : 100));
      if (what == 0) {
        box.add(bytes.data(), bytes.size());
        copied += bytes.size();
      } else if (what == 1) {
        std::copy(bytes.begin(), bytes.end(), box.extend(bytes.size()));
        copied += bytes.size();
      } else if (what == 2) {
        user.push_back(std::make_unique<Blob>(bytes));
        dones.push_back(std::make_unique<Done>());
        dones.back()->at = model.size() + bytes.size();
        box.refer(user.back()->data(), bytes.size(), dones.back().get());
        referred_out += bytes.size();
      }
      if (what < 3) model.insert(model.end(), bytes.begin(), bytes.end());
      CHECK(box.bytes() == model.size() - out.size());
      iovec runs[5];
      size_t offered = 0;
      const size_t count = box.runs(runs);
      for (size_t i = 0; i < count; ++i) offered += runs[i].iov_len;
      const size_t n = what == 3 ? random() % (offered + 1) : 0;
      size_t left = n;
      for (size_t i = 0; i < count && left > 0; ++i) {
        const size_t part = std::min(left, runs[i].iov_len);
        const auto* first = static_cast<std::byte*>(runs[i].iov_base);
        out.insert(out.end(), first, first + part);
        left -= part;
      }
      if (what == 3) {
        box.taken(n);
        for (auto& done : dones) {
          if (done->at < out.size()) CHECK(done->times == 1);
          if (done->at > out.size()) CHECK(done->times == 0);
        }
      }
      CHECK(box.copied() <= copied);
    }
    while (!box.empty()) {
      iovec run;
      if (box.runs({&run, 1}) == 0) {
        box.taken(0);
        continue;
      }
      const auto* first = static_cast<std::byte*>(run.iov_base);
      out.insert(out.end(), first, first + run.iov_len);
      box.taken(run.iov_len);
    }
    CHECK(out == model);
    CHECK(box.bytes() == 0);
    CHECK(box.copied() == 0);
    for (auto& done : dones) {
      CHECK(done->times == 1);
      CHECK(done->status == Status::ok);
    }
  }
}

TEST_CASE("an abandoned outbox completes its operations with the reason") {
  Outbox box;
  Done done;
  box.add("abc", 3);
  box.refer("def", 3, &done);
  box.abandon(Status::peer_failed);
  CHECK(box.empty());
  CHECK(box.bytes() == 0);
  CHECK(done.times == 1);
  CHECK(done.status == Status::peer_failed);
}

TEST_CASE("the inbox finds messages in any division of the stream") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 36; ++round) {
    Blob stream;
    std::vector<std::pair<Header, Blob>> model;
    for (int i = 0; i < 40; ++i) {
      const uint32_t scale = random() % 4;
      const auto length = uint32_t(scale == 0   ? 0
                                   : scale == 1 ? random() % 64
                                   : scale == 2 ? random() % 10'000
                                                : random() % (round % 10 == 0 ? 900'000 : 20'000));
      model.emplace_back(Header{random() % 5, int32_t(random()), 3, length, uint16_t(i), uint8_t(random()), 0},
                         random_bytes(random, length));
      const Head head(model.back().first, model.back().second.data());
      stream.insert(stream.end(), head.data(), head.data() + head.size());
      stream.insert(stream.end(), model.back().second.begin(), model.back().second.end());
    }
    append(stream, bye(), {});
    Inbox inbox;
    Recorder recorder;
    recorder.land = round % 2;
    const size_t most = round % 3 == 0 ? 7 : round % 3 == 1 ? 3000 : 100'000;
    if (most == 7 && stream.size() > 400'000) continue;
    const auto taken = feed(inbox, stream, random, most, recorder);
    CHECK(taken.bye);
    CHECK_FALSE(taken.broken);
    CHECK_FALSE(inbox.within_message());
    REQUIRE(recorder.messages.size() == model.size());
    for (size_t i = 0; i < model.size(); ++i) {
      CHECK(memcmp(&recorder.messages[i].first, &model[i].first, sizeof(Header)) == 0);
      CHECK(recorder.messages[i].second == model[i].second);
    }
    if (recorder.land) CHECK(recorder.landed > 0);
  }
}

TEST_CASE("nothing is written any more to the memory of a receive that has ended, and the next message is found") {
  Inbox inbox;
  Recorder recorder;
  recorder.land = true;
  recorder.ends_in = 1;
  std::mt19937 random(6);
  Blob stream, ones(60'000, std::byte{1});
  append(stream, {1, 0, 0, 60'000, 0, 1, 0}, ones);
  feed(inbox, Blob(stream.begin(), stream.begin() + 5000), random, 1, recorder);  // a byte at a time: it is asked soon
  CHECK(inbox.within_message());
  const Blob then = recorder.place;
  CHECK(then != ones);
  CHECK(std::ranges::count(then, std::byte{1}) < 4000);
  Blob rest(stream.begin() + 5000, stream.end());
  append(rest, {2, 0, 0, 10, 0, 1, 0}, Blob(10));
  append(rest, bye(), {});
  CHECK(feed(inbox, rest, random, 3000, recorder).bye);
  CHECK(recorder.place == then);
  REQUIRE(recorder.messages.size() == 1);
  CHECK(recorder.messages[0].first.context == 2);
}

TEST_CASE("payloads begin far from where they came from, counted from the beginning of a page") {
  const Blob memory(3 * 4096);
  for (size_t at = 0; at < 4096; ++at) {
    const Head head({1, 0, 0, kPaddedFrom, 0, 1, 0}, memory.data() + at);
    const size_t distance = (head.size() - reinterpret_cast<uintptr_t>(memory.data() + at)) % 4096;
    CHECK((distance >= 64 && distance <= 4096 - 64));
    CHECK(head.size() <= kMostPadding);
  }
  CHECK(Head({1, 0, 0, kPaddedFrom - 1, 0, 1, 0}, memory.data()).size() == sizeof(Header));
}

TEST_CASE("streams that are none are recognised") {
  std::mt19937 random(4);
  auto broken = [&](const Header& header, const Header* after = nullptr) {
    Blob stream;
    append(stream, header, {});
    if (after) append(stream, *after, {});
    Inbox inbox;
    Recorder recorder;
    const auto taken = feed(inbox, stream, random, 100, recorder);
    CHECK(recorder.messages.empty());
    return taken.broken != nullptr;
  };
  const Header leave = bye(), plain{1, 0, 0, 0, 0, 1, 0};
  CHECK(broken({1, 0, 0, kMaxPayload + 1, 0, 1, 0}));
  CHECK(broken({kControl, 0, 0, 0, 0, 'X', 0}));
  CHECK(broken({kControl, 0, 0, 5, 0, 'B', 0}));
  CHECK(broken(padding_of(kMostPadding + 1)));
  CHECK_FALSE(broken(padding_of(kMostPadding)));
  CHECK(broken(leave, &plain));
  CHECK_FALSE(broken(leave));
}

TEST_CASE("a header that promises much costs little") {
  Inbox inbox;
  Recorder recorder;
  std::mt19937 random(5);
  Blob stream;
  append(stream, {1, 0, 0, kMaxPayload, 0, 1, 0}, Blob(100));
  feed(inbox, stream, random, 1000, recorder);
  CHECK(inbox.within_message());
  Blob scratch(16);
  iovec places[2];
  CHECK(inbox.places(scratch, places, recorder, nullptr) == 1);  // the bounce buffer only,
  CHECK(places[0].iov_len <= 256 * 1024);                        // and not a gigabyte of it
}

TEST_CASE("near large messages little more than a header is read before a payload's place is known") {
  Inbox inbox;
  Recorder recorder;
  std::mt19937 random(6);
  Blob scratch(64 * 1024);
  const auto room_after = [&](uint32_t length) {
    Blob stream;
    append(stream, {1, 0, 0, length, 0, 1, 0}, Blob(length));
    feed(inbox, stream, random, 4096, recorder);
    iovec places[2];
    REQUIRE(inbox.places(scratch, places, recorder, nullptr) == 1);
    return places[0].iov_len;
  };
  CHECK(room_after(100) == scratch.size());
  for (int round = 0; round < 2; ++round) {
    CHECK(room_after(kLarge) < kLarge / 8);
    CHECK(room_after(0) < kLarge / 8);  // a credit, an answer
    CHECK(room_after(100) < kLarge / 8);
  }
  CHECK(room_after(100) == scratch.size());  // there come small ones now
}

TEST_CASE("random and damaged bytes do no harm to the parser") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    Blob stream;
    for (int i = 0; i < 6; ++i) {
      const auto length = uint32_t(random() % 300);
      append(stream, {random() % 3 ? 1 : kControl, 0, 0, length, 0, uint8_t(random() % 100), 0}, random_bytes(random, length));
    }
    if (round % 3 == 0) stream = random_bytes(random, random() % 2000);
    for (uint32_t damage = random() % 4; damage > 0 && !stream.empty(); --damage)
      stream[random() % stream.size()] ^= std::byte(1u << random() % 8);
    // lengths from damage shall not make the landing of this test huge
    Recorder recorder;
    Inbox inbox;
    feed(inbox, stream, random, 1 + random() % 500, recorder);
    CHECK(recorder.payload_bytes <= stream.size());
  }
}

TEST_CASE("cards survive their encoding, and nothing else is a card") {
  Card card;
  card.host = "node7";
  card.host_id = "boot.4026531840";
  card.token.fill(std::byte{9});
  card.rails = {{"eth0", {*net::parse_address("10.0.0.1/8"), *net::parse_address("fd00::1/64")}},
                {"ib0", {*net::parse_address("10.9.0.1/16")}}};
  card.rails[0].addresses[0].port = 4711;
  const boot::Blob bytes = card.encode();
  const auto back = Card::decode(bytes);
  REQUIRE(back);
  CHECK(back->encode() == bytes);
  CHECK(back->rails[0].addresses[0].with_port() == "10.0.0.1:4711");
  for (size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(Card::decode(boot::Blob(bytes.begin(), bytes.begin() + ptrdiff_t(n))));
  std::mt19937 random(6);
  for (int round = 0; round < 3000; ++round) {
    boot::Blob damaged = bytes;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = std::byte(random());
    if (round % 2) damaged.resize(random() % damaged.size());
    if (const auto read = Card::decode(damaged)) {
      for (size_t rail = 0; rail < card.rails.size(); ++rail) partner_of(best_reach, card, 0, rail, *read, 1);
    }
  }
}

TEST_CASE("both sides pair their rails alike, by best reach and once each") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const char* pool[] = {"10.1.0.%u/16", "10.2.0.%u/16", "172.17.0.1/16", "fd00::%u/64", "192.168.3.%u/24", "127.0.0.1/8"};
  for (int round = 0; round < 500; ++round) {
    Card cards[2];
    for (unsigned c = 0; c < 2; ++c) {
      cards[c].host_id = round % 5 == 0 ? "same" : "host" + std::to_string(c);
      cards[c].rails.resize(1 + random() % 4);
      for (auto& rail : cards[c].rails) {
        rail.device = "if" + std::to_string(random() % 3);
        for (uint32_t n = 1 + random() % 2; n > 0; --n) {
          char text[64];
          snprintf(text, sizeof text, pool[random() % 6], unsigned(1 + random() % 200));
          rail.addresses.push_back(*net::parse_address(text));
        }
      }
    }
    for (size_t i = 0; i < cards[0].rails.size(); ++i) {
      const int j = partner_of(best_reach, cards[0], 3, i, cards[1], 8);
      if (j < 0) continue;
      CHECK(partner_of(best_reach, cards[1], 8, size_t(j), cards[0], 3) == int(i));
      CHECK_FALSE(ways(cards[0], i, cards[1], size_t(j)).empty());
    }
  }
  Card a, b;
  a.host_id = "a", b.host_id = "b";
  a.rails = {{"docker0", {*net::parse_address("172.17.0.1/16")}},
             {"eth0", {*net::parse_address("10.1.0.1/16")}},
             {"eth1", {*net::parse_address("10.2.0.1/16")}}};
  b.rails = {{"ens4", {*net::parse_address("10.2.0.2/16")}},
             {"ens3", {*net::parse_address("10.1.0.2/16")}},
             {"docker0", {*net::parse_address("172.17.0.1/16")}}};
  CHECK(partner_of(best_reach, a, 0, 1, b, 1) == 1);
  CHECK(partner_of(best_reach, a, 0, 2, b, 1) == 0);
  CHECK(partner_of(best_reach, a, 0, 0, b, 1) == -1);
}
