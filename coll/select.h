// Which algorithm runs: one function of what all ranks agree on.
#pragma once

#include <string_view>

#include "coll/algorithms/algorithms.h"

namespace weft::coll {

/// What decides the messages: equal on all ranks of a collective call.
struct Agreed {
  Pattern pattern = Pattern::barrier;
  int32_t size = 1;
  int32_t front = 0;  ///< between groups: how many of the `size` ranks are the front group's; 0: there is one group
  Rank root = 0;
  uint64_t bytes = 0;  ///< packed: of the whole vector (bcast, reductions), of one block (gather, scatter, all-to-all forms)
  bool commutative = true;
  bool uneven = false;  ///< blocks of different sizes; `bytes` is an average, or 0 if not known to all
};

/// An algorithm and its parameters.
struct Choice {
  const Algorithm* algorithm = nullptr;
  int32_t segments = 1;
};

/// What the user's WEFT_COLL says of one pattern.
struct Forced {
  const Algorithm* algorithm = nullptr;
  bool node = false;      ///< "node": the kernels in shared memory, whatever the size
  bool anything = false;  ///< there is a word of the user's on this pattern
};
/// Reads WEFT_COLL; unknown names are said once in a warning.
Forced forced(Pattern);

/// Sizes are agreed on by class: all sizes of a class get the same plan.
constexpr int size_class(uint64_t bytes) { return 64 - __builtin_clzll(bytes | 1) - (bytes == 0); }
/// The smallest size of a class, which stands for it.
constexpr uint64_t class_bytes(int size_class) { return size_class == 0 ? 0 : uint64_t{1} << (size_class - 1); }

/// What a plan is made for: the smallest size of its class.
inline Agreed of_class(Agreed a) {
  a.bytes = class_bytes(size_class(a.bytes));
  return a;
}

/// The plan for a call. Thresholds today; a cost model and measured tables come in here.
Choice choose(const Agreed&, const Topology&);

/// True if the kernel in shared memory should run for ranks on one node.
bool node_kernel_pays(const Agreed&, uint64_t bytes);

}  // namespace weft::coll
