// Progress over all wires, and waiting: spin, then yield, then sleep.
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "pml/lane.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/config/config.h"

namespace weft::pml {
namespace {

config::Integer spin_variable("pml", "spin", "-1",
                              "Microseconds that an idle wait stays awake before it sleeps; -1: by how crowded the node is.");

constexpr uint32_t kQuietEvery = 32;      // rounds between polls of wires that cost a system call
constexpr uint64_t kUntouched = 200'000;  // ticks at least between those of wires that nobody is connected over yet
constexpr int kThoroughEvery = 8;         // rounds, once a wait yields: the CPU is lent
constexpr uint32_t kContended = 8;        // long messages after a yield to somebody at work
// Who takes the CPU for that long does more with it than to look for what it waits for, which takes 2 to 8 us where some do (1 MiB alone of
// two of 4 ranks on 2 CPUs: two thirds of the messages counted as contended, and of 256 KiB, which took 30 us instead of 15).
constexpr uint64_t kAtWork_ns = 8000;
constexpr uint32_t kOthersEvery = 16;  // fruitless questions between looks at other lanes
constexpr int kSpinRounds = 20000;     // before a wait yields, if every rank has a CPU: some 0.2 ms
constexpr int kRoundsPerClock = 256;   // where rounds take longer, as they cost system calls, the clock ends it
constexpr uint64_t kSpin_ns = 200'000;
constexpr uint64_t kAwake_ns = 5'000'000;  // spinning and yielding before the first sleep
constexpr uint64_t kAwakeCrowded_ns = 1'000'000, kAwakeAmongMany_ns = 200'000;
constexpr uint64_t kSleep_ns = 100'000'000;  // longest sleep: bounds the cost of a lost wake-up
constexpr uint64_t kShortSleep_ns = 1'000'000, kNap_ns = 100'000;
constexpr uint64_t kLongWait_ns = 5'000'000;  // from then on who can wakes it, however many share a CPU
constexpr uint64_t kNapOfWait = 8;            // a nap that nobody ends lasts such a part of the wait so far

/// Of the CPU that this thread is on, with whomever: threads, and ranks of other jobs or containers, which no other rank knows of, too.
thread_local Rivalry rivalry;

}  // namespace

// Which wires are polled each round

void Lane::touch(Wire& wire) {
  if (wire.touched) return;
  wire.touched = true;
  sort_wires();
}

/// Wires that cost little, or that are all there is, are polled each round; the others now and then, unless they are lively.
void Lane::sort_wires() {
  const bool cheap_one = std::ranges::any_of(wires_, [](const auto& w) { return w->cheap && w->touched && !w->self; });
  busy_wires_.clear();
  for (auto& wire : wires_)
    if (wire->touched && (wire->cheap || wire->lively || !cheap_one)) busy_wires_.push_back(wire.get());
}

/// Is it time to look whether somebody connects? (MPI_Sendrecv of 64 KiB in shared memory 4.4 us, 4.2 if tcp is asked no more often.)
bool Lane::untouched_due() {
  const uint64_t now = ticks();
  if (now - asked_untouched_ < kUntouched) return false;
  asked_untouched_ = now;
  return true;
}

int Lane::poll_quiet_wires() {
  int events = 0;
  bool changed = false;
  const bool untouched_too = untouched_due();
  for (auto& wire : wires_) {
    const bool busy = std::ranges::find(busy_wires_, wire.get()) != busy_wires_.end();
    if (!busy && (wire->touched || untouched_too)) {
      polled_ = wire->number;
      const int n = wire->transport->poll(*this);
      wire->events += static_cast<uint64_t>(n);
      events += n;
    }
    const bool lively = wire->events != 0;
    changed |= lively != wire->lively || (lively && !wire->touched);
    wire->touched |= lively;
    wire->lively = lively;
    wire->events = 0;
  }
  if (changed) sort_wires();
  return events;
}

/// `waits`: there is nothing else to do for whoever calls.
int Lane::round(bool thorough, bool waits) {
  if (phase_ != Phase::idle) return 0;
  if (holding_) [[unlikely]]
    send_off();
  int events = waits && matcher_.first_alike() ? receive_alike() : 0;
  if (events > 0 && (++direct_ & kDirectAtMost)) return events;
  phase_ = Phase::polling;
  waits = waits && !watches_;
  for (Wire* wire : busy_wires_) {
    polled_ = wire->number;
    const int n = waits && !events ? wire->transport->poll_waiting(*this) : wire->transport->poll(*this);
    wire->events += static_cast<uint64_t>(n);
    events += n;
  }
  const bool quiet_too = ++rounds_ % kQuietEvery == 0 || thorough;
  if (quiet_too) [[unlikely]]
    events += poll_quiet_wires();
  phase_ = Phase::working;
  if (quiet_too && mend_at_) [[unlikely]]
    if (const uint64_t now = now_ns(); now >= mend_at_) mend_rails(now);
  if (quiet_too && offers_) [[unlikely]]
    look_after_offers();
  if (to_flush_ || deferred_ || !to_move_.empty() || alarm_->raised.load(std::memory_order_relaxed)) [[unlikely]]
    events += run_later_work();
  if (watches_) [[unlikely]]
    events += look_around();
  phase_ = Phase::idle;
  if (events) rouse();
  return events;
}

/// Several reads of one peer's memory are made together.
int Lane::move_all() {
  size_t moving = to_move_.size();  // some may leave the list meanwhile, as their peer fails
  const auto events = static_cast<int>(moving);
  gathers_reads_ = moving > 1;
  for (Transfer* t = nullptr; moving > 0 && (t = to_move_.pop_front()); --moving) move_on(*t);
  gathers_reads_ = false;
  if (reads_from_) std::exchange(reads_from_, nullptr)->flush();
  return events;
}

/// What callbacks have put off. One pass: what it leads to waits for the next round.
int Lane::run_later_work() {
  int events = 0;
  hold_back_ = gathering_.load(std::memory_order_relaxed);
  if (alarm_->raised.load(std::memory_order_acquire)) handle_alarm();
  events += move_all();
  Peer* waiting = std::exchange(to_flush_, nullptr);
  pushed_ = 0;
  while (waiting) {
    Peer& peer = *std::exchange(waiting, waiting->next_queued);
    peer.queued = false;
    flush(peer);
    if (!peer.idle()) queue(peer);
  }
  events += pushed_;  // who is busy sending does not wait in vain
  Deferred* work = std::exchange(deferred_, nullptr);
  while (work) {
    Deferred* next = work->next;
    if (work->users && helping_) [[unlikely]] {
      defer(*work);
    } else {
      work->run(*work);
      ++events;
    }
    work = next;
  }
  hold_back_ = false;
  if (holding_) send_off();
  return events;
}

int Lane::look_around() {
  int events = 0;
  for (Watch* watch = watches_; watch;) {
    Watch& now = *std::exchange(watch, watch->next);
    events += now.look(now);
  }
  return events;
}

void Lane::watch(Watch& watch) {
  watch.next = std::exchange(watches_, &watch);
  rouse();  // who sleeps counts on wires that ring
}

void Lane::unwatch(Watch& watch) {
  Watch** at = &watches_;
  while (*at != &watch) at = &(*at)->next;
  *at = watch.next;
  if (looks_before_sleep_ && watch.company) watch.company->gets_up();
}

/// Whether who asks this lane shall help the others now. Every question counts, whatever its kind: a program may ask different ones in
/// turn.
bool Lane::others_due() { return !others_.empty() && ++asked_ % kOthersEvery == 0; }

/// Progress of this process's other lanes, as far as nobody is busy there.
int Lane::help_others() {
  int events = 0;
  for (Lane* other : others_) {
    if (!other->lock_.try_lock()) continue;
    const std::lock_guard hold(other->lock_, std::adopt_lock);
    events += other->round(false);
  }
  return events;
}

int Lane::progress() {
  int events;
  bool others;
  {
    std::lock_guard hold(lock_);
    events = round(false);
    others = others_due();
  }
  return others ? events + help_others() : events;
}

void Lane::defer(Deferred& work) {
  work.next = nullptr;
  (deferred_ ? last_deferred_->next : deferred_) = &work;
  last_deferred_ = &work;
  if (phase_ == Phase::idle) rouse();
}

// Waiting

Status Lane::wait_for(bool (*done)(void*), void* argument, uint64_t nanoseconds) { return wait_loop(done, argument, nanoseconds, nullptr); }

Status Lane::wait_silent(bool (*done)(void*), void* argument) {
  struct Strangers final : Company {
  } strangers;
  return wait_silent(done, argument, strangers);
}

/// Nanoseconds that an idle wait stays awake. Where nobody wakes, ranks that slept would make each other wait, and so sleep again, for
/// longer than all of them take to run in turns. Among few, a CPU that is left idle draws one of two from another one, which then are
/// three on one as soon as its own are awake again.
uint64_t Lane::awake_for(bool silent) const {
  if (spin_variable.get() >= 0) return static_cast<uint64_t>(spin_variable.get()) * 1000;
  if (!crowded_ && !rivals()) return kAwake_ns;
  return silent || rover_.among_few() ? kAwakeCrowded_ns : kAwakeAmongMany_ns;
}

/// Rounds before an idle wait yields. Whoever waits silently has looked at what it waits for often enough.
int Lane::spins_for(bool silent) {
  if (!crowded_ && !rivals()) return kSpinRounds;
  return silent ? 0 : patience_.looks();
}

/// What those do that posted receives wait for, as far as it can be seen.
Lane::Awaited Lane::awaited() const {
  Awaited all = Awaited::unseen;
  const bool rests = matcher_.any_posted([&](const Transfer& receive) {
    const Peer* const from = receive.team->known_peer(receive.source);
    const auto seen = from && from->endpoint ? from->endpoint->rests() : std::nullopt;
    if (seen) all = Awaited::at_work;
    return seen == true;
  });
  return rests ? Awaited::resting : all;
}

/// After so many rounds of a wait in vain, of `spins` before it yields: how many these are, by what those do just now that it waits for.
int Lane::spins_by_awaited(int idle, int spins) {
  const Awaited now = awaited();
  glances_.saw(now == Awaited::resting);
  if (now == Awaited::resting) return idle - 1;
  return now == Awaited::at_work ? std::clamp(idle + Glances::kEvery, spins, std::max(spins, kMostLooks)) : spins;
}

namespace {

/// Has a wait that has been idle for so many rounds spun for long enough? `since` is this function's: when it was asked first.
bool spun_out(int idle, uint64_t& since) {
  if (idle % kRoundsPerClock != 0 || idle == 0) [[likely]]
    return false;
  const uint64_t now = now_ns();
  if (idle == kRoundsPerClock) since = now;
  return now - since >= kSpin_ns;
}

}  // namespace

/// Those that messages come from.
struct Lane::Correspondents final : Company {
  explicit Correspondents(Lane& l) : lane(l) {}
  bool lends(uint32_t cpu, uint64_t now) override {
    lane.wires_told_ = true;
    for (Wire* wire : lane.busy_wires_) {
      const topo::Ties here = wire->transport->lends(cpu, now);
      ties = {ties.leaves || here.leaves, ties.here || here.here, ties.apart || here.apart, ties.away || here.away};
    }
    if (Household* const all = lane.household()) all->lends(cpu, ties, now);
    return ties.had_better_leave();
  }
  topo::Place way_out(uint32_t cpu, std::span<const uint32_t> cpus, uint64_t now) override {
    if (Household* const all = lane.household()) return all->way_out(ties, cpus, now);
    if (ties.apart) return {cpu};
    return {ties.leaves ? std::optional(kAnyCpu) : std::nullopt};
  }

