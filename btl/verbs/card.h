// What a process publishes so that others can reach it over verbs, and which of its rails talks to which of a peer's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/boot/boot.h"
#include "runtime/net/address.h"
#include "runtime/net/rdma.h"

namespace weft::btl::verbs {

/// Says more than the job's secret: whoever knows it has read this process's card.
using Token = std::array<std::byte, 16>;

constexpr size_t kMaxRails = 8;

/// The visiting card of a process: one entry per rail.
struct Card {
  struct Rail {
    std::string device;            ///< "mlx5_0:1"
    std::vector<net::Gid> gids;    ///< best first
    std::vector<net::Address> at;  ///< where the rail listens for those that want to set up a connection
  };
  std::string host;     ///< for messages
  std::string host_id;  ///< see net::network_host_id()
  Token token{};
  std::vector<Rail> rails;

  boot::Blob encode() const;
  /// Nothing if the bytes are no card.
  static std::optional<Card> decode(const boot::Blob& bytes);
};

/// The best pair of addresses of two rails.
struct GidPair {
  net::Gid mine, theirs;
  int worth = 0;  ///< see net::judge(); 0: there is none
};
GidPair best_gids(const Card& mine, size_t my_rail, const Card& theirs, size_t their_rail);

/// Ways on which a connection from one rail to another can be set up, best first.
struct TcpWay {
  net::Address from, to;
};
std::vector<TcpWay> tcp_ways(const Card& mine, size_t my_rail, const Card& theirs, size_t their_rail);

/// The peer's rail that `my_rail` talks to, -1 if none is left for it. Each rail has at most one partner; best pairs come first. Both
/// sides find the same pairs, as they compute them from the same two cards in the same order (the lower rank's first).
int partner_of(const Card& mine, uint32_t my_rank, size_t my_rail, const Card& theirs, uint32_t their_rank);

}  // namespace weft::btl::verbs
