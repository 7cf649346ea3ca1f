// How long to look before leaving the CPU to others, where ranks share CPUs.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace weft::pml {

/// Who is waited for may be at work on another CPU, and is done in a moment: then looking again pays, and leaving costs two switches. Or it
/// waits for this CPU: then each look is lost. So a wait looks as often as has helped lately; now and then, and sooner at first, one looks
/// as often as can pay, to learn whether it would help.
class Patience {
 public:
  /// Looks: at least so many, at most so many; one part of `parts` fewer after each wait in which they were in vain.
  constexpr Patience(int least, int most, int parts = 4) : least_(least), most_(most), parts_(parts), now_(least) {}

  /// Looks that should be made before leaving, from now on.
  int looks() {
    ++waits_;
    return waits_ % std::clamp(std::bit_floor(waits_), kFirstTry, kTryEvery) == 0 ? most_ : now_;
  }
  /// Has looking helped lately?
  bool pays() const { return now_ > most_ / 4; }
  /// What was waited for came after so many looks.
  void helped(int used) { now_ = std::clamp(2 * used, now_, most_); }
  /// All looks were in vain.
  void failed() { now_ = std::max(least_, now_ - (now_ + parts_ - 1) / parts_); }

 private:
  static constexpr unsigned kFirstTry = 4, kTryEvery = 64;  // waits
  int least_, most_, parts_;
  int now_;
  unsigned waits_ = 0;
};

/// When a wait looks what those do that it waits for, where that can be seen: whether they have left their CPU to others or are at work.
/// That takes as long as a look or two, and delays what comes meanwhile: so sooner if they had left it the last time.
class Glances {
 public:
  static constexpr int kEvery = 8;  ///< looks
  bool due(int idle) const { return idle % kEvery == (rested_ ? 1 : kEvery / 2); }
  void saw(bool rests) { rested_ = rests; }

 private:
  bool rested_ = false;
};

/// Does somebody else want this CPU? Yields return at once if nobody does; others take two switches, several times as long (virtual Intel
/// Granite Rapids: 0.2 and 1.3 us). One alone may have met an interrupt.
class Rivalry {
 public:
  void yielded(uint64_t ns) {
    least_ = std::min(least_, ns);
    switches_ = ns > kSwitch * least_ ? switches_ + 1 : 0;
  }
  bool seen() const { return switches_ > 1; }
  /// Where nobody is known to share the CPU yields may just be slow: have there been more `switches()` than when this was asked last?
  bool proven(uint64_t switches) { return std::exchange(known_, switches) != switches; }

 private:
  static constexpr uint64_t kSwitch = 3;
  uint64_t least_ = 400;   ///< ns of a yield; until one has been quick, as who always shares its CPU sees switches only
  uint32_t switches_ = 0;  ///< one after another, up to the latest yield
  uint64_t known_ = 0;     ///< of all
};

}  // namespace weft::pml
