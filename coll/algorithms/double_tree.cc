// Two trees, each for one half of the data, in which the inner ranks of one are leaves of the other: every rank passes on as much as it
// takes in, after log2 p steps (Sanders, Speck, Traeff 2009).
#include <array>
#include <bit>

#include "coll/algorithms/algorithms.h"
#include "coll/algorithms/timetable.h"
#include "coll/algorithms/tree.h"

namespace weft::coll {

namespace {

/// A place in the balanced tree of 1 to n whose order from left to right is that of the numbers: odd ones are leaves.
struct InOrder {
  int32_t n, self;

  /// 0: it is the top.
  int32_t parent() const {
    int64_t at = self;
    do {
      const int64_t lowest = at & -at;
      at = (at ^ lowest) | 2 * lowest;
    } while (at > n && at <= 2 * int64_t{n});
    return at > n ? 0 : static_cast<int32_t>(at);
  }
  int32_t depth() const {
    const int32_t above = parent();
    return above == 0 ? 1 : 1 + InOrder{n, above}.depth();
  }
  std::array<int32_t, 2> children() const {  // 0: none
    const int32_t half = (self & -self) / 2;
    const int32_t right = half == 0 || self == n ? 0 : std::min(half, power_below(n - self));
    return {half == 0 ? 0 : self - half, right == 0 ? 0 : self + right};
  }
};

/// One of the trees, as a rank sees it. The root belongs to neither: the tops hang below it.
struct Branch {
  Kin kin;
  int32_t depth = 0;  ///< of the rank; the root's is 0
  int32_t first = 0;  ///< block

  static Branch of(Rank me, int32_t size, Rank root, bool second) {
    const int32_t n = size - 1, self = wrap(me - root, size);
    // The second one is the first one seen in a mirror, or moved on by one, whichever makes odd what was even.
    const auto number = [&](int32_t r) { return !second ? r : n % 2 == 0 ? n + 1 - r : r % n + 1; };
    const auto rank = [&](int32_t at) {
      const int32_t r = !second ? at : n % 2 == 0 ? n + 1 - at : at == 1 ? n : at - 1;
      return wrap(int64_t{r} + root, size);
    };
    Branch b;
    if (self == 0) {
      b.kin.children = {rank(power_below(n))};
      return b;
    }
    const InOrder place{n, number(self)};
    const int32_t above = place.parent();
    b.kin.parent = above == 0 ? root : rank(above);
    for (const int32_t child : place.children())
      if (child != 0) b.kin.children.push_back(rank(child));
    b.depth = place.depth();
    return b;
  }
};

/// Both of them, and the times at which their ranks act.
struct DoubleTree {
  std::array<Branch, 2> branches;
  int32_t each;    ///< blocks a tree
  int32_t height;  ///< no depth is larger

  DoubleTree(Rank me, int32_t size, Rank root, int32_t segments)
      : branches{Branch::of(me, size, root, false), Branch::of(me, size, root, true)},
        each((segments + 1) / 2),
        height(std::bit_width(static_cast<uint32_t>(size - 1))) {
    branches[1].first = each;
  }

  /// From the root to all, the root beginning at `from`.
  void down(Timetable& table, int32_t from) const {
    for (const Branch& b : branches) {
      const Place place{buffer_out, b.first};
      table.add(from + b.depth - 1, each, {.kind = StepKind::receive, .peer = b.kin.parent, .a = place});
      for (const Rank child : b.kin.children) table.add(from + b.depth, each, {.kind = StepKind::send, .peer = child, .a = place});
    }
  }

  /// Sums to the root, which has the first one when this says. The `arrived` are scratch regions.
  int32_t up(Timetable& table, std::array<uint8_t, 2> arrived, bool in_place) const {
    for (const Branch& b : branches) {
      const int32_t leaves = 2 * (height - b.depth);
      const Place mine{buffer_in, b.first}, sum{arrived[0], b.first}, other{arrived[1], b.first};
      uint8_t region = 0;
      for (const Rank child : b.kin.children)
        table.add(leaves - 2, each, {.kind = StepKind::receive, .peer = child, .a = {arrived[region++], b.first}});
      const Place result{b.kin.parent < 0 ? uint8_t{buffer_out} : arrived[0], b.first};
      if (b.kin.parent >= 0) {
        if (region > 0) table.add(leaves - 1, each, {.kind = StepKind::reduce, .a = mine, .b = sum});
        if (region > 1) table.add(leaves - 1, each, {.kind = StepKind::reduce, .a = other, .b = sum});
      } else if (in_place) {
        table.add(leaves - 1, each, {.kind = StepKind::reduce, .a = sum, .b = result});
      } else {
        table.add(leaves - 1, each, {.kind = StepKind::combine, .a = sum, .b = mine, .c = result});
      }
      table.add(leaves, each, {.kind = StepKind::send, .peer = b.kin.parent, .a = region > 0 ? sum : mine});
    }
    return 2 * height;
  }

  /// Room for what comes from each child.
  std::array<uint8_t, 2> regions(Builder& b) const {
    size_t children = 0;
    for (const Branch& branch : branches) children = std::max(children, branch.kin.children.size());
    return {children > 0 ? b.full_region() : uint8_t{0}, children > 1 ? b.full_region() : uint8_t{0}};
  }
};

}  // namespace

Schedule bcast_double_tree(const Topology&, Rank me, int32_t size, const Parameters& p) {
  if (size == 1) return Builder(1).done();
  const DoubleTree trees(me, size, p.root, p.segments);
  Timetable table;
  trees.down(table, 0);
  return table.write(Builder(2 * trees.each));
}

Schedule reduce_double_tree(const Topology&, Rank me, int32_t size, const Parameters& p) {
  if (size == 1) return copy_through(p.in_place);
  const DoubleTree trees(me, size, p.root, p.segments);
  Builder b(2 * trees.each);
  Timetable table;
  trees.up(table, trees.regions(b), p.in_place);
  return table.write(std::move(b));
}

/// Sums go down again as soon as they are there, so that both ways are busy at the same time.
Schedule allreduce_double_tree(const Topology&, Rank me, int32_t size, const Parameters& p) {
  if (size == 1) return copy_through(p.in_place);
  const DoubleTree trees(me, size, 0, p.segments);
  Builder b(2 * trees.each);
  Timetable table;
  trees.down(table, trees.up(table, trees.regions(b), p.in_place));
  return table.write(std::move(b));
}

}  // namespace weft::coll
