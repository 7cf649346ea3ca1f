// Partitioned messages (MPI 5.0, 4): one message whose parts are handed over one by one, by any threads.
//
// Both sides meet once: the sender's offer is matched, by the user's tag and in the order of initialisation, with a receive, whose side
// answers with a range of tags. From then on each start moves messages under these tags and nothing is agreed on any more: a message a
// partition of the sender's, or a message for several (WEFT_PML_PARTITION), whatever the partitions of the receiver are.
#pragma once

#include <cstdint>

#include "pml/request.h"
#include "pml/team.h"

namespace weft::pml {

/// MPI_Psend_init and MPI_Precv_init: `partition.count` elements in each of `partitions`, which follow each other in memory. Inactive
/// until started; `dest` and `source` may be proc_null.
Request* partitioned_send(Team&, int dest, int tag, int32_t partitions, const Buffer& partition);
Request* partitioned_receive(Team&, int source, int tag, int32_t partitions, const Buffer& partition);

/// Of one of these requests.
int32_t partitions_of(const Request&);

/// MPI_Pready_range: these partitions, of those that there are, may be sent. Any thread. Returns an MPI error class.
int partitions_ready(Request&, int32_t first, int32_t last);
/// MPI_Parrived, of a partition that there is. Progresses. Returns an MPI error class.
int partition_arrived(Request&, int32_t partition, bool& arrived);

}  // namespace weft::pml
