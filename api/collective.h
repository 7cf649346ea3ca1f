// Starting collectives from bodies: requests that keep their communicator alive.
#pragma once

#include "api/handles.h"
#include "coll/coll.h"
#include "comm/comm.h"

namespace weft::body {

/// The request keeps its communicator, whose error handler applies, alive.
inline int hand_out(comm::Communicator& comm, int error, pml::Request* r, MPI_Request* request) {
  if (error != MPI_SUCCESS) return error;
  r->team_owner = retain(&comm);
  r->drop_owner = [](void* owner) { release(static_cast<comm::Communicator*>(owner)); };
  r->lane->look_after(*r);
  *request = api::encode(r);
  return MPI_SUCCESS;
}

inline int start(comm::Communicator& comm, const coll::Call& call, MPI_Request* request) {
  pml::Request* r = nullptr;
  const int error = coll::start(*comm.coll, call, &r);
  return hand_out(comm, error, r, request);
}

inline int init(comm::Communicator& comm, const coll::Call& call, MPI_Request* request) {
  pml::Request* r = nullptr;
  const int error = coll::init(*comm.coll, call, &r);
  return hand_out(comm, error, r, request);
}

}  // namespace weft::body
