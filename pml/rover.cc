#include "pml/rover.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/topo/cpus.h"

namespace weft::pml {

uint64_t switches() {
  rusage usage;
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? static_cast<uint64_t>(usage.ru_nivcsw) : 0;
}

namespace {

/// The shortest that the kernel has.
void nap() {
  const timespec time{0, 1};
  nanosleep(&time, nullptr);
}

/// Does somebody share this CPU right now? Another rank in the same place may just have left it.
bool shares() {
  constexpr int kTries = 8;
  const uint64_t before = switches();
  for (int i = 0; i < kTries; ++i) sched_yield();
  return switches() - before >= kTries / 2;
}

}  // namespace

void Rover::lend(uint64_t now, Company& company) {
  const auto cpu = static_cast<uint32_t>(sched_getcpu());
  const bool leaves = company.lends(cpu, now);
  if (now < (leaves && stays_ > 0 ? looked_at_ + kStay_ns : look_at_)) return;
  looked_at_ = now;
  const uint64_t yields = std::exchange(yields_, 0), before = std::exchange(switches_, switches());
  if (switches_ - before < yields / 2) {
    partings_ = naps_ = vain_ = stays_ = 0;
    look_at_ = now + kLookPause_ns;
    return;
  }
  const topo::CpuSet mine = topo::CpuSet::of_this_thread();
  const std::vector<uint32_t> cpus = mine.cpus();
  const auto [better, others_first] = company.way_out(cpu, cpus, now);
  waived_ = few_ && others_first ? waived_ + 1 : 0;
  const auto to = others_first && waived_ <= kMostWaived ? cpu : better;
  if (to == cpu) {
    stay(now);
  } else if (to && partings_ < kPartings) {
    look_at_ = now + (kLookPause_ns << partings_++);
    stays_ = 0;
    part(cpu, *to, cpus);
    company.lends(static_cast<uint32_t>(sched_getcpu()), now);
  } else if (yields < kYields) {  // what else may help takes longer
    yields_ = yields;
    switches_ = before;
  } else if (naps_ < kNaps) {
    look_at_ = now + (kNapPause_ns << naps_++);
    nap();
  } else {
    look_at_ = now + (kPause_ns << (std::clamp(vain_, kEagerLooks, kEagerLooks + kMostDoublings) - kEagerLooks));
    leave(mine);
  }
}

void Rover::stay(uint64_t now) {
  look_at_ = now + (waived_ ? kLookPause_ns : kLookPause_ns << stays_);
  if (waived_) return;
  if (stays_ < kMostStays)
    ++stays_;
  else
    partings_ = naps_ = vain_ = 0;
}

void Rover::part(uint32_t from, uint32_t to, std::span<const uint32_t> cpus) {
  if (cpus.size() < 2 || !shares()) return;
  if (to == Company::kAnyCpu) {
    const auto after = std::ranges::upper_bound(cpus, from);
    to = cpus[(static_cast<size_t>(after - cpus.begin()) + partings_ - 1) % cpus.size()];  // each time one further
  }
  if (std::ranges::find(cpus, to) != cpus.end()) topo::move_to(to);
}

void Rover::leave(const topo::CpuSet& cpus) {
  if (vain_++ % kEagerLooks == 0) idle_.forget();
  const auto free = cpus.count() > 1 ? idle_.find(cpus) : std::nullopt;
  if (!free || !shares()) return;
  topo::move_to(*free);
  vain_ = 0;
}

}  // namespace weft::pml
