// Random nested datatypes against the model.
#include "runtime/type/layout.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>

#include "runtime/type/construct.h"
#include "runtime/type/cursor.h"
#include "runtime/type/predefined.h"
#include "test/unit/type/model.h"

using namespace weft;
using namespace weft::type;
using weft::test::Draw;
using weft::test::Model;
using weft::test::Sample;

namespace {

uint64_t seed() {
  if (const char* given = std::getenv("WEFT_TEST_SEED")) return std::strtoull(given, nullptr, 0);
  return 20250605;
}

/// Memory for `count` elements, each byte telling where it lies.
struct Arena {
  std::vector<std::byte> memory;
  int64_t shift = 0;  // index of the byte at the buffer address

  Arena(const Model& m, int64_t count) {
    int64_t low = 0, high = 0;
    for (int64_t i : {int64_t{0}, count - 1})
      for (int64_t at : m.bytes) low = std::min(low, at + i * m.extent()), high = std::max(high, at + i * m.extent() + 1);
    shift = -low;
    memory.resize(static_cast<size_t>(high - low));
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 131 + (i >> 8) * 31 + 7);
  }
  std::byte* address() { return memory.data() + shift; }
};

/// Bytes of `count` elements in order.
std::vector<int64_t> stream(const Model& m, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t at : m.bytes) out.push_back(at + i * m.extent());
  return out;
}

void check_numbers(const Datatype& type, const Model& m) {
  REQUIRE(type.size == m.bytes.size());
  REQUIRE(type.lower == m.lower);
  REQUIRE(type.extent == m.extent());
  if (m.bytes.empty()) return;
  const auto [low, high] = std::minmax_element(m.bytes.begin(), m.bytes.end());
  REQUIRE(type.true_lower == *low);
  REQUIRE(type.true_extent == *high + 1 - *low);
  REQUIRE(type.origin == m.bytes[0]);
}

void check_elements(const Datatype& type, const Model& m, Draw& draw) {
  if (!type.size) return;
  const auto rounds = static_cast<uint64_t>(draw.pick(0, 2));
  uint64_t bytes = 0, n = 0;
  const int64_t stop = draw.pick(0, static_cast<int64_t>(m.elements.size()) - 1);
  for (; static_cast<int64_t>(n) < stop; ++n) bytes += m.elements[n];
  bytes += rounds * type.size;
  n += rounds * m.elements.size();
  REQUIRE(elements_in(type, bytes) == static_cast<int64_t>(n));
  REQUIRE(bytes_of_elements(type, n) == bytes);
  if (m.elements[static_cast<size_t>(stop)] > 1) REQUIRE(!elements_in(type, bytes + 1));
}

void check_pack(const Datatype& type, const Model& m, int64_t count, Draw& draw) {
  Arena arena(m, count);
  const auto order = stream(m, count);
  std::vector<std::byte> expected, packed(order.size());
  for (int64_t at : order) expected.push_back(arena.address()[at]);
  Cursor cursor(arena.address(), static_cast<uint64_t>(count), type);
  REQUIRE(cursor.total() == order.size());
  for (size_t at = 0; cursor.left();) {
    if (draw.pick(0, 4) == 0) {  // leave and come back
      Cursor again = cursor;
      again.seek(static_cast<uint64_t>(draw.pick(0, static_cast<int64_t>(order.size()))));
      again.seek(cursor.position());
      cursor = again;
    }
    const auto some = static_cast<size_t>(draw.pick(1, draw.pick(0, 1) ? 20 : 4000));
    at += cursor.pack(packed.data() + at, some);
    REQUIRE(cursor.position() == at);
  }
  REQUIRE(packed == expected);
  pack(type, static_cast<uint64_t>(count), arena.address(), packed.data());
  REQUIRE(packed == expected);
}

void check_unpack(const Datatype& type, const Model& m, int64_t count, Draw& draw) {
  Arena arena(m, count), expected(m, count);
  const auto order = stream(m, count);
  std::vector<std::byte> packed(order.size());
  for (auto& byte : packed) byte = static_cast<std::byte>(draw.pick(0, 255));
  const auto bytes = static_cast<size_t>(draw.pick(0, 2) ? order.size() : draw.pick(0, static_cast<int64_t>(order.size())));
  for (size_t i = 0; i < bytes; ++i) expected.address()[order[i]] = packed[i];
  Cursor cursor(arena.address(), static_cast<uint64_t>(count), type);
  for (size_t at = 0; at < bytes;)
    at += cursor.unpack(packed.data() + at, std::min(bytes - at, static_cast<size_t>(draw.pick(1, draw.pick(0, 1) ? 20 : 4000))));
  REQUIRE(arena.memory == expected.memory);
}

