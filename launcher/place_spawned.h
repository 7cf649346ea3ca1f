// Where spawned ranks run. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/layout.h"
#include "launcher/place/place.h"
#include "launcher/service.h"
#include "runtime/base/status.h"

namespace weft::launcher {

/// The host of each rank of `wish`, among the hosts of the job that have a daemon (mpirun's own only where it has ranks already). The
/// emptiest hosts come first; there may be more ranks than slots, as the spawning ranks mostly wait. `job`: how the job's first ranks
/// were placed.
Result<std::vector<uint32_t>> place_spawned(const SpawnWish& wish, const placement::Request& job, const Layout& layout);

}  // namespace weft::launcher
