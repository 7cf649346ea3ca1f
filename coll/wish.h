// What the user asks for in WEFT_COLL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coll/algorithms/algorithms.h"

namespace weft::coll {

/// One entry: "allreduce:64K-1M=ring", "allreduce@16/4=two_level". Of several that fit a call the last one counts.
struct Wish {
  Pattern pattern = Pattern::barrier;
  uint64_t first = 0, end = UINT64_MAX;  ///< the sizes it is for (see Agreed::bytes), `end` not among them; UINT64_MAX: no end
  int32_t ranks = 0, hosts = 0;          ///< of the communicators that it is for; 0: of any
  const Algorithm* algorithm = nullptr;  ///< null: `node`
  bool node = false;                     ///< the kernels in shared memory
  std::string text;                      ///< as it was written

  /// `on_hosts`: 0: not known.
  bool fits(Pattern p, uint64_t bytes, int32_t of_ranks = 0, int32_t on_hosts = 0) const {
    return p == pattern && bytes >= first && (bytes < end || end == UINT64_MAX) && (!ranks || ranks == of_ranks) &&
           (!hosts || hosts == on_hosts);
  }
};

struct Wishes {
  static constexpr size_t kMost = 4000;  // plan keys hold their number, or a greater one of what Refinement says
  std::vector<Wish> all;
  std::string wrong;  ///< of entries that cannot be understood: each with what it lacks; empty: there are none

  /// Entries between semicolons: COLLECTIVE[@RANKS[/HOSTS]][:FROM-TO]=ALGORITHM, FROM included, TO not, either of them may be missing;
  /// K, M, G: powers of 1024.
  static Wishes read(std::string_view text, size_t most = kMost);
};

/// True if there is a kernel in shared memory for it.
bool has_node_kernel(Pattern);

}  // namespace weft::coll
