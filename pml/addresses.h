// What a process publishes for its peers: the addresses of all its wires, as one value.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/boot/boot.h"

namespace weft::pml {

/// Of each wire its name and its address, which its transport understands.
using Addresses = std::vector<std::pair<uint32_t, boot::Blob>>;

inline boot::Blob encode(const Addresses& addresses) {
  boot::Blob all;
  auto number = [&](uint32_t n) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&n);
    all.insert(all.end(), bytes, bytes + sizeof n);
  };
  for (const auto& [name, address] : addresses) {
    number(name);
    number(static_cast<uint32_t>(address.size()));
    all.insert(all.end(), address.begin(), address.end());
  }
  return all;
}

inline Result<Addresses> decode_addresses(const boot::Blob& all) {
  Addresses addresses;
  for (size_t at = 0; at != all.size();) {
    uint32_t name, length;
    if (all.size() - at < sizeof name + sizeof length) return Failure{"addresses end too early"};
    memcpy(&name, all.data() + at, sizeof name);
    memcpy(&length, all.data() + at + sizeof name, sizeof length);
    at += sizeof name + sizeof length;
    if (length > all.size() - at) return Failure{"an address is longer than what there is of it"};
    const auto begin = all.begin() + static_cast<ptrdiff_t>(at);
    addresses.emplace_back(name, boot::Blob(begin, begin + static_cast<ptrdiff_t>(length)));
    at += length;
  }
  return addresses;
}

}  // namespace weft::pml
