// What the five private words of an MPI_Status hold: bytes received in words 0 and 1, the cancelled flag in word 2.
#pragma once

#include <cstdint>
#include <cstring>

#include "include/mpi.h"
#include "pml/request.h"

namespace weft::api {

inline uint64_t status_bytes(const MPI_Status& status) {
  uint64_t bytes;
  memcpy(&bytes, status.MPI_internal, sizeof bytes);
  return bytes;
}
inline void set_status_bytes(MPI_Status& status, uint64_t bytes) { memcpy(status.MPI_internal, &bytes, sizeof bytes); }
inline bool status_cancelled(const MPI_Status& status) { return status.MPI_internal[2] != 0; }
inline void set_status_cancelled(MPI_Status& status, bool value) { status.MPI_internal[2] = value; }

/// Fills a status, which may be MPI_STATUS_IGNORE. MPI_ERROR is left alone, as calls that return one status must.
inline void set_status(MPI_Status* status, const pml::Outcome& outcome) {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = outcome.source;
  status->MPI_TAG = outcome.tag;
  set_status_bytes(*status, outcome.bytes);
  set_status_cancelled(*status, outcome.cancelled);
}

/// The empty status (MPI 5.0, 3.7.3): of null and inactive requests.
inline void set_empty(MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return;
  *status = {};
  status->MPI_SOURCE = MPI_ANY_SOURCE;
  status->MPI_TAG = MPI_ANY_TAG;
}

/// The status of receives from MPI_PROC_NULL (MPI 5.0, 3.10).
inline void set_proc_null(MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return;
  set_empty(status);
  status->MPI_SOURCE = MPI_PROC_NULL;
}

}  // namespace weft::api
