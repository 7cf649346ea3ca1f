// What it takes to bring bytes from one process of a node to another, as measured lately.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "btl/btl.h"

namespace weft::btl::shm {

/// Nanoseconds a byte of one kind of copy: the best of a few, then a mean of the latest ones.
class Pace {
 public:
  /// Shall this copy be timed? One in some is: that costs as much as copying a KiB.
  bool due(uint64_t bytes) { return bytes >= kLeast && ++asked_ % (rare ? 1 : samples_ >= kMany ? kEvery : kEveryAtFirst) == 0; }
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
    /// Messages before it: at first, until the usual way has been in use for a while; then twice as long each time.
    uint64_t first_wait, wait, most_wait;
    /// Of those that go the other way some take the usual one, whose pace may have changed: soon after it has been left, then seldomer.
    uint64_t looks, first_look, look_every;
  };
  /// `habits` stay where they are.
  explicit Contest(const Habits& habits) : habits_(habits), wait_(habits.first_wait), look_after_(habits.first_look) {}

  /// Of the other way, as far as known.
  struct Standing {
    bool ahead;
    bool hopeless = false;  ///< so far behind that a trial may end
    bool likely = false;    ///< worth a trial soon
  };
  /// Does the next message go the other way? `open`: enough is known of the usual one, and the other can be faster. `can`: this message
  /// can; else it takes the usual way, and the answer is about those to come.
  bool takes_other(bool open, Standing other, bool can = true) {
    ahead_ = open && other.ahead;
    if (!open) return false;
    if (to_try_ > 0 && tried_ >= kFewTried && other.hopeless) give_up();
    if (to_try_ > 0) {
      tried_ += can;
      to_try_ -= can;
      return true;
    }
    if (to_look_ > 0) return !to_look_--;
    if (ahead_) return stay();
    look_after_ = habits_.first_look;
    return ++asked_ > (other.likely ? wait_ / kSooner : wait_) && begin_trial();
  }
  /// Was it when last asked about?
  bool ahead() const { return ahead_; }

 private:
  bool stay() {
    wait_ = 0;
    if (++asked_ < look_after_) return true;
    asked_ = 0;
    look_after_ = std::min(2 * look_after_, habits_.look_every);
    to_look_ = habits_.looks;
    return true;
  }
  void give_up() {
    to_try_ = 0;
    wait_ = std::min(4 * wait_, habits_.most_wait);
  }
  bool begin_trial() {
    to_try_ = habits_.trial;
    tried_ = 0;
    asked_ = 0;
    wait_ = std::clamp(2 * wait_, habits_.wait, habits_.most_wait);
    return true;
  }

  const Habits& habits_;
  static constexpr uint64_t kFewTried = 8, kSooner = 16;
  uint64_t asked_ = 0, to_try_ = 0, tried_ = 0, to_look_ = 0;
  uint64_t wait_, look_after_;
  bool ahead_ = false;
};

/// Long messages between two processes go through a ring, both of them copying at once; or the kernel copies them once, for the receiver
/// (get) or for the sender (put).
///
/// One way, a ring takes the time of the slower side, and for the first or last piece that of the other one, too. Reading is ahead where
/// lines take long from one processor to another, and the sender has not written the data since it was read last, so that much of it is
/// still near the receiver (Intel Emerald Rapids: 0.06 ns a byte, the ring 0.1; for fresh data get takes 0.2).
///
/// While both send, both copy all the time: through a ring each byte takes its sender's time and its receiver's, written by the kernel only
/// the sender's. Near each other the ring is ahead (on a virtual Zen 4: 0.026 ns a byte on each side, 0.08 by the kernel). Between
/// packages, where each of its lines comes from afar twice, it is not (0.07 and 0.05, and still 0.08; reading what has just been written
/// over there takes 0.15). Each side knows its own pace, which stands for the other's.
class Paces {
 public:
  Pace in, out;  ///< into a ring, and out of one
  Pace put;
  /// Of reading a message of so many bytes that goes as those did that get_spares() was last asked about: what of it is near depends on
  /// that.
  Pace& get(uint64_t bytes) {
    const size_t length = length_of(bytes);
    return readings_[length][latest_[length]].pace;
  }

  /// Does reading a message of so many bytes out of its sender's memory take less time? `offered`: this one can be read; else the answer
  /// is about those to come.
  bool get_spares(uint64_t bytes, Flow flow, bool offered) {
    const size_t length = length_of(bytes);
    auto& similar = readings_[length];
    Reading& way = similar[latest_[length] = course_of(flow)];
    const double ring = through_ring(bytes, flow);
    const double asking = bytes <= kUnasked ? kAsking_ns / static_cast<double>(bytes) : 0;
    const double least = (bytes > kUnasked ? kAheadToRead : flow == Flow::stream ? kLevel : kAheadUnasked) * ring - asking;
    const bool put_instead = flow >= Flow::both_ways && faster(put, kFarAhead * way.pace.ns_per_byte());
    const Contest::Standing reading{.ahead = way.pace.known() && price(way.pace.ns_per_byte(), length, flow) < least && !put_instead,
                                    .hopeless = way.pace.known() && !faster(way.pace, kHopeless * least),
                                    .likely = flow == Flow::both_while_read || std::ranges::any_of(similar, &Reading::ahead)};
    return settle(way.contest, out.known() && ring >= kBestOfGet + asking, reading, offered);
  }

