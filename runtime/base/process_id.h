// The name of a process: which job, which rank in it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace weft {

/// A process anywhere in the universe of connected jobs. `job` 0 is the process's own job; other jobs get local numbers as
/// they become known (dynamic processes).
struct ProcessId {
  uint32_t job = 0;
  uint32_t rank = 0;
  auto operator<=>(const ProcessId&) const = default;
  uint64_t packed() const { return uint64_t{job} << 32 | rank; }
};

}  // namespace weft

template <>
struct std::hash<weft::ProcessId> {
  size_t operator()(const weft::ProcessId& id) const noexcept { return std::hash<uint64_t>{}(id.packed()); }
};
