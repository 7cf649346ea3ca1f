// What this library is made of, as JSON text for the `weft` tool, which opens the library to ask.
#include <config.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "btl/list.h"
#include "coll/select.h"
#include "runtime/base/json.h"
#include "runtime/config/config.h"

namespace {

using namespace weft;

std::string field(std::string_view name, std::string_view value) { return json_quoted(name) + ":" + json_quoted(value); }

const char* name_of(config::Type type) {
  switch (type) {
    case config::Type::boolean: return "boolean";
    case config::Type::integer: return "integer";
    case config::Type::bytes: return "bytes";
    case config::Type::text: return "text";
  }
  return "";
}

const char* name_of(config::Origin origin) {
  switch (origin) {
    case config::Origin::built_in: return "default";
    case config::Origin::file: return "file";
    case config::Origin::environment: return "environment";
    case config::Origin::program: return "program";
  }
  return "";
}

std::string describe(const config::Variable& v) {
  return "{" + field("name", v.environment_name()) + "," + field("module", v.module()) + "," + field("type", name_of(v.type())) + "," +
         field("value", v.text()) + "," + field("default", v.default_value()) + "," + field("origin", name_of(v.origin())) + "," +
         field("help", v.help()) + "}";
}

/// Versions of what was there at build time; empty for what was not.
std::string built_with() {
  std::string text =
      "{" + field("compiler", WEFT_COMPILER) + "," + field("PMIx", WEFT_PMIX_VERSION) + "," + field("hwloc", WEFT_HWLOC_VERSION);
#ifdef WEFT_UCX_VERSION
  text += "," + field("UCX", WEFT_UCX_VERSION);
#endif
#ifdef WEFT_VERBS_VERSION
  text += "," + field("rdma-core", WEFT_VERBS_VERSION);
#endif
#ifdef WEFT_CUDA_VERSION
  text += "," + field("CUDA toolkit", WEFT_CUDA_VERSION);
#endif
  return text + "}";
}

template <class Range, class Each>
std::string list(const Range& range, Each each) {
  std::string text = "[";
  for (const auto& one : range) text.append(text.size() > 1 ? "," : "").append(each(one));
  return text + "]";
}

/// By name, as WEFT_NET takes them.
std::vector<std::string_view> transports() {
  std::vector<std::string_view> names;
  for (const btl::Kind& kind : btl::kinds())
    if (kind.built) names.push_back(kind.name);
  return names;
}

}  // namespace

/// JSON: {"version", "abi", "transports", "built_with", "variables": [...], "complaints": [...]}. The text lives as long as the library.
extern "C" [[gnu::visibility("default")]] const char* weft_describe() {
  static std::string text;
  auto complaints = config::load_environment();
  if (std::string wrong = coll::complaint(); !wrong.empty()) complaints.push_back(std::move(wrong));
  std::string variables = "[";
  for (const config::Variable* v = config::all(); v; v = v->next()) variables.append(variables.size() > 1 ? "," : "").append(describe(*v));
  text = "{" + field("version", PACKAGE_VERSION) + "," + field("abi", "MPI 5.0 standard ABI 1.0") +
         ",\"transports\":" + list(transports(), json_quoted) + ",\"built_with\":" + built_with() + ",\"variables\":" + variables +
         "],\"complaints\":" + list(complaints, json_quoted) + "}";
  return text.c_str();
}
