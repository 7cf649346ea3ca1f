// gather and scatter
#include <algorithm>

#include "coll/algorithms/algorithms.h"
#include "coll/algorithms/tree.h"

namespace weft::coll {

namespace {

/// A rank's place in the binomial tree below the root.
struct Subtree {
  int32_t self;    ///< rank counted from the root
  int32_t reach;   ///< the power of two at which it hangs below its parent (root: the first one >= size)
  int32_t blocks;  ///< ranks in the subtree, itself included
};

Subtree subtree(Rank me, int32_t size, Rank root) {
  const int32_t self = wrap(me - root, size);
  return {self, static_cast<int32_t>(Kin::reach(self, size)), Kin::below(self, size)};
}

}  // namespace

Schedule gather_linear(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(size);
  if (me != p.root) return b.send(p.root, {buffer_in, me}).done();
  const Rank next = wrap(me + 1, size);
  b.receive(next, {buffer_out, next, 1}).repeat(size - 1, 1);
  if (!p.in_place) b.copy({buffer_in, me}, {buffer_out, me});
  return b.done();
}

/// ceil(log2 p) rounds; inner ranks collect their subtree's blocks in scratch memory.
Schedule gather_binomial(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(size);
  const Subtree tree = subtree(me, size, p.root);
  const Rank parent = wrap(me - tree.reach, size);
  if (me != p.root && tree.blocks == 1) return b.send(parent, {buffer_in, me}).done();
  const uint8_t all = me == p.root ? uint8_t{buffer_out} : b.region(me, tree.blocks);
  for (int32_t mask = 1; mask < tree.reach && tree.self + mask < size; mask *= 2) {
    const Rank child = wrap(me + mask, size);
    b.receive_around(child, all, child, std::min(mask, size - tree.self - mask));
  }
  if (me != p.root || !p.in_place) b.copy({buffer_in, me}, {all, me});
  b.next();
  if (me != p.root) b.send_around(parent, all, me, tree.blocks);
  return b.done();
}

Schedule scatter_linear(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(size);
  if (me != p.root) return b.receive(p.root, {buffer_out, me}).done();
  const Rank next = wrap(me + 1, size);
  b.send(next, {buffer_in, next, 1}).repeat(size - 1, 1);
  if (!p.in_place) b.copy({buffer_in, me}, {buffer_out, me});
  return b.done();
}

/// The mirror of gather_binomial.
Schedule scatter_binomial(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(size);
  const Subtree tree = subtree(me, size, p.root);
  const Rank parent = wrap(me - tree.reach, size);
  if (me != p.root && tree.blocks == 1) return b.receive(parent, {buffer_out, me}).done();
  const uint8_t all = me == p.root ? uint8_t{buffer_in} : b.region(me, tree.blocks);
  if (me != p.root) b.receive_around(parent, all, me, tree.blocks);
  b.next();
  for (int32_t mask = tree.reach / 2; mask > 0; mask /= 2) {
    if (tree.self + mask >= size) continue;
    const Rank child = wrap(me + mask, size);
    b.send_around(child, all, child, std::min(mask, size - tree.self - mask));
  }
  if (me != p.root || !p.in_place) b.copy({all, me}, {buffer_out, me});
  return b.done();
}

}  // namespace weft::coll
