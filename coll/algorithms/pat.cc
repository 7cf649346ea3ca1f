// Allgather and reduce-scatter in which what goes far is short: ceil(log2 p) rounds for any p, as Bruck's, but the distances in the other
// order, so that a rank sends one block half way round and half of all blocks to its neighbour (parallel aggregated trees, Jeaugey 2025).
// Blocks that go together are put side by side first.
#include "coll/algorithms/algorithms.h"

namespace weft::coll {

namespace {

/// What moves in the round of a distance: blocks `distance`, 3 * distance, 5 * distance, ... from the one that it is for.
struct Leap {
  int32_t distance, blocks;
  Leap(int32_t by, int32_t size) : distance(by), blocks((size - by + 2 * by - 1) / (2 * by)) {}
};

}  // namespace

Schedule allgather_pat(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(size);
  if (!p.in_place) b.copy({buffer_in, me}, {buffer_out, me}).next();
  if (size == 1) return b.done();
  const uint8_t leaving = b.region(0, (size + 1) / 2), arrived = b.region(0, (size + 1) / 2);
  for (int32_t distance = power_below(size - 1); distance > 0; distance /= 2) {
    const Leap leap(distance, size);
    const Rank from = wrap(int64_t{me} + distance, size), to = wrap(int64_t{me} - distance, size);
    if (leap.blocks == 1) {
      b.receive(from, {buffer_out, from}).send(to, {buffer_out, me}).next();
      continue;
    }
    b.copy({buffer_out, me, 2 * distance}, {leaving, 0, 1}).repeat(leap.blocks).next();
    b.receive(from, {arrived, 0}, leap.blocks).send(to, {leaving, 0}, leap.blocks).next();
    b.copy({arrived, 0, 1}, {buffer_out, from, 2 * distance}).repeat(leap.blocks).next();
  }
  return b.done();
}

/// The same backwards: partial sums come together.
Schedule reduce_scatter_pat(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(size);
  if (size == 1) return p.in_place ? b.done() : b.copy({buffer_in, me}, {buffer_out, me}).done();
  const uint8_t sum = b.full_region(), leaving = b.region(0, (size + 1) / 2), arrived = b.region(0, (size + 1) / 2);
  for (int32_t distance = 1; distance < size; distance *= 2) {
    const Leap leap(distance, size);
    const Rank to = wrap(int64_t{me} + distance, size), from = wrap(int64_t{me} - distance, size);
    const uint8_t now = distance == 1 ? uint8_t{buffer_in} : sum;
    const bool alone = leap.blocks == 1;
    if (!alone) b.copy({now, to, 2 * distance}, {leaving, 0, 1}).repeat(leap.blocks).next();
    b.receive(from, {arrived, 0}, leap.blocks).send(to, alone ? Place{now, to} : Place{leaving, 0}, leap.blocks).next();
    if (distance > 1) {
      b.reduce({arrived, 0, 1}, {sum, me, 2 * distance}).repeat(leap.blocks).next();
      continue;
    }
    b.combine({arrived, 0, 1}, {buffer_in, me, 2}, {sum, me, 2}).repeat(leap.blocks);
    if (size % 2 == 1) b.copy({buffer_in, wrap(me - 1, size)}, {sum, wrap(me - 1, size)});  // of which nobody has sent any
    b.next();
  }
  b.copy({sum, me}, {buffer_out, me});
  return b.done();
}

}  // namespace weft::coll
