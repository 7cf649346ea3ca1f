// Which network interfaces there are, and which of them Weft uses (launcher and data alike).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/net/address.h"

namespace weft::net {

/// A network interface with its addresses.
struct Interface {
  std::string name;
  unsigned index = 0;
  bool up = false;  ///< administratively up and with carrier
  bool loopback = false;
  uint32_t mbit = 0;               ///< link speed, 0 if unknown
  std::vector<Address> addresses;  ///< IPv4 first
};

/// All interfaces of this host (network namespace) that carry an internet address.
std::vector<Interface> list_interfaces();

/// Whom the job's processes must reach.
enum class Extent : uint8_t { host, network };

/// Chooses the interfaces to use; `setting` has the form of WEFT_NET_INTERFACES. Link-local addresses are left out unless a
/// CIDR names them. Without a setting: the loopback if all processes are on one host, otherwise whatever is up and neither
/// loopback nor, while anything else is there, a bridge of containers or virtual machines (docker0, virbr0, veth...).
/// A setting that leaves nothing is a Failure that names what exists. Pure.
Result<std::vector<Interface>> choose(std::span<const Interface> all, std::string_view setting, Extent extent);

/// choose() over list_interfaces() with WEFT_NET_INTERFACES.
Result<std::vector<Interface>> usable_interfaces(Extent extent);

/// The same for all processes that share a network stack (host and network namespace), different otherwise.
std::string network_host_id();

}  // namespace weft::net
