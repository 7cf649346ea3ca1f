// Control variables (MPI 5.0, 15.3.6): the configuration variables under their environment's names.
#include <string>

#include "api/generated/bodies.h"
#include "api/tool/tool.h"

namespace weft::api::tool {
namespace {

struct Control {
  config::Variable* variable;
  int count;  ///< elements of its value: characters of a text
};
Registry<Control> handles;

constexpr size_t kLongestText = 1024;

int elements_of(const config::Variable& variable) {
  if (variable.type() != config::Type::text) return 1;
  return static_cast<int>(std::max(kLongestText, variable.text().size() + 1));
}

MPI_Datatype type_of(const config::Variable& variable) {
  switch (variable.type()) {
    case config::Type::boolean: return MPI_INT;
    case config::Type::text: return MPI_CHAR;
    case config::Type::integer:
    case config::Type::bytes: break;
  }
  return MPI_COUNT;
}

/// What people set every day, and what tunes a part.
int verbosity_of(std::string_view module) {
  return module.empty() || module == "net" || module == "coll" ? MPI_T_VERBOSITY_USER_BASIC : MPI_T_VERBOSITY_TUNER_DETAIL;
}

}  // namespace

const std::vector<config::Variable*>& controls() {
  static const std::vector<config::Variable*> all = [] {
    std::vector<config::Variable*> found;
    for (const config::Variable* v = config::all(); v; v = v->next()) found.push_back(const_cast<config::Variable*>(v));
    std::ranges::sort(found, {}, [](const config::Variable* v) { return v->environment_name(); });
    return found;
  }();
  return all;
}

void drop_controls() { handles.clear(); }

}  // namespace weft::api::tool

namespace weft::body {

using namespace api::tool;

int T_cvar_get_num(int* num_cvar) {
  *num_cvar = static_cast<int>(controls().size());
  return MPI_SUCCESS;
}

int T_cvar_get_info(int cvar_index, char* name, int* name_len, int* verbosity, MPI_Datatype* datatype, MPI_T_enum* enumtype, char* desc,
                    int* desc_len, int* bind, int* scope) {
  if (!within(cvar_index, controls())) return MPI_T_ERR_INVALID_INDEX;
  const config::Variable& variable = *controls()[static_cast<size_t>(cvar_index)];
  give(name, name_len, variable.environment_name());
  give(desc, desc_len, variable.help());
  give(verbosity, verbosity_of(variable.module()));
  give(datatype, type_of(variable));
  give(enumtype, variable.type() == config::Type::boolean ? no_and_yes() : MPI_T_ENUM_NULL);
  give(bind, MPI_T_BIND_NO_OBJECT);
  give(scope, MPI_T_SCOPE_ALL);
  return MPI_SUCCESS;
}

int T_cvar_get_index(const char* name, int* cvar_index) {
  const auto found = std::ranges::find(controls(), name, [](const config::Variable* v) { return v->environment_name(); });
  if (found == controls().end()) return MPI_T_ERR_INVALID_NAME;
  *cvar_index = static_cast<int>(found - controls().begin());
  return MPI_SUCCESS;
}

int T_cvar_handle_alloc(int cvar_index, void*, MPI_T_cvar_handle* handle, int* count) {
  if (!within(cvar_index, controls())) return MPI_T_ERR_INVALID_INDEX;
  config::Variable* const variable = controls()[static_cast<size_t>(cvar_index)];
  Control* const made = handles.add(std::make_unique<Control>(Control{variable, elements_of(*variable)}));
  *handle = reinterpret_cast<MPI_T_cvar_handle>(made);
  *count = made->count;
  return MPI_SUCCESS;
}

int T_cvar_handle_free(MPI_T_cvar_handle* handle) {
  const Control* const control = handles.find(*handle);
  if (!control) return MPI_T_ERR_INVALID_HANDLE;
  handles.erase(control);
  *handle = MPI_T_CVAR_HANDLE_NULL;
  return MPI_SUCCESS;
}

int T_cvar_read(MPI_T_cvar_handle handle, void* buf) {
  const Control* const control = handles.find(handle);
  if (!control) return MPI_T_ERR_INVALID_HANDLE;
  const config::Variable& variable = *control->variable;
  switch (variable.type()) {
    case config::Type::boolean: *static_cast<int*>(buf) = static_cast<const config::Bool&>(variable).get(); break;
    case config::Type::integer: *static_cast<MPI_Count*>(buf) = static_cast<const config::Integer&>(variable).get(); break;
    case config::Type::bytes:
      *static_cast<MPI_Count*>(buf) = static_cast<MPI_Count>(static_cast<const config::Bytes&>(variable).get());
      break;
    case config::Type::text: {
      int room = control->count;
      give(static_cast<char*>(buf), &room, variable.text());
    }
  }
  return MPI_SUCCESS;
}

/// Values are read when MPI starts, and some later: a change afterwards would be half a change.
int T_cvar_write(MPI_T_cvar_handle handle, const void* buf) {
  const Control* const control = handles.find(handle);
  if (!control) return MPI_T_ERR_INVALID_HANDLE;
  if (api::state.active) return MPI_T_ERR_CVAR_SET_NOT_NOW;
  std::string text;
  switch (control->variable->type()) {
    case config::Type::boolean: text = *static_cast<const int*>(buf) ? "yes" : "no"; break;
    case config::Type::integer:
    case config::Type::bytes: text = std::to_string(*static_cast<const MPI_Count*>(buf)); break;
    case config::Type::text: {
      const char* const from = static_cast<const char*>(buf);
      text.assign(from, strnlen(from, static_cast<size_t>(control->count)));
    }
  }
  return control->variable->set(text, config::Origin::program) ? MPI_SUCCESS : MPI_T_ERR_INVALID;
}

}  // namespace weft::body
