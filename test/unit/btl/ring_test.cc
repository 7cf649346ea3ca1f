// The ring against a simple model, and between two threads.
#include "btl/shm/ring.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

using namespace weft::btl;
using namespace weft::btl::shm;

namespace {

struct alignas(128) Line {
  std::byte bytes[128];
};

struct Memory {
  explicit Memory(uint32_t bytes) : lines(std::make_unique<Line[]>(bytes / sizeof(Line))) {}
  std::byte* data() { return lines[0].bytes; }
  std::unique_ptr<Line[]> lines;
};

std::byte pattern(uint64_t message, uint32_t at) { return std::byte((message * 131 + at * 7 + (at >> 8)) & 0xff); }

uint32_t random_length(std::mt19937& random, uint32_t most) {
  switch (random() % 5) {
    case 0: return random() % (kSlotPayload + 1);
    case 1: return kSlotPayload + random() % 3;
    case 2: return random() % (most + 1);
    case 3: return random() % (kRowPayload + 3);
    default: return std::min<uint32_t>(most, 64 * (1 + random() % 8) - random() % 2);
  }
}

Header header(uint64_t number, uint32_t length) {
  return {number * 0x9e3779b97f4a7c15, int32_t(number),     -int32_t(number), length, uint16_t(number),
          uint8_t(number >> 3),        uint8_t(number >> 5)};
}

bool push(Producer& ring, uint64_t number, uint32_t length, bool alone, bool streams) {
  return ring.push(header(number, length), alone, streams, [&](std::byte* to, uint32_t from, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) to[i] = pattern(number, from + i);
  });
}

bool push(Producer& ring, uint64_t number, uint32_t length, bool alone) { return push(ring, number, length, alone, number % 2 == 0); }

bool push(Producer& ring, uint64_t number, uint32_t length) { return push(ring, number, length, number % 2 == 0); }

/// Where payloads that grow belong: places, or none.
template <class At>
struct Place {
  At at;
  std::byte* place(const Header& h) { return at(h); }
  static bool scatter(const Header&, const std::byte*, uint32_t, uint32_t) { return false; }
};
template <class At>
Place(At) -> Place<At>;

struct Nowhere {
  static std::byte* place(const Header&) { return nullptr; }
  static bool scatter(const Header&, const std::byte*, uint32_t, uint32_t) { return false; }
};

template <class Deliver>
int take(Consumer& ring, int most, Deliver&& deliver) {
  return ring.take(most, deliver, Nowhere{}, [] { FAIL("the ring is broken"); });
}

bool same(const Header& got, uint64_t number, uint32_t length, const std::byte* payload) {
  const Header want = header(number, length);
  if (std::memcmp(&got, &want, sizeof got) != 0) return false;
  for (uint32_t i = 0; i < length; ++i)
    if (payload[i] != pattern(number, i)) return false;
  return true;
}

/// Another message than that one.
Header other_than(Header h, std::mt19937& random) {
  switch (random() % 6) {
    case 0: ++h.context; break;
    case 1: ++h.tag; break;
    case 2: ++h.source; break;
    case 3: ++h.sequence; break;
    case 4: ++h.kind; break;
    default: ++h.flags; break;
  }
  return h;
}

/// Takes the next message by the shortcut: false if there is no message, or no shortcut to it.
bool take_next(Consumer& ring, uint64_t number, uint32_t length, bool there, std::mt19937& random) {
  std::vector<std::byte> to(kRowPayload + 1 + length, std::byte{0xee}), next_out(2 * kLine);
  Endpoint::Next other{other_than(header(number, length), random)};
  CHECK(!ring.peek_next(other, 1));
  CHECK(!ring.take_next(other, to.data(), 1, nullptr));
  if (length > 0) {
    other = {header(number, length - 1)};
    CHECK(!ring.take_next(other, to.data(), 1, nullptr));
  }
  CHECK(to[0] == std::byte{0xee});
  Endpoint::Next next{header(number, length + random() % 3), random() % 2 == 0};
  if (next.any_tag) next.header.tag = -2;
  Endpoint::Next seen = next;
  CHECK(ring.peek_next(seen, 1) == there);
  const int looks = 1 + static_cast<int>(random() % 3);
  if (!ring.take_next(next, to.data(), looks, random() % 2 ? next_out.data() : nullptr)) return false;
  CHECK(same(next.header, number, length, to.data()));
  CHECK(same(seen.header, number, length, to.data()));
  return true;
}

