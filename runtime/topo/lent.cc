#include "runtime/topo/lent.h"

#include <algorithm>

namespace weft::topo {

std::optional<uint32_t> roomier_cpu(std::span<const std::optional<uint32_t>> lent, size_t self) {
  const auto own = lent[self];
  if (!own || std::ranges::find(lent.subspan(self + 1), own) != lent.end()) return std::nullopt;
  const auto lenders = [&](std::optional<uint32_t> cpu) { return std::ranges::count(lent, cpu); };
  auto fewest = lenders(own) - 1;
  std::optional<uint32_t> best;
  for (const auto cpu : lent) {
    if (!cpu || lenders(cpu) >= fewest) continue;
    fewest = lenders(cpu);
    best = cpu;
  }
  return best;
}

}  // namespace weft::topo
