// Attributes of datatypes, keys of windows, and MPI-1's names for attributes of communicators (MPI 5.0, 7.7 and 16.1).
#include <mutex>

#include "api/generated/bodies.h"
#include "runtime/base/attributes.h"

namespace weft::body {
namespace {

int check_key(int keyval, Keyval::For target, const char* name, const char* what) {
  if (valid_keyval(keyval, target)) return MPI_SUCCESS;
  return fail(MPI_ERR_KEYVAL, "%s is %d, which is no key for %s (freed, or made for another kind of object?)", name, keyval, what);
}

template <class Copy, class Delete>
int create_key(Keyval::For target, Copy* copy, Delete* remove, int* keyval, void* extra_state) {
  *keyval = make_keyval(target, reinterpret_cast<Keyval::Copy>(copy), reinterpret_cast<Keyval::Delete>(remove), extra_state);
  return MPI_SUCCESS;
}

int free_key(int* keyval, Keyval::For target, const char* name, const char* what) {
  if (const int error = check_key(*keyval, target, name, what)) return error;
  free_keyval(*keyval);
  *keyval = MPI_KEYVAL_INVALID;
  return MPI_SUCCESS;
}

/// The attributes of a type, made on first use; predefined types are shared by threads.
Attributes& attributes_of(type::Datatype& datatype) {
  static std::mutex making;
  std::lock_guard hold(making);
  if (!datatype.attributes) datatype.attributes = new Attributes;
  return *datatype.attributes;
}

constexpr const char* kTypes = "datatypes";
constexpr const char* kWindows = "windows";

}  // namespace

int Type_create_keyval(MPI_Type_copy_attr_function* copy, MPI_Type_delete_attr_function* remove, int* type_keyval, void* extra_state) {
  return create_key(Keyval::For::datatype, copy, remove, type_keyval, extra_state);
}

int Type_free_keyval(int* type_keyval) { return free_key(type_keyval, Keyval::For::datatype, "type_keyval", kTypes); }

int Type_set_attr(type::Datatype& datatype, int type_keyval, void* attribute_val) {
  if (const int error = check_key(type_keyval, Keyval::For::datatype, "type_keyval", kTypes)) return error;
  return attributes_of(datatype).set(api::encode(&datatype), type_keyval, attribute_val);
}

int Type_get_attr(type::Datatype& datatype, int type_keyval, void* attribute_val, int* flag) {
  if (const int error = check_key(type_keyval, Keyval::For::datatype, "type_keyval", kTypes)) return error;
  *flag = attributes_of(datatype).get(type_keyval, static_cast<void**>(attribute_val));
  return MPI_SUCCESS;
}

int Type_delete_attr(type::Datatype& datatype, int type_keyval) {
  if (const int error = check_key(type_keyval, Keyval::For::datatype, "type_keyval", kTypes)) return error;
  void* value = nullptr;
  if (!attributes_of(datatype).get(type_keyval, &value))
    return fail(MPI_ERR_KEYVAL, "datatype has no attribute under type_keyval %d", type_keyval);
  return attributes_of(datatype).remove(api::encode(&datatype), type_keyval);
}

int Win_create_keyval(MPI_Win_copy_attr_function* copy, MPI_Win_delete_attr_function* remove, int* win_keyval, void* extra_state) {
  return create_key(Keyval::For::window, copy, remove, win_keyval, extra_state);
}

int Win_free_keyval(int* win_keyval) { return free_key(win_keyval, Keyval::For::window, "win_keyval", kWindows); }

int Win_create_errhandler(MPI_Win_errhandler_function* function, MPI_Errhandler* errhandler) {
  *errhandler = api::encode(comm::Errhandler::make(comm::Errhandler::For::window, reinterpret_cast<void*>(function)));
  return MPI_SUCCESS;
}

int Keyval_create(MPI_Copy_function* copy, MPI_Delete_function* remove, int* keyval, void* extra_state) {
  return Comm_create_keyval(copy, remove, keyval, extra_state);
}
int Keyval_free(int* keyval) { return Comm_free_keyval(keyval); }
int Attr_put(comm::Communicator& comm, int keyval, void* attribute_val) { return Comm_set_attr(comm, keyval, attribute_val); }
int Attr_get(comm::Communicator& comm, int keyval, void* attribute_val, int* flag) {
  return Comm_get_attr(comm, keyval, attribute_val, flag);
}
int Attr_delete(comm::Communicator& comm, int keyval) { return Comm_delete_attr(comm, keyval); }

}  // namespace weft::body
