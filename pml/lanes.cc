#include "pml/lanes.h"

#include <sched.h>

#include <algorithm>
#include <bit>

#include "runtime/base/log.h"
#include "runtime/config/config.h"

namespace weft::pml {
namespace {

config::Integer lanes_variable(
    "pml", "lanes", "0",
    "Lanes of a process: threads on communicators of different lanes do not wait for each other. 0: by the process's CPUs, up to 4, if "
    "several threads may call MPI and the transports are light (shared memory, tcp); at most 16.");

constexpr uint32_t kAutomatic = 4;  // a power of two, like any number below that is chosen: then numbers that differ share out room evenly

/// CPUs that this process has for itself.
uint32_t own_cpus(const boot::Job& job) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const uint32_t share = job.cpus / std::max<uint32_t>(1, static_cast<uint32_t>(job.node_ranks.size()));
  return std::clamp<uint32_t>(share, 1, static_cast<uint32_t>(std::max(allowed, 1)));
}

uint32_t suitable_number(const boot::Job& job, bool threads, const Lane& first) {
  if (!threads || !first.light()) return 1;
  return std::min(std::bit_floor(own_cpus(job)), kAutomatic);
}

}  // namespace

Result<std::unique_ptr<Lanes>> Lanes::open(boot::Bootstrap& boot, bool threads, bool again) {
  return open_many(boot, threads, static_cast<uint32_t>(std::clamp<int64_t>(lanes_variable.get(), 0, kMostLanes)), again);
}

Result<std::unique_ptr<Lanes>> Lanes::open_many(boot::Bootstrap& boot, bool threads, uint32_t count, bool again) {
  const uint32_t opening = again ? kMostLanes : 0;
  std::unique_ptr<Lanes> made(new Lanes);
  made->boot_ = &boot;
  made->openings_ = std::make_shared<Openings>(boot, opening);
  made->seats_.push_back(std::make_unique<SeatBootstrap>(boot, opening));
  auto first = Lane::assemble(*made->seats_.back(), threads);
  if (!first) return first.failure();
  if (!count) count = suitable_number(boot.job(), threads, **first);
  made->lanes_.push_back(std::move(*first));
  for (uint32_t i = 1; i < count; ++i) {
    made->seats_.push_back(std::make_unique<SeatBootstrap>(boot, opening + i));
    auto lane = Lane::assemble(*made->seats_.back(), threads);
    if (!lane) {  // too few descriptors, say: those that there are will do
      log(Level::info, "lane %u of %u cannot be had: %s", i + 1, count, lane.failure().text.c_str());
      made->seats_.pop_back();
      break;
    }
    made->lanes_.push_back(std::move(*lane));
  }
  Lane::join(made->lanes_, made->openings_);
  for (auto& lane : made->lanes_)
    if (auto done = lane->publish(); !done) return done.failure();
  made->watch_failures(boot);
  made->helper_ = Helper::of(boot.job(), made->lanes_);
  return made;
}

Lanes::~Lanes() {
  if (helper_) helper_->stop();
  if (boot_) boot_->on_failure(nullptr);
}

void Lanes::watch_failures(boot::Bootstrap& boot) {
  std::vector<std::shared_ptr<Alarm>> alarms;
  for (auto& lane : lanes_) alarms.push_back(lane->alarm());
  boot.on_failure([alarms](ProcessId who) {
    for (const auto& alarm : alarms) alarm->report(who);
  });
}

void Lanes::settle() {
  for (auto& lane : lanes_) lane->settle();
}

Status Lanes::close() {
  if (helper_) helper_->stop();
  Status status = Status::ok;
  for (auto& lane : lanes_)
    if (const Status ended = lane->close(); status == Status::ok) status = ended;
  return status;
}

}  // namespace weft::pml
