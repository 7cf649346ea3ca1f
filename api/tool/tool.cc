// Initialisation of the tools interface (MPI 5.0, 15.3.4) and its enumerations (15.3.5).
#include "api/tool/tool.h"

#include <array>

#include "api/generated/bodies.h"

namespace weft::api::tool {
namespace {

int users = 0;  // guarded by lock()

struct Enumeration {
  const char* name;
  std::array<const char*, 2> items;
};
constinit Enumeration answers{"no_yes", {"no", "yes"}};

}  // namespace

std::recursive_mutex& lock() {
  static std::recursive_mutex mutex;
  return mutex;
}

bool ready() {
  const std::lock_guard hold(lock());
  return users > 0;
}

MPI_T_enum no_and_yes() { return reinterpret_cast<MPI_T_enum>(&answers); }

}  // namespace weft::api::tool

namespace weft::body {

using namespace api::tool;

int T_init_thread(int required, int* provided) {
  if (users == 0) config::load_environment();  // MPI_Init says what is wrong in it
  ++users;
  *provided = std::clamp(required, MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE);
  return MPI_SUCCESS;
}

int T_finalize() {
  if (--users > 0) return MPI_SUCCESS;
  drop_controls();
  drop_figures();
  drop_events();
  return MPI_SUCCESS;
}

int T_enum_get_info(MPI_T_enum enumtype, int* num, char* name, int* name_len) {
  if (enumtype != no_and_yes()) return MPI_T_ERR_INVALID_HANDLE;
  give(num, answers.items.size());
  give(name, name_len, answers.name);
  return MPI_SUCCESS;
}

int T_enum_get_item(MPI_T_enum enumtype, int index, int* value, char* name, int* name_len) {
  if (enumtype != no_and_yes()) return MPI_T_ERR_INVALID_HANDLE;
  if (index < 0 || static_cast<size_t>(index) >= answers.items.size()) return MPI_T_ERR_INVALID_INDEX;
  give(value, index);
  give(name, name_len, answers.items[static_cast<size_t>(index)]);
  return MPI_SUCCESS;
}

}  // namespace weft::body
