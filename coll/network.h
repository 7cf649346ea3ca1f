// Where the ranks of a job are, above their hosts: the network's switches, as all ranks have been told alike.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "coll/hosts.h"

namespace weft::coll {

/// What algorithms of several levels go by: hosts, and the switches above these that WEFT_COLL_NETWORK names. `host_of`: a name for each
/// rank. Null: nobody shares anything with some of the others only.
std::unique_ptr<const Hosts> levels_of(std::span<const std::string> host_of);

/// What is wrong with WEFT_COLL_NETWORK, which then counts for nothing; empty: nothing is.
std::string complaint_of_network();

}  // namespace weft::coll
