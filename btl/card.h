// What a process publishes of a transport with several rails so that others can reach it, and which of its rails talks to which of a
// peer's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "btl/btl.h"
#include "runtime/boot/boot.h"
#include "runtime/net/address.h"
#include "runtime/net/interfaces.h"
#include "runtime/net/rdma.h"
#include "runtime/net/socket.h"

namespace weft::btl {

/// Says more than the job's secret: whoever knows it has read this process's card.
using Token = std::array<std::byte, 16>;

/// The visiting card of a process: one entry per rail.
struct Card {
  static constexpr size_t kRails = 32, kAddresses = 4, kGids = 4;  ///< most of each (the latter two per rail); the rest is not published

  struct Rail {
    std::string device;                   ///< "eth0", "mlx5_0:1"
    std::vector<net::Address> addresses;  ///< with the ports listened at
    std::vector<net::Gid> gids = {};      ///< best first; only of RDMA devices
    uint32_t mbit = 0;                    ///< speed of its link; 0 if nobody knows

    /// Listens at the addresses of an interface, as far as there is room, and adds them. Those that cannot be bound (an address being
    /// withdrawn) are left out, and `why` tells.
    void listen(const net::Interface& interface, std::vector<net::Fd>& listeners, std::string& why);
  };
  std::string host;     ///< for messages
  std::string host_id;  ///< see net::network_host_id()
  Token token{};
  std::vector<Rail> rails;

  /// A new one of this process, without rails.
  static Card of(const boot::Job& job);

  boot::Blob encode() const;
  /// Nothing if the bytes are no card.
  static std::optional<Card> decode(const boot::Blob& bytes);
};

/// Nanoseconds a byte takes over a link of that speed; 10 Gbit/s if nobody knows.
double beta_of(uint32_t mbit);

/// Do the CPUs that a device hangs on ("local_cpulist" of its folder in /sys/class, as hwloc reads it too) include one that the calling
/// thread may run on? True if the device does not say.
bool is_near(const std::string& folder);

/// The interfaces to listen at: `instead`, or those that the settings choose for this job.
Result<std::vector<net::Interface>> interfaces_for(const boot::Job& job, const std::optional<std::vector<net::Interface>>& instead);

/// A way from one rail to another, by internet addresses.
struct Way {
  net::Address from, to;
  net::Reach reach;
};

/// The ways from `mine` to `theirs`, best first; empty if there is none.
std::vector<Way> ways(const Card& mine, size_t my_rail, const Card& theirs, size_t their_rail);

/// How well two rails reach each other: 0 not at all, more is better. Must not depend on which of them comes first.
using Worth = int (*)(const Card& one, size_t one_rail, const Card& other, size_t other_rail);
/// By the best of the ways().
int best_reach(const Card& one, size_t one_rail, const Card& other, size_t other_rail);

/// The peer's rail that `my_rail` talks to, -1 if none is left for it. Each rail has at most one partner; best pairs come first. Both
/// sides find the same pairs, as they compute them from the same two cards in the same order (the lower rank's first).
int partner_of(Worth worth, const Card& mine, uint32_t my_rank, size_t my_rail, const Card& theirs, uint32_t their_rank);

/// What the way between a rail and its partner() costs: `mine`, unless the link over there is slower.
Price price_between(const Caps& mine, const Card::Rail& theirs);

}  // namespace weft::btl
