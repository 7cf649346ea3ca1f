// What a process publishes so that others can reach it over tcp, and which of its rails talks to which of a peer's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/boot/boot.h"
#include "runtime/net/address.h"

namespace weft::btl::tcp {

/// Says more than the job's secret: whoever knows it has read this process's card.
using Token = std::array<std::byte, 16>;

/// The visiting card of a process: one entry per rail.
struct Card {
  struct RailEntry {
    std::string device;
    std::vector<net::Address> addresses;  ///< with the ports listened at
  };
  std::string host;     ///< for messages
  std::string host_id;  ///< see net::network_host_id()
  Token token{};
  std::vector<RailEntry> rails;

  boot::Blob encode() const;
  /// Nothing if the bytes are no card.
  static std::optional<Card> decode(const boot::Blob& bytes);
};

/// A way from one rail to another.
struct Way {
  net::Address from, to;
  net::Reach reach;
};

/// The ways from `mine` to `theirs`, best first; empty if there is none.
std::vector<Way> ways(const Card& mine, size_t my_rail, const Card& theirs, size_t their_rail);

/// The peer's rail that `my_rail` talks to, -1 if none is left for it. Each rail has at most one partner; best ways are paired
/// first. Both sides find the same pairs, as they compute them from the same two cards in the same order (the lower rank's first).
int partner_of(const Card& mine, uint32_t my_rank, size_t my_rail, const Card& theirs, uint32_t their_rank);

}  // namespace weft::btl::tcp
