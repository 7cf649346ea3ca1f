// What a wrapping transport is to do wrong.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/status.h"

namespace weft::btl::wrapping {

/// See README.md for the grammar.
struct Plan {
  uint64_t delay_least_ns = 0, delay_most_ns = 0;  ///< each message is held that long
  double reorder = 0;       ///< probability that a message (and those behind it to the same peer) lets the other peers' overtake
  double again = 0;         ///< probability that a call is told `again`
  uint32_t again_run = 1;   ///< so many calls in a row
  double drop = 0;          ///< probability that a get or put does not happen and ends with `again`
  uint64_t fail_after = 0;  ///< the way of the n-th message is lost; 0: never
  int64_t fail_peer = -1;   ///< only messages to this rank count
  uint64_t seed = 1;
  bool holds() const { return delay_most_ns > 0 || reorder > 0; }
};

Result<Plan> parse_plan(std::string_view text);

}  // namespace weft::btl::wrapping
