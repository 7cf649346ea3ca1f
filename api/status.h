// What Weft keeps in the reserved words of an MPI_Status: the bytes received, and whether the request was cancelled.
#pragma once

#include <cstdint>
#include <cstring>

#include "include/mpi.h"

namespace weft::api {

inline uint64_t status_bytes(const MPI_Status& status) {
  uint64_t bytes;
  std::memcpy(&bytes, status.MPI_internal, sizeof bytes);
  return bytes;
}
inline void set_status_bytes(MPI_Status& status, uint64_t bytes) { std::memcpy(status.MPI_internal, &bytes, sizeof bytes); }

inline bool status_cancelled(const MPI_Status& status) { return status.MPI_internal[2] != 0; }
inline void set_status_cancelled(MPI_Status& status, bool cancelled) { status.MPI_internal[2] = cancelled; }

}  // namespace weft::api
