// Rankfiles: the user says of each rank where it runs.
#pragma once

#include <string_view>

#include "launcher/place/place.h"

namespace weft::placement {

/// Lines `rank 0=node1 slot=0-3` or `rank 1=+n0 slot=1:0-1`; `#` starts a comment. `file` is for messages.
Result<std::vector<RankLine>> parse_rankfile(std::string_view text, const std::string& file);
Result<std::vector<RankLine>> read_rankfile(const std::string& file);

/// The places that the request's rankfile says.
Result<Placement> place_by_rankfile(const Request& request);

}  // namespace weft::placement
