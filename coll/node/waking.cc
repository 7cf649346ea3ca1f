#include "coll/node/waking.h"

#include <sched.h>

#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/fence.h"
#include "runtime/base/log.h"

namespace weft::coll::node {

Waking::Waking(pml::Team& team, std::byte* memory, std::byte* segment, uint64_t length)
    : team_(team),
      lane_(team.lane()),
      segment_(segment),
      length_(length),
      hall_(*reinterpret_cast<Hall*>(memory)),
      beds_(reinterpret_cast<Bed*>(memory + sizeof(Hall))),
      cpus_(lane_.boot().job().cpus) {
  beds_[team.rank()].place.store(kUp, std::memory_order_relaxed);
  if (membarrier_registered() && lane_.can_be_roused()) hall_.reached.fetch_add(1, std::memory_order_acq_rel);
}

bool Waking::lies_down(Cause cause, bool briefly) {
  if (lies_) return true;
  if (briefly && team_.size() > kMostBriefly * cpus_) return false;
  if (hall_.reached.load(std::memory_order_acquire) < team_.size() || hall_.deaf.load(std::memory_order_relaxed)) return false;
  Bed& own = beds_[team_.rank()];
  own.at_least.store(cause.at_least, std::memory_order_relaxed);
  const auto* const word = reinterpret_cast<const std::byte*>(cause.word);
  own.place.store(word ? static_cast<uint64_t>(word - segment_) : kAnything, std::memory_order_release);
  hall_.asleep.fetch_add(1, std::memory_order_acq_rel);
  lies_ = true;
  if (!fence_all()) gets_up();
  return lies_;
}

bool Waking::is_woken() const {
  const uint64_t place = beds_[team_.rank()].place.load(std::memory_order_relaxed);
  return lies_ && (place == kUp || place == kCalled);
}

/// Who is being called waits for the end of that: it may be the last thing that it has to do with that rank, which must not find it gone.
void Waking::gets_up() {
  if (!std::exchange(lies_, false)) return;
  std::atomic<uint64_t>& place = beds_[team_.rank()].place;
  const uint64_t begin = now_ns();
  for (uint64_t now = place.load(std::memory_order_acquire); now != kUp;) {
    if (now == kCalled && now_ns() - begin < kMostCalled_ns) {
      sched_yield();
      now = place.load(std::memory_order_acquire);
    } else if (place.compare_exchange_weak(now, kUp, std::memory_order_acq_rel)) {
      break;
    }
  }
  hall_.asleep.fetch_sub(1, std::memory_order_relaxed);
}

/// Is what a rank sleeps for there? Nothing is relied on that another process has written.
bool Waking::is_over(const Bed& bed, uint64_t place) const {
  if (place == kAnything) return true;
  if (place > length_ - sizeof(uint64_t) || place % alignof(std::atomic<uint64_t>) != 0) return false;
  const auto& word = *reinterpret_cast<const std::atomic<uint64_t>*>(segment_ + place);
  return word.load(std::memory_order_relaxed) >= bed.at_least.load(std::memory_order_relaxed);
}

/// Who could not be woken sleeps for a tenth of a second at most; from then on all look now and then.
[[gnu::cold, gnu::noinline]] void Waking::wake() {
  full_fence();
  for (uint32_t r = 0; r < team_.size(); ++r) {
    Bed& bed = beds_[r];
    uint64_t place = bed.place.load(std::memory_order_acquire);
    if (r == team_.rank() || !is_over(bed, place)) continue;
    if (!bed.place.compare_exchange_strong(place, kCalled, std::memory_order_acq_rel)) continue;  // it is up, or called by another one
    const bool woken = lane_.rouse(team_, r);
    bed.place.store(kUp, std::memory_order_release);
    if (woken) continue;
    if (hall_.deaf.exchange(1, std::memory_order_relaxed) == 0)
      log(Level::info, "rank %u cannot be woken by rank %u: who waits long in collectives of this node looks every millisecond", r,
          team_.rank());
  }
}

}  // namespace weft::coll::node
