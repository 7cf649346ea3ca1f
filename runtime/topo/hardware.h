// The hardware of this node through hwloc. Compiled into the launcher only.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/status.h"

namespace weft::topo {

/// A topology loaded by hwloc without I/O devices and without plugins (about 1.5 ms).
class HardwareTopology {
 public:
  /// `synthetic`: a description as hwloc's, for tests; empty: this machine.
  static Result<HardwareTopology> load(const std::string& synthetic = "");
  /// What Node::parse reads.
  std::string describe() const;
  /// The hwloc_topology_t, for PMIx.
  void* handle() const { return topology_.get(); }

 private:
  struct Destroy {
    void operator()(void* topology) const;
  };
  std::unique_ptr<void, Destroy> topology_;
};

}  // namespace weft::topo
