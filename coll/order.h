// In which order reductions combine the operands of ranks: what decides the last bits of sums of floating-point numbers.
#pragma once

#include <bit>
#include <cstdint>

namespace weft::coll {

/// A binary tree over the ranks in their order: adjacent ones are combined first.
enum class Order : uint8_t {
  own,       ///< an algorithm's own, which nothing else follows
  chain,     ///< from the last rank to the first: the fastest one for a rank that has all operands at hand
  binomial,  ///< groups of 2, 4, 8 ... ranks, of which the last ones may not be full
  folded,    ///< as many of the first ranks in pairs as are more than a power of two; of these and the others groups of 2, 4, 8 ...
};

/// Where the tree parts the ranks [first, last) of `size`, more than one and together in it: the part that begins there comes from the
/// right.
inline int32_t parting(Order order, int32_t size, int32_t first, int32_t last) {
  const auto power_of = [](int32_t n) { return static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(n))); };
  if (order == Order::binomial) return first + power_of(last - first - 1);
  if (order != Order::folded) return first + 1;
  const int32_t pairs = size - power_of(size);
  const auto number = [pairs](int32_t rank) { return rank <= 2 * pairs ? rank / 2 : rank - pairs; };
  const int32_t from = number(first), to = number(last), middle = (from + to) / 2;
  if (to - from == 1) return first + 1;
  return middle <= pairs ? 2 * middle : middle + pairs;
}

}  // namespace weft::coll
