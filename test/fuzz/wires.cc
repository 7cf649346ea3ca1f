// What arrives over sockets and in published addresses, below messages.
#include <config.h>

#include <algorithm>
#include <cstring>

#include "btl/card.h"
#include "btl/introduction.h"
#include "btl/shm/ring.h"
#include "btl/shm/segment.h"
#include "btl/tcp/stream.h"
#include "runtime/net/handshake.h"
#include "test/fuzz/fuzz.h"
#ifdef HAVE_VERBS
#include "btl/verbs/card.h"
#include "btl/verbs/proposal.h"
#endif

namespace weft::fuzz {
namespace {

using namespace weft::btl;

const net::Digest key = net::sha256({net::bytes_of("key")});

constexpr uint32_t kRing = 32 * 1024;

std::string text_of(net::Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// One side of a handshake is fed with whatever comes, in pieces of whatever size.
void shake(net::Handshake hands, Script& script) {
  while (hands.state() == net::Handshake::State::going && !script.over()) {
    hands.sent(hands.output().size());
    const auto bytes = blob_of(script.piece(std::min<size_t>(hands.wanted(), 1 + script.number(1))));
    hands.feed(bytes);
  }
  need(hands.output().size() <= 160, "a handshake has more to say than a record");
}

Target handshakes() {
  auto caller = net::Handshake::initiate(key, {});
  auto acceptor = net::Handshake::accept(key);
  const std::string hello = text_of(caller.output());
  acceptor.feed(caller.output());
  const std::string challenge = text_of(acceptor.output());
  return {
      "net/handshake", {"a" + hello, "a" + hello + std::string(32, 'x'), "i" + challenge, "i" + challenge + "W"}, [](std::string_view in) {
        Script script(in);
        if (script.number(1) == 'a')
          shake(net::Handshake::accept(key), script);
        else
          shake(net::Handshake::initiate(key, {}), script);
      }};
}

Card a_card(const char* host, size_t rails) {
  Card card;
  card.host = card.host_id = host;
  for (size_t i = 0; i < rails; ++i) {
    Card::Rail rail{"eth" + std::to_string(i), {*net::parse_address("10.0.0.1/24"), *net::parse_address("fd00::1/64")}, {}};
    net::Gid gid;
    gid.bytes[10] = gid.bytes[11] = 0xff;
    gid.bytes[12] = 10;
    gid.type = net::Gid::Type::roce_v2;
    rail.gids = {gid, {}};
    card.rails.push_back(rail);
  }
  return card;
}

int any_worth(const Card& one, size_t i, const Card& other, size_t j) {
#ifdef HAVE_VERBS
  return best_reach(one, i, other, j) + verbs::gid_worth(one, i, other, j);
#else
  return best_reach(one, i, other, j);
#endif
}

Target cards() {
  return {"btl/card",
          {weft::fuzz::text_of(a_card("a", 1).encode()), weft::fuzz::text_of(a_card("b", 4).encode()),
           weft::fuzz::text_of(a_card("c", Card::kRails).encode())},
          [](std::string_view in) {
            static const Card mine = a_card("b", 3);
            const auto theirs = Card::decode(blob_of(in));
            if (!theirs) return;
            need(theirs->rails.size() <= Card::kRails, "a card with too many rails");
            const auto again = Card::decode(theirs->encode());
            need(again && again->encode() == theirs->encode(), "a card is not what it was when encoded again");
            for (size_t i = 0; i < mine.rails.size(); ++i) {
              const int there = partner_of(any_worth, mine, 1, i, *theirs, 2);
              if (there < 0) continue;
              need(partner_of(any_worth, *theirs, 2, size_t(there), mine, 1) == int(i), "partners are not mutual");
              for (const Way& way : ways(mine, i, *theirs, size_t(there))) (void)way.to.with_port();
            }
          },
          2};
}

Target introductions() {
  const Introduction me{"tcp", job_number("job"), 1, 2, 3, 4, 5, "host"};
  return {"btl/introduction", {bytes_of(me.claim())}, [](std::string_view in) {
            net::Claim claim{};
            memcpy(claim.data(), in.data(), std::min(in.size(), claim.size()));
            boot::Job job;
            job.name = "job";
            job.rank = 2;
            job.size = 4;
            const auto they = Introduction::from(claim);
            if (they && they->meant_for("tcp", job, 5))
              need(rank_of(they->rank) < 4 && rank_of(they->rank) != 2, "a stranger is taken for a process of the job");
          }};
}

/// Takes messages, some of them to a landing of their own.
struct Basket final : Sink {
  std::vector<std::byte> place;
  bool lands = false, pending = false;
  uint32_t asked = 0;  // again
  uint64_t bytes = 0;
  void* meet(ProcessId) override { return this; }
  void arrived(void*, const Header& h, const std::byte* payload) override {
    for (uint32_t i = 0; i < h.length; i += 97) bytes += uint8_t(payload[i]);
    if (h.length) bytes += uint8_t(payload[h.length - 1]);
    pending = false;
  }
  std::byte* landing(void*, const Header& h) override {
    if (pending) return asked++ % 4 < 3 ? place.data() : (pending = false, nullptr);  // the receive has ended
    if (!lands || h.length > kLongest) return nullptr;
    place.assign(h.length, std::byte{0});
    pending = true;
    return place.data();
  }
  void lost(void*, const std::string&) override {}
};

std::string a_message(uint32_t length, uint8_t kind = 1) {
  const Header header{7, 1, 2, length, 3, kind, 0};
  return bytes_of(header) + std::string(length, 'p');
}

Target streams() {
  const std::string bye = bytes_of(tcp::bye());
  std::vector<std::string> seeds{std::string("\0\xff", 2) + a_message(0) + a_message(8) + a_message(5000), "\1\7" + a_message(300) + bye,
                                 "\1\1" + bye, "\1\x30" + a_message(9000) + a_message(4096) + bye};
  return {"tcp/stream", seeds,
          [](std::string_view in) {
            Script script(in);
            Basket basket;
            basket.lands = script.number(1) & 1;
            const size_t most = 1 + script.number(1) * 64;
            std::vector<std::byte> scratch(1 + most / 2);
            tcp::Inbox inbox;
            while (!script.over()) {
              iovec places[2];
              const int count = inbox.places(scratch, places, basket, nullptr);
              size_t n = 0;
              for (int i = 0; i < count && n < most; ++i) {
                const auto piece = script.piece(std::min(places[i].iov_len, most - n));
                memcpy(places[i].iov_base, piece.data(), piece.size());
                n += piece.size();
                if (piece.size() < places[i].iov_len) break;
              }
              if (inbox.take(n, scratch, basket, nullptr).broken) return;
            }
          },
          3};
}

/// A ring with messages of these lengths; the last one's slot has `bits`.
std::string ring_with(std::initializer_list<uint32_t> lengths, uint32_t bits = 0) {
  std::vector<std::byte> memory(kRing);
  shm::Producer producer(memory.data(), kRing);
  for (const uint32_t length : lengths)
    producer.push({7, 1, 2, length, 3, 1, 0}, false, true, [](std::byte* to, uint32_t, uint32_t n) { memset(to, 'p', n); });
  auto* slots = reinterpret_cast<shm::Slot*>(memory.data() + shm::Shape::slots_offset);
  slots[lengths.size() - 1].word |= bits;
  return weft::fuzz::text_of(memory);
}

/// A ring whose other side, another process, has written whatever it likes, and goes on doing so.
Target rings() {
  return {"shm/ring",
          {ring_with({0, 8, 40}), ring_with({41, 3000, 100, 8000}), ring_with({64, 64, 64, 0, 1}), ring_with({8, 6000}, shm::kGrowsBit),
           ring_with({100, 3000}, shm::kWrapBit), ring_with({100, 3000}, shm::kCellBit)},
          [](std::string_view in) {
            auto* memory = static_cast<std::byte*>(aligned_alloc(4096, kRing));
            memset(memory, 0, kRing);
            memcpy(memory, in.data(), std::min<size_t>(in.size(), kRing));
            auto* grown = reinterpret_cast<shm::Grown*>(memory + shm::Shape::grown_offset);
            auto* slots = reinterpret_cast<shm::Slot*>(memory + shm::Shape::slots_offset);
            Basket basket;
            shm::Cells cells;
            std::vector<std::byte> held(3 * shm::Cells::kBytes);
            cells.add(shm::Cells::Home::received_on, held.data(), 2);
            cells.add(shm::Cells::Home::sent_on, held.data() + 2 * shm::Cells::kBytes, 1);
            shm::Consumer consumer(memory, kRing, &cells);
            struct {
              std::vector<std::byte> memory;  // as large as the message said when it began
              uint32_t asked = 0;
              std::byte* place(const Header& h) {
                if (asked++ == 0) memory.resize(h.length);
                return h.length <= memory.size() ? memory.data() : nullptr;
              }
              bool scatter(const Header&, const std::byte* bytes, uint32_t from, uint32_t count) {
                if (from > memory.size() || count > memory.size() - from) return false;
                memcpy(memory.data() + from, bytes, count);
                return true;
              }
            } place;
            bool broken = false;
            for (uint32_t round = 0; round < 64 && !broken && consumer.ready(); ++round) {
              consumer.take(
                  16, [&](const Header& h, const std::byte* payload) { basket.arrived(nullptr, h, payload); }, place,
                  [&] { broken = true; });
              grown->bytes.fetch_add(in.size() > round ? uint64_t{static_cast<unsigned char>(in[in.size() - 1 - round])} * 37 : 1000);
              if (round % 8 == 7) slots[round % 4].word.fetch_xor(round << 9);
            }
            free(memory);
          }};
}

Target segments() {
  shm::Address address;
  address.pid = 1;
  address.capacity = 4;
  address.ring_bytes = 32768;
  return {"shm/address", {weft::fuzz::text_of(address.blob())}, [](std::string_view in) { (void)shm::Address::parse(blob_of(in)); }};
}

#ifdef HAVE_VERBS
Target proposals() {
  verbs::Proposal good;
  good.slot_bytes = 100;
  good.queues = 2;
  good.mtu = 3;
  good.credits = 64;
  return {"verbs/proposal", {bytes_of(good)}, [](std::string_view in) {
            verbs::Proposal theirs;
            memcpy(&theirs, in.data(), std::min(in.size(), sizeof theirs));
            if (verbs::objection(theirs, 100).empty())
              need(theirs.queues <= theirs.numbers.size() && theirs.queues > 0, "more queues than numbers");
          }};
}
#endif

}  // namespace

void add_wires(Targets& all) {
  all.push_back(handshakes());
  all.push_back(cards());
  all.push_back(introductions());
  all.push_back(streams());
  all.push_back(rings());
  all.push_back(segments());
#ifdef HAVE_VERBS
  all.push_back(proposals());
#endif
}

}  // namespace weft::fuzz
