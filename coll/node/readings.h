// Whether what ranks give each other goes through slots, or stays where it is and is read there.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "runtime/base/contest.h"

namespace weft::coll::node {

/// Can ranks read each other's memory, and what does the user want?
class Reach {
 public:
  Reach();
  /// Has it to be tried whether this rank can read all others'?
  bool to_try() const { return !never() && !tried_; }
  void can_read(bool yes) {
    tried_ = true;
    can_read_ = yes;
  }
  bool can_read() const { return can_read_; }
  /// Is everything to be read that can be?
  bool always() const { return wish_ == Wish::always; }
  bool never() const { return wish_ == Wish::no; }

 private:
  enum class Wish : uint8_t { automatic, always, no };
  const Wish wish_;
  bool tried_ = false, can_read_ = false;
};

/// This rank's memory that others can read: what has been looked at lately is not looked at again, as that takes a system call.
class OpenMemory {
 public:
  bool has(const std::byte* data, uint64_t bytes) {
    Range& known = latest_[(reinterpret_cast<uintptr_t>(data) >> 12) % latest_.size()];
    return (known.data == data && known.bytes >= bytes) || look(known, {data, bytes});
  }

 private:
  struct Range {
    const std::byte* data = nullptr;
    uint64_t bytes = 0;
  };
  static bool look(Range& known, Range);
  std::array<Range, 16> latest_;
};

/// Of calls of one kind and about one length the time that they take either way. Through slots both sides copy, at the same time. What
/// stays where it is the kernel copies once, for who gets it, and its owner waits until that has happened. Which takes less time depends on
/// the processor, and on whether the data has been written since it was read last (64 KiB between two cores of an Intel Granite Rapids: by
/// slots 3.8 us, read 2.9, or 11 if it has).
class Ways {
 public:
  /// Does the next call read?
  bool reads(bool always) { return always || reading_pays(); }
  /// Shall it be timed?
  bool is_due(bool reads, uint64_t bytes);
  void took(bool reads, uint64_t bytes, uint64_t ns) { (reads ? reading_ : slots_).took(bytes, ns); }
  static constexpr size_t kLengths = 10;
  /// Powers of two from `least` on.
  static size_t length_of(uint64_t bytes, uint64_t least) {
    return std::min(static_cast<size_t>(std::bit_width(bytes / least)) - 1, kLengths - 1);
  }

 private:
  bool reading_pays();

  static constexpr double kBest = 0.035;                   // ns a byte: no kernel is known to be much faster
  static constexpr double kAhead = 0.93, kHopeless = 1.8;  // of the time by slots, which reading may take to be taken
  static constexpr Contest::Habits kHabits{
      .trial = 12, .few = 8, .first_wait = 2, .wait = 512, .most_wait = 1 << 14, .looks = 1, .first_look = 32, .look_every = 512};
  Pace slots_, reading_;
  Contest contest_{kHabits};
};

/// Of exchanges: in each all tell each other how long the one before took them, of which that of the rank that came last counts, who waits
/// for nobody; or, where ranks share CPUs and the others' work is behind the last one when it comes, the mean. Each rank decides for what
/// it gives; as all know the same, they decide alike, and where they do not, or some cannot, the one goes this way and the other that.
class Readings {
 public:
  enum class Kernel : uint8_t { allgather, alltoall, uneven };
  static constexpr size_t kKernels = 3;
  /// Bytes from one rank to another from which on they may be read.
  static constexpr uint64_t kLeast = 8 << 10;

