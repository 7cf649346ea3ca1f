// The second step of placement: which CPUs of its host each rank is bound to. Hosts are independent of each other, so that a host's
// daemon, which knows its hardware, may do this for itself.
//
// Where the user has not said (--bind-to, PE=, a --map-by with a piece of hardware):
//
//   each rank gets an equal share of the cores that the job may use, neighbours in rank next to each other
//
// and not bound are ranks that would starve or that the kernel places better: more ranks (times OMP_NUM_THREADS) than cores; a CPU limit
// of the container below the number of cores; cores of several kinds; a single rank.
//
// Ranks with GPUs of their own (gpus_each) get their cores among those next to their GPUs, also a single one.
#pragma once

#include "launcher/place/map.h"
#include "launcher/place/place.h"

namespace weft::placement {

struct Bound {
  std::vector<topo::CpuSet> cpus;  ///< of each seat; empty: not bound
  uint32_t at_one_time = 1;        ///< ranks that can run at one time
  std::string why;
  std::vector<std::vector<std::string>> gpus, nics;  ///< of each seat, where the request asks for GPUs
};

/// `seats`: those of one host, in the order in which they were dealt.
Result<Bound> bind(const Request& request, const Host& host, const std::vector<Seat>& seats);

}  // namespace weft::placement
