// Ranks that sleep until another one tells something in the memory that they share, and how they are woken.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pml/lane.h"

namespace weft::coll::node {

/// Who tells something sees in a line that it only reads whether anybody sleeps: no fence, and nothing to be written. Only then it looks
/// who does, and for what, and wakes those whose sleep is over.
///
/// The protocol. Who tells: write the word; look at `asleep`. Who sleeps: say for what, count itself in, fence_all(), look at the word once
/// more. One of them sees what the other one did.
class Waking final {
 public:
  /// `memory`: bytes() of it within `segment`, zero at first, aligned to cache lines. Words are in that segment, of `length` bytes.
  Waking(pml::Team&, std::byte* memory, std::byte* segment, uint64_t length);
  static size_t bytes(uint32_t ranks) { return sizeof(Hall) + ranks * sizeof(Bed); }

  /// Writes a word: what has been written before is there.
  void tell(std::atomic<uint64_t>& word, uint64_t number) {
    word.store(number, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // else the compiler might look first
    if (hall_.asleep.load(std::memory_order_relaxed) > 0) [[unlikely]]
      wake();
  }

  /// What a rank is to be woken for: that a word is so much at least; without a word, that anything has been told.
  struct Cause {
    const std::atomic<uint64_t>* word;
    uint64_t at_least;
  };
  /// This rank is about to sleep for that, and looks for it once more before it does. False: nobody wakes it.
  bool lies_down(Cause, bool briefly);
  /// Has it been called since?
  bool is_woken() const;
  /// It has slept, or does not.
  void gets_up();

 private:
  struct Hall {
    alignas(64) std::atomic<uint32_t> asleep;  ///< ranks
    std::atomic<uint32_t> reached;             ///< ranks whose processes fence_all() reaches, and which can be roused
    std::atomic<uint32_t> deaf;                ///< somebody could not be woken
  };
  /// What a rank sleeps for: the place of a word, and what it is to be at least.
  struct Bed {
    alignas(64) std::atomic<uint64_t> place;
    std::atomic<uint64_t> at_least;
  };
  /// Ranks of a CPU, up to which who has not waited long is woken, too: more would be woken for each of many, and interrupt who has more to
  /// tell (32 ranks on 2 CPUs, broadcast of 1 MiB 1.1 and 1.4 ms, all-to-all 3.9 and 5.4).
  static constexpr size_t kMostBriefly = 8;
  static constexpr uint64_t kUp = ~uint64_t{0}, kAnything = kUp - 1, kCalled = kUp - 2;  // places
  static constexpr uint64_t kMostCalled_ns = 1'000'000'000;                              // whoever calls for longer has ended

  bool is_over(const Bed&, uint64_t place) const;
  void wake();

  pml::Team& team_;
  pml::Lane& lane_;
  const std::byte* const segment_;
  const uint64_t length_;
  Hall& hall_;
  Bed* const beds_;
  const size_t cpus_;
  bool lies_ = false;
};

}  // namespace weft::coll::node
