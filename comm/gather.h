// What all ranks of a job know, brought together at rank 0, whoever does not answer: for reports.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "comm/measure.h"
#include "pml/lane.h"
#include "pml/team.h"
#include "runtime/boot/boot.h"

namespace weft::comm {

constexpr size_t kMostTold = 12 << 10;  ///< bytes of one process: sent at once, whoever listens

/// The hosts of the job, by rank.
std::vector<HostOf> all_hosts(boot::Bootstrap&);

/// What a rank knows, as a text of at most kMostTold bytes that those before it have been added to.
struct Knowledge {
  std::function<std::string()> tell;
  std::function<void(const std::string&)> add;
};

/// The first rank of each host hears its others, rank 0 the first ranks; `team` has all ranks of the job. `hosts`: all of them; of interest
/// to the first rank of each only. Returns at rank 0 who has said nothing for some seconds.
std::vector<std::string> gather(const boot::Job&, pml::Lane&, pml::Team&, const std::vector<HostOf>& hosts, const Knowledge&);

/// "a, b, c and 4 more"
std::string joined(const std::vector<std::string>& words);

}  // namespace weft::comm
