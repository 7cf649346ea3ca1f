// The library beside the tool, and the libraries of others that it may use.
#include <config.h>
#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/config/config.h"
#include "runtime/net/rdma.h"
#include "tools/report.h"

namespace weft::tools {
namespace {

/// Path of the library that a symbol came from.
std::string file_of(void* symbol) {
  Dl_info info;
  return dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "";
}

struct Opened {
  void* handle = nullptr;
  template <class F>
  F* symbol(const char* name) const {
    return handle ? reinterpret_cast<F*>(dlsym(handle, name)) : nullptr;
  }
};

Opened open_first(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return {handle};
  return {};
}

Part pmix() {
  const Opened library = open_first({"libpmix.so.2", WEFT_PMIX_LIBDIR "/libpmix.so.2"});
  const auto version = library.symbol<const char*()>("PMIx_Get_version");
  if (!version) return {"PMIx", "", "ranks cannot be started by mpirun or srun without it"};
  std::string text = version();  // "OpenPMIx 4.2.2, repo rev: ... (PMIx Standard: ...)"
  if (const auto digit = text.find_first_of("0123456789"); digit != std::string::npos) text.erase(0, digit);
  return {"PMIx", text.substr(0, text.find_first_of(", ")), file_of(reinterpret_cast<void*>(version))};
}

Part ucx() {
  const Opened library = open_first({"libucp.so.0"});
  const auto version = library.symbol<const char*()>("ucp_get_version_string");
  if (!version) return {"UCX", "", "the transport ucx cannot be used"};
  return {"UCX", version(), file_of(reinterpret_cast<void*>(version))};
}

/// "mlx5_0:1 (RoCE, 10.0.0.1, MTU 4096, 100 Gbit/s)".
std::string words(const net::RdmaPort& port) {
  std::string text = port.name() + " (" + (port.ethernet ? "RoCE" : "InfiniBand");
  if (!port.gids.empty()) text += ", " + port.gids.front().text() + " (GID " + std::to_string(port.gids.front().index) + ")";
  text += ", MTU " + std::to_string(port.mtu);
  if (port.mbit) text += ", " + (port.mbit % 1000 ? std::to_string(port.mbit) + " Mbit/s" : std::to_string(port.mbit / 1000) + " Gbit/s");
  return text + ")";
}

/// Every port, and which of them jobs use between hosts, by what address.
Part verbs() {
  config::load_environment();  // what is wrong in it the library says
  const auto ports = net::list_rdma_ports();
  if (!ports) return {"rdma-core", "", ports.failure().text};
  const auto used = net::usable_rdma_ports();
  if (!used) return {"rdma-core", "1", used.failure().text};
  std::string text = "between hosts: ";
  for (const net::RdmaPort& port : *used) text += (&port == &used->front() ? "" : ", ") + words(port);
  std::string others;
  for (const net::RdmaPort& port : *ports)
    if (std::ranges::find(*used, port.name(), &net::RdmaPort::name) == used->end())
      others += (others.empty() ? "" : ", ") + port.name() + " (" + port.state + ")";
  return {"rdma-core", "1", text + (others.empty() ? "" : "; not used: " + others)};
}

Part cuda() {
  const Opened library = open_first({"libcuda.so.1"});
  const auto version = library.symbol<int(int*)>("cuDriverGetVersion");
  int number = 0;
  if (!version || version(&number) != 0) return {"CUDA driver", "", "no device memory on this machine"};
  return {"CUDA driver", std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10),
          file_of(reinterpret_cast<void*>(version))};
}

}  // namespace

std::string own_folder() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return ".";
  const std::string text(path, size_t(length));
  return text.substr(0, text.rfind('/'));
}

void* Library::symbol(const char* name) const { return dlsym(handle, name); }

Result<Library> open_library() {
  const std::string here = own_folder();
  std::string tried;
  // installed; in the build folder
  for (const std::string& path :
       {here + "/" WEFT_LIB_FROM_BIN "/libmpi_abi.so.1", here + "/.libs/libmpi_abi.so.1", here + "/../.libs/libmpi_abi.so.1"}) {
    if (access(path.c_str(), R_OK) != 0) {
      tried += (tried.empty() ? "" : ", ") + path;
      continue;
    }
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) return Failure{"cannot open the library: " + std::string(dlerror())};
    return Library{handle, path};
  }
  return Failure{"there is no libmpi_abi.so.1 beside this tool (looked for " + tried + ")"};
}

Result<Description> describe_library() {
  const auto library = open_library();
  if (!library) return library.failure();
  const auto describe = reinterpret_cast<const char* (*)()>(library->symbol("weft_describe"));
  if (!describe) return Failure{library->file + " is not Weft's library"};
  auto description = parse_description(describe());
  if (description) description->file = file_of(reinterpret_cast<void*>(describe));
  return description;
}

std::vector<Part> find_parts() { return {pmix(), ucx(), verbs(), cuda()}; }

}  // namespace weft::tools
