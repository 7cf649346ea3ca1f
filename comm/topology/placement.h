// Where the ranks of a communicator run, and what it costs them to talk: what ranks are reordered by.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "runtime/topo/network.h"

namespace weft::comm {

/// Where one rank runs: which instance of each level of hardware it is bound to, from the outside in; -1: to none in particular.
struct Place {
  static constexpr int kSwitches = static_cast<int>(topo::Network::kLevels), kLevels = kSwitches + 6;
  std::array<uint64_t, kSwitches> switches{};  // that the host hangs on, the nearest last; 0: none
  uint64_t host = 0;
  int32_t package = -1, numa = -1, l3 = -1, l2 = -1, core = -1;
  int32_t unknown = 0;  ///< not 0: the file of the network could not be read
};

/// The ranks as leaves of a tree of levels. Levels that tell no ranks apart are left out.
class Placement {
 public:
  explicit Placement(std::span<const Place> ranks);

  struct Level {
    int32_t distance;            ///< between ranks that part here: the cost of a unit of weight, see kDistances in placement.cc
    std::vector<int32_t> group;  ///< by rank; ranks in one group are together on all levels above as well
  };
  const std::vector<Level>& levels() const { return levels_; }
  int32_t ranks() const { return ranks_; }
  /// What a unit of weight costs between two ranks: 0 where nothing parts them.
  int32_t distance(int32_t a, int32_t b) const {
    for (const Level& level : levels_)
      if (level.group[static_cast<size_t>(a)] != level.group[static_cast<size_t>(b)]) return level.distance;
    return 0;
  }

 private:
  int32_t ranks_;
  std::vector<Level> levels_;
};

/// Where the calling thread runs. `network`: the file that tells which hosts share a switch, empty if there is none; what is wrong with it
/// comes into `why`.
Place own_place(const boot::Job&, const std::string& network, std::string& why);
/// The file that WEFT_NETWORK names; empty: none.
std::string network_file();
/// Names the switches above a host.
void put_switches(Place&, const std::vector<std::string>& nearest_first);
/// Asks all ranks of a communicator; collective. The first `size` of them come into the result. MPI_ERR_FILE on all of them if the file
/// that WEFT_NETWORK names is of no use to one.
int gather_places(Communicator&, int size, std::vector<Place>& places);

}  // namespace weft::comm
