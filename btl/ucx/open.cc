// The library's side of the transport over UCX: loads the rest when a job asks for it.
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "btl/plugin.h"

namespace weft::btl {
namespace {

/// The names in a folder, without those that begin with a dot.
std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder.c_str()), closedir);
  while (const dirent* entry = open ? readdir(open.get()) : nullptr)
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  return names;
}

bool begins_with(const std::string& path, char wanted) {
  char first = 0;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool got = read(fd, &first, 1) == 1 && first == wanted;
  close(fd);
  return got;
}

}  // namespace

bool rdma_device_is_active() {
  const std::string devices = "/sys/class/infiniband";
  for (const std::string& device : entries(devices)) {
    const std::string ports = devices + "/" + device + "/ports";
    for (const std::string& port : entries(ports))
      if (begins_with(ports + "/" + port + "/state", '4')) return true;  // "4: ACTIVE"
  }
  return false;
}

Result<std::unique_ptr<Transport>> open_ucx(const Site& site) {
#ifdef __SANITIZE_THREAD__
  setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 0);  // UCX rewrites mmap's code in memory, which the sanitizer's run time does not survive
#endif
  return open_plugin("ucx", site, "it needs UCX both when Weft is configured (--with-ucx; Debian: libucx-dev) and here (Debian: libucx0)");
}

}  // namespace weft::btl
