// What the bodies of point-to-point calls share about requests.
#pragma once

#include <cstddef>
#include <memory>

#include "api/handles.h"
#include "pml/lane.h"

namespace weft::api {

/// The first lane of this process: for what belongs to no communicator.
inline pml::Lane& lane() { return state.instance->lane(); }

/// What a message is sent from, or received into.
inline pml::Buffer buffer_of(const void* address, MPI_Count count, const type::Datatype& type) {
  return {const_cast<void*>(address), static_cast<uint64_t>(count), &type, mem::MemKind::host};
}

/// Gives a new request to the user. Completed ones may be shared and stay as they are.
inline int hand_out(comm::Communicator& comm, pml::Request* request, MPI_Request* handle) {
  if (!request->predefined) request->team_owner = &comm;  // not retained: a freed communicator is recognised when an error is raised
  request->lane->look_after(*request);
  *handle = encode(request);
  return MPI_SUCCESS;
}

/// A persistent request keeps its communicator: each start needs it.
inline int hand_out_persistent(comm::Communicator& comm, pml::Request* request, MPI_Request* handle) {
  request->team_owner = retain(&comm);
  request->drop_owner = [](void* owner) { release(static_cast<comm::Communicator*>(owner)); };
  *handle = encode(request);
  return MPI_SUCCESS;
}

/// A send and a receive in one request (MPI_Isendrecv); `copy` is kept until both have ended.
int start_pair(comm::Communicator&, const pml::Buffer& out, int dest, int sendtag, const pml::Buffer& in, int source, int recvtag,
               std::unique_ptr<std::byte[]> copy, MPI_Request* request);

/// A request that somebody else completes by Lane::complete() (MPI_Buffer_iflush).
pml::Request* make_plain_request();

}  // namespace weft::api
