// Virtual topologies (MPI 5.0, 8).
#include <algorithm>
#include <vector>

#include "api/generated/bodies.h"
#include "include/mpi.h"
#include "runtime/base/error.h"

namespace weft::body {
namespace {

/// Splits `n` into `free` extents, none above `most`, as close to each other as possible: the least largest extent, then so on
/// with the rest. `best` holds them, largest first.
bool closest(int n, int free, int most, std::vector<int>& best) {
  if (free == 1) {
    if (n > most) return false;
    best.assign(1, n);
    return true;
  }
  for (int extent = 1; extent <= std::min(n, most); ++extent) {
    if (n % extent) continue;
    long long room = 1;
    for (int i = 0; i < free && room < n; ++i) room *= extent;
    if (room < n) continue;  // the largest extent is too small for the product
    std::vector<int> rest;
    if (!closest(n / extent, free - 1, extent, rest)) continue;
    best.assign(1, extent);
    best.insert(best.end(), rest.begin(), rest.end());
    return true;
  }
  return false;
}

}  // namespace

int Dims_create(int nnodes, int ndims, int* dims) {
  if (nnodes < 1) return fail(MPI_ERR_ARG, "nnodes is %d; there must be at least one process", nnodes);
  int left = nnodes, free = 0;
  for (int i = 0; i < ndims; ++i) {
    if (dims[i] < 0) return fail(MPI_ERR_DIMS, "dims[%d] is %d; use 0 for an extent that is to be chosen", i, dims[i]);
    if (dims[i] == 0) {
      ++free;
    } else if (left % dims[i]) {
      return fail(MPI_ERR_DIMS, "dims[%d] is %d, which does not divide the %d processes that are left", i, dims[i], left);
    } else {
      left /= dims[i];
    }
  }
  if (free == 0) return left == 1 ? MPI_SUCCESS : fail(MPI_ERR_DIMS, "the product of dims is not nnodes (%d)", nnodes);
  std::vector<int> chosen;
  closest(left, free, left, chosen);
  for (int i = 0, next = 0; i < ndims; ++i)
    if (dims[i] == 0) dims[i] = chosen[static_cast<size_t>(next++)];
  return MPI_SUCCESS;
}

/// No communicator has a topology yet; programs ask before they use one.
int Topo_test(comm::Communicator&, int* status) {
  *status = MPI_UNDEFINED;
  return MPI_SUCCESS;
}

}  // namespace weft::body
