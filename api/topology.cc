// Virtual topologies (MPI 5.0, 8).
#include "api/generated/bodies.h"
#include "include/mpi.h"

namespace weft::body {

/// No communicator has a topology yet; programs ask before they use one.
int Topo_test(comm::Communicator&, int* status) {
  *status = MPI_UNDEFINED;
  return MPI_SUCCESS;
}

}  // namespace weft::body
