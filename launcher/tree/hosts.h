// From where ranks are placed to the daemons that bring them there; what a batch system says of hosts.
#pragma once

#include <string>
#include <vector>

#include "launcher/job.h"
#include "launcher/layout.h"
#include "launcher/place/place.h"
#include "launcher/tree/starter.h"
#include "runtime/base/status.h"

namespace weft::launcher::tree {

struct Allocation {
  Layout layout;
  How how = How::ssh;
  uint32_t fan_out = 1;
  std::string program;  ///< path of mpirun, here and on all hosts
};

/// Numbers the hosts that have ranks, this one first. `own`: its name.
Result<Allocation> allocate(const Options& options, const placement::Placement& placement, const std::string& own);

/// The hosts of the Slurm job that we are in; none if in none.
Result<std::vector<placement::Host>> slurm_hosts();

}  // namespace weft::launcher::tree
