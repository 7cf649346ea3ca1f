#include "runtime/topo/lent.h"

#include <algorithm>

namespace weft::topo {

std::optional<uint32_t> better_cpu(std::span<const std::optional<Lent>> lent, size_t self, bool together, std::span<const uint32_t> cpus) {
  const uint32_t own = lent[self]->cpu;
  const auto lenders = [&](uint32_t cpu) { return std::ranges::count_if(lent, [&](const auto& l) { return l && l->cpu == cpu; }); };
  const auto last_here = [&](bool any) {
    for (size_t i = lent.size(); i-- > 0;)
      if (lent[i] && lent[i]->cpu == own && (any || lent[i]->apart)) return i;
    return lent.size();
  };
  auto fewest = lenders(own) - 1;
  std::optional<uint32_t> roomier, unlent;
  for (const uint32_t cpu : cpus) {
    const auto there = lenders(cpu);
    if (there == 0 && !unlent) unlent = cpu;
    if (there == 0 || there >= fewest) continue;
    fewest = there;
    roomier = cpu;
  }
  if (roomier) {
    const size_t tied = last_here(false), goes = tied < lent.size() ? tied : last_here(true);
    return goes == self ? *roomier : own;
  }
  if (!unlent) return own;
  return together ? unlent : std::nullopt;
}

}  // namespace weft::topo
