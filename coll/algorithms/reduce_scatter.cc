#include "coll/algorithms/algorithms.h"

namespace weft::coll {

/// p-1 rounds: each rank sends every other one its block and takes in its own from below, nearest rank first, and then from
/// above, farthest first; so the order of ranks is kept with two accumulators.
Schedule reduce_scatter_pairwise(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(size);
  // The result may lie where the input does: it is written last then.
  const bool direct = !p.in_place;
  if (size == 1) return direct ? b.copy({buffer_in, me}, {buffer_out, me}).done() : b.done();
  const uint8_t low = direct ? uint8_t{buffer_out} : b.single_region();
  const uint8_t arrived = b.single_region();
  const Rank left = wrap(me - 1, size), right = wrap(me + 1, size);
  const int32_t below = p.commutative ? size - 1 : me, above = size - 1 - below;
  b.copy({buffer_in, me}, {low, me});
  b.begin_loop();
  b.receive(left, {arrived, me}).turn(-1).send(right, {buffer_in, right, 1}).turn(1).next();
  b.reduce({arrived, me}, {low, me}).next();
  b.end_loop(below);
  if (above > 0) {
    const uint8_t high = b.single_region();
    const Rank from = size - 1, to = wrap(me + below + 1, size);
    b.receive(from, {high, me}).send(to, {buffer_in, to}).next();
    b.begin_loop();
    b.receive(from - 1, {arrived, me}).turn(-1).send(wrap(to + 1, size), {buffer_in, wrap(to + 1, size), 1}).turn(1).next();
    b.reduce({arrived, me}, {high, me}).next();
    b.end_loop(above - 1);
    b.reduce({low, me}, {high, me}).copy({high, me}, {buffer_out, me}).next();
  } else if (!direct) {
    b.copy({low, me}, {buffer_out, me});
  }
  return b.done();
}

/// log2 p rounds: ranges halve as distances do, each rank ending with its own block. For other sizes than powers of two, pairs
/// of ranks become one first, and part at the end.
Schedule reduce_scatter_recursive_halving(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(size);
  if (size == 1) return p.in_place ? b.done() : b.copy({buffer_in, me}, {buffer_out, me}).done();
  const int32_t power = power_below(size), rest = size - power;
  const bool paired = me < 2 * rest;
  if (paired && me % 2 == 0) {
    b.send(me + 1, {buffer_in, 0}, size).next();
    return b.receive(me + 1, {buffer_out, me}).done();
  }
  const int32_t self = paired ? me / 2 : me - rest;
  auto rank = [&](int32_t number) { return number < rest ? 2 * number + 1 : number + rest; };
  auto border = [&](int32_t number) { return number <= rest ? 2 * number : number + rest; };
  const uint8_t arrived = b.full_region(), sum = b.full_region();
  uint8_t now = buffer_in;
  if (paired) {
    b.receive(me - 1, {arrived, 0}, size).next();
    b.combine({arrived, 0}, {buffer_in, 0}, {sum, 0}, size).next();
    now = sum;
  }
  int32_t first = 0, last = power;
  for (int32_t mask = power / 2; mask > 0; mask /= 2) {
    const int32_t middle = first + mask;
    const bool upper = self & mask;
    const int32_t keep = border(upper ? middle : first), keep_end = border(upper ? last : middle);
    const int32_t give = border(upper ? first : middle), give_end = border(upper ? middle : last);
    const Rank partner = rank(self ^ mask);
    b.receive(partner, {arrived, keep}, keep_end - keep).send(partner, {now, give}, give_end - give).next();
    if (now == sum) {
      b.reduce({arrived, keep}, {sum, keep}, keep_end - keep);
    } else {
      b.combine({arrived, keep}, {buffer_in, keep}, {sum, keep}, keep_end - keep);
    }
    b.next();
    now = sum;
    (upper ? first : last) = middle;
  }
  if (paired) b.send(me - 1, {now, me - 1});
  b.copy({now, me}, {buffer_out, me});
  return b.done();
}

}  // namespace weft::coll
