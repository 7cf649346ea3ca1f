#include <algorithm>

#include "coll/algorithms/algorithms.h"

namespace weft::coll {

namespace {

/// In round k everyone hears from the ranks 1 to ways - 1 times ways^k below.
Schedule dissemination(Rank me, int32_t size, int32_t ways) {
  Builder b(1);
  for (int64_t distance = 1; distance < size; distance *= ways) {
    for (int64_t far = distance; far < std::min<int64_t>(size, distance * ways); far += distance)
      b.receive(wrap(me - far, size), {}, 0).send(wrap(me + far, size), {}, 0);
    b.next();
  }
  return b.done();
}

}  // namespace

/// ceil(log2 p) rounds (Hensgen, Finkel, Manber 1988).
Schedule barrier_dissemination(const Topology&, Rank me, int32_t size, const Parameters&) { return dissemination(me, size, 2); }

/// ceil(log4 p) rounds of three messages: where a message takes much longer than it keeps a processor busy.
Schedule barrier_dissemination_4(const Topology&, Rank me, int32_t size, const Parameters&) { return dissemination(me, size, 4); }

}  // namespace weft::coll
