// What collectives cost: the schedules of all ranks, walked with a clock a rank. Pure functions; nothing is measured or remembered here.
//
// The rules, all of them:
//  - A rank's round begins when its own round before is complete. The rank sends the round's messages in order, `send` ns of its processor
//    each; then does the local steps, at `reduce` and `copy` ns a byte; then takes in the messages that it receives, as they arrive,
//    `receive` ns each. The round is complete when all that has happened and the last message sent has left.
//  - A message leaves when the rank's message before has left, and at a network's link when those are through that came there before; the
//    first byte arrives `latency` ns later, the last one n * per_byte after it, at the slowest of all that it goes through. Messages to
//    one rank arrive one after the other.
//  - A host's link is one way out and one way in for all its ranks, a switch's uplink for all its hosts.
//  - Messages between two ranks match in order. Those that wait for their receiver do so without a price (no rendezvous, no copy of what
//    came early).
// What it does not know: the kernels in shared memory (coll/node), caches and memory buses that fill up, other jobs, unlucky routes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coll/machine.h"
#include "coll/select.h"
#include "coll/shape.h"
#include "runtime/base/status.h"

namespace weft::coll {

/// A time in ns, and what it was spent on: along the chain of events that led to it, nothing counted twice.
struct Clock {
  double at = 0;        ///< the sum of the next four
  double latency = 0;   ///< latencies and overheads of messages
  double transfer = 0;  ///< bytes on their way
  double waiting = 0;   ///< for links and receivers that other messages keep busy
  double work = 0;      ///< reductions and copies
  double hops = 0;      ///< not a time: how many messages follow one another on that chain
};

/// What the ranks send, counted.
struct Traffic {
  double messages = 0, bytes = 0;
  double between_hosts = 0, bytes_between_hosts = 0;        ///< messages and bytes that leave a host
  double between_switches = 0, bytes_between_switches = 0;  ///< that leave the switch of their host
  double busiest_host_link = 0, busiest_uplink = 0;         ///< bytes, in one direction, of the link with most of them
};

struct Price {
  Clock time;  ///< until the last rank is done
  Traffic traffic;
  bool shortened = false;  ///< long loops were walked in part, and what is left of them in proportion
};

/// How much is walked one by one: loops (and repeated messages) are shortened where a schedule has more messages than that.
constexpr int64_t kMostMessages = int64_t{1} << 20;

/// Prices one algorithm. `a.size` ranks as `shape` has them; not for collectives among neighbours, whose graph is the program's.
/// Fails if the schedules do not come to an end, or have too many messages to walk and no loops to shorten.
Result<Price> price(const Algorithm&, const Agreed& a, int32_t segments, const Shape&, const Machine&, int64_t most = kMostMessages);

/// The same for schedules at hand, one a rank, in blocks of `block_bytes`.
Result<Price> price(const std::vector<Schedule>&, double block_bytes, const Shape&, const Machine&, int64_t most = kMostMessages);

struct Candidate {
  const Algorithm* algorithm = nullptr;
  int32_t segments = 1;
  Price price;
  std::string unpriced;  ///< why it has no price; empty: it has one
};

/// All algorithms that can do it, the cheapest first, those without a price last; segmented ones with several numbers of segments, among
/// them what `choose` would take.
std::vector<Candidate> candidates(const Agreed&, const Shape&, const Machine&, int64_t most = kMostMessages);

/// The same for ranks that are there, by this machine's numbers. None where it is not known where they are, blocks differ in size, there
/// are too many ranks for pricing all at their first call, or all are on one host, where the kernels in shared memory and the caches
/// decide, of which the model knows nothing.
std::vector<Candidate> candidates(const Agreed&, const Topology&);

/// The first of these, of a machine whose numbers have been measured and told to all ranks. No algorithm: they have not, or there is none.
Choice cheapest(const Agreed&, const Topology&);

}  // namespace weft::coll
