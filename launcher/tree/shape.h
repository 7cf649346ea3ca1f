// Which hosts Slurm has given, and who is whose parent in the tree of daemons. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace weft::launcher::tree {

/// A host and how many ranks it is meant to take.
struct HostSlots {
  std::string name;
  uint32_t slots = 1;
  bool operator==(const HostSlots&) const = default;
};

/// May this be a host's name? It goes into the command line of ssh: nothing that looks like an option or that a shell would read.
bool names_host(std::string_view name);
/// Slurm's "node[1-3,07],gpu2" and "2(x3),1" (empty: one each).
Result<std::vector<HostSlots>> parse_slurm(std::string_view nodes, std::string_view tasks);

/// The tree of daemons 0 (mpirun) to count - 1, in which everybody has at most `fan_out` children.
struct Shape {
  uint32_t count = 1, fan_out = 1;

  uint32_t parent(uint32_t node) const { return node ? (node - 1) / fan_out : 0; }
  std::vector<uint32_t> children(uint32_t node) const;
  /// Is `node` in the part of the tree that begins at `top`?
  bool below(uint32_t node, uint32_t top) const;
  /// Which neighbour of `here` is the next on the way to `there` (another node).
  uint32_t next(uint32_t here, uint32_t there) const;
};

}  // namespace weft::launcher::tree