  /// So many ranks share a CPU.
  explicit Readings(uint32_t sharing) : sharing_(sharing) {}
  /// A call in which a rank gets so many bytes from each of so many others, or gives them, in the mean, if they are uneven. Are they to be
  /// read, as far as this rank is asked?
  bool begin(Kernel, uint64_t block, uint32_t others, const Reach&);
  /// What this rank says in it to all: how long the call before took, and whether this rank can read the others' memory.
  uint64_t note(const Reach& reach) const { return latest_.ns << 1 | (reach.can_read() ? 1 : 0); }
  /// What each of them says, this one too.
  void hear(uint64_t note) {
    least_ns_ = std::min(least_ns_, note >> 1);
    sum_ns_ += note >> 1;
    ++heard_;
    all_can_read_ = all_can_read_ && (note & 1);
  }
  /// In it so many bytes have been read from one rank, which took so long.
  void read(uint64_t bytes, uint64_t ns, const ReadSpeed& speed) {
    now_.excess_ns += to_write_again_ns({bytes, ns, 1}, speed, now_.bytes * 2 * sharing_);
  }
  /// Is it timed?
  bool timed() const { return now_.begin_ns > 0; }
  /// It is over.
  void end();

 private:
  /// A call.
  struct Run {
    Ways* ways = nullptr;
    uint64_t bytes = 0, begin_ns = 0;
    uint64_t ns = 0;         ///< it took, or cost; 0: has not been timed
    uint64_t excess_ns = 0;  ///< that others pay for it
    bool reads = false;
  };

  std::array<std::array<Ways, Ways::kLengths>, kKernels> ways_;
  Run now_, latest_;
  const uint32_t sharing_;
  uint64_t least_ns_ = ~uint64_t{0}, sum_ns_ = 0;  // that the call before took a rank, and all
  uint64_t heard_ = 0;                             // ranks, in this call
  bool all_can_read_ = true;                       // as said in this call
  bool readable_ = false;                          // as said in the one before
};

/// Of what one rank gives to all, at that rank. It says in each call which way it goes, and now and then that it is to be timed: then all
/// readers tell it later how long it took them, and whether they can read. The longest time counts.
class RootReadings {
 public:
  /// Bytes from which on they may be read.
  static constexpr uint64_t kLeast = 32 << 10;
  /// What the root says of a call.
  enum Say : uint64_t { reads = 1, timed = 2 };

  /// `lap`: bytes of all slots. Their memory is new until so much has gone through them, and takes its time, which tells nothing (64 KiB
  /// 17 us, later 4).
  explicit RootReadings(uint64_t lap) : lap_(lap) {}
  /// What to say of the next one, which has number n.
  uint64_t begin(uint64_t bytes, uint64_t n, const Reach&);
  /// It is over, at the root.
  void end();

  /// What a reader says when it is over: of which call, how long it took, and whether the reader can read.
  static constexpr uint64_t note(uint64_t n, uint64_t ns, bool can_read) {
    return number_of(n) << kShift | std::min(ns, kMostNs) << 1 | (can_read ? 1 : 0);
  }
  /// Are the readers to be heard of a call? Not too often, as that takes lines from them.
  bool asks() { return waits_ > 0 && --waits_ % next_ == 0; }
  /// Has a reader told of it? Then what it says counts once all have.
  bool tells(uint64_t note) const { return note >> kShift == number_of(asked_.n); }
  /// They have, or some have not: then they are asked again later.
  void hear(bool all, uint64_t longest_ns, bool all_can_read);
  static constexpr uint64_t ns_of(uint64_t note) { return note >> 1 & kMostNs; }
  static constexpr bool can_read(uint64_t note) { return note & 1; }

 private:
  static constexpr int kShift = 48;
  /// Of a call, as it stands in notes; 0: there has been none.
  static constexpr uint64_t number_of(uint64_t n) { return n % 0xffff + 1; }
  static constexpr uint64_t kMostNs = (uint64_t{1} << (kShift - 1)) - 1;
  static constexpr uint32_t kMostWaits = 256;  // calls, after which it is no use: another root has asked meanwhile
  /// A call that is timed.
  struct Run {
    Ways* ways = nullptr;
    uint64_t bytes = 0, n = 0, begin_ns = 0, ns = 0;
    bool reads = false;
  };

  std::array<Ways, Ways::kLengths> ways_;
  Run asked_;
  uint64_t lap_;        // bytes that are left of the first one
  uint32_t waits_ = 0;  // that are left
  uint32_t next_ = 1;   // of so many calls in one they are asked
  enum class Readable : uint8_t { unknown, no, yes } readable_ = Readable::unknown;
};

}  // namespace weft::coll::node
