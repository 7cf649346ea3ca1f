// Hints of communicators (MPI 5.0, 7.4.4): which of them are used, and what for. comm/README.md tells it to people.
#pragma once

#include "comm/comm.h"

namespace weft::comm {

/// Adds hints: those that a communicator is made with, or later ones (MPI_Comm_set_info). Null: none. Each process for itself.
void set_hints(Communicator&, const Info*);

/// The lane that hints of a communicator to be made ask for ("weft_lane", a number from 0 on); nothing if they do not.
std::optional<uint32_t> wanted_lane(const Info*);

/// Tells the communicator's team and its collectives what of the hints concerns them. For communicators that get their team after their
/// hints.
void apply_hints(Communicator&);

/// The hints in use, as MPI_Comm_get_info gives them: those that are used, the user's or their defaults. The caller owns it.
Info* hints_in_use(const Communicator&);

}  // namespace weft::comm
