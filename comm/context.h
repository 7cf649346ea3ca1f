// Agreement on the context id of a new communicator, without tables over all ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "comm/comm.h"

namespace weft::comm {

/// Tells concurrent agreements among the same processes apart: what is agreed on, with the tag or the string that the user gave.
inline std::string agreement_name(std::string_view what, std::string_view stringtag) {
  return std::string(what) + ' ' + std::string(stringtag);
}
inline std::string agreement_name(std::string_view what, int tag) { return agreement_name(what, std::to_string(tag)); }

/// Gives all of `group` a fresh context id of its rank 0, by a binomial tree of letters on `carrier`, which holds them all. Collective
/// over the group. `lane`: which its messages shall go over.
Status agree_on_context(Mailbox&, pml::Team& carrier, const pml::Members& group, uint32_t rank, std::string_view name,
                        pml::Context& context, std::optional<uint32_t> lane = {});

/// The same for a group that no communicator holds. If it is of a session, nobody has the context before all have come, so that all of them
/// are known to have sessions and their messages find each other.
Status agree_without(const Group& group, std::string_view name, pml::Context& context, std::optional<uint32_t> lane = {});

}  // namespace weft::comm
