// Checks for conformance programs: plain MPI and C++, so that they run on any MPI.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

namespace check {

inline int rank = 0, ranks = 1, failures = 0;

inline void failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "[rank %d of %d] %s:%d: %s does not hold\n", rank, ranks, file, line, what);
  ++failures;
}

/// The class of an error code.
inline int error_class(int code) {
  int result = MPI_SUCCESS;
  MPI_Error_class(code, &result);
  return result;
}

inline void begin(int& argc, char**& argv, int level = MPI_THREAD_SINGLE) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, level, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

/// Sums the failures of all ranks; the exit status of main.
inline int end(const char* name) {
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%s on %d ranks: %s\n", name, ranks, all ? "FAILED" : "ok");
  MPI_Finalize();
  return all != 0;
}

enum class Way { blocking, nonblocking, persistent };
inline constexpr Way ways[] = {Way::blocking, Way::nonblocking, Way::persistent};

/// Runs one collective in the way asked for. Persistent ones run twice: a second start must give the same.
inline void run(Way way, const std::function<void()>& blocking, const std::function<void(MPI_Request*)>& start,
                const std::function<void(MPI_Request*)>& init) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (way == Way::blocking) return blocking();
  if (way == Way::nonblocking) start(&request);
  if (way == Way::persistent) {
    init(&request);
    MPI_Start(&request);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (way == Way::persistent) MPI_Request_free(&request);
}

}  // namespace check

#define CHECK(condition) ((condition) ? void() : check::failed(__FILE__, __LINE__, #condition))
