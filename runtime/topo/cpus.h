// How many CPUs this process may really use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace weft::topo {

/// CPUs usable by this process: its affinity mask, cut to the CPU limits (cpu.max, or cfs quota) of its control groups,
/// rounded up. At least 1. `root` is where /proc and /sys are looked for (tests give a folder).
uint32_t usable_cpus(const std::string& root = "");

/// The limit of the control groups alone: CPUs, rounded up; UINT32_MAX if there is none.
uint32_t cgroup_cpus(const std::string& root = "");

/// Are there so many ranks on so many CPUs that one which waits for another often waits for its turn, too?
constexpr bool crowded(size_t ranks, size_t cpus) { return ranks > 2 * cpus; }
/// Are there so few of them that each has a large part of one?
constexpr bool few(size_t ranks, size_t cpus) { return ranks <= 4 * cpus; }

/// Moves the calling thread to one of its CPUs, chosen by `place` in turn, to and fro, so that of two neighbours in a row or ring of places
/// one is on the same CPU where that is the last one, and the first two are apart, and leaves it free to be moved on: threads that start
/// together are distributed as it happens, and may long stay so, two that work together on one CPU. Without effect where it may run on one
/// only.
void start_at(size_t place);
/// The same, to a CPU that it may run on.
void move_to(uint32_t cpu);

}  // namespace weft::topo
