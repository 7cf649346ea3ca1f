// Agreement on the context id of a new communicator, without tables over all ranks.
#pragma once

#include <string_view>

#include "comm/comm.h"

namespace weft::comm {

/// Rank `root` of `group` sends the others what the buffer holds, by a binomial tree of messages on `carrier`, which holds them all.
/// Collective over the group. `tag` tells concurrent agreements among the same processes apart; it must not be used by other traffic of
/// the carrier: give one of agreement_tag().
Status broadcast(pml::Team& carrier, const pml::Members& group, uint32_t rank, uint32_t root, int tag, const pml::Buffer&);

/// Broadcasts a fresh context id from `group`'s rank 0.
Status agree_on_context(pml::Team& carrier, const pml::Members& group, uint32_t rank, int tag, pml::Context& context);

/// A tag in the collectives' matching space of a team, away from those of collective schedules (which are not negative).
constexpr int agreement_tag(int user_tag) { return INT32_MIN + (user_tag & 0x3fffffff); }
inline int agreement_tag(std::string_view stringtag) {
  return agreement_tag(static_cast<int>(std::hash<std::string_view>{}(stringtag)&0x3fffffff));
}

}  // namespace weft::comm
