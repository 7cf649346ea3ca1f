// scan and exscan
#include "coll/algorithms/algorithms.h"

namespace weft::coll {

/// ceil(log2 p) rounds: after round k a rank has combined the 2^(k+1) ranks up to itself (Hillis, Steele 1986).
Schedule scan_doubling(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(1);
  if (!p.in_place) b.copy({buffer_in, 0}, {buffer_out, 0}).next();
  const uint8_t below = me > 0 ? b.full_region() : uint8_t{buffer_out};
  for (int64_t distance = 1; distance < size; distance *= 2) {
    if (me >= distance) b.receive(static_cast<Rank>(me - distance), {below, 0});
    if (me + distance < size) b.send(static_cast<Rank>(me + distance), {buffer_out, 0});
    b.next();
    if (me >= distance) b.reduce({below, 0}, {buffer_out, 0}).next();
  }
  return b.done();
}

/// Segments travel up the ranks: long data.
Schedule scan_chain(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(p.segments);
  const Rank up = me + 1 < size ? me + 1 : -1;
  if (me == 0) {
    if (!p.in_place) b.copy({buffer_in, 0}, {buffer_out, 0}, p.segments);
    b.begin_loop().send(up, {buffer_in, 0, 1}).end_loop(p.segments);
    return b.done();
  }
  const uint8_t below = b.single_region();
  auto fold = [&](int32_t block, int32_t stride) {
    if (p.in_place) {
      b.reduce({below, block, stride}, {buffer_out, block, stride}).next();
    } else {
      b.combine({below, block, stride}, {buffer_in, block, stride}, {buffer_out, block, stride}).next();
    }
  };
  b.receive(me - 1, {below, 0}).next();
  fold(0, 0);
  b.begin_loop();
  b.receive(me - 1, {below, 1, 1}).send(up, {buffer_out, 0, 1}).next();
  fold(1, 1);
  b.end_loop(p.segments - 1);
  b.send(up, {buffer_out, p.segments - 1});
  return b.done();
}

/// The input moves up by one rank; ranks 1 and above then run scan_doubling on what they got.
Schedule exscan_doubling(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(1);
  if (size == 1) return b.done();
  const Rank up = me + 1 < size ? me + 1 : -1;
  if (me == 0) return b.send(up, {buffer_in, 0}).done();
  const uint8_t below = b.full_region();
  const uint8_t first = p.in_place ? below : uint8_t{buffer_out};
  b.receive(me - 1, {first, 0}).send(up, {buffer_in, 0}).next();
  if (p.in_place) b.copy({below, 0}, {buffer_out, 0}).next();
  for (int64_t distance = 1; distance < size; distance *= 2) {
    const bool hears = me - 1 >= distance;
    if (hears) b.receive(static_cast<Rank>(me - distance), {below, 0});
    if (me + distance < size) b.send(static_cast<Rank>(me + distance), {buffer_out, 0});
    b.next();
    if (hears) b.reduce({below, 0}, {buffer_out, 0}).next();
  }
  return b.done();
}

Schedule exscan_chain(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(p.segments);
  const Rank up = me + 1 < size ? me + 1 : -1;
  if (me == 0) return b.begin_loop().send(up, {buffer_in, 0, 1}).end_loop(p.segments).done();
  if (up < 0) return b.begin_loop().receive(me - 1, {buffer_out, 0, 1}).end_loop(p.segments).done();
  const uint8_t through = b.single_region();
  const uint8_t below = p.in_place ? b.single_region() : uint8_t{buffer_out};
  auto fold = [&](int32_t block, int32_t stride) {
    b.combine({below, block, stride}, {buffer_in, block, stride}, {through, block, stride});
    if (p.in_place) b.copy({below, block, stride}, {buffer_out, block, stride});
    b.next();
  };
  b.receive(me - 1, {below, 0}).next();
  fold(0, 0);
  b.begin_loop();
  b.receive(me - 1, {below, 1, 1}).send(up, {through, 0, 1}).next();
  fold(1, 1);
  b.end_loop(p.segments - 1);
  b.send(up, {through, p.segments - 1});
  return b.done();
}

}  // namespace weft::coll
