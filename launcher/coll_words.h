// What mpirun hands its ranks of the table of `weft tune`, and of the network.
#pragma once

#include <string>

#include "launcher/job.h"

namespace weft::launcher {

/// Sets WEFT_COLL_TUNED, and unless the user has WEFT_COLL_MACHINE and what the table has of config::measured_settings(), for the ranks of
/// all programs: all of them decide alike, whatever files their hosts have. The file is the one that WEFT_COLL_TABLE names, for the ranks
/// (-x, --set) or in mpirun's environment; `bin`: folder of the programs. Returns a warning if there is one that cannot be used.
std::string hand_out_table(Options&, const std::string& bin);

/// Sets WEFT_COLL_NETWORK, unless the user has, to the switches in the file that WEFT_NETWORK names, for the ranks or in mpirun's
/// environment. Returns a warning if the file cannot be used.
std::string hand_out_network(Options&);

}  // namespace weft::launcher
