#include "btl/verbs/device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/log.h"

namespace weft::btl::verbs {
namespace {

const char* advice(int error) {
  switch (error) {
    case ENOMEM: return "; the limit of locked memory may be too low (ulimit -l unlimited; LimitMEMLOCK= of the service that starts ranks)";
    case EACCES:
    case EPERM: return "; this user may not use the device: look at the rights of /dev/infiniband/uverbs*";
    case EINVAL: return "; a setting of WEFT_VERBS_* may ask for more than the device can";
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ETIMEDOUT: return "; the network does not lead from this port to that address: see WEFT_VERBS_DEVICES and WEFT_VERBS_GID";
    default: return "";
  }
}

}  // namespace

Failure trouble(const std::string& what, const std::string& device, int error) {
  return Failure{"cannot " + what + " on " + device + ": " + strerror(error) + advice(error)};
}

Result<std::unique_ptr<Device>> Device::open(const net::VerbsLibrary& library, const net::RdmaPort& port) {
  std::unique_ptr<Device> device(new Device(library, port));
  int count = 0;
  ibv_device** list = library.get_device_list(&count);
  if (!list) return trouble("list the devices", port.name(), errno);
  int error = ENODEV;
  for (int i = 0; i < count && !device->context; ++i) {
    if (port.device != library.get_device_name(list[i])) continue;
    device->context = library.open_device(list[i]);
    error = errno;
  }
  library.free_device_list(list);
  if (!device->context) return trouble("open the device", port.name(), error);
  if ((error = library.query_device(device->context, &device->limits)) != 0) return trouble("query the device", port.name(), error);
  device->domain = library.alloc_pd(device->context);
  if (!device->domain) return trouble("make a protection domain", port.name(), errno);
  return device;
}

Device::~Device() {
  if (domain) verbs.dealloc_pd(domain);
  if (context) verbs.close_device(context);
}

Result<void*> Device::enroll(mem::Range range, bool writable, const mem::DmaBuf* dmabuf) {
  int access = IBV_ACCESS_REMOTE_READ;
  if (writable) access |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | (atomics() ? int{IBV_ACCESS_REMOTE_ATOMIC} : 0);
  ibv_mr* mr = nullptr;
  if (!dmabuf)
    mr = verbs.reg_mr(domain, reinterpret_cast<void*>(range.begin), range.size(), access);
  else if (verbs.reg_dmabuf_mr)
    mr = verbs.reg_dmabuf_mr(domain, dmabuf->offset, range.size(), range.begin, dmabuf->fd, access);
  else
    errno = EOPNOTSUPP;
  if (!mr) return trouble("register " + std::to_string(range.size()) + " bytes of memory", port.name(), errno);
  return static_cast<void*>(mr);
}

void Device::dismiss(void* handle) { verbs.dereg_mr(mr(handle)); }

std::string Device::link_state() const {
  ibv_port_attr attributes{};
  if (verbs.query_port(context, port.port, &attributes) != 0) return "unknown";
  return verbs.port_state_str(attributes.state);
}

bool Slots::grow() {
  if (count() >= most_) return false;
  const size_t size = size_t{bytes_} * kPerSlab;
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return false;
  ibv_mr* mr = device_.verbs.reg_mr(device_.domain, base, size, IBV_ACCESS_LOCAL_WRITE);
  if (!mr) {
    log(Level::warning, "verbs: %s", trouble("register memory for messages", device_.port.name(), errno).text.c_str());
    munmap(base, size);
    return false;
  }
  const uint32_t first = count();
  slabs_.push_back({static_cast<std::byte*>(base), mr});
  free_.reserve(count());
  for (uint32_t i = kPerSlab; i-- > 0;) free_.push_back(first + i);
  return true;
}

Slots::~Slots() {
  for (const Slab& slab : slabs_) {
    device_.verbs.dereg_mr(slab.mr);
    munmap(slab.base, size_t{bytes_} * kPerSlab);
  }
}

}  // namespace weft::btl::verbs
