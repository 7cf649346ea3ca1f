// The hardware of a node, as far as its ranks need to know it: which CPUs belong to each instance of each resource.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/topo/cpu_set.h"

namespace weft::topo {

/// One kind of resource, by hwloc's name: "Package", "NUMANode", "L3Cache", "L2Cache", "Core", "PU".
struct Resource {
  std::string name;
  std::vector<CpuSet> instances;

  /// The instance that `bound` lies in; none if `bound` is empty or spans several.
  std::optional<uint32_t> instance_around(const CpuSet& bound) const;
};

/// The launcher discovers the hardware (hardware.h) and describes it in one text, which PMIx keeps in memory that all ranks of the
/// node share: a line per resource, from the largest to the smallest, "L3Cache 0-7 8-15".
struct Node {
  std::vector<Resource> resources;

  /// Empty for an empty text: a launcher other than ours told nothing.
  static Result<Node> parse(std::string_view text);
};

}  // namespace weft::topo
