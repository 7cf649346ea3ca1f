// The tools interface: initialisation only, so far.

#include <atomic>

#include "api/generated/bodies.h"

namespace weft::body {
namespace {
std::atomic<int> users;
}

int T_init_thread(int, int* provided) {
  users.fetch_add(1);
  *provided = MPI_THREAD_MULTIPLE;
  return MPI_SUCCESS;
}

int T_finalize() {
  int now = users.load();
  while (now > 0 && !users.compare_exchange_weak(now, now - 1)) {
  }
  return now > 0 ? MPI_SUCCESS : MPI_T_ERR_NOT_INITIALIZED;
}

}  // namespace weft::body
