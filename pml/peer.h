// A peer: another process as this one knows it. Made on first contact, kept until the lane closes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "btl/btl.h"
#include "pml/addresses.h"
#include "pml/message.h"
#include "pml/rails.h"
#include "pml/transfer.h"
#include "runtime/base/process_id.h"

namespace weft::pml {

/// One way to a peer.
struct Way {
  uint32_t wire = 0;    ///< name of the wire, as both sides compute it
  uint32_t number = 0;  ///< of the wire among the lane's
  btl::Endpoint* endpoint = nullptr;
  const btl::Caps* caps = nullptr;
  btl::Price published;   ///< what it costs, as both sides publish
  btl::Price price = {};  ///< what it costs: that, unless it was measured
  bool measured = false;
  double small = 0, large = 0;  ///< ns that a small and a large message take over all ways of its kind
};

/// How data moves once it is too large to be sent eagerly.
enum class Bulk : uint8_t { get, stream_zcopy, stream_copied };

/// Which protocol for which size, for one kind of memory. Made when the peer is connected.
struct Protocols {
  uint64_t inline_below = 0;    ///< less than this: one try_inline(), if contiguous
  uint64_t eager_below = 0;     ///< less than this: one buffered send
  uint64_t in_place_below = 0;  ///< less than this, if contiguous: one send from where it lies, which ends when the wire has taken it
  Bulk bulk = Bulk::stream_copied;
  uint64_t get_from = 0;  ///< Bulk::get: less than this is offered to be read only to who asked for it
};

/// Bytes from which what would be eager may be read instead (offer.cc).
constexpr uint64_t kOfferFrom = 16 << 10;

/// Does a peer send its long messages in windows, as far as the latest tell? Then it does not wait for the answer to one of them.
class Windows {
 public:
  /// One has been announced. `more`: another one waits to be read, and nothing has been sent to the peer since. Blocks of scatters come
  /// alone: of 256 KiB to 3 ranks on 2 CPUs they took 60 instead of 40 us as windows.
  void came(bool more) {
    if (!more) row_before_ = std::exchange(row_, uint8_t{0});
    row_ += more && row_ < kLeast;
  }
  bool seen() const { return std::max(row_, row_before_) == kLeast; }

 private:
  static constexpr uint8_t kLeast = 8;  // in a row; halos send two at most
  uint8_t row_ = 0, row_before_ = 0;
};

/// Synchronous sends whose data has left, by the numbers of their messages, which the receiver's answers name.
class Unanswered {
 public:
  bool has(uint16_t sequence) const { return std::ranges::find(sends_, sequence, &Send::sequence) != sends_.end(); }
  void add(uint16_t sequence, OperationId operation) { sends_.push_back({sequence, operation}); }
  /// 0: there is none.
  OperationId take(uint16_t sequence) {
    const auto found = std::ranges::find(sends_, sequence, &Send::sequence);  // mostly the first
    if (found == sends_.end()) return 0;
    const OperationId operation = found->operation;
    sends_.erase(found);
    return operation;
  }

 private:
  struct Send {
    uint16_t sequence;
    OperationId operation;
  };
  std::deque<Send> sends_;
};

/// All members are guarded by the lane's lock.
struct Peer {
  // What sending and receiving a small message touch: one cache line.
  btl::Endpoint* endpoint = nullptr;  ///< the way that is preferred for small messages
  uint64_t quick_below = 0;           ///< payloads below it may be sent at once; 0 while anything stands in the way
  int64_t credit = 0;                 ///< bytes that the peer has still room for, not counting the reserve for announcements
  int64_t consumed = 0;               ///< bytes of the peer's messages taken here and not yet given back as credit
  uint16_t next_sequence = 0;         ///< of the next matchable message to the peer
  uint16_t expected = 0;              ///< of the next matchable message from the peer
  bool connected = false;
  bool failed = false;
  bool queued = false;   ///< stands in the lane's list of peers with something to send
  bool held_up = false;  ///< `pending` waits for credit, as the peer has been told
  bool reads = false;    ///< it would rather read what is shorter than Protocols::get_from, too (ClearToSend::offer, MessageKind::offer)

  // Small messages that may leave together (batch.cc).
  bool gathers = false;      ///< the wire can hold them back
  bool holds = false;        ///< it does; the peer stands in the lane's list of those
  uint32_t burst = 0;        ///< messages in a row
  uint32_t burst_round = 0;  ///< the round of progress before them
  uint64_t burst_last = 0;   ///< ticks at the last one
  Peer* next_holding = nullptr;

  ProcessId id;                            ///< its seat
  bool asked = false;                      ///< it has been told the same of this side
  uint8_t lapses = 0;                      ///< offers that it did not take up lately, twice, less those that it did
  uint16_t sent_before = 0;                ///< `next_sequence` when its latest long message came
  uint16_t heard_before = 0;               ///< `expected` when the latest message that could be offered was sent
  uint16_t shy = 0;                        ///< messages that are sent unasked before the next offer
  uint8_t crossed = 0;                     ///< its long messages to come that count as crossing own ones
  Windows windows;                         ///< of its long messages
  uint8_t refused = 0;                     ///< since one was read, those that it offered and this side had better not read
  uint32_t confined = kNoWire;             ///< number of the only wire that is used while it is measured
  uint32_t lanes = 0;                      ///< of the peer's process, at its first lane; 0: not asked for yet
  Addresses addresses;                     ///< read when asking for the number of lanes, until connected
  std::array<Protocols, 3> protocols;      ///< by memory kind
  std::unique_ptr<Rails> rails;            ///< only with several ways over networks; then `endpoint` is not used
  std::vector<Way> ways;                   ///< that for small messages first
  Transfer* landing = nullptr;             ///< the receive into whose memory an eager message is being read
  TransferList pending;                    ///< matchable messages that found no room, in order
  TransferList streams;                    ///< fragments being pushed
  std::unique_ptr<Unanswered> unanswered;  ///< made with the first synchronous send
  std::vector<Control> controls;           ///< answers that found no room
  Peer* next_queued = nullptr;
  std::vector<Unexpected*> early;  ///< arrived before an earlier one did (several or unordered wires)
  int64_t reserve = 0;             ///< of the room there, the part for announcements; 0: the room has not been measured out yet
  int64_t lent = 0;                ///< bytes that the peer may send beyond its window, until what it sent is taken
  std::string failure;             ///< why it failed: a sentence for people

  /// Would the answer to a synchronous send that is the next message name an earlier one, too?
  bool next_is_ambiguous() const { return unanswered && unanswered->has(next_sequence); }
  /// Has nothing been sent to it since its latest long message came?
  bool unanswered_long() const { return sent_before == next_sequence; }
  const Way* way(uint32_t wire) const {
    for (const Way& w : ways)
      if (w.wire == wire) return &w;
    return nullptr;
  }
  bool idle() const {
    return (pending.empty() || held_up) && streams.empty() && controls.empty() && !(rails && (rails->busy || !rails->again.empty()));
  }
};

}  // namespace weft::pml
