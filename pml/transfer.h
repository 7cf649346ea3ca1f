// The request of one message, sent or received.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "btl/btl.h"
#include "pml/buffer.h"
#include "pml/message.h"
#include "pml/request.h"
#include "runtime/type/cursor.h"

namespace weft::pml {

struct Peer;
struct Track;
struct Transfer;

/// Where a transfer stands.
enum class Stage : uint8_t {
  idle,        ///< persistent and not started
  posted,      ///< receive: in the matcher
  queued,      ///< send: waits for room on the wire
  announced,   ///< send: waits for the receiver; receive: its message is known
  streaming,   ///< fragments are on their way
  confirming,  ///< send: all fragments have been handed over; the receiver says when they have come
  reading,     ///< receive: reads the sender's memory
  writing,     ///< send: writes the receiver's memory
  done,
};

struct Bulkwork;

/// Bytes of a message.
struct Piece {
  uint64_t offset = 0, length = 0;
};

struct TransferOperation : btl::Operation {
  Transfer* transfer = nullptr;  ///< null: it has ended already
  Bulkwork* bulk = nullptr;
  bool busy = false;
  Piece piece;             ///< reading and writing: what is under way
  uint8_t way = 0;         ///< among those of the other side's exposure
  Track* track = nullptr;  ///< null: the only way
};

constexpr size_t kReadsAWay = 2;  ///< reads or writes under way at a time, so that no way waits for the next one

/// Memory and progress of a transfer that did not end with its first message; absent for most.
struct Bulkwork {
  type::Cursor cursor;
  std::vector<TransferOperation> operations;  ///< of one way to begin with; see provide()
  OperationId id = 0;
  OperationId remote = 0;                                 ///< the other side's operation
  int32_t sequence = -1;                                  ///< of an eager_sync message that was sent
  uint64_t total = 0;                                     ///< bytes to be moved
  uint64_t moved = 0;                                     ///< of those: handed over; by a receiver of fragments: arrived
  uint64_t direct = 0;                                    ///< bytes read or written in the other side's memory
  uint32_t in_flight = 0;                                 ///< transport operations not done yet
  uint32_t stranded = 0;                                  ///< writes that were under way when their way was lost; see Track::stranded
  uint32_t broken = 0;                                    ///< ways of `theirs` that have failed, a bit each
  bool used = false;                                      ///< there is something to give back
  bool issuing = false;                                   ///< inside a call that may complete at once
  bool failed = false;                                    ///< a transport operation ended with an error, and there is no other way
  bool moving = false;                                    ///< stands in the lane's list of those that can go on
  bool counted = false;                                   ///< fragments have come over several ways: the sender waits for `finished`
  btl::Flow flow = btl::Flow::alone;                      ///< of a receive's messages from its peer
  bool offered = false;                                   ///< a send that may leave a copy behind and end (offer.cc)
  uint8_t age = 0;                                        ///< of that: looks since it was announced
  std::unique_ptr<std::byte[]> copy;                      ///< what a send that has ended has left; the peer's room is charged with it
  Exposure mine;                                          ///< own memory that the other side can reach
  Exposure theirs;                                        ///< memory of the other side
  std::vector<btl::Region> regions;                       ///< of `theirs`; kept, as the next one has as many
  std::vector<std::pair<uint32_t, btl::Region>> exposed;  ///< those of `mine`, with the numbers of their wires
  std::vector<iovec> runs;
  std::vector<Piece> again;  ///< what was lost with its way

  /// Sees to it that there are so many operations. Only while none is under way.
  void provide(Transfer& t, size_t count) {
    if (operations.size() >= count) return;
    operations.resize(count);
    for (TransferOperation& operation : operations) operation.transfer = &t, operation.bulk = this;
  }
  /// Had what comes better come unasked? On contended CPUs its sender would have to come back for an answer (offer.cc).
  bool better_unasked() const { return is_contended(flow) && theirs.lapses; }
  /// Is there anything that has not been handed over?
  bool left() const { return moved < total || !again.empty(); }
  /// The next bytes to hand over, `limit` at most.
  Piece next_piece(uint64_t limit) const {
    if (again.empty()) return {moved, std::min(limit, total - moved)};
    return {again.back().offset, std::min(limit, again.back().length)};
  }
  /// So many of them have been.
  void took(uint64_t bytes) {
    if (again.empty()) {
      moved += bytes;
      return;
    }
    Piece& piece = again.back();
    piece.offset += bytes;
    piece.length -= bytes;
    if (piece.length == 0) again.pop_back();
  }

  /// As new, but keeps its memory.
  void reset() {
    id = remote = 0;
    sequence = -1;
    total = moved = direct = 0;
    in_flight = stranded = broken = 0;
    used = issuing = failed = moving = counted = offered = false;
    age = 0;
    copy.reset();
    mine = {};  // each by itself: copied, it would wait for what has just been stored, and all that has been before
    theirs = {};
    exposed.clear();
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

  bool withdrawing = false;  ///< send: cancelled, and the receiver has been asked to forget it
  bool plain = false;        ///< a receive of Lane::ireceive_at_once(): if it ends well, the next such one may have it as it is

  Transfer(RequestKind k, const Ops* o, Lane* l) : Request(k, o, l) {}
};

inline bool sends(const Transfer& t) { return t.request_kind == RequestKind::send || t.request_kind == RequestKind::persistent_send; }

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
  /// Takes out those before that one; all if it is null.
  void drop_until(Transfer* rest) {
    head_ = rest;
    (rest ? rest->prev : tail_) = nullptr;
  }
  size_t size() const {
    size_t n = 0;
    for (const Transfer* t = head_; t; t = t->next) ++n;
    return n;
  }
  Transfer* pop_front() {
    Transfer* t = head_;
    if (!t) return nullptr;
    head_ = t->next;
    (head_ ? head_->prev : tail_) = nullptr;
    t->next = nullptr;
    return t;
  }

 private:
  Transfer *head_ = nullptr, *tail_ = nullptr;
};

}  // namespace weft::pml
