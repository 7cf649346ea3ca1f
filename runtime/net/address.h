// Internet addresses of either family, with their subnet and port.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::net {

/// An IPv4 or IPv6 address, optionally with the length of its subnet prefix (bits) and a port (0: any).
struct Address {
  bool v6 = false;
  uint8_t prefix = 0;               ///< bits of the subnet; 32 or 128 for a lone host
  uint16_t port = 0;                ///< host byte order
  uint32_t scope = 0;               ///< interface index, for IPv6 link-local addresses only
  std::array<uint8_t, 16> bytes{};  ///< network order; IPv4 uses the first four

  bool operator==(const Address&) const = default;

  bool loopback() const;
  bool link_local() const;   ///< 169.254.0.0/16, fe80::/10
  bool private_use() const;  ///< RFC 1918, RFC 6598, fc00::/7
  bool unspecified() const;
  bool same_host(const Address& other) const { return v6 == other.v6 && bytes == other.bytes; }
  /// True if `other` lies in the subnet of this address.
  bool covers(const Address& other) const;

  /// "10.0.0.1", "fd00::2"; with_port(): "10.0.0.1:4711", "[fd00::2]:4711".
  std::string text() const;
  std::string with_port() const;

  /// For the socket calls; returns the length used.
  socklen_t to_socket(sockaddr_storage& out) const;
};

/// Nothing for other families than IPv4 and IPv6. The prefix is that of a lone host.
std::optional<Address> from_socket(const sockaddr* address);

/// "10.0.0.1", "10.0.0.0/8", "fd00::/64"; nothing if it is no address.
std::optional<Address> parse_address(std::string_view text);

/// How well `here` can talk to `there`, judged by the addresses alone.
enum class Reach : uint8_t {
  none,    ///< different families, loopback or link-local of different hosts, or the same address on two hosts (a bridge of each)
  routed,  ///< different subnets: only through a router
  subnet,  ///< a common subnet
  host,    ///< the same host
};
Reach judge(const Address& here, const Address& there, bool same_host);

}  // namespace weft::net
