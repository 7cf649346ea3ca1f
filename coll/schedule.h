// Schedules: what one rank does in a collective, as data. Built by pure functions, run by plan.h, checked symbolically by the
// unit tests, and free of counts, addresses and types, so that one schedule serves every call with the same plan key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::coll {

using Rank = int32_t;
class Hosts;
struct Neighborhood;

/// Where a schedule finds its data. Buffers are cut into the same `blocks` (see Schedule); a buffer id is one of these or
/// `first_region + i`, the i-th scratch region.
enum : uint8_t { buffer_in = 0, buffer_out = 1, first_region = 2 };

/// A block of a buffer; `stride` is added per repetition (modulo the number of blocks).
struct Place {
  uint8_t buffer = buffer_in;
  int32_t block = 0;
  int32_t stride = 0;
};

enum class StepKind : uint8_t {
  send,     ///< a to peer
  receive,  ///< from peer into a
  copy,     ///< b = a
  reduce,   ///< b = a OP b (a is the left operand, of the lower ranks)
  combine,  ///< c = a OP b; c is neither a nor b
};

/// One step on `blocks` adjacent blocks (0: an empty message). With `repeat` > 1 the step stands for that many steps, the k-th
/// one with k strides added to its places and its peer; otherwise k is the iteration of the enclosing loop.
struct Step {
  StepKind kind = StepKind::send;
  int32_t blocks = 1;
  int32_t repeat = 1;
  Rank peer = -1;
  int32_t peer_stride = 0;
  Place a{}, b{}, c{};
};

/// Steps that may all run at the same time: messages in any order (but matched in the order listed between two ranks), local
/// steps in the order listed among themselves. A round begins when the one before it is complete, messages included.
struct Round {
  uint32_t first = 0, steps = 0;
};

/// Adjacent rounds run `times` times over.
struct Loop {
  uint32_t first = 0, rounds = 0;
  int32_t times = 1;
};

/// Scratch memory in terms of blocks: block b of the collective lies at its place among the `blocks` blocks from `first` on
/// (wrapping around). `single`: room for the largest block, whichever it is.
struct Region {
  int32_t first = 0;
  int32_t blocks = 1;
  bool single = false;
};

/// A schedule has no more scratch regions than that: who runs it keeps a place for each.
constexpr size_t kMostRegions = 12;

/// What one rank does. All ranks build theirs from the same Shape (but for `me` and `in_place`).
struct Schedule {
  int32_t blocks = 1;  ///< into how many the data is cut
  std::vector<Step> steps;
  std::vector<Round> rounds;
  std::vector<Loop> loops;
  std::vector<Region> regions;
};

/// Where the ranks of a team are, and whom this one exchanges with in neighbourhood collectives.
struct Topology {
  const Hosts* hosts = nullptr;                ///< null: not known, or they have no two levels
  const Neighborhood* neighborhood = nullptr;  ///< null: the team has none
};

/// What an algorithm may depend on besides topology, rank and size. All but in_place are equal on all ranks; in_place may only
/// change local steps.
struct Parameters {
  Rank root = 0;
  bool commutative = true;  ///< of the operation
  bool in_place = false;    ///< buffer_in is (part of) buffer_out
  int32_t segments = 1;     ///< for pipelined algorithms
};

/// A collective algorithm: a pure function that yields the own rank's steps.
using Build = Schedule (*)(const Topology&, Rank me, int32_t size, const Parameters&);

/// Writes schedules down. Messages of no rank (peer < 0) are left out, so that ends of chains need no special case.
class Builder {
 public:
  explicit Builder(int32_t blocks) { out_.blocks = blocks; }

  /// A new scratch region; returns its buffer id.
  uint8_t region(int32_t first, int32_t blocks);
  uint8_t single_region();
  uint8_t full_region() { return region(0, out_.blocks); }

  /// Ends the current round, if it has steps.
  Builder& next();
  Builder& send(Rank peer, Place from, int32_t blocks = 1);
  Builder& receive(Rank peer, Place into, int32_t blocks = 1);
  Builder& copy(Place from, Place to, int32_t blocks = 1);
  Builder& reduce(Place left, Place into, int32_t blocks = 1);
  Builder& combine(Place left, Place right, Place into, int32_t blocks = 1);
  /// As send and receive, of blocks that may wrap around the end of the data: both sides split at the same block.
  Builder& send_around(Rank peer, uint8_t buffer, int32_t block, int32_t blocks);
  Builder& receive_around(Rank peer, uint8_t buffer, int32_t block, int32_t blocks);
  /// Makes the latest step stand for `times` of them (none: takes it away), its peer moving by `peer_stride`.
  Builder& repeat(int32_t times, int32_t peer_stride = 0);
  /// Lets the peer of the latest step move by `peer_stride` per iteration of the loop around it.
  Builder& turn(int32_t peer_stride);

  /// Rounds written between begin_loop() and end_loop(times) run `times` times.
  Builder& begin_loop();
  Builder& end_loop(int32_t times);

  /// A step of another schedule, as it stands.
  Builder& add(Step);

  Schedule done();

 private:
  Schedule out_;
  uint32_t round_start_ = 0;
  uint32_t loop_start_ = 0;
  bool in_loop_ = false;
};

/// Helpers of algorithms.
constexpr int32_t wrap(int64_t value, int32_t size) {
  if (value >= 0 && value < size) [[likely]]  // divisions are slow
    return static_cast<int32_t>(value);
  return static_cast<int32_t>(((value % size) + size) % size);
}
/// The largest power of two <= n (n >= 1).
constexpr int32_t power_below(int32_t n) {
  int32_t p = 1;
  while (p <= n / 2) p *= 2;
  return p;
}
constexpr bool is_power_of_two(int32_t n) { return (n & (n - 1)) == 0; }

}  // namespace weft::coll
