// The hardware of this node through hwloc. Compiled into the launcher only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/topo/cpu_set.h"

namespace weft::topo {

/// A topology loaded by hwloc without I/O devices and without plugins (about 1.5 ms).
class HardwareTopology {
 public:
  /// `stored`: for tests, a machine in hwloc's XML or in its synthetic form; empty: this machine.
  static Result<HardwareTopology> load(const std::string& stored = "");
  /// What Node::parse reads.
  std::string describe() const;
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
