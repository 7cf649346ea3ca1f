#include "launcher/roster.h"

#include <algorithm>

namespace weft::launcher {

std::optional<std::vector<uint32_t>> Roster::numbers(const std::vector<Proc>& procs) const {
  std::vector<uint32_t> result;
  for (const Proc& proc : procs) {
    const Space* space = find(proc.space);
    if (!space || (proc.rank != all_ranks && proc.rank >= space->ranks)) return {};
    const uint32_t from = proc.rank == all_ranks ? 0 : proc.rank, to = proc.rank == all_ranks ? space->ranks : proc.rank + 1;
    for (uint32_t r = from; r < to; r++) result.push_back(space->first + r);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace weft::launcher
