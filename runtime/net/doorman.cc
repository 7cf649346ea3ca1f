#include "runtime/net/doorman.h"

#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"

namespace weft::net {
namespace {

using obs::Gauge;
const obs::Figures<Doorman::Counters> figures("net", {
                                                         {"refused", Gauge::counter, &Doorman::Counters::refused,
                                                          "inbound connections that did not speak the protocol or did not know the secret"},
                                                         {"unfinished", Gauge::counter, &Doorman::Counters::unfinished,
                                                          "inbound connections that ended before they had proved themselves"},
                                                     });

constexpr int kGreetingsPerServe = 16;
constexpr uint64_t kOpenAgain = 200'000'000;  // ns without accepting when descriptors have run out

}  // namespace

Doorman::Doorman(Rules rules, const Digest& key, std::vector<Fd> listeners) : rules_(std::move(rules)), key_(key) {
  for (Fd& fd : listeners) listeners_.push_back(std::make_unique<Watched>(std::move(fd)));
  watcher_.watch(alarm_, EPOLLIN);
  open();
}

Doorman::~Doorman() {
  // those between the last power of two and the end have had no line yet
  if (counters_.refused > 0 && !std::has_single_bit(counters_.refused))
    log(Level::warning, "%s: refused %llu connections in all", rules_.where.c_str(), static_cast<unsigned long long>(counters_.refused));
}

void Doorman::report(obs::Tally& tally) const { tally.add(figures, counters_); }

int Doorman::serve(Host& host) {
  epoll_event ready[32];
  const int n = watcher_.look(ready);
  for (int i = 0; i < n; ++i) serve(*Watcher::who(ready[i]), host);
  gone_.clear();
  return std::max(n, 0);
}

void Doorman::serve(Watched& who, Host& host) {
  if (&who == &alarm_) return check_clock();
  for (const auto& listener : listeners_)
    if (listener.get() == &who) return greet(who.fd);
  auto& guest = static_cast<Guest&>(who);
  if (guest.fd && converse(guest)) decide(guest, host);
}

/// When the house is full, those who came first go as soon as they have had their turn; until then newcomers wait.
void Doorman::greet(const Fd& listener) {
  for (int i = 0; i < kGreetingsPerServe && opened_; ++i) {
    const uint64_t now = now_ns();
    if (guests_.size() >= rules_.guests) {
      const uint64_t turn_ends = guests_.front()->came + rules_.turn_ns;
      if (turn_ends > now) return open_later(turn_ends);
      give_up(*guests_.front());
    }
    Fd fd = accept_next(listener.get());
    if (!fd && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (!fd) {
      log(Level::warning, "%s: cannot accept connections: %s; raise the limit of open files (ulimit -n)", rules_.where.c_str(),
          strerror(errno));
      return open_later(now + kOpenAgain);
    }
    tune_stream(fd.get(), rules_.silence_s);
    guests_.push_back(std::make_unique<Guest>(std::move(fd), Handshake::accept(key_), now));
    watcher_.watch(*guests_.back(), EPOLLIN);
    alarm_.set(now + rules_.patience_ns);
  }
}

/// Leaves newcomers in the kernel's queue for a while.
void Doorman::open_later(uint64_t when) {
  opened_ = false;
  open_at_ = when;
  for (auto& listener : listeners_) watcher_.unwatch(*listener);
  alarm_.set(when);
}

void Doorman::open() {
  opened_ = true;
  for (auto& listener : listeners_) watcher_.watch(*listener, EPOLLIN);
}

void Doorman::check_clock() {
  if (!alarm_.rung()) return;
  const uint64_t now = now_ns();
  while (!guests_.empty() && guests_.front()->came + rules_.patience_ns <= now) give_up(*guests_.front());
  if (!guests_.empty()) alarm_.set(guests_.front()->came + rules_.patience_ns);
  if (opened_) return;
  if (open_at_ <= now)
    open();
  else
    alarm_.set(open_at_);
}

/// Moves a handshake on. True once the guest has proved itself; it may have been sent away otherwise.
bool Doorman::converse(Guest& guest) {
  switch (advance(guest.fd.get(), guest.handshake)) {
    case Advance::wants_read: return false;
    // a few hundred bytes into an empty socket: whoever makes that fail gets no second chance
    case Advance::wants_write:
    case Advance::closed:
    case Advance::broken: give_up(guest); return false;
    case Advance::ended: break;
  }
  if (guest.handshake.state() == Handshake::State::proven) return true;
  refuse(guest, guest.handshake.why());
  return false;
}

void Doorman::decide(Guest& guest, Host& host) {
  const Ruling ruling = host.judge(guest.handshake.claim());
  guest.handshake.decide(ruling.verdict);
  const bool told = advance(guest.fd.get(), guest.handshake) == Advance::ended;
  if (ruling.verdict == Verdict::refused) return refuse(guest, ruling.why);
  if (ruling.verdict == Verdict::welcome && told) {
    watcher_.unwatch(guest);
    host.admit(guest.handshake.claim(), std::move(guest.fd));
  }
  forget(guest);
}

void Doorman::refuse(Guest& guest, const std::string& why) {
  ++counters_.refused;
  // one line for the 1st, 2nd, 4th, 8th...: a port scanner shall not fill the disk
  if (std::has_single_bit(counters_.refused))
    log(Level::warning, "%s: refused a connection from %s: %s (%llu so far)", rules_.where.c_str(),
        remote_address(guest.fd.get()).with_port().c_str(), why.c_str(), static_cast<unsigned long long>(counters_.refused));
  forget(guest);
}

void Doorman::give_up(Guest& guest) {
  ++counters_.unfinished;
  forget(guest);
}

void Doorman::forget(Guest& guest) {
  if (guest.fd) {
    watcher_.unwatch(guest);
    guest.fd.reset();
  }
  const auto at = std::ranges::find_if(guests_, [&](const auto& each) { return each.get() == &guest; });
  gone_.push_back(std::move(*at));
  guests_.erase(at);
  if (!opened_) open();
}

}  // namespace weft::net
