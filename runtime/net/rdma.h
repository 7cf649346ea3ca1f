// RDMA devices of this host as libibverbs shows them, and which of their ports and addresses Weft uses (transport and `weft info` alike).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/net/address.h"

namespace weft::net {

/// An entry of a port's table of addresses.
struct Gid {
  enum class Type : uint8_t { infiniband, roce_v1, roce_v2 };
  std::array<uint8_t, 16> bytes{};
  Type type = Type::infiniband;
  uint8_t index = 0;
  uint8_t prefix = 0;  ///< bits of the subnet where it is an internet address; a guess if the interface is not visible here

  /// The internet address that it stands for; unspecified if it stands for none (InfiniBand).
  Address address() const;
  std::string text() const;
  bool operator==(const Gid&) const = default;
};

/// A port of a device.
struct RdmaPort {
  std::string device;
  uint8_t port = 1;
  bool active = false;
  bool ethernet = false;  ///< RoCE; otherwise InfiniBand
  std::string state;      ///< "active", "down", ...
  uint16_t lid = 0;
  uint32_t mtu = 0;   ///< bytes of payload in a packet
  uint32_t mbit = 0;  ///< 0 if unknown
  std::vector<Gid> gids;

  std::string name() const { return device + ":" + std::to_string(port); }
};

/// Is there an InfiniBand or RoCE port that is up on this host? Asks the kernel only, and loads nothing.
bool rdma_port_is_active();

/// Every port of every device. A Failure says why none can be had: no library, no devices, no right to open them.
Result<std::vector<RdmaPort>> list_rdma_ports();

/// Ports that are active and that WEFT_VERBS_DEVICES leaves, with the addresses that may be used, best first: RoCE v2 with IPv4, with
/// IPv6, link-local, RoCE v1. `setting` and `gid_index` (-1: any) are the user's. Pure.
Result<std::vector<RdmaPort>> choose(std::span<const RdmaPort> all, std::string_view setting, int gid_index);
/// choose() over list_rdma_ports() with the settings.
Result<std::vector<RdmaPort>> usable_rdma_ports();

/// How well one address reaches another: 0 not at all, more is better. Both sides come to the same number.
int judge(const Gid& here, const Gid& there, bool same_host);

}  // namespace weft::net
