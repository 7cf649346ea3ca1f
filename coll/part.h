// A schedule of some ranks as part of one of more ranks.
#pragma once

#include <span>
#include <vector>

#include "coll/schedule.h"

namespace weft::coll {

/// Where a part of a schedule finds what it calls in and out.
struct Buffers {
  uint8_t in = buffer_in, out = buffer_out;
};

/// Where its blocks are among those of the whole: each stands for `scale`, the first of them is `base`. Places that move on in loops
/// wrap around at the end of the whole: such a part has to be as long as that.
struct Cut {
  int32_t scale = 1, base = 0;
};

/// Takes the schedule that an algorithm makes for a party of ranks over into a larger one. The algorithm knows them by their seats, their
/// places in `party`. Peers that move on in loops have to be adjacent in both, and must not wrap around.
void append(Builder&, const Schedule& part, std::span<const Rank> party, Buffers, Cut);

/// The whole of such a schedule for those who sit at these places.
Schedule seated(const Schedule&, std::span<const Rank> party);

}  // namespace weft::coll
