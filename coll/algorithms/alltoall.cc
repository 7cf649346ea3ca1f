#include <algorithm>

#include "coll/algorithms/algorithms.h"

namespace weft::coll {

/// All messages at once, each rank beginning with its neighbour so that no one is hit by all.
Schedule alltoall_linear(const Topology&, Rank me, int32_t size, const Parameters&) {
  Builder b(size);
  const Rank before = wrap(me - 1, size), after = wrap(me + 1, size);
  b.receive(before, {buffer_out, before, -1}).repeat(size - 1, -1);
  b.send(after, {buffer_in, after, 1}).repeat(size - 1, 1);
  b.copy({buffer_in, me}, {buffer_out, me});
  return b.done();
}

/// p-1 rounds, one message in and one out in each.
Schedule alltoall_pairwise(const Topology&, Rank me, int32_t size, const Parameters&) {
  Builder b(size);
  b.copy({buffer_in, me}, {buffer_out, me});
  const Rank before = wrap(me - 1, size), after = wrap(me + 1, size);
  b.begin_loop();
  b.receive(before, {buffer_out, before, -1}).turn(-1).send(after, {buffer_in, after, 1}).turn(1);
  b.end_loop(size - 1);
  return b.done();
}

/// ceil(log2 p) rounds for short blocks (Bruck et al. 1997): the block for the rank i above travels the bits of i.
Schedule alltoall_bruck(const Topology&, Rank me, int32_t size, const Parameters&) {
  Builder b(size);
  const uint8_t work = b.region(me, size);
  const uint8_t leaving = b.region(0, size), coming = b.region(0, size);
  b.copy({buffer_in, me}, {work, me}, size - me);
  if (me > 0) b.copy({buffer_in, 0}, {work, 0}, me);
  b.next();
  for (int64_t bit = 1; bit < size; bit *= 2) {
    const auto run = static_cast<int32_t>(bit);
    const auto whole = static_cast<int32_t>(size / (2 * bit));  // runs of `run` blocks, a gap of as many before each
    const auto rest = static_cast<int32_t>(std::max<int64_t>(0, size % (2 * bit) - bit));
    const Place runs{work, wrap(me + bit, size), wrap(2 * bit, size)};
    const Place tail{work, wrap(me + whole * 2 * bit + bit, size)};
    if (whole > 0) b.copy(runs, {leaving, 0, run}, run).repeat(whole);
    if (rest > 0) b.copy(tail, {leaving, whole * run}, rest);
    b.next();
    const int32_t blocks = whole * run + rest;
    b.receive(wrap(me - bit, size), {coming, 0}, blocks).send(wrap(me + bit, size), {leaving, 0}, blocks).next();
    if (whole > 0) b.copy({coming, 0, run}, runs, run).repeat(whole);
    if (rest > 0) b.copy({coming, whole * run}, tail, rest);
    b.next();
  }
  b.copy({work, me, 1}, {buffer_out, me, -1}).repeat(size);
  return b.done();
}

}  // namespace weft::coll
