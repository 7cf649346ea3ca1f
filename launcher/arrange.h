// From what the user asked for and what this host is to where each rank runs.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "launcher/job.h"
#include "launcher/place/place.h"
#include "runtime/base/status.h"
#include "runtime/topo/hardware.h"

namespace weft::launcher {

struct Arrangement {
  std::optional<topo::HardwareTopology> hardware;  ///< of this host; none if it cannot be read
  std::string topology;                            ///< the same as a text for ranks
  placement::Placement placement;
  placement::Request request;  ///< what led to it
};

/// This host's hardware, with devices where GPUs are asked for.
Result<topo::HardwareTopology> load_hardware(const placement::Request& request);

/// The same as a text for ranks: of its GPUs those that ranks may use (see gpus.h).
std::string describe_host(const topo::HardwareTopology& hardware, const placement::Request& request,
                          const std::optional<std::string>& visible_gpus);

/// This host as placement sees it; none where its hardware cannot be read, or is only described and it is not for a plan.
std::shared_ptr<const placement::Machine> this_machine(const topo::HardwareTopology& hardware, const std::string& topology, bool plan_only);

/// The name under which this host is in placements.
std::string own_name();

/// Places the ranks, and sets the number of those that `options` leaves open.
Result<Arrangement> arrange(Options& options);

/// What --report-bindings and --display map show.
std::string show(const Options& options, const Arrangement& arrangement);

}  // namespace weft::launcher
