// How ways are set up: a tcp connection on which both sides prove the job's secret, exchange proposals, and which then closes.
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "btl/porter.h"
#include "btl/verbs/flow.h"
#include "btl/verbs/rail.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/net/link_state.h"

namespace weft::btl::verbs {
namespace {

constexpr uint64_t kFirstPause = 20'000'000;    // ns before the second round of attempts; grows fourfold
constexpr uint64_t kCrossing = 200'000'000;     // ns that the peer's own attempt may take before ours is repeated
constexpr uint64_t kExchange = 30'000'000'000;  // ns for a proposal of one that has proved itself
constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint8_t kReady = 'R';
constexpr uint32_t kMessageDepth = 128, kBulkDepth = 64;  // work requests under way; powers of two
constexpr uint32_t kSpareSlots = 8;                       // per peer: for credit, farewell, and what a broken queue pair keeps

/// What the peer may send before it hears more. Few at many peers: memory grows with each.
uint16_t grant_for(size_t peers) { return peers <= 16 ? 64 : peers <= 128 ? 16 : 8; }

std::string explain_socket(const char* what, int error) {
  const char* meaning = error == ECONNREFUSED                           ? "its process has ended, or a firewall refuses the port"
                        : error == ECONNRESET || error == EPIPE         ? "its process most likely died: see what it printed last"
                        : error == EHOSTUNREACH || error == ENETUNREACH ? "there is no route: see WEFT_NET_INTERFACES"
                                                                        : "check the network between the hosts, and WEFT_NET_INTERFACES";
  return std::string(what) + " over tcp: " + strerror(error) + "; " + meaning;
}

}  // namespace

// ---- bytes to be exchanged whole

void Exchange::send(const void* data, size_t n) {
  const auto* first = static_cast<const std::byte*>(data);
  out_.insert(out_.end(), first, first + n);
}

bool Exchange::go_on(int fd) {
  while (sending()) {
    const ssize_t n = ::send(fd, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) return false;
    sent_ += size_t(n);
  }
  while (receiving()) {
    const ssize_t n = recv(fd, in_.data() + have_, in_.size() - have_, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n == 0) errno = ECONNRESET;
    if (n <= 0) return false;
    have_ += size_t(n);
  }
  return true;
}

// ---- own attempts

void Link::begin() {
  if (ways_.empty()) return fail("no address of it is known");
  const Way& way = ways_[attempts_ % ways_.size()];
  ++attempts_;
  auto socket = net::start_connect(way.from, way.to, 0);
  if (!socket) return attempt_failed(socket.failure().text);
  fd = std::move(*socket);
  if (!busy()) ++rail_.busy_links_;
  state_ = State::connecting;
  deadline_ = now_ns() + uint64_t{rail_.options_.connect_s} * kSecond;
  rail_.watch(*this, EPOLLOUT);
}

void Link::connected() {
  if (const int error = net::pending_error(fd.get())) return attempt_failed(explain_socket("cannot connect", error));
  net::tune_stream(fd.get(), 60);
  state_ = State::shaking;
  const boot::Job& job = rail_.boot_.job();
  const Introduction me{"verbs", job_number(job.name), job.rank, who_.rank, generation_, uint8_t(rail_.index_), their_rail_, job.host};
  handshake_ = std::make_unique<net::Handshake>(net::Handshake::initiate(key_, me.claim()));
  shake();
}

/// Moves the handshake of an own attempt on, as far as the socket lets it. It has no time limit: the peer may compute for long.
void Link::shake() {
  switch (net::advance(fd.get(), *handshake_)) {
    case net::Advance::wants_write: return rail_.watch(*this, EPOLLIN | EPOLLOUT);
    case net::Advance::wants_read: return rail_.watch(*this, EPOLLIN);
    case net::Advance::broken: return attempt_failed(explain_socket("the handshake broke off", errno));
    case net::Advance::closed: return attempt_failed("it closed the connection during the handshake");
    case net::Advance::ended: break;
  }
  if (handshake_->state() == net::Handshake::State::failed) return attempt_failed(handshake_->why());
  conclude();
}

/// The peer has decided.
void Link::conclude() {
  const net::Verdict verdict = handshake_->verdict();
  if (verdict == net::Verdict::refused) return fail("it refuses this process: it has ended its communication, or belongs to another job");
  if (verdict == net::Verdict::welcome) return propose();
  // both sides were at it and the other attempt goes on, or the peer has not opened a lost way anew: ours comes again
  hang_up(State::waiting);
  attempts_ = 0;
  deadline_ = now_ns() + kCrossing;
}

void Link::propose() {
  handshake_.reset();
  state_ = State::proposing;
  if (!make_queues()) return;
  const Proposal mine = proposal();
  exchange_ = {};
  exchange_.send(&mine, sizeof mine);
  exchange_.expect(sizeof mine);
  exchange();
}

/// Tries the next address, after a pause when all had their turn; gives up after the last round.
void Link::attempt_failed(const std::string& why) {
  release_queues();
  if (ways_.empty()) return hang_up(State::idle);  // it was the peer's attempt
  const size_t round = attempts_ / ways_.size();
  if (round >= rail_.options_.rounds)
    return fail("no connection can be set up with it (" + std::to_string(attempts_) + " attempts): " + why);
  hang_up(State::waiting);
  why_ = why;
  const uint64_t pause = attempts_ % ways_.size() != 0 || round == 0 ? 0 : kFirstPause << (2 * std::min<size_t>(round - 1, 4));
  deadline_ = now_ns() + pause;
}

// ---- both sides

/// The peer's attempt goes on, whatever became of attempts of our own.
void Link::adopt(net::Fd socket) {
  release_queues();
  if (state_ != State::idle) hang_up(State::idle);
  fd = std::move(socket);
  state_ = State::answering;
  ++rail_.busy_links_;
  deadline_ = now_ns() + kExchange;
  exchange_ = {};
  exchange_.expect(sizeof(Proposal));
  exchange();
}

/// Moves the exchange of proposals on.
void Link::exchange() {
  if (!exchange_.go_on(fd.get())) return attempt_failed(explain_socket("the connection broke off while queue pairs were set up", errno));
  if (!exchange_.sending() && !exchange_.receiving()) {
    if (state_ == State::answering && !queues_.empty()) return opened();  // its word was that it is ready
    return take_proposal();
  }
  rail_.watch(*this, exchange_.sending() ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void Link::take_proposal() {
  Proposal theirs;
  memcpy(&theirs, exchange_.received(), sizeof theirs);
  if (const std::string why = objection(theirs, kSlotBytes); !why.empty()) return fail(why);
  if (state_ == State::answering) {
    // it has read our card and so decides about the addresses
    const auto& gids = rail_.device_.port.gids;
    const auto mine = std::ranges::find(gids, theirs.other_gid, &net::Gid::bytes);
    if (mine == gids.end()) return fail("it asks for an address that " + rail_.caps_.device + " does not have");
    here_ = *mine;
    there_ = here_;
    there_.bytes = theirs.gid;
    if (!make_queues()) return;
  }
  if (!raise_queues(theirs)) return;
  if (state_ == State::answering) {
    const Proposal mine = proposal();
    exchange_ = {};
    exchange_.send(&mine, sizeof mine);
    exchange_.expect(sizeof kReady);
    return exchange();
  }
  // a byte into an empty socket; should it be lost, the first message says the same
  if (::send(fd.get(), &kReady, sizeof kReady, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof kReady)
    return attempt_failed(explain_socket("the connection broke off while queue pairs were set up", errno));
  opened();
}

/// Room for what the peer sends. False: the way has failed.
bool Link::reserve() {
  granted_ = grant_for(rail_.links_.size());
  const uint32_t slots = granted_ + kSpareSlots;
  const bool anew = slots_ > 0;
  if (slots > slots_ && !rail_.reserve_slots(slots - slots_))
    return fail("there is no memory for messages of another peer; WEFT_LOG=info says more"), false;
  if (!anew && !rail_.reserve_reports(kMessageDepth + rail_.options_.flows * kBulkDepth))
    return fail("the device's completion queue cannot grow for another peer"), false;
  slots_ = std::max(slots_, slots);
  // A queue pair that broke may have kept the slot of a message that was coming, though hardware gives it back as a rule: see withdraw().
  if (anew && replaced_ < kSpareSlots && rail_.reserve_slots(1)) ++replaced_;
  return true;
}

/// The queue pairs of a way, ready to be connected. False: the way has failed.
bool Link::make_queues() {
  release_queues();
  if (!reserve()) return false;
  const uint32_t count = 1 + rail_.options_.flows;
  queues_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    Queue& queue = queues_[i];
    const uint32_t depth = i == 0 ? kMessageDepth : kBulkDepth;
    ibv_qp_init_attr wish{};
    for (const uint32_t inline_bytes : {i == 0 ? 256u : 0u, i == 0 ? 64u : 0u, 0u}) {
      wish = {};
      wish.send_cq = wish.recv_cq = rail_.completions_;
      wish.srq = rail_.receives_;
      wish.cap.max_send_wr = depth;
      wish.cap.max_send_sge = 3;
      wish.cap.max_inline_data = inline_bytes;
      wish.qp_type = IBV_QPT_RC;
      queue.pair = rail_.verbs_.create_qp(rail_.device_.domain, &wish);
      if (queue.pair) break;
    }
    if (!queue.pair) return fail(trouble("make a queue pair", rail_.caps_.device, errno).text), false;
    queue.inline_bytes = wish.cap.max_inline_data;
    queue.outstanding = Outstanding<Held>(depth);
    queue.name = rail_.next_name_++ & 0x7fffffff;
    net::fill_random(std::as_writable_bytes(std::span(&queue.packet, 1)));
    queue.packet &= 0xffffff;
    rail_.by_number_[queue.pair->qp_num] = {this, i};
    rail_.by_name_[queue.name] = {this, i};
  }
  if (queues_[0].inline_bytes < kFront) return fail("the device " + rail_.caps_.device + " takes no inline data"), false;
  return true;
}

Proposal Link::proposal() const {
  Proposal mine;
  const net::RdmaPort& port = rail_.device_.port;
  mine.slot_bytes = kSlotBytes;
  mine.generation = generation_;
  mine.credits = uint16_t(granted_);
  mine.lid = port.lid;
  mine.queues = uint8_t(queues_.size());
  const uint32_t mtu = rail_.options_.mtu ? std::min(rail_.options_.mtu, port.mtu) : port.mtu;
  mine.mtu = uint8_t(std::clamp<int>(std::bit_width(mtu) - 8, IBV_MTU_256, IBV_MTU_4096));
  mine.reads = uint8_t(std::clamp(rail_.device_.limits.max_qp_rd_atom, 1, 16));
  mine.gid = here_.bytes;
  mine.other_gid = there_.bytes;
  for (size_t i = 0; i < queues_.size(); ++i) {
    mine.numbers[i] = queues_[i].pair->qp_num;
    mine.packets[i] = queues_[i].packet;
  }
  return mine;
}

/// Connects the queue pairs with those of the peer. False: the way has failed.
bool Link::raise_queues(const Proposal& theirs) {
  const Options& options = rail_.options_;
  const net::RdmaPort& port = rail_.device_.port;
  // the side with fewer decides; those that have no partner stay unused
  while (queues_.size() > theirs.queues) {
    rail_.by_number_.erase(queues_.back().pair->qp_num);
    rail_.by_name_.erase(queues_.back().name);
    rail_.verbs_.destroy_qp(queues_.back().pair);
    queues_.pop_back();
  }
  for (size_t i = 0; i < queues_.size(); ++i) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.pkey_index = 0;
    a.port_num = port.port;
    a.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | (rail_.caps_.atomics ? unsigned{IBV_ACCESS_REMOTE_ATOMIC} : 0u);
    int error = rail_.verbs_.modify_qp(queues_[i].pair, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error) return fail(trouble("initialise a queue pair", rail_.caps_.device, error).text), false;
    a = {};
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = ibv_mtu(std::min(theirs.mtu, proposal().mtu));
    a.dest_qp_num = theirs.numbers[i];
    a.rq_psn = theirs.packets[i] & 0xffffff;
    a.max_dest_rd_atomic = uint8_t(std::clamp(rail_.device_.limits.max_qp_rd_atom, 1, 16));
    a.min_rnr_timer = 12;  // 0.64 ms
    a.ah_attr.port_num = port.port;
    a.ah_attr.sl = options.service_level;
    a.ah_attr.dlid = theirs.lid;
    a.ah_attr.is_global = port.ethernet || !std::equal(here_.bytes.begin(), here_.bytes.begin() + 8, there_.bytes.begin());
    memcpy(a.ah_attr.grh.dgid.raw, there_.bytes.data(), 16);
    a.ah_attr.grh.sgid_index = here_.index;
    a.ah_attr.grh.flow_label = flow_label(rail_.boot_.job().rank, who_.rank, uint32_t(rail_.index_), generation_, i);
    a.ah_attr.grh.hop_limit = 64;
    a.ah_attr.grh.traffic_class = options.traffic_class;
    error = rail_.verbs_.modify_qp(
        queues_[i].pair, &a,
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error) return fail(trouble("connect a queue pair to " + there_.text(), rail_.caps_.device, error).text), false;
    a = {};
    a.qp_state = IBV_QPS_RTS;
    a.timeout = options.timeout;
    a.retry_cnt = options.retries;
    a.rnr_retry = 7;  // credit sees to it that there is always a slot; should there be none for a moment, then without an error
    a.sq_psn = queues_[i].packet;
    a.max_rd_atomic = uint8_t(std::clamp<int>(std::min<int>(rail_.device_.limits.max_qp_init_rd_atom, theirs.reads), 1, 16));
    error = rail_.verbs_.modify_qp(
        queues_[i].pair, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    if (error) return fail(trouble("start a queue pair", rail_.caps_.device, error).text), false;
  }
  their_generation_ = theirs.generation;
  credit_ = theirs.credits;
  credit_limit_ = theirs.credits;
  last_out_ = last_in_ = {};
  owed_ = 0;
  return true;
}

/// The way stands, by whoever's attempt.
void Link::opened() {
  hang_up(State::open);
  attempts_ = 0;
  bye_sent_ = bye_heard_ = false;
}

/// Closes the socket.
void Link::hang_up(State next) {
  const bool was_busy = busy();
  state_ = next;
  rail_.busy_links_ += uint32_t(busy()) - uint32_t(was_busy);
  handshake_.reset();
  exchange_ = {};
  if (!fd) return;
  rail_.unwatch(*this);
  fd.reset();
}

void Link::fail(const std::string& why) {
  if (state_ == State::closed || state_ == State::left) return;
  const bool has_left = bye_heard_ || bye_sent_;
  const std::string link = rail_.device_.link_state();
  why_ = rail_.who_text(*this) + " is lost over " + describe() + " (rail " + std::to_string(rail_.index_) + ", link " + link + "): " + why;
  if (link == "down") why_ += net::advice_on_link(rail_.device_.port.name(), link);
  hang_up(has_left ? State::left : State::closed);
  const std::vector<Bulk*> over = release_queues();
  orphans_.insert(orphans_.end(), over.begin(), over.end());
  rail_.mourned_.push_back(this);
}

// ---- the service of a rail

int Rail::look(Sink& sink) {
  epoll_event ready[32];
  const int n = watcher_.look(ready);
  int events = 0;
  for (int i = 0; i < n; ++i) events += serve(ready[i], sink);
  check_deadlines();
  check_silence();
  return events;
}

int Rail::serve(const epoll_event& event, Sink& sink) {
  net::Watched* who = net::Watcher::who(event);
  if (who == &arrivals_) return consume_events(), 0;
  if (who == &device_events_) return device_event(), 0;
  if (who == &doorman_.door()) {
    Porter porter(*this, sink);
    return doorman_.serve(porter);
  }
  Link& link = static_cast<Link&>(*who);
  switch (link.state_) {
    case Link::State::connecting: link.connected(); return 1;
    case Link::State::shaking: link.shake(); return 1;
    case Link::State::proposing:
    case Link::State::answering: link.exchange(); return 1;
    default: return 0;
  }
}

void Rail::check_deadlines() {
  if (busy_links_ == 0) return;
  const uint64_t now = now_ns();
  for (auto& [who, link] : links_) {
    const Link::State state = link->state_;
    if (link->deadline_ > now) continue;
    if (state == Link::State::waiting)
      link->begin();
    else if (state == Link::State::connecting)
      link->attempt_failed("no answer within " + std::to_string(options_.connect_s) +
                           " s; check that no firewall drops the traffic between the hosts, and WEFT_NET_INTERFACES");
    else if (state == Link::State::answering)
      link->attempt_failed("it fell silent while queue pairs were set up");
  }
}

/// Ways may fail meanwhile, which the next poll tells.
void Rail::check_silence() {
  if (options_.silence_s == 0) return;
  const uint64_t now = now_ns();
  if (now < silence_check_at_) return;
  const bool first = silence_check_at_ == 0;
  silence_check_at_ = now + options_.silence_s * 1'000'000'000ull;
  if (first) return;
  for (auto& [who, link] : links_) link->check_silence();
}

/// Decides about a process of the job. Of two attempts that cross, the lower rank's goes on.
net::Verdict Rail::judge(const Introduction& they, Link& link) {
  link.their_rail_ = they.rail;
  switch (link.state_) {
    case Link::State::open:
      // a leftover of attempts that crossed, or it has lost the way and opens it anew
      if (they.generation != link.their_generation_) link.fail("the other side has lost this way and opens it anew");
      return net::Verdict::crossing;
    case Link::State::closed: return net::Verdict::crossing;  // until this side has opened it anew, too
    case Link::State::left: return net::Verdict::refused;
    case Link::State::connecting:
    case Link::State::shaking:
    case Link::State::proposing:
      if (they.rank > boot_.job().rank) return net::Verdict::crossing;
      break;
    case Link::State::idle:
    case Link::State::waiting:
    case Link::State::answering: break;
  }
  link.their_generation_ = they.generation;
  return net::Verdict::welcome;
}

}  // namespace weft::btl::verbs
