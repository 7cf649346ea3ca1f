#include "launcher/tree/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>

namespace weft::launcher::tree {
namespace {

constexpr unsigned silence_ms = silence_s * 1000 - 500;  // looked at by the keep-alive clock, which comes each second

/// What has been sent and is not acknowledged is no reason to wait longer: retransmissions alone would go on for a quarter of an hour.
void notice_silence(int fd) {
  net::tune_stream(fd, silence_s);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
}

std::string reason(int error) { return error == ETIMEDOUT ? "its host does not answer any more" : strerror(error); }

net::Claim claim_of(uint32_t node) {
  net::Claim claim{};
  const uint32_t words[2] = {format_version, node};
  memcpy(claim.data(), words, sizeof words);
  return claim;
}

}  // namespace

net::Digest key_of(const std::string& secret) { return net::hmac(net::bytes_of(secret), {net::bytes_of("weft launcher")}); }

std::optional<uint32_t> node_of(const net::Claim& claim) {
  uint32_t words[2];
  memcpy(words, claim.data(), sizeof words);
  return words[0] == format_version ? std::optional(words[1]) : std::nullopt;
}

Link::Link(net::Fd fd, const std::string& secret, uint32_t node)
    : fd_(std::move(fd)), handshake_(net::Handshake::initiate(key_of(secret), claim_of(node))) {
  notice_silence(fd_.get());
}

Link::Link(net::Fd fd) : fd_(std::move(fd)), open_(true) { notice_silence(fd_.get()); }

void Link::fail(std::string why) {
  if (why_.empty()) why_ = std::move(why);
  fd_.reset();
}

void Link::check_silence() {
  tcp_info about{};
  socklen_t size = sizeof about;
  if (broken() || getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &about, &size)) return;
  if (std::min(about.tcpi_last_ack_recv, about.tcpi_last_data_recv) >= silence_ms) fail(reason(ETIMEDOUT));
}

bool Link::wants_to_write() const { return out_at_ < out_.size() || (handshake_ && !handshake_->output().empty()); }

void Link::send(const Message& message) {
  if (broken()) return;
  if (out_at_ == out_.size()) out_.clear(), out_at_ = 0;
  out_ += frame(message);
}

void Link::process() {
  if (broken()) return;
  if (!open_) shake();
  if (open_ && !broken()) {
    while (read_some()) continue;
    if (!broken()) write_some();
  }
}

void Link::flush() {
  if (open_ && !broken()) write_some();
}

void Link::shake() {
  switch (net::advance(fd_.get(), *handshake_)) {
    case net::Advance::wants_read:
    case net::Advance::wants_write: return;
    case net::Advance::closed: return fail("it closed the connection before it had proven itself");
    case net::Advance::broken: return fail(reason(errno));
    case net::Advance::ended: break;
  }
  if (handshake_->state() == net::Handshake::State::failed) return fail(handshake_->why());
  if (handshake_->verdict() != net::Verdict::welcome) return fail("the parent refused it");
  handshake_.reset();
  open_ = true;
}

bool Link::read_some() {
  char block[64 * 1024];
  const ssize_t n = recv(fd_.get(), block, sizeof block, 0);
  if (n > 0) {
    in_.append(block, size_t(n));
    return true;
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  fail(n ? reason(errno) : "the connection was closed");
  return false;
}

void Link::write_some() {
  while (out_at_ < out_.size()) {
    const ssize_t n = ::send(fd_.get(), out_.data() + out_at_, out_.size() - out_at_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return fail(reason(errno));
    out_at_ += size_t(n);
  }
}

std::optional<Message> Link::take() {
  Message message;
  switch (take_frame(in_, in_at_, message)) {
    case Taken::message: return message;
    case Taken::damaged:
      in_.clear(), in_at_ = 0;
      fail("it sent what is no message of ours");
      break;
    case Taken::more:
      in_.erase(0, in_at_);
      in_at_ = 0;
      break;
  }
  return {};
}

}  // namespace weft::launcher::tree
