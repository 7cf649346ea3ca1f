#include "runtime/topo/lent.h"

#include <algorithm>
#include <tuple>

namespace weft::topo {

namespace {

/// A CPU where somebody is away from all that it exchanges messages with, as `self` is, which is the last of those that are.
std::optional<uint32_t> others_away(std::span<const std::optional<Lent>> lent, size_t self, std::span<const uint32_t> cpus) {
  const auto is_away = [&](size_t i) { return lent[i] && lent[i]->bond == Lent::Bond::away; };
  if (!is_away(self)) return std::nullopt;
  std::optional<uint32_t> found;
  for (size_t i = 0; i < lent.size(); ++i) {
    if (!is_away(i)) continue;
    if (i > self) return std::nullopt;
    if (!found && lent[i]->cpu != lent[self]->cpu && std::ranges::find(cpus, lent[i]->cpu) != cpus.end()) found = lent[i]->cpu;
  }
  return found;
}

}  // namespace

Place better_cpu(std::span<const std::optional<Lent>> lent, size_t self, bool leaves, std::span<const uint32_t> cpus) {
  const uint32_t own = lent[self]->cpu;
  const auto lenders = [&](uint32_t cpu) { return std::ranges::count_if(lent, [&](const auto& l) { return l && l->cpu == cpu; }); };
  const auto bound = [&](uint32_t cpu) {
    return std::ranges::any_of(lent, [&](const auto& l) { return l && l->cpu == cpu && l->bond != Lent::Bond::none; });
  };
  // How far from i, in a ring, the next process is that lends that CPU.
  const auto distance = [&](size_t i, uint32_t cpu) {
    size_t least = lent.size();
    for (size_t j = 0; j < lent.size(); ++j) {
      const size_t apart = i > j ? i - j : j - i;
      if (lent[j] && lent[j]->cpu == cpu) least = std::min({least, apart, lent.size() - apart});
    }
    return least;
  };
  // Is there nobody here who had better go there?
  const auto goes = [&](uint32_t there) {
    const auto place_in_line = [&](size_t i) { return std::tuple(lent[i]->bond, distance(i, there), lent.size() - i); };
    for (size_t i = 0; i < lent.size(); ++i)
      if (lent[i] && lent[i]->cpu == own && place_in_line(i) < place_in_line(self)) return false;
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
  if (roomier) return {roomier, !goes(*roomier)};
  if (const auto exchange = others_away(lent, self, cpus)) return {exchange};
  if (leaves && free) return {free};
  return {all_lent ? std::optional(own) : std::nullopt};
}

}  // namespace weft::topo
