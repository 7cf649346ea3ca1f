// The hardware of a node, as far as its ranks need to know it: which CPUs belong to each instance of each resource, and which GPUs and
// network interfaces are near which.
#pragma once

#include <cstdint>
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

/// A GPU or a network interface.
struct Device {
  enum class Kind : uint8_t { gpu, nic };
  Kind kind = Kind::gpu;
  std::string name;            ///< a GPU's number as CUDA_VISIBLE_DEVICES takes it; "mlx5_0", "eth0"
  std::string bus = {};        ///< "0000:1b:00.0"; empty: unknown
  std::vector<uint32_t> path;  ///< what it hangs from: package, group, bridges, from the outside in; numbers mean nothing but themselves
  CpuSet near = {};            ///< the CPUs next to it; empty: unknown
};

/// How many of the things that two devices hang from they have in common: the more, the nearer.
size_t nearness(const Device& a, const Device& b);

/// The launcher discovers the hardware (hardware.h) and describes it in one text, which PMIx keeps in memory that all ranks of the
/// node share: a line per resource, from the largest to the smallest, "L3Cache 0-7 8-15"; then, where the job has asked for GPUs, a line
/// per device: "+gpu 0 0000:1b:00.0 1.5.9 0-55", that is kind, name, bus, path, CPUs, with "-" for what is unknown.
struct Node {
  std::vector<Resource> resources;
  std::vector<Device> devices = {};

  /// Empty for an empty text: a launcher other than ours told nothing.
  static Result<Node> parse(std::string_view text);
  /// The instance of a resource, by its name, that `bound` lies in; -1: there is none.
  int32_t instance_around(std::string_view resource, const CpuSet& bound) const;
  /// What parse() reads.
  std::string to_string() const;
};

}  // namespace weft::topo