void breaks_after(int messages, Consumer& ring) {
  int broken = 0, delivered = 0;
  const int got = ring.take(
      16, [&](const Header&, const std::byte*) { ++delivered; }, Nowhere{}, [&] { ++broken; });
  CHECK(got == messages);
  CHECK(delivered == messages);
  CHECK(broken == 1);
}

}  // namespace

TEST_CASE("ring: several short messages are taken at once, up to the first that is another one", "[shm]") {
  constexpr uint32_t bytes = 64 << 10;
  Memory memory(bytes);
  Producer producer(memory.data(), bytes);
  Consumer consumer(memory.data(), bytes);
  std::mt19937 random(7);
  uint16_t sequence = 65500;  // passes zero
  for (int round = 0; round < 400; ++round) {
    const Header first{0x1234'5678'9abc, 17, 3, 0, sequence, 1, 0};
    const uint32_t count = 1 + random() % 20, other = random() % 25;  // the one that differs, if it is there
    std::vector<uint32_t> lengths;
    for (uint32_t i = 0; i < count; ++i) {
      Header h = first;
      h.sequence = static_cast<uint16_t>(sequence + i);
      h.length = random() % (kSlotPayload + 1);
      if (i == other) round % 3 == 0 ? h.length = kSlotPayload + 1 + random() % 100 : round % 3 == 1 ? ++h.tag : ++h.sequence;
      lengths.push_back(h.length);
      REQUIRE(producer.push(h, false, false, [&](std::byte* to, uint32_t from, uint32_t n) {
        for (uint32_t b = 0; b < n; ++b) to[b] = pattern(i, from + b);
      }));
    }
    std::array<std::array<std::byte, kSlotPayload>, 16> to{};
    std::array<Endpoint::Place, 16> places;
    const uint32_t small = random() % 40;  // a place without room for its message
    for (uint32_t i = 0; i < places.size(); ++i)
      places[i] = {to[i].data(), i == small && i < count && lengths[i] > 0 ? lengths[i] - 1 : kSlotPayload, 0};
    uint32_t expected = std::min<uint32_t>(std::min(count, other), 16);
    if (small < expected && lengths[small] > 0) expected = small;
    size_t taken = 0;
    for (int calls = 0; calls < 3; ++calls) {  // the slots and the numbers may begin anew meanwhile, which each ends a call
      Header next = first;
      next.sequence = static_cast<uint16_t>(sequence + taken);
      taken += consumer.take_several(next, std::span(places).subspan(taken));
    }
    REQUIRE(taken == expected);
    CHECK(consumer.take_several(first, {}) == 0);
    for (uint32_t i = 0; i < taken; ++i) {
      CHECK(places[i].length == lengths[i]);
      for (uint32_t b = 0; b < lengths[i]; ++b) REQUIRE(to[i][b] == pattern(i, b));
    }
    uint32_t rest = 0;
    while (take(consumer, 32, [&](const Header& h, const std::byte*) { CHECK(h.length == lengths[taken + rest++]); }) > 0) continue;
    CHECK(taken + rest == count);
    sequence = static_cast<uint16_t>(sequence + count);
  }
}

TEST_CASE("ring: shapes divide the memory without overlap", "[shm]") {
  for (uint32_t bytes = 8 << 10; bytes <= 16u << 20; bytes *= 2) {
    const Shape shape = Shape::of(bytes);
    CHECK(std::has_single_bit(shape.slots));
    CHECK(shape.bulk_offset >= sizeof(Freed) + sizeof(Grown) + shape.slots * sizeof(Slot));
    CHECK(shape.bulk_offset % kLine == 0);
    CHECK(shape.cells_offset() == shape.bulk_offset + shape.bulk_bytes);
    CHECK(shape.cells_offset() + shape.cells * Cells::kBytes + (shape.cells ? weft::kMidPage : 0) == bytes);
    CHECK((!shape.cells || shape.cells_offset() % 4096 == weft::kMidPage));
    CHECK((shape.cells > 0) == (bytes >= 256 << 10));
    CHECK(shape.max_payload() * 2 <= shape.bulk_bytes);
    CHECK(shape.max_payload() >= bytes / 8);
  }
}

