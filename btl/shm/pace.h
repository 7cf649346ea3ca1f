// What it takes to bring bytes from one process of a node to another, as measured lately.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "btl/btl.h"
#include "runtime/base/contest.h"
#include "runtime/base/copy.h"

namespace weft::btl::shm {

/// Messages that are alike in length: up to 128 KiB, up to four times that, and so on.
struct Length {
  static constexpr size_t kCount = 4;
  static constexpr uint64_t kShortest = 128 << 10;
  static constexpr uint64_t kLongest = kShortest << 2 * (kCount - 2);
  static constexpr size_t of(uint64_t bytes) {
    size_t length = 0;
    for (uint64_t end = kShortest; bytes >= end && length + 1 < kCount; end *= 4) ++length;
    return length;
  }
};

/// What one side's copies take through a ring: of messages of similar length, as the longer ones are not in caches. Long ones come in
/// pieces, which count for those last spoken of.
class RingPace {
 public:
  static constexpr uint64_t kPiece = 64 << 10;  ///< bytes

  bool due(uint64_t bytes, uint64_t all) { return pace_for(bytes).due(bytes, all); }
  bool due(uint64_t bytes) { return due(bytes, bytes); }
  void took(uint64_t bytes, uint64_t ns) { pace_for(bytes).took(bytes, ns); }
  void expect(size_t length) { expected_ = length; }
  size_t expected() const { return expected_; }
  bool expects_longest() const { return expected_ + 1 == Length::kCount; }
  /// Few of the messages expected go through the ring.
  void set_rare(bool rare) { paces_[expected_].rare = rare; }
  /// Of the messages expected, or, until that is known, of shorter ones.
  bool known() const { return latest().known(); }
  /// Of those expected?
  bool settled() const { return paces_[expected_].known(); }
  double ns_per_byte() const { return latest().ns_per_byte(); }

 private:
  Pace& pace_for(uint64_t bytes) { return paces_[bytes < kPiece ? 0 : expected_]; }
  const Pace& latest() const {
    size_t length = expected_;
    while (length > 0 && !paces_[length].known()) --length;
    return paces_[length];
  }
  std::array<Pace, Length::kCount> paces_;
  size_t expected_ = 0;
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
  /// `kernel_ahead`: it mostly is. On contended CPUs reading is thought to be ahead until rings are known to be; it is tried early.
  explicit Paces(bool kernel_ahead = kernel_copies_fast) : kernel_ahead_(kernel_ahead) {
    for (auto& similar : readings_) {
      if (!kernel_ahead)
        for (Reading& way : similar) way.contest = Contest(kReadingLater);
      similar[static_cast<size_t>(Flow::stream)].contest = Contest(kStreaming);
    }
  }

  RingPace in, out;  ///< into a ring, and out of one
  Pace put;
  /// Of a message that has been read, or the beginning of one: this side has read some of it, the sender may have written the rest.
  struct Read {
    uint64_t message;    ///< bytes of all of it
    uint64_t bytes, ns;  ///< that were read or written, and how long that took
    ReadTime own;        ///< of which this side has read
  };
  /// It went as those do that get_spares() was last asked about: what of it is near depends on that. What is streamed is rarely written
  /// meanwhile, and where CPUs are contended little of what is long stays in caches.
  void has_read(const Read& r, const ReadSpeed& speed) {
    const size_t length = Length::of(r.message);
    const Flow flow = latest_[length];
    const bool elsewhere = flow == Flow::stream || (is_contended(flow) && r.message >= (256 << 10));
    const uint64_t later = elsewhere ? 0 : to_write_again_ns(r.own, speed, r.message, r.own.bytes < r.bytes);
    Reading& way = readings_[length][course_of(flow)];
    way.pace.took(r.bytes, r.ns + later);
    way.itself.took(r.bytes, r.ns);
  }
  /// Is reading such a message to be timed? That costs as much as reading a KiB.
  bool times_reading(uint64_t bytes) {
    const size_t length = Length::of(bytes);
    Reading& way = readings_[length][course_of(latest_[length])];
    return !way.pace.known() || way.contest.times_other();
  }
  /// Shall the sender of such a message take part in reading it? Not if it has as much to read itself, or to send, by which it would come
  /// too late for a short one.
  /// Nor, where ranks share CPUs, in short ones of a stream: its CPU is lent too often (4 ranks on 2, 64 KiB: 15.2 instead of 16.8 GB/s).
  bool shares(uint64_t bytes, bool cpus_are_shared) const {
    const Flow flow = latest_[Length::of(bytes)];
    return bytes >= kSharedFrom[static_cast<size_t>(flow)] * (cpus_are_shared && flow == Flow::stream ? 2 : 1);
  }

