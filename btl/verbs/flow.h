// Which way through a network a queue pair takes, where switches choose by a hash of addresses and ports.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::btl::verbs {

/// The flow label of a queue pair, one of those of a way. Devices derive the UDP source port of RoCE v2 from it (udp_source_port), and so
/// no two pairs of a way, of up to 16384, have the same; a way that was opened anew (`generation`) gets others. Never 0, which
/// would leave it to the driver: it hashes the numbers of the pairs, which can meet.
inline uint32_t flow_label(uint32_t from, uint32_t to, uint32_t rail, uint32_t generation, size_t queue) {
  uint64_t mixed = (uint64_t{from} << 32 | to) * 0x9e3779b97f4a7c15u + (uint64_t{generation} << 32 | rail);
  mixed = (mixed ^ mixed >> 31) * 0xbf58476d1ce4e5b9u;
  mixed ^= mixed >> 29;
  const auto low = static_cast<uint32_t>((mixed + queue * 0x1235) & 0x3fff);  // an odd step: all 16384 differ
  const auto high = static_cast<uint32_t>(mixed >> 32 & 0x3f) | 1;
  return high << 14 | low;
}

/// As the kernel's RDMA drivers do it.
inline uint16_t udp_source_port(uint32_t label) { return static_cast<uint16_t>(0xc000 | ((label & 0x3fff) ^ (label >> 14 & 0x3f))); }

}  // namespace weft::btl::verbs
