// Machines that placement is tested on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/place/place.h"

namespace weft::placement {

struct StoredMachine {
  const char* name;
  std::string topology;  ///< as HardwareTopology::load reads it
  uint32_t quota = UINT32_MAX;
  const char* allowed = "";
};

/// Two sockets with sub-NUMA clusters, chiplets with a cache each, Grace-like, hybrid laptop, container with 1.5 CPUs, ...
const std::vector<StoredMachine>& stored_machines();
std::shared_ptr<const Machine> machine(const StoredMachine& stored);
std::shared_ptr<const Machine> machine(const std::string& name);

}  // namespace weft::placement
