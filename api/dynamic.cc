// Dynamic processes (MPI 5.0, 11.7 to 11.10): what a program may ask although none can be started yet.
#include "api/generated/bodies.h"
#include "api/handles.h"
#include "include/mpi.h"

namespace weft::body {

using namespace api;

/// This process was started by no other.
int Comm_get_parent(MPI_Comm* parent) {
  *parent = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

/// Collective; what is still under way on the communicator is complete when all have come here.
int Comm_disconnect(MPI_Comm* comm) {
  if (const int error = Barrier(*decode(*comm))) return error;
  return Comm_free(comm);
}

}  // namespace weft::body
