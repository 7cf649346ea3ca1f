#include "btl/plugin.h"

#include <config.h>
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/base/error.h"
#include "runtime/config/config.h"
#include "runtime/net/auth.h"

namespace weft::btl {
namespace {

config::Text plugins_variable("", "plugins", "", "Folder of the transports that are loaded on demand; empty: `weft` beside the library.");

constexpr Core core{
    [](type::Cursor& cursor, void* to, size_t n) { return cursor.pack(to, n); },
    [](Level level, const char* line) { log(level, "%s", line); },
    [](int error_class, const char* text) { fail(error_class, "%s", text); },
    [](const boot::Job& job, const char* purpose) {
      const net::Digest digest = net::hmac(net::bytes_of(job.secret), {net::bytes_of(purpose), net::bytes_of(job.name)});
      uint32_t token;
      memcpy(&token, digest.data(), sizeof token);
      return token;
    },
};

/// Where this code was loaded from.
std::string own_folder() {
  Dl_info info;
  if (!dladdr(&core, &info) || !info.dli_fname) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string file_of(const std::string& name, std::string& tried) {
  const std::string folder = plugins_variable.get().empty() ? own_folder() + "/weft" : plugins_variable.get();
  for (const std::string& path : {folder + "/" + name, own_folder() + "/" + name}) {  // the second: in a build folder
    if (access(path.c_str(), R_OK) == 0) return path;
    if (tried.empty()) tried = path;
    if (!plugins_variable.get().empty()) break;
  }
  return "";
}

/// Libraries may take over the signals of crashes as they are loaded. The program's handlers are put back, unless UCX's are asked for.
class KeptSignals {
 public:
  KeptSignals() {
    for (size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], nullptr, &kept_[i]);
  }
  ~KeptSignals() {
    if (getenv("UCX_HANDLE_ERRORS") || getenv("UCX_ERROR_SIGNALS")) return;
    for (size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &kept_[i], nullptr);
  }

 private:
  static constexpr std::array signals{SIGILL, SIGSEGV, SIGBUS, SIGFPE};
  std::array<struct sigaction, signals.size()> kept_;
};

}  // namespace

Result<std::unique_ptr<Transport>> open_plugin(const char* name, const Site& site, const char* remedy) {
  const std::string file = std::string("btl_") + name + ".so";
  std::string tried;
  const std::string path = file_of(file, tried);
  if (path.empty()) return Failure{"there is no " + tried + "; " + remedy};
  void* library;
  {
    const KeptSignals kept;
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }
  if (!library) return Failure{std::string(dlerror()) + "; " + remedy};
  const auto* plugin = static_cast<const Plugin*>(dlsym(library, "weft_transport"));
  if (!plugin || strcmp(plugin->version, PACKAGE_VERSION) != 0 || plugin->shape != kPluginShape)
    return Failure{path + " belongs to another version of Weft" + (plugin ? std::string(" (") + plugin->version + ")" : "") +
                   "; install library and plugins from one build"};
  return plugin->open(site, core);
}

}  // namespace weft::btl
