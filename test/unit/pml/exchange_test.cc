// Messages between ranks as threads: every protocol, over every wire.
#include <catch2/catch.hpp>

#include "test/unit/pml/ranks.h"

using namespace weft;
using namespace weft::test;
using pml::Mode;
using pml::Traffic;

namespace {

std::vector<Bed> beds() {
  return {
      {"fragments", {}},
      {"tiny inline, full wire", {.max_inline = 24, .max_buffered = 600, .room = 2}},
      {"zero copy", {.max_buffered = 2048, .zcopy = true}},
      {"zero copy, completed late", {.max_buffered = 2048, .zcopy = true, .lazy = true}},
      {"get", {.get = true}},
      {"get, completed late", {.get = true, .lazy = true}},
      {"get that fails", {.get = true, .get_fails = true}},
      {"disorder", {.ordered = false}},
      {"disorder, get", {.get = true, .ordered = false}},
      {"shm", {}, true},
  };
}

std::vector<std::byte> pattern(uint64_t n, uint64_t seed) {
  std::vector<std::byte> data(n);
  for (uint64_t i = 0; i < n; ++i) data[i] = static_cast<std::byte>((i * 131 + seed * 7 + (i >> 8)) & 0xff);
  return data;
}

}  // namespace

TEST_CASE("messages of every size arrive by every protocol") {
  for (const Bed& bed : beds()) {
    DYNAMIC_SECTION(bed.name) {
      run_ranks(2, bed, false, [](Rank& me) {
        for (uint64_t n : {0, 1, 8, 23, 24, 25, 40, 41, 63, 64, 65, 500, 599, 600, 601, 2047, 2048, 2049, 4095, 4096, 4097, 20000, 65536, 65537, 1000000}) {
          for (Mode mode : {Mode::standard, Mode::synchronous, Mode::ready}) {
            const auto sent = pattern(n, n);
            std::vector<std::byte> got(n + 1);
            pml::Outcome outcome;
            const int other = 1 - static_cast<int>(me.rank);
            if (me.rank == 0) {
              NEED(me.lane.send(me.world, other, 5, Traffic::user, bytes(sent.data(), n), mode) == Status::ok);
              NEED(me.lane.receive(me.world, other, 6, Traffic::user, bytes(got.data(), n), outcome) == Status::ok);
            } else {
              NEED(me.lane.receive(me.world, other, 5, Traffic::user, bytes(got.data(), n + 1), outcome) == Status::ok);
              NEED(me.lane.send(me.world, other, 6, Traffic::user, bytes(got.data(), n), mode) == Status::ok);
            }
            NEED(outcome.bytes == n);
            NEED(outcome.source == other);
            NEED(n == 0 || memcmp(sent.data(), got.data(), n) == 0);
          }
        }
      });
    }
  }
}
