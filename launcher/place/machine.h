// Pieces of a host's hardware, cut to the CPUs that may be used.
#pragma once

#include "launcher/place/place.h"

namespace weft::placement {

/// The CPUs that ranks may use: what is there, is allowed, and is in `cpu_set` (empty: all).
topo::CpuSet usable_cpus(const Machine& machine, const topo::CpuSet& cpu_set);

/// The pieces of kind `unit` that lie in `within`, cut to it, in logical order (cores: the strongest kind first). Pieces that memory alone
/// tells apart count once. Slot and node: `within` itself. Where the machine tells of no packages or NUMA nodes it is one itself; where it
/// tells of no cores each CPU is one. Empty: it has no such piece.
std::vector<topo::CpuSet> pieces(const Machine& machine, Unit unit, const topo::CpuSet& within);

/// Cuts `within` into `count` shares of neighbouring cores (`unit`: core or hwthread), none empty: a share crosses the border of a
/// package, NUMA node or cache only if it is larger than one. `count` is at most the number of cores.
std::vector<topo::CpuSet> shares(const Machine& machine, Unit unit, const topo::CpuSet& within, uint32_t count);

/// The same without regard to borders: sizes differ by one core at most.
std::vector<topo::CpuSet> even_shares(const Machine& machine, Unit unit, const topo::CpuSet& within, uint32_t count);

}  // namespace weft::placement
