// GPUs of ranks, and the network interfaces near them.
#pragma once

#include "launcher/place/map.h"
#include "launcher/place/place.h"

namespace weft::placement {

/// What the ranks of one host are given: names, seat by seat.
struct Equipment {
  std::vector<std::vector<std::string>> gpus, nics;
  std::vector<topo::CpuSet> near;  ///< the CPUs next to a seat's GPUs; empty: unknown
};

/// `request.gpus_each` GPUs for each seat, none for two. Seats that were dealt to a piece of hardware, or bound (`cpus` in the order of
/// seats, or none), get GPUs near it; others are spread over packages, then over what GPUs hang from, so that few share a way to memory and
/// network. The ranks' interfaces are the nearest to their GPUs; of those that are equally near, the ones that the fewest have. Fails if
/// there are too few GPUs.
Result<Equipment> equip(const Request& request, const Host& host, const std::vector<Seat>& seats);

uint32_t gpus_of(const Machine& machine);

}  // namespace weft::placement
