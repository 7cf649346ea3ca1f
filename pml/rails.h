// Several ways over networks to one peer. Each way keeps its order and may break at any time; then what was on it and has not arrived
// goes over the others, once and only once.
//
// Both sides count the messages of a way. When one is lost, each side closes it for good and says how many have come (`resume`); from
// then on the other knows what is to be sent again. The way's next life begins when both have said so. Messages that belong to
// this bookkeeping are not counted, and do no harm if they come twice. Counted ones say in which life they were sent: what comes of
// another one, or of one that this side has closed, comes again.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "btl/btl.h"
#include "pml/message.h"
#include "pml/transfer.h"

namespace weft::pml {

constexpr uint32_t kNoWire = ~uint32_t{0};

/// btl::Header::flags: the message is counted by its way; the bits above are the lowest ones of the way's life.
constexpr uint8_t kCounted = 1;

/// A counted message that is not known to have arrived.
struct Sent {
  btl::Header header;
  std::byte* payload = nullptr;  ///< a copy from the lane's pool
  OperationId transfer = 0;      ///< of a fragment: the send that its bytes can be had from again
};

/// A write into the peer's memory that was under way when its way was lost. The bytes may go again only when the peer has closed the way:
/// until then the old write may still take place.
struct Stranded {
  OperationId transfer = 0;
  Piece piece;
};

/// One way to a peer, over one rail of this process.
struct Track {
  enum class State : uint8_t {
    none,    ///< this wire does not lead to the peer
    asleep,  ///< never needed
    trying,  ///< connected anew; nothing has come over it yet
    up,
    down,  ///< lost; `retry_at` says when it is tried again
  };

  State state = State::none;
  uint8_t rail = 0;   ///< see btl::Endpoint::rail()
  uint16_t life = 0;  ///< how often both sides have begun anew
  uint32_t wire = 0;  ///< name of the kind of wire
  btl::Endpoint* endpoint = nullptr;
  const btl::Caps* caps = nullptr;
  double beta_ns_per_byte = 0;  ///< see Way::price
  double large = 0;             ///< see Way::large

  // This life's messages.
  std::deque<Sent> unacknowledged;
  std::vector<Stranded> stranded;
  uint64_t acknowledged = 0;   ///< of ours that have arrived
  uint64_t received = 0;       ///< of the peer's
  uint64_t told = 0;           ///< of those, as the peer knows
  uint64_t told_later = 0;     ///< payload bytes that came since
  uint64_t last_received = 0;  ///< in the life before, to be said again: the peer may not have heard it

  bool final = false;    ///< this side has closed this life and waits for the peer's word
  bool greeted = false;  ///< the present connection carries our word
  bool proven = false;   ///< the peer's word has come over the present connection, or a message
  bool lost = false;     ///< the transport says so, in a callback
  bool heard = false;    ///< the peer has closed this life: that many had arrived there
  uint64_t heard_count = 0;
  uint64_t refused_at = 0;  ///< ns; 0: takes what it is given
  uint32_t failures = 0;    ///< attempts in vain since it was up
  uint64_t retry_at = 0;

  /// Has a life before the present one ended? Then the peer is to hear of that before anything else.
  bool reborn() const { return life > 0 || last_received > 0; }
  bool usable() const { return state == State::up && !refused_at && !final && (greeted || !reborn()); }
  bool known() const { return state != State::none; }
  uint64_t untold() const { return received - told; }
  /// Header::flags of what is counted in this life.
  uint8_t counted() const { return static_cast<uint8_t>(kCounted | life << 1); }
  /// Does this side take a message of this life, or will it come again?
  bool takes(const btl::Header& h) const { return !final && h.flags == counted(); }
};

/// What a lane and its peer have over several ways.
struct Rails {
  std::vector<Track> tracks;    ///< by number of the lane's wire
  std::vector<uint32_t> order;  ///< wires that lead to the peer, the best for small messages first
  std::deque<Sent> again;       ///< were on a way that was lost
  uint64_t held = 0;            ///< bytes of copies
  uint64_t ask_at = 0;          ///< when the peer may be asked again
  uint64_t dark_since = 0;      ///< ns; 0: some way is up
  uint32_t confined = kNoWire;  ///< see Peer::confined
  bool asked = false;           ///< the peer waits for our acknowledgement
  bool parting = false;         ///< we have said goodbye
  bool departed = false;        ///< the peer has
  bool gone = false;            ///< and cannot be reached any more
  bool wanted = false;          ///< all ways can be used: wake those that sleep
  bool busy = false;            ///< something of this could not be done or said yet
  std::string why;              ///< the last loss

  Track* best() {
    for (uint32_t wire : order)
      if (tracks[wire].usable()) return &tracks[wire];
    return nullptr;
  }
  /// Of the kind of wire that large messages take.
  Track* best_for_large() {
    Track* found = best();
    if (confined != kNoWire) return found;
    for (uint32_t wire : order)
      if (tracks[wire].usable() && tracks[wire].large < found->large) found = &tracks[wire];
    return found;
  }
  /// Do large messages that take the one way take the other one as well?
  bool together(const Track& one, const Track& other) const { return confined == kNoWire ? one.wire == other.wire : &one == &other; }
  Track* find(uint32_t wire, uint8_t rail) {
    for (Track& t : tracks)
      if (t.known() && t.wire == wire && t.rail == rail) return &t;
    return nullptr;
  }
  /// Has all that was sent come?
  bool settled() const {
    if (departed) return true;
    for (const Track& t : tracks)
      if (!t.unacknowledged.empty()) return false;
    return again.empty();
  }
};

}  // namespace weft::pml
