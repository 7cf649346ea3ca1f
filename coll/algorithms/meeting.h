// Who meets whom where a power of two of ranks reduce together in log2 steps, and who of the two keeps which half of what they share.
#pragma once

#include <bit>
#include <cstdint>

#include "coll/schedule.h"

namespace weft::coll {

/// At doubling distances: what is combined are always adjacent groups of ranks.
struct Doubling {
  int32_t size;
  Rank partner(Rank self, int step) const { return self ^ (1 << step); }
  bool keeps_upper(Rank self, int step) const { return self >> step & 1; }
};

/// At distances 1, -1, 3, -5, 11, ... of even ranks, and as far the other way of odd ones (Swing, De Sensi et al. 2024): on a ring of ranks
/// about a third of the way round at most, and less in all than by doubling. What is combined are no adjacent groups.
struct Swinging {
  int32_t size;
  /// The sum of the first powers of -2.
  static constexpr int64_t distance(int step) { return (1 - (step % 2 ? int64_t{2} << step : -(int64_t{2} << step))) / 3; }
  Rank partner(Rank self, int step) const { return wrap(self + (self % 2 ? -distance(step) : distance(step)), size); }
  /// A rank goes by the even one of itself and its last partner. Of that number a step changes bit step + 1 and none below it, as its
  /// distance and the last one differ by an odd multiple of 2 << step: the bit tells the two apart, and those who meet later agree in it.
  bool keeps_upper(Rank self, int step) const {
    const int last = std::countr_zero(static_cast<uint32_t>(size)) - 1;
    if (step == last) return self % 2;
    return (self % 2 ? partner(self, last) : self) >> (step + 1) & 1;
  }
};

}  // namespace weft::coll
