// Error classes and codes: names, texts, and those that users add.

#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "api/generated/bodies.h"

namespace weft::api {
namespace {

struct Known {
  std::string_view name, text;
};

/// In one piece: a table.
const std::map<int, Known>& known() {
#define WEFT_ERROR(name, text) \
  {                            \
    name, { #name, text }      \
  }
  static const std::map<int, Known> table = {
      WEFT_ERROR(MPI_SUCCESS, "no error"),
      WEFT_ERROR(MPI_ERR_BUFFER, "bad buffer"),
      WEFT_ERROR(MPI_ERR_COUNT, "bad count"),
      WEFT_ERROR(MPI_ERR_TYPE, "bad datatype"),
      WEFT_ERROR(MPI_ERR_TAG, "bad tag"),
      WEFT_ERROR(MPI_ERR_COMM, "bad communicator"),
      WEFT_ERROR(MPI_ERR_RANK, "no such rank"),
      WEFT_ERROR(MPI_ERR_REQUEST, "bad request"),
      WEFT_ERROR(MPI_ERR_ROOT, "no such root"),
      WEFT_ERROR(MPI_ERR_GROUP, "bad group"),
      WEFT_ERROR(MPI_ERR_OP, "bad operation, or not defined for the datatype"),
      WEFT_ERROR(MPI_ERR_TOPOLOGY, "bad virtual topology"),
      WEFT_ERROR(MPI_ERR_DIMS, "bad dimensions"),
      WEFT_ERROR(MPI_ERR_ARG, "bad argument"),
      WEFT_ERROR(MPI_ERR_UNKNOWN, "unknown error"),
      WEFT_ERROR(MPI_ERR_TRUNCATE, "the message is longer than the receive buffer"),
      WEFT_ERROR(MPI_ERR_OTHER, "error that has no class of its own"),
      WEFT_ERROR(MPI_ERR_INTERN, "error inside the MPI library"),
      WEFT_ERROR(MPI_ERR_PENDING, "the operation is still pending"),
      WEFT_ERROR(MPI_ERR_IN_STATUS, "the error codes stand in the statuses"),
      WEFT_ERROR(MPI_ERR_ACCESS, "permission denied"),
      WEFT_ERROR(MPI_ERR_AMODE, "bad access mode of a file"),
      WEFT_ERROR(MPI_ERR_ASSERT, "bad assertion"),
      WEFT_ERROR(MPI_ERR_BAD_FILE, "bad file name"),
      WEFT_ERROR(MPI_ERR_BASE, "bad base address"),
      WEFT_ERROR(MPI_ERR_CONVERSION, "a conversion function failed"),
      WEFT_ERROR(MPI_ERR_DISP, "bad displacement"),
      WEFT_ERROR(MPI_ERR_DUP_DATAREP, "the data representation exists already"),
      WEFT_ERROR(MPI_ERR_FILE_EXISTS, "the file exists already"),
      WEFT_ERROR(MPI_ERR_FILE_IN_USE, "the file is in use"),
      WEFT_ERROR(MPI_ERR_FILE, "bad file"),
      WEFT_ERROR(MPI_ERR_INFO_KEY, "bad key of an info"),
      WEFT_ERROR(MPI_ERR_INFO_NOKEY, "no such key in the info"),
      WEFT_ERROR(MPI_ERR_INFO_VALUE, "bad value of an info"),
      WEFT_ERROR(MPI_ERR_INFO, "bad info"),
      WEFT_ERROR(MPI_ERR_IO, "input or output failed"),
      WEFT_ERROR(MPI_ERR_KEYVAL, "bad key value"),
      WEFT_ERROR(MPI_ERR_LOCKTYPE, "bad type of lock"),
      WEFT_ERROR(MPI_ERR_NAME, "no service of that name"),
      WEFT_ERROR(MPI_ERR_NO_MEM, "out of memory"),
      WEFT_ERROR(MPI_ERR_NOT_SAME, "an argument differs among the processes"),
      WEFT_ERROR(MPI_ERR_NO_SPACE, "no space left"),
      WEFT_ERROR(MPI_ERR_NO_SUCH_FILE, "no such file"),
      WEFT_ERROR(MPI_ERR_PORT, "bad port name"),
      WEFT_ERROR(MPI_ERR_QUOTA, "quota exceeded"),
      WEFT_ERROR(MPI_ERR_READ_ONLY, "the file or file system is read-only"),
      WEFT_ERROR(MPI_ERR_RMA_ATTACH, "memory cannot be attached to the window"),
      WEFT_ERROR(MPI_ERR_RMA_CONFLICT, "conflicting accesses to a window"),
      WEFT_ERROR(MPI_ERR_RMA_RANGE, "target memory is not part of the window"),
      WEFT_ERROR(MPI_ERR_RMA_SHARED, "memory cannot be shared"),
      WEFT_ERROR(MPI_ERR_RMA_SYNC, "wrong synchronisation of a window"),
      WEFT_ERROR(MPI_ERR_SERVICE, "the name is not published"),
      WEFT_ERROR(MPI_ERR_SIZE, "bad size"),
      WEFT_ERROR(MPI_ERR_SPAWN, "processes could not be started"),
      WEFT_ERROR(MPI_ERR_UNSUPPORTED_DATAREP, "unsupported data representation"),
      WEFT_ERROR(MPI_ERR_UNSUPPORTED_OPERATION, "unsupported operation"),
      WEFT_ERROR(MPI_ERR_WIN, "bad window"),
      WEFT_ERROR(MPI_ERR_RMA_FLAVOR, "wrong flavour of window"),
      WEFT_ERROR(MPI_ERR_PROC_ABORTED, "a process that takes part has failed"),
      WEFT_ERROR(MPI_ERR_VALUE_TOO_LARGE, "the value does not fit into the argument"),
      WEFT_ERROR(MPI_ERR_SESSION, "bad session"),
      WEFT_ERROR(MPI_ERR_ERRHANDLER, "bad error handler"),
      WEFT_ERROR(MPI_ERR_ABI, "the ABI does not allow this"),
      WEFT_ERROR(MPI_T_ERR_CANNOT_INIT, "the tools interface cannot be initialised"),
      WEFT_ERROR(MPI_T_ERR_NOT_ACCESSIBLE, "not accessible"),
      WEFT_ERROR(MPI_T_ERR_NOT_INITIALIZED, "the tools interface is not initialised"),
      WEFT_ERROR(MPI_T_ERR_NOT_SUPPORTED, "not supported by the tools interface"),
      WEFT_ERROR(MPI_T_ERR_MEMORY, "out of memory"),
      WEFT_ERROR(MPI_T_ERR_INVALID, "bad argument"),
      WEFT_ERROR(MPI_T_ERR_INVALID_INDEX, "no such index"),
      WEFT_ERROR(MPI_T_ERR_INVALID_ITEM, "no such item"),
      WEFT_ERROR(MPI_T_ERR_INVALID_SESSION, "bad session of the tools interface"),
      WEFT_ERROR(MPI_T_ERR_INVALID_HANDLE, "bad handle of the tools interface"),
      WEFT_ERROR(MPI_T_ERR_INVALID_NAME, "no such name"),
      WEFT_ERROR(MPI_T_ERR_OUT_OF_HANDLES, "no more handles"),
      WEFT_ERROR(MPI_T_ERR_OUT_OF_SESSIONS, "no more sessions"),
      WEFT_ERROR(MPI_T_ERR_CVAR_SET_NOT_NOW, "the variable cannot be set now"),
      WEFT_ERROR(MPI_T_ERR_CVAR_SET_NEVER, "the variable can never be set"),
      WEFT_ERROR(MPI_T_ERR_PVAR_NO_WRITE, "the variable cannot be written"),
      WEFT_ERROR(MPI_T_ERR_PVAR_NO_STARTSTOP, "the variable cannot be started and stopped"),
      WEFT_ERROR(MPI_T_ERR_PVAR_NO_ATOMIC, "the variable cannot be read and written at once"),
  };
#undef WEFT_ERROR
  return table;
}

/// A class or code that the user added.
struct Added {
  int error_class;
  bool is_class;
  bool has_text = false;
  std::string text;
};

struct Registry {
  std::mutex lock;
  std::map<int, Added> added;
  std::deque<std::string> old_texts;  // views given out stay good
  int last = MPI_ERR_LASTCODE;
};

Registry& registry() {
  static auto* all = new Registry;  // alive after exit handlers have begun
  return *all;
}

int add(int error_class, bool is_class) {
  Registry& r = registry();
  const int code = ++r.last;
  r.added.emplace(code, Added{is_class ? code : error_class, is_class, false, {}});
  return code;
}

/// What the user added under this code; null if there is nothing. Under the lock.
Added* find(int code) {
  auto at = registry().added.find(code);
  return at == registry().added.end() ? nullptr : &at->second;
}

int unknown(const char* name, int code) {
  return fail(MPI_ERR_ARG, "%s is %d, but no such class or code was added by MPI_Add_error_class or MPI_Add_error_code", name, code);
}

}  // namespace

int error_class_of(int code) {
  if (known().count(code)) return code;
  std::lock_guard hold(registry().lock);
  const Added* added = find(code);
  return added ? added->error_class : -1;
}

std::string_view error_name(int error_class) {
  auto at = known().find(error_class);
  return at == known().end() ? std::string_view() : at->second.name;
}

std::string_view error_text(int code) {
  if (auto at = known().find(code); at != known().end()) return at->second.text;
  std::lock_guard hold(registry().lock);
  const Added* added = find(code);
  return added ? std::string_view(added->text) : std::string_view("unknown error code");
}

int last_used_code() {
  std::lock_guard hold(registry().lock);
  return registry().last;
}

}  // namespace weft::api

namespace weft::body {

using namespace api;

int Add_error_class(int* errorclass) {
  std::lock_guard hold(registry().lock);
  *errorclass = add(0, true);
  return MPI_SUCCESS;
}

int Add_error_code(int errorclass, int* errorcode) {
  if (errorclass < 0 || error_class_of(errorclass) != errorclass)
    return fail(MPI_ERR_ARG, "errorclass is %d, which is no error class", errorclass);
  std::lock_guard hold(registry().lock);
  *errorcode = add(errorclass, false);
  return MPI_SUCCESS;
}

int Add_error_string(int errorcode, const char* string) {
  std::lock_guard hold(registry().lock);
  Added* added = find(errorcode);
  if (!added) return unknown("errorcode", errorcode);
  const size_t length = __builtin_strlen(string);
  if (length >= MPI_MAX_ERROR_STRING)
    return fail(MPI_ERR_ARG, "string has %zu characters, but texts have at most %d", length, MPI_MAX_ERROR_STRING - 1);
  registry().old_texts.push_back(std::move(added->text));
  added->text = string;
  added->has_text = true;
  return MPI_SUCCESS;
}

int Remove_error_class(int errorclass) {
  std::lock_guard hold(registry().lock);
  const Added* added = find(errorclass);
  if (!added || !added->is_class) return unknown("errorclass", errorclass);
  for (const auto& [code, other] : registry().added)
    if (code != errorclass && other.error_class == errorclass)
      return fail(MPI_ERR_OTHER, "errorclass %d still has the code %d: remove it first by MPI_Remove_error_code", errorclass, code);
  if (added->has_text) return fail(MPI_ERR_OTHER, "errorclass %d still has a text: remove it first by MPI_Remove_error_string", errorclass);
  registry().added.erase(errorclass);
  return MPI_SUCCESS;
}

int Remove_error_code(int errorcode) {
  std::lock_guard hold(registry().lock);
  const Added* added = find(errorcode);
  if (!added || added->is_class) return unknown("errorcode", errorcode);
  if (added->has_text) return fail(MPI_ERR_OTHER, "errorcode %d still has a text: remove it first by MPI_Remove_error_string", errorcode);
  registry().added.erase(errorcode);
  return MPI_SUCCESS;
}

int Remove_error_string(int errorcode) {
  std::lock_guard hold(registry().lock);
  Added* added = find(errorcode);
  if (!added) return unknown("errorcode", errorcode);
  if (!added->has_text) return fail(MPI_ERR_OTHER, "errorcode %d has no text", errorcode);
  registry().old_texts.push_back(std::move(added->text));
  added->text.clear();
  added->has_text = false;
  return MPI_SUCCESS;
}

int Error_class(int errorcode, int* errorclass) {
  const int found = error_class_of(errorcode);
  if (found < 0) return fail(MPI_ERR_ARG, "errorcode is %d, which is no error code", errorcode);
  *errorclass = found;
  return MPI_SUCCESS;
}

/// The text of the thread's last error if it had this code (it names the argument and the remedy), otherwise that of the class.
int Error_string(int errorcode, char* string, int* resultlen) {
  const int error_class = error_class_of(errorcode);
  if (error_class < 0) return fail(MPI_ERR_ARG, "errorcode is %d, which is no error code", errorcode);
  const std::string_view name = error_name(errorcode);
  std::string text(name);
  if (!name.empty()) text += ": ";
  const std::string_view detail = name.empty() || errorcode == MPI_SUCCESS ? std::string_view() : last_raised(errorcode);
  text += detail.empty() ? error_text(errorcode) : detail;
  *resultlen = static_cast<int>(text.copy(string, MPI_MAX_ERROR_STRING - 1));
  string[*resultlen] = 0;
  return MPI_SUCCESS;
}

}  // namespace weft::body
