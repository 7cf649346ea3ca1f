#include "btl/tcp/rail.h"

#include <algorithm>

#include "btl/porter.h"
#include "runtime/base/clock.h"

namespace weft::btl::tcp {
namespace {

const obs::Figures<Counters> figures("tcp", {{"lost", obs::Gauge::counter, &Counters::lost, "connections to peers lost"},
                                             {"writes", obs::Gauge::counter, &Counters::writes, "system calls that sent"},
                                             {"reads", obs::Gauge::counter, &Counters::reads, "system calls that brought something"}});

constexpr uint32_t kLooksBeforeRest = 500;  // fruitless looks until poll() begins to skip
constexpr uint64_t kShortestPause = 2'000;  // ticks between looks
constexpr uint64_t kLongestPause = 40'000;  // with connections open; about 15 us
constexpr uint64_t kLongestPauseAlone = 200'000;
constexpr uint64_t kDirectFor = 40'000;    // ticks in which only the liveliest connection is looked at, before another look at all of them
constexpr uint64_t kAnew = 1'000'000'000;  // ns after which an attempt of the peer's cannot have crossed ours any more

Caps caps_for(const Card::Rail& rail) {
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
  caps.gathers = caps.light = true;
  caps.eager_in_place = 1024 * 1024;
  caps.alpha_ns = loopback ? 8'000 : 15'000;
  caps.beta_ns_per_byte = loopback ? 0.3 : beta_of(rail.mbit);
  caps.near = is_near("/sys/class/net/" + rail.device);
  return caps;
}

}  // namespace

Rail::Rail(const Site& site, Options options, std::shared_ptr<const Card> card, size_t index, std::vector<net::Fd> listeners)
    : boot_(site.boot),
      options_(std::move(options)),
      card_(std::move(card)),
      index_(index),
      caps_(caps_for(card_->rails[index])),
      doorman_({.where = "tcp " + caps_.device,
                .guests = options_.guests,
                .patience_ns = uint64_t{options_.guest_s} * 1'000'000'000u,
                .silence_s = int(options_.silence_s)},
               key_of(site.boot.job().secret, "tcp", card_->token), std::move(listeners)) {
  watch(doorman_.door(), EPOLLIN);
  watch(alarm_, EPOLLIN);
}

Rail::~Rail() {
  for (auto& [who, link] : links_)
    if (link->fd) shutdown(link->fd.get(), SHUT_RDWR);
}

void Rail::report(obs::Tally& tally) const {
  doorman_.report(tally);
  tally.add(figures, counters_);
}

bool Rail::reaches(ProcessId who, const boot::Blob& address) const {
  if (who == ProcessId{0, boot_.job().rank}) return false;
  const auto card = Card::decode(address);
  return card && partner_of(best_reach, *card_, boot_.job().rank, index_, *card, who.rank) >= 0;
}

Price Rail::price(ProcessId who, const boot::Blob& address) const {
  const auto card = Card::decode(address);
  const int partner = card ? partner_of(best_reach, *card_, boot_.job().rank, index_, *card, who.rank) : -1;
  return partner < 0 ? Transport::price(who, address) : price_between(caps_, card->rails[size_t(partner)]);
}

Link& Rail::link_to(ProcessId who) {
  auto& slot = links_[who];
  if (!slot) slot = std::make_unique<Link>(*this, who);
  return *slot;
}

Result<Endpoint*> Rail::connect(ProcessId who, const boot::Blob& address, void* cookie) {
  const auto card = Card::decode(address);
  if (!card) return Failure{text_of(who) + " published no valid tcp address; do all processes run the same version of Weft?"};
  const int partner = partner_of(best_reach, *card_, boot_.job().rank, index_, *card, who.rank);
  if (partner < 0)
    return Failure{"tcp " + caps_.device + " has no common network with " + text_of(who) + " on " + card->host +
                   "; see WEFT_NET_INTERFACES"};
  Link& link = link_to(who);
  link.cookie_ = cookie;
  link.host_ = card->host;
  link.their_rail_ = partner;
  link.ways_ = ways(*card_, index_, *card, size_t(partner));
  for (size_t i = 0; i < card_->rails.size(); ++i)
    link.several_ |= i != index_ && partner_of(best_reach, *card_, boot_.job().rank, i, *card, who.rank) >= 0;
  const bool told = std::ranges::find(mourned_, &link) == mourned_.end();
  if (link.several_ && link.state_ == Link::State::dead && told) link.reopen();
  link.key_ = key_of(boot_.job().secret, "tcp", card->token);
  return &link;
}

// ---- progress

int Rail::poll(Sink& sink) {
  const uint64_t now = ticks();
  if (now - last_look_ < pause_ && mourned_.empty()) return 0;
  last_look_ = now;
  int events = report(sink);
  if (lively_ && now - last_look_at_all_ < kDirectFor && !lively_->blocked() && !lively_->expects_bulk())
    events += lively_->receive(sink);
  else
    last_look_at_all_ = now, events += look_at_all(sink);
  events += report(sink);
  rest(events);
  return events;
}

int Rail::look_at_all(Sink& sink) {
  epoll_event ready[32];
  const int n = watcher_.look(ready);
  int events = n;
  for (int i = 0; i < n; ++i) events += serve(ready[i], sink);
  if (n > 0) choose_lively(n == 1 ? net::Watcher::who(ready[0]) : nullptr);
  return events;
}

/// The connection that alone had something twice in a row is asked directly from then on, until another one has something.
void Rail::choose_lively(net::Watched* only) {
  Link* link = only && only != &doorman_.door() && only != &alarm_ ? static_cast<Link*>(only) : nullptr;
  if (link && link->state_ != Link::State::open) link = nullptr;
  lively_ = link == last_ready_ ? link : nullptr;
  last_ready_ = link;
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
  net::Watched* who = net::Watcher::who(event);
  if (who == &doorman_.door()) {
    Porter porter(*this, sink);
    return doorman_.serve(porter);
  }
  if (who != &alarm_) return static_cast<Link*>(who)->serve(event.events, sink);
  if (alarm_.rung()) check_deadlines();
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

void Rail::check_deadlines() {
  const uint64_t now = now_ns();
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

/// Decides about a process of the job. Of two attempts that cross, the lower rank's goes on.
net::Verdict Rail::judge(const Introduction& they, Link& link) {
  switch (link.state_) {
    case Link::State::idle:
    case Link::State::waiting: return net::Verdict::welcome;
    case Link::State::connecting:
    case Link::State::shaking: return they.rank < boot_.job().rank ? net::Verdict::welcome : net::Verdict::crossing;
    case Link::State::open:
      // It would not knock again if the connection still stood at its end.
      if (link.several_ && now_ns() - link.opened_ > kAnew) link.fail("the peer has given the connection up");
      return net::Verdict::crossing;
    case Link::State::dead: return link.several_ ? net::Verdict::crossing : net::Verdict::refused;
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

std::string Rail::who_text(const Link& link) const { return text_of(link.who_) + (link.host_.empty() ? "" : " on " + link.host_); }

}  // namespace weft::btl::tcp