TEST_CASE("ring: behaves as a bounded queue", "[shm]") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (uint32_t bytes : {8u << 10, 32u << 10, 128u << 10}) {
    Memory memory(bytes);
    Producer producer(memory.data(), bytes);
    Consumer consumer(memory.data(), bytes);
    const uint32_t most = Shape::of(bytes).max_payload();
    std::deque<uint32_t> model;
    uint64_t sent = 0, received = 0, refused = 0, rows_next = 0;
    while (received < 8000) {
      const bool fill = random() % 3;
      for (int n = int(random() % 100); n > 0; --n) {
        if (fill) {
          const uint32_t length = random_length(random, most);
          if (push(producer, sent, length)) {
            model.push_back(length);
            ++sent;
          } else {
            ++refused;
            REQUIRE(!model.empty());  // an empty ring takes every length
          }
        } else {
          REQUIRE(consumer.ready() == !model.empty());
          if (const uint32_t length = model.empty() ? 0 : model.front(); random() % 2) {
            const bool taken = take_next(consumer, received, length, !model.empty(), random);
            REQUIRE((!taken || !model.empty()));
            if (!model.empty() && length <= kSlotPayload) REQUIRE(taken);
            if (!taken) continue;
            model.pop_front();
            ++received;
            rows_next += length > kSlotPayload;
            continue;
          }
          const int want = int(random() % 5) + 1;
          const int got = take(consumer, want, [&](const Header& h, const std::byte* payload) {
            REQUIRE(!model.empty());
            REQUIRE(same(h, received, model.front(), payload));
            model.pop_front();
            ++received;
          });
          REQUIRE((got == want || model.empty() || (got > 0 && model.front() >= kStaysFrom)));
        }
      }
    }
    CHECK(refused > 0);
    CHECK(rows_next > 0);
  }
}

TEST_CASE("ring: payloads in rows of slots leave an eighth of the slots to others", "[shm]") {
  constexpr uint32_t bytes = 1 << 20, length = 1000;
  const Shape shape = Shape::of(bytes);
  Memory memory(bytes);
  Producer producer(memory.data(), bytes);
  Consumer consumer(memory.data(), bytes);
  const std::byte* const area = memory.data() + shape.bulk_offset;
  for (int lap = 0; lap < 3; ++lap) {
    uint64_t sent = 0, received = 0;
    uint32_t in_rows = 0;
    while (push(producer, sent, length)) ++sent;
    const int got = take(consumer, 10'000, [&](const Header& h, const std::byte* payload) {
      REQUIRE(same(h, received++, length, payload));
      in_rows += payload < area;
    });
    CHECK(uint64_t(got) == sent);
    CHECK(sent >= shape.slots / 8);
    CHECK(in_rows > 0);
    CHECK(in_rows * row_for(length) <= shape.slots - shape.slots / 8);
  }
}

