// The hardware of this node through hwloc. Compiled into the launcher only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/topo/cpu_set.h"
#include "runtime/topo/node.h"

namespace weft::topo {

/// Whether GPUs and network interfaces are looked for: costs some milliseconds.
enum class Devices : bool { left_out, included };

/// A topology loaded by hwloc without plugins (about 1.5 ms, without devices).
class HardwareTopology {
 public:
  /// `stored`: for tests, a machine in hwloc's XML or in its synthetic form; empty: this machine.
  static Result<HardwareTopology> load(const std::string& stored = "", Devices devices = Devices::left_out);
  /// What Node::parse reads.
  std::string describe() const;
  /// NVIDIA's GPUs in the order of their buses, named by their place in it, and the network interfaces that are up: those of InfiniBand's
  /// kind (verbs devices) where there are any. Empty if loaded without.
  std::vector<Device> devices() const;
  /// The CPUs of each kind of core, the strongest first; empty if all are alike.
  std::vector<CpuSet> kinds() const;
  /// False for a machine that is only described: stored, or by hwloc's variables HWLOC_SYNTHETIC and HWLOC_XMLFILE.
  bool is_this_machine() const;
  /// The hwloc_topology_t, for PMIx.
  void* handle() const { return topology_.get(); }

 private:
  struct Destroy {
    void operator()(void* topology) const;
  };
  std::unique_ptr<void, Destroy> topology_;
};

}  // namespace weft::topo
