// Collectives on inter-communicators: schedules put together from those of algorithms on one group.
#pragma once

#include "coll/select.h"

namespace weft::coll {

/// The own rank's steps of a collective between two groups. Ranks, also the root in `a`, are those of the united team: the
/// `a.front` ranks of the front group, then those of the other one. Ranks that take no part (root -1: MPI_PROC_NULL) get no steps.
/// What buffers hold is what algorithms.h says, with these differences:
///   gather, scatter      blocks are those of the group without the root; the root has none of its own
///   allgather, alltoall  blocks of what is received (and, alltoall, sent) are numbered by the ranks of the other group
///   reduce_scatter       blocks are those of the own group
/// A bcast, gather or scatter is one on the group without the root and the root as its last member. The others have a leader a
/// group, its first rank: a phase within the group, an exchange of the leaders, a phase within the group. What is large and
/// different for each pair of ranks goes from each to each.
Schedule between_groups(const Agreed& a, Rank me);

}  // namespace weft::coll
