// Small messages at once: what the entries of functions marked `quick` in mpi.api try before anything else. If all arguments are good and
// nothing is out of the ordinary, that is the whole of the call; if not, nothing has happened, and the entry looks at everything anew.
#pragma once

#include "api/checks.h"
#include "api/requests.h"

namespace weft::api::quick {

/// Are the arguments that all of them have good, and the usual ones? The rank is not looked at.
[[gnu::always_inline]] inline bool usual(const void* address, MPI_Count count, const type::Datatype* type, int tag,
                                         const comm::Communicator* comm) {
  return state.active && !state.watched.load(std::memory_order_relaxed) && comm && type && type->contiguous && good_tag(tag) &&
         static_cast<uint64_t>(count) <= kMostElements && !suspicious(address);
}

[[gnu::always_inline]] inline bool Send(const void* address, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm handle) {
  const comm::Communicator* const comm = decode(handle);
  const type::Datatype* const type = type::standard(bits(datatype));
  if (!usual(address, count, type, tag, comm)) [[unlikely]]
    return false;
  pml::Team& team = *comm->team;
  if (dest == MPI_PROC_NULL) [[unlikely]]
    return true;
  try {
    return team.lane().send_at_once(team, dest, tag, pml::Traffic::user, buffer_of(address, count, *type));
  } catch (const std::bad_alloc&) {
    return false;  // the entry comes upon that again, and says so
  }
}

[[gnu::always_inline]] inline bool Isend(const void* address, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm handle,
                                         MPI_Request* request) {
  const comm::Communicator* const comm = decode(handle);
  const type::Datatype* const type = type::standard(bits(datatype));
  if (!usual(address, count, type, tag, comm) || !request) [[unlikely]]
    return false;
  pml::Team& team = *comm->team;
  try {
    if (!team.lane().isend_at_once(team, dest, tag, buffer_of(address, count, *type))) [[unlikely]]
      return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  *request = encode(*team.lane().sent());
  return true;
}

[[gnu::always_inline]] inline bool Irecv(void* address, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm handle,
                                         MPI_Request* request) {
  comm::Communicator* const comm = decode(handle);
  const type::Datatype* const type = type::standard(bits(datatype));
  if (!usual(address, count, type, tag, comm) || !request) [[unlikely]]
    return false;
  pml::Team& team = *comm->team;
  pml::Request* const posted = team.lane().ireceive_at_once(team, source, tag, buffer_of(address, count, *type));
  if (!posted) [[unlikely]]
    return false;
  posted->team_owner = comm;
  *request = encode(*posted);
  return true;
}

}  // namespace weft::api::quick
