// What travels: kinds of messages, their payloads, and arrived messages that nobody has asked for yet.
#pragma once

#include <cstddef>
#include <cstdint>

#include "btl/btl.h"
#include "pml/team.h"

namespace weft::pml {

/// btl::Header::kind. The first three are matched and carry a sequence number; the others name an operation by its id in
/// Header::context and may overtake.
enum class MessageKind : uint8_t {
  eager = 1,   ///< the data itself
  eager_sync,  ///< uint64 operation of the sender, then the data; answered by `finished` when matched
  announce,    ///< Announcement, then its regions: the data waits at the sender
  clear,       ///< ClearToSend: the receiver asks for the data as fragments
  fragment,    ///< data; tag and source hold its offset
  finished,    ///< the receiver needs nothing more of a send operation
  credit,      ///< context holds bytes that the sender may send eagerly again
  // of several ways to one peer: rails.h
  hello,        ///< the first message over a way: it works
  acknowledge,  ///< context holds the number of counted messages that have come over this way
  ask,          ///< please acknowledge at once
  goodbye,      ///< counted: everything before has been acknowledged, and nothing comes after
  resume,       ///< a life of a way has ended: context holds the same number, tag names the wire, source rail and life
};
constexpr bool matchable(uint8_t kind) { return kind <= static_cast<uint8_t>(MessageKind::announce); }

/// An operation in flight, as the other side names it: index and generation in the lane's table. 0: none.
using OperationId = uint64_t;

struct Announcement {
  OperationId sender = 0;
  uint64_t total = 0;    ///< bytes of data
  uint32_t wire = 0;     ///< over which the regions can be read
  uint32_t regions = 0;  ///< btl::Region that follow; 0: the data has to be sent
};

struct ClearToSend {
  OperationId receiver = 0;
  uint64_t wanted = 0;  ///< bytes; less than the total if the receiver's buffer is short
};

/// A short answer that waits for room.
struct Control {
  btl::Header header;
  ClearToSend payload;
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
  std::byte* payload = nullptr;                     ///< header.length bytes from the lane's pool
  Unexpected *next = nullptr, *prev = nullptr;      ///< same source and tag, in order
  Unexpected *later = nullptr, *earlier = nullptr;  ///< same context, in order
};

}  // namespace weft::pml
