// Of two ways to bring bytes from one process to another, which is faster: measured, as both depend on the processor, on where the two run,
// and on what the program does with its data.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft {

/// Nanoseconds a byte of one kind of copy: the best of a few, then a mean of the latest ones.
class Pace {
 public:
  /// Shall this copy be timed? One in some is: that costs as much as copying a KiB. Of a part of `all` bytes, if it is no small one.
  bool due(uint64_t bytes, uint64_t all) {
    return all >= kLeast && bytes >= std::min(kLeast, all / 4) && ++asked_ % (rare ? 1 : samples_ >= kMany ? kEvery : kEveryAtFirst) == 0;
  }
  bool due(uint64_t bytes) { return due(bytes, bytes); }
  void took(uint64_t bytes, uint64_t ns) {
    const double now = static_cast<double>(ns) / static_cast<double>(bytes);
    if (known())
      mean_ns_ += (std::min(now, (rare ? kMostWhileRare : kMostAtOnce) * mean_ns_) - mean_ns_) / kOf;
    else
      mean_ns_ = samples_ == 0 ? now : std::min(now, mean_ns_);
    samples_ += samples_ < kMany;
  }
  bool known() const { return samples_ >= kFew; }
  double ns_per_byte() const { return mean_ns_; }
  bool rare = false;  ///< few of these copies are made: each is timed

 private:
  static constexpr uint64_t kLeast = 16 << 10, kEveryAtFirst = 2, kEvery = 16;
  static constexpr uint32_t kFew = 6, kMany = 64;  // the first lap of a ring, whose memory is new, takes several times as long
  // One that lasted far longer was interrupted. A ring that is seldom used is not in the caches by then, and takes longer than it would:
  // MPI_Sendrecv of 1 MiB of fresh data 190 instead of 100 us (Intel Granite Rapids), as whoever had begun to read read on.
  static constexpr double kMostAtOnce = 1.5, kMostWhileRare = 1.05, kOf = 8;
  double mean_ns_ = 0;
  uint64_t asked_ = 0;
  uint32_t samples_ = 0;
};

/// Of two ways the usual one and another one, which is tried now and then, and taken while it is ahead.
class Contest {
 public:
  struct Habits {
    uint64_t trial;  ///< messages of a trial
    uint64_t few;    ///< of those, after which it may end
    /// Messages before it: at first, until the usual way has been in use for a while; then some trials' worth, four times as many each
    /// time up to `wait`, as what happens while processes start tells little; then twice as many each time.
    uint64_t first_wait, wait, most_wait;
    /// Of those that go the other way some take the usual one, whose pace may have changed: soon after it has been left, then seldomer.
    uint64_t looks, first_look, look_every;
    uint64_t least_wait = 0;  ///< messages before one that is likely to show something
  };
  /// `habits` stay where they are.
  explicit Contest(const Habits& habits) : habits_(&habits), wait_(habits.first_wait), look_after_(habits.first_look) {}

  /// Of the other way, as far as known.
  struct Standing {
    bool ahead;
    bool hopeless = false;  ///< so far behind that a trial may end
    bool doubtful = false;  ///< behind for a reason that may be over: worth another trial soon, but not many
    bool likely = false;    ///< worth a trial soon
  };
  /// Does the next message go the other way? `open`: enough is known of the usual one, and the other can be faster. `can`: this message
  /// can; else it takes the usual way, and the answer is about those to come.
  bool takes_other(bool open, Standing other, bool can = true) {
    ahead_ = open && other.ahead;
    if (!open) return false;
    if (to_try_ > 0 && tried_ >= habits_->few && other.hopeless) give_up();
    if (to_try_ > 0) {
      tried_ += can;
      to_try_ -= can;
      return true;
    }
    if (to_look_ > 0) return !to_look_--;
    if (ahead_) return stay();
    look_after_ = habits_->first_look;
    const bool doubted = other.doubtful && doubts_ < kDoubts;
    if (++asked_ <= (other.likely || doubted ? std::max(wait_ / kSooner, habits_->least_wait) : wait_)) return false;
    doubts_ += doubted;
    return begin_trial();
  }
  /// Was it when last asked about?
  bool ahead() const { return ahead_; }
  /// Shall this one, which goes the other way, be timed? All of a trial, then one in some: it may become slow from one to the next.
  bool times_other() { return tries() || ++went_ % kTimedOf == 0; }

