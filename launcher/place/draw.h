// Placements as text, for --report-bindings, --display map and --dry-run.
#pragma once

#include "launcher/place/place.h"

namespace weft::placement {

/// CPUs of a machine: `[BB/BB|../..][~~/..]`, packages in brackets, `|` between NUMA nodes, `/` between cores, a sign for each hardware
/// thread: B bound, . not, ~ not to be used. Empty for machines of more than 256 CPUs.
std::string picture(const Machine& machine, const topo::CpuSet& cpus);

/// A line a rank: where it is bound.
std::string report_bindings(const Placement& placement);

/// The whole map: hosts, their hardware, their ranks. `programs`: names.
std::string draw(const Placement& placement, const std::vector<std::string>& programs);

}  // namespace weft::placement
