#include <algorithm>
#include <vector>

#include "coll/algorithms/algorithms.h"

namespace weft::coll {

Schedule pipeline(Rank parent, const std::vector<Rank>& children, int32_t segments) {
  Builder b(segments);
  auto pass_on = [&](int32_t block, int32_t stride) {
    for (Rank child : children) b.send(child, {buffer_out, block, stride});
  };
  if (parent < 0) {
    b.begin_loop();
    pass_on(0, 1);
    b.end_loop(segments);
  } else if (children.empty()) {
    b.begin_loop().receive(parent, {buffer_out, 0, 1}).end_loop(segments);
  } else {
    b.receive(parent, {buffer_out, 0}).next();
    b.begin_loop().receive(parent, {buffer_out, 1, 1});
    pass_on(0, 1);
    b.end_loop(segments - 1);
    pass_on(segments - 1, 0);
  }
  return b.done();
}

/// ceil(log2 p) rounds of whole messages, the largest subtree served first.
Schedule bcast_binomial(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(1);
  const int32_t self = wrap(me - p.root, size);
  int64_t mask = 1;
  while (mask < size && !(self & mask)) mask *= 2;
  if (self != 0) b.receive(wrap(me - mask, size), {buffer_out, 0}).next();
  for (mask /= 2; mask > 0; mask /= 2) {
    if (self + mask < size) b.send(wrap(me + mask, size), {buffer_out, 0});
  }
  return b.done();
}

/// Binomial scatter, then ring allgather: each rank sends and receives about twice the data, whatever p is (van de Geijn).
/// Blocks are numbered from the root on.
Schedule bcast_scatter_allgather(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(size);
  const int32_t self = wrap(me - p.root, size);
  int64_t mask = 1;
  while (mask < size && !(self & mask)) mask *= 2;
  if (self != 0) b.receive(wrap(me - mask, size), {buffer_out, self}, static_cast<int32_t>(std::min<int64_t>(mask, size - self))).next();
  for (mask /= 2; mask > 0; mask /= 2) {
    const int64_t child = self + mask;
    if (child >= size) continue;
    b.send(wrap(me + mask, size), {buffer_out, static_cast<int32_t>(child)}, static_cast<int32_t>(std::min<int64_t>(mask, size - child)));
  }
  b.begin_loop();
  b.receive(wrap(me - 1, size), {buffer_out, wrap(self - 1, size), -1}).send(wrap(me + 1, size), {buffer_out, self, -1});
  b.end_loop(size - 1);
  return b.done();
}

/// A pipeline from rank to rank: best for long data on few ranks.
Schedule bcast_chain(const Topology&, Rank me, int32_t size, const Parameters& p) {
  const int32_t self = wrap(me - p.root, size);
  std::vector<Rank> children;
  if (self + 1 < size) children.push_back(wrap(me + 1, size));
  return pipeline(self == 0 ? -1 : wrap(me - 1, size), children, p.segments);
}

/// A pipeline down a complete binary tree: long data on many ranks.
Schedule bcast_binary_tree(const Topology&, Rank me, int32_t size, const Parameters& p) {
  const int32_t self = wrap(me - p.root, size);
  std::vector<Rank> children;
  for (int64_t child = int64_t{2} * self + 1; child <= int64_t{2} * self + 2 && child < size; ++child) {
    children.push_back(wrap(child + p.root, size));
  }
  return pipeline(self == 0 ? -1 : wrap((self - 1) / 2 + p.root, size), children, p.segments);
}

}  // namespace weft::coll
