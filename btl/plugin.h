// Transports in files of their own, loaded by the jobs that ask for them: what such a file shows, and what it gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "btl/btl.h"
#include "runtime/base/log.h"

namespace weft::btl {

/// What a plugin calls of the library. It links no code of Weft's: settings, log and failure texts are there once. Whatever else the
/// headers offer inline works on both sides.
struct Core {
  size_t (*pack)(type::Cursor&, void* to, size_t n);  ///< Cursor::pack
  void (*log)(Level, const char* line);
  void (*fail)(int error_class, const char* text);
  /// A number that the processes of a job have in common and others can only guess; `purpose` makes it different from other such.
  uint32_t (*token)(const boot::Job&, const char* purpose);
};

/// What a plugin shows under the name `weft_transport`.
struct Plugin {
  const char* version;  ///< PACKAGE_VERSION of its build
  size_t shape;         ///< kPluginShape of its build
  Result<std::unique_ptr<Transport>> (*open)(const Site&, const Core&);
};

/// Changes with the structures that both sides see.
constexpr size_t kPluginShape = sizeof(Header) + 64 * (sizeof(Caps) + 512 * (sizeof(boot::Job) + 1024 * (sizeof(Core) + sizeof(Region))));

/// Loads the file `btl_NAME.so` from the folder `weft` beside the library (or from WEFT_PLUGINS) and opens its transport. `remedy` is
/// said when the file, or what it needs, is missing. A file once loaded stays.
Result<std::unique_ptr<Transport>> open_plugin(const char* name, const Site&, const char* remedy);

}  // namespace weft::btl
