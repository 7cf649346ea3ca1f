// The values of --map-by, --rank-by, --bind-to and their like, in the spellings of both families.
#pragma once

#include "launcher/place/place.h"

namespace weft::placement {

/// UNIT or ppr:N:UNIT, then modifiers: `:PE=n`, `:oversubscribe`, `:nooversubscribe`, `:overload-allowed`, `:hwtcpus`, `:pe-list=0,2`.
/// The unit may be missing (`:oversubscribe`).
Result<void> read_map_by(const std::string& text, Request& request);

/// slot, node, fill, span or a UNIT.
Result<void> read_rank_by(const std::string& text, Request& request);

/// none or UNIT, then `:overload-allowed` or (as Hydra has it) a number of cores.
Result<void> read_bind_to(const std::string& text, Request& request);

/// CPUs by the operating system's numbers, "0-3,8".
Result<void> read_cpu_set(const std::string& text, Request& request);

/// The threads that OMP_NUM_THREADS=text gives a rank: its first number; 1 if there is none.
uint32_t threads_of(const std::string& text);

}  // namespace weft::placement
