// The library's side of the transport over UCX: loads the rest when a job asks for it.
#include <stdlib.h>

#include "btl/list.h"
#include "btl/plugin.h"

namespace weft::btl {
Result<std::unique_ptr<Transport>> open_ucx(const Site& site) {
#ifdef __SANITIZE_THREAD__
  setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 0);  // UCX rewrites mmap's code in memory, which the sanitizer's run time does not survive
#endif
  return open_plugin("ucx", site, "it needs UCX both when Weft is configured (--with-ucx; Debian: libucx-dev) and here (Debian: libucx0)");
}

}  // namespace weft::btl
