#include "blocks.h"

#include <numeric>

namespace random_test {

Blocks draw_blocks(Rng& rng, const Pattern& pattern, int64_t unit, const std::vector<int64_t>& units, Form form) {
  Blocks blocks;
  const size_t n = units.size();
  for (size_t i = 0; i < (form == Form::each ? n : 1); ++i) blocks.layouts.push_back(draw_layout(rng, pattern, unit));
  for (size_t i = 0; i < n; ++i) {
    blocks.counts.push_back(int(units[i] * unit / blocks.layout(i).patterns));
    blocks.types.push_back(blocks.layout(i).type);
  }
  blocks.displacements.resize(n);
  blocks.in_bytes = form == Form::each;
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t(0));
  if (form != Form::uniform && rng.chance(60)) rng.shuffle(order);
  int64_t cursor = 0;
  for (size_t i : order) {
    const int64_t step = blocks.in_bytes ? blocks.layout(i).extent : 1, align = blocks.in_bytes ? 16 : 1;
    const int64_t lb = blocks.in_bytes ? blocks.layout(i).lb : 0;
    if (form != Form::uniform && rng.chance(40)) cursor += align * rng.below(4);
    cursor = (cursor - lb + (align - 1)) / align * align;  // the cursor never lies below a lower bound
    blocks.displacements[i] = int(cursor);
    cursor += lb + blocks.counts[i] * step;
  }
  blocks.count_list = Counts(blocks.counts);
  blocks.displacement_list = Counts(blocks.displacements);
  for (size_t i = 0; i < n; ++i) blocks.area.reserve(blocks.layout(i), blocks.at(i), blocks.counts[i]);
  return blocks;
}

}  // namespace random_test
