// What collectives go by that all ranks have to know alike, and mpirun tells all its ranks: the network's switches, and what is measured in
// the table of weft tune. Where others have started the ranks, rank 0 reads the files, and tells it to the others as they meet.
#pragma once

#include "runtime/base/status.h"
#include "runtime/boot/boot.h"

namespace weft::comm {

/// Before the ranks of a job meet. What is wrong with a file is one warning, and then collectives do without it.
Result<void> offer_knowledge(boot::Bootstrap&);
/// When they have met.
Result<void> take_knowledge(boot::Bootstrap&);

}  // namespace weft::comm
