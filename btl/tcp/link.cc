// The life of a connection: attempts, handshake, sending, receiving, leaving.
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "btl/tcp/rail.h"
#include "runtime/base/clock.h"
#include "runtime/net/link_state.h"

namespace weft::btl::tcp {
namespace {

constexpr size_t kRuns = 64;                    // entries of one writev
constexpr size_t kScratch = 128 * 1024;         // bytes of one read beyond payloads that have a place
constexpr int kReadsPerPoll = 16;               // then others have their turn
constexpr size_t kMaxPieces = 4096;             // zero-copy sends waiting per peer
constexpr size_t kCopyBelow = kPaddedFrom;      // payloads that are copied behind their header, which is cheaper than describing two runs
constexpr size_t kGathered = 16 * 1024;         // bytes held back at most
constexpr size_t kGatheredInPlace = 64 * 1024;  // the same of memory that is not copied: what the kernel makes one packet of
constexpr uint64_t kFirstPause = 20'000'000;    // ns before the second round of attempts; grows fourfold
constexpr uint64_t kCrossing = 1'000'000'000;   // ns that the peer's own attempt may take before ours is repeated

const std::string kPlain = "reno";  // congestion control that every kernel has

/// Does the connection use BBR? Its timed packets suit long ways. Between near hosts they cost most of the bandwidth.
bool spaces_out(int fd) {
  char name[16] = {};
  socklen_t length = sizeof name - 1;
  return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 && strncmp(name, "bbr", 3) == 0;
}

size_t total(std::span<const iovec> runs) {
  size_t n = 0;
  for (const iovec& run : runs) n += run.iov_len;
  return n;
}

/// What the errors of sockets usually mean, for people.
const char* meaning(int error) {
  switch (error) {
    case ECONNRESET:
    case EPIPE: return "its process most likely died or was killed: see what it printed last";
    case ECONNREFUSED: return "nobody listens there: its process has ended, or a firewall refuses the port";
    case ETIMEDOUT:
      return "its host or the network in between does not answer: check that both hosts are up, and that no firewall drops the traffic "
             "between them";
    case EHOSTUNREACH:
    case ENETUNREACH: return "there is no route: name the interfaces that connect the hosts in WEFT_NET_INTERFACES";
    case EMFILE:
    case ENFILE: return "raise the limit of open files (ulimit -n)";
    default: return "check the network between the hosts, and WEFT_NET_INTERFACES";
  }
}

std::string explain(const char* what, int error) { return std::string(what) + ": " + strerror(error) + "; " + meaning(error); }

}  // namespace

std::string Link::describe() const {
  std::string text = "tcp " + rail_.caps_.device;
  if (state_ == State::open) return text + " " + here_.with_port() + " -> " + there_.with_port();
  if (!ways_.empty()) return text + " " + ways_.front().from.text() + " -> " + ways_.front().to.with_port();
  return text;
}

// ---- sending

/// Says whether `copied` more bytes may be queued, and begins to connect if that has not been done.
Status Link::admit(size_t copied) {
  if (state_ == State::dead || state_ == State::left) return Status::peer_failed;
  if (rail_.draining_) return Status::failed;
  const auto full = [&] {
    return !outbox_.empty() && (outbox_.copied() + copied > rail_.options_.queue_bytes || outbox_.pieces() >= kMaxPieces);
  };
  if (full()) {
    flush();  // what gather() holds back
    if (full()) return Status::again;
  }
  if (state_ == State::idle) begin();
  rail_.pause_ = rail_.quiet_looks_ = 0;  // an answer may come soon
  return state_ == State::dead ? Status::peer_failed : Status::ok;
}

/// Offers bytes to the kernel; returns how many it took. Nothing while anything is queued before them.
size_t Link::write_now(std::span<const iovec> runs) {
  flush();
  if (state_ != State::open || !outbox_.empty()) return 0;
  const ssize_t n = offer(runs);
  if (n >= 0) return size_t(n);
  if (errno != EAGAIN && errno != EWOULDBLOCK) fail(explain("sending failed", errno));
  return 0;
}

/// One system call, in the cheapest form that there is for so many runs.
ssize_t Link::offer(std::span<const iovec> runs) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(runs.data());
  message.msg_iovlen = std::min(runs.size(), kRuns);
  for (;;) {
    const ssize_t n = runs.size() == 1 ? ::send(fd.get(), runs[0].iov_base, runs[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
                                       : sendmsg(fd.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    ++rail_.counters_.writes;
    if (n >= 0 || errno != EINTR) return n;
  }
}

Status Link::try_inline(const Header& header, const void* payload) {
  if (const Status status = admit(sizeof header + header.length); status != Status::ok) return status;
  if (!outbox_.empty() && header.length < kGathered) {
    keep(header, payload);
    flush();
    return state_ == State::dead ? Status::peer_failed : Status::ok;
  }
  if (header.length >= kCopyBelow) return write_large(header, payload);
  std::byte message[sizeof header + kCopyBelow];
  memcpy(message, &header, sizeof header);
  if (header.length) memcpy(message + sizeof header, payload, header.length);
  const iovec run{message, sizeof header + header.length};
  const size_t sent = write_now({&run, 1});
  return keep_rest({message, run.iov_len}, nullptr, 0, sent);
}

Status Link::write_large(const Header& header, const void* payload) {
  const Head head(header, payload);
  const iovec runs[2] = {head.run(), {const_cast<void*>(payload), header.length}};
  const size_t sent = write_now(runs);
  return keep_rest({head.data(), head.size()}, payload, header.length, sent);
}

/// Queues a copy of what is left of head and payload, of which `sent` bytes have gone.
Status Link::keep_rest(std::span<const std::byte> head, const void* payload, size_t length, size_t sent) {
  if (sent == head.size() + length) return Status::ok;
  if (state_ == State::dead) return Status::peer_failed;
  if (sent < head.size()) outbox_.add(head.data() + sent, head.size() - sent);
  const size_t done = sent > head.size() ? sent - head.size() : 0;
  if (done < length) outbox_.add(static_cast<const std::byte*>(payload) + done, length - done);
  watch(true);
  return Status::ok;
}

/// Queues a copy of a message.
void Link::keep(const Header& header, const void* payload) {
  outbox_.add(&header, sizeof header);
  outbox_.add(payload, header.length);
}

Status Link::gather(const Header& header, const void* payload) {
  if (const Status status = admit(sizeof header + header.length); status != Status::ok) return status;
  keep(header, payload);
  if (outbox_.bytes() >= kGathered) flush();
  return state_ == State::dead ? Status::peer_failed : Status::ok;
}

Status Link::send(const Header& header, type::Cursor& cursor) {
  if (cursor.contiguous()) {
    const Status status = try_inline(header, cursor.data());
    if (status == Status::ok) cursor.seek(cursor.position() + header.length);
    return status;
  }
  if (const Status status = admit(sizeof header + header.length); status != Status::ok) return status;
  std::byte* at = outbox_.extend(sizeof header + header.length);
  memcpy(at, &header, sizeof header);
  cursor.pack(at + sizeof header, header.length);
  flush();
  return state_ == State::dead ? Status::peer_failed : Status::ok;
}

Status Link::send_zcopy(const Header& header, std::span<const iovec> payload, Operation& op) {
  if (const Status status = admit(sizeof header); status != Status::ok) return status;
  const Head head(header, payload.empty() ? nullptr : payload.front().iov_base);
  size_t sent = 0;
  if (outbox_.empty()) {
    iovec runs[kRuns];
    const size_t count = std::min(payload.size(), kRuns - 1);
    runs[0] = head.run();
    std::copy_n(payload.begin(), count, runs + 1);
    sent = write_now({runs, count + 1});
    if (state_ == State::dead) return Status::peer_failed;
    if (sent == head.size() + header.length) {
      op.done(op, Status::ok);
      return Status::ok;
    }
  }
  const bool alone = outbox_.empty();
  refer(head, payload, sent, op);
  alone ? watch(true) : flush();
  return Status::ok;  // or the operation will say that it failed
}

Status Link::gather_zcopy(const Header& header, std::span<const iovec> payload, Operation& op) {
  if (const Status status = admit(sizeof header); status != Status::ok) return status;
  refer(Head(header, payload.empty() ? nullptr : payload.front().iov_base), payload, 0, op);
  if (outbox_.bytes() >= kGatheredInPlace) flush();
  return Status::ok;
}

/// Queues what is left of a message of which `sent` bytes have gone; the payload stays where it is.
void Link::refer(const Head& head, std::span<const iovec> payload, size_t sent, Operation& op) {
  if (sent < head.size()) outbox_.head(head.data() + sent, head.size() - sent);
  sent -= std::min(sent, head.size());
  size_t left = total(payload) - sent;
  if (left == 0) outbox_.refer(nullptr, 0, &op);
  for (const iovec& run : payload) {
    const size_t skip = std::min(sent, run.iov_len);
    sent -= skip;
    left -= run.iov_len - skip;
    if (run.iov_len > skip) outbox_.refer(static_cast<std::byte*>(run.iov_base) + skip, run.iov_len - skip, left == 0 ? &op : nullptr);
  }
}

void Link::flush() {
  if (!outbox_.empty() && !blocked()) push();
}

void Link::push() {
  while (state_ == State::open && !outbox_.empty()) {
    iovec runs[kRuns];
    const std::span<const iovec> next(runs, outbox_.runs(runs));
    const size_t offered = total(next);
    ssize_t n = 0;
    if (offered > 0) {
      n = offer(next);
      if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return fail(explain("sending failed", errno));
      if (n < 0) break;
    }
    outbox_.taken(size_t(n));
    if (size_t(n) < offered) break;
  }
  if (state_ == State::open) watch(!outbox_.empty());
}

void Link::watch(bool write) {
  if (state_ == State::open) rail_.watch(*this, EPOLLIN | (write ? uint32_t{EPOLLOUT} : 0u));
}

// ---- connecting

uint64_t Link::connect_limit_ns() const {
  return several_ ? uint64_t{rail_.options_.spare_ms} * 1'000'000u : uint64_t{rail_.options_.connect_s} * 1'000'000'000u;
}

uint8_t Link::rail() const { return rail_.boot_.job().rank < who_.rank ? uint8_t(rail_.index_) : uint8_t(their_rail_); }

void Link::cut() {
  hang_up(State::dead);
  std::erase(rail_.mourned_, this);
  why_ = "it was given up";
  outbox_.abandon(Status::peer_failed);
}

/// Begins a new life, after the last one was cut.
void Link::reopen() {
  state_ = State::idle;
  bye_sent_ = false;
  attempts_ = 0;
  inbox_ = {};
}

void Link::begin() {
  if (ways_.empty()) return fail("no address of it is known");
  const Way& way = ways_[attempts_ % ways_.size()];
  ++attempts_;
  auto socket = net::start_connect(way.from, way.to, rail_.options_.socket_bytes);
  if (!socket) return attempt_failed(socket.failure().text);
  fd = std::move(*socket);
  if (state_ == State::idle) ++rail_.busy_links_;
  state_ = State::connecting;
  deadline_ = now_ns() + connect_limit_ns();
  rail_.wake_at(deadline_);
  rail_.watch(*this, EPOLLOUT);
}

void Link::connected() {
  if (const int error = net::pending_error(fd.get())) return attempt_failed(explain("cannot connect", error));
  net::tune_stream(fd.get(), int(rail_.options_.silence_s));
  state_ = State::shaking;
  rail_.check_silence(now_ns());
  const boot::Job& job = rail_.boot_.job();
  const Introduction me{"tcp", job_number(job.name), job.rank, who_.rank, 0, uint8_t(rail_.index_), uint8_t(their_rail_), job.host};
  handshake_ = std::make_unique<net::Handshake>(net::Handshake::initiate(key_, me.claim()));
  shake();
}

/// Moves the handshake of an own attempt on, as far as the socket lets it.
void Link::shake() {
  switch (net::advance(fd.get(), *handshake_)) {
    case net::Advance::wants_write: return rail_.watch(*this, EPOLLIN | EPOLLOUT);
    case net::Advance::wants_read: return rail_.watch(*this, EPOLLIN);
    case net::Advance::broken: return attempt_failed(explain("the handshake broke off", errno));
    case net::Advance::closed: return attempt_failed("it closed the connection during the handshake");
    case net::Advance::ended: break;
  }
  if (handshake_->state() == net::Handshake::State::failed) return attempt_failed(handshake_->why());
  conclude();
}

/// The peer has decided.
void Link::conclude() {
  const net::Verdict verdict = handshake_->verdict();
  if (verdict == net::Verdict::welcome) {
    --rail_.busy_links_;
    return opened();
  }
  if (verdict == net::Verdict::refused) return fail("it refuses this process: it has ended its communication, or belongs to another job");
  // both sides were at it; the other attempt goes on, ours comes again only if that one fails
  hang_up(State::waiting);
  attempts_ = 0;
  deadline_ = now_ns() + kCrossing;
  rail_.wake_at(deadline_);
}

/// Tries the next address, after a pause when all had their turn; gives up after the last round.
void Link::attempt_failed(const std::string& why) {
  const size_t round = attempts_ / ways_.size();
  if (round >= (several_ ? 1 : rail_.options_.rounds))
    return fail("it cannot be reached over this interface (" + std::to_string(attempts_) + " attempts): " + why);
  hang_up(State::waiting);
  why_ = why;
  const uint64_t pause = attempts_ % ways_.size() != 0 ? 0 : kFirstPause << (2 * std::min<size_t>(round - 1, 4));
  deadline_ = now_ns() + pause;
  rail_.wake_at(deadline_);
}

/// The connection stands, by whoever's attempt.
void Link::opened() {
  handshake_.reset();
  state_ = State::open;
  opened_ = now_ns();
  here_ = net::local_address(fd.get());
  there_ = net::remote_address(fd.get());
  const std::string& wanted = rail_.options_.congestion;
  if (here_.loopback() || (wanted.empty() && spaces_out(fd.get())))
    net::use_congestion_control(fd.get(), kPlain);
  else if (!wanted.empty())
    net::use_congestion_control(fd.get(), wanted);
  ++rail_.open_links_;
  rail_.watch(*this, EPOLLIN);
  rail_.check_silence(opened_);  // begins to look after it
  push();
}

/// Goes on with a connection that the peer made, whatever became of attempts of our own.
void Link::adopt(net::Fd socket) {
  if (state_ != State::idle) hang_up(State::idle);
  fd = std::move(socket);
  opened();
}

/// Closes the socket; a state that is still trying keeps what is queued.
void Link::hang_up(State next) {
  if (state_ == State::open) --rail_.open_links_;
  const bool was_busy = state_ == State::connecting || state_ == State::shaking || state_ == State::waiting;
  const bool will_be_busy = next == State::waiting;
  if (was_busy && !will_be_busy) --rail_.busy_links_;
  if (!was_busy && will_be_busy) ++rail_.busy_links_;
  state_ = next;
  handshake_.reset();
  if (!fd) return;
  rail_.unwatch(*this);
  if (rail_.lively_ == this) rail_.lively_ = nullptr;
  shutdown(fd.get(), SHUT_RDWR);  // a forked child may still hold the socket
  fd.reset();
}

void Link::fail(const std::string& why) {
  if (state_ == State::dead) return;
  if (bye_sent_ && outbox_.empty()) return hang_up(State::left);  // both left at the same time
  const std::string& device = rail_.caps_.device;
  const std::string link = net::link_state(device);
  why_ = rail_.who_text(*this) + " is lost over " + describe() + " (rail " + std::to_string(rail_.index_) + ", link " + link + "): " + why +
         net::advice_on_link(device, link);
  hang_up(State::dead);
  rail_.mourned_.push_back(this);
}

// ---- arriving and leaving

int Link::serve(uint32_t events, Sink& sink) {
  switch (state_) {
    case State::connecting: connected(); return 1;
    case State::shaking: shake(); return 1;
    case State::open: break;
    default: return 0;
  }
  int count = 0;
  if (events & EPOLLOUT) push(), ++count;
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) count += receive(sink);
  return count;
}

int Link::receive(Sink& sink) {
  int count = 0;
  if (!rail_.scratch_) rail_.scratch_ = std::make_unique_for_overwrite<std::byte[]>(kScratch);
  const std::span<std::byte> scratch(rail_.scratch_.get(), kScratch);
  for (int reads = 0; reads < kReadsPerPoll && state_ == State::open; ++reads) {
    iovec places[2];
    const int entries = inbox_.places(scratch, places, sink, cookie_);
    const size_t room = total({places, size_t(entries)});
    const ssize_t n = entries == 1 ? recv(fd.get(), places[0].iov_base, room, MSG_DONTWAIT) : readv(fd.get(), places, entries);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) return fail(explain("receiving failed", errno)), count + 1;
    if (n == 0) {
      const char* when = inbox_.within_message() ? "it closed the connection in the middle of a message"
                                                 : "it closed the connection without taking its leave";
      return fail(std::string(when) + "; " + meaning(ECONNRESET)), count + 1;
    }
    ++rail_.counters_.reads;
    const Inbox::Taken taken = inbox_.take(size_t(n), scratch, sink, cookie_);
    count += taken.messages + 1;
    if (taken.broken) return fail(std::string(taken.broken) + "; memory of one side is damaged, or the two run different versions"), count;
    if (taken.bye && state_ == State::open) {
      outbox_.abandon(Status::peer_failed);
      hang_up(State::left);
      return count;
    }
    if (size_t(n) < room) break;
  }
  return count;
}

/// TCP itself would try for a quarter of an hour. A peer that does not read keeps acknowledging, and so is not silent.
void Link::check_silence() {
  tcp_info info{};
  socklen_t length = sizeof info;
  if ((state_ != State::open && state_ != State::shaking) || getsockopt(fd.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return;
  // Where other rails are left it does no harm to give this one up early; twice in vain takes TCP 0.6 s.
  const uint32_t limit_ms = several_ ? rail_.options_.spare_ms / 2 : rail_.options_.silence_s * 1000;
  const uint32_t in_vain = several_ ? 2 : 1;
  if (info.tcpi_unacked == 0 || info.tcpi_retransmits < in_vain || info.tcpi_last_ack_recv < limit_ms) return;
  const std::string why = "its host has not answered for " + std::to_string(info.tcpi_last_ack_recv / 1000) + "." +
                          std::to_string(info.tcpi_last_ack_recv / 100 % 10) + " s; " + meaning(ETIMEDOUT);
  state_ == State::open ? fail(why) : attempt_failed(why);
}

/// One step of taking leave; true when nothing is left to do.
bool Link::leave() {
  if (state_ == State::idle || state_ == State::left || state_ == State::dead) return true;
  if (state_ != State::open) {
    if (!outbox_.empty()) return false;
    hang_up(State::idle);
    return true;
  }
  if (!bye_sent_) {
    const Header leave = bye();
    outbox_.add(&leave, sizeof leave);
    bye_sent_ = true;
  }
  push();
  if (state_ == State::dead) return true;
  int unacknowledged = 0;
  return outbox_.empty() && (ioctl(fd.get(), SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0);
}

}  // namespace weft::btl::tcp
