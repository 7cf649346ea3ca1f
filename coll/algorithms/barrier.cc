#include "coll/algorithms/algorithms.h"

namespace weft::coll {

/// ceil(log2 p) rounds; in round k everyone hears from the rank 2^k below (Hensgen, Finkel, Manber 1988).
Schedule barrier_dissemination(const Topology&, Rank me, int32_t size, const Parameters&) {
  Builder b(1);
  for (int64_t distance = 1; distance < size; distance *= 2) {
    b.receive(wrap(me - distance, size), {}, 0).send(wrap(me + distance, size), {}, 0).next();
  }
  return b.done();
}

}  // namespace weft::coll
