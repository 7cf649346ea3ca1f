#include "runtime/topo/lent.h"

#include <algorithm>

namespace weft::topo {

Place better_cpu(std::span<const std::optional<Lent>> lent, size_t self, bool leaves, std::span<const uint32_t> cpus) {
  const uint32_t own = lent[self]->cpu;
  const auto lenders = [&](uint32_t cpu) { return std::ranges::count_if(lent, [&](const auto& l) { return l && l->cpu == cpu; }); };
  const auto bound = [&](uint32_t cpu) {
    return std::ranges::any_of(lent, [&](const auto& l) { return l && l->cpu == cpu && l->bond != Lent::Bond::none; });
  };
  // Is there nobody here who had better go?
  const auto goes = [&] {
    for (size_t i = 0; i < lent.size(); ++i)
      if (lent[i] && lent[i]->cpu == own && (lent[i]->bond < lent[self]->bond || (lent[i]->bond == lent[self]->bond && i > self)))
        return false;
    return true;
  };
  auto fewest = lenders(own) - 1;
  std::optional<uint32_t> roomier, free;
  bool all_lent = true;
  for (const uint32_t cpu : cpus) {
    const auto there = lenders(cpu);
    all_lent &= there > 0;
    if (cpu != own && !free && !bound(cpu)) free = cpu;
    if (there == 0 || there >= fewest) continue;
    fewest = there;
    roomier = cpu;
  }
  if (roomier) return {roomier, !goes()};
  if (leaves && free) return {free};
  return {all_lent ? std::optional(own) : std::nullopt};
}

}  // namespace weft::topo
