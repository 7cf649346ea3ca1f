// Attached buffers and what is sent through them.
#pragma once

#include "api/handles.h"
#include "pml/lane.h"

namespace weft::api {

/// MPI_Bsend: through the communicator's buffer, else a session's, else the process's.
int send_buffered(comm::Communicator&, int dest, int tag, const pml::Buffer&);

/// MPI_Bsend_init.
pml::Request* make_buffered(comm::Communicator&, int dest, int tag, const pml::Buffer&);

/// Waits for all buffered messages and forgets the buffers (MPI_Finalize).
void drop_buffers();

}  // namespace weft::api
