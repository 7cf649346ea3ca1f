// The first step of placement: which host, and which piece of its hardware, each rank is dealt to.
#pragma once

#include "launcher/place/place.h"

namespace weft::placement {

/// A rank that has no number yet.
struct Seat {
  uint32_t host = 0;
  uint32_t program = 0;
  uint32_t piece = 0;        ///< number of the piece on its host
  topo::CpuSet within = {};  ///< its piece's CPUs; empty: all of the host's
};

/// Seats in the order in which they were dealt, one program after another.
Result<std::vector<Seat>> deal(const Request& request);

/// Cores (or hardware threads) that a rank of this program shall have for itself.
uint32_t cores_of(const Request& request, const Program& program);

/// What a core is to this request.
inline Unit core_unit(const Request& request) { return request.threads_are_cores ? Unit::hwthread : Unit::core; }

}  // namespace weft::placement
