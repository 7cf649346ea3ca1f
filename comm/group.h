// Groups (MPI 5.0, 7.3): set operations on ordered sets of processes. All results are new references.
#pragma once

#include <span>

#include "comm/comm.h"

namespace weft::comm {

struct RankRange {
  int first, last, stride;
};

/// A group of these processes; MPI_GROUP_EMPTY if there are none. `instance` tells which member is this process, `session` is the number
/// of the session that it comes from.
Group* make_group(Instance& instance, std::shared_ptr<const pml::Members> members, uint64_t session = 0);
Group* make_group(Instance& instance, std::vector<ProcessId> members, uint64_t session = 0);

Group* group_union(const Group&, const Group&);
Group* group_intersection(const Group&, const Group&);
Group* group_difference(const Group&, const Group&);
/// Ranks are valid and distinct.
Group* group_include(const Group&, std::span<const int> ranks);
Group* group_exclude(const Group&, std::span<const int> ranks);

/// Writes the ranks that the ranges name, in order; MPI_ERR_ARG or MPI_ERR_RANK if a range is wrong or a rank named twice.
int expand_ranges(const Group&, std::span<const RankRange>, std::vector<int>& ranks);
/// MPI_ERR_RANK if a rank is outside the group or named twice.
int check_ranks(const Group&, std::span<const int> ranks);

/// MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL.
int compare(const pml::Members&, const pml::Members&);
/// out[i] = rank in `to` of rank in[i] of `from`, MPI_UNDEFINED if none; MPI_PROC_NULL stays.
void translate(const Group& from, std::span<const int> in, const Group& to, int* out);

}  // namespace weft::comm