 private:
  bool tries() const { return to_try_ > 0; }
  bool stay() {
    wait_ = 0;
    if (++asked_ < look_after_) return true;
    asked_ = 0;
    look_after_ = std::min(2 * look_after_, habits_->look_every);
    to_look_ = habits_->looks;
    return true;
  }
  void give_up() {
    to_try_ = 0;
    wait_ = std::min(4 * wait_, habits_->most_wait);
  }
  bool begin_trial() {
    to_try_ = habits_->trial;
    tried_ = 0;
    asked_ = 0;
    wait_ = wait_ < habits_->wait ? std::clamp(4 * wait_, kAgain * habits_->trial, habits_->wait) : std::min(2 * wait_, habits_->most_wait);
    return true;
  }

  const Habits* habits_;
  static constexpr uint64_t kSooner = 16, kTimedOf = 4, kAgain = 8;  // kAgain: trials
  static constexpr uint32_t kDoubts = 2;
  uint64_t went_ = 0;
  uint64_t asked_ = 0, to_try_ = 0, tried_ = 0, to_look_ = 0;
  uint64_t wait_, look_after_;
  uint32_t doubts_ = 0;  // trials that came sooner as the standing was doubtful
  bool ahead_ = false;
};

/// What the kernel takes on this machine to copy what is near: 64 KiB that it has copied just before. It takes as long for memory of
/// another process that has not been written since it was read last.
struct ReadSpeed {
  double call_ns = 340, ns_per_byte = 0.03;  // unless it is known: an Intel Granite Rapids'
};

/// Bytes that have been read of another process by so many calls of the kernel, and how long that took.
struct ReadTime {
  uint64_t bytes = 0, ns = 0, calls = 0;
};
/// What takes longer to read than it would unchanged, beside what else goes on, has been written since it was read last. To write it again,
/// in lines that its reader holds by then, takes its owner longer, too, by so much, up to 10 ns a line. (Intel Granite Rapids: 64 KiB both
/// ways of fresh data are read in 7 us, a call takes 21; by rings 8. 256 KiB that both copy: 6.6 us, of fresh data 11, and 12 for the
/// owner.)
///
/// `all`: bytes that are on their way together; the longest do not stay in caches anyway. `part`: somebody else copies the rest of them, so
/// that more is near.
constexpr uint64_t to_write_again_ns(const ReadTime& read, const ReadSpeed& speed, uint64_t all, bool part = false) {
  constexpr double kMost = 0.15, kTimes = 3;                  // ns a byte, times what shows
  constexpr double kBytesBeside = 1.65, kCallsBeside = 1.75;  // times what they take alone
  constexpr double kBetween = 0.1;  // ns a byte of what fills the L2 caches (0.08 to 0.1 on one Granite Rapids from day to day)
  const double cached = kBytesBeside * speed.ns_per_byte;
  const double near = all < 512 << 10 ? cached : all < 2 << 20 ? std::max(kBetween, cached) : 1;
  const auto bytes = static_cast<double>(read.bytes), calls = static_cast<double>(read.calls);
  const double unchanged = calls * kCallsBeside * speed.call_ns + bytes * near * (part ? 0.85 : 1);
  const double longer = static_cast<double>(read.ns) - unchanged;
  return static_cast<uint64_t>(std::clamp(kTimes * longer, 0.0, kMost * bytes));
}

}  // namespace weft