void check_runs(const Datatype& type, const Model& m, int64_t count, Draw& draw) {
  Arena arena(m, count);
  const auto order = stream(m, count);
  Cursor cursor(arena.address(), static_cast<uint64_t>(count), type);
  size_t at = 0;
  while (cursor.left()) {
    iovec runs[9];
    const auto room = static_cast<size_t>(draw.pick(1, 9)), limit = static_cast<size_t>(draw.pick(1, 300));
    const size_t before = at, n = cursor.runs({runs, room}, limit);
    REQUIRE(n > 0);
    REQUIRE(n <= room);
    for (size_t i = 0; i < n; ++i)
      for (size_t b = 0; b < runs[i].iov_len; ++b, ++at) {
        if (at >= order.size() || static_cast<std::byte*>(runs[i].iov_base) + b != arena.address() + order[at]) FAIL("run lies elsewhere");
      }
    REQUIRE(at - before <= limit);
    REQUIRE(cursor.position() == at);
  }
  REQUIRE(at == order.size());
}

bool overlapping(const Model& m, int64_t count) {
  auto order = stream(m, count);
  std::sort(order.begin(), order.end());
  return std::adjacent_find(order.begin(), order.end()) != order.end();
}

}  // namespace

TEST_CASE("random datatypes behave as their type maps") {
  const uint64_t first = seed();
  for (uint64_t i = 0; i < 1500; ++i) {
    INFO("WEFT_TEST_SEED=" << first + i);
    CAPTURE(i);
    Draw draw(first + i);
    const Sample s = draw.any(static_cast<int>(draw.pick(0, 4)));
    check_numbers(*s.type, s.model);
    check_elements(*s.type, s.model, draw);
    const int64_t count = draw.pick(0, 4);
    check_pack(*s.type, s.model, count, draw);
    check_runs(*s.type, s.model, count, draw);
    if (!overlapping(s.model, count)) check_unpack(*s.type, s.model, count, draw);
  }
}

TEST_CASE("copies between different layouts of the same bytes") {
  const uint64_t first = seed();
  std::vector<Sample> samples;
  for (uint64_t i = 0; samples.size() < 120; ++i) {
    Draw draw(first + 7000 + i);
    Sample s = draw.any(3);
    if (!s.model.bytes.empty()) samples.push_back(std::move(s));
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample &a = samples[i], &b = samples[(i * 7 + 3) % samples.size()];
    const int64_t na = 3, nb = static_cast<int64_t>(na * a.model.bytes.size() / b.model.bytes.size()) + 1;
    if (overlapping(b.model, nb)) continue;
    Arena from(a.model, na), to(b.model, nb), expected(b.model, nb);
    const auto source = stream(a.model, na), target = stream(b.model, nb);
    const size_t n = std::min(source.size(), target.size());
    for (size_t k = 0; k < n; ++k) expected.address()[target[k]] = from.address()[source[k]];
    INFO("pair " << i << " from seed " << first + 7000);
    REQUIRE(copy(*a.type, na, from.address(), *b.type, nb, to.address()) == n);
    REQUIRE(to.memory == expected.memory);
  }
}