TEST_CASE("ring: short payloads that are taken in time keep to few lines, others go through the whole area", "[shm]") {
  constexpr uint32_t bytes = 2 << 20;
  struct Traffic {
    uint32_t length;
    uint64_t at_once;
    bool alone;
    int64_t least, most;  // how far into the area they come
  };
  constexpr int64_t all = Shape::of(bytes).bulk_bytes / 10 * 9;
  const Traffic traffic =
      GENERATE(Traffic{300, 1, false, 300, kPage}, Traffic{300, 40, false, 300, kPage}, Traffic{300, 130, false, 10'000, kWiden},
               Traffic{2000, 1, false, all, bytes}, Traffic{2000, 300, false, all, bytes}, Traffic{60'000, 1, true, all, bytes});
  INFO(traffic.length << " bytes, " << traffic.at_once << " at once");
  Memory memory(bytes);
  Producer producer(memory.data(), bytes);
  Consumer consumer(memory.data(), bytes);
  const std::byte* const area = memory.data() + Shape::of(bytes).bulk_offset;
  int64_t furthest = 0;
  for (uint64_t i = 0; i < 3000; i += traffic.at_once) {
    for (uint64_t j = i; j < i + traffic.at_once; ++j) REQUIRE(push(producer, j, traffic.length, traffic.alone));
    uint64_t expected = i;
    take(consumer, int(traffic.at_once), [&](const Header& h, const std::byte* payload) {
      REQUIRE(same(h, expected++, traffic.length, payload));
      furthest = std::max(furthest, payload + traffic.length - area);
    });
    REQUIRE(expected == i + traffic.at_once);
  }
  CHECK(furthest >= traffic.least);
  CHECK(furthest <= traffic.most);
}

namespace {

/// What two processes have of a ring for each direction, and of the cells in both.
struct Pair {
  struct Side {
    Cells cells;
    Producer producer;
    std::unique_ptr<Consumer> consumer;
  };
  explicit Pair(uint32_t bytes = 1 << 20) : rings{Memory(bytes), Memory(bytes)}, shape(Shape::of(bytes)) {
    for (int i : {0, 1}) {
      Side& side = sides[i];
      side.cells.add(Cells::Home::sent_on, cells_of(i), shape.cells);
      side.cells.add(Cells::Home::received_on, cells_of(1 - i), shape.cells);
      side.producer = Producer(rings[i].data(), bytes, &side.cells);
      side.consumer = std::make_unique<Consumer>(rings[1 - i].data(), bytes, &side.cells);
    }
  }
  std::byte* cells_of(int ring) { return rings[ring].data() + shape.cells_offset(); }
  Memory rings[2];
  Shape shape;
  Side sides[2];
};

}  // namespace

TEST_CASE("cells: whoever has read a payload writes the next one there", "[shm]") {
  Pair pair;
  const uint32_t length = GENERATE(512u, 50'000u, 65536u);
  const std::byte* before = nullptr;
  for (uint64_t i = 0; i < 100; ++i) {
    INFO("message " << i << " of " << length << " bytes");
    REQUIRE(push(pair.sides[i % 2].producer, i, length, i % 4 < 2));
    const int got = take(*pair.sides[1 - i % 2].consumer, 16, [&](const Header& h, const std::byte* payload) {
      REQUIRE(same(h, i, length, payload));
      if (before) CHECK(payload == before);
      before = payload;
    });
    REQUIRE(got == 1);
  }
  CHECK(before == pair.cells_of(0));
}

TEST_CASE("cells: who only sends goes on through the ring", "[shm]") {
  Pair pair;
  const auto lies_in_cell = [&](const std::byte* p) {
    const auto within = [&](int ring) { return p >= pair.cells_of(ring) && p < pair.cells_of(ring) + pair.shape.cells * Cells::kBytes; };
    return within(0) || within(1);
  };
  struct Phase {
    int from;
    uint32_t cells;  // that the sender has by then
  };
  for (const Phase phase : {Phase{0, pair.shape.cells}, Phase{1, 2 * pair.shape.cells}, Phase{0, 2 * pair.shape.cells}}) {
    uint32_t in_cells = 0;
    for (uint64_t i = 0; i < 200; ++i) {
      REQUIRE(push(pair.sides[phase.from].producer, i, 3000));
      REQUIRE(take(*pair.sides[1 - phase.from].consumer, 16, [&](const Header& h, const std::byte* payload) {
                REQUIRE(same(h, i, 3000, payload));
                in_cells += lies_in_cell(payload);
              }) == 1);
    }
    CHECK(in_cells == phase.cells);
    CHECK_FALSE(pair.sides[phase.from].cells.any());
  }
}

TEST_CASE("cells: who has none any more had better read, once for each time that some have come", "[shm]") {
  Pair pair;
  constexpr uint32_t length = 20'000, short_length = 4000;
  auto& [cells, producer, consumer] = pair.sides[0];
  uint64_t sent = 0, heard = 0;
  for (uint32_t come = pair.shape.cells; come > 0; --come) {
    for (uint32_t i = 0; i < come; ++i) REQUIRE(push(producer, sent++, length));
    CHECK_FALSE(cells.any());
    REQUIRE(push(producer, sent++, short_length));
    if (heard > 0) REQUIRE_FALSE(push(producer, sent, length));  // the first ones are its own
    for (int i = 0; i < 3; ++i) REQUIRE(push(producer, sent++, length));
    uint64_t expected = sent - come - 4;
    while (expected < sent) REQUIRE(take(*pair.sides[1].consumer, 16, [&](const Header&, const std::byte*) { ++expected; }) > 0);
    for (uint32_t i = 0; i + 1 < come; ++i) {
      REQUIRE(push(pair.sides[1].producer, heard, length));
      REQUIRE(take(*consumer, 1, [&](const Header& h, const std::byte* payload) { REQUIRE(same(h, heard, length, payload)); }) == 1);
      ++heard;
    }
  }
}

TEST_CASE("cells: payloads that are set aside stay as they are until they are given back", "[shm]") {
  Pair pair;
  constexpr uint32_t length = 20'000;
  auto& [cells, producer, consumer] = pair.sides[1];
  std::vector<std::pair<Header, const std::byte*>> aside;
  for (uint64_t i = 0; i < 30; ++i) {  // answers go on through cells
    REQUIRE(push(pair.sides[0].producer, i, length));
    REQUIRE(take(*consumer, 1, [&](const Header& h, const std::byte* payload) {
              REQUIRE(same(h, i, length, payload));
              if (i % 2 && consumer->set_aside(payload)) aside.emplace_back(h, payload);
            }) == 1);
    REQUIRE(push(producer, i, length));
    REQUIRE(take(*pair.sides[0].consumer, 1, [&](const Header& h, const std::byte* payload) { REQUIRE(same(h, i, length, payload)); }) ==
            1);
  }
  CHECK(aside.size() == pair.shape.cells);
  uint64_t number = 1;
  for (const auto& [header, payload] : aside) {
    CHECK(same(header, number, length, payload));
    number += 2;
    cells.give_back(payload);
    CHECK(cells.at(cells.take()) == payload);
  }
}

TEST_CASE("cells: one that was not passed breaks the ring, and nothing is read", "[shm]") {
  // Beyond the last one of either ring; one of the receiver's own; and a payload longer than a cell.
  const auto [number, length] = GENERATE_REF(std::pair{uint8_t{15}, 1000u}, std::pair{uint8_t{31}, 1000u}, std::pair{uint8_t{255}, 1000u},
                                             std::pair{uint8_t{16}, 1000u}, std::pair{uint8_t{0}, Cells::kBytes + 1});
  Pair pair;
  REQUIRE(pair.shape.cells < 15);
  REQUIRE(push(pair.sides[0].producer, 0, 1000));
  auto* slot = reinterpret_cast<Slot*>(pair.rings[0].data() + Shape::slots_offset);
  slot->payload[0] = std::byte{number};
  slot->word.store(length | kCellBit | kPhaseBit);
  breaks_after(0, *pair.sides[1].consumer);
}

TEST_CASE("cells: one passed twice breaks the ring", "[shm]") {
  Pair pair;
  REQUIRE(push(pair.sides[0].producer, 0, 1000));
  REQUIRE(push(pair.sides[0].producer, 1, 1000));
  auto* slots = reinterpret_cast<Slot*>(pair.rings[0].data() + Shape::slots_offset);
  slots[1].payload[0] = slots[0].payload[0];
  breaks_after(1, *pair.sides[1].consumer);
}

TEST_CASE("cells: two threads that send each other whatever comes", "[shm]") {
  constexpr uint64_t messages = 20'000;
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  Pair pair(GENERATE(256u << 10, 1u << 20));
  const uint32_t most = std::min(pair.shape.max_payload(), 20'000u);
  uint64_t wrong[2] = {};
  const auto run = [&](uint32_t me) {
    std::mt19937 lengths(seed + me), theirs(seed + 1 - me), turns(seed + 2 + me);
    std::vector<std::byte> place(most);
    uint64_t sent = 0, received = 0;
    uint32_t next = random_length(lengths, most);
    while (sent < messages || received < messages) {
      for (uint32_t n = turns() % 8; n > 0 && sent < messages && push(pair.sides[me].producer, sent, next); --n) {
        ++sent;
        next = random_length(lengths, most);
      }
      const int got = pair.sides[me].consumer->take(
          int(turns() % 8 + 1),
          [&](const Header& h, const std::byte* payload) { wrong[me] += !same(h, received++, random_length(theirs, most), payload); },
          Place{[&](const Header&) { return place.data(); }}, [&] { wrong[me] += messages; });
      if (!got) std::this_thread::yield();
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  CHECK(wrong[0] + wrong[1] == 0);
}

TEST_CASE("ring: what is copied to where it belongs is timed, what is unpacked or kept is not", "[shm]") {
  constexpr uint32_t bytes = 1 << 20, length = 32 << 10;
  Memory memory(bytes);
  RingPace pace;
  Producer producer(memory.data(), bytes);
  Consumer consumer(memory.data(), bytes, nullptr, &pace);
  std::vector<std::byte> there(length);
  uint64_t number = 0;
  const auto pass_on = [&](std::byte* landing) {
    for (int i = 0; i < 100; ++i, ++number) {
      REQUIRE(push(producer, number, length));
      const auto deliver = [&](const Header& h, const std::byte* payload) { REQUIRE(same(h, number, length, payload)); };
      REQUIRE(consumer.take(1, deliver, Place{[&](const Header&) { return landing; }}, [] { FAIL("the ring is broken"); }) == 1);
    }
  };
  pass_on(nullptr);
  CHECK_FALSE(pace.known());
  pass_on(there.data());
  CHECK(pace.known());
}

TEST_CASE("ring: a length that no sender writes breaks it, and nothing is read", "[shm]") {
  constexpr uint32_t bytes = 16 << 10;
  Memory memory(bytes);
  Producer producer(memory.data(), bytes);
  Consumer consumer(memory.data(), bytes);
  REQUIRE(push(producer, 0, 8));
  REQUIRE(push(producer, 1, 8));
  auto* slots = reinterpret_cast<Slot*>(memory.data() + Shape::slots_offset);
  // With all bits, without any; a row that would go on behind the last slot.
  const uint32_t row = (Shape::of(bytes).slots - 1) * uint32_t{kLine} + 1;
  slots[1].word.store(GENERATE_COPY(0x7fffffffu, kLengthMask, row | kRowBit) | kPhaseBit);
  int delivered = 0, broken = 0;
  const auto poll = [&] {
    return consumer.take(
        16, [&](const Header&, const std::byte*) { ++delivered; }, Nowhere{}, [&] { ++broken; });
  };
  CHECK(poll() == 1);
  CHECK(broken == 1);
  CHECK(poll() == 0);
  CHECK(delivered == 1);
}

TEST_CASE("ring: a long message without a place stays for the next call, after others", "[shm]") {
  constexpr uint32_t bytes = 256 << 10, length = 20'000;
  const bool grow = GENERATE(false, true);
  Memory memory(bytes);
  Producer producer(memory.data(), bytes);
  Consumer consumer(memory.data(), bytes);
  for (uint64_t number = 0; number < 5; ++number) REQUIRE(push(producer, number, number == 1 ? 8 : length, grow, grow));
  std::vector<std::byte> place(length);
  bool awaited = false;
  uint64_t next = 0;
  const auto poll = [&] {
    const auto deliver = [&](const Header& h, const std::byte* payload) {
      CHECK(same(h, next, next == 1 ? 8 : length, payload));
      CHECK((payload == place.data()) == (next == 4));  // who has been told a place gets it there
      ++next;
    };
    return consumer.take(16, deliver, Place{[&](const Header& h) { return awaited && h.sequence == 4 ? place.data() : nullptr; }},
                         [] { FAIL("the ring is broken"); });
  };
  CHECK(poll() == 2);  // the first one and a short one
  CHECK(poll() == 1);
  awaited = true;
  CHECK(poll() == 2);
  CHECK(poll() == 0);
}

TEST_CASE("ring: a payload is copied out while it grows, as long as there is a place for it", "[shm]") {
  constexpr uint32_t bytes = 256 << 10, length = 50'000;
  Memory memory(bytes);
  Producer producer(memory.data(), bytes);
  Consumer consumer(memory.data(), bytes);
  struct Case {
    uint32_t from, until;  // the questions that the place is the answer to
    bool then_another;     // two questions later there is another one
  };
  constexpr Case cases[] = {{0, 1000, false}, {0, 0, false}, {0, 2, false}, {2, 1000, false}, {0, 1, true}};
  for (uint32_t number = 0; number < std::size(cases); ++number) {
    const Case& c = cases[number];
    INFO("case " << number);
    std::vector<std::byte> place(length), other(length);
    uint32_t asked = 0, delivered = 0, seen = 0;
    const auto answer = [&](uint32_t question) {
      if (question >= c.from && question < c.until) return place.data();
      return c.then_another && question >= c.until + 1 ? other.data() : nullptr;
    };
    const auto poll = [&] {
      return consumer.take(
          16,
          [&](const Header& h, const std::byte* payload) {
            CHECK(same(h, number, length, payload));
            CHECK((payload == place.data()) == (c.until == 1000));
            CHECK((payload == other.data()) == c.then_another);
            ++delivered;
          },
          Place{[&](const Header& h) -> std::byte* {
            CHECK(h.length == length);
            return answer(asked++);
          }},
          [] { FAIL("the ring is broken"); });
    };
    CHECK(producer.push(header(number, length), true, true, [&](std::byte* to, uint32_t from, uint32_t n) {
      CHECK(poll() == 0);
      if (from > 0 && place[from - 1] == pattern(number, from - 1)) seen = from;
      for (uint32_t i = 0; i < n; ++i) to[i] = pattern(number, from + i);
    }));
    CHECK(delivered == 0);
    CHECK(poll() == 1);
    CHECK(delivered == 1);
    CHECK(asked > 3);
    if (c.until == 1000) CHECK(seen > length / 2);
  }
}

TEST_CASE("ring: a payload that grows is given bit by bit to who has a place for it that is not in one piece", "[shm]") {
  constexpr uint32_t bytes = 256 << 10, length = 50'000;
  Memory memory(bytes);
  Producer producer(memory.data(), bytes);
  Consumer consumer(memory.data(), bytes);
  struct Parts {
    uint32_t from, until;  // the questions that are answered by taking what is there
    uint32_t asked = 0, got = 0, before_the_rest = 0;
    bool wrong = false;
    static std::byte* place(const Header&) { return nullptr; }
    bool scatter(const Header& h, const std::byte* part, uint32_t begin, uint32_t count) {
      const uint32_t question = asked++;
      wrong |= count == 0 || begin != got || begin + count > h.length;
      if (question < from || question >= until) return got = 0, false;
      for (uint32_t i = 0; i < count; ++i) wrong |= part[i] != pattern(uint64_t(h.tag), begin + i);
      got += count;
      return true;
    }
  };
  uint64_t number = 0;
  for (const auto& [from, until] : {std::pair(0u, 1000u), {2u, 1000u}, {1000u, 1000u}, {0u, 2u}}) {
    INFO("case " << number);
    Parts parts{from, until};
    int delivered = 0;
    const auto poll = [&] {
      const auto deliver = [&](const Header& h, const std::byte* payload) { delivered += same(h, number, length, payload); };
      return consumer.take(16, deliver, parts, [] { FAIL("the ring is broken"); });
    };
    CHECK(producer.push(header(number, length), true, true, [&](std::byte* to, uint32_t begin, uint32_t n) {
      CHECK(poll() == 0);
      parts.before_the_rest = parts.got;
      for (uint32_t i = 0; i < n; ++i) to[i] = pattern(number, begin + i);
    }));
    CHECK(poll() == 1);
    CHECK(delivered == 1);
    CHECK_FALSE(parts.wrong);
    CHECK(parts.got == (until == 1000 && from < until ? length : 0));
    CHECK((parts.before_the_rest > length / 2) == (parts.got > 0));
    ++number;
  }
}

TEST_CASE("ring: what a producer changes of a payload that grows does no harm", "[shm]") {
  constexpr uint32_t bytes = 256 << 10, length = 50'000;
  for (const int how : {0, 1, 2}) {
    Memory memory(bytes);
    Producer producer(memory.data(), bytes);
    Consumer consumer(memory.data(), bytes);
    auto* slot = reinterpret_cast<Slot*>(memory.data() + Shape::slots_offset);
    auto* grown = reinterpret_cast<Grown*>(memory.data() + Shape::grown_offset);
    std::vector<std::byte> place(length);  // whoever writes behind it is found by AddressSanitizer
    int broken = 0, polls = 0;
    const auto poll = [&] {
      ++polls;
      return consumer.take(
          16, [&](const Header& h, const std::byte*) { CHECK(h.length == length); }, Place{[&](const Header&) { return place.data(); }},
          [&] { ++broken; });
    };
    producer.push(header(0, length), true, false, [&](std::byte*, uint32_t from, uint32_t) {
      poll();
      if (from == 0) return;
      if (how == 0) slot->word.store(200'000 | kGrowsBit | kPhaseBit);  // longer
      if (how == 1) slot->word.store(100 | kPhaseBit);                  // complete, and short
      if (how == 2) grown->bytes.store(from / 2);                       // shrunk
    });
    if (how == 2) grown->bytes.store(~uint64_t{0} / 2);
    poll();
    CHECK((how == 1) == (broken > 0));
    CHECK(polls > 3);
  }
}

TEST_CASE("ring: payloads that grow, between two threads", "[shm]") {
  constexpr uint32_t bytes = 128 << 10;
  constexpr uint64_t messages = 5000;
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  Memory memory(bytes);
  Producer producer(memory.data(), bytes);
  Consumer consumer(memory.data(), bytes);
  const uint32_t most = Shape::of(bytes).max_payload();
  std::thread sender([&] {
    std::mt19937 random(seed);
    for (uint64_t i = 0; i < messages; ++i) {
      const uint32_t length = random() % (most + 1);
      while (!push(producer, i, length)) std::this_thread::yield();
    }
  });
  std::mt19937 random(seed);
  std::vector<std::byte> place(most);
  uint64_t received = 0, wrong = 0;
  while (received < messages) {
    const int got = consumer.take(
        16, [&](const Header& h, const std::byte* payload) { wrong += !same(h, received++, random() % (most + 1), payload); },
        Place{[&](const Header& h) { return h.tag % 3 ? place.data() : nullptr; }}, [] { FAIL("the ring is broken"); });
    if (!got) std::this_thread::yield();
  }
  sender.join();
  CHECK(wrong == 0);
}

TEST_CASE("ring: two threads", "[shm]") {
  const uint32_t bytes = GENERATE(16u << 10, 1u << 20);
  constexpr uint64_t messages = 50000;
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  Memory memory(bytes);
  Producer producer(memory.data(), bytes);
  Consumer consumer(memory.data(), bytes);
  const uint32_t most = std::min(Shape::of(bytes).max_payload() / 4, 8000u);
  std::thread sender([&] {
    std::mt19937 random(seed);
    for (uint64_t i = 0; i < messages; ++i) {
      const uint32_t length = random_length(random, most);
      while (!push(producer, i, length)) std::this_thread::yield();
    }
  });
  std::mt19937 random(seed);
  uint64_t received = 0, wrong = 0;
  while (received < messages)
    if (!take(consumer, 16,
              [&](const Header& h, const std::byte* payload) { wrong += !same(h, received++, random_length(random, most), payload); }))
      std::this_thread::yield();
  sender.join();
  CHECK(wrong == 0);
}
