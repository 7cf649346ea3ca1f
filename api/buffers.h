// Attached buffers and what is sent through them.
#pragma once

#include "api/handles.h"
#include "pml/lane.h"

namespace weft::api {

/// MPI_Bsend: through the communicator's buffer, else a session's, else the process's.
int send_buffered(comm::Communicator&, int dest, int tag, const pml::Buffer&);

/// MPI_Bsend_init.
pml::Request* make_buffered(comm::Communicator&, int dest, int tag, const pml::Buffer&);

/// Detaches the buffer of what is being freed, if it has one: waits for its messages first (MPI_Comm_free, MPI_Session_finalize).
void drop_comm_buffer(pml::Context);
void drop_session_buffer(uint64_t number);

/// Waits for all buffered messages and forgets the buffers (MPI_Finalize).
void drop_buffers();

}  // namespace weft::api
