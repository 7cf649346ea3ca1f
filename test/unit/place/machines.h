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
  bool devices = false;  ///< it has GPUs and network interfaces
};

/// Devices: "DGX": two packages, each with two PCI switches of two GPUs and two InfiniBand interfaces, besides an Ethernet interface and
/// one that is down; "grace with GPUs": two processors, each with a GPU and an interface of its own; "sub-NUMA with GPUs": two packages of
/// two NUMA nodes with two GPUs each, an Ethernet interface a package. Without: two sockets with sub-NUMA clusters, chiplets with a cache
/// each, Grace-like, hybrid laptop, container with 1.5 CPUs, ...
const std::vector<StoredMachine>& stored_machines();
std::shared_ptr<const Machine> machine(const StoredMachine& stored);
std::shared_ptr<const Machine> machine(const std::string& name);

}  // namespace weft::placement
