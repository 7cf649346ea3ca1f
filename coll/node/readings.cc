#include "coll/node/readings.h"

#include "btl/copy/cma.h"
#include "runtime/base/clock.h"
#include "runtime/config/config.h"

namespace weft::coll::node {

namespace {

config::Choice read_setting(
    "coll", "read", "auto", "auto, always, no",
    "How long blocks go in allgathers, all-to-alls and broadcasts of a node: are they read out of their owner's memory: "
    "auto (while that takes less time than through shared memory), always, or no.");

}  // namespace

Reach::Reach()
    : wish_(!btl::copy::allowed() || read_setting.get() == "no" ? Wish::no
            : read_setting.get() == "always"                    ? Wish::always
                                                                : Wish::automatic) {}

bool OpenMemory::look(Range& known, Range asked) {
  if (!btl::copy::is_readable(asked.data, asked.bytes)) return false;
  known = asked;
  return true;
}

bool Ways::reading_pays() {
  const double slots = slots_.ns_per_byte(), reading = reading_.ns_per_byte();
  const Contest::Standing other{.ahead = reading_.known() && reading < kAhead * slots,
                                .hopeless = reading_.known() && reading > kHopeless * slots};
  const bool reads = contest_.takes_other(slots_.known() && slots > kBest, other);
  slots_.rare = contest_.ahead();
  return reads;
}

bool Ways::is_due(bool reads, uint64_t bytes) {
  if (!reads) return !slots_.known() || slots_.due(bytes);
  return contest_.times_other();
}

bool Readings::begin(Kernel kernel, uint64_t block, uint32_t others, const Reach& reach) {
  now_ = {};
  if (block < kLeast || !readable_) return false;
  now_.ways = &ways_[static_cast<size_t>(kernel)][Ways::length_of(block, kLeast)];
  now_.bytes = block * others;
  now_.reads = now_.ways->reads(reach.always());
  if (now_.ways->is_due(now_.reads, now_.bytes)) now_.begin_ns = now_ns();
  return now_.reads;
}

void Readings::end() {
  if (latest_.ways && least_ns_ > 0) latest_.ways->took(latest_.reads, latest_.bytes, sharing_ == 1 ? least_ns_ : sum_ns_ / heard_);
  if (now_.begin_ns > 0) now_.ns = now_ns() - now_.begin_ns + now_.excess_ns;
  latest_ = now_;
  least_ns_ = ~uint64_t{0};
  sum_ns_ = heard_ = 0;
  readable_ = all_can_read_;
  all_can_read_ = true;
}

uint64_t RootReadings::begin(uint64_t bytes, uint64_t n, const Reach& reach) {
  if (readable_ == Readable::no || reach.never()) return 0;
  if (lap_ > 0 && !reach.always()) {
    lap_ -= std::min(lap_, bytes);
    return 0;
  }
  const bool known = readable_ == Readable::yes;
  Ways& ways = ways_[Ways::length_of(bytes, kLeast)];
  const bool reading = known && ways.reads(reach.always());
  const uint64_t say = reading ? uint64_t{Say::reads} : 0;
  if (reading) next_ = 1;  // all have come when it is over
  if (waits_ > 0 || (known && !ways.is_due(reading, bytes))) return say;
  asked_ = {.ways = &ways, .bytes = bytes, .n = n, .begin_ns = now_ns(), .reads = reading};
  return say | Say::timed;
}

void RootReadings::end() {
  if (asked_.begin_ns == 0) return;
  asked_.ns = now_ns() - asked_.begin_ns;
  asked_.begin_ns = 0;
  waits_ = kMostWaits;
  next_ = 1;
}

void RootReadings::hear(bool all, uint64_t longest_ns, bool all_can_read) {
  if (!all) {
    next_ = std::min(2 * next_, kMostWaits / 4);
    return;
  }
  waits_ = 0;
  if (readable_ == Readable::yes) asked_.ways->took(asked_.reads, asked_.bytes, std::max(asked_.ns, longest_ns));
  readable_ = all_can_read ? Readable::yes : Readable::no;
}

}  // namespace weft::coll::node
