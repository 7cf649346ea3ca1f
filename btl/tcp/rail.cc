#include "btl/tcp/rail.h"

#include <sys/timerfd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "btl/tcp/claim.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

namespace weft::btl::tcp {
namespace {

constexpr uint32_t kLooksBeforeRest = 500;  // fruitless looks until poll() begins to skip
constexpr uint64_t kShortestPause = 2'000;  // ticks between looks
constexpr uint64_t kLongestPause = 40'000;  // with connections open; about 15 us
constexpr uint64_t kLongestPauseAlone = 200'000;
constexpr int kGreetingsPerPoll = 16;
constexpr uint64_t kListenAgain = 200'000'000;  // ns without accepting when descriptors have run out
constexpr uint64_t kAnew = 1'000'000'000;       // ns after which an attempt of the peer's cannot have crossed ours any more
constexpr uint64_t kGuestTurn = 2'000'000'000;  // ns that a guest has at least, however many others wait

/// A cheap clock of roughly a nanosecond; only how long ago a look was matters.
uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return now_ns();
#endif
}

/// The key that connections to the owner of a card must prove to know.
net::Digest key_of(const std::string& secret, const Token& token) {
  return net::hmac(net::bytes_of(secret), {net::bytes_of("weft btl tcp"), token});
}

Caps caps_for(const Card::RailEntry& rail, uint32_t mbit) {
  Caps caps;
  caps.name = "tcp";
  caps.device = rail.device;
  caps.max_inline = 4096;
  caps.max_buffered = 64 * 1024;
  caps.zcopy = true;
  caps.max_zcopy = kMaxPayload;
  const bool loopback = std::ranges::all_of(rail.addresses, &net::Address::loopback);
  caps.same_node = loopback;
  caps.revives = !loopback;
  caps.alpha_ns = loopback ? 8'000 : 15'000;
  caps.beta_ns_per_byte = loopback ? 0.3 : 8'000.0 / double(mbit ? mbit : 10'000);
  return caps;
}

}  // namespace

Rail::Rail(const Site& site, Options options, std::shared_ptr<const Card> card, size_t index, uint32_t mbit, std::vector<net::Fd> listeners)
    : boot_(site.boot),
      options_(std::move(options)),
      card_(std::move(card)),
      index_(index),
      caps_(caps_for(card_->rails[index], mbit)),
      key_(key_of(site.boot.job().secret, card_->token)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(Watched::What::timer, net::Fd(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC))) {
  for (net::Fd& fd : listeners) {
    listeners_.push_back(std::make_unique<Watched>(Watched::What::listener, std::move(fd)));
    watch(*listeners_.back(), EPOLLIN);
  }
  watch(timer_, EPOLLIN);
}

Rail::~Rail() {
  for (auto& [who, link] : links_)
    if (link->fd) shutdown(link->fd.get(), SHUT_RDWR);
}

bool Rail::reaches(ProcessId who, const boot::Blob& address) const {
  if (who == ProcessId{0, boot_.job().rank}) return false;
  const auto card = Card::decode(address);
  return card && partner_of(*card_, boot_.job().rank, index_, *card, who.rank) >= 0;
}

Link& Rail::link_to(ProcessId who) {
  auto& slot = links_[who];
  if (!slot) slot = std::make_unique<Link>(*this, who);
  return *slot;
}

Result<Endpoint*> Rail::connect(ProcessId who, const boot::Blob& address, void* cookie) {
  const auto card = Card::decode(address);
  if (!card)
    return Failure{"rank " + std::to_string(who.rank) + " published no valid tcp address; do all processes run the same version of Weft?"};
  const int partner = partner_of(*card_, boot_.job().rank, index_, *card, who.rank);
  if (partner < 0)
    return Failure{"tcp " + caps_.device + " has no common network with rank " + std::to_string(who.rank) + " on " + card->host +
                   "; see WEFT_NET_INTERFACES"};
  Link& link = link_to(who);
  link.cookie_ = cookie;
  link.host_ = card->host;
  link.their_rail_ = partner;
  link.ways_ = ways(*card_, index_, *card, size_t(partner));
  for (size_t i = 0; i < card_->rails.size(); ++i)
    link.several_ |= i != index_ && partner_of(*card_, boot_.job().rank, i, *card, who.rank) >= 0;
  const bool told = std::ranges::find(mourned_, &link) == mourned_.end();
  if (link.several_ && link.state_ == Link::State::dead && told) link.reopen();
  link.key_ = key_of(boot_.job().secret, card->token);
  return &link;
}

// ---- progress

int Rail::poll(Sink& sink) {
  const uint64_t now = ticks();
  if (now - last_look_ < pause_ && mourned_.empty()) return 0;
  last_look_ = now;
  int events = report(sink);
  epoll_event ready[32];
  const int n = epoll_wait(epoll_.get(), ready, 32, 0);
  for (int i = 0; i < n; ++i) events += serve(ready[i], sink);
  events += report(sink);
  gone_guests_.clear();
  rest(n > 0 || events > 0);
  return events;
}