  /// Does reading a message of so many bytes out of its sender's memory take less time? `offered`: this one can be read; else the answer
  /// is about those to come. It is not tried where it cannot be ahead, as the `kernel` takes longer for what is unchanged and near.
  bool get_spares(uint64_t bytes, Flow flow, bool offered, const ReadSpeed& kernel = {}) {
    const size_t length = Length::of(bytes);
    in.expect(length);
    out.expect(length);
    auto& similar = readings_[length];
    latest_[length] = flow;
    Reading& way = similar[course_of(flow)];
    const double ring = through_ring(bytes, flow);
    const double asking = bytes > kUnasked ? 0 : (flow == Flow::stream ? kAskingAhead_ns : kAsking_ns) / static_cast<double>(bytes);
    const double least = of_ring(bytes, flow) * ring - asking;
    const bool promises = is_contended(flow) && kernel_ahead_, guessed = promises && !(in.settled() && out.settled());
    const bool put_instead = flow >= Flow::both_ways && faster(put, kFarAhead * way.pace.ns_per_byte());
    const bool ahead = way.pace.known() && (way.pace.ns_per_byte() < least || guessed) && !put_instead;
    const Contest::Standing reading{
        .ahead = ahead,
        .hopeless = way.pace.known() && !faster(is_contended(flow) ? way.itself : way.pace, kHopeless * least),
        .doubtful = faster(way.itself, kAheadItself * least),
        .likely = ahead || flow == Flow::both_while_read || promises || std::ranges::any_of(similar, &Reading::ahead)};
    return settle(way.contest, out.known() && ring >= kBestOfGet + asking && least >= best_of_reading(bytes, flow, kernel), reading,
                  offered);
  }

  /// While both send: does writing into the receiver's memory take less of both sides' time?
  bool put_spares() {
    const double ring = in_and_out();
    return settle(put_contest_, in.known() && out.known() && ring >= kBestOfPut, {.ahead = faster(put, kAhead * ring)});
  }

 private:
  struct Reading {
    Pace pace;    ///< with what others pay for it later, as far as that shows
    Pace itself;  ///< without
    Contest contest{kReading};
    bool ahead() const { return contest.ahead(); }
  };
  // ns a byte: no kernel is known to be much faster.
  static constexpr double kBestOfGet = 0.035, kBestOfPut = 0.07;
  // What another way may take of the ring's time, to be taken. What was read is no longer in its sender's cache alone, who pays for it when
  // writing again; has_read() adds what shows of that, and 0.9 was still no better than 0.75 to read. On contended CPUs both sides are
  // spared turns, which measurements of copies of one side do not show: kLevel, where the kernel copies fast. Where it does not, reading
  // that seemed as fast took half as long again (Zen 3, 4 ranks on 2 CPUs, MPI_Alltoallv of 1 MiB: 310 us, by rings 200).
  static constexpr double kAhead = 0.85, kFarAhead = 0.6, kAheadToRead = 0.75, kAheadUnasked = 0.95, kLevel = 1.1;
  static constexpr double kHopeless = 2;
  static constexpr double kBothCopy = 0.6;  // of the time of one, as they have to find each other
  // Reading that falls behind only by what others pay for it is tried again soon: what the other direction's ring takes from the caches
  // looks the same, as long as that goes by a ring (MPI_Isend of 64 KiB to and fro: 6 instead of 3.5 us in up to half of all short runs; 16
  // KiB both ways of 4 ranks on 2 CPUs, where that does not even make it hopeless: 18 instead of 30 GB/s).
  static constexpr double kAheadItself = 0.8;
  static constexpr double kMostOfOut = 1.1;       // what the other side takes of what this one does
  static constexpr double kWaiting = 1.3;         // as its two sides wait for each other (1 MiB on a Zen 5 and on an Emerald Rapids)
  static constexpr double kSlowed = 1.3;          // as both sides of a stream are at work (Intel Granite Rapids: 64 KiB 18 GB/s, out at 23)
  static constexpr uint64_t kUnasked = 64 << 10;  // up to this a message is sent unasked
  // What announcing one costs, and saying that it has been read: alone; and in a stream, where others are announced and read meanwhile.
  static constexpr double kAsking_ns = 500, kAskingAhead_ns = 150;