namespace {

/// Packs some bytes past the caches, from anywhere to anywhere.
void check_past_caches(const Datatype& type, const std::byte* memory, const std::vector<std::byte>& packed, size_t from, Draw& draw) {
  Cursor cursor(memory, 1, type);
  if (cursor.contiguous()) return;
  const auto shift = static_cast<size_t>(draw.pick(0, 64)), bytes = static_cast<size_t>(draw.pick(0, static_cast<int64_t>(packed.size())));
  std::vector<std::byte> place(shift + bytes + 1, std::byte{1});
  cursor.seek(from);
  const size_t done = cursor.pack_past_caches(place.data() + shift, bytes);
  CHECK((done == std::min(bytes, packed.size() - from) && cursor.position() == from + done));
  CHECK(std::equal(place.begin() + static_cast<int64_t>(shift), place.begin() + static_cast<int64_t>(shift + done),
                   packed.begin() + static_cast<int64_t>(from)));
  CHECK(std::count(place.begin() + static_cast<int64_t>(shift + done), place.end(), std::byte{1}) ==
        static_cast<int64_t>(bytes - done) + 1);
}

/// Blocks at equal distances, unpacked and packed, are where they belong; also when they go past the caches.
void check_blocks(int64_t count, int64_t length, int64_t stride, Draw& draw) {
  Datatype& byte = *predefined(reinterpret_cast<uintptr_t>(MPI_BYTE));
  Datatype* made = nullptr;
  REQUIRE(hvector(count, length, stride, byte, Form::small, made) == MPI_SUCCESS);
  const weft::test::Ref type(made);
  const size_t first = stride < 0 ? static_cast<size_t>((count - 1) * -stride) : 0;
  std::vector<std::byte> memory(static_cast<size_t>((count - 1) * std::abs(stride) + length)), expected = memory;
  std::vector<std::byte> packed(static_cast<size_t>(count * length)), back(packed.size());
  for (size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<std::byte>(i * 131 + (i >> 8) * 31 + 7);
  for (int64_t i = 0; i < count; ++i)
    memcpy(expected.data() + static_cast<int64_t>(first) + i * stride, packed.data() + i * length, static_cast<size_t>(length));
  unpack(*type, 1, packed.data(), packed.size(), memory.data() + first);
  pack(*type, 1, memory.data() + first, back.data());
  INFO(count << " blocks of " << length << " bytes every " << stride);
  CHECK(memory == expected);
  CHECK(back == packed);

  const auto from = static_cast<size_t>(draw.pick(0, static_cast<int64_t>(packed.size()) - 1));
  check_past_caches(*type, memory.data() + first, packed, from, draw);
  std::vector<std::byte> parts(memory.size());
  Cursor cursor(parts.data() + first, 1, *type);
  if (cursor.contiguous()) return;
  cursor.seek(from);
  CHECK(cursor.unpack_past_caches(packed.data() + from, packed.size()) == packed.size() - from);
  cursor.seek(0);
  CHECK((cursor.unpack_past_caches(packed.data(), from) == from && cursor.position() == from));
  CHECK(parts == expected);
}

}  // namespace

// Distances as those of matrices with a power of two as their width are copied in ways of their own.
TEST_CASE("blocks that share few sets of a cache", "[serial]") {
  Draw draw(seed());
  for (const int64_t stride : {512, 1024, 2048, 4096, 12288, -512, -4096})
    for (const int64_t length : {1, 2, 8, 16, 31, 64, 65, 100, 127, 128, 129, 200, 256, 257})
      for (const int64_t count : {7, 64, 67, 513}) check_blocks(count, length, stride, draw);
}

TEST_CASE("every other block, and blocks close to each other") {
  Draw draw(seed());
  for (const int64_t length : {1, 2, 4, 8, 12, 16})
    for (const int64_t stride : {2 * length, 3 * length, -2 * length})
      for (int64_t count = 1; count < 5000; count += count < 40 ? 1 : draw.pick(1, 999)) check_blocks(count, length, stride, draw);
}

TEST_CASE("more blocks than the second cache has lines", "[serial]") {
  Draw draw(seed());
  for (const int64_t length : {1, 4, 8, 16, 24})
    for (const int64_t stride : {length + 3, int64_t{96}, int64_t{512}}) check_blocks(32768 + draw.pick(1, 9), length, stride, draw);
}

TEST_CASE("blocks that go past the caches line by line") {
  Draw draw(seed());
  for (const int64_t length : {130, 383, 384, 385, 448, 511, 512, 1000, 1024, 4097})
    for (const int64_t stride : {length + 1, 2 * length, -length - 77})
      for (const int64_t count : {2, 3, 19}) check_blocks(count, length, stride, draw);
}

// What is packed at once in so large a piece goes past the caches by itself.
TEST_CASE("more than the caches hold", "[serial]") {
  Draw draw(seed());
  check_blocks((int64_t{4} << 20) + 77, 8, 16, draw);
  check_blocks((int64_t{17} << 10) + 3, 1000, 1500, draw);
}
