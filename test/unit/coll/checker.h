// The checker: runs the schedules of all ranks symbolically and tells the first thing that is wrong.
#pragma once

#include <string>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "coll/neighborhood.h"

namespace weft::coll::check {

struct Question {
  Pattern pattern;
  int32_t size;
  Parameters parameters;
  bool uneven = false;                               ///< blocks differ in size: no block may pass through a place made for another one
  const std::vector<Neighborhood>* graph = nullptr;  ///< a rank each, for the collectives among neighbours
  const Hosts* hosts = nullptr;                      ///< for algorithms of two levels
};

/// Empty if the schedules (one a rank) do what the standard says of the collective:
///  - every output block holds exactly the contributions it should, in rank order unless the operation commutes;
///  - nothing undefined is read, no buffer is used on a rank where it has no meaning, inputs are left alone;
///  - steps of one round do not touch what another one of them writes;
///  - messages match in number and size, and all come to an end even if each send waits for its receive.
std::string verdict(const Question&, const std::vector<Schedule>&);

/// Builds the schedules of all ranks and judges them.
std::string verdict(const Algorithm&, const Question&);

}  // namespace weft::coll::check
