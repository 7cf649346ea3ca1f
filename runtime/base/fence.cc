#include "runtime/base/fence.h"

#include <linux/membarrier.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft {
namespace {

std::atomic<bool> registered{false};

// With several threads registering waits for a grace period of the kernel, about 10 ms; a C program has one when it loads us.
[[maybe_unused]] const bool registered_early = __libc_single_threaded && register_membarrier();

}  // namespace

bool membarrier_registered() { return registered.load(std::memory_order_relaxed); }

bool register_membarrier() {
  if (!registered && syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0) registered = true;
  return registered;
}

bool fence_all() { return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0; }

}  // namespace weft