  Lane& lane;
  topo::Ties ties;
};

/// Leaves the CPU to others, who can see that.
void Lane::yield(uint64_t now, Company* silent, bool naps) {
  const bool told = crowded_ && !lock_.enabled();
  if (told) {
    for (Wire* wire : busy_wires_) wire->transport->rests(true);
  }
  sched_yield();
  const uint64_t away = now_ns() - now;
  rivalry.yielded(away);
  rivals_.store(rivalry.seen() && (crowded_ || rivalry.proven(switches())), std::memory_order_relaxed);
  if (!told) return;
  for (Wire* wire : busy_wires_) wire->transport->rests(false);
  if (rivals() && away >= kAtWork_ns) contended_ = kContended;
  if (naps) return;
  if (!silent && watches_) silent = watches_->company;
  if (silent) {
    tell_wires();
    return rover_.yielded(now, *those_beside(silent));
  }
  Correspondents wires{*this};
  rover_.yielded(now, wires);
}

/// Messages are not what is waited for any more.
void Lane::tell_wires() {
  if (!std::exchange(wires_told_, false)) return;
  for (Wire* wire : busy_wires_) wire->transport->lends_none();
}

/// Tells those who may count on it that no CPU is lent any more.
void Lane::fall_asleep(Company* silent) {
  tell_wires();
  if (Company* const others = those_beside(silent)) others->sleeps();
}

/// Of those that change what a thread waits for without a message. Where several threads wait, those of watches are not this one's alone.
template <class Do>
void Lane::each_company(Company* silent, Do&& act) {
  if (silent) act(*silent);
  for (const Watch* watch = lock_.enabled() ? nullptr : watches_; watch; watch = watch->next)
    if (watch->company) act(*watch->company);
}

/// Those whose watches end meanwhile are not known any more when this thread has slept.
int Lane::look_before_sleep() {
  phase_ = Phase::working;
  looks_before_sleep_ = true;
  const int events = look_around();
  looks_before_sleep_ = false;
  phase_ = Phase::idle;
  return events;
}

/// Tells those who change what this thread waits for that it is about to sleep: do all of them wake it, and has nothing changed meanwhile?
/// Where several threads wait, others may end watches while it sleeps.
bool Lane::tell_of_sleep(Company* silent, bool briefly) {
  {
    std::lock_guard hold(lock_);
    if (watches_ && lock_.enabled()) return false;
    bool all = true;
    for (const Watch* watch = watches_; watch; watch = watch->next) all &= watch->company != nullptr;
    each_company(silent, [&](Company& c) { all = all && c.lies_down(briefly); });
    if (all && !(watches_ && look_before_sleep() != 0)) return true;
  }
  get_up_for(silent);
  return false;
}

/// Without the lock: who gets up waits for whoever is calling it, and two processes' threads may call each other.
void Lane::get_up_for(Company* silent) {
  each_company(silent, [](Company& c) { c.gets_up(); });
}

Status Lane::wait_loop(bool (*done)(void*), void* argument, uint64_t limit_ns, Company* silent) {
  const uint64_t start = limit_ns == kForever ? 0 : now_ns();
  uint64_t awake_ns = 0;
  bool unwoken = silent;  // by some of what may end the wait, unless it is told of the sleep
  bool naps = false;      // between looks: who naps does not count among those that share a CPU
  int spins = -1, idle = 0;
  uint64_t idle_since = 0, waiting_since = 0, spun_since = 0;
  for (;;) {
    bool others;
    {
      std::lock_guard hold(lock_);
      if (spins < 0) {
        unwoken |= watches_ != nullptr;
        spins = spins_for(unwoken);
        awake_ns = awake_for(unwoken);
      }
      const int events = round(idle > spins && idle % kThoroughEvery == 0, true);
      const bool ready = done(argument);
      if ((ready || events) && idle <= spins) patience_.helped(idle);
      if (ready) return Status::ok;
      if (events) {
        if (idle > spins) spins = spins_for(unwoken);
        idle = 0;
      } else if (++idle == spins + 1 && !unwoken) {
        patience_.failed();
      } else if (crowded_ && !unwoken && idle <= spins && glances_.due(idle)) {
        spins = spins_by_awaited(idle, spins);
      }
      others = others_due();
    }
    if (others || idle > spins) [[unlikely]]
      if (help_others()) idle = 0;
    if (const auto poison = alarm_->poison.load(std::memory_order_relaxed)) [[unlikely]]
      return static_cast<Status>(poison);
    lock_.give_way();
    if (idle <= spins) {
      if (spun_out(idle, spun_since)) idle = spins;
      continue;
    }
    const uint64_t now = now_ns();
    if (limit_ns != kForever && now - start >= limit_ns) return Status::again;
    if (idle == spins + 1) idle_since = now;
    if (!waiting_since) waiting_since = now;
    if (now - idle_since < awake_ns) {
      yield(now, silent, naps);
      continue;
    }
    const bool told = unwoken && tell_of_sleep(silent, now - waiting_since < kLongWait_ns);
    naps = unwoken && !told;
    uint64_t longest = naps ? std::clamp((now - waiting_since) / kNapOfWait, kNap_ns, kShortSleep_ns) : kSleep_ns;
    if (limit_ns != kForever) longest = std::min(longest, limit_ns - (now - start));
    if (crowded_ && !lock_.enabled()) fall_asleep(silent);
    const bool over = sleep(longest, done, argument, told);
    if (told) get_up_for(silent);
    if (over) return Status::ok;
    if (naps) awake_ns = std::min(awake_ns, longest / kNapOfWait);  // the CPU is left to others, and seen to be free
    idle = spins;  // one look, and a short time awake: who was woken is likely to be needed again soon
  }
}

/// True if nothing has arrived, and whatever arrives from now on makes a file descriptor readable.
bool Lane::arm_all() {
  for (size_t i = 0; i < wires_.size(); ++i) {
    if (wires_[i]->transport->arm()) continue;
    for (size_t j = 0; j <= i; ++j) wires_[j]->transport->disarm();
    return false;
  }
  return true;
}

/// One sleep of a thread, on all lanes of its process.
struct Lane::Sleep {
  std::array<pollfd, 64> fds;
  size_t count = 0;
  uint64_t limit_ns;
  const Lane* woken = nullptr;  ///< by those whom its watches are for
};

/// Adds what ends the sleep, and counts among the sleepers. False if there is something to do.
bool Lane::lie_down(Sleep& s) {
  std::lock_guard hold(lock_);
  if (offers_) leave_copies(0);
  if (mend_at_) s.limit_ns = std::min(s.limit_ns, std::max(mend_at_, now_ns() + 1) - now_ns());
  if (to_flush_ || deferred_ || !to_move_.empty()) s.limit_ns = std::min(s.limit_ns, kShortSleep_ns / 10);
  if (watches_ && s.woken != this) s.limit_ns = std::min(s.limit_ns, kShortSleep_ns);
  const auto add = [&](int fd) {
    if (fd >= 0 && s.count < s.fds.size())
      s.fds[s.count++] = {fd, POLLIN, 0};
    else
      s.limit_ns = std::min(s.limit_ns, kShortSleep_ns);
  };
  add(alarm_->wake_fd);
  for (auto& wire : wires_) add(wire->transport->event_fd());
  if (alarm_->raised.load() || alarm_->poison.load() || !arm_all()) {
    rouse();  // for them nothing is armed any more
    return false;
  }
  sleepers_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Lane::get_up() {
  std::lock_guard hold(lock_);
  if (sleepers_.fetch_sub(1, std::memory_order_relaxed) != 1) return;
  for (auto& wire : wires_) wire->transport->disarm();
  uint64_t drained;
  if (read(alarm_->wake_fd, &drained, sizeof drained) < 0) return;  // nobody rang
}

/// Sleeps until something arrives or completes, or the time is over; not at all if there is something to do. True if `done` has come true:
/// then it must not be asked again, since a matched probe takes its message with that answer. `woken`: by those who change without a
/// message what it waits for. README.md says why nobody sleeps too long.
bool Lane::sleep(uint64_t limit_ns, bool (*done)(void*), void* argument, bool woken) {
  Sleep s;
  s.limit_ns = limit_ns;
  if (woken) s.woken = this;
  size_t down = 0;  // lanes: this one, then the others
  const auto lane = [&](size_t i) { return i == 0 ? this : others_[i - 1]; };
  while (down <= others_.size() && lane(down)->lie_down(s)) ++down;
  bool ready = false;
  if (down > others_.size()) {  // whatever completes from now on rings
    bool called = false;        // before it did
    {
      std::lock_guard hold(lock_);
      ready = done(argument);
      if (woken) each_company(nullptr, [&](const Company& c) { called |= c.is_woken(); });
      counters_.sleeps += !ready && !called;
    }
    if (!ready && !called) {
      const timespec time{static_cast<time_t>(s.limit_ns / 1'000'000'000), static_cast<long>(s.limit_ns % 1'000'000'000)};
      ppoll(s.fds.data(), s.count, &time, nullptr);
    }
  }
  while (down > 0) lane(--down)->get_up();
  return ready;
}

}  // namespace weft::pml