/// Decides when the kernel is asked next.
void Rail::rest(int events) {
  if (events > 0 || busy_links_ > 0) {
    quiet_looks_ = 0;
    pause_ = 0;
  } else if (++quiet_looks_ > kLooksBeforeRest) {
    pause_ = std::clamp(pause_ * 2, kShortestPause, open_links_ > 0 ? kLongestPause : kLongestPauseAlone);
  }
}

bool Rail::arm() {
  pause_ = 0;
  return mourned_.empty();
}

int Rail::serve(const epoll_event& event, Sink& sink) {
  auto& watched = *static_cast<Watched*>(event.data.ptr);
  switch (watched.what) {
    case Watched::What::listener: greet(watched); return 0;
    case Watched::What::guest: serve_guest(static_cast<Guest&>(watched), sink); return 0;
    case Watched::What::link: return static_cast<Link&>(watched).serve(event.events, sink);
    case Watched::What::timer: break;
  }
  uint64_t expirations;
  if (read(timer_.fd.get(), &expirations, sizeof expirations) > 0) check_deadlines();
  return 0;
}

/// Tells the sink of the peers lost since the last time.
int Rail::report(Sink& sink) {
  int count = 0;
  while (!mourned_.empty()) {
    Link& link = *mourned_.back();
    mourned_.pop_back();
    ++counters_.lost;
    ++count;
    link.outbox_.abandon(Status::peer_failed);
    sink.lost(link.cookie_, link.why_);
  }
  return count;
}

void Rail::watch(Watched& what, uint32_t events) {
  if (what.interest == events) return;
  epoll_event event{};
  event.events = events;
  event.data.ptr = &what;
  epoll_ctl(epoll_.get(), what.interest ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, what.fd.get(), &event);
  what.interest = events;
}

void Rail::unwatch(Watched& what) {
  if (what.interest) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, what.fd.get(), nullptr);
  what.interest = 0;
}

