// A rail: its queues, arrivals, reports, sleep.
#include "btl/verbs/rail.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "btl/verbs/words.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

namespace weft::btl::verbs {
namespace {

using obs::Gauge;
const obs::Figures<Counters> figures("verbs",
                                     {
                                         {"lost", Gauge::counter, &Counters::lost, "ways to peers lost"},
                                         {"no_credit", Gauge::counter, &Counters::no_credit, "sends that found the peer's slots in use"},
                                         {"credit_messages", Gauge::counter, &Counters::credit_messages,
                                          "messages that only gave credit back"},
                                         {"strays", Gauge::counter, &Counters::strays, "arrivals over ways that were closed already"},
                                     });

constexpr uint32_t kSendSlots = 512;
constexpr uint32_t kFewestReceives = 1024;   // of the shared queue
constexpr size_t kRefillFrom = 4;            // emptied slots; fewer than the spare ones of a peer that credit and farewells leave
constexpr int kFlushPolls = 64;              // in vain, before nothing more is expected of queue pairs in error
constexpr uint32_t kPollsPerLook = 64;       // polls between looks at the clock
constexpr uint64_t kLookEvery = 400'000;     // ns between looks at sockets
constexpr uint64_t kLookEveryBusy = 10'000;  // while ways are being set up

/// Reading costs a message less than writing and no work of the sender's. soft-RoCE reads more slowly than it writes.
uint64_t put_from(const Options& options, const Device& device) {
  if (options.put_from) return options.put_from;
  return device.software() ? 64 << 10 : ~uint64_t{0};
}

Caps caps_for(const Options& options, const Device& device) {
  const net::RdmaPort& port = device.port;
  Caps caps;
  caps.name = "verbs";
  caps.device = port.name();
  caps.max_inline = caps.max_buffered = kMostPayload;
  caps.get = caps.put = true;
  caps.atomics = device.atomics();
  caps.put_from = put_from(options, device);
  caps.revives = true;
  caps.alpha_ns = 2'000;
  caps.beta_ns_per_byte = beta_of(port.mbit);
  caps.near = is_near("/sys/class/infiniband/" + port.device);
  return caps;
}

/// Lets descriptors of the library be read without waiting.
void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

Rail::Rail(const Site& site, const Options& options, std::shared_ptr<Shared> shared, std::shared_ptr<const Card> card, size_t index,
           std::vector<net::Fd> listeners)
    : boot_(site.boot),
      options_(options),
      shared_(std::move(shared)),
      card_(std::move(card)),
      index_(index),
      device_(*shared_->devices[index]),
      verbs_(device_.verbs),
      caps_(caps_for(options_, device_)),
      send_slots_(device_, kSlotBytes, kSendSlots),
      receive_slots_(device_, kSlotBytes, ~0u),
      doorman_({.where = "verbs " + caps_.device, .patience_ns = uint64_t{options_.guest_s} * 1'000'000'000u},
               key_of(site.boot.job().secret, "verbs", card_->token), std::move(listeners)) {
  watch(doorman_.door(), EPOLLIN);
}

void Rail::report(obs::Tally& tally) const {
  doorman_.report(tally);
  tally.add(figures, counters_);
  if (index_ == 0) shared_->cache.report(tally);  // all rails have one
}

Result<std::unique_ptr<Rail>> Rail::open(const Site& site, const Options& options, std::shared_ptr<Shared> shared,
                                         std::shared_ptr<const Card> card, size_t index, std::vector<net::Fd> listeners) {
  std::unique_ptr<Rail> rail(new Rail(site, options, std::move(shared), std::move(card), index, std::move(listeners)));
  if (auto made = rail->make_queues(); !made) return made.failure();
  return rail;
}

/// The completion channel, the completion queue and the shared receive queue.
Result<void> Rail::make_queues() {
  const ibv_device_attr& limits = device_.limits;
  channel_ = verbs_.create_comp_channel(device_.context);
  if (!channel_) return trouble("make a completion channel", caps_.device, errno);
  set_nonblocking(channel_->fd);
  set_nonblocking(device_.context->async_fd);
  // the library owns these descriptors
  arrivals_.fd = net::Fd(fcntl(channel_->fd, F_DUPFD_CLOEXEC, 3));
  device_events_.fd = net::Fd(fcntl(device_.context->async_fd, F_DUPFD_CLOEXEC, 3));
  watch(arrivals_, EPOLLIN);
  watch(device_events_, EPOLLIN);
  const uint32_t peers = boot_.job().size;
  receives_most_ = std::min<uint32_t>(uint32_t(std::max(limits.max_srq_wr, 64)), kFewestReceives + std::min(peers, 4096u) * 16);
  const int reports = int(std::min<uint32_t>(uint32_t(limits.max_cqe), receives_most_ + std::min(peers, 16u) * 256));
  completions_ = verbs_.create_cq(device_.context, reports, nullptr, channel_, 0);
  if (!completions_) return trouble("make a completion queue", caps_.device, errno);
  ibv_srq_init_attr wish{};
  wish.attr.max_wr = receives_most_;
  wish.attr.max_sge = 1;
  receives_ = verbs_.create_srq(device_.domain, &wish);
  if (!receives_) return trouble("make a shared receive queue", caps_.device, errno);
  reports_reserved_ = receives_most_;
  return {};
}

Rail::~Rail() {
  auto drop = [&](Bulk* bulk) {
    for (const Bulk::Piece& piece : bulk->pieces) shared_->cache.release(piece.registration);
    delete bulk;
  };
  for (auto& [who, link] : links_) {
    for (Bulk* bulk : link->release_queues()) drop(bulk);
    for (Bulk* bulk : link->orphans_) drop(bulk);
  }
  for (mem::Registration* registration : exposed_)
    if (registration) shared_->cache.release(registration);
  if (receives_) verbs_.destroy_srq(receives_);
  if (completions_) verbs_.destroy_cq(completions_);
  if (channel_) verbs_.destroy_comp_channel(channel_);
}

bool Rail::reaches(ProcessId who, const boot::Blob& address) const {
  if (who == ProcessId{0, boot_.job().rank}) return false;
  const auto card = Card::decode(address);
  return card && partner_of(gid_worth, *card_, boot_.job().rank, index_, *card, who.rank) >= 0;
}

Price Rail::price(ProcessId who, const boot::Blob& address) const {
  const auto card = Card::decode(address);
  const int partner = card ? partner_of(gid_worth, *card_, boot_.job().rank, index_, *card, who.rank) : -1;
  return partner < 0 ? Transport::price(who, address) : price_between(caps_, card->rails[size_t(partner)]);
}

Link& Rail::link_to(ProcessId who) {
  auto& slot = links_[who];
  if (!slot) slot = std::make_unique<Link>(*this, who);
  return *slot;
}

Result<Endpoint*> Rail::connect(ProcessId who, const boot::Blob& address, void* cookie) {
  const auto card = Card::decode(address);
  if (!card) return Failure{text_of(who) + " published no valid verbs address; do all processes run the same version of Weft?"};
  const int partner = partner_of(gid_worth, *card_, boot_.job().rank, index_, *card, who.rank);
  if (partner < 0)
    return Failure{"verbs " + caps_.device + " has no common network with " + text_of(who) + " on " + card->host +
                   "; see WEFT_VERBS_DEVICES and WEFT_VERBS_GID"};
  const auto ways = btl::ways(*card_, index_, *card, size_t(partner));
  if (ways.empty())
    return Failure{"no network leads to " + text_of(who) + " on " + card->host +
                   " on which verbs connections could be set up; see WEFT_NET_INTERFACES"};
  Link& link = link_to(who);
  if (link.state_ == Link::State::closed) {  // opened anew
    std::erase(mourned_, &link);
    link.state_ = Link::State::idle;
    link.why_.clear();
    link.attempts_ = 0;
    ++link.generation_;
  }
  link.cookie_ = cookie;
  link.host_ = card->host;
  link.ways_ = ways;
  link.key_ = key_of(boot_.job().secret, "verbs", card->token);
  if (link.queues_.empty()) {
    const GidPair gids = best_gids(*card_, index_, *card, size_t(partner));
    link.here_ = gids.mine;
    link.there_ = gids.theirs;
    link.their_rail_ = uint8_t(partner);
  }
  return &link;
}

// ---- progress

int Rail::poll(Sink& sink) {
  int events = 0;
  ibv_wc completions[kBatch];
  if (!stash_.empty()) [[unlikely]]
    events += take(std::exchange(stash_, {}), sink);  // may leave others there, which come before what lies in the queue
  else if (const int n = ibv_poll_cq(completions_, kBatch, completions); n > 0)
    events += take({completions, size_t(n)}, sink);
  else if (!empty_.empty())
    refill();  // while there is nothing to do: whoever waits for an answer to what has come gets it sooner
  if (++polls_ >= (busy_links_ ? 1 : kPollsPerLook)) [[unlikely]] {
    polls_ = 0;
    if (const uint64_t now = now_ns(); now >= next_look_) {
      next_look_ = now + (busy_links_ || doorman_.busy() ? kLookEveryBusy : kLookEvery);
      events += look(sink);
    }
  }
  if (!mourned_.empty()) [[unlikely]]
    events += report(sink);
  shared_->cache.tidy();
  return events;
}

int Rail::take(std::span<const ibv_wc> completions, Sink& sink) {
  for (const ibv_wc& each : completions) {
    if (each.wr_id & kArrival)
      take_arrival(each, sink);
    else
      take_report(each);
  }
  if (empty_.size() >= kRefillFrom) refill();
  if (!owing_.empty()) pay_debts();
  for (size_t i = pushing_.size(); i-- > 0;) {
    Link* link = pushing_[i];
    pushing_.erase(pushing_.begin() + ptrdiff_t(i));
    link->push_bulks();  // comes back if that is not all
    i = std::min(i, pushing_.size());
  }
  return int(completions.size());
}

void Rail::take_arrival(const ibv_wc& completion, Sink& sink) {
  const auto slot = uint32_t(completion.wr_id);
  empty_.push_back(slot);
  const auto known = by_number_.find(completion.qp_num);
  if (known == by_number_.end()) {
    ++counters_.strays;
    return;
  }
  Link& link = *known->second.first;
  if (completion.status == IBV_WC_SUCCESS)
    link.arrived(receive_slots_.at(slot), completion.byte_len, std::bit_cast<Tag>(completion.imm_data), sink);
  else
    link.fail(explain(completion.status, completion.vendor_err));
}

void Rail::take_report(const ibv_wc& completion) {
  const auto known = by_name_.find(uint32_t(completion.wr_id >> 32));
  if (known == by_name_.end()) return;  // of a way that was closed
  auto [link, index] = known->second;
  if (completion.status == IBV_WC_SUCCESS)
    link->done(link->queues_[index], uint32_t(completion.wr_id));
  else
    link->fail(explain(completion.status, completion.vendor_err));
}

/// Takes what has come for a way out of the completion queue before its queue pairs end: with them hardware (mlx5) drops what nobody has
/// looked at, and the slots of the shared receive queue that it lies in would be lost. A pair that is put into error also gives back the
/// slot of a message that was just coming.
void Rail::withdraw(Link& link) {
  for (const Queue& queue : link.queues_) {
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    if (queue.pair) verbs_.modify_qp(queue.pair, &error, IBV_QP_STATE);  // if it cannot be, it ends as it is
  }
  const auto gone = [&](const ibv_wc& completion) {
    if (!(completion.wr_id & kArrival)) return false;  // reports are known by names that end with the pair
    const auto known = by_number_.find(completion.qp_num);
    if (known == by_number_.end() || known->second.first != &link) return false;
    empty_.push_back(uint32_t(completion.wr_id));
    ++counters_.strays;
    return true;
  };
  std::erase_if(stash_, gone);
  ibv_wc completions[kBatch];
  for (int idle = 0; idle < kFlushPolls;) {
    const int n = ibv_poll_cq(completions_, kBatch, completions);
    idle = n > 0 ? 0 : idle + 1;
    for (int i = 0; i < n; ++i)
      if (!gone(completions[i])) stash_.push_back(completions[i]);
  }
}

/// Posts emptied slots again. False: the device does not take them, and they are lost.
bool Rail::refill() {
  ibv_recv_wr requests[kBatch], *bad = nullptr;
  ibv_sge pieces[kBatch];
  while (!empty_.empty()) {
    const size_t n = std::min<size_t>(empty_.size(), kBatch);
    for (size_t i = 0; i < n; ++i) {
      const uint32_t slot = empty_[empty_.size() - n + i];
      pieces[i] = {reinterpret_cast<uint64_t>(receive_slots_.at(slot)), kSlotBytes, receive_slots_.key(slot)};
      requests[i] = {kArrival | slot, i + 1 < n ? &requests[i + 1] : nullptr, &pieces[i], 1};
    }
    if (const int error = ibv_post_srq_recv(receives_, requests, &bad)) {
      log(Level::warning, "verbs %s: slots for messages are lost: %s", caps_.device.c_str(), strerror(error));
      empty_.clear();
      return false;
    }
    empty_.resize(empty_.size() - n);
  }
  return true;
}

/// Posts `n` more slots for arrivals.
bool Rail::reserve_slots(uint32_t n) {
  if (slots_reserved_ + n > receives_most_) {
    log(Level::info, "verbs %s: all %u receives of the shared queue are in use", caps_.device.c_str(), receives_most_);
    return false;
  }
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t slot = receive_slots_.take();
    if (slot == Slots::kNone) return false;
    empty_.push_back(slot);
    ++slots_reserved_;
  }
  return refill();
}

/// Sees to it that the completion queue cannot overflow.
bool Rail::reserve_reports(uint32_t n) {
  const uint32_t wanted = reports_reserved_ + n;
  if (wanted > uint32_t(completions_->cqe)) {
    if (int64_t{wanted} > device_.limits.max_cqe) return false;
    if (verbs_.resize_cq(completions_, int(std::min<int64_t>(int64_t{wanted} * 2, device_.limits.max_cqe))) != 0) return false;
  }
  reports_reserved_ = wanted;
  return true;
}

/// Gives back credit to those who wait for it.
void Rail::pay_debts() {
  std::erase_if(owing_, [](Link* link) {
    if (!link->give_credit()) return false;
    link->owing_ = false;
    return true;
  });
}

/// Tells the sink of the ways lost since the last time.
int Rail::report(Sink& sink) {
  int count = 0;
  while (!mourned_.empty()) {
    Link& link = *mourned_.back();
    mourned_.pop_back();
    ++count;
    for (Bulk* bulk : std::exchange(link.orphans_, {})) link.finish(*bulk, Status::peer_failed);
    if (link.state_ != Link::State::closed) continue;  // it had taken its leave
    ++counters_.lost;
    sink.lost(link.cookie_, link.why_);
  }
  return count;
}

// ---- sleep

bool Rail::arm() {
  next_look_ = 0;
  polls_ = kPollsPerLook;
  if (!empty_.empty()) refill();
  if (!stash_.empty() || !mourned_.empty() || !owing_.empty()) return false;
  if (!armed_) {
    if (ibv_req_notify_cq(completions_, 0) != 0) return false;
    armed_ = true;
  }
  // what came before the request does not ring
  ibv_wc completions[kBatch];
  const int n = ibv_poll_cq(completions_, kBatch, completions);
  if (n > 0) stash_.assign(completions, completions + n);
  return n <= 0;
}

void Rail::disarm() {
  next_look_ = 0;
  polls_ = kPollsPerLook;
  consume_events();
}

void Rail::consume_events() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (armed_ && verbs_.get_cq_event(channel_, &queue, &context) == 0) {
    verbs_.ack_cq_events(queue, 1);
    armed_ = false;
  }
}

/// What happens to the device and its port: said in the log. Ways that break with it report themselves.
void Rail::device_event() {
  ibv_async_event event{};
  while (verbs_.get_async_event(device_.context, &event) == 0) {
    const bool of_port = event.event_type == IBV_EVENT_PORT_ERR || event.event_type == IBV_EVENT_PORT_ACTIVE;
    const bool bad = event.event_type == IBV_EVENT_DEVICE_FATAL || event.event_type == IBV_EVENT_CQ_ERR;
    if (!of_port || event.element.port_num == device_.port.port)
      log(bad ? Level::warning : Level::info, "verbs %s: %s", caps_.device.c_str(), verbs_.event_type_str(event.event_type));
    verbs_.ack_async_event(&event);
    if (!bad) continue;
    for (auto& [who, link] : links_)
      if (link->state_ == Link::State::open) link->fail(std::string("the device has failed: ") + verbs_.event_type_str(event.event_type));
  }
}

// ---- leaving

bool Rail::drain() {
  draining_ = true;
  bool done = true;
  for (auto& [who, link] : links_) done = link->leave() && done;
  return done && mourned_.empty();
}

// ---- words

std::string Rail::who_text(const Link& link) const { return text_of(link.who_) + (link.host_.empty() ? "" : " on " + link.host_); }

std::string Rail::explain(int status, uint32_t vendor) const {
  const auto end = ibv_wc_status(status);
  return std::string(verbs_.wc_status_str(end)) + " (status " + std::to_string(status) + ", vendor " + std::to_string(vendor) +
         "): " + usual_meaning(end);
}

}  // namespace weft::btl::verbs
