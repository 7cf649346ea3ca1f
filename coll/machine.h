// What a machine is like, as far as the cost of collectives depends on it. Plain data in nanoseconds and bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft::coll {

/// How far two ranks are apart: what their messages go through.
enum class Level : uint8_t { cache, host, leaf, far };
constexpr int kLevels = 4;
const char* to_string(Level);

/// A message of n bytes between two ranks with nothing else under way arrives after
/// `send` + `latency` + n * `per_byte` + `receive`.
struct Path {
  double latency = 0;   ///< ns from the sender's last instruction until the first byte is there
  double per_byte = 0;  ///< ns per byte of one message; a rank's messages leave one after the other, and arrive so
  double send = 0;      ///< ns of the sender's processor per message
  double receive = 0;   ///< ns of the receiver's processor per message
};

struct Machine {
  /// Ranks below one cache: measured, docs/performance.md, one node, 2 ranks: latency of 8 B (290 ns in all), message rate (14 million a
  /// second are 71 ns of the two processors), bandwidth of 4 MiB (27 GB/s). Ranks on one host that share no cache: an assumption, twice the
  /// latency and two thirds of the bandwidth. Hosts below one switch, and farther apart: assumptions of the order of RDMA at 100 Gbit/s
  /// (12.5 GB/s).
  std::array<Path, kLevels> paths = {{
      {.latency = 219, .per_byte = 0.037, .send = 36, .receive = 35},
      {.latency = 440, .per_byte = 0.055, .send = 36, .receive = 35},
      {.latency = 1200, .per_byte = 0.08, .send = 150, .receive = 150},
      {.latency = 2000, .per_byte = 0.08, .send = 150, .receive = 150},
  }};
  /// ns per byte that all ranks of a host together put on its link to the network, and as much that they take from it.
  double host_link = 0.08;
  /// The same of all hosts below a switch and its links to other switches. 0: these carry whatever the hosts send (no oversubscription).
  double uplink = 0;
  /// ns per byte of each operand. Measured: MPI_Reduce_local, sum of double, 4 MiB (44 GB/s).
  double reduce = 0.023;
  /// ns per byte. Measured: 1 MiB in blocks of 512 B (46 GB/s).
  double copy = 0.022;

  const Path& path(Level level) const { return paths[static_cast<size_t>(level)]; }
};

/// The machine's numbers by name, such as "leaf.latency" or "host_link": to print them and to set them.
struct MachineField {
  const char* name;
  const char* unit;
  double& (*of)(Machine&);
};
std::span<const MachineField> machine_fields();

/// The built-in numbers with what WEFT_COLL_MACHINE says.
Machine this_machine();

/// WEFT_COLL_MACHINE: numbers that have been measured and told to all ranks alike.
std::string told_numbers();
/// Are those of messages between hosts among them?
bool leaf_is_measured();

/// Takes "leaf.latency=1500,host_link=0.04". Returns what is wrong, or nothing; all numbers are finite and not negative.
std::string set_fields(Machine&, std::string_view settings);

}  // namespace weft::coll
