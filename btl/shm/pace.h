// What it takes to bring bytes from one process of a node to another, as measured lately.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::btl::shm {

/// Nanoseconds a byte of one kind of copy: the best of a few, then a mean of the latest ones.
class Pace {
 public:
  /// Shall this copy be timed? One in some is: that costs as much as copying a KiB.
  bool due(uint64_t bytes) { return bytes >= kLeast && ++asked_ % (rare ? 1 : known() ? kEvery : kEveryAtFirst) == 0; }
  void took(uint64_t bytes, uint64_t ns) {
    const double now = static_cast<double>(ns) / static_cast<double>(bytes);
    if (known())
      mean_ns_ += (std::min(now, kMostAtOnce * mean_ns_) - mean_ns_) / kOf;  // one that lasted far longer was interrupted
    else
      mean_ns_ = samples_++ == 0 ? now : std::min(now, mean_ns_);
  }
  bool known() const { return samples_ >= kFew; }
  double ns_per_byte() const { return mean_ns_; }
  bool rare = false;  ///< few of these copies are made: each is timed

 private:
  static constexpr uint64_t kLeast = 16 << 10, kEveryAtFirst = 2, kEvery = 16;
  static constexpr uint32_t kFew = 6;
  static constexpr double kMostAtOnce = 3, kOf = 8;
  double mean_ns_ = 0;
  uint64_t asked_ = 0;
  uint32_t samples_ = 0;
};

/// Two processes that send to each other at the same time both copy all the time. Through a ring each byte takes its sender's time and its
/// receiver's, written by the kernel only the sender's: what costs less together is faster then. Near each other that is the ring (on a
/// virtual Zen 4: 0.026 ns a byte on each side, 0.08 by the kernel). Between packages, where each of its lines comes from afar twice, it is
/// not (0.07 and 0.05, and still 0.08; reading what has just been written over there takes 0.15). Where only one sends, the two sides of a
/// ring work at once, and it is ahead in any case.
class Paces {
 public:
  Pace in, out;  ///< into a ring, and out of one
  Pace put;

  /// Does writing into the receiver's memory take less of both sides' time? Each side knows its own pace, which stands for the other's.
  bool put_spares() {
    const double ring = in.ns_per_byte() + out.ns_per_byte();
    const bool known = in.known() && out.known() && ring >= kBestOfPut;
    const bool ahead = known && put.known() && put.ns_per_byte() < kAhead * ring;
    in.rare = out.rare = ahead;
    if (!known) return false;
    if (to_try_ > 0) return to_try_--;
    if (to_look_ > 0) return !to_look_--;
    if (ahead) {
      wait_ = 0;
      if (++asked_ % kLookEvery == 0) to_look_ = kLooks;
      return true;
    }
    return ++asked_ > wait_ && begin_trial();
  }

 private:
  static constexpr double kBestOfPut = 0.07;  // no kernel is known to be much faster
  static constexpr double kAhead = 0.85;
  static constexpr uint64_t kLookEvery = 128, kLooks = 8;  // after so many some go through the ring, whose pace may have changed
  static constexpr uint64_t kTrial = 12;                   // in a row
  static constexpr uint64_t kFirstWait = 64, kWait = 512, kMostWait = 1 << 14;

  bool begin_trial() {
    to_try_ = kTrial;
    asked_ = 0;
    wait_ = std::clamp(2 * wait_, kWait, kMostWait);
    return true;
  }

  uint64_t asked_ = 0, to_try_ = 0, to_look_ = 0;
  uint64_t wait_ = kFirstWait;  // messages before the next trial: at first, until rings have been in use for a while
};

}  // namespace weft::btl::shm
