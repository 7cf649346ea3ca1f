// Which CPUs processes lend to each other as they wait, where there are more of them than CPUs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace weft::topo {

/// Where those are that a process exchanges messages with, beside the CPU that it lends to others.
struct Ties {
  bool leaves = false;  ///< whoever has sent the latest message lends it, too, and counts on this process to leave
  bool here = false;    ///< somebody lends it, too
  bool apart = false;   ///< somebody lends another CPU
  bool away = false;    ///< several have exchanged messages with it lately, and all of them lend other CPUs

  /// Who works with somebody elsewhere, too, would not be nearer to all by leaving.
  bool had_better_leave() const { return leaves && !apart; }
};

/// A CPU that a process lends, and where those are that it exchanges messages with: nowhere, several on other CPUs only, on another CPU
/// too, or on this one alone.
struct Lent {
  enum class Bond : uint8_t { none, away, apart, here };
  uint32_t cpu;
  Bond bond = Bond::none;
  Lent(uint32_t on, Bond b = Bond::none) : cpu(on), bond(b) {}
  Lent(uint32_t on, const Ties& t) : Lent(on, t.away ? Bond::away : t.apart ? Bond::apart : t.here ? Bond::here : Bond::none) {}
  bool operator==(const Lent&) const = default;
};

/// The CPU that a process has lent to others, as it waited there, and when: a word that others read. It starts zeroed.
class LentCpu {
 public:
  void set(Lent lent, uint64_t now_ns) {
    const uint64_t word = now_ns / kUnit_ns << kLentBits | static_cast<uint64_t>(lent.bond) << kCpuBits | (lent.cpu & kCpus);
    if (word_.load(std::memory_order_relaxed) != word) word_.store(word, std::memory_order_relaxed);
  }
  void clear() { word_.store(0, std::memory_order_relaxed); }
  /// The CPU, if that was not long before `now_ns`, or after it: whoever asks may have looked at the clock before it left its CPU.
  std::optional<Lent> lately(uint64_t now_ns) const {
    const uint64_t word = word_.load(std::memory_order_relaxed);
    if (now_ns / kUnit_ns > (word >> kLentBits) + kLately) return std::nullopt;
    return Lent(static_cast<uint32_t>(word) & kCpus, static_cast<Lent::Bond>(word >> kCpuBits & 3));
  }

 private:
  static constexpr uint64_t kUnit_ns = 1'000'000, kLately = 8;
  static constexpr int kCpuBits = 20, kLentBits = kCpuBits + 2;
  static constexpr uint32_t kCpus = (1u << kCpuBits) - 1;
  std::atomic<uint64_t> word_;
};

/// Where a process had better wait: on a CPU, or nobody can tell.
struct Place {
  std::optional<uint32_t> cpu;
  bool others_first = false;  ///< somebody else is to go there: if nobody does, as each takes another one for that, this process is
};

/// Where process `self`, which lends a CPU, had better wait. `lent`: by process; `cpus`: those that it may run on. If two more lend its own
/// than another one, one of them is to go there: of those without bonds, else of those that have some elsewhere, the one that
/// is next to a process there, as neighbours mostly exchange messages, and of two the last. Otherwise the last of those that are away
/// from all that they exchange messages with goes to a CPU where others are who are away, too, as one of these is to come here then; who
/// `leaves` whom it waits for is to go to a CPU that nobody with bonds lends. CPUs that nobody lends may be at work.
Place better_cpu(std::span<const std::optional<Lent>> lent, size_t self, bool leaves, std::span<const uint32_t> cpus);

}  // namespace weft::topo
