// The hardware of this node as the launcher sees it, through hwloc. Ranks never load hwloc: they get `summary()` through PMIx.
// Compiled into the launcher only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/status.h"

namespace weft::topo {

/// What the ranks of a node want to know of it: counts only.
struct Node {
  uint32_t packages = 1, numa_nodes = 1, l3_caches = 1, cores = 1, pus = 1;
  uint64_t memory_bytes = 0;
  uint64_t l2_bytes = 0, l3_bytes = 0;  ///< of one cache

  /// "packages=1 numa=1 l3=1 cores=2 pus=2 memory=4294967296 l2=1048576 l3=33554432"
  std::string summary() const;
};

/// A topology loaded by hwloc without I/O devices and without plugins (about 1.5 ms).
class HardwareTopology {
 public:
  /// `synthetic`: a description as hwloc's, for tests; empty: this machine.
  static Result<HardwareTopology> load(const std::string& synthetic = "");
  Node node() const;
  /// The hwloc_topology_t, for PMIx.
  void* handle() const { return topology_.get(); }

 private:
  struct Destroy {
    void operator()(void* topology) const;
  };
  std::unique_ptr<void, Destroy> topology_;
};

}  // namespace weft::topo
