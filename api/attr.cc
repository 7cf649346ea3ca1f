// Attributes of communicators (MPI 5.0, 7.7.2). Those of datatypes stand with the datatypes.
#include "api/generated/bodies.h"
#include "api/handles.h"
#include "api/raise.h"
#include "runtime/base/attributes.h"
#include "runtime/base/error.h"

namespace weft::body {

using namespace api;

namespace {

/// Predefined attributes are answered for every communicator; values are ints that live as long as the process.
const int* predefined_attribute(const comm::Communicator& comm, int keyval) {
  static const int tag_ub = kTagUb, host = MPI_PROC_NULL, io = MPI_ANY_SOURCE, wtime_is_global = 0;
  static int appnum, universe_size, last_used_code;
  switch (keyval) {
    case MPI_TAG_UB: return &tag_ub;
    case MPI_HOST: return &host;
    case MPI_IO: return &io;
    case MPI_WTIME_IS_GLOBAL: return &wtime_is_global;
    case MPI_APPNUM: appnum = comm.instance->job().appnum; return appnum < 0 ? nullptr : &appnum;
    case MPI_UNIVERSE_SIZE: universe_size = static_cast<int>(comm.instance->job().universe_size); return &universe_size;
    case MPI_LASTUSEDCODE: last_used_code = api::last_used_code(); return &last_used_code;
    default: return nullptr;
  }
}

bool predefined_key(int keyval) { return keyval >= MPI_TAG_UB && keyval <= MPI_UNIVERSE_SIZE; }

int check_key(int keyval) {
  if (predefined_key(keyval)) return fail(MPI_ERR_KEYVAL, "comm_keyval = %d is predefined and cannot be changed", keyval);
  if (!valid_keyval(keyval, Keyval::For::communicator))
    return fail(MPI_ERR_KEYVAL, "comm_keyval = %d is no key for communicators (freed, or made for another kind of object?)", keyval);
  return MPI_SUCCESS;
}

}  // namespace

int Comm_create_keyval(MPI_Comm_copy_attr_function* copy, MPI_Comm_delete_attr_function* remove, int* comm_keyval, void* extra_state) {
  *comm_keyval =
      make_keyval(Keyval::For::communicator, reinterpret_cast<Keyval::Copy>(copy), reinterpret_cast<Keyval::Delete>(remove), extra_state);
  return MPI_SUCCESS;
}

int Comm_free_keyval(int* comm_keyval) {
  if (const int error = check_key(*comm_keyval)) return error;
  free_keyval(*comm_keyval);
  *comm_keyval = MPI_KEYVAL_INVALID;
  return MPI_SUCCESS;
}

int Comm_set_attr(comm::Communicator& comm, int comm_keyval, void* attribute_val) {
  if (const int error = check_key(comm_keyval)) return error;
  return comm.attributes.set(handle_of(comm), comm_keyval, attribute_val);
}

int Comm_get_attr(comm::Communicator& comm, int comm_keyval, void* attribute_val, int* flag) {
  void** out = static_cast<void**>(attribute_val);
  if (predefined_key(comm_keyval)) {
    const int* value = predefined_attribute(comm, comm_keyval);
    *flag = value != nullptr;
    if (value) *out = const_cast<int*>(value);
    return MPI_SUCCESS;
  }
  if (const int error = check_key(comm_keyval)) return error;
  *flag = comm.attributes.get(comm_keyval, out);
  return MPI_SUCCESS;
}

int Comm_delete_attr(comm::Communicator& comm, int comm_keyval) {
  if (const int error = check_key(comm_keyval)) return error;
  void* value = nullptr;
  if (!comm.attributes.get(comm_keyval, &value)) return fail(MPI_ERR_KEYVAL, "comm has no attribute under key %d", comm_keyval);
  return comm.attributes.remove(handle_of(comm), comm_keyval);
}

}  // namespace weft::body
