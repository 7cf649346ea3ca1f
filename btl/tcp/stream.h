// Messages to bytes and back: the queue in front of a stream socket and the parser behind it. No policy, no connections.
//
// A message travels as its Header followed by header.length bytes. A Header with context kControl is the transport's own: a farewell, or
// padding in front of a large message.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "btl/btl.h"

namespace weft::btl::tcp {

constexpr uint64_t kControl = ~uint64_t{0};  ///< no team has this context
constexpr uint32_t kMaxPayload = 1u << 30;   ///< longer messages do not exist on this wire
constexpr uint32_t kLandingFrom = 4096;      ///< shorter payloads are not worth a landing
constexpr uint32_t kLarge = 32 * 1024;       ///< payloads that are worth a read of their own, straight to their landing
constexpr uint32_t kPaddedFrom = 8 * 1024;   ///< payloads whose copies are slow if they begin at an unlucky place
constexpr uint32_t kMostPadding = 256;
inline Header bye() { return {kControl, 0, 0, 0, 0, 'B', 0}; }

inline Header padding_of(size_t bytes) { return {kControl, 0, 0, uint32_t(bytes), 0, 'P', 0}; }

/// What travels in front of a payload: its header, behind padding if it is large.
///
/// The kernel copies to and from packets whose memory begins, more often than not, at the beginning of a page with the first byte of a
/// call. Processors take twice as long for a copy whose target begins less than 64 bytes after its source, modulo pages (the loads seem to
/// depend on stores before them), which a header of 24 bytes in front of a buffer that malloc() made would lead to. So the payload is moved
/// on until it is as far from its place in a page as from that of the next one.
class Head {
 public:
  Head(const Header& header, const void* payload);
  const std::byte* data() const { return bytes_; }
  size_t size() const { return size_; }
  iovec run() const { return {const_cast<std::byte*>(bytes_), size_}; }

 private:
  std::byte bytes_[kMostPadding];
  size_t size_;
};

/// Bytes accepted for a peer and not yet taken by the kernel.
class Outbox {
 public:
  bool empty() const { return pieces_.empty(); }
  size_t bytes() const { return bytes_; }    ///< all of it
  size_t copied() const { return copied_; }  ///< the part that occupies memory of ours
  size_t pieces() const { return pieces_.size(); }

  /// Copies.
  void add(const void* data, size_t n);
  /// Room for n bytes at the end, to be filled in by the caller before anything else is called.
  std::byte* extend(size_t n) { return extend(n, kPieceBytes); }
  /// Copies few bytes that memory referred to follows.
  void head(const void* data, size_t n);
  /// Refers to memory; `op` (may be null) completes when the kernel has taken it.
  void refer(const void* data, size_t n, Operation* op);

  /// Describes what comes next, at most out.size() runs.
  size_t runs(std::span<iovec> out) const;
  /// The kernel took n bytes. Completes operations, after everything is consistent again.
  void taken(size_t n);
  /// Completes all operations with `status` and forgets everything.
  void abandon(Status status);

 private:
  static constexpr size_t kPieceBytes = 16384;  // small messages are gathered in pieces of this size
  std::byte* extend(size_t n, size_t least);

  struct Piece {
    std::byte* at;
    size_t length;                        // still to go
    std::unique_ptr<std::byte[]> memory;  // null: the user's
    size_t room = 0;                      // free bytes behind at + length, if ours
    Operation* op = nullptr;
  };
  std::deque<Piece> pieces_;
  std::unique_ptr<std::byte[]> spare_;  // memory of the last piece of ours
  size_t bytes_ = 0, copied_ = 0;
};

/// Takes a stream of bytes apart. Reads go first to where the payload under way belongs, then to a scratch area shared by all
/// streams of a transport, which is empty again after each take().
class Inbox {
 public:
  struct Taken {
    int messages = 0;
    bool bye = false;              ///< the peer took leave
    const char* broken = nullptr;  ///< why this is no stream of messages; stop reading
  };

  /// Where the next bytes should be read to; returns the number of entries (1 or 2). Asks the sink once more whether the place of a payload
  /// under way is still one: the rest is passed over where the receive has ended by an error.
  int places(std::span<std::byte> scratch, iovec out[2], Sink& sink, void* cookie);
  /// `n` bytes were read to places(). Delivers whole messages.
  Taken take(size_t n, std::span<const std::byte> scratch, Sink& sink, void* cookie);
  /// True while a message has arrived in part.
  bool within_message() const { return head_have_ > 0 || under_way_ || skipped_ > 0; }
  /// True if the last message was not small: more of its kind are likely, which come in several parts.
  bool bulky() const { return bulky_; }

 private:
  void begin_payload(Sink& sink, void* cookie, size_t here);
  size_t open_room() const;
  void skip_payload();
  void grow(size_t least);
  void finish_payload(Sink& sink, void* cookie, Taken& taken);
  void take_scratch(std::span<const std::byte> bytes, Sink& sink, void* cookie, Taken& taken);
  const char* check(Taken& taken) const;

  Header header_;                 // of the message under way
  size_t head_have_ = 0;          // bytes of header_ that are there
  bool under_way_ = false;        // header_ is complete, its payload is not
  bool closed_ = false;           // bye was seen
  int large_ahead_ = 0;           // of the next messages one is likely to be large, as one of the last ones was
  bool bulky_ = false;            // or at least not small
  uint32_t skipped_ = 0;          // bytes still to be passed over: padding, or what nobody waits for any more
  uint32_t got_ = 0;              // bytes of payload that are there
  std::byte* landing_ = nullptr;  // where they go; null: bounce_
  std::unique_ptr<std::byte[]> bounce_;
  size_t bounce_size_ = 0;  // grows with what arrives, so that a header alone costs nothing
};

}  // namespace weft::btl::tcp
