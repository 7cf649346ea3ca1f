// What two rails that have proved themselves tell each other to connect their queue pairs: one Proposal each way.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace weft::btl::verbs {

constexpr size_t kMaxFlows = 8;

/// Everything that the other side needs to bring up its queue pairs. Travels as it is.
struct Proposal {
  uint32_t slot_bytes = 0;  ///< room of a message; must be the same on both sides
  uint32_t generation = 0;  ///< how often the sender has opened this way anew
  uint16_t credits = 0;     ///< messages that the other side may send before it hears more
  uint16_t lid = 0;
  uint8_t queues = 0;                   ///< 1 + those for bulk data
  uint8_t mtu = 0;                      ///< ibv_mtu
  uint8_t reads = 0;                    ///< RDMA reads at a time that this side answers
  uint8_t zero = 0;                     //
  std::array<uint8_t, 16> gid{};        ///< of this side
  std::array<uint8_t, 16> other_gid{};  ///< initiator: the address that the other side shall use
  std::array<uint32_t, 1 + kMaxFlows> numbers{};
  std::array<uint32_t, 1 + kMaxFlows> packets{};  ///< first packet number of each
};
static_assert(sizeof(Proposal) == 120);

/// Empty if the values can be worked with; otherwise what is wrong.
std::string objection(const Proposal& theirs, uint32_t my_slot_bytes);

}  // namespace weft::btl::verbs
