// What ways between processes cost, measured one by one with messages of the pml.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pml/lanes.h"
#include "pml/prices.h"
#include "pml/team.h"

namespace weft::comm {

/// A host, by the first of its ranks.
struct HostOf {
  std::string name;
  uint32_t rank;
};

/// Does WEFT_NET_MEASURE ask for it?
bool measures_ways();

/// The first two ranks of each host measure the ways within it, the first ranks of all hosts (the first 32
/// of them) those between each other, two hosts at a time. Every rank calls it, and learns what holds for its host.
/// `hosts`: all of them, by rank; of interest to the first rank of each only.
void measure_ways(pml::Lanes&, pml::Lane&, pml::Team&, const std::vector<HostOf>& hosts);

/// Who meets whom: in each round every one of `count` meets another one or nobody (-1), and after all rounds() each pair has met once.
int partner_in(uint32_t round, uint32_t me, uint32_t count);
inline uint32_t rounds(uint32_t count) { return count < 2 ? 0 : count - 1 + count % 2; }

}  // namespace weft::comm
