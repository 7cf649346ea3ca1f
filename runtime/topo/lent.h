// Which CPUs processes lend to each other as they wait, where there are more of them than CPUs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace weft::topo {

/// The CPU that a process has lent to others, as it waited there, and when: a word that others read. It starts zeroed.
class LentCpu {
 public:
  void set(uint32_t cpu, uint64_t now_ns) { word_.store(now_ns / kUnit_ns << kCpuBits | (cpu & kCpus), std::memory_order_relaxed); }
  /// The CPU, if that was not long before `now_ns`.
  std::optional<uint32_t> lately(uint64_t now_ns) const {
    const uint64_t word = word_.load(std::memory_order_relaxed);
    if (now_ns / kUnit_ns - (word >> kCpuBits) > kLately) return std::nullopt;
    return static_cast<uint32_t>(word) & kCpus;
  }

 private:
  static constexpr uint64_t kUnit_ns = 1'000'000, kLately = 8;
  static constexpr int kCpuBits = 20;
  static constexpr uint32_t kCpus = (1u << kCpuBits) - 1;
  std::atomic<uint64_t> word_;
};

/// Where process `self` had better wait: on the CPU that fewest lend, if two more lend its own, and none of those comes after it.
/// CPUs that nobody lends may be at work. `lent`: by process.
std::optional<uint32_t> roomier_cpu(std::span<const std::optional<uint32_t>> lent, size_t self);

}  // namespace weft::topo
