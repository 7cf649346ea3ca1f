// Messages as they lie in a slot, and how they are read: nothing that a peer puts there is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "btl/btl.h"

namespace weft::btl::verbs {

/// Goes with everything that is sent, as its immediate data.
struct Tag {
  enum class What : uint8_t {
    message = 1,  ///< Header and payload
    alike,        ///< payload only: the header is that of the message before with the next sequence number
    credit,
    bye,
  };
  uint16_t credits = 0;  ///< messages that the receiver of this may send more
  What what = What::message;
  uint8_t zero = 0;
};
static_assert(sizeof(Tag) == sizeof(uint32_t));
constexpr uint32_t kFront = sizeof(Header);
constexpr uint32_t kMostPayload = 8192;
constexpr uint32_t kSlotBytes = kMostPayload + kFront;

/// The header of the message that comes after `last`, where it says nothing else than that.
inline Header alike(Header last, uint32_t length) {
  ++last.sequence;
  last.length = length;
  return last;
}

/// What has arrived, once read.
struct Arrival {
  Header header;                       ///< of a message
  const std::byte* payload = nullptr;  ///< header.length bytes, in the slot; null: it was no message
  const char* trouble = nullptr;       ///< what is wrong with it
};

/// Reads the `bytes` (at most kSlotBytes) that have come into a slot with `tag`; `last`: the header of the message before.
inline Arrival read_arrival(const std::byte* slot, uint32_t bytes, const Tag& tag, const Header& last) {
  Arrival out;
  switch (tag.what) {
    case Tag::What::credit:
    case Tag::What::bye: return out;
    case Tag::What::alike:
      if (bytes > kMostPayload) return out.trouble = "it sent a message that is too long; memory of one side is damaged", out;
      out.header = alike(last, bytes);
      out.payload = slot;
      return out;
    case Tag::What::message:
      if (bytes < kFront) return out.trouble = "it sent a message that is too short; memory of one side is damaged", out;
      memcpy(&out.header, slot, sizeof out.header);
      if (out.header.length != bytes - kFront) return out.trouble = "the length of a message is wrong; memory of one side is damaged", out;
      out.payload = slot + kFront;
      return out;
  }
  return out.trouble = "it sent a message of an unknown kind; memory of one side is damaged, or the two run different versions", out;
}

}  // namespace weft::btl::verbs
