// One of the library's counters, by its name in MPI_T.
#pragma once

#include "check.h"

namespace check {

/// Lasts as long as the process does: MPI_T has to be initialised (MPI_T_init_thread).
struct Counter {
  MPI_T_pvar_session session = MPI_T_PVAR_SESSION_NULL;
  MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;

  explicit Counter(const char* name) {
    int index = 0, count = 0;
    CHECK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_handle_alloc(session, index, nullptr, &handle, &count);
  }
  unsigned long long value() const {
    unsigned long long now = 0;
    CHECK(MPI_T_pvar_read(session, handle, &now) == MPI_SUCCESS);
    return now;
  }
};

}  // namespace check
