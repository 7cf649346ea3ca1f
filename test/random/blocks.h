// Buffers of collectives: blocks, one for each of some ranks.
#pragma once

#include "large.h"
#include "layout.h"

namespace random_test {

/// The blocks of a buffer, one for each of some ranks.
struct Blocks {
  std::vector<Layout> layouts;  ///< one for all, or one each
  std::vector<int> counts, displacements;
  std::vector<MPI_Datatype> types;
  Counts count_list, displacement_list;  ///< as MPI takes them
  Area area;
  bool in_bytes = false;

  const Layout& layout(size_t i) const { return layouts[layouts.size() == 1 ? 0 : i]; }
  int64_t at(size_t i) const { return int64_t(displacements[i]) * (in_bytes ? 1 : layout(i).extent); }
  MPI_Datatype type() const { return layouts.empty() ? MPI_DATATYPE_NULL : layouts[0].type; }
  int count() const { return counts.empty() ? 0 : counts[0]; }
  void* base() { return layouts.empty() ? nullptr : area.base(); }
  std::string text() const { return layouts.empty() ? "" : layouts[0].text; }
};

enum class Form { uniform, varying, each };

/// Where each block of the given numbers of units lies: one after the other, or in any order with room between them.
Blocks draw_blocks(Rng& rng, const Pattern& pattern, int64_t unit, const std::vector<int64_t>& units, Form form);

}  // namespace random_test
