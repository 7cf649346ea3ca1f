// Networks as tools that look at them describe them (ibnetdiscover, lldpctl), as a tree of switches.
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

/// Is it what `lldpctl -f keyvalue` (lldpd) writes on several hosts, each line after its host's name and a colon, as pdsh and clush put it
/// there?
bool is_neighbours(std::string_view text);

/// The lines of Network that say the same: hosts see the switches next to them only, so that there is one level of those. A host that sees
/// several belongs to the first. Fails where what a switch sees is there, too, as it would pass for a host. Source: lldpctl(8), "-f".
Result<std::string> tree_of_neighbours(std::string_view text);

}  // namespace weft::topo
