// How two processes prove to each other that they belong together, without showing the key; no sockets in here.
//
//   initiator                                          acceptor
//   Hello     {magic, format, nonce, claim}    ->
//                                              <-      Challenge {magic, format, nonce, mac("acceptor", hello, nonce)}
//   Proof     {mac("initiator", hello, challenge)} ->
//                                              <-      Verdict (one byte)
//
// Every record has a fixed size, so that strangers cannot make anybody keep more than a few hundred bytes. Nonces are fresh
// on both sides, so that a recorded exchange proves nothing; the two sides hash different words, so that neither's answer can
// be sent back to it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/net/auth.h"

namespace weft::net {

/// What the initiator says of itself, and whom it wants; the user's own format. Believe it once proven.
using Claim = std::array<std::byte, 128>;

/// How the acceptor decided about an initiator that proved itself.
enum class Verdict : uint8_t { none = 0, welcome = 'W', crossing = 'X', refused = 'R' };

class Handshake {
 public:
  enum class State : uint8_t { going, proven, failed };

  static Handshake initiate(Bytes key, const Claim& claim);
  static Handshake accept(Bytes key);

  /// Bytes still missing from the record awaited; read no more than that from the wire. 0: nothing is awaited.
  size_t wanted() const { return expect_ - have_; }
  /// Takes what arrived (at most wanted() bytes). `failed`: why() tells; send what output() holds and close.
  State feed(Bytes data);
  State state() const { return state_; }

  /// What must be sent next; consumed by sent(n).
  Bytes output() const { return Bytes(out_).subspan(out_begin_, out_end_ - out_begin_); }
  void sent(size_t n) { out_begin_ += n; }

  /// Acceptor, once proven: tells the initiator.
  void decide(Verdict verdict);
  /// Initiator, once proven: what the acceptor said.
  Verdict verdict() const { return verdict_; }
  const Claim& claim() const { return claim_; }
  const std::string& why() const { return why_; }

 private:
  enum class Await : uint8_t { hello, challenge, proof, verdict, nothing };

  State fail(std::string why);
  State take_hello();
  State take_challenge();
  State take_proof();
  void queue(Bytes record);
  void await(Await what, size_t bytes);

  std::array<std::byte, 160> in_{};
  std::array<std::byte, 160> out_{};
  std::array<std::byte, 160> hello_{};
  std::array<std::byte, 64> challenge_{};
  Digest key_{};
  Claim claim_{};
  size_t have_ = 0, expect_ = 0, out_begin_ = 0, out_end_ = 0;
  Await await_ = Await::nothing;
  State state_ = State::going;
  Verdict verdict_ = Verdict::none;
  std::string why_;
};

/// What came of advance().
enum class Advance : uint8_t {
  ended,        ///< proven, decided or failed: see the handshake's state
  wants_read,   ///< the socket has nothing more now
  wants_write,  ///< the socket takes nothing more now
  closed,       ///< the other side has closed the connection
  broken,       ///< the socket failed: see errno
};
/// Moves the initiator's handshake on over a non-blocking socket, as far as that goes at once. Reads no byte beyond it.
Advance advance(int fd, Handshake& handshake);

}  // namespace weft::net
