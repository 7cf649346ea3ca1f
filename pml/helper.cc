#include "pml/helper.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <system_error>
#include <utility>

#include "pml/lane.h"
#include "runtime/base/log.h"
#include "runtime/config/config.h"

namespace weft::pml {
namespace {

config::Choice helper_variable(
    "pml", "helper", "auto", "auto, always, never",
    "A thread that makes progress with nonblocking operations while the program computes: never; always; auto: if "
    "the job has several hosts.");

constexpr uint64_t kLong = 64 << 10;  // bytes of a message that is likely to need more than one step
constexpr std::chrono::microseconds kShortestNap{1000}, kLongestNap{4000};
constexpr std::chrono::microseconds kLinger{50000};  // without operations, before it parks
constexpr uint64_t kLongestSleep_ns = 100'000'000;
constexpr int kQuietLooks = 64;  // without a nap between them

}  // namespace

std::unique_ptr<Helper> Helper::of(const boot::Job& job, const std::vector<std::unique_ptr<Lane>>& lanes) {
  const std::string_view wish = helper_variable.get();
  const bool always = wish == "always";
  if (wish == "never" || (!always && job.node_count < 2)) return nullptr;
  std::vector<Lane*> all;
  for (const auto& lane : lanes) all.push_back(lane.get());
  return std::make_unique<Helper>(std::move(all), always);
}

Helper::Helper(std::vector<Lane*> lanes, bool all) : lanes_(std::move(lanes)), all_(all), name_(log_name()), seen_(lanes_.size()) {
  if (sched_getaffinity(0, sizeof cpus_, &cpus_) != 0) CPU_ZERO(&cpus_);
  for (Lane* lane : lanes_) lane->helper_ = this;
}

/// What one more call of MPI does not end anyway. Under the lane's lock.
bool Helper::worthwhile(const Request& r) const {
  if (r.watched || r.complete.load(std::memory_order_acquire)) return false;
  const bool message = r.request_kind == RequestKind::send || r.request_kind == RequestKind::receive ||
                       r.request_kind == RequestKind::persistent_send || r.request_kind == RequestKind::persistent_receive;
  if (!message) return true;
  const auto& t = static_cast<const Transfer&>(r);
  if (t.stage == Stage::idle || t.capacity < kLong) return false;  // idle: stands for small messages that leave together
  return all_ || t.dest == any_source || !t.team || !r.lane->same_node(*t.team, static_cast<uint32_t>(t.dest));
}

void Helper::expect(Request& r) {
  bool worth = false;
  r.lane->locked([&] { worth = worthwhile(r); });
  if (!worth) return;
  const std::lock_guard hold(lock_);
  if (stopping_ || (!thread_.joinable() && !begin())) return;
  const bool parked = std::exchange(parked_, false);
  if (parked)
    for (Lane* lane : lanes_) lane->lock_.lend();
  r.lane->locked([&] {
    if (r.complete.load(std::memory_order_acquire)) return;
    r.watched = true;
    awaited_.fetch_add(1, std::memory_order_relaxed);
  });
  if (parked) called_.notify_one();
}

/// Signals stay with the program's threads.
bool Helper::begin() {
  sigset_t every, before;
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& e) {
    log(Level::info, "there is no thread to help with nonblocking operations: %s", e.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread_.joinable();
}

void Helper::stop() {
  {
    const std::lock_guard hold(lock_);
    if (stopping_.exchange(true)) return;
    called_.notify_one();
  }
  lanes_.front()->alarm_->wake();
  if (thread_.joinable()) thread_.join();
  for (Lane* lane : lanes_) lane->helper_ = nullptr;
}

// The thread

void Helper::run() {
  log_as(name_.c_str());
  pthread_setname_np(pthread_self(), "weft helper");
  if (CPU_COUNT(&cpus_) > 0) pthread_setaffinity_np(pthread_self(), sizeof cpus_, &cpus_);
  std::unique_lock hold(lock_);
  nap_ = kShortestNap;
  while (!stopping_) {
    rest(hold);
    if (stopping_ || awaited_.load(std::memory_order_relaxed) == 0) continue;
    hold.unlock();
    const bool worked = !program_is_in() && work();
    hold.lock();
    nap_ = worked ? kShortestNap : std::min(2 * nap_, kLongestNap);
  }
  for (Lane* lane : lanes_) lane->lock_.give_back();
}

/// A nap; without operations for long enough, one that lasts until there are some again.
void Helper::rest(std::unique_lock<std::mutex>& hold) {
  called_.wait_for(hold, nap_, [this] { return stopping_.load(); });
  idle_ = awaited_.load(std::memory_order_relaxed) ? Time{0} : idle_ + nap_;
  if (idle_ < kLinger || stopping_) return;
  for (Lane* lane : lanes_) lane->lock_.give_back();
  parked_ = true;
  called_.wait(hold, [this] { return !parked_ || stopping_; });
  idle_ = Time{0};
  nap_ = kShortestNap;
  called_.wait_for(hold, nap_, [this] { return stopping_.load(); });
}

/// Does a thread of the program make progress, or wait, since the last look?
bool Helper::program_is_in() {
  bool in = false;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[i];
    if (!lane.lock_.try_lock()) return true;
    const std::lock_guard hold(lane.lock_, std::adopt_lock);
    in |= lane.rounds_ != seen_[i] || lane.sleepers_.load(std::memory_order_relaxed) > 0;
    seen_[i] = lane.rounds_;
  }
  return in;
}

/// Progress until the program is back, or there is nothing left to do here. True if there was anything to do.
bool Helper::work() {
  const auto back = [](void* self) { return static_cast<Helper*>(self)->over(); };
  bool worked = false;
  for (int quiet = 0; quiet < kQuietLooks; ++quiet) {
    const Look look = round();
    if (look == Look::over) break;
    if (look == Look::events) {
      worked = true;
      quiet = 0;
    } else if (lanes_.front()->sleep(kLongestSleep_ns, back, this)) {
      break;
    }
  }
  return worked;
}

/// Asked under the first lane's lock.
bool Helper::over() {
  const Lane& first = *lanes_.front();
  return stopping_ || awaited_.load(std::memory_order_relaxed) == 0 || first.rounds_ != seen_.front() || first.poisoned() != Status::ok;
}

Helper::Look Helper::round() {
  int events = 0;
  bool left = false;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[i];
    const std::lock_guard hold(lane.lock_);
    if (lane.rounds_ != seen_[i] || (i == 0 && over())) return Look::over;
    lane.helping_ = true;
    const int taken = lane.round(true);
    lane.helping_ = false;
    lane.counters_.helped += static_cast<uint64_t>(taken);
    seen_[i] = lane.rounds_;
    events += taken;
    left |= lane.deferred_ != nullptr;  // after a round without events: code of the user's
  }
  if (events) return Look::events;
  return left ? Look::over : Look::quiet;
}

// What lanes say

void Lane::watch(Request& request) { helper_->expect(request); }

void Lane::unwatch(Request& request) {
  request.watched = false;
  if (helper_) helper_->ended();
}

}  // namespace weft::pml
