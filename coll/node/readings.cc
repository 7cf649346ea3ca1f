#include "coll/node/readings.h"

#include "btl/copy/cma.h"
#include "runtime/base/clock.h"
#include "runtime/config/config.h"

namespace weft::coll::node {

namespace {

config::Choice read_setting("coll", "read", "auto", "auto, always, no",
                            "How blocks of 8K and more go in allgathers and all-to-alls of a node: are they read out of their owner's memory: auto "
                            "(while that takes less time than through shared memory), always, or no.");

}  // namespace

Readings::Readings()
    : wish_(!btl::copy::allowed() || read_setting.get() == "no" ? Wish::no
            : read_setting.get() == "always"                   ? Wish::always
                                                               : Wish::automatic) {}

bool Readings::reading_pays(Way& way) {
  const double slots = way.slots.ns_per_byte(), reading = way.reading.ns_per_byte();
  const Contest::Standing other{.ahead = way.reading.known() && reading < kAhead * slots,
                                .hopeless = way.reading.known() && reading > kHopeless * slots};
  const bool reads = way.contest.takes_other(way.slots.known() && slots > kBest, other);
  way.slots.rare = way.contest.ahead();
  return reads;
}

bool Readings::is_due(Way& way) const {
  if (!now_.reads) return !way.slots.known() || way.slots.due(now_.bytes);
  return way.contest.tries() || ++way.read % kTimedOf == 0;
}

bool Readings::begin(Kernel kernel, uint64_t block, uint32_t others) {
  now_ = {};
  if (block < kLeast || !readable_) return false;
  now_.way = &ways_[static_cast<size_t>(kernel)][length_of(block)];
  now_.bytes = block * others;
  now_.reads = wish_ == Wish::always || reading_pays(*now_.way);
  if (is_due(*now_.way)) now_.begin_ns = now_ns();
  return now_.reads;
}

void Readings::end() {
  if (latest_.way && least_ns_ > 0) (latest_.reads ? latest_.way->reading : latest_.way->slots).took(latest_.bytes, least_ns_);
  if (now_.begin_ns > 0) now_.ns = now_ns() - now_.begin_ns + static_cast<uint64_t>(now_.excess_ns);
  latest_ = now_;
  least_ns_ = ~uint64_t{0};
  readable_ = all_can_read_;
  all_can_read_ = true;
}

}  // namespace weft::coll::node
