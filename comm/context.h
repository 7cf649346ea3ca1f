// Agreement on the context id of a new communicator, without tables over all ranks.
#pragma once

#include "comm/comm.h"

namespace weft::comm {

/// Broadcasts a fresh context id from `group`'s rank 0 to its members by a binomial tree of messages on `carrier`, which
/// holds them all. Collective over the group. `tag` tells concurrent agreements among the same processes apart; it must not
/// be used by other traffic of the carrier: give one of agreement_tag().
Status agree_on_context(pml::Team& carrier, const pml::Members& group, uint32_t rank, int tag, pml::Context& context);

/// A tag in the collectives' matching space of a team, away from those of collective schedules (which are not negative).
constexpr int agreement_tag(int user_tag) { return INT32_MIN + (user_tag & 0x3fffffff); }

}  // namespace weft::comm
