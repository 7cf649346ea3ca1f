#include "runtime/net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace weft::net {

bool Address::loopback() const {
  if (!v6) return bytes[0] == 127;
  return std::all_of(bytes.begin(), bytes.end() - 1, [](uint8_t b) { return b == 0; }) && bytes[15] == 1;
}

bool Address::link_local() const {
  if (!v6) return bytes[0] == 169 && bytes[1] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

bool Address::private_use() const {
  if (v6) return (bytes[0] & 0xfe) == 0xfc;
  return bytes[0] == 10 || (bytes[0] == 172 && (bytes[1] & 0xf0) == 16) || (bytes[0] == 192 && bytes[1] == 168) ||
         (bytes[0] == 100 && (bytes[1] & 0xc0) == 64);
}

bool Address::unspecified() const {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; });
}

bool Address::covers(const Address& other) const {
  if (v6 != other.v6) return false;
  const int bits = std::min<int>(prefix, v6 ? 128 : 32);
  if (memcmp(bytes.data(), other.bytes.data(), size_t(bits / 8)) != 0) return false;
  if (bits % 8 == 0) return true;
  const int mask = 0xff << (8 - bits % 8) & 0xff;
  return ((bytes[size_t(bits / 8)] ^ other.bytes[size_t(bits / 8)]) & mask) == 0;
}

std::string Address::text() const {
  char out[INET6_ADDRSTRLEN];
  return inet_ntop(v6 ? AF_INET6 : AF_INET, bytes.data(), out, sizeof out) ? out : "?";
}

std::string Address::with_port() const { return (v6 ? "[" + text() + "]" : text()) + ":" + std::to_string(port); }

socklen_t Address::to_socket(sockaddr_storage& out) const {
  out = {};
  if (v6) {
    auto& in = reinterpret_cast<sockaddr_in6&>(out);
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    in.sin6_scope_id = link_local() ? scope : 0;
    memcpy(&in.sin6_addr, bytes.data(), 16);
    return sizeof in;
  }
  auto& in = reinterpret_cast<sockaddr_in&>(out);
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  memcpy(&in.sin_addr, bytes.data(), 4);
  return sizeof in;
}

std::optional<Address> from_socket(const sockaddr* address) {
  Address out;
  if (!address) return {};
  if (address->sa_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(address);
    memcpy(out.bytes.data(), &in->sin_addr, 4);
    out.port = ntohs(in->sin_port);
    out.prefix = 32;
    return out;
  }
  if (address->sa_family != AF_INET6) return {};
  const auto* in = reinterpret_cast<const sockaddr_in6*>(address);
  out.v6 = true;
  memcpy(out.bytes.data(), &in->sin6_addr, 16);
  out.port = ntohs(in->sin6_port);
  out.scope = in->sin6_scope_id;
  out.prefix = 128;
  return out;
}

std::optional<Address> parse_address(std::string_view text) {
  Address out;
  const size_t slash = text.find('/');
  const std::string host(text.substr(0, slash));
  out.v6 = host.find(':') != std::string::npos;
  if (inet_pton(out.v6 ? AF_INET6 : AF_INET, host.c_str(), out.bytes.data()) != 1) return {};
  const int most = out.v6 ? 128 : 32;
  int bits = most;
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (error != std::errc{} || end != digits.data() + digits.size() || bits < 0 || bits > most) return {};
  }
  out.prefix = uint8_t(bits);
  return out;
}

Reach judge(const Address& here, const Address& there, bool same_host) {
  if (here.v6 != there.v6) return Reach::none;
  if (same_host) return here.loopback() == there.loopback() ? Reach::host : Reach::none;
  if (here.loopback() || there.loopback() || here.same_host(there)) return Reach::none;
  if (here.covers(there) && there.covers(here)) return Reach::subnet;
  if (here.link_local() || there.link_local()) return Reach::none;
  return Reach::routed;
}

}  // namespace weft::net
