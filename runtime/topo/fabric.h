// Networks as ibnetdiscover describes them, as a tree of switches.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace weft::topo {

/// Does ibnetdiscover (infiniband-diags) write such a text?
bool is_fabric(std::string_view text);

/// The lines of Network that say the same. Switches that hosts hang on keep their identifiers ("S-" and a GUID); above them come the groups
/// of those that reach each other over the next level of switches, and so on. Hosts go by the first word of their adapters' descriptions,
/// which rdma-ndd sets to the host's name; one with several adapters belongs to the switch of the first that the text has. Fails where an
/// adapter's description has no name. Source: ibnetdiscover(8), "Topology file format".
Result<std::string> tree_of_fabric(std::string_view text);

}  // namespace weft::topo
