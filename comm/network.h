// The network's switches, by which collectives go: mpirun tells them to all its ranks alike. Where others have started the ranks, rank 0
// reads the file that WEFT_NETWORK names, and tells it to the others as they meet.
#pragma once

#include "runtime/base/status.h"
#include "runtime/boot/boot.h"

namespace weft::comm {

/// Before the ranks of a job meet. What is wrong with the file is one warning, and then collectives go by no network.
Result<void> offer_network(boot::Bootstrap&);
/// When they have met.
Result<void> take_network(boot::Bootstrap&);

}  // namespace weft::comm
