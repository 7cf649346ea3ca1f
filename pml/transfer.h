// The request of one message, sent or received.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "btl/btl.h"
#include "pml/buffer.h"
#include "pml/message.h"
#include "pml/request.h"
#include "runtime/type/cursor.h"

namespace weft::pml {

struct Peer;
struct Transfer;

/// Where a transfer stands.
enum class Stage : uint8_t {
  idle,        ///< persistent and not started
  posted,      ///< receive: in the matcher
  queued,      ///< send: waits for room on the wire
  announced,   ///< send: waits for the receiver
  streaming,   ///< fragments are on their way
  confirming,  ///< send: all fragments have been handed over; the receiver says when they have come
  reading,     ///< receive: reads the sender's memory
  done,
};

struct Bulkwork;

struct TransferOperation : btl::Operation {
  Transfer* transfer = nullptr;  ///< null: it has ended already
  Bulkwork* bulk = nullptr;
  bool busy = false;
};

/// Bytes of a message.
struct Piece {
  uint64_t offset = 0, length = 0;
};

/// Ways that one message is spread over at most.
constexpr size_t kMaxStripes = 4;

/// Memory and progress of a transfer that did not end with its first message; absent for most.
struct Bulkwork {
  type::Cursor cursor;
  std::array<TransferOperation, kMaxStripes> operations;  ///< reading uses the first
  OperationId id = 0;
  OperationId remote = 0;  ///< the other side's operation
  uint64_t total = 0;      ///< bytes to be moved
  uint64_t moved = 0;
  uint32_t wire = 0;
  uint32_t in_flight = 0;  ///< transport operations not done yet
  uint64_t piece = 0;      ///< bytes of the one in flight
  uint32_t region = 0;     ///< being read
  uint64_t region_offset = 0;
  bool used = false;     ///< there is something to give back
  bool issuing = false;  ///< inside a call that may complete at once
  bool failed = false;   ///< a transport operation ended with an error
  std::vector<btl::Region> regions;
  std::vector<iovec> runs;
  std::vector<Piece> again;  ///< fragments that were lost with their way

  /// As new, but keeps its memory.
  void reset() {
    id = remote = 0;
    total = moved = region_offset = piece = 0;
    wire = in_flight = region = 0;
    used = issuing = failed = false;
    regions.clear();
    again.clear();
  }
};

struct Transfer final : Request {
  // matching
  Context match_context = 0;
  int32_t source = 0;  ///< receive: of the message wanted; send: own rank in the team
  int32_t tag = 0;
  uint64_t order = 0;  ///< among posted receives
  Transfer *next = nullptr, *prev = nullptr;
  // memory
  std::byte* base = nullptr;  ///< first byte; null if not contiguous
  uint64_t capacity = 0;      ///< bytes to send, or room for
  Buffer buffer;
  bool type_retained = false;
  // protocol
  Mode mode = Mode::standard;
  Stage stage = Stage::idle;
  bool orphan = false;  ///< its last reference is gone; recycled when it is done
  int32_t dest = 0;     ///< persistent: the rank in the team; receives: the source
  Peer* peer = nullptr;
  Team* team = nullptr;
  std::unique_ptr<Bulkwork> bulk;

  Transfer(RequestKind k, const Ops* o, Lane* l) : Request(k, o, l) {}
};

/// A queue of transfers through their own links.
class TransferList {
 public:
  bool empty() const { return !head_; }
  Transfer* front() const { return head_; }
  void push_back(Transfer& t) {
    t.next = nullptr;
    t.prev = tail_;
    (tail_ ? tail_->next : head_) = &t;
    tail_ = &t;
  }
  void push_front(Transfer& t) {
    t.prev = nullptr;
    t.next = head_;
    (head_ ? head_->prev : tail_) = &t;
    head_ = &t;
  }
  void remove(Transfer& t) {
    (t.prev ? t.prev->next : head_) = t.next;
    (t.next ? t.next->prev : tail_) = t.prev;
    t.next = t.prev = nullptr;
  }
  Transfer* pop_front() {
    Transfer* t = head_;
    if (t) remove(*t);
    return t;
  }

 private:
  Transfer *head_ = nullptr, *tail_ = nullptr;
};

}  // namespace weft::pml
