// Whether what ranks exchange goes through slots, or stays where it is and is read there.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "runtime/base/contest.h"

namespace weft::coll::node {

/// Through slots both sides copy, all at the same time. What stays where it is the kernel copies once, for who gets it, and its owner waits
/// until that has happened. Which takes less time depends on the processor, and on whether the data has been written since it was read
/// last (64 KiB between two cores of an Intel Granite Rapids: by slots 3.8 us, read 2.9, or 11 if it has).
///
/// For each kernel and length the time of both is known: in each call all tell each other how long the one before took them, of which
/// that of the rank that came last counts; where reading was slow, as data had been written since, that counts twice (unchanged_ns()). Each rank decides for what it gives; as all know the same, they decide alike, and where they do
/// not, or some cannot, the one goes this way and the other that.
class Readings {
 public:
  enum class Kernel : uint8_t { allgather, alltoall, between_two };
  static constexpr size_t kKernels = 3;
  /// Bytes from one rank to another from which on they may be read.
  static constexpr uint64_t kLeast = 8 << 10;

  Readings();
  /// A call in which a rank gets so many bytes from each of so many others, or gives them if not all know how many it gets. Are they to be
  /// read, as far as this rank is asked?
  bool begin(Kernel, uint64_t block, uint32_t others);
  /// What this rank says in it to all: how long the call before took, and whether this rank can read the others' memory.
  uint64_t note() const { return latest_.ns << 1 | (can_read_ ? 1 : 0); }
  /// What each of them says, this one too.
  void hear(uint64_t note) {
    least_ns_ = std::min(least_ns_, note >> 1);
    all_can_read_ = all_can_read_ && (note & 1);
  }
  /// In it so many bytes have been read from one rank, which took so long.
  void read(uint64_t bytes, uint64_t ns) { now_.excess_ns += std::max(0.0, static_cast<double>(ns) - unchanged_ns(now_.bytes) * static_cast<double>(bytes)); }
  /// Is it timed?
  bool timed() const { return now_.begin_ns > 0; }
  /// It is over.
  void end();

  /// Has it to be tried whether this rank can read the others' memory?
  bool to_try() const { return wish_ != Wish::no && !tried_; }
  void can_read(bool yes) {
    tried_ = true;
    can_read_ = yes;
  }

 private:
  struct Way {
    Pace slots, reading;
    Contest contest{kHabits};
    uint64_t read = 0;  ///< calls
  };
  /// A call.
  struct Run {
    Way* way = nullptr;
    uint64_t bytes = 0, begin_ns = 0;
    uint64_t ns = 0;       ///< it took, or cost; 0: has not been timed
    double excess_ns = 0;  ///< that reading took, as data had been written since it was read last
    bool reads = false;
  };
  static constexpr size_t kLengths = 10;  // powers of two from kLeast on
  // ns a byte: no kernel is known to be much faster.
  static constexpr double kBest = 0.035;
  // What reading may take of the time by slots, to be taken.
  static constexpr uint64_t kTimedOf = 4;  // calls that read: that may become slow from one to the next
  static constexpr double kAhead = 0.93, kHopeless = 1.8;
  static constexpr Contest::Habits kHabits{
      .trial = 12, .first_wait = 2, .wait = 512, .most_wait = 1 << 14, .looks = 1, .first_look = 32, .look_every = 512};

  static size_t length_of(uint64_t bytes) { return std::min(static_cast<size_t>(std::bit_width(bytes / kLeast)) - 1, kLengths - 1); }
  bool is_due(Way& way) const;
  static bool reading_pays(Way&);

  enum class Wish : uint8_t { automatic, always, no };
  const Wish wish_;
  std::array<std::array<Way, kLengths>, kKernels> ways_;
  Run now_, latest_;
  uint64_t least_ns_ = ~uint64_t{0};  // that the call before took a rank
  bool all_can_read_ = true;          // as said in this call
  bool readable_ = false;             // as said in the one before
  bool tried_ = false, can_read_ = false;
};

}  // namespace weft::coll::node
