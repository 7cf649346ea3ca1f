#include "runtime/net/handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::net {
namespace {

using Nonce = std::array<std::byte, 16>;

/// Heads both opening records.
struct Format {
  char magic[8] = {'W', 'E', 'F', 'T', '-', 'N', 'E', 'T'};
  uint32_t byte_order = 0x01020304;
  uint16_t version = 1;
  uint16_t zero = 0;
};
struct Hello {
  Format format;
  Nonce nonce{};
  Claim claim{};
};
struct Challenge {
  Format format;
  Nonce nonce{};
  Digest mac{};
};
static_assert(sizeof(Hello) == 160 && sizeof(Challenge) == 64);

template <class T>
Bytes raw(const T& record) {
  return std::as_bytes(std::span(&record, 1));
}

/// Empty if the other side speaks as we do.
std::string disagreement(const Format& theirs) {
  const Format ours;
  if (memcmp(theirs.magic, ours.magic, sizeof ours.magic) != 0) return "it does not speak Weft's protocol";
  if (theirs.byte_order != ours.byte_order) return "it has another byte order";
  if (theirs.version != ours.version)
    return "it speaks version " + std::to_string(theirs.version) + " of Weft's protocol, this side version " +
           std::to_string(ours.version) + "; use the same Weft on all hosts";
  return {};
}

Digest acceptor_mac(Bytes key, Bytes hello, const Nonce& nonce) { return hmac(key, {bytes_of("acceptor"), hello, nonce}); }
Digest initiator_mac(Bytes key, Bytes hello, Bytes challenge) { return hmac(key, {bytes_of("initiator"), hello, challenge}); }

}  // namespace

Handshake Handshake::initiate(Bytes key, const Claim& claim) {
  Handshake h;
  h.key_ = sha256({key});
  h.claim_ = claim;
  Hello hello;
  fill_random(hello.nonce);
  hello.claim = claim;
  memcpy(h.hello_.data(), &hello, sizeof hello);
  h.queue(h.hello_);
  h.await(Await::challenge, sizeof(Challenge));
  return h;
}

Handshake Handshake::accept(Bytes key) {
  Handshake h;
  h.key_ = sha256({key});
  h.await(Await::hello, sizeof(Hello));
  return h;
}

void Handshake::queue(Bytes record) {
  if (out_begin_ == out_end_) out_begin_ = out_end_ = 0;
  std::ranges::copy(record, out_.begin() + ptrdiff_t(out_end_));
  out_end_ += record.size();
}

void Handshake::await(Await what, size_t bytes) {
  await_ = what;
  have_ = 0;
  expect_ = bytes;
}

Handshake::State Handshake::fail(std::string why) {
  why_ = std::move(why);
  await(Await::nothing, 0);
  return state_ = State::failed;
}

Handshake::State Handshake::feed(Bytes data) {
  if (data.size() > wanted()) return fail("it sent more than was asked for");
  std::ranges::copy(data, in_.begin() + ptrdiff_t(have_));
  have_ += data.size();
  // what cannot become right is refused at its first wrong byte, not after its last
  const Format ours;
  if ((await_ == Await::hello || await_ == Await::challenge) && memcmp(in_.data(), ours.magic, std::min(have_, sizeof ours.magic)) != 0)
    return fail("it does not speak Weft's protocol");
  if (have_ < expect_) return state_;
  switch (await_) {
    case Await::hello: return take_hello();
    case Await::challenge: return take_challenge();
    case Await::proof: return take_proof();
    case Await::verdict:
      verdict_ = Verdict(in_[0]);
      if (verdict_ != Verdict::welcome && verdict_ != Verdict::crossing && verdict_ != Verdict::refused)
        return fail("its verdict makes no sense");
      await(Await::nothing, 0);
      return state_ = State::proven;
    case Await::nothing: break;
  }
  return state_;
}

Handshake::State Handshake::take_hello() {
  Hello hello;
  memcpy(&hello, in_.data(), sizeof hello);
  hello_ = in_;
  claim_ = hello.claim;
  Challenge challenge;
  std::string why = disagreement(hello.format);
  if (why.empty()) {
    fill_random(challenge.nonce);
    challenge.mac = acceptor_mac(key_, hello_, challenge.nonce);
  }
  memcpy(challenge_.data(), &challenge, sizeof challenge);
  queue(challenge_);  // also to those of another version, who learn from it which one is spoken here
  if (!why.empty()) return fail(std::move(why));
  await(Await::proof, sizeof(Digest));
  return state_;
}

Handshake::State Handshake::take_challenge() {
  Challenge challenge;
  memcpy(&challenge, in_.data(), sizeof challenge);
  if (std::string why = disagreement(challenge.format); !why.empty()) return fail(std::move(why));
  if (!equal(challenge.mac, acceptor_mac(key_, hello_, challenge.nonce))) return fail("it does not know the job's secret");
  memcpy(challenge_.data(), &challenge, sizeof challenge);
  queue(initiator_mac(key_, hello_, challenge_));
  await(Await::verdict, 1);
  return state_;
}

Handshake::State Handshake::take_proof() {
  Digest proof;
  memcpy(proof.data(), in_.data(), sizeof proof);
  if (!equal(proof, initiator_mac(key_, hello_, challenge_))) return fail("it does not know the job's secret");
  await(Await::nothing, 0);
  return state_ = State::proven;
}

void Handshake::decide(Verdict verdict) {
  const std::byte word{uint8_t(verdict)};
  queue({&word, 1});
}

Advance advance(int fd, Handshake& handshake) {
  for (;;) {
    while (!handshake.output().empty()) {
      const ssize_t n = ::send(fd, handshake.output().data(), handshake.output().size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN) return Advance::wants_write;
      if (n < 0 && errno != EINTR) return Advance::broken;
      if (n > 0) handshake.sent(size_t(n));
    }
    if (handshake.state() != Handshake::State::going) return Advance::ended;
    std::byte in[256];
    const ssize_t n = recv(fd, in, std::min(sizeof in, handshake.wanted()), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return Advance::wants_read;
    if (n < 0) return Advance::broken;
    if (n == 0) return Advance::closed;
    handshake.feed({in, size_t(n)});
  }
}

}  // namespace weft::net
