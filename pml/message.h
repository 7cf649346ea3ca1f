// What travels: kinds of messages, their payloads, and arrived messages that nobody has asked for yet.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "btl/btl.h"
#include "pml/team.h"

namespace weft::pml {

/// btl::Header::kind. The first three are matched. They and `withdraw` carry a sequence number and take effect in its order; the others
/// may overtake. Those that are not matched name an operation by its id in Header::context.
enum class MessageKind : uint8_t {
  eager = 1,   ///< the data itself
  eager_sync,  ///< the same; answered by `received` when matched
  announce,    ///< Announcement, then its regions (see RegionBegin): the data waits at the sender
  withdraw,    ///< the sender has cancelled the operation in `context`, whose message, number `tag`, may not be matched yet
  clear,       ///< ClearToSend: the receiver asks for the data as fragments
  fragment,    ///< data; tag and source hold its offset
  written,     ///< so many bytes (in the place of a fragment's offset) have been written into the receiver's memory
  finished,    ///< the receiver needs nothing more of a send operation
  credit,      ///< context holds bytes that the receiver has room for again
  // of several ways to one peer: rails.h
  hello,        ///< the greeting over a way ends: it works
  acknowledge,  ///< context holds the number of counted messages that have come over this way
  ask,          ///< please acknowledge at once
  goodbye,      ///< counted: everything before has been acknowledged, and nothing comes after
  resume,       ///< a life of a way has ended: context holds the same number, tag names the wire, source rail and life
  held_up,      ///< messages wait at the sender because the receiver has no room, not even for announcements
  withdrawn,    ///< the message had not been matched, and is not there any more
  received,     ///< the eager_sync message of the number in `context` has been matched
  offer,        ///< the receiver would rather read messages of kOfferFrom bytes and more than be sent them unasked
  last = offer,
};
inline bool is(const btl::Header& h, MessageKind kind) { return h.kind == static_cast<uint8_t>(kind); }
constexpr bool in_order(uint8_t kind) { return kind <= static_cast<uint8_t>(MessageKind::withdraw); }

/// An operation in flight, as the other side names it: index and generation in the lane's table. 0: none.
using OperationId = uint64_t;

/// Ways that one message is spread over at most, and pieces of memory that it may consist of if the other side is to reach them.
constexpr size_t kMaxStripes = 32;
constexpr size_t kMaxPieces = 16;
constexpr size_t kMaxRegions = 64;  ///< pieces times ways: over many ways a message must lie in fewer pieces

/// How the other side can reach memory of this one: over each of some ways by `pieces` regions, which follow the message; those of the
/// way with the lowest rail come first.
struct Exposure {
  uint32_t wire = 0;     ///< name of the ways' kind
  uint32_t rails = 0;    ///< btl::Endpoint::rail() of each way, as a bit; 0: it cannot be reached
  uint16_t pieces = 0;   ///< in the order of the data
  uint16_t lapses = 0;   ///< 1: its owner may change it without asking: what is read is good while Endpoint::peer_recalls() is
  uint32_t recalls = 0;  ///< this

  size_t ways() const { return count(rails); }
  bool has(uint8_t rail) const { return rail < kMaxStripes && rails >> rail & 1; }
  /// The place of its way among all.
  size_t place_of(uint8_t rail) const { return count(rails & ((1u << rail) - 1)); }

 private:
  /// Mostly one at most: what counts any number may be a call.
  static size_t count(uint32_t bits) { return (bits & (bits - 1)) == 0 ? bits != 0 : static_cast<size_t>(std::popcount(bits)); }
};

/// The data waits at the sender, and can be read there if the exposure says so.
struct Announcement {
  OperationId sender = 0;
  uint64_t total = 0;  ///< bytes of data
  Exposure memory;
};

/// Stands in the place of an only region of an announcement that is as long as the data and has no key: with it an announcement is as short
/// as a message that goes in one line of memory (24 bytes of header and 40 of payload).
struct RegionBegin {
  uint64_t address = 0;
  static bool suffices(const btl::Region& region, uint64_t total) {
    const auto [first, second] = std::bit_cast<std::array<uint64_t, 2>>(region.key);  // compared byte by byte otherwise
    return region.length == total && (first | second) == 0;
  }
};
static_assert(sizeof(Announcement) + sizeof(RegionBegin) == 40);

/// The receiver asks for the data: to be written into its memory if the exposure says so, as fragments otherwise.
struct ClearToSend {
  OperationId receiver = 0;
  uint64_t wanted = 0;  ///< bytes; less than the total if the receiver's buffer is short
  Exposure memory;      ///< of one piece
  uint64_t offer = 0;   ///< 1: the receiver would rather read messages like this one; their announcements had better say where they lie
};

/// A short answer that waits for room.
struct Control {
  btl::Header header;
  ClearToSend clear;
  std::vector<btl::Region> regions;  ///< follow `clear`
};

inline void set_offset(btl::Header& header, uint64_t offset) {
  header.tag = static_cast<int32_t>(static_cast<uint32_t>(offset));
  header.source = static_cast<int32_t>(static_cast<uint32_t>(offset >> 32));
}
inline uint64_t offset_of(const btl::Header& header) {
  return uint64_t{static_cast<uint32_t>(header.source)} << 32 | static_cast<uint32_t>(header.tag);
}

/// Data bytes that a matchable message stands for.
uint64_t message_bytes(const btl::Header&, const std::byte* payload);

struct Peer;

/// A message that arrived before its receive was posted.
struct Unexpected {
  btl::Header header;
  Peer* peer = nullptr;
  const std::byte* payload = nullptr;               ///< header.length bytes right behind this, from the lane's pool, or
  btl::Transport* keeper = nullptr;                 ///< where it has left them
  Unexpected *next = nullptr, *prev = nullptr;      ///< same source and tag, in order
  Unexpected *later = nullptr, *earlier = nullptr;  ///< same context, in order
};

}  // namespace weft::pml