void Rail::wake_at(uint64_t when) {
  if (when >= timer_at_) return;
  timer_at_ = when;
  itimerspec spec{};
  spec.it_value.tv_sec = time_t(when / 1'000'000'000u);
  spec.it_value.tv_nsec = long(when % 1'000'000'000u);
  timerfd_settime(timer_.fd.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void Rail::check_deadlines() {
  const uint64_t now = now_ns();
  timer_at_ = UINT64_MAX;
  for (auto& [who, link] : links_) {
    if (link->state_ != Link::State::connecting && link->state_ != Link::State::waiting) continue;
    if (link->deadline_ > now)
      wake_at(link->deadline_);
    else if (link->state_ == Link::State::waiting)
      link->begin();
    else
      link->attempt_failed("no answer from " + link->describe() + " within " + std::to_string(link->connect_limit_ns() / 1'000'000) +
                           " ms; check that no firewall drops the traffic between the hosts, and WEFT_NET_INTERFACES");
  }
  for (size_t i = guests_.size(); i-- > 0;) {
    if (guests_[i]->deadline > now)
      wake_at(guests_[i]->deadline);
    else
      dismiss(*guests_[i], &Counters::unfinished, "it did not finish the handshake in time");
  }
  if (!listening_) {
    if (listen_again_at_ <= now)
      listen_again();
    else
      wake_at(listen_again_at_);
  }
  check_silence(now);
}

/// Looks after connections on which nothing comes back, as long as there are any.
void Rail::check_silence(uint64_t now) {
  if (open_links_ == 0 && busy_links_ == 0) {
    silence_check_at_ = UINT64_MAX;
    return;
  }
  if (silence_check_at_ <= now) {
    for (auto& [who, link] : links_) link->check_silence();
    silence_check_at_ = UINT64_MAX;
  }
  const bool spare = card_->rails.size() > 1;
  if (silence_check_at_ == UINT64_MAX)
    silence_check_at_ = now + (spare ? uint64_t{options_.spare_ms} * 150'000u : uint64_t{options_.silence_s} * 250'000'000u);
  wake_at(silence_check_at_);
}

// ---- inbound connections

void Rail::greet(Watched& listener) {
  for (int i = 0; i < kGreetingsPerPoll && listening_; ++i) {
    const uint64_t now = now_ns();
    if (guests_.size() >= options_.guests) {
      const uint64_t turn_ends = guests_.front()->deadline - guest_time() + kGuestTurn;
      if (turn_ends > now) return listen_later(turn_ends);
      dismiss(*guests_.front(), &Counters::unfinished, "others are waiting");
    }
    net::Fd fd = net::accept_next(listener.fd.get());
    if (!fd && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (!fd) {
      log(Level::warning, "tcp %s: cannot accept connections: %s; raise the limit of open files (ulimit -n)", caps_.device.c_str(),
          strerror(errno));
      return listen_later(now + kListenAgain);
    }
    net::tune_stream(fd.get(), int(options_.silence_s));
    guests_.push_back(std::make_unique<Guest>(std::move(fd), net::Handshake::accept(key_), now + guest_time()));
    watch(*guests_.back(), EPOLLIN);
    wake_at(guests_.back()->deadline);
  }
}

/// Leaves newcomers in the kernel's queue for a while.
void Rail::listen_later(uint64_t when) {
  listening_ = false;
  listen_again_at_ = when;
  for (auto& listener : listeners_) unwatch(*listener);
  wake_at(when);
}

void Rail::listen_again() {
  listening_ = true;
  for (auto& listener : listeners_) watch(*listener, EPOLLIN);
}

void Rail::dismiss(Guest& guest, uint64_t Counters::*counter, const std::string& why) {
  const uint64_t count = ++(counters_.*counter);
  // one line for the 1st, 2nd, 4th, 8th...: a port scanner shall not fill the disk
  if (counter == &Counters::refused && std::has_single_bit(count))
    log(Level::warning, "tcp %s: refused a connection from %s: %s (%llu so far)", caps_.device.c_str(),
        net::remote_address(guest.fd.get()).with_port().c_str(), why.c_str(), static_cast<unsigned long long>(count));
  forget(guest);
}

/// Ends with a guest; its memory lives until the end of the poll, as epoll may have reported it already.
void Rail::forget(Guest& guest) {
  if (guest.fd) {
    unwatch(guest);
    guest.fd.reset();
  }
  const auto at = std::ranges::find_if(guests_, [&](const auto& each) { return each.get() == &guest; });
  gone_guests_.push_back(std::move(*at));
  guests_.erase(at);
  if (!listening_) listen_again();
}

/// Reads no more than the handshake asks for.
void Rail::receive_guest(Guest& guest) {
  while (guest.handshake.state() == net::Handshake::State::going && guest.handshake.output().empty()) {
    std::byte in[256];
    const ssize_t n = recv(guest.fd.get(), in, std::min(sizeof in, guest.handshake.wanted()), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) return dismiss(guest, &Counters::unfinished, "it closed the connection");
    guest.handshake.feed({in, size_t(n)});
  }
}

void Rail::serve_guest(Guest& guest, Sink& sink) {
  if (!guest.fd) return;  // dismissed earlier in this round
  for (;;) {
    receive_guest(guest);
    if (!guest.fd) return;
    const net::Bytes out = guest.handshake.output();
    if (!out.empty()) {
      // a few hundred bytes into an empty socket: whoever makes that fail gets no second chance
      if (::send(guest.fd.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT) != ssize_t(out.size()))
        return dismiss(guest, &Counters::unfinished, "it does not take the answer");
      guest.handshake.sent(out.size());
    } else if (guest.handshake.state() == net::Handshake::State::going) {
      return;
    }
    if (guest.handshake.state() == net::Handshake::State::failed) return dismiss(guest, &Counters::refused, guest.handshake.why());
    if (guest.handshake.state() == net::Handshake::State::proven) break;
  }
  Link* link = nullptr;
  const net::Verdict verdict = judge(guest, sink, link);
  guest.handshake.decide(verdict);
  const net::Bytes out = guest.handshake.output();
  const bool told = ::send(guest.fd.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t(out.size());
  if (verdict == net::Verdict::welcome && told) {
    unwatch(guest);
    link->adopt(std::move(guest.fd));
  }
  forget(guest);
}

/// Decides about a process that has proved to belong to the job. Of two attempts that cross, the lower rank's goes on.
net::Verdict Rail::judge(const Guest& guest, Sink& sink, Link*& link) {
  const auto they = Introduction::from(guest.handshake.claim());
  const boot::Job& job = boot_.job();
  if (!they || they->job != job_number(job.name) || they->wanted != job.rank || they->wanted_rail != index_ || they->rank == job.rank ||
      they->rank >= job.size) {
    ++counters_.refused;
    return net::Verdict::refused;
  }
  const ProcessId who{0, they->rank};
  auto known = links_.find(who);
  if (known == links_.end()) {
    void* cookie = sink.meet(who);  // may call connect()
    const bool connected = links_.contains(who);
    link = &link_to(who);
    if (!connected) link->cookie_ = cookie;
  } else {
    link = known->second.get();
  }
  if (link->host_.empty()) link->host_ = they->host;
  switch (link->state_) {
    case Link::State::idle:
    case Link::State::waiting: return net::Verdict::welcome;
    case Link::State::connecting:
    case Link::State::shaking: return they->rank < job.rank ? net::Verdict::welcome : net::Verdict::crossing;
    case Link::State::open:
      // It would not knock again if the connection still stood at its end.
      if (link->several_ && now_ns() - link->opened_ > kAnew) link->fail("the peer has given the connection up");
      return net::Verdict::crossing;
    case Link::State::dead: return link->several_ ? net::Verdict::crossing : net::Verdict::refused;
    case Link::State::left: break;
  }
  return net::Verdict::refused;
}

// ---- leaving

bool Rail::drain() {
  draining_ = true;
  pause_ = 0;
  bool done = true;
  for (auto& [who, link] : links_) done = link->leave() && done;
  return done && mourned_.empty();
}

std::string Rail::who_text(const Link& link) const {
  return "rank " + std::to_string(link.who_.rank) + (link.host_.empty() ? "" : " on " + link.host_);
}

}  // namespace weft::btl::tcp