  /// While both send: does writing into the receiver's memory take less of both sides' time?
  bool put_spares() {
    const double ring = in_and_out();
    return settle(put_contest_, in.known() && out.known() && ring >= kBestOfPut, {.ahead = faster(put, kAhead * ring)});
  }

 private:
  struct Reading {
    Pace pace;
    Contest contest{kReading};
    bool ahead() const { return contest.ahead(); }
  };
  // ns a byte: no kernel is known to be much faster.
  static constexpr double kBestOfGet = 0.035, kBestOfPut = 0.07;
  // What another way may take of the ring's time, to be taken. What was read is no longer in its sender's cache alone, who pays for it when
  // writing again; price() adds what shows of that, and 0.9 was still no better than 0.75 to read. Of a stream the other side is spared a
  // copy, which measurements of one side do not show.
  static constexpr double kAhead = 0.85, kFarAhead = 0.6, kAheadToRead = 0.75, kAheadUnasked = 0.95, kLevel = 1.1;
  static constexpr double kHopeless = 2;
  static constexpr double kPiece = 64 << 10;        // bytes of what goes through a ring
  static constexpr double kWaiting = 1.3;           // as its two sides wait for each other (1 MiB on a Zen 5 and on an Emerald Rapids)
  static constexpr uint64_t kUnasked = 64 << 10;    // up to this a message is sent unasked
  static constexpr double kAsking_ns = 500;         // what announcing one costs, and saying that it has been read
  static constexpr uint64_t kShortest = 128 << 10;  // shorter messages are alike, those up to four times that, and so on

  static size_t length_of(uint64_t bytes) {
    size_t length = 0;
    for (uint64_t end = kShortest; bytes >= end && length + 1 < kLengths; end *= 4) ++length;
    return length;
  }
  static uint8_t course_of(Flow flow) { return std::min<uint8_t>(static_cast<uint8_t>(flow), kCourses - 1); }
  /// Of reading, and of what it does to the sender. What takes long has been written since it was read last; writing it again, in lines
  /// that others hold, then takes at least as long (64 KiB both ways of fresh data on an Intel Granite Rapids: read in 7 us, a call in 21;
  /// by rings 8). What is streamed is rarely written meanwhile.
  static double price(double ns_per_byte, size_t length, Flow flow) {
    return flow == Flow::stream ? ns_per_byte : ns_per_byte + std::max(0.0, ns_per_byte - kUnchanged[length]);
  }
  double in_and_out() const { return in.ns_per_byte() + out.ns_per_byte(); }
  /// What a byte takes. Who only receives does not know the other side's pace, which is mostly ahead of its own.
  double through_ring(uint64_t bytes, Flow flow) const {
    if (flow == Flow::both_ways) return in_and_out();
    if (flow == Flow::both_while_read) return in_and_out() + in.ns_per_byte();  // who reads all and sends all is what both wait for
    const double first = in.known() ? in.ns_per_byte() : out.ns_per_byte() / 2, second = out.ns_per_byte();
    const double slower = std::max(first, second), faster = std::min(first, second);
    if (flow == Flow::stream) return slower;
    if (bytes <= kUnasked) return slower + faster / 2;  // as it grows
    return kWaiting * (slower + faster * std::min(1.0, kPiece / static_cast<double>(bytes)));
  }
  static bool faster(const Pace& other, double than) { return other.known() && other.ns_per_byte() < than; }
  bool settle(Contest& contest, bool open, Contest::Standing other, bool can = true) {
    const bool takes = contest.takes_other(open, other, can);
    in.rare = out.rare = put_contest_.ahead() ||
                         std::ranges::any_of(readings_, [](const auto& similar) { return std::ranges::any_of(similar, &Reading::ahead); });
    return takes;
  }

  static constexpr Contest::Habits kReading{
      .trial = 16, .first_wait = 8, .wait = 1024, .most_wait = 1 << 14, .looks = 1, .first_look = 32, .look_every = 512};
  static constexpr Contest::Habits kWriting{
      .trial = 12, .first_wait = 64, .wait = 512, .most_wait = 1 << 14, .looks = 8, .first_look = 128, .look_every = 128};
  // One by one, as who sends data that its receiver has not read before may do so both ways, and stream what is known to it.
  static constexpr size_t kLengths = 4, kCourses = 3;  // alone, in a stream, both ways
  // Reading what has not been written since takes no longer, ns a byte; the longest do not stay in caches anyway.
  static constexpr std::array<double, kLengths> kUnchanged = {0.05, 0.05, 0.08, 1};
  std::array<std::array<Reading, kCourses>, kLengths> readings_;
  std::array<uint8_t, kLengths> latest_ = {};  // course
  Contest put_contest_{kWriting};
};

}  // namespace weft::btl::shm