  /// Alone, in a stream, contended, both ways.
  static size_t course_of(Flow flow) {
    if (is_contended(flow)) return static_cast<size_t>(Flow::contended);
    return std::min(static_cast<size_t>(flow), kCourses - 1);
  }
  /// What a byte takes each of two that send and receive as much: one at a time, so that they wait for each other, as in halos (64 KiB to
  /// and from two neighbours at once on an Intel Granite Rapids: 0.16 ns a byte; in and out are 0.08). In windows they do not.
  double in_and_out() const { return kWaiting * (in.ns_per_byte() + out.ns_per_byte()); }
  /// What a byte takes. Who only receives does not know the other side's pace, which is mostly ahead of its own; nor does it learn its own
  /// pace into the ring anew, which may have been another one by then.
  double through_ring(uint64_t bytes, Flow flow) const {
    if (flow >= Flow::both_ways || is_contended(flow)) return in_and_out();
    const double second = out.ns_per_byte(), first = in.known() ? std::min(in.ns_per_byte(), kMostOfOut * second) : second / 2;
    const double slower = std::max(first, second), faster = std::min(first, second);
    if (flow == Flow::stream) return kSlowed * slower;
    if (bytes <= kUnasked) return slower + faster / 2;  // as it grows
    return kWaiting * (slower + faster * std::min(1.0, static_cast<double>(RingPace::kPiece) / static_cast<double>(bytes)));
  }
  /// How much of a ring's time reading may take. Of a stream all of it, as the other side is spared a copy. More of it while the other side
  /// reads, too, who would have to do without at the same time; but not for ever: both would go on reading because the other one does
  /// (MPI_Sendrecv of 1 MiB on a Zen 3: 140 us, by rings 97).
  double of_ring(uint64_t bytes, Flow flow) const {
    if (flow == Flow::stream) return 1;
    if (is_contended(flow)) return kernel_ahead_ ? kLevel : kAheadToRead;
    if (flow == Flow::both_while_read) return bytes > kUnasked ? kAhead : kLevel;
    return bytes > kUnasked ? kAheadToRead : kAheadUnasked;
  }
  /// What a byte takes to read at best: what is unchanged and near.
  static double best_of_reading(uint64_t bytes, Flow flow, const ReadSpeed& kernel) {
    return (bytes >= kSharedFrom[static_cast<size_t>(flow)] ? kBothCopy : 1) * kernel.ns_per_byte;
  }
  static bool faster(const Pace& other, double than) { return other.known() && other.ns_per_byte() < than; }
  bool settle(Contest& contest, bool open, Contest::Standing other, bool can = true) {
    const bool takes = contest.takes_other(open, other, can);
    const bool rare = contest.ahead() || put_contest_.ahead() || std::ranges::any_of(readings_[in.expected()], &Reading::ahead);
    in.set_rare(rare);
    out.set_rare(rare);
    return takes;
  }

  static constexpr Contest::Habits kReading{
      .trial = 16, .few = 8, .first_wait = 8, .wait = 1024, .most_wait = 1 << 14, .looks = 1, .first_look = 8, .look_every = 512};
  // Where the kernel is rarely ahead: what rings take at first, whose memory is new, and is on its way to both, tells too little.
  static constexpr Contest::Habits kReadingLater = [] {
    Contest::Habits later = kReading;
    later.first_wait = 32;
    later.least_wait = 16;
    return later;
  }();
  // As many messages as a window has, each of which may lie in memory of its own that has not been read before.
  static constexpr Contest::Habits kStreaming{
      .trial = 48, .few = 24, .first_wait = 8, .wait = 1024, .most_wait = 1 << 14, .looks = 1, .first_look = 8, .look_every = 512};
  static constexpr Contest::Habits kWriting{
      .trial = 12, .few = 8, .first_wait = 64, .wait = 512, .most_wait = 1 << 14, .looks = 8, .first_look = 128, .look_every = 128};
  // One by one, as who sends data that its receiver has not read before may do so both ways, and stream what is known to it.
  static constexpr size_t kCourses = 4, kFlows = static_cast<size_t>(Flow::both_while_read) + 1;
  // From so many bytes on both sides copy what one of them reads, by flow.
  static constexpr std::array<uint64_t, kFlows> kSharedFrom{64 << 10, 64 << 10, 1 << 20, ~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}};
  const bool kernel_ahead_;
  std::array<std::array<Reading, kCourses>, Length::kCount> readings_;
  std::array<Flow, Length::kCount> latest_ = {};
  Contest put_contest_{kWriting};
};

}  // namespace weft::btl::shm
