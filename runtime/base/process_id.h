// The name of a process: which job, which rank in it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace weft {

/// A process anywhere in the universe of connected jobs. `job` 0 is the process's own job; other jobs get local numbers as
/// they become known (dynamic processes).
struct ProcessId {
  uint32_t job = 0;
  uint32_t rank = 0;
  auto operator<=>(const ProcessId&) const = default;
  uint64_t packed() const { return uint64_t{job} << 32 | rank; }
};

// Seats: what transports take for processes. Each lane of a process (pml/lanes.h) is one, with addresses and connections of its own. The
// seat's number stands above the bits of the rank, so that the first lane's seat looks like the process. A process that has closed MPI and
// opens it again sits on other seats than before (pml/openings.h): those from kMostLanes on.

constexpr uint32_t kMostLanes = 16;
constexpr uint32_t kRankBits = 27;

constexpr ProcessId seat_of(ProcessId process, uint32_t number) { return {process.job, process.rank | number << kRankBits}; }
constexpr uint32_t rank_of(uint32_t seat) { return seat & ((1u << kRankBits) - 1); }
constexpr uint32_t number_of(uint32_t seat) { return seat >> kRankBits; }
/// The number of the first seat of the same opening.
constexpr uint32_t opening_of(uint32_t seat) { return number_of(seat) / kMostLanes * kMostLanes; }
constexpr ProcessId process_of(ProcessId seat) { return {seat.job, rank_of(seat.rank)}; }
/// Is it a seat of another process than that of the seat `own`, in a job of `size` processes?
constexpr bool is_other(uint32_t seat, uint32_t own, uint32_t size) { return rank_of(seat) < size && rank_of(seat) != rank_of(own); }
/// For people, who know ranks and no seats.
inline std::string text_of(ProcessId seat) { return "rank " + std::to_string(rank_of(seat.rank)); }

}  // namespace weft

template <>
struct std::hash<weft::ProcessId> {
  size_t operator()(const weft::ProcessId& id) const noexcept { return std::hash<uint64_t>{}(id.packed()); }
};
