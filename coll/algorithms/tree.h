// Trees of ranks, as one of them sees them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "coll/schedule.h"

namespace weft::coll {

/// A rank's neighbours in a tree of the ranks 0 to size - 1.
struct Kin {
  Rank parent = -1;
  std::vector<Rank> children;

  /// In the binomial tree: the largest subtree first.
  static Kin binomial(Rank me, int32_t size, Rank root) { return knomial<2>(me, size, root); }
  /// In the tree of ceil(log_k p) rounds in which each rank that has the data serves k - 1 others: the largest subtrees first.
  template <int32_t k>
  static Kin knomial(Rank me, int32_t size, Rank root) {
    const int64_t self = wrap(me - root, size);
    Kin kin;
    const int64_t above = reach<k>(static_cast<int32_t>(self), size);
    if (self != 0) kin.parent = wrap(self - self % (above * k) + root, size);
    for (int64_t distance = above / k; distance > 0; distance /= k)
      for (int64_t child = self + distance; child < std::min<int64_t>(size, self + distance * k); child += distance)
        kin.children.push_back(wrap(child + root, size));
    return kin;
  }
  /// In a complete tree of so many children each; of one: a chain.
  template <int32_t fan_out>
  static Kin complete(Rank me, int32_t size, Rank root) {
    const int32_t self = wrap(me - root, size);
    Kin kin;
    if (self != 0) kin.parent = wrap(int64_t{(self - 1) / fan_out} + root, size);
    for (int64_t child = int64_t{fan_out} * self + 1; child <= int64_t{fan_out} * (self + 1) && child < size; ++child)
      kin.children.push_back(wrap(child + root, size));
    return kin;
  }
  /// From one to the next in this order.
  static Kin chain(const std::vector<Rank>& order, Rank me) {
    const auto at = std::ranges::find(order, me);
    Kin kin;
    if (at != order.begin()) kin.parent = *(at - 1);
    if (at + 1 != order.end()) kin.children.push_back(*(at + 1));
    return kin;
  }
  /// Its root as a member of another tree, too, whose children come first.
  Kin under(const Kin& other) const {
    Kin kin{other.parent, other.children};
    kin.children.insert(kin.children.end(), children.begin(), children.end());
    return kin;
  }
  /// The same tree of those who sit at these places.
  Kin among(const std::vector<Rank>& party) const {
    Kin kin;
    if (parent >= 0) kin.parent = party[static_cast<size_t>(parent)];
    for (const Rank child : children) kin.children.push_back(party[static_cast<size_t>(child)]);
    return kin;
  }

  /// Of the k-nomial tree (binomial: of two), with ranks counted from the root: the power of k at which one hangs below its parent (root:
  /// the first >= size).
  template <int32_t k = 2>
  static int64_t reach(int32_t self, int32_t size) {
    int64_t power = 1;
    while (power < size && self % (power * k) == 0) power *= k;
    return power;
  }
  /// The ranks of its subtree, itself included: so many from `self` on.
  static int32_t below(int32_t self, int32_t size) { return static_cast<int32_t>(std::min<int64_t>(reach(self, size), size - self)); }
};

}  // namespace weft::coll
